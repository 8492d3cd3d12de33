"""Sample reports to check a mechanism with, in parts that fit into memory, and choose events from a first look."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arrays import Floats, Keys, Objects
from poolscope.core.randomness import fresh_keys
from poolscope.mechanisms.custom import Adapted, as_columns
from poolscope.mechanisms.protocols import Mechanism, ReportColumn, Reports, report_count
from poolscope.mechanisms.pure import MechanismDefaults, sum_over_reports
from poolscope.workflows.check.distribution import Share, stated, states_law, support_shares
from poolscope.workflows.check.events import (
    NONE,
    SLACK,
    Among,
    Beyond,
    BitColumn,
    Bits,
    Equals,
    Family,
    Likelier,
    Reading,
    Seen,
    bit_column,
    difference,
    exactly,
    fingerprints,
    integers,
)
from poolscope.workflows.check.marks import MAX_VALUES, Target, given, keyed

#: Bytes of reports, and reports, that are held at once.
BYTES_AT_ONCE, REPORTS_AT_ONCE = 1 << 25, 1 << 13
#: Reports times objects for which supports are counted.
CELLS_COUNTED = 1 << 28

#: The method that makes the reports: `obfuscate` draws from a generator, `report` from a key of each report.
Method = Literal["obfuscate", "report"]


class Stage(IntEnum):
    """What reports are made for; every stage draws its own."""

    LOOK = 0
    CHOOSE = 1
    TEST = 2
    LOOK_AGAIN = 3
    REPEAT = 4
    SPREAD = 5
    WIDE = 6


def spread(count: int, parts: int) -> list[int]:
    """A count in so many nearly equal parts."""
    edges = np.linspace(0, count, parts + 1).astype(int)
    return [int(b - a) for a, b in pairwise(edges)]


@dataclass(frozen=True, kw_only=True)
class Sampler:
    """Makes reports of the tried objects, by one of the mechanism's methods."""

    mechanism: Mechanism
    objects: tuple[int, ...]
    seed: int
    method: Method = "obfuscate"

    def draw(self, stage: Stage, position: int, count: int, turn: int = 0) -> Iterator[Seen]:
        """So many reports of one object, in parts that fit into memory; every turn of a stage draws others."""
        rng = self.generator(stage, position + turn * len(self.objects))
        left, at_once = count, 64
        while left:
            size = min(left, at_once)
            reports = self.make(np.full(size, self.objects[position], dtype=np.int64), rng)
            yield Seen(mechanism=self.mechanism, reports=reports)
            left -= size
            at_once = int(np.clip(BYTES_AT_ONCE // max(1, bytes_of(reports)), 64, REPORTS_AT_ONCE))

    def generator(self, stage: Stage, number: int) -> np.random.Generator:
        """One of a stage's generators."""
        key = (int(stage), number) if self.method == "obfuscate" else (int(stage), number, 1)
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=key))

    def make(self, objects: Objects, rng: np.random.Generator) -> Reports:
        """A report of each object, by one call of the mechanism."""
        if self.method == "report":
            return self.keyed(objects, fresh_keys(rng, len(objects)))
        return as_columns(self.mechanism.obfuscate(objects, rng), len(objects))[0]

    def keyed(self, objects: Objects, keys: Keys) -> Reports:
        """A report of each object, drawn from its key."""
        return as_columns(self.mechanism.report(objects, keys), len(objects))[0]

    def look(self, stage: Stage, position: int, count: int) -> Seen:
        """Reports that are held all at once, hence no more than fit."""
        parts: list[Seen] = []
        held = 0
        for part in self.draw(stage, position, count):
            parts.append(part)
            held += bytes_of(part.reports) * report_count(part.reports)
            if held > BYTES_AT_ONCE:
                break
        return Seen(mechanism=self.mechanism, reports=joined([part.reports for part in parts]))


def obfuscates_by_report(mechanism: Any) -> bool:
    """Whether `obfuscate` is our own: it draws a key for each report, and leaves the rest to `report`."""
    return getattr(type(mechanism), "obfuscate", None) is MechanismDefaults.obfuscate


def has_own_report(mechanism: Any) -> bool:
    """Whether `report` is other code than `obfuscate`: where it is not, testing the one tests the other."""
    return callable(getattr(mechanism, "report", None)) and not obfuscates_by_report(mechanism)


