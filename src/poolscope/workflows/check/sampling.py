"""Sample reports in batches that fit into memory, and read their columns.

Noise that is added to a number in floating point leaves traces in the last bits: 1 + noise is a multiple of 2^-53 where
noise alone is not. The last bits may therefore distinguish 0 from 1 however large the noise is.

A mechanism may fail for one object of hundreds. A screening sample of many objects shows which bit, value or whole
report is specific to one of them. It only nominates objects, which are then tested on other reports.

References
----------
I. Mironov. On significance of the least significant bits for differential privacy. CCS 2012.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arrays import Floats, Integers, Keys, Objects
from poolscope.core.errors import InputError
from poolscope.core.randomness import fresh_keys
from poolscope.mechanisms.custom import Adapted, as_columns
from poolscope.mechanisms.protocols import Mechanism, Reports, report_count
from poolscope.mechanisms.pure import (
    MechanismDefaults,
    declared_columns,
)
from poolscope.workflows.check.distribution import (
    ReportSample,
)

#: Placeholder for the last bit of a number without one: zero, infinity, not a number.
NO_BIT = 4096


@dataclass(frozen=True, kw_only=True)
class ColumnFeature:
    """A number of each report: a column, or an entry of a wide one, and what is read from it.

    kind : "value", the number itself; "grid", the exponent of the largest power of two that divides it;
        "zeros", the number of trailing zero bits of its mantissa.
    """

    column: str
    part: int | None = None
    kind: Literal["value", "grid", "zeros"] = "value"

    def __str__(self) -> str:
        return self.column if self.part is None else f"{self.column}[{self.part}]"

    def of(self, reports: Reports) -> NDArray[Any]:
        """Return the feature of each report, (reports,)."""
        column = reports[self.column]
        return self.read(column if self.part is None else column[:, self.part])

    def read(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the feature of the values of the column or entry, (reports,)."""
        if self.kind == "value":
            return values
        exponent, zeros = last_bit(values)
        return exponent if self.kind == "grid" else zeros

    def describe(self, cut: float, above: bool) -> str:
        """Describe that the feature is at least the threshold, or below it."""
        if self.kind == "grid":
            return f"{self} is {'a' if above else 'no'} multiple of 2^{cut:.0f}"
        if self.kind == "zeros":
            return f"the last {cut:.0f} bits of {self} are {'' if above else 'not '}all 0"
        return f"{self} is {'at least' if above else 'below'} {cut:g}"


