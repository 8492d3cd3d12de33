"""Reports of one method of a mechanism, put to every test.

Does an implementation of a mechanism keep its promise?

There are two ways to know, and a check goes both. The stated law is enumerated where its reports are few: its
worst-case ratio is the epsilon that the statement promises. What is really sampled is put to a statistical test: some
of the samples choose two objects and the event that tells them best apart, all others bound the probability of that one
event under both. The bounds hold whatever was chosen, so the epsilon that they prove is a lower bound on the
implementation's own, and one that exceeds the claimed epsilon is proof that the promise is broken. Rare reports of many
objects are guessed from (`guesses`), samples are compared with what the mechanism states (`fit`, `distribution`), and
reports with each other (`repeats`): bounds hold for reports that are independent. Where `report`, which games play, is
other code than `obfuscate`, it takes the same tests.

References
----------
Z. Ding, Y. Wang, G. Wang, D. Zhang, D. Kifer. Detecting violations of differential privacy. CCS 2018.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from poolscope.core.arguments import checked
from poolscope.core.errors import InputError, did_you_mean
from poolscope.mechanisms.custom import Adapted, CustomMechanism, adapt
from poolscope.mechanisms.protocols import Mechanism
from poolscope.mechanisms.pure import declared_columns
from poolscope.population.universe import Universe
from poolscope.scenario.build import build_mechanism
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.check.bounds import Plan, Wide, clear, detectable, draw_wide, max_telling, nominated, plan
from poolscope.workflows.check.distribution import INDEPENDENCE_ERROR, Share, exact, states_law
from poolscope.workflows.check.events import ANY, Family, Name, numbered
from poolscope.workflows.check.fit import Fit, Fitting
from poolscope.workflows.check.guesses import guessed, standing_apart
from poolscope.workflows.check.repeats import repeats
from poolscope.workflows.check.sampling import (
    Sampler,
    Stage,
    Supports,
    has_own_report,
    learn,
    learn_joined,
    needs_more,
    reads_keys,
    spread,
)
from poolscope.workflows.check.verdict import LowerBound, Sampled, Verdict

#: Eighths of the samples that may be spent on the choice of an event.
TURNS = 3
#: Of the error that the lower bounds may have together, the share of guesses.
GUESSING = 0.2


@dataclass(frozen=True, kw_only=True)
class Telling:
    """The event that tells two objects best apart: alone in its family, and the positions of the objects."""

    family: Family
    one: int
    other: int
    rates: tuple[float, float]


def examine(
    sampler: Sampler, wide: Wide, samples: int, error: float, independence: float, claimed: float, name: Name
) -> Sampled:
    """All that the reports of one method show.

    Parameters
    ----------
    wide : reports of many objects, to guess from.
    error : of the lower bounds on epsilon together; independence : of all tests of independence.
    claimed : the claimed epsilon, of which it is said what could have been found.
    """
    telling, used, shares, fit = _chosen(sampler, samples)
    shown = None
    if telling:
        planned = plan(telling.rates, samples - used, (1.0 - GUESSING) * error)
        shown = _tested(sampler, telling, planned, claimed, name)
    found = guessed(wide, sampler.generator(Stage.WIDE, 2), GUESSING * error)
    independent = None
    if sampler.method == "obfuscate" or reads_keys(sampler.mechanism):
        position, event = (telling.one, telling.family) if telling else (0, None)
        independent = repeats(sampler, position, event, samples, independence)
    return Sampled(
        method=sampler.method,
        lower_bound=shown,
        guessed=found,
        shares=shares,
        fit=fit,
        repeats=independent,
        apart=standing_apart(wide),
        samples=samples,
    )


def _chosen(sampler: Sampler, samples: int) -> tuple[Telling | None, int, tuple[Share, ...], Fit | None]:
    """An eighth of the samples finds events, an eighth or more chooses among them; how many that took together."""
    families, used = _learned(sampler, samples)
    supports, fitting = Supports(sampler), Fitting(sampler.mechanism, sampler.objects)
    objects = len(sampler.objects)
    counts = np.zeros((objects, sum(map(len, families))), dtype=np.int64)
    trials = np.zeros(objects, dtype=np.int64)
    about = _positions(np.concatenate([family.pairs() for family in families]), sampler.objects)
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
            return None, used, supports.shares(), None
        one, other, event = max_telling(counts, trials, about)
        if clear(counts[[one, other], event], trials[[one, other]]):
            break
    rates = (counts[[one, other], event] + 0.5) / (trials[[one, other]] + 1.0)
    telling = Telling(family=_find(families, event), one=one, other=other, rates=(float(rates[0]), float(rates[1])))
    return telling, used, supports.shares(), fitting.fit()


def _positions(pairs: NDArray[np.int64], objects: Sequence[int]) -> NDArray[np.int64]:
    """Where objects stand among the tried ones; ANY stays what it is."""
    order = np.argsort(objects)
    positions = order[np.searchsorted(np.array(objects)[order], np.maximum(pairs, 0)).clip(max=len(objects) - 1)]
    return np.where(pairs == ANY, ANY, positions)


def _learned(sampler: Sampler, samples: int) -> tuple[list[Family], int]:
    """Events worth trying, and how many samples they took.

    Where no law says which bit an object has under a hash, that must be learned for each hash: a quarter of the
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


