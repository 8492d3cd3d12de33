"""Reports of one method of a mechanism, put to every test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poolscope.mechanisms.registry import declared_columns
from poolscope.workflows.check.bound import Plan, clear, most_telling, plan
from poolscope.workflows.check.events import ANY, Family, Name
from poolscope.workflows.check.fit import Fit, Fitting
from poolscope.workflows.check.guesses import guessed, standing_apart
from poolscope.workflows.check.law import Share, states_law
from poolscope.workflows.check.learn import learn, learn_joined, needs_more
from poolscope.workflows.check.power import detectable
from poolscope.workflows.check.repeats import repeats
from poolscope.workflows.check.samples import Sampler, Stage, Supports, reads_keys, spread
from poolscope.workflows.check.verdict import Sampled, Shown
from poolscope.workflows.check.wide import Wide

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
        shown=shown,
        guessed=found,
        shares=shares,
        fit=fit,
        repeats=independent,
        apart=standing_apart(wide),
        samples=samples,
    )


def _chosen(sampler: Sampler, samples: int) -> tuple[Telling | None, int, tuple[Share, ...], Fit | None]:
    """An eighth of the samples finds events, an eighth or more chooses among them; how many that took together."""
    families, used = _learnt(sampler, samples)
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
        one, other, event = most_telling(counts, trials, about)
        if clear(counts[[one, other], event], trials[[one, other]]):
            break
    rates = (counts[[one, other], event] + 0.5) / (trials[[one, other]] + 1.0)
    telling = Telling(family=_find(families, event), one=one, other=other, rates=(float(rates[0]), float(rates[1])))
    return telling, used, supports.shares(), fitting.fit()


def _positions(pairs: NDArray[np.int64], objects: Sequence[int]) -> NDArray[np.int64]:
    """Where objects stand among the tried ones; ANY stays what it is."""
    order = np.argsort(objects)
    places = order[np.searchsorted(np.array(objects)[order], np.maximum(pairs, 0)).clip(max=len(objects) - 1)]
    return np.where(pairs == ANY, ANY, places)


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


def _find(families: Sequence[Family], event: int) -> Family:
    """The family of one event alone."""
    for family in families:
        if event < len(family):
            return family.only(event)
        event -= len(family)
    raise AssertionError("an event belongs to a family")


def _tested(sampler: Sampler, telling: Telling, planned: Plan, claimed: float, name: Name) -> Shown:
    """What fresh samples prove by the chosen event."""
    of_one = int(sampler.generator(Stage.SPREAD, TURNS).binomial(planned.trials, planned.share))
    trials = of_one, planned.trials - of_one
    one_hits, other_hits = (
        sum(int(telling.family.holds(seen).sum()) for seen in sampler.draw(Stage.TEST, position, count))
        for position, count in zip((telling.one, telling.other), trials, strict=True)
    )
    return Shown(
        epsilon=planned.bound((one_hits, other_hits), trials),
        event=telling.family.words(0, name),
        one=sampler.objects[telling.one],
        other=sampler.objects[telling.other],
        hits=(one_hits, other_hits),
        trials=trials,
        detectable=detectable(planned, (other_hits + 0.5) / (trials[1] + 1.0), claimed),
    )
