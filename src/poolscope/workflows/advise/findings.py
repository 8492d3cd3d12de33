"""What each mechanism can do: from below by the error, from above by exposure."""

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
from poolscope.workflows.advise.accuracy import (
    Errors,
    devices_needed,
    end_of_serving,
    errors_of,
    min_in_range,
    rmse_min,
    smallest_serving,
)
from poolscope.workflows.advise.plays import Exposures, Players
from poolscope.workflows.advise.question import REPORTS, SEARCHING, Question, check_game
from poolscope.workflows.advise.records import Finding
from poolscope.workflows.advise.search import CLOSE, NO, STEP, UNDECIDED, YES, Trial, found_in, largest_epsilon, verdict
from poolscope.workflows.compare import true_frequencies, variants

#: Users of a trial at first; and where a user takes long.
MIN_USERS_OF_TRIAL, MIN_USERS_TIMED = 500, 12

#: Most users of a trial that only says how far other epsilons are from the targets.
SCANNING = 1000

#: Users who would be exposed at the target, of a trial that says which cap a mechanism allows.
EXPOSED = 100

#: Trials of a mechanism, about, and plays of the recommended one with most users.
TRIALS, REFINED = 6, 4


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidate:
    """A mechanism that is tried for a question; `recorded` is how many recorded users there are, if they are."""

    kind: str
    players: Players
    popularity: Floats
    recorded: int | None = None
    _rmse: dict[tuple[float, float], Errors | None] = field(default_factory=dict)
    _games: dict[tuple[float, int], Game] = field(default_factory=dict)
    _played: dict[tuple[float, int], Exposures] = field(default_factory=dict)

    @property
    def question(self) -> Question:
        return self.players.question

    @cached_property
    def reports(self) -> float:
        """Reports of a collection: one of each device that sends one."""
        return (self.question.devices or REPORTS) * self.players.scenario.devices.sampling_rate

    @cached_property
    def epsilon_min(self) -> float | None:
        """The smallest epsilon that meets the error, in closed form; None where nobody asks, or none does."""
        question = self.question
        if question.max_error is None:
            return None
        return smallest_serving(self.rmse, question.max_error, question.lowest, question.highest)

    @cached_property
    def least(self) -> float | None:
        """The smallest error of the range, where an error is asked for."""
        question = self.question
        if question.max_error is None:
            return None
        if self.epsilon_min is not None:
            return self.rmse(question.highest)
        return min_in_range(self.rmse, question.lowest, question.highest)

    @property
    def refused(self) -> bool:
        """Whether no epsilon of the range meets the error, so that nothing needs to be played."""
        return self.question.max_error is not None and self.epsilon_min is None

    def errors(self, epsilon: float, reports: float | None = None) -> Errors | None:
        """Of a frequency, in closed form."""
        key = epsilon, self.reports if reports is None else reports
        if key not in self._rmse:
            (variant,) = variants(self.players.scenario, [self.kind], [epsilon])
            mechanism = build_mechanism(variant, variant.universe())
            self._rmse[key] = errors_of(mechanism, self.popularity, key[1])
        return self._rmse[key]

    def rmse(self, epsilon: float, reports: float | None = None) -> float:
        """The same, for whoever must have it."""
        found = self.errors(epsilon, reports)
        if found is None:
            raise InputError(
                "must have an error in closed form to be held against `max_error`", value=self.kind, place="mechanism"
            )
        return found.rmse

    @property
    def max_users(self) -> int:
        """Users who search at most; of recorded ones half, as the others verify."""
        most = self.players.max_users(self.kind)
        return most if self.recorded is None else searching(self.recorded, most)

    def played(self, epsilon: float, users: int, horizon: int | None = None) -> Exposures:
        """Exposures of at least this many of the searching users; who played before does not play again."""
        key = epsilon, horizon or self.players.horizon(self.kind)
        known = self._played.get(key)
        if known is None or known.users < users:
            more = self.players.exposures(self._game(*key), range(known.users if known else 0, users))
            self._played[key] = more if known is None else known + more
        return self._played[key]

    def _game(self, epsilon: float, horizon: int) -> Game:
        """The game at an epsilon; the last one is kept, as making estimates takes long."""
        if (epsilon, horizon) not in self._games:
            self._games.clear()
            self._games[epsilon, horizon] = self.players.game(self.kind, epsilon, horizon)
        return self._games[epsilon, horizon]

    def trial(self, epsilon: float, first: int = MIN_USERS_OF_TRIAL, most: int = SEARCHING) -> Trial:
        """Play more and more users until their share lies on one side of the target, or is well known."""
        question, players = self.question, self.players
        most = min(most, self.max_users)
        # where a user takes long, those that are not needed are not played
        few = min(first, most if self.kind not in players.efforts else max(MIN_USERS_TIMED, most // 4))
        players.progress.stage(f"Trying {self.kind} at epsilon {epsilon:.3g}, {few:,} to {most:,} users")
        found = self.played(epsilon, few)
        while found.users < most and undecided(found, question):
            found = self.played(epsilon, min(2 * found.users, most))
        return self.trial_of(epsilon, found)

    def trial_of(self, epsilon: float, found: Exposures) -> Trial:
        """Put what was played at an epsilon beside its error."""
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
        """The range of epsilon that meets the targets, searched from `start` where no error says where to begin."""
        question, smallest = self.question, self.epsilon_min
        if self.refused:
            return self.finding_of([])
        low, high = question.lowest, question.highest
        close = STEP if self.players.hurried(self.kind) else CLOSE
        if smallest is None:
            begin = min(max(start, low), high)
            return self.finding_of(largest_epsilon(self.trial, question.max_exposed, begin, low, high, close).trials)
        # the cap at the smallest epsilon decides; how far larger ones are from the target is only described
        sized = int(np.clip(EXPOSED / question.max_exposed, MIN_USERS_OF_TRIAL, SEARCHING))
        at = self.trial(smallest, sized)

        def scanned(epsilon: float) -> Trial:
            return at if epsilon == smallest else self.trial(epsilon, most=SCANNING)

        trials = largest_epsilon(scanned, question.max_exposed, smallest, low, high, close).trials
        if smallest * STEP < high and smallest == trials[-1].epsilon:
            # nothing fits: what larger epsilons would take is seen by one
            trials = (*trials, scanned(smallest * STEP))
        return self.finding_of(trials)

    def finding_of(self, trials: Sequence[Trial]) -> Finding:
        """What trials say, beside the error."""
        question, smallest = self.question, self.epsilon_min
        found = found_in(trials, question.max_exposed, question.lowest, question.highest)
        at = next((trial for trial in found.trials if trial.epsilon == smallest), None)
        largest = found.epsilon_max and Estimate(*map(self._met, found.epsilon_max))
        if question.max_error is None:
            fits = _some_fit(found.trials, question.max_exposed)
            binds = "range" if largest is None or largest.value >= question.highest else "exposure"
        else:
            fits = NO if at is None else verdict(at.exposed, question.max_exposed)
            binds = "error" if fits != NO else "range" if largest is None else "error and exposure"
        error = devices = None
        if largest is not None:
            found_errors = self.errors(largest.value)
            error = None if found_errors is None else found_errors.rmse
            if question.max_error is not None and error is not None and error > question.max_error:
                epsilon = largest.value
                needed = devices_needed(lambda n: self.rmse(epsilon, n), question.max_error, self.reports)
                devices = needed / self.players.scenario.devices.sampling_rate
        return Finding(
            mechanism=self.kind,
            epsilon_min=smallest,
            epsilon_max=largest,
            feasible=fits,
            limiting_constraint=binds,
            at_epsilon_min=at,
            rmse_min=self.least,
            rmse_at_epsilon_max=error,
            devices_at_epsilon_max=devices,
            monotone=found.monotone,
            trials=found.trials,
        )

    def _met(self, epsilon: float) -> float:
        """Lower an end of the range to where the error stays met, from the smallest epsilon that meets it."""
        if self.question.max_error is None or self.epsilon_min is None or epsilon <= self.epsilon_min:
            return epsilon
        return end_of_serving(self.rmse, self.question.max_error, self.epsilon_min, epsilon)


def _some_fit(trials: Sequence[Trial], target: float) -> str:
    """Say whether some epsilon exposes few users enough."""
    verdicts = {verdict(trial.exposed, target) for trial in trials}
    return YES if YES in verdicts else UNDECIDED if UNDECIDED in verdicts else NO


def searching(recorded: int, users: int) -> int:
    """How many of the recorded users search: half of them at most, as the others verify."""
    return max(1, min(users, recorded // 2))


def undecided(found: Exposures, question: Question) -> bool:
    """Whether the interval of the share has the target inside, and is wider than is tolerated."""
    share = found.share(question.horizon)
    return share.low <= question.max_exposed < share.high and share.high - share.low > question.tolerance


def candidates_of(players: Players, beside: Path) -> list[Candidate]:
    """The mechanisms of a question, each known to be buildable, and its targets to be possible; nothing is played."""
    question, scenario = players.question, players.scenario
    for variant in variants(scenario, question.mechanisms, [question.lowest, question.highest]):
        build_mechanism(variant, variant.universe())
        if "epsilon" not in variant.mechanism.parameters:
            rule = "must have an epsilon that can be chosen"
            raise InputError(rule, value=variant.mechanism.kind, place="mechanism")
    # a game that is quickly built has what is the same for all mechanisms
    game = players.game("grr", 1.0)
    check_game(question, game)
    with located(file=scenario.file):
        cores, users = players.engine.threads * players.engine.workers, min(question.users, SEARCHING)
        plays = TRIALS * len(question.mechanisms) + REFINED * question.users // users
        if long := check_size(game, users, beside, cores, plays):
            warnings.warn(long, stacklevel=3)
    popularity = true_frequencies(game)
    if question.max_error is not None:
        assert question.devices is not None
        least = rmse_min(popularity, question.devices * scenario.devices.sampling_rate)
        if question.max_error < least:
            rule = (
                f"`max_error` must be at least {least:.2g}, which {question.devices:,} devices have without a mechanism"
            )
            raise InputError(rule, value=question.max_error, remedy="ask for more `devices` or a larger `max_error`")
    recorded = users_to_play(game, None)
    candidates = [
        Candidate(kind=kind, players=players, popularity=popularity, recorded=recorded) for kind in question.mechanisms
    ]
    if all(candidate.refused for candidate in candidates):
        least = min(candidate.least for candidate in candidates if candidate.least is not None)
        rule = f"no mechanism has an error of {question.max_error:g} up to epsilon {question.highest:g}"
        raise InputError(rule, remedy=f"the least is {least:.2g}; ask for a larger HIGH of `epsilon` or more `devices`")
    return candidates


def timed(candidates: Sequence[Candidate], players: Players) -> list[Candidate]:
    """The candidates with players whose users are counted by the time they take."""
    return [replace(candidate, players=players) for candidate in candidates]