def _find(families: Sequence[Family], event: int) -> Family:
    """The family of one event alone."""
    for family in families:
        if event < len(family):
            return family.only(event)
        event -= len(family)
    raise AssertionError("an event belongs to a family")


def _tested(sampler: Sampler, telling: Telling, planned: Plan, claimed: float, name: Name) -> LowerBound:
    """What fresh samples prove by the chosen event."""
    of_one = int(sampler.generator(Stage.SPREAD, TURNS).binomial(planned.trials, planned.share))
    trials = of_one, planned.trials - of_one
    one_hits, other_hits = (
        sum(int(telling.family.holds(seen).sum()) for seen in sampler.draw(Stage.TEST, position, count))
        for position, count in zip((telling.one, telling.other), trials, strict=True)
    )
    return LowerBound(
        epsilon=planned.bound((one_hits, other_hits), trials),
        event=telling.family.words(0, name),
        one=sampler.objects[telling.one],
        other=sampler.objects[telling.other],
        hits=(one_hits, other_hits),
        trials=trials,
        detectable=detectable(planned, (other_hits + 0.5) / (trials[1] + 1.0), claimed),
    )


#: Objects that are tried where the universe has more.
MAX_OBJECTS = 12
FEWEST_SAMPLES = 1000
#: One in how many samples there are reports of many objects besides, and one in how many is made by `report` again.
WIDE_SHARE, PLAYED_SHARE = 2, 4