def reads_keys(mechanism: Any) -> bool:
    """Whether `report` is the mechanism's own, and draws from keys; an adapted mechanism may leave that to us."""
    own = mechanism.mechanism if isinstance(mechanism, Adapted) else mechanism
    return callable(getattr(own, "report", None))


def joined(parts: Sequence[Reports]) -> Reports:
    """Some reports, and then others."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def bytes_of(reports: Reports) -> int:
    """Bytes of one report."""
    return sum(column.nbytes for column in reports.values()) // max(1, report_count(reports))


class Supports:
    """Counts which objects the reports of each tried object support, of as many reports as is affordable."""

    def __init__(self, sampler: Sampler) -> None:
        self.mechanism: Any = sampler.mechanism
        self.objects = sampler.objects
        self.known = all(stated(self.mechanism, name) is not None for name in ("p_star", "q_star"))
        self.most = CELLS_COUNTED // (self.mechanism.universe * len(self.objects))
        self.counts = np.zeros((len(self.objects), self.mechanism.universe if self.known else 0), dtype=np.int64)
        self.trials = np.zeros(len(self.objects), dtype=np.int64)

    def add(self, position: int, reports: Reports) -> None:
        some = min(report_count(reports), max(0, self.most - int(self.trials[position])))
        if self.known and some:
            part = {name: column[:some] for name, column in reports.items()}
            self.counts[position] += self._counted(part)
            self.trials[position] += some

    def _counted(self, reports: Reports) -> NDArray[np.int64]:
        """(universe,) how many of the reports support each object; a mechanism of one's own may have supports only."""
        if hasattr(self.mechanism, "support_counts"):
            counts: NDArray[np.int64] = self.mechanism.support_counts(reports)
            return counts
        return sum_over_reports(self.mechanism.support, reports, self.mechanism.universe)

    def shares(self) -> tuple[Share, ...]:
        return support_shares(self.mechanism, self.objects, self.trials.tolist(), self.counts) if self.known else ()


#: Bits, cuts, and parts of wide columns, whose rates differ most between objects.
MAX_BITS = 32
#: How many bits must be set, and how many must not be, where an event is of several.
TOGETHER = (1, 2, 4)
#: Cuts through a column of many values.
CUTS = 15
#: Quantiles at which the stated likelihood ratio is cut.
LEVELS = (0.0, 0.5, 0.9, 1.0)
#: Ways to join columns.
MAX_JOINS = 8
#: Share of the reports that may have a key of their own, where a column is to be a key.
FRESH_KEYS = 0.9
#: Reports of an object under each key: as many show its mark, and fewer than these do not.
ENOUGH_HITS, FEWEST = 16, 1


def learn(looks: Sequence[Seen], objects: Sequence[int], columns: Mapping[str, ReportColumn]) -> Iterator[Family]:
    """Families of events worth trying, from reports of each tried object."""
    pairs = np.array([(a, b) for a in range(len(objects)) for b in range(len(objects)) if a != b]).reshape(-1, 2)
    if states_law(looks[0].mechanism) and len(pairs):
        yield _likelier(looks, tuple(objects), pairs)
    for name in looks[0].reports:
        declared = columns.get(name)
        yield from _of_column(name, declared, [look.reports[name] for look in looks], objects, pairs)
    yield from _whole(looks, objects, pairs)
    yield from learn_joined(looks, objects, columns)


def learn_joined(
    looks: Sequence[Seen], objects: Sequence[int], columns: Mapping[str, ReportColumn]
) -> Iterator[Family]:
    """Events that join a hash, a cohort or the like with another column, where there are reports enough of each."""
    reports = [look.reports for look in looks]
    for keys, target, count in _joins(looks, columns):
        if count * FEWEST * len(looks) <= sum(map(report_count, reports)):
            yield from keyed(reports, objects, keys, target)


def needs_more(looks: Sequence[Seen], columns: Mapping[str, ReportColumn]) -> bool:
    """Whether columns may be joined for which a look at so many reports is too short."""
    reports = sum(report_count(look.reports) for look in looks)
    return any(count * ENOUGH_HITS * len(looks) > reports for _, _, count in _joins(looks, columns))


