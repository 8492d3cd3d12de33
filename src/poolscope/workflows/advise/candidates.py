"""Search the range of ε of each mechanism: from below by the error target, from above by the exposure target."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from poolscope.core.arrays import Floats
from poolscope.core.errors import InputError, located
from poolscope.game.blocks import check_size, users_to_play
from poolscope.game.game import Game
from poolscope.metrics.intervals import Estimate
from poolscope.scenario.build import build_mechanism
from poolscope.workflows.advise.question import DEFAULT_REPORTS, MAX_SEARCH_USERS, Question, check_game
from poolscope.workflows.advise.records import Finding
from poolscope.workflows.advise.search import (
    CLOSE_RATIO,
    NO,
    STEP,
    UNDECIDED,
    YES,
    Errors,
    Trial,
    analytical_errors,
    devices_needed,
    largest_epsilon,
    max_epsilon_for_error,
    min_epsilon_for_error,
    min_in_range,
    result_of,
    rmse_min,
    verdict,
)
from poolscope.workflows.advise.setups import names_of, reports_per_collection, split_name
from poolscope.workflows.advise.simulation import Exposures, Simulator
from poolscope.workflows.compare import true_frequencies

#: Users of a trial at first, and where a user takes long.
MIN_USERS_OF_TRIAL, MIN_USERS_TIMED = 500, 12

#: Users at most of a trial that only describes how far other epsilons are from the target.
MAX_SCAN_USERS = 1000

#: Expected exposed users at the target, of the trial that determines the cap of a mechanism.
CAP_EXPOSED_USERS = 100

#: Trials of a mechanism, about, and plays of the recommended one with all users.
N_TRIALS, N_REFINED = 6, 4


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidate:
    """A mechanism that may be recommended; `recorded` is the number of recorded users, if users are recorded."""

    kind: str
    simulator: Simulator
    popularity: Floats
    recorded: int | None = None
    _rmse: dict[tuple[float, float], Errors | None] = field(default_factory=dict)
    _games: dict[tuple[float, int], Game] = field(default_factory=dict)
    _played: dict[tuple[float, int], Exposures] = field(default_factory=dict)

    @property
    def question(self) -> Question:
        return self.simulator.question

    @cached_property
    def reports(self) -> float:
        """Reports of a collection: one of each device that sends one."""
        return (self.question.devices or DEFAULT_REPORTS) * self.reports_per_device

    @cached_property
    def reports_per_device(self) -> float:
        """Reports of each device in a collection, on average."""
        some = self.simulator.deployed(self.kind, self.question.highest)
        return reports_per_collection(some, self.kind, self.question.horizon)

    @cached_property
    def epsilon_min(self) -> float | None:
        """The smallest ε that meets the error target; None where there is no target, or no such ε."""
        question = self.question
        if question.max_error is None:
            return None
        return min_epsilon_for_error(self.rmse, question.max_error, question.lowest, question.highest)

    @cached_property
    def smallest_rmse(self) -> float | None:
        """The smallest error of the range, where there is an error target."""
        question = self.question
        if question.max_error is None:
            return None
        if self.epsilon_min is not None:
            return self.rmse(question.highest)
        return min_in_range(self.rmse, question.lowest, question.highest)

    @property
    def infeasible(self) -> bool:
        """Whether no ε of the range meets the error target, so that nothing is simulated."""
        return self.question.max_error is not None and self.epsilon_min is None

    def errors(self, epsilon: float, reports: float | None = None) -> Errors | None:
        """Return the analytical errors of a frequency."""
        key = epsilon, self.reports if reports is None else reports
        if key not in self._rmse:
            variant = self.simulator.deployed(self.kind, epsilon)
            mechanism = build_mechanism(variant, variant.universe())
            self._rmse[key] = analytical_errors(mechanism, self.popularity, key[1])
        return self._rmse[key]

    def rmse(self, epsilon: float, reports: float | None = None) -> float:
        """Return the analytical RMSE; refuse a mechanism without one."""
        found = self.errors(epsilon, reports)
        if found is None:
            raise InputError("must have a closed form of its error for `max_error`", value=self.kind, place="mechanism")
        return found.rmse

    @property
    def max_users(self) -> int:
        """Users of the search at most; half of the recorded ones, as the others verify."""
        most = self.simulator.max_users(self.kind)
        return most if self.recorded is None else n_search_users(self.recorded, most)

    def played(self, epsilon: float, users: int, horizon: int | None = None) -> Exposures:
        """Return exposures of at least this many users of the search; users who played before are reused."""
        key = epsilon, horizon or self.simulator.horizon(self.kind)
        known = self._played.get(key)
        if known is None or known.users < users:
            more = self.simulator.exposures(self._game(*key), range(known.users if known else 0, users))
            self._played[key] = more if known is None else known + more
        return self._played[key]

    def _game(self, epsilon: float, horizon: int) -> Game:
        """Build the game at an ε; the last one is cached, as estimates of the popularity take long."""
        if (epsilon, horizon) not in self._games:
            self._games.clear()
            self._games[epsilon, horizon] = self.simulator.game(self.kind, epsilon, horizon)
        return self._games[epsilon, horizon]

    def trial(self, epsilon: float, first: int = MIN_USERS_OF_TRIAL, most: int = MAX_SEARCH_USERS) -> Trial:
        """Play more and more users until their share is significantly on one side of the target, or precise enough."""
        question, simulator = self.question, self.simulator
        most = min(most, self.max_users)
        # where a user takes long, begin with few
        few = min(first, most if self.kind not in simulator.budgets else max(MIN_USERS_TIMED, most // 4))
        simulator.progress.stage(f"Trying {self.kind} at epsilon {epsilon:.3g}, {few:,} to {most:,} users")
        found = self.played(epsilon, few)
        while found.users < most and is_undecided(found, question):
            found = self.played(epsilon, min(2 * found.users, most))
        return self.trial_of(epsilon, found)

    def trial_of(self, epsilon: float, found: Exposures) -> Trial:
        """Combine the exposures at an ε with its error."""
        question, errors = self.question, self.errors(epsilon)
        return Trial(
            epsilon=epsilon,
            users=found.users,
            exposed=found.share(question.horizon),
            cap=found.cap(question.max_exposed),
            error=None if errors is None else errors.rmse,
            design_effect=found.design_effect(question.horizon),
        )

    def finding(self, start: float) -> Finding:
        """Search the range of ε that meets the targets, from `start` where no error target sets it."""
        question, epsilon_min = self.question, self.epsilon_min
        if self.infeasible:
            return self.finding_of([])
        low, high = question.lowest, question.highest
        close = STEP if self.simulator.is_slow(self.kind) else CLOSE_RATIO
        if epsilon_min is None:
            begin = min(max(start, low), high)
            return self.finding_of(largest_epsilon(self.trial, question.max_exposed, begin, low, high, close).trials)
        # the cap at the smallest epsilon decides; trials at larger ones only describe
        n_users = int(np.clip(CAP_EXPOSED_USERS / question.max_exposed, MIN_USERS_OF_TRIAL, MAX_SEARCH_USERS))
        at = self.trial(epsilon_min, n_users)

        def scan_trial(epsilon: float) -> Trial:
            return at if epsilon == epsilon_min else self.trial(epsilon, most=MAX_SCAN_USERS)

        trials = largest_epsilon(scan_trial, question.max_exposed, epsilon_min, low, high, close).trials
        if epsilon_min * STEP < high and epsilon_min == trials[-1].epsilon:
            # infeasible: one trial at a larger epsilon shows the trend
            trials = (*trials, scan_trial(epsilon_min * STEP))
        return self.finding_of(trials)

    def finding_of(self, trials: Sequence[Trial]) -> Finding:
        """Summarize trials beside the error."""
        question, epsilon_min = self.question, self.epsilon_min
        found = result_of(trials, question.max_exposed, question.lowest, question.highest)
        at = next((trial for trial in found.trials if trial.epsilon == epsilon_min), None)
        epsilon_max = found.epsilon_max and Estimate(*map(self._met, found.epsilon_max))
        if question.max_error is None:
            feasible = _any_feasible(found.trials, question.max_exposed)
            limiting = "range" if epsilon_max is None or epsilon_max.value >= question.highest else "exposure"
        else:
            feasible = NO if at is None else verdict(at.exposed, question.max_exposed)
            limiting = "error" if feasible != NO else "range" if epsilon_max is None else "error and exposure"
        error = devices = None
        if epsilon_max is not None:
            found_errors = self.errors(epsilon_max.value)
            error = None if found_errors is None else found_errors.rmse
            if question.max_error is not None and error is not None and error > question.max_error:
                epsilon = epsilon_max.value
                needed = devices_needed(lambda n: self.rmse(epsilon, n), question.max_error, self.reports)
                devices = needed / self.reports_per_device
        mechanism, measure = split_name(self.kind)
        return Finding(
            mechanism=mechanism,
            measure=measure,
            epsilon_min=epsilon_min,
            epsilon_max=epsilon_max,
            feasible=feasible,
            limiting_constraint=limiting,
            at_epsilon_min=at,
            rmse_min=self.smallest_rmse,
            rmse_at_epsilon_max=error,
            devices_at_epsilon_max=devices,
            monotone=found.monotone,
            trials=found.trials,
        )

    def _met(self, epsilon: float) -> float:
        """Lower an end of the range to where the error target is still met."""
        if self.question.max_error is None or self.epsilon_min is None or epsilon <= self.epsilon_min:
            return epsilon
        return max_epsilon_for_error(self.rmse, self.question.max_error, self.epsilon_min, epsilon)


def _any_feasible(trials: Sequence[Trial], target: float) -> str:
    """Return whether some ε meets the exposure target."""
    verdicts = {verdict(trial.exposed, target) for trial in trials}
    return YES if YES in verdicts else UNDECIDED if UNDECIDED in verdicts else NO


def n_search_users(recorded: int, users: int) -> int:
    """Return how many recorded users search: half of them at most, as the others verify."""
    return max(1, min(users, recorded // 2))


def is_undecided(found: Exposures, question: Question) -> bool:
    """Return whether the interval of the share contains the target and is wider than the tolerance."""
    share = found.share(question.horizon)
    return share.low <= question.max_exposed < share.high and share.high - share.low > question.tolerance


def candidates_of(simulator: Simulator, scratch_parent: Path) -> list[Candidate]:
    """Return the mechanisms of a question after checking that they and the targets are possible; plays nothing."""
    question, scenario = simulator.question, simulator.scenario
    names = list(names_of(scenario, question))
    for name in names:
        for epsilon in (question.lowest, question.highest):
            variant = simulator.deployed(name, epsilon)
            build_mechanism(variant, variant.universe())
            if "epsilon" not in variant.mechanism.parameters:
                rule = "must have an epsilon parameter"
                raise InputError(rule, value=variant.mechanism.kind, place="mechanism")
    # the fastest game to build: what is checked does not depend on the mechanism
    game = simulator.game("grr", 1.0)
    check_game(question, game)
    with located(file=scenario.file):
        cores, users = simulator.engine.threads * simulator.engine.workers, min(question.users, MAX_SEARCH_USERS)
        plays = N_TRIALS * len(names) + N_REFINED * question.users // users
        if long := check_size(game, users, scratch_parent, cores, plays):
            warnings.warn(long, stacklevel=3)
    popularity = true_frequencies(game)
    if question.max_error is not None:
        assert question.devices is not None
        smallest_rmse = rmse_min(popularity, question.devices * scenario.devices.sampling_rate)
        if question.max_error < smallest_rmse:
            without = f"the error of {question.devices:,} devices without a mechanism"
            rule = f"`max_error` must be at least {smallest_rmse:.2g}, {without}"
            raise InputError(rule, value=question.max_error, remedy="use more `devices` or a larger `max_error`")
    recorded = users_to_play(game, None)
    candidates = [Candidate(kind=kind, simulator=simulator, popularity=popularity, recorded=recorded) for kind in names]
    if all(candidate.infeasible for candidate in candidates):
        smallest_rmse = min(candidate.smallest_rmse for candidate in candidates if candidate.smallest_rmse is not None)
        rule = f"no mechanism meets an error of {question.max_error:g} up to epsilon {question.highest:g}"
        raise InputError(
            rule, remedy=f"the smallest is {smallest_rmse:.2g}; use a larger HIGH of `epsilon` or more `devices`"
        )
    return candidates


def with_simulator(candidates: Sequence[Candidate], simulator: Simulator) -> list[Candidate]:
    """Return the candidates with another simulator."""
    return [replace(candidate, simulator=simulator) for candidate in candidates]
