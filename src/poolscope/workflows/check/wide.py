"""Reports of many objects, a few of each: which objects stand out, and are tried more closely.

A mechanism may fail for one object of hundreds. Reports of as many objects as there are samples for show which bit,
value or whole report belongs to an object alone; whatever stands out is only nominated here, and tested on others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arrays import Floats, Integers
from poolscope.mechanisms.protocols import Mechanism, Reports
from poolscope.mechanisms.registry import declared_columns
from poolscope.workflows.check.events import fingerprints
from poolscope.workflows.check.readings import BitColumn, bit_column
from poolscope.workflows.check.samples import BYTES_AT_ONCE, REPORTS_AT_ONCE, Sampler, Stage, bytes_of, joined

#: Objects that reports are made of, and reports of each, on average and where there are as many.
MOST_WIDE, REPORTS_EACH = 2048, 8
#: Bytes of all reports together.
MOST_BYTES = 4 * BYTES_AT_ONCE
#: Objects times bits, or values, that are counted.
MOST_CELLS = 1 << 24
#: Objects that may be nominated: by a bit or value of their own, and by reports that repeat.
BY_RATE, BY_REPEATS = 3, 1
#: Standard errors by which a rate must differ, and reports of an object that must repeat.
ERRORS, LEAST_REPEATS = 3.0, 3


@dataclass(frozen=True, kw_only=True)
class Wide:
    """Reports of objects that were drawn uniformly.

    objects : (k,) rising; drawn : (reports,) positions among them.
    """

    mechanism: Mechanism
    objects: Integers
    drawn: Integers
    reports: Reports

    def bits(self) -> Iterator[BitColumn]:
        """The columns of bits."""
        declared = declared_columns(self.mechanism)
        for name, column in self.reports.items():
            known = declared.get(name)
            found = bit_column(name, [column], known.size if known is not None and known.kind == "bits" else None)
            if found is not None:
                yield found

    def part(self, rows: NDArray[np.intp] | slice) -> Reports:
        """Some of the reports."""
        return {name: column[rows] for name, column in self.reports.items()}


def draw_wide(sampler: Sampler, count: int, objects: Sequence[int] | None = None) -> Wide:
    """So many reports of objects drawn uniformly from the given ones, or from as many as there are samples for."""
    rng, universe = sampler.generator(Stage.WIDE, 0), sampler.mechanism.universe
    if objects is None:
        most = int(np.clip(count // REPORTS_EACH, 2, MOST_WIDE))
        chosen = np.arange(universe) if universe <= most else np.sort(rng.choice(universe, most, replace=False))
    else:
        chosen = np.sort(np.array(objects, dtype=np.int64))
    drawn = rng.integers(len(chosen), size=count)
    generator, parts, start, at_once = sampler.generator(Stage.WIDE, 1), [], 0, 64
    while start < count:
        part = sampler.make(chosen[drawn[start : start + at_once]], generator)
        parts.append(part)
        start += at_once
        at_once = int(np.clip(BYTES_AT_ONCE // max(1, bytes_of(part)), 64, REPORTS_AT_ONCE))
        count = min(count, max(start, MOST_BYTES // max(1, bytes_of(part))))
    reports = joined(parts)
    return Wide(mechanism=sampler.mechanism, objects=chosen, drawn=drawn[: min(start, len(drawn))], reports=reports)


def nominated(wide: Wide) -> list[int]:
    """Objects that stand out, the most conspicuous first."""
    trials = np.bincount(wide.drawn, minlength=len(wide.objects))
    best = np.full(len(wide.objects), -np.inf)
    for counts in _counted(wide):
        for hits in (counts, trials[:, None] - counts):
            np.maximum(best, _excess(hits, trials).max(axis=1), out=best)
    by_rate = [p for p in np.argsort(-best, kind="stable")[:BY_RATE] if best[p] > 0]
    repeated = _repeated(wide)
    typical = np.median(repeated)
    by_repeats = [
        p for p in np.argsort(-repeated, kind="stable")[:BY_REPEATS] if repeated[p] >= LEAST_REPEATS + 2 * typical
    ]
    return [int(wide.objects[p]) for p in dict.fromkeys([*by_repeats, *by_rate])]


def counted_bits(wide: Wide, bits: BitColumn, rows: NDArray[np.bool_] | None = None) -> NDArray[np.int64] | None:
    """(objects, bits) in how many of the reports of each object each bit is set; None where they are too many.

    rows : which of the reports count; all by default.
    """
    if len(wide.objects) * bits.size > MOST_CELLS:
        return None
    counts = np.zeros((len(wide.objects), bits.size), dtype=np.int64)
    order = np.argsort(wide.drawn if rows is None else np.where(rows, wide.drawn, -1), kind="stable")
    order = order[0 if rows is None else int((~rows).sum()) :]
    step = max(1, MOST_CELLS // bits.size)
    for start in range(0, len(order), step):
        part = order[start : start + step]
        drawn, first = np.unique(wide.drawn[part], return_index=True)
        matrix = bits.matrix(wide.reports[bits.column][part])
        counts[drawn] += np.add.reduceat(matrix, first, axis=0, dtype=np.int64)
    return counts


def _counted(wide: Wide) -> Iterator[NDArray[np.int64]]:
    """(objects, bits or values) how many of the reports of each object have each of them, column by column."""
    bits = {found.column: found for found in wide.bits()}
    for name, column in wide.reports.items():
        if name in bits:
            counts = counted_bits(wide, bits[name])
            if counts is not None:
                yield counts
        elif column.ndim == 1 and column.dtype.kind in "iubSU":
            values, which = np.unique(column, return_inverse=True)
            if len(values) > 1 and len(wide.objects) * len(values) <= MOST_CELLS:
                cells = np.bincount(wide.drawn * len(values) + which, minlength=len(wide.objects) * len(values))
                yield cells.reshape(len(wide.objects), len(values))


def _excess(hits: NDArray[np.int64], trials: NDArray[np.int64]) -> Floats:
    """(objects, events) log of an object's rate over that of all others, less some of its standard errors."""
    others = hits.sum(axis=0) - hits + 0.5
    rest = (trials.sum() - trials + 1.0)[:, None]
    own = hits + 0.5
    ratio = np.log(own / (trials + 1.0)[:, None]) - np.log(others / rest)
    excess: Floats = ratio - ERRORS * np.sqrt(1.0 / own + 1.0 / others)
    return excess


def _repeated(wide: Wide) -> NDArray[np.int64]:
    """(objects,) how many reports of each object equal an earlier one of its own."""
    pairs = np.unique(np.column_stack([wide.drawn.astype(np.uint64), fingerprints(wide.reports)]), axis=0)
    distinct = np.bincount(pairs[:, 0].astype(np.int64), minlength=len(wide.objects))
    return np.bincount(wide.drawn, minlength=len(wide.objects)) - distinct