def _joins(looks: Sequence[Seen], columns: Mapping[str, ReportColumn]) -> list[tuple[tuple[str, ...], Target, int]]:
    """Columns that make a key, the column in which something may hang from it, and how many keys there are."""
    first = looks[0].reports
    whole = [name for name, column in first.items() if column.ndim == 1 and column.dtype.kind in "iub"]
    targets = [t for name in first if (t := _target(name, looks, columns.get(name))) is not None]
    # bits first: a column that is a key itself is rarely what hangs from one
    targets.sort(key=lambda target: target.bits is None)
    joins: list[tuple[tuple[str, ...], Target, int]] = []
    for target in targets:
        others = tuple(name for name in whole if name != target.column)
        for keys in dict.fromkeys([others, *((name,) for name in others)] if others else []):
            found = np.concatenate([fingerprints({name: look.reports[name] for name in keys}) for look in looks])
            count = len(np.unique(found))
            if 1 < count < FRESH_KEYS * len(found) and len(joins) < MAX_JOINS:
                joins.append((keys, target, count))
    return joins


def _target(name: str, looks: Sequence[Seen], declared: ReportColumn | None) -> Target | None:
    """A column as something that may depend on a key: bits, or few values."""
    columns = [look.reports[name] for look in looks]
    bits = bit_column(name, columns, _declared_bits(declared))
    if bits is not None:
        return Target(column=name, bits=bits)
    if columns[0].ndim != 1 or columns[0].dtype.kind not in "iub":
        return None
    values = np.unique(np.concatenate(columns))
    return Target(column=name, values=values) if 1 < len(values) <= MAX_VALUES else None


def _declared_bits(declared: ReportColumn | None) -> int | None:
    """How many bits a column is declared to have."""
    return declared.size if declared is not None and declared.kind == "bits" else None


def _likelier(looks: Sequence[Seen], objects: tuple[int, ...], pairs: NDArray[np.int64]) -> Likelier:
    one, other, cut = [], [], []
    logs = [look.log_likelihood(objects) for look in looks]
    for a, b in pairs:
        ratio = difference(logs[a][:, a], logs[a][:, b])
        favoring = np.sort(ratio[ratio > SLACK])
        if len(favoring):
            levels = [favoring[int(level * (len(favoring) - 1))] for level in LEVELS]
            for value in dict.fromkeys(round(float(level), 9) for level in levels):
                one.append(a)
                other.append(b)
                cut.append(value)
    return Likelier(objects=objects, one=integers(one), other=integers(other), cut=np.array(cut, dtype=np.float64))


def _of_column(
    name: str,
    declared: ReportColumn | None,
    looks: Sequence[NDArray[Any]],
    objects: Sequence[int],
    pairs: NDArray[np.int64],
) -> Iterator[Family]:
    """Events of one column: of its bits, of its parts where it is wide, of its values."""
    bits = bit_column(name, looks, _declared_bits(declared))
    if bits is not None:
        yield _bits(bits, looks, pairs)
    elif looks[0].ndim == 2:
        means = np.array([look.mean(axis=0) for look in looks])
        for part in np.argsort(np.ptp(means, axis=0))[::-1][:MAX_BITS]:
            yield from _values(Reading(column=name, part=int(part)), [look[:, part] for look in looks])
    elif looks[0].ndim == 1:
        yield from _values(Reading(column=name), looks, declared is not None and declared.kind == "object")
        if len(np.unique(exactly(np.concatenate(looks)))) > MAX_VALUES and len(pairs):
            yield from given([{name: look} for look in looks], objects, name)


def _values(reading: Reading, looks: Sequence[NDArray[Any]], objects: bool = False) -> Iterator[Family]:
    """Events of a number: each value where they are few, else those that come again, and cuts."""
    pooled = np.concatenate(looks)
    _, first, counts = np.unique(exactly(pooled), return_index=True, return_counts=True)
    values = pooled[first]
    if len(values) <= MAX_VALUES:
        yield Equals(reading=reading, values=values, objects=objects)
        return
    again = np.flatnonzero(counts > 1)
    if len(again):
        often = values[again[np.argsort(-counts[again], kind="stable")][:MAX_BITS]]
        yield Equals(reading=reading, values=often, objects=objects)
    if np.issubdtype(values.dtype, np.number):
        ordered = np.sort(pooled)
        yield _beyond(reading, np.unique(ordered[np.linspace(0, len(ordered) - 1, CUTS + 2).astype(int)[1:-1]]))
    if values.dtype.kind == "f":
        yield from _of_floats(reading, looks)


