"""Simulate allocations over several collections of one person: by which day each user is exposed by all together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl

from poolscope.core.arrays import Floats
from poolscope.core.errors import InputError, located
from poolscope.core.executors import Engine
from poolscope.core.progress import Progress
from poolscope.game.collections import JOINT, JointGame, events_by
from poolscope.game.columns import COLLECTION, ESTIMATE, EXPOSED_AT_THRESHOLD
from poolscope.metrics.intervals import known_value
from poolscope.scenario.build import build_mechanism
from poolscope.scenario.collections import build_joint_game
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.advise.collection_records import CollectionsQuestion
from poolscope.workflows.advise.question import DEFAULT_REPORTS, Question
from poolscope.workflows.advise.search import Trial, analytical_errors, min_epsilon_for_error, min_in_range, rmse_min
from poolscope.workflows.advise.simulation import (
    HORIZON_FACTOR,
    Exposures,
    Simulator,
    observation_counts,
    reduced_scenario,
)
from poolscope.workflows.compare import true_frequencies


class Setting(NamedTuple):
    """What one collection does: the ε of a report, and the number of days on which it reports."""

    epsilon: float
    days: int


Settings = tuple[Setting, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class JointSimulator(Simulator):
    """The scenario reduced to the question; trials of the same settings are played once."""

    _played: dict[Settings, Exposures] = field(default_factory=dict)
    _games: dict[Settings, JointGame] = field(default_factory=dict)

    def with_settings(self, settings: Settings, *, all_caps: bool = False) -> Scenario:
        """Return the scenario with an ε and a cap for each collection, played to the last day of any.

        A collection that reports to the last day needs no cap, unless `all_caps` are asked for.
        """
        last = last_day(settings)
        tables, parts = self.scenario.to_dict()["collection"], self.scenario.parts
        for own, part, setting in zip(tables, parts, settings, strict=True):
            own["mechanism"]["epsilon"] = setting.epsilon
            if all_caps or setting.days < last:
                own["devices"] = own.get("devices", {}) | {"cap": cap_of(part, setting.days)}
        counts = observation_counts(last, min(last, self.question.horizon), self.scenario.memoizes)
        return self.scenario.replace({"collection": tables, "attack.observations": counts})

    def played(self, settings: Settings, users: int) -> Exposures:
        """Return joint exposures of at least this many users of the search; users who played before are reused."""
        known = self._played.get(settings)
        if known is None or known.users < users:
            if settings not in self._games:
                # the last one alone: its estimates of the popularity take long
                self._games.clear()
                self._games[settings] = build_joint_game(self.with_settings(settings), self.seed, self.engine.map)
            game, few = self._games[settings], known.users if known else 0
            more = joint_exposures(self.outcomes(game, range(few, users)), game)
            self._played[settings] = more if known is None else known + more
        return self._played[settings]

    def trial(self, settings: Settings, users: int) -> Trial:
        """Play settings with the first users of the search."""
        levels = ", ".join(f"{one.epsilon:.3g}" for one in settings)
        days = sorted({one.days for one in settings})
        by = f"{days[0]:,} days" if len(days) == 1 else f"{days[0]:,} to {days[-1]:,} days"
        self.progress.stage(f"Trying epsilons {levels} for {by}, {users:,} users")
        return trial_of(self.played(settings, users).first_users(users), sum(one.epsilon for one in settings))


def trial_of(found: Exposures, level: float) -> Trial:
    """Return the trial of exposures up to their last day."""
    return Trial(
        epsilon=level,
        users=found.users,
        exposed=found.share(found.horizon),
        cap=known_value(found.horizon),
        design_effect=found.design_effect(found.horizon),
    )


def last_day(settings: Settings) -> int:
    """Return the day on which the last collection stops."""
    return max(setting.days for setting in settings)


def cap_of(part: Scenario, days: int) -> int:
    """Return the cap in reports that a device reaches after some days, of the events that it reports on average."""
    events = int(events_by(np.array([days]), part.devices.reports_per_day or 1.0)[0])
    return max(1, round(events * part.devices.sampling_rate))


def joint_rows(outcomes: pl.DataFrame, game: JointGame, subset: str = JOINT) -> pl.DataFrame:
    """Return the rows of some collections after the last day, in order of the users."""
    chosen = (pl.col(COLLECTION) == subset) & (pl.col("n") == game.horizon)
    return outcomes.filter(chosen & (pl.col("adversary") == game.adversaries[0].name)).sort("user")


def joint_exposures(outcomes: pl.DataFrame, game: JointGame, subset: str = JOINT) -> Exposures:
    """Read by which day users are exposed by some collections off the outcomes of a game with a threshold."""
    rows, adversary = joint_rows(outcomes, game, subset), game.adversaries[0]
    redrawn = any(one.game.adversaries[0].redraws for one in game.collections)
    grouped = adversary.knows_memoization and any(one.game.device.memoizes for one in game.collections)
    return Exposures(
        first=rows[EXPOSED_AT_THRESHOLD].cast(pl.Float64).fill_null(float("inf")).to_numpy(),
        gamma=rows["gamma"].to_numpy(),
        delta=rows["delta"].to_numpy(),
        horizon=game.horizon,
        estimate=rows[ESTIMATE].to_numpy().astype(np.int64) if redrawn else None,
        observation_counts=tuple(game.observations) if grouped else None,
    )


def joint_simulator_of(
    scenario: Scenario, question: CollectionsQuestion, seed: int, engine: Engine, progress: Progress
) -> JointSimulator:
    """Reduce the scenario to the question: one adversary, its threshold, devices without a cap."""
    reduced = reduced_scenario(scenario, question, [HORIZON_FACTOR * question.horizon])
    return JointSimulator(scenario=reduced, question=question, seed=seed, engine=engine, progress=progress)


@dataclass(frozen=True, kw_only=True, eq=False)
class CollectionErrors:
    """The error of one collection, in closed form, and its target.

    Parameters
    ----------
    part : the collection as a scenario; popularity : the true one.
    devices : that send a report each, or a share of them where events are sampled; max_error : None without a target.
    lowest, highest : range of ε.
    """

    part: Scenario
    popularity: Floats
    devices: int
    max_error: float | None
    lowest: float
    highest: float
    _rmse: dict[tuple[float, float], float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the collection."""
        return self.part.name

    @property
    def reports(self) -> float:
        """Reports of one round of collection."""
        return self.devices * self.part.devices.sampling_rate

    def rmse(self, epsilon: float, reports: float | None = None) -> float:
        """Return the analytical RMSE of a frequency; refuse a mechanism without one."""
        key = epsilon, self.reports if reports is None else reports
        if key not in self._rmse:
            variant = self.part.replace({"mechanism.epsilon": epsilon})
            found = analytical_errors(build_mechanism(variant, variant.universe()), self.popularity, key[1])
            if found is None:
                rule = f"the mechanism of {self.name} must have a closed form of its error"
                raise InputError(rule, value=self.part.mechanism.kind)
            self._rmse[key] = found.rmse
        return self._rmse[key]

    @cached_property
    def epsilon_min(self) -> float | None:
        """The smallest ε that meets the error target; None without a target."""
        if self.max_error is None:
            return None
        smallest = rmse_min(self.popularity, self.reports)
        if self.max_error < smallest:
            without = f"the error of {self.devices:,} devices without a mechanism"
            rule = f"`max_error` of {self.name} must be at least {smallest:.2g}, {without}"
            raise InputError(rule, value=self.max_error, remedy="use more `devices` or a larger `max_error`")
        found = self.epsilon_for(self.max_error)
        if found is None:
            smallest = min_in_range(self.rmse, self.lowest, self.highest)
            rule = f"{self.name} does not meet an error of {self.max_error:g} up to epsilon {self.highest:g}"
            remedy = f"the smallest is {smallest:.2g}; use a larger HIGH of `epsilon` or more `devices`"
            raise InputError(rule, remedy=remedy)
        return found

    def epsilon_for(self, max_error: float) -> float | None:
        """Return the smallest ε of the range with at most this error; None where there is none."""
        return min_epsilon_for_error(self.rmse, max_error, self.lowest, self.highest)