@dataclass(frozen=True, kw_only=True)
class BitColumn:
    """A column of bits, packed into bytes (least significant first) or one entry each.

    one : the entry that stands for a set bit; None where bits are packed.
    """

    column: str
    size: int
    one: Any = None

    def at(self, column: NDArray[Any], bits: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether some of the bits are set, (reports, bits)."""
        if self.one is not None:
            chosen: NDArray[np.bool_] = column[:, bits] == self.one
            return chosen
        return (column[:, bits >> 3] >> (bits & 7).astype(np.uint8) & 1).astype(bool)

    def matrix(self, column: NDArray[Any]) -> NDArray[np.uint8]:
        """Return the bits as numbers, (reports, size)."""
        if self.one is not None:
            bits: NDArray[np.uint8] = (column == self.one).astype(np.uint8)
            return bits
        return np.unpackbits(column, axis=1, bitorder="little", count=self.size)

    def ones(self, column: NDArray[Any]) -> NDArray[np.int64]:
        """Return the number of set bits, (reports,)."""
        set_bits = np.bitwise_count(column) if self.one is None else column == self.one
        count: NDArray[np.int64] = set_bits.sum(axis=1, dtype=np.int64)
        return count


def bit_column(name: str, samples: Sequence[NDArray[Any]], declared: int | None) -> BitColumn | None:
    """Return the column as bits where it is one: declared bits, bytes, or entries with two distinct values."""
    if samples[0].ndim != 2:
        return None
    if declared is not None:
        return BitColumn(column=name, size=declared)
    if samples[0].dtype == np.uint8 and any(np.any(sample > 1) for sample in samples):
        return BitColumn(column=name, size=8 * samples[0].shape[1])
    values = np.unique(np.concatenate([np.unique(sample) for sample in samples]))
    return BitColumn(column=name, size=samples[0].shape[1], one=values[1]) if len(values) == 2 else None


def last_bit(values: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the exponent of the last set bit of each number, and the number of mantissa bits after it."""
    numbers = np.asarray(values, dtype=np.float64)
    has = np.isfinite(numbers) & (numbers != 0)
    mantissa, exponent = np.frexp(np.where(has, numbers, 1.0))
    whole = np.abs(np.ldexp(mantissa, 53)).astype(np.int64)
    zeros = np.frexp((whole & -whole).astype(np.float64))[1].astype(np.int64) - 1
    return np.where(has, exponent - 53 + zeros, NO_BIT), np.where(has, zeros, NO_BIT)


def bit_identical(values: NDArray[Any]) -> NDArray[Any]:
    """Return values that are equal only for identical inputs: floats by their bits, as -0.0 is not 0.0."""
    return np.asarray(values, dtype=np.float64).view(np.int64) if values.dtype.kind == "f" else values


def fingerprints(reports: Reports) -> NDArray[np.uint64]:
    """Return 64 bits that are equal for equal reports, (reports,); collisions are negligible."""
    out = np.zeros(report_count(reports), dtype=np.uint64)
    for column in reports.values():
        for word in _words(np.ascontiguousarray(column).reshape(len(out), -1)).T:
            out = (out ^ word) * np.uint64(0x9E3779B97F4A7C15)
            out ^= out >> np.uint64(29)
    return out


def _words(column: NDArray[Any]) -> NDArray[np.uint64]:
    """Return the content of the column as 64-bit words, (reports, words)."""
    if column.dtype == np.uint8:
        return np.pad(column, ((0, 0), (0, -column.shape[1] % 8))).view(np.uint64)
    if column.dtype.kind == "f":
        return column.astype(np.float64).view(np.uint64)
    return column.astype(np.int64).view(np.uint64)


#: Bytes of reports, and reports, of a batch.
BYTES_AT_ONCE, REPORTS_AT_ONCE = 1 << 25, 1 << 13
#: The method that makes the reports: `obfuscate` draws from a generator, `report` from a key of each report.
Method = Literal["obfuscate", "report"]


class Stage(IntEnum):
    """The purpose of reports; every stage has random streams of its own."""

    LEARN = 0
    CHOOSE = 1
    TEST = 2
    LEARN_MORE = 3
    REPEAT = 4
    ALLOCATE = 5
    SCREEN = 6


def split_evenly(count: int, parts: int) -> list[int]:
    """Split a count into nearly equal parts."""
    edges = np.linspace(0, count, parts + 1).astype(int)
    return [int(b - a) for a, b in pairwise(edges)]


@dataclass(frozen=True, kw_only=True)
class Sampler:
    """Makes reports of the tested objects, by one of the mechanism's methods."""

    mechanism: Mechanism
    objects: tuple[int, ...]
    seed: int
    method: Method = "obfuscate"

    def draw(self, stage: Stage, position: int, count: int, round_number: int = 0) -> Iterator[ReportSample]:
        """Yield reports of one object in batches that fit into memory; every round of a stage draws others."""
        rng = self.generator(stage, position + round_number * len(self.objects))
        left, at_once = count, 64
        while left:
            size = min(left, at_once)
            reports = self.make(np.full(size, self.objects[position], dtype=np.int64), rng)
            yield ReportSample(mechanism=self.mechanism, reports=reports)
            left -= size
            at_once = int(np.clip(BYTES_AT_ONCE // max(1, bytes_of(reports)), 64, REPORTS_AT_ONCE))

    def generator(self, stage: Stage, number: int) -> np.random.Generator:
        """Return one of the generators of a stage."""
        key = (int(stage), number) if self.method == "obfuscate" else (int(stage), number, 1)
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=key))

    def make(self, objects: Objects, rng: np.random.Generator) -> Reports:
        """Make a report of each object in one call of the mechanism."""
        if self.method == "report":
            return self.from_keys(objects, fresh_keys(rng, len(objects)))
        return _numbers(as_columns(self.mechanism.obfuscate(objects, rng), len(objects))[0])

    def from_keys(self, objects: Objects, keys: Keys) -> Reports:
        """Make a report of each object from its key."""
        return _numbers(as_columns(self.mechanism.report(objects, keys), len(objects))[0])

    def sample_in_memory(self, stage: Stage, position: int, count: int) -> ReportSample:
        """Return reports that are held in memory at once, hence no more than fit."""
        parts: list[ReportSample] = []
        held = 0
        for part in self.draw(stage, position, count):
            parts.append(part)
            held += bytes_of(part.reports) * report_count(part.reports)
            if held > BYTES_AT_ONCE:
                break
        return ReportSample(mechanism=self.mechanism, reports=concatenated([part.reports for part in parts]))


def _numbers(reports: Reports) -> Reports:
    """Return the reports, after checking that their columns are numbers."""
    for name, column in reports.items():
        if column.dtype.kind not in "biuf" or 0 in column.shape[1:]:
            value = f"{column.dtype} {column.shape}"
            raise InputError("reports must be real numbers", value=value, place=name, remedy="number the values")
    return reports


def obfuscates_by_report(mechanism: Any) -> bool:
    """Return whether `obfuscate` is inherited: it draws a key for each report and calls `report`."""
    return getattr(type(mechanism), "obfuscate", None) is MechanismDefaults.obfuscate


def has_own_report(mechanism: Any) -> bool:
    """Return whether `report` is other code than `obfuscate`; otherwise testing one tests the other."""
    return callable(getattr(mechanism, "report", None)) and not obfuscates_by_report(mechanism)


def reads_keys(mechanism: Any) -> bool:
    """Return whether `report` is the mechanism's own and draws from keys; an adapted mechanism may lack it."""
    own = mechanism.mechanism if isinstance(mechanism, Adapted) else mechanism
    return callable(getattr(own, "report", None))


def concatenated(parts: Sequence[Reports]) -> Reports:
    """Concatenate reports."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def bytes_of(reports: Reports) -> int:
    """Return the bytes of one report."""
    return sum(column.nbytes for column in reports.values()) // max(1, report_count(reports))


#: Objects of the screening sample at most, and reports of each on average.
MAX_SCREENED, REPORTS_EACH = 2048, 8
#: Bytes of the screening sample.
MAX_BYTES = 4 * BYTES_AT_ONCE
#: Objects times bits, or values, that are counted at most.
MAX_CELLS = 1 << 24
#: Objects that are nominated at most: by the rate of a bit or value, and by repeated reports.
MAX_BY_RATE, MAX_BY_REPEATS = 3, 1
#: Standard errors by which a rate must differ, and repeated reports of an object, at least.
MIN_STANDARD_ERRORS, MIN_REPEATS = 3.0, 3


@dataclass(frozen=True, kw_only=True)
class Screening:
    """Reports of objects that were drawn uniformly.

    objects : (k,) increasing; drawn : (reports,) positions among them.
    """

    mechanism: Mechanism
    objects: Integers
    drawn: Integers
    reports: Reports

    def bits(self) -> Iterator[BitColumn]:
        """Yield the columns of bits."""
        declared = declared_columns(self.mechanism)
        for name, column in self.reports.items():
            known = declared.get(name)
            found = bit_column(name, [column], known.size if known is not None and known.kind == "bits" else None)
            if found is not None:
                yield found

    def part(self, rows: NDArray[np.intp] | slice) -> Reports:
        """Return some of the reports."""
        return {name: column[rows] for name, column in self.reports.items()}


def draw_screening(sampler: Sampler, count: int, objects: Sequence[int] | None = None) -> Screening:
    """Make reports of objects drawn uniformly from the given ones, or from as many as there are samples for."""
    rng, universe = sampler.generator(Stage.SCREEN, 0), sampler.mechanism.universe
    if objects is None:
        most = int(np.clip(count // REPORTS_EACH, 2, MAX_SCREENED))
        chosen = np.arange(universe) if universe <= most else np.sort(rng.choice(universe, most, replace=False))
    else:
        chosen = np.sort(np.array(objects, dtype=np.int64))
    drawn = rng.integers(len(chosen), size=count)
    generator, parts, start, at_once = sampler.generator(Stage.SCREEN, 1), [], 0, 64
    while start < count:
        part = sampler.make(chosen[drawn[start : start + at_once]], generator)
        parts.append(part)
        start += at_once
        at_once = int(np.clip(BYTES_AT_ONCE // max(1, bytes_of(part)), 64, REPORTS_AT_ONCE))
        count = min(count, max(start, MAX_BYTES // max(1, bytes_of(part))))
    reports = concatenated(parts)
    return Screening(
        mechanism=sampler.mechanism, objects=chosen, drawn=drawn[: min(start, len(drawn))], reports=reports
    )


def conspicuous_objects(screening: Screening) -> list[int]:
    """Return the objects whose reports differ most from those of others, the most conspicuous first."""
    trials = np.bincount(screening.drawn, minlength=len(screening.objects))
    best = np.full(len(screening.objects), -np.inf)
    for counts in _column_counts(screening):
        for hits in (counts, trials[:, None] - counts):
            np.maximum(best, _excess(hits, trials).max(axis=1), out=best)
    by_rate = [p for p in np.argsort(-best, kind="stable")[:MAX_BY_RATE] if best[p] > 0]
    repeated = _repeat_counts(screening)
    typical = np.median(repeated)
    by_repeats = [
        p for p in np.argsort(-repeated, kind="stable")[:MAX_BY_REPEATS] if repeated[p] >= MIN_REPEATS + 2 * typical
    ]
    return [int(screening.objects[p]) for p in dict.fromkeys([*by_repeats, *by_rate])]


def bit_counts(
    screening: Screening, bits: BitColumn, rows: NDArray[np.bool_] | None = None
) -> NDArray[np.int64] | None:
    """Count the reports of each object in which each bit is set, (objects, bits); None where there are too many.

    rows : which of the reports count; all by default.
    """
    if len(screening.objects) * bits.size > MAX_CELLS:
        return None
    counts = np.zeros((len(screening.objects), bits.size), dtype=np.int64)
    order = np.argsort(screening.drawn if rows is None else np.where(rows, screening.drawn, -1), kind="stable")
    order = order[0 if rows is None else int((~rows).sum()) :]
    step = max(1, MAX_CELLS // bits.size)
    for start in range(0, len(order), step):
        part = order[start : start + step]
        drawn, first = np.unique(screening.drawn[part], return_index=True)
        matrix = bits.matrix(screening.reports[bits.column][part])
        counts[drawn] += np.add.reduceat(matrix, first, axis=0, dtype=np.int64)
    return counts


def _column_counts(screening: Screening) -> Iterator[NDArray[np.int64]]:
    """Yield, column by column, the reports of each object that have each bit or value, (objects, bits or values)."""
    bits = {found.column: found for found in screening.bits()}
    for name, column in screening.reports.items():
        if name in bits:
            counts = bit_counts(screening, bits[name])
            if counts is not None:
                yield counts
        elif column.ndim == 1 and column.dtype.kind in "iubSU":
            values, which = np.unique(column, return_inverse=True)
            if len(values) > 1 and len(screening.objects) * len(values) <= MAX_CELLS:
                cells = np.bincount(
                    screening.drawn * len(values) + which, minlength=len(screening.objects) * len(values)
                )
                yield cells.reshape(len(screening.objects), len(values))


def _excess(hits: NDArray[np.int64], trials: NDArray[np.int64]) -> Floats:
    """Return the log of an object's rate over that of all others, less some standard errors, (objects, events)."""
    others = hits.sum(axis=0) - hits + 0.5
    rest = (trials.sum() - trials + 1.0)[:, None]
    own = hits + 0.5
    ratio = np.log(own / (trials + 1.0)[:, None]) - np.log(others / rest)
    excess: Floats = ratio - MIN_STANDARD_ERRORS * np.sqrt(1.0 / own + 1.0 / others)
    return excess


def _repeat_counts(screening: Screening) -> NDArray[np.int64]:
    """Count the reports of each object that equal an earlier one of its own, (objects,)."""
    pairs = np.unique(np.column_stack([screening.drawn.astype(np.uint64), fingerprints(screening.reports)]), axis=0)
    distinct = np.bincount(pairs[:, 0].astype(np.int64), minlength=len(screening.objects))
    return np.bincount(screening.drawn, minlength=len(screening.objects)) - distinct
