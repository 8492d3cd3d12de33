"""Does an implementation of a mechanism keep its promise?

There are two ways to know, and a check goes both. The stated law is enumerated where its reports are few: its
worst-case ratio is the epsilon that the statement promises. What is really sampled is put to a statistical test: some
of the samples choose two objects and the event that tells them best apart, all others bound the probability of that one
event under both. The bounds hold whatever was chosen, so the epsilon that they prove is a lower bound on the
implementation's own, and one that exceeds the claimed epsilon is proof that the promise is broken. Besides, samples are
held against what the mechanism states, and its generator is tried: bounds hold for reports that are drawn anew.

References
----------
Z. Ding, Y. Wang, G. Wang, D. Zhang, D. Kifer. Detecting violations of differential privacy. CCS 2018.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from poolscope.base.arguments import checked
from poolscope.base.errors import InputError
from poolscope.mechanisms.adapt import Own, adapt
from poolscope.mechanisms.listing import declared_columns
from poolscope.mechanisms.role import Mechanism
from poolscope.scenario.build import build_mechanism
from poolscope.scenario.scenario import Scenario
from poolscope.verbs.check.bound import Plan, clear, most_telling, plan
from poolscope.verbs.check.events import Family
from poolscope.verbs.check.fit import Fit, Fitting
from poolscope.verbs.check.law import Exact, Share, exact, states_law
from poolscope.verbs.check.learn import learn, learn_joined, needs_more
from poolscope.verbs.check.repeats import Repeats, repeats
from poolscope.verbs.check.samples import Sampler, Stage, Supports, spread

#: Objects that are tried where the universe has more.
MOST_OBJECTS = 12
FEWEST_SAMPLES = 1000
#: Eighths of the samples that may be spent on the choice of an event.
TURNS = 3
#: Relative rounding of an exact epsilon.
ROUNDING = 1e-9
FOREIGN = (
    "it depends on something else than its generator: the same generator gave other reports, so the same seed may give "
    "another verdict"
)


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What the samples prove: an event that one object causes more often than another.

    epsilon : lower bound, not below 0.
    event : the event in words.
    one, other : the objects.
    hits, trials : in how many of how many reports of one and of other the event happened.
    """

    epsilon: float
    event: str
    one: int
    other: int
    hits: tuple[int, int]
    trials: tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether a mechanism keeps its promise, and how that is known.

    Parameters
    ----------
    mechanism : its name; claimed : its epsilon, NaN where it claims none.
    exact : the stated law by enumeration; None where its reports are too many.
    shown : what samples prove; None where the universe has a single object.
    shares : p* and q* beside samples; empty where the mechanism states none.
    fit : stated likelihoods beside samples; None where none are stated.
    repeats : what the generator shows.
    samples : reports that were made; objects : the objects that they were made from.
    confidence : of the lower bound.
    """

    mechanism: str
    claimed: float
    exact: Exact | None
    shown: Shown | None
    shares: tuple[Share, ...]
    fit: Fit | None
    repeats: Repeats
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
    def warnings(self) -> tuple[str, ...]:
        """What is no breach but should be known."""
        return (FOREIGN,) if self.repeats.foreign else ()

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
        if self.fit and not self.fit.kept:
            told = f"of reports that its law gives to object {self.fit.object} with probability {self.fit.stated:.3g}"
            found = f"{self.fit.low:.3g} to {self.fit.high:.3g} are"
            yield f"samples do not fit its stated likelihoods: {told}, {found}"
        yield from self.repeats.found


@checked
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
    samples : reports to make: a quarter of them to choose an event, or more if it is not clear, the others to test it.
        Where no law is stated and columns must be joined, a quarter more. Some thousand others try the generator.
    seed : same seed, same verdict.
    confidence : that the lower bound is one; the two probabilities' bounds share the error.
    objects : which to try; where absent all of a small universe, of a large one the first, the last and some others.
    name : what the verdict calls the mechanism.

    Examples
    --------
    >>> verdict = ps.check(mechanism, samples=5000, seed=1)
    >>> verdict.kept, verdict.claimed
    (True, 3.0)
    """
    if samples < FEWEST_SAMPLES:
        raise InputError(f"samples must be at least {FEWEST_SAMPLES:,}", value=samples)
    if not 0 < confidence < 1:
        raise InputError("confidence must be between 0 and 1", value=confidence)
    mechanism = build_mechanism(what, what.universe()) if isinstance(what, Scenario) else what
    if isinstance(mechanism, type) or not all(hasattr(mechanism, name) for name in ("universe", "obfuscate")):
        rule = "must be a scenario or a mechanism, which has universe and obfuscate"
        raise InputError(rule, value=what, remedy="one of your own: poolscope.mechanisms.adapt(mine, universe)")
    if objects is not None and (not len(objects) or not all(0 <= z < mechanism.universe for z in objects)):
        raise InputError(f"objects must be some of 0 to {mechanism.universe - 1}", value=list(objects))
    if hasattr(mechanism, "log_likelihood") and not states_law(mechanism):
        # of one's own and not adapted yet: its likelihood is the law that it states
        mechanism = adapt(cast(Own, mechanism), mechanism.universe)
    known_as = what.mechanism.kind if isinstance(what, Scenario) else type(what).__name__
    tried = _tried(mechanism.universe, seed) if objects is None else tuple(dict.fromkeys(map(int, objects)))
    sampler = Sampler(mechanism=mechanism, objects=tried, seed=seed)
    shares, fit, shown = _sampled(sampler, samples, 1.0 - confidence)
    return Verdict(
        mechanism=name or known_as,
        claimed=float(getattr(mechanism, "epsilon", math.nan)),
        exact=exact(mechanism),
        shown=shown,
        shares=shares,
        fit=fit,
        repeats=repeats(sampler),
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


def _sampled(sampler: Sampler, samples: int, error: float) -> tuple[tuple[Share, ...], Fit | None, Shown | None]:
    """An eighth of the samples finds events, an eighth or more chooses among them, the rest tests the chosen one."""
    families, used = _learnt(sampler, samples)
    supports, fitting = Supports(sampler), Fitting(sampler.mechanism, sampler.objects)
    objects = len(sampler.objects)
    counts = np.zeros((objects, sum(map(len, families))), dtype=np.int64)
    trials = np.zeros(objects, dtype=np.int64)
    for turn in range(TURNS):
        # objects at random and not in equal numbers: whose a report is then depends on that report alone
        each = sampler.generator(Stage.SPREAD, turn).multinomial(samples // 8, np.full(objects, 1.0 / objects))
        trials += each
        used += samples // 8
        for p in range(objects):
            for seen in sampler.draw(Stage.CHOOSE, p, int(each[p]), turn):
                counts[p] += np.concatenate([family.holds(seen).sum(axis=0) for family in families])
                if turn == 0:
                    # what decides whether there are more must not be judged by how it was decided
                    supports.add(p, seen.reports)
                    fitting.add(p, seen)
        if objects < 2:
            return supports.shares(), None, None
        one, other, event = most_telling(counts, trials)
        if clear(counts[[one, other], event], trials[[one, other]]):
            break
    rates = (counts[[one, other], event] + 0.5) / (trials[[one, other]] + 1.0)
    planned = plan((float(rates[0]), float(rates[1])), samples - used, error)
    return supports.shares(), fitting.fit(), _tested(sampler, *_find(families, event), one, other, planned)


def _learnt(sampler: Sampler, samples: int) -> tuple[list[Family], int]:
    """Events worth trying, and how many samples they took.

    Where no law says which bit an object has under a hash, that must be learnt for each hash: a quarter of the
    samples more, of two objects.
    """
    objects, columns = sampler.objects, declared_columns(sampler.mechanism)
    each = spread(samples // 8, len(objects))
    looks = [sampler.look(Stage.LOOK, p, count) for p, count in enumerate(each)]
    families, used = list(learn(looks, objects, columns)), samples // 8
    if len(objects) > 1 and not states_law(sampler.mechanism) and needs_more(looks, columns):
        ends = 0, len(objects) - 1
        longer = [sampler.look(Stage.LOOK_AGAIN, p, samples // 8) for p in ends]
        families += learn_joined(longer, [objects[p] for p in ends], columns)
        used += 2 * (samples // 8)
    return families, used


def _find(families: Sequence[Family], event: int) -> tuple[Family, str]:
    """The family of one event alone, and the event in words."""
    for family in families:
        if event < len(family):
            return family.only(event), family.words(event)
        event -= len(family)
    raise AssertionError("an event belongs to a family")


def _tested(sampler: Sampler, family: Family, words: str, one: int, other: int, planned: Plan) -> Shown:
    """What fresh samples prove by the chosen event."""
    of_one = int(sampler.generator(Stage.SPREAD, TURNS).binomial(planned.trials, planned.share))
    trials = of_one, planned.trials - of_one
    one_hits, other_hits = (
        sum(int(family.holds(seen).sum()) for seen in sampler.draw(Stage.TEST, position, count))
        for position, count in zip((one, other), trials, strict=True)
    )
    return Shown(
        epsilon=planned.bound((one_hits, other_hits), trials),
        event=words,
        one=sampler.objects[one],
        other=sampler.objects[other],
        hits=(one_hits, other_hits),
        trials=trials,
    )
