"""Simulate a deployment at a mechanism and ε: by which event each user is exposed.

Attacks on memoized responses take from a hundredth of a second to many seconds for each user, by mechanism and number
of reports. A few such users are timed first, and trials get as many as the time budget allows. That depends on the
machine: with `users` given, as many play however long they take, and the advice is the same everywhere.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from poolscope.core.arrays import Floats, Integers, Tick
from poolscope.core.executors import Engine, Local
from poolscope.core.progress import Progress
from poolscope.game.blocks import AnyGame
from poolscope.game.blocks import play_block as play_any_block
from poolscope.game.columns import ESTIMATE, EXPOSED_AT_THRESHOLD
from poolscope.game.game import Game, blocks, play_block
from poolscope.inference.adversary import Adversary
from poolscope.metrics.intervals import Estimate, clopper_pearson, effect_of_share, share_of
from poolscope.metrics.provenance import checksum
from poolscope.scenario.build import build_game
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.advise.question import MEMOIZED_USERS, Budget, Question
from poolscope.workflows.advise.setups import deployed

#: Horizon of a trial, as a multiple of the requested one: shows which larger cap meets the target.
HORIZON_FACTOR = 2

#: Observations of an attack on memoized responses, and where a user takes long.
N_OBSERVATIONS, N_OBSERVATIONS_SLOW = 3, 2


@dataclass(frozen=True, kw_only=True, eq=False)
class Exposures:
    """By which event each user is exposed, (users,), infinity for none up to the horizon; and the users' behavior.

    Parameters
    ----------
    observation_counts : the events at which exposure is observed; None for all of them.
    estimate : the adversary's estimate of the popularity that each user met, (users,); None where there is one.
    """

    first: Floats
    gamma: Floats
    delta: Floats
    horizon: int
    estimate: Integers | None = None
    observation_counts: tuple[int, ...] | None = None

    @property
    def users(self) -> int:
        return len(self.first)

    def share(self, n: int) -> Estimate:
        """Estimate the share of users exposed by n; users who share an estimate widen its interval."""
        return share_of(int((self.first <= n).sum()), self.users, self.design_effect(n))

    def design_effect(self, n: int) -> float:
        """Return the design effect of shared estimates of the popularity on the share."""
        if self.estimate is None:
            return 1.0
        return effect_of_share(np.bincount(self.estimate, self.first <= n), np.bincount(self.estimate))

    def cap(self, target: float) -> Estimate:
        """Estimate the largest n up to the horizon that meets the target.

        The ends are where the interval of the share reaches the target.
        """
        found = self.counts()
        value = largest_count(found / self.users, target)
        effect = self.design_effect(value)
        low, high = clopper_pearson(found / effect, self.users / effect)
        return Estimate(float(value), float(largest_count(high, target)), float(largest_count(low, target)))

    def counts(self) -> Floats:
        """Count the users exposed by 0, 1, 2, ... events up to the horizon; linear between observations.

        Exposure is convex in n, so that interpolation does not underestimate it.
        """
        reached = self.first[self.first <= self.horizon].astype(np.int64)
        found = np.cumsum(np.bincount(reached, minlength=self.horizon + 1)).astype(np.float64)
        if self.observation_counts is None:
            return found
        seen = [0, *self.observation_counts]
        between: Floats = np.interp(np.arange(self.horizon + 1), seen, found[seen])
        return between

    def first_users(self, count: int) -> Exposures:
        """Return those of the first users."""
        return self.of(np.arange(self.users) < count)

    def of(self, some: NDArray[np.bool_]) -> Exposures:
        """Return those of some users."""
        estimate = None if self.estimate is None else self.estimate[some]
        return replace(self, first=self.first[some], gamma=self.gamma[some], delta=self.delta[some], estimate=estimate)

    def __add__(self, other: Exposures) -> Exposures:
        """Concatenate two groups of users."""
        both = None
        if self.estimate is not None and other.estimate is not None:
            both = np.concatenate([self.estimate, other.estimate])
        return replace(
            self,
            first=np.concatenate([self.first, other.first]),
            gamma=np.concatenate([self.gamma, other.gamma]),
            delta=np.concatenate([self.delta, other.delta]),
            estimate=both,
        )


def largest_count(shares: Floats, target: float) -> int:
    """Find the largest number of events whose share of exposed users is at most the target."""
    return max(0, int((shares <= target).sum()) - 1)


def exposures_of(outcomes: pl.DataFrame, adversary: Adversary, game: Game) -> Exposures:
    """Read the exposures to one adversary off the outcomes of a game with a threshold."""
    rows = outcomes.filter((pl.col("adversary") == adversary.name) & (pl.col("n") == game.horizon)).sort("user")
    first = rows[EXPOSED_AT_THRESHOLD].cast(pl.Float64).fill_null(float("inf"))
    grouped = game.device.memoizes and adversary.knows_memoization
    return Exposures(
        first=first.to_numpy(),
        gamma=rows["gamma"].to_numpy(),
        delta=rows["delta"].to_numpy(),
        horizon=game.horizon,
        estimate=rows[ESTIMATE].to_numpy().astype(np.int64) if adversary.redraws else None,
        observation_counts=tuple(game.observations) if grouped else None,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Simulator:
    """The scenario reduced to the question: one adversary, its threshold, devices without a cap.

    Parameters
    ----------
    scenario : the reduced one, see `simulator_of`.
    seed : determines the users of all trials, so that trials differ by their configuration alone.
    engine, progress : where games run, and what reports their progress.
    budgets : of mechanisms whose memoized responses the adversary groups reports by.
    digests : checksums of the outcomes of all games, in order.
    """

    scenario: Scenario
    question: Question
    seed: int
    engine: Engine
    progress: Progress
    budgets: Mapping[str, Budget] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)

    def horizon(self, kind: str) -> int:
        """Return the events of a trial of a mechanism."""
        assert self.scenario.attack is not None
        budget = self.budgets.get(kind)
        return (
            self.scenario.attack.observations[-1] if budget is None else budget.horizon_factor * self.question.horizon
        )

    def max_users(self, kind: str) -> int:
        """Return the users of a trial of a mechanism at most."""
        budget = self.budgets.get(kind)
        return self.question.users if budget is None else budget.users

    def is_slow(self, kind: str) -> bool:
        """Return whether few users fit into the time budget: too few for fine steps and a sensitivity analysis."""
        budget = self.budgets.get(kind)
        return budget is not None and budget.seconds is not None and budget.users < MEMOIZED_USERS

    def observation_counts(self, kind: str, horizon: int, memoize: bool) -> list[int]:
        """Return the events at which the adversary of a mechanism is evaluated."""
        times = N_OBSERVATIONS_SLOW if self.is_slow(kind) else N_OBSERVATIONS
        return observation_counts(horizon, min(horizon, self.question.horizon), memoize, times)

    def deployed(self, kind: str, epsilon: float) -> Scenario:
        """Return the scenario with a candidate at an ε, without a cap unless that is its measure."""
        return deployed(self.scenario, kind, epsilon, self.question.horizon)

    def variant(self, kind: str, epsilon: float, horizon: int | None = None) -> Scenario:
        """Return the scenario with a mechanism at an ε, with the horizon of a trial or another one."""
        variant = self.deployed(kind, epsilon)
        counts = self.observation_counts(kind, horizon or self.horizon(kind), variant.memoizes)
        return variant.replace({"attack.observations": counts})

    def game(self, kind: str, epsilon: float, horizon: int | None = None) -> Game:
        """Build the game of a mechanism at an ε, see `variant`."""
        return build_game(self.variant(kind, epsilon, horizon), self.seed, self.engine.map)

    def outcomes(self, game: AnyGame, users: range, seed: int | None = None) -> pl.DataFrame:
        """Play some users on the engine."""
        todo = [range(users[some.start], users[some.stop - 1] + 1) for some in blocks(len(users), game.block_users)]
        shared = game, self.seed if seed is None else seed
        outcomes = pl.concat(self.engine.tasks(_play_some, shared, todo, self.progress.tick))
        self.digests[str(len(self.digests))] = checksum([outcomes])
        return outcomes

    def exposures(self, game: Game, users: range, seed: int | None = None) -> Exposures:
        """Return by which event some users are exposed to the first adversary of a game."""
        return exposures_of(self.outcomes(game, users, seed), game.adversaries[0], game)


def _play_some(shared: tuple[AnyGame, int], users: range, engine: Local, tick: Tick) -> pl.DataFrame:
    """Play one block; the task of an executor."""
    game, seed = shared
    return play_any_block(game, users, seed, tick, engine)


def simulator_of(scenario: Scenario, question: Question, seed: int, engine: Engine, progress: Progress) -> Simulator:
    """Reduce the scenario to the question; recorded users play no further than their traces."""
    recorded = scenario.users is not None and scenario.users.traces is not None
    horizon = question.horizon * (1 if recorded else HORIZON_FACTOR)
    reduced = reduced_scenario(scenario, question, [horizon])
    return Simulator(scenario=reduced, question=question, seed=seed, engine=engine, progress=progress)


def reduced_scenario(scenario: Scenario, question: Question, observations: Sequence[int]) -> Scenario:
    """Return the scenario with the adversary and threshold of the question alone, and devices without a cap."""
    assert scenario.attack is not None
    attack = {
        "observations": list(observations),
        "threshold": question.threshold,
        "non_private": False,
        "estimates": scenario.attack.estimates,
    }
    tables = scenario.to_dict()
    entry = next(table for table in tables["adversary"] if table["name"] == question.adversary)
    changes: dict[str, Any] = {"adversary": [entry], "attack": attack}
    if scenario.collections:
        changes["collection"] = [own | {"devices": _without_cap(own)} for own in tables["collection"]]
    else:
        changes["devices"] = _without_cap(tables)
    return scenario.replace(changes)


def _without_cap(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table ``devices`` without its cap."""
    return {key: value for key, value in tables.get("devices", {}).items() if key != "cap"}