def errors_of(simulator: JointSimulator, game: JointGame, max_errors: Mapping[str, float]) -> list[CollectionErrors]:
    """Return the error of each collection, after checking that its range of ε is possible; plays nothing."""
    question, found = simulator.question, []
    for index, (part, own) in enumerate(zip(simulator.scenario.parts, game.collections, strict=True)):
        with located(file=simulator.scenario.file, place=f"collection[{index}].mechanism"):
            if "epsilon" not in part.mechanism.parameters:
                raise InputError("must have an epsilon parameter", value=part.mechanism.kind)
            for epsilon in (question.lowest, question.highest):
                variant = part.replace({"mechanism.epsilon": epsilon})
                build_mechanism(variant, variant.universe())
        found.append(
            CollectionErrors(
                part=part,
                popularity=true_frequencies(own.game),
                devices=question.devices or DEFAULT_REPORTS,
                max_error=max_errors.get(part.name),
                lowest=question.lowest,
                highest=question.highest,
            )
        )
    return found


@dataclass(frozen=True, kw_only=True, eq=False)
class Ray:
    """Allocations whose levels differ by a common factor, a candidate of `refine.LevelRefinement`."""

    simulator: JointSimulator
    settings_at: Callable[[float], Settings]
    kind: str = "all collections"

    @property
    def question(self) -> Question:
        """The targets, and the range of the factor."""
        return self.simulator.question

    @property
    def max_users(self) -> int:
        """Users of the search at most."""
        return self.question.users

    def played(self, epsilon: float, users: int, horizon: int | None = None) -> Exposures:
        """Return exposures at a factor; they end on the last day of its settings."""
        return self.simulator.played(self.settings_at(epsilon), users)

    def trial_of(self, epsilon: float, found: Exposures) -> Trial:
        """Return the trial at a factor."""
        return trial_of(found, epsilon)
