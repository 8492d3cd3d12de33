"""Check whether an implementation of a mechanism satisfies its declared ε.

A check does this in two ways. The stated distribution is enumerated where the output space is small: its worst-case
ratio is the ε of the statement. The implementation is put to a statistical test: some samples choose two objects
and the event that distinguishes them best, all others bound the probability of that event under both. The bounds are
valid whatever was chosen, so that they give a lower bound on the implementation's ε. A bound above the declared
ε is a violation. Guesses bound ε by rare reports of many objects (`bounds`), samples are compared with what
the mechanism states (`distribution`), and reports with each other (`independence`), as bounds hold for independent
reports. Where `report`, which games use, is other code than `obfuscate`, it takes the same tests.

References
----------
Z. Ding, Y. Wang, G. Wang, D. Zhang, D. Kifer. Detecting violations of differential privacy. CCS 2018.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from poolscope.core.arguments import checked, is_integer
from poolscope.core.errors import InputError, did_you_mean
from poolscope.mechanisms.custom import Adapted, CustomMechanism, adapt
from poolscope.mechanisms.protocols import Mechanism
from poolscope.mechanisms.pure import declared_columns
from poolscope.metrics.multidimensional import tuple_epsilon
from poolscope.population.universe import Universe
from poolscope.scenario.build import build_mechanism
from poolscope.scenario.multidimensional import build_multidimensional, tuple_label
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.check.bounds import (
    BoundPlan,
    best_event,
    guess_bound,
    is_significant,
    min_detectable_epsilon,
    outlier_warning,
    plan,
)
from poolscope.workflows.check.candidates import (
    learn,
    learn_joint,
    needs_more_reports,
)
from poolscope.workflows.check.distribution import (
    DISTRIBUTION_CONFIDENCE,
    DISTRIBUTION_PARTS,
    FitCounter,
    LikelihoodFit,
    SupportCounter,
    SupportProbabilityCheck,
    exact,
    states_distribution,
)
from poolscope.workflows.check.events import (
    ANY,
    EventFamily,
    ObjectName,
    object_label,
)
from poolscope.workflows.check.independence import check_independence
from poolscope.workflows.check.sampling import (
    Sampler,
    Screening,
    Stage,
    conspicuous_objects,
    draw_screening,
    has_own_report,
    reads_keys,
    split_evenly,
)
from poolscope.workflows.check.verdict import (
    LowerBound,
    SampledVerdict,
    Verdict,
)

#: Rounds, of an eighth of the samples each, that may be spent on the choice of an event.
MAX_ROUNDS = 3
#: Probability that a correct mechanism fails a check that gates a pipeline, at most.
GATE_ERROR = 1e-4
DEFAULT_CONFIDENCE = 0.95
#: Share of the error of the lower bounds that goes to guesses.
GUESS_ERROR_SHARE = 0.2
#: Objects that are tested where the universe has more.
MAX_OBJECTS = 12
MIN_SAMPLES = 1000
#: Samples for each report of the screening sample, and for each sample of `report`.
SCREENING_PART, REPORT_PART = 2, 4


@dataclass(frozen=True, kw_only=True)
class ChosenEvent:
    """The event that distinguishes two objects best, alone in its family, and the positions of the objects."""

    family: EventFamily
    one: int
    other: int
    rates: tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class ErrorBudget:
    """Probabilities that a correct mechanism fails, at most.

    bounds : by the lower bounds on ε together; distribution : by one side of one comparison with the stated
    distribution; independence : by all tests of independence.
    """

    bounds: float
    distribution: float
    independence: float

    @classmethod
    def of(cls, bounds: float, others: float, methods: int) -> ErrorBudget:
        """Return the budget of each method; comparisons and tests of independence share theirs evenly."""
        return cls(
            bounds=bounds / methods,
            distribution=others / 2.0 / DISTRIBUTION_PARTS,
            independence=others / 2.0 / methods,
        )


def examine(
    sampler: Sampler,
    screening: Screening,
    samples: int,
    budget: ErrorBudget,
    declared: float,
    name: ObjectName,
) -> SampledVerdict:
    """Put the reports of one method to every test.

    Parameters
    ----------
    screening : reports of many objects, to guess from.
    budget : of the errors of all tests.
    declared : the declared ε, for which the detectable excess is computed.
    """
    chosen, used, shares, fit = _choose_event(sampler, samples, budget.distribution)
    bound = None
    if chosen:
        planned = plan(chosen.rates, samples - used, (1.0 - GUESS_ERROR_SHARE) * budget.bounds)
        bound = _test_event(sampler, chosen, planned, declared, name)
    found = guess_bound(screening, sampler.generator(Stage.SCREEN, 2), GUESS_ERROR_SHARE * budget.bounds)
    independent = None
    if sampler.method == "obfuscate" or reads_keys(sampler.mechanism):
        position, event = (chosen.one, chosen.family) if chosen else (0, None)
        independent = check_independence(sampler, position, event, samples, budget.independence)
    return SampledVerdict(
        method=sampler.method,
        lower_bound=bound,
        guessed=found,
        shares=shares,
        fit=fit,
        repeats=independent,
        apart=outlier_warning(screening),
        samples=samples,
    )


def _choose_event(
    sampler: Sampler, samples: int, error: float
) -> tuple[ChosenEvent | None, int, tuple[SupportProbabilityCheck, ...], LikelihoodFit | None]:
    """Learn events from an eighth of the samples and choose among them by an eighth or more.

    error : of one side of one comparison with the stated distribution.

    Returns
    -------
    The event, the samples used, and the comparisons with p*, q* and the likelihoods.
    """
    families, used = _learn_events(sampler, samples)
    supports = SupportCounter(sampler.mechanism, sampler.objects, error)
    fitting = FitCounter(sampler.mechanism, sampler.objects, error)
    objects = len(sampler.objects)
    counts = np.zeros((objects, sum(map(len, families))), dtype=np.int64)
    trials = np.zeros(objects, dtype=np.int64)
    about = _positions(np.concatenate([family.pairs() for family in families]), sampler.objects)
    for round_number in range(MAX_ROUNDS):
        # random counts of objects, so that given the reports their objects are independent
        each = sampler.generator(Stage.ALLOCATE, round_number).multinomial(
            samples // 8, np.full(objects, 1.0 / objects)
        )
        trials += each
        used += samples // 8
        for p in range(objects):
            for seen in sampler.draw(Stage.CHOOSE, p, int(each[p]), round_number):
                counts[p] += np.concatenate([family.holds(seen).sum(axis=0) for family in families])
                if round_number == 0:
                    # later rounds depend on the first one: only the first is an unbiased sample
                    supports.add(p, seen.reports)
                    fitting.add(p, seen)
        if objects < 2:
            return None, used, supports.shares(), None
        one, other, event = best_event(counts, trials, about)
        if is_significant(counts[[one, other], event], trials[[one, other]]):
            break
    rates = (counts[[one, other], event] + 0.5) / (trials[[one, other]] + 1.0)
    chosen = ChosenEvent(
        family=_single_event(families, event), one=one, other=other, rates=(float(rates[0]), float(rates[1]))
    )
    return chosen, used, supports.shares(), fitting.fit()


def _positions(pairs: NDArray[np.int64], objects: Sequence[int]) -> NDArray[np.int64]:
    """Return the positions of objects among the tested ones; ANY stays."""
    order = np.argsort(objects)
    positions = order[np.searchsorted(np.array(objects)[order], np.maximum(pairs, 0)).clip(max=len(objects) - 1)]
    return np.where(pairs == ANY, ANY, positions)


def _learn_events(sampler: Sampler, samples: int) -> tuple[list[EventFamily], int]:
    """Return events worth testing, and the samples that learning them took.

    Where no stated distribution relates objects to hashes, that is learned for each hash: from a quarter of the samples
    more, of two objects.
    """
    objects, columns = sampler.objects, declared_columns(sampler.mechanism)
    each = split_evenly(samples // 8, len(objects))
    first_samples = [sampler.sample_in_memory(Stage.LEARN, p, count) for p, count in enumerate(each)]
    families, used = list(learn(first_samples, objects, columns)), samples // 8
    if len(objects) > 1 and not states_distribution(sampler.mechanism) and needs_more_reports(first_samples, columns):
        ends = 0, len(objects) - 1
        larger_samples = [sampler.sample_in_memory(Stage.LEARN_MORE, p, samples // 8) for p in ends]
        families += learn_joint(larger_samples, [objects[p] for p in ends], columns)
        used += 2 * (samples // 8)
    return families, used


def _single_event(families: Sequence[EventFamily], event: int) -> EventFamily:
    """Return the family of one event alone."""
    for family in families:
        if event < len(family):
            return family.only(event)
        event -= len(family)
    raise AssertionError("every event belongs to a family")


def _test_event(
    sampler: Sampler, chosen: ChosenEvent, planned: BoundPlan, declared: float, name: ObjectName
) -> LowerBound:
    """Bound ε by the chosen event on fresh samples."""
    first_trials = int(sampler.generator(Stage.ALLOCATE, MAX_ROUNDS).binomial(planned.trials, planned.share))
    trials = first_trials, planned.trials - first_trials
    one_hits, other_hits = (
        sum(int(chosen.family.holds(seen).sum()) for seen in sampler.draw(Stage.TEST, position, count))
        for position, count in zip((chosen.one, chosen.other), trials, strict=True)
    )
    return LowerBound(
        epsilon=planned.bound((one_hits, other_hits), trials),
        event=chosen.family.describe(0, name),
        one=sampler.objects[chosen.one],
        other=sampler.objects[chosen.other],
        hits=(one_hits, other_hits),
        trials=trials,
        detectable=min_detectable_epsilon(planned, (other_hits + 0.5) / (trials[1] + 1.0), declared),
    )


@checked
def check(
    what: Mechanism | Scenario,
    *,
    samples: int,
    seed: int,
    confidence: float | None = None,
    gate: bool = False,
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
        Where no distribution is stated and columns must be combined, a quarter more. Half as many are of many objects,
        and up to as many again are compared with each other. A `report` of other code makes a quarter of all that.
    seed : same seed, same verdict.
    confidence : of all lower bounds on ε together; 0.95 by default.
    gate : whether the check gates a pipeline: a correct mechanism then fails 1 check in 10,000 at most, by all tests
        together. Half of that is for the lower bounds. By default it fails 5.1% at most.
    objects : which to test, by number or name. By default all of a small universe; of a large one the first, the last,
        those that are conspicuous in a screening sample, and some others.
    pools : pools whose objects are tested, evenly.
    universe : the names of objects and pools; a scenario has its own.
    name : the name of the mechanism in the verdict.

    Examples
    --------
    >>> verdict = ps.check(mechanism, samples=5000, seed=1)
    >>> verdict.passed, verdict.declared
    (True, 3.0)
    """
    if samples < MIN_SAMPLES:
        raise InputError(f"samples must be at least {MIN_SAMPLES:,}", value=samples)
    if gate and confidence is not None:
        raise InputError("must not be given with `gate`, which has its own", value=confidence, place="confidence")
    if confidence is not None and not 0 < confidence < 1:
        raise InputError("confidence must be between 0 and 1", value=confidence)
    if not isinstance(what, Scenario) and (
        isinstance(what, type) or not all(hasattr(what, part) for part in ("universe", "obfuscate"))
    ):
        rule = "must be a scenario or a mechanism, which has universe and obfuscate"
        raise InputError(rule, value=what, remedy="one of your own: poolscope.mechanisms.adapt(mine, universe)")
    mechanism, known, label = _subject(what, universe)
    chosen = _requested_objects(mechanism.universe, known, objects, pools, seed)
    sampler = Sampler(mechanism=mechanism, objects=chosen or (0,), seed=seed)
    screening = draw_screening(sampler, samples // SCREENING_PART, chosen)
    tested = chosen or _default_objects(mechanism.universe, seed, conspicuous_objects(screening))
    sampler = replace(sampler, objects=tested)
    declared = float(getattr(mechanism, "epsilon", math.nan))
    own_report = has_own_report(mechanism)
    level = 1.0 - GATE_ERROR / 2.0 if gate else DEFAULT_CONFIDENCE if confidence is None else confidence
    others = 1.0 - GATE_ERROR / 2.0 if gate else DISTRIBUTION_CONFIDENCE
    budget = ErrorBudget.of(1.0 - level, 1.0 - others, 2 if own_report else 1)
    played = None
    if own_report:
        report_sampler, fewer = replace(sampler, method="report"), max(MIN_SAMPLES, samples // REPORT_PART)
        report_screening = draw_screening(report_sampler, fewer // SCREENING_PART, chosen)
        played = examine(report_sampler, report_screening, fewer, budget, declared, label)
    return Verdict(
        mechanism=name or _name_of(what),
        declared=declared,
        exact=exact(mechanism),
        sampled=examine(sampler, screening, samples, budget, declared, label),
        played=played,
        objects=tested,
        names=tuple(map(label, tested)),
        universe=mechanism.universe,
        screened=len(screening.objects),
        confidence=level,
        distribution_confidence=others,
        multidimensional=tuple_epsilon(mechanism),
    )


def _subject(what: Any, universe: Universe | int | None) -> tuple[Mechanism, Universe | None, Any]:
    """Return the mechanism to check, the universe that names its objects, and a function that labels them."""
    if isinstance(what, Scenario) and what.multidimensional:
        tuples, parts = build_multidimensional(what), [part.universe() for part in what.parts]
        return tuples, None, partial(tuple_label, tuples, parts)
    known = what.universe() if isinstance(what, Scenario) else universe if isinstance(universe, Universe) else None
    mechanism = build_mechanism(what, what.universe()) if isinstance(what, Scenario) else _with_universe(what, universe)
    return mechanism, known, _object_labels(known)


def _name_of(what: Any) -> str:
    """Return the name of a mechanism: its kind in a scenario, else the name of its class."""
    if isinstance(what, Scenario):
        return what.multidimensional.kind if what.multidimensional else what.mechanism.kind
    return type(what.mechanism if isinstance(what, Adapted) else what).__name__


def _with_universe(mechanism: Any, universe: Universe | int | None) -> Mechanism:
    """Return a mechanism that knows its universe; its likelihood is the distribution that it states."""
    size, own = universe.size if isinstance(universe, Universe) else universe, mechanism.universe
    if not is_integer(own) or own < 1:
        raise InputError("must be the number of objects", value=own, place=f"{type(mechanism).__name__}.universe")
    if size is not None and own != size:
        raise InputError(f"must have the {own} objects of the mechanism", value=size, place="universe")
    if hasattr(mechanism, "log_likelihood") and not states_distribution(mechanism):
        return adapt(cast(CustomMechanism, mechanism), own)
    return cast(Mechanism, mechanism)


def _object_labels(universe: Universe | None) -> Any:
    """Return a function that labels objects: by the names of the universe, else by their numbers."""
    if universe is None or universe.objects is None:
        return object_label
    objects = universe.objects
    return lambda z: repr(objects[z])


def _requested_objects(
    size: int,
    universe: Universe | None,
    objects: Sequence[int | str] | None,
    pools: Sequence[str] | None,
    seed: int,
) -> tuple[int, ...] | None:
    """Return the objects that the caller asked for; None for the default."""
    if objects is None and pools is None:
        return None
    if objects is not None and pools is not None:
        raise InputError("objects and pools must not be given together", value=list(pools), place="pools")
    found = (
        _objects_of_pools(universe, pools, seed) if pools is not None else _numbers_of(size, universe, objects or ())
    )
    if len(set(found)) < 2:
        raise InputError("must be two or more", value=list(objects or pools or ()), place="objects")
    return tuple(dict.fromkeys(found))


def _numbers_of(size: int, universe: Universe | None, objects: Sequence[int | str]) -> list[int]:
    """Find objects by number or, where they have names, by name."""
    known = universe or Universe.sized(max(size, 2), {"first": 1, "rest": max(size, 2) - 1})
    out: list[int] = []
    for given in objects:
        number = given if isinstance(given, int | np.integer) else known.find(pl.Series([str(given)]))[0]
        if number is None or not 0 <= number < size:
            raise known.unknown(given)
        out.append(int(number))
    return out


def _objects_of_pools(universe: Universe | None, pools: Sequence[str], seed: int) -> list[int]:
    """Draw objects of some pools, evenly."""
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


def _default_objects(universe: int, seed: int, conspicuous: Sequence[int]) -> tuple[int, ...]:
    """Return all objects of a small universe; of a large one the first, the last, conspicuous and random ones."""
    if universe <= MAX_OBJECTS:
        return tuple(range(universe))
    inner = np.random.default_rng(seed).choice(universe - 2, MAX_OBJECTS - 2, replace=False) + 1
    return tuple(sorted(list(dict.fromkeys([0, universe - 1, *conspicuous, *map(int, inner)]))[:MAX_OBJECTS]))
