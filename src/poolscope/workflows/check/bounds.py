r"""Lower bounds on ε: from the counts of one event, and from guesses of objects.

An event with probability p from one object and p' from another implies epsilon >= log(p / p'). Two exact lower bounds
exist. *Separate*: bound p from below and p' from above, and share the allowed error between the two. *Joint*: each
trial is of the first object with probability s, else of the other. Of the trials in which the event happens, a share
t = s p / (s p + (1 - s) p') is of the first, independently, so that a lower bound on t is one on p / p'. The first is
better where p is near one, the second where both are rare. Method, s and the split of the error are fixed before any
trial is made.

Rare reports take many trials with two objects, and few with many. If each of k objects is equally likely, nobody can
guess the object of an ε-private report with a probability above

.. math:: \frac{e^\epsilon}{e^\epsilon + k - 1}

whichever reports are guessed from, as long as choice and guess depend on the reports alone: given the reports, their
objects are independent. A rule chooses reports and guesses; a lower bound on the share of correct guesses is one on
ε. For k = 800 and ε = 1, three correct guesses in a row happen once in 25 million times.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special, stats

from poolscope.core.arrays import Floats, Integers
from poolscope.core.errors import InputError
from poolscope.metrics.intervals import clopper_pearson
from poolscope.metrics.models import Real
from poolscope.workflows.check.distribution import (
    likelihoods,
    states_distribution,
)
from poolscope.workflows.check.sampling import (
    BitColumn,
    Screening,
    bit_counts,
    fingerprints,
    last_bit,
)

#: Counts of trials, possibly expected ones, or shares of them.
CountLike = NDArray[Any] | float

#: Error of the bounds by which events are chosen: small, so that a rare event is not chosen by chance.
CHOOSING_ERROR = 1e-3
#: Grid for the share of the trials, and of the error, of the first object.
SHARES = np.linspace(0.02, 0.98, 49)
#: Power at which an epsilon counts as detectable, and the largest epsilon considered.
POWER, MAX_EPSILON = 0.9, 50.0
#: Reports that one rule guesses from at most, and distinct values among which the gap is searched.
MAX_GUESSES, MAX_DISTINCT = 2048, 256
#: Isolated reports: the smallest number, and the largest share.
MIN_ISOLATED, MAX_ISOLATED_SHARE = 2, 0.25
#: Values are clipped here.
MAX_VALUE = 1e100
#: Standard deviations between outliers and the rest, and distinct counts of the rest, at least.
MIN_GAP, MIN_DISTINCT = 6.0, 20
#: Segments of a bit vector by which near duplicates are found, and bytes of each at least.
MAX_SEGMENTS, SEGMENT_BYTES = 8, 4
#: Bits in which near duplicates differ at most.
MAX_DIFFERING_BITS = 16
#: Reports that share a segment at most; a common segment finds nothing.
MAX_EQUAL_SEGMENTS = 8


@dataclass(frozen=True, kw_only=True)
class BoundPlan:
    """How the trials and the error of a test are spent.

    trials : of both objects together; share : probability that a trial is of the first.
    error : probability that the bound is wrong, at most.
    part : share of the error for the first object's bound; None for the joint bound.
    """

    trials: int
    share: float
    error: float
    part: float | None

    def bound(self, hits: tuple[int, int], trials: tuple[int, int]) -> float:
        """Return the lower bound on ε, not below 0."""
        return max(self.unclipped(hits, trials), 0.0)

    def unclipped(self, hits: tuple[float, float], trials: tuple[float, float]) -> float:
        """Return the same bound, possibly negative; counts need not be integers."""
        if self.part is None:
            return float(_joint_bound(hits[0], hits[1], self.share, self.error))
        return float(_separate_bound(hits[0], hits[1], trials[0], trials[1], self.error, self.part))


def lower_bound(at_least: float, at_most: float) -> float:
    """Return the ε that two bounds on a probability imply, not below 0."""
    return max(math.log(at_least / at_most), 0.0) if at_least > 0 else 0.0


def best_event(
    counts: NDArray[np.int64], trials: NDArray[np.int64], event_pairs: NDArray[np.int64] | None = None
) -> tuple[int, int, int]:
    """Find the two objects and the event with the largest lower bound on ε.

    Parameters
    ----------
    counts : (objects, events) how many of the trials of each object satisfy each event.
    trials : (objects,)
    event_pairs : (events, 2) positions of the two objects of each event, the likelier first; negative for any.
    """
    low, high = clopper_pearson(counts, trials[:, None], CHOOSING_ERROR)
    with np.errstate(divide="ignore"):
        bound = np.log(low)[:, None] - np.log(high)[None]
    bound[np.arange(len(counts)), np.arange(len(counts))] = -np.inf
    if event_pairs is not None:
        positions = np.arange(len(counts))[:, None]
        first, second = ((event_pairs[:, side] < 0) | (event_pairs[:, side] == positions) for side in (0, 1))
        bound = np.where(first[:, None] & second[None], bound, -np.inf)
    one, other, event = np.unravel_index(int(bound.argmax()), bound.shape)
    return int(one), int(other), int(event)


def is_significant(hits: NDArray[np.int64], trials: NDArray[np.int64]) -> bool:
    """Return whether the counts imply at least half of the ε that their rates suggest."""
    low, high = clopper_pearson(hits, trials, CHOOSING_ERROR)
    rates = (hits + 0.5) / (trials + 1.0)
    return lower_bound(float(low[0]), float(high[1])) >= 0.5 * math.log(rates[0] / rates[1]) > 0


def plan(rates: tuple[float, float], trials: int, alpha: float) -> BoundPlan:
    """Choose the split of trials and error that maximizes the bound if the event has these rates."""
    ones, others = SHARES * trials, (1.0 - SHARES) * trials
    hits = rates[0] * ones, rates[1] * others
    # (shares, parts), and a last column for the bound of both together
    parts = _separate_bound(hits[0][:, None], hits[1][:, None], ones[:, None], others[:, None], alpha, SHARES)
    bounds = np.column_stack([parts, _joint_bound(*hits, SHARES, alpha)])
    row, column = np.unravel_index(int(bounds.argmax()), bounds.shape)
    part = float(SHARES[column]) if column < len(SHARES) else None
    return BoundPlan(trials=trials, share=float(SHARES[row]), error=alpha, part=part)


def _separate_bound(
    hits: CountLike, other_hits: CountLike, trials: CountLike, other_trials: CountLike, error: float, part: CountLike
) -> Floats:
    """Bound log(p / p') by one bound on each rate."""
    low = clopper_pearson(hits, trials, part * error)[0]
    high = clopper_pearson(other_hits, other_trials, (1.0 - part) * error)[1]
    with np.errstate(divide="ignore"):
        return np.log(low) - np.log(high)


def _joint_bound(hits: CountLike, other_hits: CountLike, share: CountLike, error: float) -> Floats:
    """Bound log(p / p') by the share of the first object among the trials with the event."""
    low = clopper_pearson(hits, hits + other_hits, error)[0]
    loss: Floats = special.logit(low) - special.logit(share)
    return loss


def min_detectable_epsilon(planned: BoundPlan, event_rate: float, declared: float) -> float:
    """Return the smallest ε that nine in ten tests of this plan would find to exceed the declared one.

    event_rate : probability of the event from the other object. From the first it is e^epsilon times as large, or 1.
    Infinite where no ε would be found; NaN where none is declared.
    """
    if not math.isfinite(declared):
        return declared
    if _expected(planned, event_rate, MAX_EPSILON) <= declared:
        return math.inf
    return float(
        optimize.brentq(lambda epsilon: _expected(planned, event_rate, epsilon) - declared, 0.0, MAX_EPSILON, xtol=1e-4)
    )


def _expected(planned: BoundPlan, rate: float, epsilon: float) -> float:
    """Return the bound that nine in ten tests reach, by a normal approximation around the expected counts."""
    other = min(rate, math.exp(-epsilon))
    one = min(1.0, other * math.exp(epsilon))
    trials = planned.share * planned.trials, (1.0 - planned.share) * planned.trials
    hits = trials[0] * one, trials[1] * other
    # variance of the logs of two binomial shares; a count that is always 0 does not vary
    variance = (1.0 - one) / (hits[0] + 1.0) + (1.0 - other) / (hits[1] + 1.0)
    return planned.unclipped(hits, trials) - float(stats.norm.ppf(POWER)) * math.sqrt(variance)


@dataclass(frozen=True, kw_only=True)
class GuessBound:
    """The lower bound on ε from guesses.

    epsilon : lower bound, not below 0. rule : which reports were guessed from.
    guesses, right : how many there were, and how many were correct; objects : among how many objects.
    """

    epsilon: Real
    rule: str
    guesses: int
    right: int
    objects: int

    @property
    def share(self) -> str:
        """Correct guesses out of all, as text."""
        return f"{self.right:,} of {self.guesses:,}"


@dataclass(frozen=True, kw_only=True)
class GuessRule:
    """Reports to guess from (rows), and a guess for each (positions among the objects)."""

    description: str
    rows: Integers
    guess: Integers


def guess_bound(screening: Screening, rng: np.random.Generator, error: float) -> GuessBound | None:
    """Return the bound of the best rule; the rules share the error evenly. None where there is one object."""
    if len(screening.objects) < 2:
        return None
    rules = list(_rules(screening, rng))
    found = [_bound_of_rule(screening, rule, error / len(rules)) for rule in rules]
    return max(found, key=lambda guess_bound: (guess_bound.epsilon, guess_bound.guesses))


def _bound_of_rule(screening: Screening, rule: GuessRule, error: float) -> GuessBound:
    """Bound ε by the guesses of one rule."""
    right = int((screening.drawn[rule.rows] == rule.guess).sum())
    objects, guesses = len(screening.objects), len(rule.rows)
    low = float(clopper_pearson(right, guesses, error)[0]) if guesses else 0.0
    epsilon = max(0.0, float(special.logit(low)) + math.log(objects - 1)) if low > 0 else 0.0
    return GuessBound(epsilon=epsilon, rule=rule.description, guesses=guesses, right=right, objects=objects)


def _rules(screening: Screening, rng: np.random.Generator) -> Iterator[GuessRule]:
    """Yield the rules: repeated reports, outliers of each column, near duplicates."""
    yield _rule_sent_before(screening)
    for bits in screening.bits():
        ones = bits.ones(screening.reports[bits.column])
        for values, extreme in ((ones, "fewest"), (-ones, "most")):
            rows = isolated_rows(values)
            yield GuessRule(
                description=f"the reports with the {extreme} set bits of {bits.column}",
                rows=rows,
                guess=_guess(screening, rows, bits, rng, low=extreme == "fewest"),
            )
        yield _rule_near_duplicates(screening, bits, rng)
    for name, column in screening.reports.items():
        if column.ndim == 1 and column.dtype.kind == "f":
            for values, description in ((-last_bit(column)[0], "roundest"), (-np.abs(column), "largest")):
                rows = isolated_rows(values)
                guess = _guess(screening, rows, name, rng, low=True)
                yield GuessRule(description=f"the reports with the {description} {name}", rows=rows, guess=guess)


def _rule_sent_before(screening: Screening) -> GuessRule:
    """Guess from reports of the second half that only one object sent in the first half."""
    prints, half = fingerprints(screening.reports), len(screening.drawn) // 2
    known, which = np.unique(prints[:half], return_inverse=True)
    lowest, highest = np.full(len(known), len(screening.objects)), np.full(len(known), -1)
    np.minimum.at(lowest, which, screening.drawn[:half])
    np.maximum.at(highest, which, screening.drawn[:half])
    at = np.minimum(np.searchsorted(known, prints[half:]), len(known) - 1)
    (rows,) = np.nonzero((known[at] == prints[half:]) & (lowest[at] == highest[at]))
    return GuessRule(
        description="reports that only one object has sent before", rows=half + rows, guess=lowest[at[rows]]
    )


def isolated_rows(values: NDArray[np.floating] | NDArray[np.integer]) -> Integers:
    """Return the rows of the smallest values, up to the largest gap between two of them: the outliers."""
    order = np.argsort(values, kind="stable")
    distinct, first = np.unique(values[order], return_index=True)
    ends = np.append(first[1:], len(values))
    allowed = (ends >= MIN_ISOLATED) & (ends <= MAX_ISOLATED_SHARE * len(values))
    allowed[MAX_DISTINCT:] = False
    allowed[-1] = False
    if not allowed.any():
        return order[:0]
    gaps = np.append(np.diff(distinct.astype(np.float64)), 0.0)
    with np.errstate(invalid="ignore"):
        end = ends[int(np.where(allowed, np.nan_to_num(gaps, nan=0.0), -1.0).argmax())]
    return order[: min(int(end), MAX_GUESSES)]


def outlier_warning(screening: Screening) -> str | None:
    """Describe a few reports with far fewer or more set bits than all others: these may be sent in the clear."""
    for bits in screening.bits():
        ones = bits.ones(screening.reports[bits.column])
        for values, side in ((ones, "least"), (-ones, "most")):
            rows = isolated_rows(values)
            rest = np.delete(values, rows)
            if (
                len(rows)
                and len(np.unique(rest)) >= MIN_DISTINCT
                and rest.min() - values[rows].max() > MIN_GAP * rest.std()
            ):
                few, others = np.unique(np.abs(values[rows])), abs(int(rest.min()))
                of_them = f"{len(rows):,} of {len(values):,} reports have {', '.join(map(str, few[:3]))} set bits of"
                return f"{of_them} {bits.column}, all others at {side} {others:,}: they may be sent in the clear"
    return None


def _guess(
    screening: Screening, rows: Integers, column: BitColumn | str, rng: np.random.Generator, low: bool
) -> Integers:
    """Guess the likeliest object of each report: by the stated likelihoods, else by other reports."""
    if not len(rows):
        return rows
    if states_distribution(screening.mechanism):
        return _likeliest(likelihoods(screening.mechanism, screening.part(rows), screening.objects.tolist()), rng)
    if isinstance(column, str):
        return _nearest(screening, rows, column, rng)
    bits = column.matrix(screening.reports[column.column][rows])
    return _associated(screening, rows, column, bits if low else bits.astype(np.int8) - 1, rng)


def _nearest(screening: Screening, rows: Integers, column: str, rng: np.random.Generator) -> Integers:
    """Guess the object whose other reports have the nearest mean."""
    others = np.delete(np.arange(len(screening.drawn)), rows)
    values = np.clip(np.nan_to_num(screening.reports[column].astype(np.float64)), -MAX_VALUE, MAX_VALUE)
    sums = np.bincount(screening.drawn[others], weights=values[others], minlength=len(screening.objects))
    trials = np.bincount(screening.drawn[others], minlength=len(screening.objects))
    return _likeliest(-np.abs(values[rows][:, None] - sums / np.maximum(trials, 1)), rng)


def _associated(
    screening: Screening, rows: Integers, column: BitColumn, weights: NDArray[np.integer], rng: np.random.Generator
) -> Integers:
    """Guess the object that sets the weighted bits more often than others do, in reports that are not guessed from."""
    others = np.ones(len(screening.drawn), dtype=bool)
    others[rows] = False
    counts = bit_counts(screening, column, others)
    if counts is None:
        return rng.integers(len(screening.objects), size=len(rows))
    trials = np.bincount(screening.drawn[others], minlength=len(screening.objects))
    mean = (counts.sum(axis=0) + 0.5) / (trials.sum() + 1.0)
    excess = (counts - trials[:, None] * mean) / np.sqrt(np.maximum(trials, 1)[:, None] * mean * (1.0 - mean))
    return _likeliest(weights @ excess.T, rng)


def _likeliest(scores: Floats, rng: np.random.Generator) -> Integers:
    """Return the column of each row's largest score, with ties broken at random."""
    best = scores >= scores.max(axis=1, keepdims=True) - 1e-12 * np.abs(scores).max(axis=1, keepdims=True)
    chosen: Integers = np.where(best, rng.random(scores.shape), -1.0).argmax(axis=1)
    return chosen


def _rule_near_duplicates(screening: Screening, bits: BitColumn, rng: np.random.Generator) -> GuessRule:
    """Guess from reports that differ from an earlier one in a few bits: noise that repeats cancels out."""
    description = f"reports whose {bits.column} differ from an earlier report in few bits"
    column = screening.reports[bits.column]
    packed = column if bits.one is None else np.packbits(bits.matrix(column), axis=1, bitorder="little")
    partner = np.full(len(packed), -1, dtype=np.int64)
    segments = min(MAX_SEGMENTS, packed.shape[1] // SEGMENT_BYTES)
    for segment in np.array_split(packed, segments, axis=1) if segments > 1 else ():
        _note_partners(segment, partner)
    (rows,) = np.nonzero(partner >= 0)
    differing = np.bitwise_xor(packed[rows], packed[partner[rows]]).astype(np.uint8)
    apart = np.bitwise_count(differing).sum(axis=1, dtype=np.int64)
    # equal reports have their own rule
    near = np.flatnonzero((apart > 0) & (apart <= MAX_DIFFERING_BITS))
    near = near[np.argsort(apart[near], kind="stable")][:MAX_GUESSES]
    rows, differing = rows[near], differing[near]
    if not len(rows):
        return GuessRule(description=description, rows=rows, guess=rows)
    guess = None
    if states_distribution(screening.mechanism) and bits.one is None:
        noiseless = {**screening.part(rows), bits.column: differing}
        # the difference of two reports need not be a report: dBitFlip has bits at its positions only
        with suppress(InputError):
            guess = _likeliest(likelihoods(screening.mechanism, noiseless, screening.objects.tolist()), rng)
    if guess is None:
        weights = np.unpackbits(differing, axis=1, bitorder="little", count=bits.size)
        guess = _associated(screening, rows, bits, weights, rng)
    return GuessRule(description=description, rows=rows, guess=guess)


def _note_partners(part: NDArray[np.uint8], partner: NDArray[np.int64]) -> None:
    """Record for each report the first one with the same segment, where few share it; earlier records stay."""
    _, first, which, counts = np.unique(
        fingerprints({"part": np.ascontiguousarray(part)}), return_index=True, return_inverse=True, return_counts=True
    )
    rare = (counts[which] <= MAX_EQUAL_SEGMENTS) & (first[which] != np.arange(len(part))) & (partner < 0)
    partner[rare] = first[which][rare]
