"""What each mechanism can do: from below by the error, from above by exposure."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from poolscope.base.arrays import Floats
from poolscope.base.errors import InputError, located
from poolscope.game.game import Game
from poolscope.game.plan import playing
from poolscope.game.size import check_size
from poolscope.scenario.build import build_mechanism
from poolscope.verbs.advise.advice import Finding
from poolscope.verbs.advise.error import Errors, devices_needed, errors_of, least_error, smallest_serving
from poolscope.verbs.advise.plays import Exposures, Players
from poolscope.verbs.advise.question import REPORTS, Question, check_game
from poolscope.verbs.advise.search import CLOSE, STEP, Found, Trial, largest_epsilon
from poolscope.verbs.compare import true_frequencies, variants

#: Users of a trial at first; and where a user takes long.
FEW, LEAST = 500, 12

#: Trials of a mechanism, about.
TRIALS = 6


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidate:
    """A mechanism that is tried for a question."""

    kind: str
    players: Players
    popularity: Floats

    @property
    def question(self) -> Question:
        return self.players.question

    @cached_property
    def reports(self) -> float:
        """Reports of a collection: one of each device that sends one."""
        return (self.question.devices or REPORTS) * self.players.scenario.devices.sample

    def errors(self, epsilon: float, reports: float | None = None) -> Errors | None:
        """Of a frequency, in closed form."""
        (variant,) = variants(self.players.scenario, [self.kind], [epsilon])
        mechanism = build_mechanism(variant, variant.universe())
        return errors_of(mechanism, self.popularity, self.reports if reports is None else reports)

    def rmse(self, epsilon: float, reports: float | None = None) -> float:
        """The same, for whoever must have it."""
        found = self.errors(epsilon, reports)
        if found is None:
            raise InputError(
                "must have an error in closed form to be held against `error`", value=self.kind, place="mechanism"
            )
        return found.rmse

    def trial(self, epsilon: float) -> Trial:
        """Play so many of the same users that their share lies on one side of the target, or is well known."""
        question, players = self.question, self.players
        game = players.game(self.kind, epsilon)
        most = searching(game, players.most_users(self.kind))
        # where a user takes long, those that are not needed are not played
        few = min(FEW, most if self.kind not in players.efforts else max(LEAST, most // 4))
        players.progress.stage(f"Trying {self.kind} at epsilon {epsilon:.3g}, {few:,} to {most:,} users")
        found = players.exposures(game, range(min(few, most)))
        while found.users < most and undecided(found, question):
            more = range(found.users, min(2 * found.users, most))
            found += players.exposures(game, more)
        errors = self.errors(epsilon)
        return Trial(
            epsilon=epsilon,
            users=found.users,
            exposed=found.share(question.reports),
            cap=found.cap(question.exposed),
            error=None if errors is None else errors.rmse,
        )

    def finding(self, start: float) -> Finding:
        """The range of epsilon that meets the targets, searched from `start` where no error says where to begin."""
        question = self.question
        low, high, smallest, least = question.lowest, question.highest, None, None
        if question.error is not None:
            smallest = smallest_serving(self.rmse, question.error, low, high)
            least = self.rmse(high)
        begin, close = smallest or min(max(start, low), high), STEP if self.players.hurried(self.kind) else CLOSE
        found = largest_epsilon(self.trial, question.exposed, begin, low, high, close)
        if smallest is not None and smallest * STEP < high and smallest == found.trials[-1].epsilon:
            # nothing fits: what larger epsilons would take is seen by one
            found = replace(found, trials=(*found.trials, self.trial(smallest * STEP)))
        return finding_of(self, found, smallest, least)


def searching(game: Game, users: int) -> int:
    """How many users trials may have, of so many; of recorded ones half, as the others verify."""
    there = playing(game, None)
    return users if there is None else max(1, min(users, there // 2))


def undecided(found: Exposures, question: Question) -> bool:
    """Whether the interval of the share has the target inside, and is wider than is tolerated."""
    share = found.share(question.reports)
    return share.low <= question.exposed < share.high and share.high - share.low > question.tolerance


def finding_of(candidate: Candidate, found: Found, smallest: float | None, least: float | None) -> Finding:
    """What a search says, beside the error."""
    question, largest = candidate.question, found.largest
    at = next((trial for trial in found.trials if trial.epsilon == smallest), None)
    if question.error is None:
        fits, binds = largest is not None, "exposure"
        if largest is None or largest.value >= question.highest:
            binds = "range"
    else:
        fits = at is not None and at.exposed.value <= question.exposed
        binds = "error" if fits else "range" if smallest is None or largest is None else "error and exposure"
    error = devices = None
    if largest is not None:
        found_errors = candidate.errors(largest.value)
        error = None if found_errors is None else found_errors.rmse
        if question.error is not None and error is not None and error > question.error:
            epsilon = largest.value
            needed = devices_needed(lambda n: candidate.rmse(epsilon, n), question.error, candidate.reports)
            devices = needed / candidate.players.scenario.devices.sample
    return Finding(
        mechanism=candidate.kind,
        smallest=smallest,
        largest=largest,
        fits=fits,
        binds=binds,
        at_smallest=at,
        least_error=least,
        error_at_largest=error,
        devices_at_largest=devices,
        monotone=found.monotone,
        trials=found.trials,
    )


def candidates_of(players: Players, beside: Path) -> list[Candidate]:
    """The mechanisms of a question, each known to be buildable, and its targets to be possible."""
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
        cores, plays = players.engine.threads * players.engine.workers, TRIALS * len(question.mechanisms)
        if long := check_size(game, question.users, beside, cores, plays):
            warnings.warn(long, stacklevel=3)
    popularity = true_frequencies(game)
    if question.error is not None:
        assert question.devices is not None
        least = least_error(popularity, question.devices * scenario.devices.sample)
        if question.error < least:
            rule = f"`error` must be at least {least:.2g}, which {question.devices:,} devices have without a mechanism"
            raise InputError(rule, value=question.error, remedy="ask for more `devices` or a larger `error`")
    return [Candidate(kind=kind, players=players, popularity=popularity) for kind in question.mechanisms]
