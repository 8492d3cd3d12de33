"""The epsilon that counts of an event prove, and how trials are spent so that they prove most.

An event that has probability p from one object and p' from another proves epsilon >= log(p / p'). There are two exact
ways to a lower bound. *Apart*: p is bounded from below and p' from above, and the error that is allowed is shared by
the two. *Together*: each trial is of the one object with probability s, else of the other; of the trials in which the
event happens, a share t = s p / (s p + (1 - s) p') is of the one, independently of each other, so a lower bound of t
is one of p / p'. The first is better where p is near one, the second where both are rare. The way, s and how the error
is shared are decided before any of the trials is made.

What a test could have found: the smallest epsilon that it would have called too large.

Reports of many objects, a few of each: which objects stand out, and are tried more closely.

A mechanism may fail for one object of hundreds. Reports of as many objects as there are samples for show which bit,
value or whole report belongs to an object alone; whatever stands out is only nominated here, and tested on others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special, stats

from poolscope.core.arrays import Floats, Integers
from poolscope.mechanisms.protocols import Mechanism, Reports
from poolscope.mechanisms.pure import declared_columns
from poolscope.metrics.intervals import clopper_pearson
from poolscope.workflows.check.events import BitColumn, bit_column, fingerprints
from poolscope.workflows.check.sampling import BYTES_AT_ONCE, REPORTS_AT_ONCE, Sampler, Stage, bytes_of, joined

#: Counts of trials, or expected ones; shares of them.
Counts = NDArray[Any] | float

#: Error of the bounds by which events are chosen: small, or a rare event that was lucky once is taken for the best.
CHOOSING_ERROR = 1e-3
#: Shares of the trials, and of the error, that may go to the one object.
SHARES = np.linspace(0.02, 0.98, 49)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How a test is made.

    trials : of both objects together; share : probability that a trial is of the one.
    error : how often the bound may be wrong.
    part : of the error, for the one's own bound where they are bounded apart; None where together.
    """

    trials: int
    share: float
    error: float
    part: float | None

    def bound(self, hits: tuple[int, int], trials: tuple[int, int]) -> float:
        """Lower bound on epsilon from what the trials of the one and of the other show, not below 0."""
        return max(self.unclipped(hits, trials), 0.0)

    def unclipped(self, hits: tuple[float, float], trials: tuple[float, float]) -> float:
        """The same, negative as well; counts need not be whole."""
        if self.part is None:
            return float(_together(hits[0], hits[1], self.share, self.error))
        return float(_apart(hits[0], hits[1], trials[0], trials[1], self.error, self.part))


def lower_bound(at_least: float, at_most: float) -> float:
    """The epsilon that two bounds of a probability prove, not below 0."""
    return max(math.log(at_least / at_most), 0.0) if at_least > 0 else 0.0


def max_telling(
    counts: NDArray[np.int64], trials: NDArray[np.int64], about: NDArray[np.int64] | None = None
) -> tuple[int, int, int]:
    """Positions of two objects, and the event, with the largest lower bound on epsilon.

    Parameters
    ----------
    counts : (objects, events) how many of the trials of each object satisfy each event.
    trials : (objects,)
    about : (events, 2) positions of the two objects that each event is about, the likelier first; negative where it
        may be any object.
    """
    low, high = clopper_pearson(counts, trials[:, None], CHOOSING_ERROR)
    with np.errstate(divide="ignore"):
        bound = np.log(low)[:, None] - np.log(high)[None]
    bound[np.arange(len(counts)), np.arange(len(counts))] = -np.inf
    if about is not None:
        positions = np.arange(len(counts))[:, None]
        first, second = ((about[:, side] < 0) | (about[:, side] == positions) for side in (0, 1))
        bound = np.where(first[:, None] & second[None], bound, -np.inf)
    one, other, event = np.unravel_index(int(bound.argmax()), bound.shape)
    return int(one), int(other), int(event)


def clear(hits: NDArray[np.int64], trials: NDArray[np.int64]) -> bool:
    """Whether counts of an event from two objects prove at least half of the epsilon that they suggest."""
    low, high = clopper_pearson(hits, trials, CHOOSING_ERROR)
    rates = (hits + 0.5) / (trials + 1.0)
    return lower_bound(float(low[0]), float(high[1])) >= 0.5 * math.log(rates[0] / rates[1]) > 0


