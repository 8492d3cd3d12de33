"""Verify an allocation over several collections with held-out users, and say what each collection costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import polars as pl
from numpy.typing import NDArray

from poolscope.core.arrays import Map
from poolscope.core.randomness import curator_key
from poolscope.game.collections import JOINT, WITHOUT, JointGame
from poolscope.game.columns import EXPOSED_AT_THRESHOLD
from poolscope.metrics.bounds import epsilon_of
from poolscope.metrics.collections import collection_record, paired_difference, success_bound_of, total_epsilon
from poolscope.metrics.exposure import exposed_by
from poolscope.metrics.intervals import clusters_of, share_of_users
from poolscope.metrics.pools import pool_records, pool_sums
from poolscope.metrics.records import AttackCounts, record_of
from poolscope.reports.utility import measure_utility
from poolscope.scenario.collections import build_joint_game
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.advise.allocation import AT_END, Step
from poolscope.workflows.advise.collection_plan import Plan
from poolscope.workflows.advise.collection_records import (
    AllocationStep,
    CollectionChoice,
    CollectionsAttempt,
    CollectionSetting,
    CollectionsQuestion,
    CollectionsRecommendation,
)
from poolscope.workflows.advise.collection_simulation import (
    CollectionErrors,
    JointSimulator,
    Ray,
    Setting,
    Settings,
    cap_of,
    joint_exposures,
    joint_rows,
    last_day,
)
from poolscope.workflows.advise.question import UTILITY
from poolscope.workflows.advise.refine import REPEATED, Deployment, LevelRefinement, Proposal, Verified, verify_by
from poolscope.workflows.advise.search import NO, YES, Trial, combine_verdicts


@dataclass(frozen=True, kw_only=True, eq=False)
class VerifiedSettings(Verified[JointGame]):
    """An allocation as held-out users experience it, with all their outcomes."""

    settings: Settings
    outcomes: pl.DataFrame


class RayRefinement(LevelRefinement):
    """Finds the largest common factor of all levels that are not at the end of their range."""

    level = "factor"

    def __init__(self, ray: Ray, trials: list[Trial]) -> None:
        super().__init__(ray, trials)
        self.ray, self.proposed = ray, set[Settings]()

    def at(self, share: float, target: float) -> Proposal:
        found = super().at(share, target)
        settings = self.ray.settings_at(found.choice.epsilon)
        smallest = settings == self.ray.settings_at(self.question.lowest)
        # whole days: another factor need not be another setting
        limit = REPEATED if found.limit is None and settings in self.proposed else found.limit
        self.proposed.add(settings)
        return found._replace(choice=found.choice._replace(cap=last_day(settings)), limit=limit, smallest=smallest)


def refined(
    plan: Plan, step: Step, simulator: JointSimulator
) -> tuple[VerifiedSettings, tuple[CollectionsAttempt, ...]]:
    """Refine the common factor of an allocation, and verify it with held-out users.

    A level at the highest of its range stays there, unless all are.
    """
    problem, point = plan.problem, step.point
    free = [level * AT_END < high for level, high in zip(point, problem.high, strict=True)]
    moved = [own or not any(free) for own in free]

    def settings_at(factor: float) -> Settings:
        return plan.settings(
            problem.clipped([factor * level if own else level for level, own in zip(point, moved, strict=True)])
        )

    ends = [
        [end / level for end, level, own in zip(ends, point, moved, strict=True) if own]
        for ends in (problem.low, problem.high)
    ]
    # a range of one factor would have no width
    lowest, highest = min(1.0, *ends[0]) * (1 - 1e-6), max(1.0, *ends[1])
    scale = replace(simulator.question, lowest=lowest, highest=highest, prefer=UTILITY)
    scaled = replace(simulator, question=scale)
    ray = Ray(simulator=scaled, settings_at=settings_at)
    refinement = RayRefinement(ray, [replace(step.trial, epsilon=1.0)])
    found, attempts = verify_by(partial(play_settings, settings_at), refinement, scaled)
    return found, tuple(
        CollectionsAttempt(
            settings=setting_records(settings_at(one.epsilon), plan.names),
            users=one.users,
            exposed=one.exposed,
            meets_targets=one.meets_targets,
        )
        for one in attempts
    )


def play_settings(
    settings_at: Callable[[float], Settings], proposal: Proposal, simulator: JointSimulator, seed: int
) -> VerifiedSettings:
    """Play an allocation with its caps until all are reached, with held-out users."""
    settings = settings_at(proposal.choice.epsilon)
    listed = ", ".join(f"{one.epsilon:g}" for one in settings)
    simulator.progress.stage(f"Verifying epsilons {listed} with held-out users")
    game = build_joint_game(simulator.with_settings(settings, all_caps=True), seed, simulator.engine.map)
    users, question = range(simulator.question.users), simulator.question
    outcomes = simulator.outcomes(game, users, seed)
    rows, adversary = joint_rows(outcomes, game), game.adversaries[0].name
    counts = AttackCounts.of(rows, game.horizon)
    record = record_of(rows, counts, adversary, game.horizon, game.view(), seed, question.threshold)
    at_end = pool_sums(rows, game.horizon, EXPOSED_AT_THRESHOLD)
    return VerifiedSettings(
        choice=Deployment(proposal.choice.kind, proposal.choice.epsilon, game.horizon),
        limit=proposal.limit,
        game=game,
        seed=seed,
        users=users,
        exposures=joint_exposures(outcomes, game),
        record=replace(record, success_bound=success_bound_of(game, game.subsets[JOINT], adversary, game.horizon)),
        by_pool=tuple(pool_records([at_end], adversary, game.horizon, game.values, question.threshold)),
        settings=settings,
        outcomes=outcomes,
    )


def choices_of(
    found: VerifiedSettings, plan: Plan, errors: Sequence[CollectionErrors], threads: Map
) -> Iterator[CollectionChoice]:
    """Yield what is recommended for each collection, with its errors and its cost in exposure."""
    game, rows = found.game, partial(joint_rows, found.outcomes, found.game)
    groups, together = clusters_of(rows()), _exposed(rows(), game)
    for index, (own, setting) in enumerate(zip(errors, found.settings, strict=True)):
        collection, reports = game.collections[index], max(1, round(own.reports))
        measured = measure_utility(
            collection.game.mechanism, own.popularity, reports, curator_key(found.seed, (1 << 32) + index), threads
        )
        alone = _exposed(rows(own.name), game)
        # without the only collection, nobody is exposed
        others = WITHOUT + own.name in game.subsets
        rest = _exposed(rows(WITHOUT + own.name), game) if others else np.zeros_like(together)
        yield CollectionChoice(
            collection=own.name,
            mechanism=own.part.mechanism.kind,
            epsilon=setting.epsilon,
            cap=cap_of(own.part, setting.days),
            days=setting.days,
            cumulative_epsilon=epsilon_of(collection.game),
            epsilon_min=own.epsilon_min,
            max_error=own.max_error,
            reports=reports,
            rmse=own.rmse(setting.epsilon),
            empirical_rmse=None if measured is None else math.sqrt(measured.mse),
            exposed_alone=share_of_users(alone, groups),
            exposed_without=share_of_users(rest, groups),
            cost=paired_difference(together, rest, groups),
            limiting_constraint=limit_of(plan, index, setting),
        )


def _exposed(rows: pl.DataFrame, game: JointGame) -> NDArray[np.bool_]:
    """Return whether each user is exposed by the last day."""
    return exposed_by(rows, EXPOSED_AT_THRESHOLD, game.horizon)


def limit_of(plan: Plan, index: int, setting: Setting) -> str:
    """Return what keeps the ε or the cap of a collection from being better."""
    if plan.allocates_days:
        return "error" if setting.days >= plan.horizon else "error and exposure"
    problem = plan.problem
    if setting.epsilon * AT_END >= problem.high[index]:
        return "range"
    at_error = plan.has_target[index] and setting.epsilon <= AT_END * problem.low[index]
    return "error" if at_error else "exposure"


def recommendation_of(
    found: VerifiedSettings,
    attempts: tuple[CollectionsAttempt, ...],
    plan: Plan,
    choices: Sequence[CollectionChoice],
    reason: str,
    errors: Sequence[CollectionErrors],
) -> CollectionsRecommendation:
    """Return the record of the recommendation."""
    game, last = found.game, found.game.horizon
    reaches = all(setting.days >= plan.horizon for setting in found.settings)
    precise = all(one.max_error is None or one.rmse <= one.max_error for one in choices)
    limits = [one.limiting_constraint for one in choices]
    order = ("error and exposure", "exposure", "error", "range")
    records = [
        collection_record(own, one.part.mechanism.kind) for own, one in zip(game.collections, errors, strict=True)
    ]
    return CollectionsRecommendation(
        meets_targets=combine_verdicts(attempts[-1].meets_targets, YES if reaches and precise else NO),
        limiting_constraint=min(limits, key=order.index),
        reason=reason,
        users=len(found.users),
        exposed=found.exposures.share(min(plan.horizon, last)),
        last_day=last,
        exposed_at_cap=found.exposures.share(last),
        precision=found.record.precision,
        baseline=found.record.baseline,
        success_bound=found.record.success_bound,
        epsilon_day=total_epsilon(records, "day"),
        epsilon_year=total_epsilon(records, "year"),
        by_value=found.by_pool,
        attempts=attempts,
    )


def setting_records(settings: Settings, names: Sequence[str]) -> tuple[CollectionSetting, ...]:
    """Return the records of the settings of all collections."""
    return tuple(
        CollectionSetting(collection=name, epsilon=one.epsilon, days=one.days)
        for name, one in zip(names, settings, strict=True)
    )


def step_records(steps: Sequence[Step], plan: Plan) -> Iterator[AllocationStep]:
    """Yield the records of the steps of an allocation."""
    for step in steps:
        giver, taker = (None if index is None else plan.names[index] for index in (step.giver, step.taker))
        yield AllocationStep(
            step=step.step,
            giver=giver,
            taker=taker,
            settings=setting_records(plan.settings(step.point), plan.names),
            users=step.trial.users,
            exposed=step.trial.exposed,
            gain=step.utility - steps[0].utility,
        )


def recommended_scenario(scenario: Scenario, settings: Settings, question: CollectionsQuestion) -> Scenario:
    """Return the scenario with an ε and a cap for each collection, ready for `audit`."""
    assert scenario.attack is not None
    tables = scenario.to_dict()["collection"]
    for own, part, setting in zip(tables, scenario.parts, settings, strict=True):
        own["mechanism"]["epsilon"] = setting.epsilon
        own["devices"] = own.get("devices", {}) | {"cap": cap_of(part, setting.days)}
    last = max(last_day(settings), question.horizon)
    days = sorted({n for n in (*scenario.attack.observations, question.horizon) if n <= last})
    return scenario.replace({"collection": tables, "attack.observations": days, "attack.threshold": question.threshold})