def groups_reports(simulator: Simulator, kind: str) -> bool:
    """Return whether devices of a mechanism memoize and the adversary knows it."""
    variant = simulator.variant(kind, simulator.question.lowest)
    return variant.memoizes and variant.adversaries[0].knows_memoization is not False


def observation_counts(horizon: int, n: int, memoize: bool, times: int = N_OBSERVATIONS) -> list[int]:
    """Return the events at which the adversary is evaluated: the last alone, which shows all before it.

    Attacks on memoized responses are computed at single events only, so that exposure is observed at a few of them.
    """
    return sorted({n, *(max(1, horizon * i // times) for i in range(1, times + 1))}) if memoize else [horizon]


#: Core seconds of an advice, about; and plays of each user of a mechanism, in trials and verification.
TIME_BUDGET, N_PLAYS = 200.0, 6

#: Possible numbers of users of a trial.
TRIAL_SIZES = (12, 25, 50, 100, MEMOIZED_USERS)

#: Users who are timed, seconds after which timing stops, and the epsilon at which they are timed.
N_TIMED, MAX_TIMING, TIMING_EPSILON = 3, 1.0, 2.0

#: Factor of the time of a user whose horizon is `HORIZON_FACTOR` times as long.
HORIZON_COST = 4.0


def with_budgets(
    simulator: Simulator, users: int | None, kinds: Sequence[str], known: Mapping[str, Budget]
) -> Simulator:
    """Return the simulator with as many users for each mechanism as the time budget allows, or as `users` says.

    Its question then has the largest number of users of any mechanism. `kinds` are the mechanisms that are simulated;
    `known` budgets are those of an earlier advice, which is given again.
    """
    question = simulator.question
    grouped = [kind for kind in kinds if groups_reports(simulator, kind)]
    budgets = {}
    for kind in grouped:
        if kind in known:
            budgets[kind] = known[kind]
            continue
        # a given number of users needs no timing
        seconds = _seconds_per_user(simulator, kind) if users is None else None
        budgets[kind] = (
            _budget(seconds, TIME_BUDGET / len(grouped) / N_PLAYS) if seconds else Budget(users=question.users)
        )
    with_simulator = replace(simulator, budgets=budgets)
    most = max(with_simulator.max_users(kind) for kind in kinds)
    return replace(with_simulator, question=replace(question, users=most))


def _budget(seconds: float, share: float) -> Budget:
    """Return the budget of a mechanism, from the core seconds of a user and the seconds for each play."""
    if seconds * HORIZON_COST * MEMOIZED_USERS <= share:
        return Budget(users=MEMOIZED_USERS, horizon_factor=HORIZON_FACTOR, seconds=seconds)
    most = max((count for count in TRIAL_SIZES if count * seconds <= share), default=TRIAL_SIZES[0])
    return Budget(users=most, seconds=seconds)


def _seconds_per_user(simulator: Simulator, kind: str) -> float:
    """Time a user of a mechanism, in core seconds, up to the requested horizon."""
    question, alone = simulator.question, Local(threads=1)
    simulator.progress.stage(f"Timing {kind}, whose responses are memoized")
    game = simulator.game(kind, min(max(TIMING_EPSILON, question.lowest), question.highest))
    # compiles the kernels before timing
    play_block(replace(game, observations=[min(3, question.horizon)]), range(1), simulator.seed, engine=alone)
    with_simulator, seconds = (
        replace(game, observations=observation_counts(question.horizon, question.horizon, True, N_OBSERVATIONS_SLOW)),
        0.0,
    )
    for user in range(N_TIMED):
        started = time.process_time()
        play_block(with_simulator, range(user, user + 1), simulator.seed, engine=alone)
        seconds += time.process_time() - started
        if seconds > MAX_TIMING:
            break
    return seconds / (user + 1)