@checked
def check(
    what: Mechanism | Scenario,
    *,
    samples: int,
    seed: int,
    confidence: float = 0.95,
    objects: Sequence[int | str] | None = None,
    pools: Sequence[str] | None = None,
    universe: Universe | int | None = None,
    name: str | None = None,
) -> Verdict:
    """Check a mechanism by enumeration and by samples of its `obfuscate` and `report`.

    Parameters
    ----------
    what : a scenario, whose mechanism is checked, or a mechanism itself: anything with `universe` and
        `obfuscate(objects, rng)`. What it states (epsilon, likelihoods, p* and q*, columns, all reports) is compared
        with its samples.
    samples : reports to make: a quarter of them to choose an event, or more if it is not clear, the others to test it.
        Where no law is stated and columns must be joined, a quarter more. Half as many are of many objects, and up to
        as many again are compared with each other. Where `report` is other code, it makes a quarter of all that.
    seed : same seed, same verdict.
    confidence : of all lower bounds on epsilon together.
    objects : which to try, by number or name. By default all of a small universe; of a large one the first, the last,
        those that stand out among as many as there are samples for, and some others.
    pools : pools whose objects are tried, evenly.
    universe : the names of objects and pools; of a scenario it is known.
    name : what the verdict calls the mechanism.

    Examples
    --------
    >>> verdict = ps.check(mechanism, samples=5000, seed=1)
    >>> verdict.passed, verdict.declared
    (True, 3.0)
    """
    if samples < FEWEST_SAMPLES:
        raise InputError(f"samples must be at least {FEWEST_SAMPLES:,}", value=samples)
    if not 0 < confidence < 1:
        raise InputError("confidence must be between 0 and 1", value=confidence)
    if not isinstance(what, Scenario) and (
        isinstance(what, type) or not all(hasattr(what, part) for part in ("universe", "obfuscate"))
    ):
        rule = "must be a scenario or a mechanism, which has universe and obfuscate"
        raise InputError(rule, value=what, remedy="one of your own: poolscope.mechanisms.adapt(mine, universe)")
    known = what.universe() if isinstance(what, Scenario) else universe if isinstance(universe, Universe) else None
    mechanism = build_mechanism(what, what.universe()) if isinstance(what, Scenario) else _sized(what, universe)
    named = _names(known)
    chosen = _asked_for(mechanism.universe, known, objects, pools, seed)
    sampler = Sampler(mechanism=mechanism, objects=chosen or (0,), seed=seed)
    wide = draw_wide(sampler, samples // WIDE_SHARE, chosen)
    tried = chosen or _tried(mechanism.universe, seed, nominated(wide))
    sampler = replace(sampler, objects=tried)
    claimed = float(getattr(mechanism, "epsilon", math.nan))
    played, error, independence = None, 1.0 - confidence, INDEPENDENCE_ERROR
    if has_own_report(mechanism):
        error, independence = error / 2.0, independence / 2.0
        player, fewer = replace(sampler, method="report"), max(FEWEST_SAMPLES, samples // PLAYED_SHARE)
        few = draw_wide(player, fewer // WIDE_SHARE, chosen)
        played = examine(player, few, fewer, error, independence, claimed, named)
    return Verdict(
        mechanism=name or _known_as(what),
        declared=claimed,
        exact=exact(mechanism),
        sampled=examine(sampler, wide, samples, error, independence, claimed, named),
        played=played,
        objects=tried,
        names=tuple(map(named, tried)),
        universe=mechanism.universe,
        screened=len(wide.objects),
        confidence=confidence,
    )


def _known_as(what: Any) -> str:
    """What a mechanism is called: its kind in a scenario, else the name of its class."""
    if isinstance(what, Scenario):
        return what.mechanism.kind
    return type(what.mechanism if isinstance(what, Adapted) else what).__name__


def _sized(mechanism: Any, universe: Universe | int | None) -> Mechanism:
    """A mechanism that knows how many objects there are; its likelihood is the law that it states."""
    size = universe.size if isinstance(universe, Universe) else universe
    own = getattr(mechanism, "universe", size)
    if own is None:
        remedy = "give check a universe, or adapt the mechanism to one"
        raise InputError("a mechanism must know its universe", value=type(mechanism).__name__, remedy=remedy)
    if size is not None and own != size:
        raise InputError(f"must have the {own} objects of the mechanism", value=size, place="universe")
    if hasattr(mechanism, "log_likelihood") and not states_law(mechanism):
        return adapt(cast(CustomMechanism, mechanism), own)
    if not hasattr(mechanism, "universe"):
        remedy = "give it an attribute universe: how many objects there are"
        raise InputError("a mechanism must know its universe", value=type(mechanism).__name__, remedy=remedy)
    return cast(Mechanism, mechanism)


def _names(universe: Universe | None) -> Any:
    """What objects are called: by the names that the universe gives them, else by their numbers."""
    if universe is None or universe.objects is None:
        return numbered
    objects = universe.objects
    return lambda z: repr(objects[z])


def _asked_for(
    size: int,
    universe: Universe | None,
    objects: Sequence[int | str] | None,
    pools: Sequence[str] | None,
    seed: int,
) -> tuple[int, ...] | None:
    """The objects that were asked for; None where none were."""
    if objects is None and pools is None:
        return None
    if objects is not None and pools is not None:
        raise InputError("objects and pools must not be given together", value=list(pools), place="pools")
    found = _of_pools(universe, pools, seed) if pools is not None else _found(size, universe, objects or ())
    if len(set(found)) < 2:
        raise InputError("must be two or more", value=list(objects or pools or ()), place="objects")
    return tuple(dict.fromkeys(found))


def _found(size: int, universe: Universe | None, objects: Sequence[int | str]) -> list[int]:
    """Objects by number or, where they have names, by name."""
    known = universe or Universe.sized(max(size, 2), {"first": 1, "rest": max(size, 2) - 1})
    out: list[int] = []
    for given in objects:
        number = given if isinstance(given, int | np.integer) else known.find(pl.Series([str(given)]))[0]
        if number is None or not 0 <= number < size:
            raise known.unknown(given)
        out.append(int(number))
    return out


def _of_pools(universe: Universe | None, pools: Sequence[str], seed: int) -> list[int]:
    """Objects of some pools, as many of each as fit."""
    if universe is None:
        raise InputError("pools need a universe that has them", value=list(pools), place="pools")
    rng, out = np.random.default_rng(seed), []
    for pool in pools:
        if pool not in universe.pool_names:
            remedy = did_you_mean(pool, universe.pool_names)
            raise InputError("must be a pool of the universe", value=pool, place="pools", remedy=remedy)
        members = np.flatnonzero(universe.pool_of == universe.pool_names.index(pool))
        count = min(len(members), max(2, MAX_OBJECTS // len(pools)))
        out += sorted(rng.choice(members, count, replace=False).tolist())
    return out


def _tried(universe: int, seed: int, outstanding: Sequence[int]) -> tuple[int, ...]:
    """All objects of a small universe; of a large one the first, the last, those that stand out, others at random."""
    if universe <= MAX_OBJECTS:
        return tuple(range(universe))
    inner = np.random.default_rng(seed).choice(universe - 2, MAX_OBJECTS - 2, replace=False) + 1
    return tuple(sorted(list(dict.fromkeys([0, universe - 1, *outstanding, *map(int, inner)]))[:MAX_OBJECTS]))