def plan(rates: tuple[float, float], trials: int, error: float) -> Plan:
    """Spend trials and error so that the bound is largest if the event's rates are these."""
    ones, others = SHARES * trials, (1.0 - SHARES) * trials
    hits = rates[0] * ones, rates[1] * others
    # (shares, parts), and a last column for the bound of both together
    parts = _apart(hits[0][:, None], hits[1][:, None], ones[:, None], others[:, None], error, SHARES)
    bounds = np.column_stack([parts, _together(*hits, SHARES, error)])
    row, column = np.unravel_index(int(bounds.argmax()), bounds.shape)
    part = float(SHARES[column]) if column < len(SHARES) else None
    return Plan(trials=trials, share=float(SHARES[row]), error=error, part=part)


def _apart(
    hits: Counts, other_hits: Counts, trials: Counts, other_trials: Counts, error: float, part: Counts
) -> Floats:
    low = clopper_pearson(hits, trials, part * error)[0]
    high = clopper_pearson(other_hits, other_trials, (1.0 - part) * error)[1]
    with np.errstate(divide="ignore"):
        return np.log(low) - np.log(high)


def _together(hits: Counts, other_hits: Counts, share: Counts, error: float) -> Floats:
    low = clopper_pearson(hits, hits + other_hits, error)[0]
    loss: Floats = special.logit(low) - special.logit(share)
    return loss


#: How often a detectable epsilon is found, and the largest one that is looked for.
POWER, LARGEST = 0.9, 50.0


def detectable(planned: Plan, rate: float, claimed: float) -> float:
    """The smallest epsilon that nine in ten tests of this plan would prove to be above the claimed one.

    rate : how likely the event is from the other object. From the one it is e^epsilon times as likely, or certain.
    Infinite where no epsilon would be found; NaN where none is claimed.
    """
    if not math.isfinite(claimed):
        return claimed
    if _expected(planned, rate, LARGEST) <= claimed:
        return math.inf
    return float(optimize.brentq(lambda epsilon: _expected(planned, rate, epsilon) - claimed, 0.0, LARGEST, xtol=1e-4))


def _expected(planned: Plan, rate: float, epsilon: float) -> float:
    """The bound that nine in ten tests reach: that of the expected counts, less what the worst tenth loses."""
    other = min(rate, math.exp(-epsilon))
    one = min(1.0, other * math.exp(epsilon))
    trials = planned.share * planned.trials, (1.0 - planned.share) * planned.trials
    hits = trials[0] * one, trials[1] * other
    # of the logarithms of two binomial shares; a count that is always 0 does not vary
    variance = (1.0 - one) / (hits[0] + 1.0) + (1.0 - other) / (hits[1] + 1.0)
    return planned.unclipped(hits, trials) - float(stats.norm.ppf(POWER)) * math.sqrt(variance)


#: Objects that reports are made of, and reports of each, on average and where there are as many.
MAX_WIDE, REPORTS_EACH = 2048, 8
#: Bytes of all reports together.
MAX_BYTES = 4 * BYTES_AT_ONCE
#: Objects times bits, or values, that are counted.
MAX_CELLS = 1 << 24
#: Objects that may be nominated: by a bit or value of their own, and by reports that repeat.
BY_RATE, BY_REPEATS = 3, 1
#: Standard errors by which a rate must differ, and reports of an object that must repeat.
ERRORS, MIN_REPEATS = 3.0, 3


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
        most = int(np.clip(count // REPORTS_EACH, 2, MAX_WIDE))
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
        count = min(count, max(start, MAX_BYTES // max(1, bytes_of(part))))
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
        p for p in np.argsort(-repeated, kind="stable")[:BY_REPEATS] if repeated[p] >= MIN_REPEATS + 2 * typical
    ]
    return [int(wide.objects[p]) for p in dict.fromkeys([*by_repeats, *by_rate])]


def counted_bits(wide: Wide, bits: BitColumn, rows: NDArray[np.bool_] | None = None) -> NDArray[np.int64] | None:
    """(objects, bits) in how many of the reports of each object each bit is set; None where they are too many.

    rows : which of the reports count; all by default.
    """
    if len(wide.objects) * bits.size > MAX_CELLS:
        return None
    counts = np.zeros((len(wide.objects), bits.size), dtype=np.int64)
    order = np.argsort(wide.drawn if rows is None else np.where(rows, wide.drawn, -1), kind="stable")
    order = order[0 if rows is None else int((~rows).sum()) :]
    step = max(1, MAX_CELLS // bits.size)
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
            if len(values) > 1 and len(wide.objects) * len(values) <= MAX_CELLS:
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