def _of_floats(reading: Reading, looks: Sequence[NDArray[Any]]) -> Iterator[Beyond]:
    """Events of how floating-point numbers are built: on which grid they are, how many of their last bits are 0."""
    for of in (replace(reading, kind="grid"), replace(reading, kind="zeros")):
        read = [of.read(look) for look in looks]
        cuts = np.unique(np.concatenate(read))[1:]
        if len(cuts):
            rates = np.array([[(values >= cut).mean() for cut in cuts] for values in read])
            yield _beyond(of, cuts[np.argsort(np.ptp(rates, axis=0), kind="stable")[::-1][:MAX_BITS]])


def _beyond(reading: Reading, cuts: NDArray[Any]) -> Beyond:
    return Beyond(reading=reading, cuts=np.tile(cuts, 2), above=np.repeat([True, False], len(cuts)))


def _bits(column: BitColumn, looks: Sequence[NDArray[Any]], pairs: NDArray[np.int64]) -> Bits:
    """Single bits whose rates differ most, and for each pair of objects those that the one sets and the other does not.

    With unary encoding no single bit spends epsilon, and two do; a Bloom filter takes more.
    """
    rates = np.array([bit_rates(look, column) for look in looks])
    most = np.argsort(np.ptp(rates, axis=0))[::-1][:MAX_BITS]
    together = [count for count in TOGETHER if 2 * count <= column.size]
    single, width = len(most), max([1, *together])
    events = 2 * single + len(together) * len(pairs)
    ones, zeros = np.full((2, events, width), NONE)
    ones[:single, 0], zeros[single : 2 * single, 0] = most, most
    if len(pairs) and together:
        order = np.argsort(rates[pairs[:, 0]] - rates[pairs[:, 1]], axis=1, kind="stable")
        for start, count in zip(range(2 * single, events, len(pairs)), together, strict=True):
            ones[start : start + len(pairs), :count] = order[:, ::-1][:, :count]
            zeros[start : start + len(pairs), :count] = order[:, :count]
    return Bits(column=column, ones=ones, zeros=zeros)


def _whole(looks: Sequence[Seen], objects: Sequence[int], pairs: NDArray[np.int64]) -> Iterator[Family]:
    """Sets of whole reports: the most telling first, where the reports are few; else those sent before."""
    found = [fingerprints(look.reports) for look in looks]
    prints, first = np.unique(np.concatenate(found), return_index=True)
    if not len(pairs):
        return
    if len(prints) > MAX_VALUES:
        yield from given([look.reports for look in looks], objects, None)
        return
    counts = np.array([np.bincount(np.searchsorted(prints, f), minlength=len(prints)) for f in found])
    rates = (counts + 0.5) / (counts.sum(axis=1, keepdims=True) + 1.0)
    sizes = np.unique(np.geomspace(1, len(prints), 8).astype(int))[:-1]
    chosen = np.zeros((len(pairs) * len(sizes), len(prints)), dtype=bool)
    for row, (a, b) in enumerate(pairs):
        order = np.argsort(rates[b] / rates[a], kind="stable")
        for column, size in enumerate(sizes):
            chosen[row * len(sizes) + column, order[:size]] = True
    starts = np.cumsum([0, *(report_count(look.reports) for look in looks)])
    shown = []
    for i in first:
        look = int(np.searchsorted(starts, i, side="right")) - 1
        columns = looks[look].reports.items()
        shown.append(", ".join(f"{name} {_written(column[i - starts[look]])}" for name, column in columns))
    if len(chosen):
        yield Among(prints=prints, chosen=chosen, written=tuple(shown))


def bit_rates(column: NDArray[Any], bits: BitColumn) -> Floats:
    """(size,) share of the reports in which each bit is set."""
    ones = np.zeros(bits.size, dtype=np.int64)
    at_once = max(1, (1 << 24) // bits.size)
    for start in range(0, len(column), at_once):
        ones += bits.matrix(column[start : start + at_once]).sum(axis=0, dtype=np.int64)
    return ones / max(1, len(column))


def _written(value: NDArray[Any] | np.generic) -> str:
    return " ".join(map(str, np.atleast_1d(value)))
