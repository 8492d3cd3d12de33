r"""Guess from a report which object it is of: what many objects together prove about rare reports.

If each of k objects is equally likely, an epsilon-private report lets nobody guess its object with a probability above

.. math:: \frac{e^\epsilon}{e^\epsilon + k - 1}

whichever reports are guessed from, as long as the choice and the guess depend on the reports alone: given the reports,
whose they are is decided independently for each. A rule chooses reports and guesses. The share of right guesses is
bounded from below, and with it epsilon. Two objects need many reports to show a rare event; hundreds of objects need a
handful. For k = 800 and epsilon = 1, three right guesses in a row happen once in 25 million times.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from poolscope.core.arrays import Floats, Integers
from poolscope.core.errors import InputError
from poolscope.metrics.intervals import clopper_pearson
from poolscope.workflows.check.bounds import Wide, counted_bits
from poolscope.workflows.check.distribution import likelihoods, states_law
from poolscope.workflows.check.events import BitColumn, fingerprints, last_bit

#: Reports that one rule guesses from at most, and distinct values among which a gap is looked for.
MAX_GUESSES, MAX_DISTINCT = 2048, 256
#: The smallest and the largest share of the reports that may lie beyond a gap: fewer reports than two show nothing.
FEWEST, LARGEST_SHARE = 2, 0.25
#: Numbers beyond it are as good as infinite.
LARGEST = 1e100
#: Standard deviations by which reports stand apart from all others, and distinct counts that these must have.
APART, SPREAD = 6.0, 20
#: Parts of a bit vector by which vectors are found that differ in few bits, and bytes that each must have.
MAX_SEGMENTS, SEGMENT_BYTES = 8, 4
#: Bits in which such vectors differ at most.
FEW_BITS = 16
#: Reports with the same part beyond which it is common and finds nothing.
MAX_ALIKE = 8


@dataclass(frozen=True, kw_only=True)
class Guessed:
    """What guesses prove.

    epsilon : lower bound, not below 0. rule : which reports were guessed from.
    guesses, right : how many there were, and how many were right; objects : among how many objects.
    """

    epsilon: float
    rule: str
    guesses: int
    right: int
    objects: int

    @property
    def share(self) -> str:
        return f"{self.right:,} of {self.guesses:,}"


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Reports to guess from (rows), and a guess for each (positions among the objects)."""

    words: str
    rows: Integers
    guess: Integers


def guessed(wide: Wide, rng: np.random.Generator, error: float) -> Guessed | None:
    """What the best rule proves; the rules share the error evenly. None where there is nothing to guess."""
    if len(wide.objects) < 2:
        return None
    rules = list(_rules(wide, rng))
    found = [_bounded(wide, rule, error / len(rules)) for rule in rules]
    return max(found, key=lambda guessed: (guessed.epsilon, guessed.guesses))


def _bounded(wide: Wide, rule: Rule, error: float) -> Guessed:
    right = int((wide.drawn[rule.rows] == rule.guess).sum())
    objects, guesses = len(wide.objects), len(rule.rows)
    low = float(clopper_pearson(right, guesses, error)[0]) if guesses else 0.0
    epsilon = max(0.0, float(special.logit(low)) + math.log(objects - 1)) if low > 0 else 0.0
    return Guessed(epsilon=epsilon, rule=rule.words, guesses=guesses, right=right, objects=objects)


def _rules(wide: Wide, rng: np.random.Generator) -> Iterator[Rule]:
    yield _sent_before(wide)
    for bits in wide.bits():
        ones = bits.ones(wide.reports[bits.column])
        for values, extreme in ((ones, "fewest"), (-ones, "most")):
            rows = beyond_gap(values)
            yield Rule(
                words=f"the reports with the {extreme} set bits of {bits.column}",
                rows=rows,
                guess=_guess(wide, rows, bits, rng, low=extreme == "fewest"),
            )
        yield _near_duplicates(wide, bits, rng)
    for name, column in wide.reports.items():
        if column.ndim == 1 and column.dtype.kind == "f":
            for values, words in ((-last_bit(column)[0], "roundest"), (-np.abs(column), "largest")):
                rows = beyond_gap(values)
                guess = _guess(wide, rows, name, rng, low=True)
                yield Rule(words=f"the reports with the {words} {name}", rows=rows, guess=guess)


def _sent_before(wide: Wide) -> Rule:
    """Reports of the second half that only one object sent in the first."""
    prints, half = fingerprints(wide.reports), len(wide.drawn) // 2
    known, which = np.unique(prints[:half], return_inverse=True)
    lowest, highest = np.full(len(known), len(wide.objects)), np.full(len(known), -1)
    np.minimum.at(lowest, which, wide.drawn[:half])
    np.maximum.at(highest, which, wide.drawn[:half])
    at = np.minimum(np.searchsorted(known, prints[half:]), len(known) - 1)
    (rows,) = np.nonzero((known[at] == prints[half:]) & (lowest[at] == highest[at]))
    return Rule(words="reports that one object alone has sent before", rows=half + rows, guess=lowest[at[rows]])


def beyond_gap(values: NDArray[np.floating] | NDArray[np.integer]) -> Integers:
    """The rows of the smallest values, up to the largest gap between two of them: what lies apart from all others."""
    order = np.argsort(values, kind="stable")
    distinct, first = np.unique(values[order], return_index=True)
    ends = np.append(first[1:], len(values))
    allowed = (ends >= FEWEST) & (ends <= LARGEST_SHARE * len(values))
    allowed[MAX_DISTINCT:] = False
    allowed[-1] = False
    if not allowed.any():
        return order[:0]
    gaps = np.append(np.diff(distinct.astype(np.float64)), 0.0)
    with np.errstate(invalid="ignore"):
        end = ends[int(np.where(allowed, np.nan_to_num(gaps, nan=0.0), -1.0).argmax())]
    return order[: min(int(end), MAX_GUESSES)]


