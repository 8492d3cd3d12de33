"""Recommend an ε and a cap for each of several collections of one person.

The error target of a collection sets its smallest ε. The exposure target is for all collections together. Where
every collection has an error target, each ε is the smallest one, and caps are allocated; otherwise caps are the
horizon, and values of ε are allocated (`allocation`). All levels are then refined by a common factor, with more users,
and verified by held-out users, as for one collection (`refine`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from tempfile import gettempdir

from poolscope.core.arguments import is_number
from poolscope.core.errors import InputError, did_you_mean
from poolscope.core.executors import EngineLike, as_engine
from poolscope.core.files import check_new
from poolscope.core.progress import SILENT, Progress
from poolscope.metrics.provenance import combined, provenance_of
from poolscope.scenario.collection_tables import tuples_unsupported
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.advise.allocation import allocate
from poolscope.workflows.advise.collection_choice import (
    choices_of,
    recommendation_of,
    recommended_scenario,
    refined,
    step_records,
)
from poolscope.workflows.advise.collection_plan import checked_errors, plan_of, relaxation_of
from poolscope.workflows.advise.collection_records import CollectionsAdvice, CollectionsQuestion
from poolscope.workflows.advise.collection_simulation import joint_simulator_of
from poolscope.workflows.advise.collection_text import (
    assumptions_of,
    notes_of,
    reason_of,
    relaxations_of,
    sentence_of,
)
from poolscope.workflows.advise.question import MEMOIZED_USERS, MIN_EXPOSURE, UTILITY, question_of
from poolscope.workflows.advise.simulation import HORIZON_FACTOR
from poolscope.workflows.audit.run_folder import input_files


def advise_collections(
    scenario: Scenario,
    *,
    max_exposed: float,
    max_error: Mapping[str, float],
    threshold: float | None = None,
    horizon: int | None = None,
    days: float | None = None,
    devices: int | None = None,
    adversary: str | None = None,
    epsilon: tuple[float, float] | None = None,
    users: int | None = None,
    tolerance: float | None = None,
    prefer: str | None = None,
    seed: int = 0,
    engine: EngineLike | None = None,
    out: str | PathLike[str] | None = None,
    progress: Progress = SILENT,
) -> CollectionsAdvice:
    """Advise on several collections without an HTML report: parameters are those of `poolscope.advise`."""
    engine, target = as_engine(engine), None if out is None else Path(out)
    started = time.perf_counter()
    if target is not None:
        check_new(target)
    question = collections_question_of(
        scenario,
        max_exposed=max_exposed,
        max_error=max_error,
        threshold=threshold,
        horizon=horizon,
        days=days,
        devices=devices,
        adversary=adversary,
        epsilon=epsilon,
        users=users,
        tolerance=tolerance,
        prefer=prefer,
    )
    simulator = joint_simulator_of(scenario, question, seed, engine, progress)
    errors = checked_errors(simulator, question, target.absolute().parent if target else Path(gettempdir()))
    plan = plan_of(simulator, question, errors)
    steps = allocate(plan.problem)
    verified, attempts = refined(plan, steps[-1], simulator)
    path, choices = tuple(step_records(steps, plan)), tuple(choices_of(verified, plan, errors, engine.map))
    recommendation = recommendation_of(verified, attempts, plan, choices, reason_of(path, choices, question), errors)
    relaxation = relaxation_of(simulator, plan, question, errors)
    done = CollectionsAdvice(
        scenario=scenario,
        question=question,
        seed=seed,
        adversary=verified.game.adversaries[0].phrase,
        horizon=HORIZON_FACTOR * question.horizon if plan.allocates_days and plan.feasible else question.horizon,
        sentence=sentence_of(recommendation, choices, question),
        relaxations=tuple(relaxations_of(plan, relaxation, choices, question)),
        notes=tuple(notes_of(recommendation, choices, question, verified.limit)),
        recommendation=recommendation,
        recommended=recommended_scenario(scenario, verified.settings, question),
        collections=choices,
        steps=path,
        curve=tuple(verified.exposures.share(day) for day in range(verified.game.horizon + 1)),
        assumptions=tuple(assumptions_of(question, scenario, verified.game)),
        seconds=time.perf_counter() - started,
        asked_users=users,
        provenance=provenance_of(
            seed=seed, users=question.users, inputs=input_files(scenario), outcomes=combined(simulator.digests)
        ),
    )
    if target is not None:
        done.write(target)
    return done


def max_error_of_each(scenario: Scenario, max_error: object, **single: object) -> Mapping[str, float]:
    """Return the error target of each collection; refuse anything else, and options of a `single` collection."""
    for name, value in single.items():
        if value:
            rule = f"`{name}` requires a single collection"
            remedy = "set the mechanism and the devices of each [[collection]]"
            raise InputError(rule, value=value, file=scenario.file, remedy=remedy)
    if not isinstance(max_error, Mapping):
        names = ", ".join(own.name for own in scenario.collections)
        remedy = f"map names to errors, of {names}; an empty mapping sets none"
        raise InputError(
            "max_error must be a mapping where there are several collections", value=max_error, remedy=remedy
        )
    return max_error


def collections_question_of(
    scenario: Scenario,
    *,
    max_exposed: float,
    max_error: Mapping[str, float],
    horizon: int | None,
    days: float | None,
    devices: int | None,
    users: int | None,
    prefer: str | None,
    threshold: float | None = None,
    adversary: str | None = None,
    epsilon: tuple[float, float] | None = None,
    tolerance: float | None = None,
) -> CollectionsQuestion:
    """Return the question about several collections, with defaults filled in; refuse what cannot be asked."""
    if scenario.multidimensional:
        raise tuples_unsupported(scenario.file)
    names = [own.name for own in scenario.collections]
    for name, target in max_error.items():
        if name not in names:
            rule = "`max_error` must be for collections of the scenario"
            raise InputError(rule, value=name, remedy=did_you_mean(str(name), names))
        if not (is_number(target) and 0 < target < 1):
            raise InputError(f"`max_error` of {name} must be above 0 and below 1", value=target)
    every = bool(max_error) and len(max_error) == len(names)
    if prefer not in (None, UTILITY, MIN_EXPOSURE):
        raise InputError(f"must be {UTILITY} or {MIN_EXPOSURE} with several collections", value=prefer, place="prefer")
    if prefer == MIN_EXPOSURE and not every:
        lacking = next(name for name in names if name not in max_error)
        rule = f"`prefer` {MIN_EXPOSURE} must have a `max_error` of every collection"
        raise InputError(rule, value=lacking, remedy=f"give one of {lacking}, or prefer {UTILITY}")
    if days is not None and horizon is None:
        if not (math.isfinite(days) and days >= 1 and days == int(days)):
            raise InputError("`days` must be a whole number of at least 1 with several collections", value=days)
        horizon, days = int(days), None
    found = question_of(
        scenario,
        max_exposed=max_exposed,
        threshold=threshold,
        horizon=horizon,
        days=days,
        max_error=max(max_error.values(), default=None),
        devices=devices,
        mechanisms=[part.mechanism.kind for part in scenario.parts],
        adversary=adversary,
        epsilon=epsilon,
        users=users or (MEMOIZED_USERS if scenario.memoizes else None),
        tolerance=tolerance,
        prefer=prefer or (MIN_EXPOSURE if every else UTILITY),
    )
    return CollectionsQuestion(**vars(found) | {"max_error": None, "max_errors": dict(max_error)})
