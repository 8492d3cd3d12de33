"""Does an implementation of a mechanism keep its promise?

There are two ways to know, and a check goes both. The stated law is enumerated where its reports are few: its
worst-case ratio is the epsilon that the statement promises. What is really sampled is put to a statistical test: one
half of the samples chooses two objects and the event that tells them best apart, the second half bounds the probability
of that one event under both. The bounds hold whatever the first half chose, so the epsilon that they prove is a lower
bound on the implementation's own, and one that exceeds the claimed epsilon is proof that the promise is broken.

References
----------
Z. Ding, Y. Wang, G. Wang, D. Zhang, D. Kifer. Detecting violations of differential privacy. CCS 2018.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poolscope.base.errors import InputError
from poolscope.mechanisms.role import Mechanism
from poolscope.scenario.build import build_mechanism
from poolscope.scenario.scenario import Scenario
from poolscope.verbs.check.events import Family, learn
from poolscope.verbs.check.law import Exact, Share, clopper_pearson, declared_columns, exact
from poolscope.verbs.check.samples import Sampler, Stage, Supports, spread

#: Objects that are tried where the universe has more.
MOST_OBJECTS = 12
FEWEST_SAMPLES = 1000
#: Relative rounding of an exact epsilon.
ROUNDING = 1e-9
#: Error of the bounds by which events are chosen: small, or a rare event that was lucky once is taken for the best.
CHOOSING_ERROR = 1e-3


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What the samples prove: an event that one object causes more often than another.

    epsilon : lower bound, log(at_least / at_most), not below 0.
    event : the event in words.
    one, other : the objects; at_least, at_most : bounds of the event's probability, from one and from other.
    trials : reports of each that gave the bounds.
    """

    epsilon: float
    event: str
    one: int
    other: int
    at_least: float
    at_most: float
    trials: int


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether a mechanism keeps its promise, and how that is known.

    Parameters
    ----------
    mechanism : its name; claimed : its epsilon, NaN where it claims none.
    exact : the stated law by enumeration; None where its reports are too many.
    shown : what samples prove; None where the universe has a single object.
    shares : p* and q* beside samples; empty where the mechanism states none.
    samples : reports that were made; objects : the objects that they were made from.
    confidence : of the lower bound.
    """

    mechanism: str
    claimed: float
    exact: Exact | None
    shown: Shown | None
    shares: tuple[Share, ...]
    samples: int
    objects: tuple[int, ...]
    confidence: float

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the promise is broken; empty where it is kept."""
        return tuple(self._reasons())

    @property
    def kept(self) -> bool:
        return not self.reasons

    @property
    def tightness(self) -> float:
        """Share of the claimed epsilon that the samples show to be spent, at most 1; 0 where no number is claimed."""
        lower = self.shown.epsilon if self.shown else 0.0
        return min(lower / self.claimed, 1.0) if math.isfinite(self.claimed) else 0.0

    def _reasons(self) -> Iterator[str]:
        if self.exact and self.exact.epsilon > self.claimed * (1.0 + ROUNDING):
            yield f"its stated law has epsilon {self.exact.epsilon:.4g}, it claims {self.claimed:g}"
        if self.exact and self.exact.consistent is False:
            yield "no probabilities fit its stated likelihoods and p*"
        if self.shown and self.shown.epsilon > self.claimed:
            sure = f"{100 * self.confidence:g} %"
            yield f"samples show an epsilon of at least {self.shown.epsilon:.3g} ({sure}), it claims {self.claimed:g}"
        for share in self.shares:
            if share.kept is False:
                yield f"samples do not follow its stated {share.name}"


