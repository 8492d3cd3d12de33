"""The epsilon and the cap of a recommendation, refined with more users than the search of all mechanisms has.

With an error asked for, epsilon is the smallest that meets it and the cap is refined; otherwise the cap is what was
asked for and epsilon is refined. Both say, for a share of users, the largest setting that exposes no more of those who
search.

A recommendation as held-out users play it: they had no part in choosing it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from poolscope.game.blocks import users_to_play
from poolscope.game.columns import EXPOSED_AT_THRESHOLD
from poolscope.game.game import Game
from poolscope.metrics.intervals import Estimate
from poolscope.metrics.pools import PoolRecord, pool_records, pool_sums
from poolscope.metrics.precision import select
from poolscope.metrics.records import Record, summarize
from poolscope.population.behavior import NONE
from poolscope.scenario.build import build_game
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.advise.accuracy import rounded_down
from poolscope.workflows.advise.findings import Candidate, searching
from poolscope.workflows.advise.plays import Exposures, Players, exposures_of, largest
from poolscope.workflows.advise.question import Question
from poolscope.workflows.advise.records import Attempt, Finding
from poolscope.workflows.advise.search import MIN_AIM, NO, YES, Trial, aim_of, between, bracket, decidable, verdict
from poolscope.workflows.compare import variants

#: How far beyond the likely cap, or the asked number of events, users play when a setting is refined.
FURTHER = 1.25

#: Users of a refining trial at first; trials at most.
FIRST, TRIES = 1000, 6

#: How often each end of an interval may be wrong, by which fewer than all users decide: the same ones play every trial.
CHANCE = 1e-4

#: How near to an end of its bracket a refining trial may be, in parts of the bracket.
EDGE = 0.05

#: How far, as a part of it, a trial may be from a share that it meets; epsilons this close, as a ratio, are one.
MET, SAME = 0.04, 1.004

#: Why no larger setting is looked for.
HORIZON, RANGE, JUMP = "horizon", "range", "jump"


class Configuration(NamedTuple):
    """What a deployment sets."""

    kind: str
    epsilon: float
    cap: int


class Setting(NamedTuple):
    """A choice, the share of searching users that it exposes, and what keeps it from being larger, if anything."""

    choice: Configuration
    exposed: float
    limit: str | None = None


class Refining(Protocol):
    """Finds the largest setting for a share of exposed users."""

    @property
    def users(self) -> int:
        """Users who search, once they have played."""
        ...

    @property
    def design_effect(self) -> float:
        """How many times fewer independent users would say as much of a share near the target."""
        ...

    def at(self, share: float, target: float) -> Setting:
        """Find the largest setting that exposes no more than a share; the asked cap where it exposes the target."""
        ...

    def finding(self) -> Finding:
        """What all trials say of the mechanism."""
        ...


class RefinedCap:
    """The largest cap at the smallest epsilon that meets the error."""

    def __init__(self, candidate: Candidate, finding: Finding) -> None:
        assert finding.at_epsilon_min is not None
        self.candidate, self.coarse = candidate, finding
        self.epsilon, self.asked = finding.at_epsilon_min.epsilon, candidate.question.horizon
        self.furthest = candidate.players.horizon(candidate.kind)
        likely = max(self.asked, finding.at_epsilon_min.cap.high)
        self.played = self._play(min(self.furthest, math.ceil(FURTHER * likely)))

    @property
    def users(self) -> int:
        return self.played.users

    @property
    def design_effect(self) -> float:
        return self.played.design_effect(
            largest(self.played.counts() / self.users, self.candidate.question.max_exposed)
        )

    def at(self, share: float, target: float) -> Setting:
        shares = self.played.counts() / self.users
        cap = largest(shares, share)
        if cap == self.played.horizon < self.furthest:
            self.played = self._play(self.furthest)
            return self.at(share, target)
        if cap < self.asked <= largest(shares, target):
            cap = self.asked
        cap = max(1, cap)
        limit = HORIZON if cap == self.furthest else JUMP if shares[cap + 1] > target else None
        return Setting(Configuration(self.candidate.kind, self.epsilon, cap), float(shares[cap]), limit)

    def finding(self) -> Finding:
        refined = self.candidate.trial_of(self.epsilon, self.played)
        others = (trial for trial in self.coarse.trials if trial.epsilon != self.epsilon)
        return self.candidate.finding_of([*others, refined])

    def _play(self, horizon: int) -> Exposures:
        """Play the searching users no further than needed; where that takes long, only those that have not played."""
        candidate = self.candidate
        further = None if candidate.kind in candidate.players.efforts else horizon
        stage = f"Refining the cap of {candidate.kind} at epsilon {self.epsilon:.3g}, {candidate.max_users:,} users"
        candidate.players.progress.stage(stage)
        return candidate.played(self.epsilon, candidate.max_users, further)


class RefinedEpsilon:
    """The largest epsilon with the cap that was asked for."""

    def __init__(self, candidate: Candidate, finding: Finding) -> None:
        self.candidate, self.question = candidate, candidate.question
        self.trials = {trial.epsilon: trial for trial in finding.trials}
        self.quick = candidate.kind not in candidate.players.efforts
        furthest = candidate.players.horizon(candidate.kind)
        self.horizon = min(furthest, math.ceil(FURTHER * self.question.horizon)) if self.quick else None
        self.most = candidate.max_users

    @property
    def users(self) -> int:
        return self.most

    @property
    def design_effect(self) -> float:
        near = min(self.trials.values(), key=lambda trial: abs(trial.exposed.value - self.question.max_exposed))
        return near.design_effect

    def at(self, share: float, target: float) -> Setting:
        low, high = self.question.lowest, self.question.highest
        for _ in range(TRIES if self.quick else 0):
            below, above = bracket(list(self.trials.values()), share, low, high, CHANCE)
            if self._met(share) or above < SAME * below or below == high:
                break
            found = between(list(self.trials.values()), share, below, above, EDGE)
            self._play(min(max(rounded_down(found, 4), low), high), share)
        return self._setting(share, target)

    def finding(self) -> Finding:
        return self.candidate.finding_of(list(self.trials.values()))

    def _setting(self, share: float, target: float) -> Setting:
        """Take the trial that meets the share with most users, or else the largest epsilon that exposes no more."""
        best = self._met(share)
        if best is None:
            few = [trial for trial in self.trials.values() if trial.exposed.value <= share]
            lowest = min(self.trials.values(), key=lambda trial: trial.epsilon)
            # what few users say by chance does not count beside what all say
            best = max(few, key=lambda trial: (trial.users >= self.most, trial.epsilon), default=lowest)
        epsilon = best.epsilon if best.epsilon == self.question.highest else rounded_down(best.epsilon, 4)
        _, above = bracket(list(self.trials.values()), target, best.epsilon, self.question.highest)
        limit = RANGE if best.epsilon == self.question.highest else JUMP if above < SAME * best.epsilon else None
        return Setting(Configuration(self.candidate.kind, epsilon, self.question.horizon), best.exposed.value, limit)

    def _met(self, share: float) -> Trial | None:
        """Find the trial of all users that exposes about this share of them."""
        full = [trial for trial in self.trials.values() if trial.users >= self.most]
        near = min(full, key=lambda trial: abs(trial.exposed.value - share), default=None)
        return near if near and abs(near.exposed.value - share) <= MET * share else None

    def _play(self, epsilon: float, share: float) -> None:
        """Play more and more users until their share differs from the one looked for, or all have played."""
        candidate, most = self.candidate, self.most
        stage = f"Refining {candidate.kind} at epsilon {epsilon:.4g}, up to {most:,} users"
        candidate.players.progress.stage(stage)
        users = min(FIRST, most)
        while True:
            trial = candidate.trial_of(epsilon, candidate.played(epsilon, users, self.horizon))
            if users >= most or trial.side(share, CHANCE):
                break
            users = min(2 * users, most)
        self.trials[epsilon] = trial


def refining(candidate: Candidate, finding: Finding) -> Refining:
    """Refine the cap where an error holds epsilon, else epsilon, for the share that is aimed at first."""
    refined: Refining = (RefinedEpsilon if candidate.question.max_error is None else RefinedCap)(candidate, finding)
    target = candidate.question.max_exposed
    independent = refined.users / refined.design_effect
    refined.at(aim_of(target, independent, independent), target)
    return refined


#: How often a setting that held-out users do not confirm is refined, with what they say, and verified by others.
ATTEMPTS = 4

#: The next setting, as a part of the last, after one that held-out users contradict and the search would choose again.
BACK = 0.93


@dataclass(frozen=True, kw_only=True, eq=False)
class Verified:
    """A choice as held-out users play it.

    Parameters
    ----------
    choice : what they play; limit : what keeps it from being larger, as `refine.Setting` has it.
    game, seed, users : who plays what.
    exposures : theirs up to the cap; record : an audit's record at the cap; by_pool : of the users of each preferred
        pool.
    """

    choice: Configuration
    limit: str | None
    game: Game
    seed: int
    users: range
    exposures: Exposures
    record: Record
    by_pool: tuple[PoolRecord, ...]

    @property
    def exposed(self) -> Estimate:
        """Share of them exposed by the cap."""
        return self.exposures.share(self.choice.cap)


def verify(refining: Refining, players: Players) -> tuple[Verified, tuple[Attempt, ...]]:
    """Refine a setting until held-out users confirm that it exposes most of the target, and no more than it.

    Every attempt has users and, where a popularity is estimated, an estimate of its own. Users who do not confirm a
    setting correct the level of exposure that the next one is chosen by; recorded ones verify again.
    """
    question = players.question
    attempts: list[Attempt] = []
    hits = expected = 0.0
    effect, contradicted = refining.design_effect, None
    while True:
        searched = refining.users + sum(attempt.users for attempt in attempts)
        aim = aim_of(question.max_exposed, searched / effect, refining.users / effect)
        prior = aim * refining.users
        level = (prior + hits) / (prior + expected)
        setting = refining.at(aim / level, question.max_exposed / level)
        if setting.choice == contradicted:
            setting = setting._replace(choice=step_back(setting.choice, question), limit=JUMP)
        found = play_choice(setting, players, players.seed + 1 + len(attempts))
        share = found.exposed
        epsilon, cap, users = setting.choice.epsilon, setting.choice.cap, len(found.users)
        kept = verdict(share, question.max_exposed)
        attempts.append(Attempt(epsilon=epsilon, cap=cap, users=users, exposed=share, meets_targets=kept))
        last = len(attempts) == ATTEMPTS or (cap == 1 and question.max_error is not None)
        if last or accepted(found, players):
            return found, tuple(attempts)
        if kept == NO or (share.value > question.max_exposed and not retriable(found, players)):
            contradicted = setting.choice
        hits += share.value * users
        expected += setting.exposed * users
        effect = max(effect, found.exposures.design_effect(cap))


def accepted(found: Verified, players: Players) -> bool:
    """Say whether a verified choice needs no further attempt.

    It exposes no more than the target, as held-out users confirm, and not much less, unless something keeps it from
    being larger. Where more attempts would not tell, or the cap is what was asked for, an undecided one is accepted.
    """
    question, share = players.question, found.exposed
    if share.value > question.max_exposed:
        return False
    asked = question.max_error is not None and found.choice.cap == question.horizon
    if asked or not retriable(found, players):
        return True
    used = found.limit is not None or share.value >= MIN_AIM * question.max_exposed
    return used and verdict(share, question.max_exposed) == YES


def retriable(found: Verified, players: Players) -> bool:
    """Say whether other users would tell more: there are others, enough of them, and they play quickly."""
    independent = len(found.users) / found.exposures.design_effect(found.choice.cap)
    slow = found.game.recorded is not None or found.choice.kind in players.efforts
    return not slow and decidable(players.question.max_exposed, independent)


def step_back(choice: Configuration, question: Question) -> Configuration:
    """Take a smaller cap where the error holds epsilon, else a smaller epsilon."""
    if question.max_error is not None:
        return choice._replace(cap=max(1, int(BACK * choice.cap)))
    return choice._replace(epsilon=rounded_down(BACK * choice.epsilon))


def play_choice(setting: Setting, players: Players, seed: int) -> Verified:
    """Play a choice with its cap, as it would be deployed, until the cap is full."""
    # where a share of the events is reported the cap is filled later, at about the event that it stands for
    choice, question = setting.choice, players.question
    players.progress.stage(f"Verifying {choice.kind} at epsilon {choice.epsilon:g} with held-out users")
    (variant,) = variants(players.scenario, [choice.kind], [choice.epsilon])
    counts = players.looks(choice.kind, choice.cap, variant.memoizes)
    limited = variant.replace({"devices.cap": capped(choice, variant), "attack.observations": counts})
    game = build_game(limited, seed, players.engine.map)
    there, most = users_to_play(game, None), players.max_users(choice.kind)
    users = range(most) if there is None else range(searching(there, most), there)
    outcomes = players.outcomes(game, users, seed)
    *_, record = summarize(outcomes, game, seed, question.threshold)
    adversary = game.adversaries[0]
    at_cap = pool_sums(select(outcomes, adversary.name, game.horizon), game.horizon, EXPOSED_AT_THRESHOLD)
    names = (*adversary.universe.pool_names, *([NONE] if game.none else []))
    return Verified(
        choice=choice,
        limit=setting.limit,
        game=game,
        seed=seed,
        users=users,
        exposures=exposures_of(outcomes, adversary, game),
        record=record,
        by_pool=tuple(pool_records([at_cap], adversary.name, game.horizon, names, question.threshold)),
    )


def capped(choice: Configuration, scenario: Scenario) -> int:
    """The cap in reports: of the events up to it, those that are reported."""
    return max(1, round(choice.cap * scenario.devices.sampling_rate))
