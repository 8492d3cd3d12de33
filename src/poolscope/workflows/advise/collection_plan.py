"""Plan an allocation over several collections: what the targets leave to be allocated, and from where.

The error target of a collection sets its smallest ε. Where all smallest values of ε together expose too many users
by the horizon, the targets contradict each other, and shorter caps are the closest that there is.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from poolscope.core.errors import InputError, located
from poolscope.game.blocks import check_size
from poolscope.game.collections import WITHOUT
from poolscope.metrics.intervals import Estimate
from poolscope.scenario.collections import build_joint_game
from poolscope.workflows.advise.allocation import CLOSE, NEAR, Point, Problem
from poolscope.workflows.advise.candidates import is_undecided
from poolscope.workflows.advise.collection_records import CollectionsQuestion
from poolscope.workflows.advise.collection_simulation import (
    CollectionErrors,
    JointSimulator,
    Setting,
    Settings,
    errors_of,
    joint_exposures,
)
from poolscope.workflows.advise.search import (
    CLOSE_RATIO,
    Trial,
    devices_needed,
    largest_epsilon,
    max_epsilon_for_error,
    rounded_down,
    target_with_margin,
)
from poolscope.workflows.advise.simulation import HORIZON_FACTOR

#: Users of each trial of an allocation: as many as expose this many at the target, within a range.
EXPOSED_TRIAL_USERS, TRIAL_USERS = 200, (1000, 2000)

#: Plays of an allocation, about, each with the users of a trial; and of all users, to refine and verify.
N_TRIALS, N_REFINED = 25, 6

#: Part of the target, at most, at which a search along a line ends.
MAX_NEAR = 0.5

#: First epsilon that is tried for all collections.
START = 2.0

#: Largest factor by which error targets are relaxed, where they contradict the exposure target.
MAX_RELAXATION = 32.0

#: Users of a trial at most that only describes how far the targets are from each other.
MAX_RELAXATION_USERS = 1000


def checked_errors(
    simulator: JointSimulator, question: CollectionsQuestion, scratch_parent: Path
) -> list[CollectionErrors]:
    """Return the error of each collection after checking that the targets are possible; plays nothing."""
    start = tuple(Setting(question.lowest, question.horizon) for _ in simulator.scenario.collections)
    game = build_joint_game(simulator.with_settings(start), simulator.seed, simulator.engine.map)
    prior = float(game.belief(question.adversary).max())
    if question.threshold <= prior:
        rule = f"`threshold` must be above {prior:.3g}, the largest prior of a value"
        raise InputError(rule, value=question.threshold)
    with located(file=simulator.scenario.file):
        cores, few = simulator.engine.threads * simulator.engine.workers, trial_users(question)
        if long := check_size(game, few, scratch_parent, cores, N_TRIALS + N_REFINED * question.users // few):
            warnings.warn(long, stacklevel=4)
    errors = errors_of(simulator, game, question.max_errors)
    for own in errors:
        own.epsilon_min  # noqa: B018  # refuses a target that no epsilon meets
    return errors


def trial_users(question: CollectionsQuestion) -> int:
    """Return the users of each trial of an allocation."""
    few, many = TRIAL_USERS
    return min(question.users, max(few, min(many, math.ceil(EXPOSED_TRIAL_USERS / question.max_exposed))))


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """What is allocated, and from where.

    Parameters
    ----------
    problem : levels are values of ε, or days where `allocates_days`.
    floor : the trial of the smallest values of ε up to the horizon; feasible : whether it meets the exposure target.
    without : share exposed without each collection at these values of ε, where it does not.
    epsilons : the smallest of each collection; has_target : whether an error target sets it.
    names : of the collections; horizon : days that the exposure target is for.
    """

    problem: Problem
    allocates_days: bool
    feasible: bool
    floor: Trial
    without: Mapping[str, Estimate]
    epsilons: Point
    has_target: tuple[bool, ...]
    names: tuple[str, ...]
    horizon: int

    def settings(self, point: Point) -> Settings:
        """Return the settings of a point: values of ε are rounded down to four digits, days to whole ones."""
        if self.allocates_days:
            return tuple(
                Setting(epsilon, max(1, math.floor(days + 1e-9)))
                for epsilon, days in zip(self.epsilons, point, strict=True)
            )
        rounded = (max(low, rounded_down(level, 4)) for low, level in zip(self.problem.low, point, strict=True))
        return tuple(Setting(epsilon, self.horizon) for epsilon in rounded)


def plan_of(simulator: JointSimulator, question: CollectionsQuestion, errors: Sequence[CollectionErrors]) -> Plan:
    """Play the smallest values of ε up to the horizon, and return what is allocated from there."""
    lows = tuple(own.epsilon_min or question.lowest for own in errors)
    at_floor: Settings = tuple(Setting(low, question.horizon) for low in lows)
    few = trial_users(question)
    floor = simulator.trial(at_floor, few)
    while floor.users < question.users and is_undecided(simulator.played(at_floor, floor.users), question):
        floor = simulator.trial(at_floor, min(2 * floor.users, question.users))
    feasible, days = floor.exposed.value <= question.max_exposed, question.horizon
    if not feasible and not question.max_errors:
        rule = f"epsilons of {question.lowest:g} must expose at most {question.max_exposed:g} of the users"
        exposed = f"they expose {floor.exposed.value:.2g} by {days:,} days"
        raise InputError(rule, remedy=f"{exposed}: use a smaller LOW of `epsilon` or a smaller `horizon`")
    allocates_days, count = question.fixes_epsilon or not feasible, len(lows)
    aim = target_with_margin(question.max_exposed, *[question.users / floor.design_effect] * 2)
    if allocates_days:
        low, high = (days, HORIZON_FACTOR * days) if feasible else (1, days)
        lows_of, highs, start = (float(low),) * count, (float(high),) * count, float(days)
    else:
        lows_of, start = lows, START
        highs = tuple(
            question.highest
            if own.max_error is None
            else max_epsilon_for_error(own.rmse, own.max_error, low, question.highest)
            for own, low in zip(errors, lows, strict=True)
        )

    def trial(point: Point) -> Trial:
        return simulator.trial(plan.settings(point), few)

    def utility(index: int, level: float) -> float:
        if allocates_days:
            return math.log(max(1, math.floor(level + 1e-9)))
        return -math.log(errors[index].rmse(max(lows[index], rounded_down(level, 4))))

    problem = Problem(
        low=lows_of,
        high=highs,
        utility=utility,
        trial=trial,
        target=aim,
        start=start,
        # a share of few users has few values, and attacks on memoized responses take long
        near=min(max(NEAR, 1 / (aim * few)), MAX_NEAR),
        close=CLOSE_RATIO if simulator.scenario.memoizes else CLOSE,
    )
    without = {} if feasible else _without_each(simulator, at_floor, few)
    plan = Plan(
        problem=problem,
        allocates_days=allocates_days,
        feasible=feasible,
        floor=floor,
        without=without,
        epsilons=lows,
        has_target=tuple(own.max_error is not None for own in errors),
        names=tuple(own.name for own in errors),
        horizon=days,
    )
    return plan


def _without_each(simulator: JointSimulator, settings: Settings, users: int) -> dict[str, Estimate]:
    """Return the share of users exposed without each collection."""
    game = build_joint_game(simulator.with_settings(settings), simulator.seed, simulator.engine.map)
    outcomes = simulator.outcomes(game, range(users))
    names = [own.name for own in game.collections if WITHOUT + own.name in game.subsets]
    return {name: joint_exposures(outcomes, game, WITHOUT + name).share(game.horizon) for name in names}


@dataclass(frozen=True, kw_only=True)
class Relaxation:
    """Error targets that the exposure target allows: all larger by one factor, or met by more devices."""

    factor: float
    devices: float


def relaxation_of(
    simulator: JointSimulator, plan: Plan, question: CollectionsQuestion, errors: Sequence[CollectionErrors]
) -> Relaxation | None:
    """Find the smallest factor of all error targets at which the smallest values of ε expose few enough users.

    None where targets do not contradict each other, or where no factor is large enough.
    """
    if plan.feasible:
        return None
    few = min(trial_users(question), MAX_RELAXATION_USERS)

    def epsilons(part: float) -> list[float]:
        return [
            question.lowest if own.max_error is None else own.epsilon_for(own.max_error / part) or question.highest
            for own in errors
        ]

    def trial(part: float) -> Trial:
        settings = tuple(Setting(epsilon, question.horizon) for epsilon in epsilons(part))
        return replace(simulator.trial(settings, few), epsilon=part)

    found = largest_epsilon(trial, question.max_exposed, 0.5, 1 / MAX_RELAXATION, 1.0)
    met = [one.epsilon for one in found.trials if one.exposed.value <= question.max_exposed]
    if not met:
        return None
    needed = [
        devices_needed(partial(_rmse, own, epsilon), own.max_error, own.reports) / own.part.devices.sampling_rate
        for own, epsilon in zip(errors, epsilons(met[-1]), strict=True)
        if own.max_error is not None
    ]
    return Relaxation(factor=1 / met[-1], devices=max(needed))


def _rmse(errors: CollectionErrors, epsilon: float, reports: float) -> float:
    """Return the analytical RMSE with the arguments in another order."""
    return errors.rmse(epsilon, reports)