def check(
    what: Mechanism | Scenario,
    *,
    samples: int,
    seed: int,
    confidence: float = 0.95,
    objects: Sequence[int] | None = None,
    name: str | None = None,
) -> Verdict:
    """Check a mechanism by enumeration and by samples of its `obfuscate`.

    Parameters
    ----------
    what : a scenario, whose mechanism is checked, or a mechanism itself: anything with `universe` and
        `obfuscate(objects, rng)`. What it states (epsilon, likelihoods, p* and q*, columns, all reports) is held
        against that.
    samples : reports to make: half of them to choose an event, half to test it.
    seed : same seed, same verdict.
    confidence : that the lower bound is one; both probabilities are bounded with half of the error.
    objects : which to try; where absent all of a small universe, of a large one the first, the last and some others.
    name : what the verdict calls the mechanism.
    """
    if samples < FEWEST_SAMPLES:
        raise InputError(f"samples must be at least {FEWEST_SAMPLES:,}", value=samples)
    if not 0 < confidence < 1:
        raise InputError("confidence must be between 0 and 1", value=confidence)
    mechanism = build_mechanism(what, what.universe()) if isinstance(what, Scenario) else what
    known_as = what.mechanism.kind if isinstance(what, Scenario) else type(mechanism).__name__
    tried = _tried(mechanism.universe, seed) if objects is None else tuple(dict.fromkeys(map(int, objects)))
    sampler = Sampler(mechanism=mechanism, objects=tried, seed=seed)
    shares, shown = _sampled(sampler, samples, 1.0 - confidence)
    return Verdict(
        mechanism=name or known_as,
        claimed=float(getattr(mechanism, "epsilon", math.nan)),
        exact=exact(mechanism),
        shown=shown,
        shares=shares,
        samples=samples,
        objects=tried,
        confidence=confidence,
    )


def _tried(universe: int, seed: int) -> tuple[int, ...]:
    """All objects of a small universe; of a large one the first, the last and others at random."""
    if universe <= MOST_OBJECTS:
        return tuple(range(universe))
    inner = np.random.default_rng(seed).choice(universe - 2, MOST_OBJECTS - 2, replace=False) + 1
    return (0, *sorted(map(int, inner)), universe - 1)


def _sampled(sampler: Sampler, samples: int, error: float) -> tuple[tuple[Share, ...], Shown | None]:
    """A quarter of the samples finds events, a quarter chooses among them, a half tests the chosen one."""
    positions = range(len(sampler.objects))
    each = spread(samples // 4, len(sampler.objects))
    looks = [sampler.look(p, each[p]) for p in positions]
    families = list(learn(looks, sampler.objects, declared_columns(sampler.mechanism)))
    supports = Supports(sampler)
    counts = []
    for p in positions:
        total = [0] * len(families)
        for seen in sampler.draw(Stage.CHOOSE, p, each[p]):
            total = [old + family.holds(seen).sum(axis=0) for old, family in zip(total, families, strict=True)]
            supports.add(p, seen.reports)
        counts.append(np.concatenate(total))
    if len(sampler.objects) < 2:
        return supports.shares(), None
    one, other, event = most_telling(np.array(counts), np.array(each))
    return supports.shares(), _tested(sampler, *_find(families, event), one, other, samples // 4, error)


def most_telling(counts: NDArray[np.int64], trials: NDArray[np.int64]) -> tuple[int, int, int]:
    """Positions of two objects, and the event, with the largest lower bound on epsilon.

    counts (objects, events) how many of the trials (objects,) of each object satisfy each event.
    """
    low, high = clopper_pearson(counts, trials[:, None], CHOOSING_ERROR)
    with np.errstate(divide="ignore"):
        bound = np.log(low)[:, None] - np.log(high)[None]
    bound[np.arange(len(counts)), np.arange(len(counts))] = -np.inf
    one, other, event = np.unravel_index(int(bound.argmax()), bound.shape)
    return int(one), int(other), int(event)


def _find(families: Sequence[Family], event: int) -> tuple[Family, str]:
    """The family of one event alone, and the event in words."""
    for family in families:
        if event < len(family):
            return family.only(event), family.words(event)
        event -= len(family)
    raise AssertionError("an event belongs to a family")


def _tested(sampler: Sampler, family: Family, words: str, one: int, other: int, trials: int, error: float) -> Shown:
    """Bounds of the chosen event's probability on fresh samples."""
    hits = [
        sum(int(family.holds(seen).sum()) for seen in sampler.draw(Stage.TEST, position, trials))
        for position in (one, other)
    ]
    at_least = float(clopper_pearson(hits[0], trials, error / 2.0)[0])
    at_most = float(clopper_pearson(hits[1], trials, error / 2.0)[1])
    epsilon = max(math.log(at_least / at_most), 0.0) if at_least > 0 else 0.0
    return Shown(
        epsilon=epsilon,
        event=words,
        one=sampler.objects[one],
        other=sampler.objects[other],
        at_least=at_least,
        at_most=at_most,
        trials=trials,
    )