def standing_apart(wide: Wide) -> str | None:
    """A few reports with far fewer or more set bits than all others, in words: these may be sent in the clear."""
    for bits in wide.bits():
        ones = bits.ones(wide.reports[bits.column])
        for values, side in ((ones, "least"), (-ones, "most")):
            rows = beyond_gap(values)
            rest = np.delete(values, rows)
            if len(rows) and len(np.unique(rest)) >= SPREAD and rest.min() - values[rows].max() > APART * rest.std():
                few, others = np.unique(np.abs(values[rows])), abs(int(rest.min()))
                of_them = f"{len(rows):,} of {len(values):,} reports have {', '.join(map(str, few[:3]))} set bits of"
                return f"{of_them} {bits.column}, all others at {side} {others:,}: look at them"
    return None


def _guess(wide: Wide, rows: Integers, column: BitColumn | str, rng: np.random.Generator, low: bool) -> Integers:
    """The likeliest object of each of these reports: by the stated likelihoods, else by what other reports show."""
    if not len(rows):
        return rows
    if states_law(wide.mechanism):
        return _likeliest(likelihoods(wide.mechanism, wide.part(rows), wide.objects.tolist()), rng)
    if isinstance(column, str):
        return _nearest(wide, rows, column, rng)
    bits = column.matrix(wide.reports[column.column][rows])
    return _associated(wide, rows, column, bits if low else bits.astype(np.int8) - 1, rng)


def _nearest(wide: Wide, rows: Integers, column: str, rng: np.random.Generator) -> Integers:
    """The object whose other reports have the nearest mean."""
    others = np.delete(np.arange(len(wide.drawn)), rows)
    values = np.clip(np.nan_to_num(wide.reports[column].astype(np.float64)), -LARGEST, LARGEST)
    sums = np.bincount(wide.drawn[others], weights=values[others], minlength=len(wide.objects))
    trials = np.bincount(wide.drawn[others], minlength=len(wide.objects))
    return _likeliest(-np.abs(values[rows][:, None] - sums / np.maximum(trials, 1)), rng)


def _associated(
    wide: Wide, rows: Integers, column: BitColumn, weights: NDArray[np.integer], rng: np.random.Generator
) -> Integers:
    """The object that sets the weighted bits more often than others do, in reports that are not guessed from."""
    others = np.ones(len(wide.drawn), dtype=bool)
    others[rows] = False
    counts = counted_bits(wide, column, others)
    if counts is None:
        return rng.integers(len(wide.objects), size=len(rows))
    trials = np.bincount(wide.drawn[others], minlength=len(wide.objects))
    mean = (counts.sum(axis=0) + 0.5) / (trials.sum() + 1.0)
    excess = (counts - trials[:, None] * mean) / np.sqrt(np.maximum(trials, 1)[:, None] * mean * (1.0 - mean))
    return _likeliest(weights @ excess.T, rng)


def _likeliest(scores: Floats, rng: np.random.Generator) -> Integers:
    """The column of each row's largest score; one of them at random where they are equal."""
    best = scores >= scores.max(axis=1, keepdims=True) - 1e-12 * np.abs(scores).max(axis=1, keepdims=True)
    chosen: Integers = np.where(best, rng.random(scores.shape), -1.0).argmax(axis=1)
    return chosen


def _near_duplicates(wide: Wide, bits: BitColumn, rng: np.random.Generator) -> Rule:
    """Reports whose bits are those of an earlier report but for a few: noise that comes again cancels out."""
    words = f"reports whose {bits.column} differ in few bits from those of an earlier report"
    column = wide.reports[bits.column]
    packed = column if bits.one is None else np.packbits(bits.matrix(column), axis=1, bitorder="little")
    partner = np.full(len(packed), -1, dtype=np.int64)
    segments = min(MAX_SEGMENTS, packed.shape[1] // SEGMENT_BYTES)
    for segment in np.array_split(packed, segments, axis=1) if segments > 1 else ():
        _pair(segment, partner)
    (rows,) = np.nonzero(partner >= 0)
    differing = np.bitwise_xor(packed[rows], packed[partner[rows]]).astype(np.uint8)
    apart = np.bitwise_count(differing).sum(axis=1, dtype=np.int64)
    # equal reports have a rule of their own
    near = np.flatnonzero((apart > 0) & (apart <= FEW_BITS))
    near = near[np.argsort(apart[near], kind="stable")][:MAX_GUESSES]
    rows, differing = rows[near], differing[near]
    if not len(rows):
        return Rule(words=words, rows=rows, guess=rows)
    guess = None
    if states_law(wide.mechanism) and bits.one is None:
        noiseless = {**wide.part(rows), bits.column: differing}
        # what two reports have apart need not be a report: dBitFlip has no bit but at its positions
        with suppress(InputError):
            guess = _likeliest(likelihoods(wide.mechanism, noiseless, wide.objects.tolist()), rng)
    if guess is None:
        weights = np.unpackbits(differing, axis=1, bitorder="little", count=bits.size)
        guess = _associated(wide, rows, bits, weights, rng)
    return Rule(words=words, rows=rows, guess=guess)


def _pair(part: NDArray[np.uint8], partner: NDArray[np.int64]) -> None:
    """Note for each report the first with the same part, where few have it; what is noted stays."""
    _, first, which, counts = np.unique(
        fingerprints({"part": np.ascontiguousarray(part)}), return_index=True, return_inverse=True, return_counts=True
    )
    rare = (counts[which] <= MAX_ALIKE) & (first[which] != np.arange(len(part))) & (partner < 0)
    partner[rare] = first[which][rare]
