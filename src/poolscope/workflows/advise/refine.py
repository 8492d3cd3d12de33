"""Refine the ε or the cap of a recommendation with more users than the search, and verify it with held-out users.

With an error target, ε is the smallest that meets it, and the cap is refined; otherwise the cap is the horizon,
and ε is refined. Either way, a refinement returns the largest value that exposes no more than a given share of
the users of the search. Held-out users had no part in the choice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from poolscope.game.blocks import AnyGame, users_to_play
from poolscope.game.columns import EXPOSED_AT_THRESHOLD
from poolscope.game.game import Game
from poolscope.metrics.intervals import Estimate
from poolscope.metrics.pools import PoolRecord, pool_records, pool_sums
from poolscope.metrics.precision import select
from poolscope.metrics.records import Record, summarize
from poolscope.population.behavior import NONE
from poolscope.scenario.build import build_game
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.advise.candidates import Candidate, n_search_users
from poolscope.workflows.advise.question import CAP, Question
from poolscope.workflows.advise.records import Attempt, Finding
from poolscope.workflows.advise.search import (
    MIN_AIM,
    NO,
    YES,
    Trial,
    bracket,
    decidable,
    next_epsilon,
    rounded_down,
    target_with_margin,
    verdict,
)
from poolscope.workflows.advise.setups import split_name
from poolscope.workflows.advise.simulation import Exposures, Simulator, exposures_of, largest_count

#: Horizon of a refinement, as a multiple of the likely cap or of the requested horizon.
FURTHER = 1.25

#: Users of a trial at first; trials at most.
MIN_TRIAL_USERS, MAX_TRIES = 1000, 6

#: Error of each end of an interval by which fewer than all users decide; small, as the same users play every trial.
TAIL_ERROR = 1e-4

#: Part of a bracket, at either end, in which no trial is made.
EDGE = 0.05

#: Relative distance at which a trial counts as at a share; ratio at which epsilons count as equal.
SHARE_TOLERANCE, SAME_EPSILON = 0.04, 1.004

#: What keeps a proposal from being larger: no trial goes further, the end of the range, a jump of exposure, or that the
#: search repeats it.
HORIZON, RANGE, JUMP, REPEATED = "horizon", "range", "jump", "repeated"


class Deployment(NamedTuple):
    """The parameters that a deployment sets; `kind` is the name of a candidate."""

    kind: str
    epsilon: float
    cap: int


class Proposal(NamedTuple):
    """A deployment, the share of search users that it exposes, and what keeps it from being larger, if anything.

    `smallest` says that nothing smaller can be proposed.
    """

    choice: Deployment
    exposed: float
    limit: str | None = None
    smallest: bool = False


class Refinement(Protocol):
    """Finds the largest cap or ε for a share of exposed users."""

    @property
    def users(self) -> int:
        """Users of the search."""
        ...

    @property
    def design_effect(self) -> float:
        """The design effect of shared estimates of the popularity near the target."""
        ...

    def at(self, share: float, target: float) -> Proposal:
        """Return the largest proposal that exposes at most a share; the requested cap where it meets the target."""
        ...


class LevelCandidate(Protocol):
    """What is refined by one level: a mechanism by its ε, or all collections by a factor."""

    @property
    def kind(self) -> str:
        """Its name."""
        ...

    @property
    def question(self) -> Question:
        """The targets, and the range of the level."""
        ...

    @property
    def simulator(self) -> Simulator:
        """What plays its trials."""
        ...

    @property
    def max_users(self) -> int:
        """Users of the search at most."""
        ...

    def played(self, epsilon: float, users: int, horizon: int | None = None) -> Exposures:
        """Return exposures of at least this many users at a level."""
        ...

    def trial_of(self, epsilon: float, found: Exposures) -> Trial:
        """Return the trial at a level."""
        ...


class CapRefinement:
    """Finds the largest cap at the smallest ε that meets the error target."""

    def __init__(self, candidate: Candidate, finding: Finding) -> None:
        assert finding.at_epsilon_min is not None
        self.candidate, self.coarse = candidate, finding
        self.epsilon, self.asked = finding.at_epsilon_min.epsilon, candidate.question.horizon
        self.furthest = candidate.simulator.horizon(candidate.kind)
        likely = max(self.asked, finding.at_epsilon_min.cap.high)
        self.played = self._play(min(self.furthest, math.ceil(FURTHER * likely)))

    @property
    def users(self) -> int:
        return self.played.users

    @property
    def design_effect(self) -> float:
        return self.played.design_effect(
            largest_count(self.played.counts() / self.users, self.candidate.question.max_exposed)
        )

    def at(self, share: float, target: float) -> Proposal:
        shares = self.played.counts() / self.users
        cap = largest_count(shares, share)
        if cap == self.played.horizon < self.furthest:
            self.played = self._play(self.furthest)
            return self.at(share, target)
        if cap < self.asked <= largest_count(shares, target):
            cap = self.asked
        cap = max(1, cap)
        limit = HORIZON if cap == self.furthest else JUMP if shares[cap + 1] > target else None
        return Proposal(Deployment(self.candidate.kind, self.epsilon, cap), float(shares[cap]), limit)

    def finding(self) -> Finding:
        refined = self.candidate.trial_of(self.epsilon, self.played)
        others = (trial for trial in self.coarse.trials if trial.epsilon != self.epsilon)
        return self.candidate.finding_of([*others, refined])

    def _play(self, horizon: int) -> Exposures:
        """Play the users of the search no further than needed; where a user takes long, reuse earlier plays."""
        candidate = self.candidate
        further = None if candidate.kind in candidate.simulator.budgets else horizon
        stage = f"Refining the cap of {candidate.kind} at epsilon {self.epsilon:.3g}, {candidate.max_users:,} users"
        candidate.simulator.progress.stage(stage)
        return candidate.played(self.epsilon, candidate.max_users, further)


class LevelRefinement:
    """Finds the largest level, such as ε, with the requested cap."""

    level = "epsilon"

    def __init__(self, candidate: LevelCandidate, trials: Sequence[Trial]) -> None:
        self.candidate, self.question = candidate, candidate.question
        self.trials = {trial.epsilon: trial for trial in trials}
        self.quick = candidate.kind not in candidate.simulator.budgets
        furthest = candidate.simulator.horizon(candidate.kind)
        self.horizon = min(furthest, math.ceil(FURTHER * self.question.horizon)) if self.quick else None
        self.most = candidate.max_users

    @property
    def users(self) -> int:
        return self.most

    @property
    def design_effect(self) -> float:
        near = min(self.trials.values(), key=lambda trial: abs(trial.exposed.value - self.question.max_exposed))
        return near.design_effect

    def at(self, share: float, target: float) -> Proposal:
        low, high = self.question.lowest, self.question.highest
        for _ in range(MAX_TRIES if self.quick else 0):
            below, above = bracket(list(self.trials.values()), share, low, high, TAIL_ERROR)
            if self._met(share) or above < SAME_EPSILON * below or below == high:
                break
            found = next_epsilon(list(self.trials.values()), share, below, above, EDGE)
            self._play(min(max(rounded_down(found, 4), low), high), share)
        return self._proposal(share, target)

    def _proposal(self, share: float, target: float) -> Proposal:
        """Take the trial of all users nearest to the share, else the largest ε that exposes no more."""
        best = self._met(share)
        if best is None:
            below_share = [trial for trial in self.trials.values() if trial.exposed.value <= share]
            lowest = min(self.trials.values(), key=lambda trial: trial.epsilon)
            # trials of all users take precedence over those of a few
            best = max(below_share, key=lambda trial: (trial.users >= self.most, trial.epsilon), default=lowest)
        epsilon = best.epsilon if best.epsilon == self.question.highest else rounded_down(best.epsilon, 4)
        _, above = bracket(list(self.trials.values()), target, best.epsilon, self.question.highest)
        limit = (
            RANGE if best.epsilon == self.question.highest else JUMP if above < SAME_EPSILON * best.epsilon else None
        )
        return Proposal(Deployment(self.candidate.kind, epsilon, self.question.horizon), best.exposed.value, limit)

    def _met(self, share: float) -> Trial | None:
        """Return the trial of all users that exposes about this share."""
        full = [trial for trial in self.trials.values() if trial.users >= self.most]
        near = min(full, key=lambda trial: abs(trial.exposed.value - share), default=None)
        return near if near and abs(near.exposed.value - share) <= SHARE_TOLERANCE * share else None

    def _play(self, epsilon: float, share: float) -> None:
        """Play more and more users until their share differs significantly from the given one, or all have played."""
        candidate, most = self.candidate, self.most
        stage = f"Refining {candidate.kind} at {self.level} {epsilon:.4g}, up to {most:,} users"
        candidate.simulator.progress.stage(stage)
        users = min(MIN_TRIAL_USERS, most)
        while True:
            trial = candidate.trial_of(epsilon, candidate.played(epsilon, users, self.horizon))
            if users >= most or trial.side(share, TAIL_ERROR):
                break
            users = min(2 * users, most)
        self.trials[epsilon] = trial


class EpsilonRefinement(LevelRefinement):
    """Finds the largest ε of a mechanism with the requested cap."""

    def __init__(self, candidate: Candidate, finding: Finding) -> None:
        super().__init__(candidate, finding.trials)
        self.mechanism = candidate

    def finding(self) -> Finding:
        return self.mechanism.finding_of(list(self.trials.values()))


MechanismRefinement = CapRefinement | EpsilonRefinement
"""A refinement of one mechanism; its `finding` is that of all trials."""


def start_refinement(candidate: Candidate, finding: Finding) -> MechanismRefinement:
    """Refine the cap where an error target fixes ε, else ε, for the share that is aimed at first."""
    refined = (CapRefinement if candidate.question.fixes_epsilon else EpsilonRefinement)(candidate, finding)
    target = candidate.question.max_exposed
    independent = refined.users / refined.design_effect
    refined.at(target_with_margin(target, independent, independent), target)
    return refined


#: Verifications at most: after each that does not confirm, the proposal is corrected and verified by other users.
MAX_ATTEMPTS = 4

#: Factor of the next cap or epsilon, where the search would repeat one that held-out users contradict.
BACKOFF = 0.93


AnyPlayed = TypeVar("AnyPlayed", bound=AnyGame)
AnySimulator = TypeVar("AnySimulator", bound=Simulator)


@dataclass(frozen=True, kw_only=True, eq=False)
class Verified(Generic[AnyPlayed]):
    """A deployment as held-out users experience it.

    Parameters
    ----------
    choice : the deployment; limit : what keeps it from being larger, as of `Proposal`.
    game, seed, users : what was played, and by whom.
    exposures : up to the cap; record : an audit's record at the cap; by_pool : of the users of each preferred pool.
    """

    choice: Deployment
    limit: str | None
    game: AnyPlayed
    seed: int
    users: range
    exposures: Exposures
    record: Record
    by_pool: tuple[PoolRecord, ...]

    @property
    def exposed(self) -> Estimate:
        """Share of them exposed by the cap."""
        return self.exposures.share(self.choice.cap)


Checked = TypeVar("Checked", bound="Verified[Any]")


def verify(refinement: Refinement, simulator: Simulator) -> tuple[Verified[Game], tuple[Attempt, ...]]:
    """Refine a proposal for one collection until held-out users confirm it, see `verify_by`."""
    return verify_by(play_choice, refinement, simulator)


def verify_by(
    play: Callable[[Proposal, AnySimulator, int], Checked], refinement: Refinement, simulator: AnySimulator
) -> tuple[Checked, tuple[Attempt, ...]]:
    """Refine a proposal until held-out users confirm that it exposes most of the target, and no more than it.

    Every attempt has users of its own and, where the popularity is estimated, an estimate of its own. Users who do not
    confirm a proposal correct the level of exposure of the next one; recorded users verify every attempt.
    """
    question = simulator.question
    attempts: list[Attempt] = []
    hits = expected = 0.0
    effect, contradicted = refinement.design_effect, None
    while True:
        searched = refinement.users + sum(attempt.users for attempt in attempts)
        aim = target_with_margin(question.max_exposed, searched / effect, refinement.users / effect)
        prior = aim * refinement.users
        level = (prior + hits) / (prior + expected)
        proposal = refinement.at(aim / level, question.max_exposed / level)
        if proposal.choice == contradicted:
            proposal = proposal._replace(choice=step_back(proposal.choice, question), limit=JUMP)
        found = play(proposal, simulator, simulator.seed + 1 + len(attempts))
        share = found.exposed
        epsilon, cap, users = proposal.choice.epsilon, proposal.choice.cap, len(found.users)
        meets = verdict(share, question.max_exposed)
        attempts.append(Attempt(epsilon=epsilon, cap=cap, users=users, exposed=share, meets_targets=meets))
        last = len(attempts) == MAX_ATTEMPTS or proposal.smallest or (cap == 1 and question.fixes_epsilon)
        if last or accepted(found, simulator):
            return found, tuple(attempts)
        if meets == NO or (share.value > question.max_exposed and not retriable(found, simulator)):
            contradicted = proposal.choice
        hits += share.value * users
        expected += proposal.exposed * users
        effect = max(effect, found.exposures.design_effect(cap))


def accepted(found: Verified[Any], simulator: Simulator) -> bool:
    """Return whether a verified deployment needs no further attempt.

    Held-out users confirm that it exposes no more than the target, and not much less, unless something keeps it from
    being larger. Where more attempts would not decide, or the cap is the requested one, an undecided one is accepted.
    """
    question, share = simulator.question, found.exposed
    if share.value > question.max_exposed:
        return False
    asked = question.fixes_epsilon and found.choice.cap == question.horizon
    if asked or not retriable(found, simulator):
        return True
    used = found.limit is not None or share.value >= MIN_AIM * question.max_exposed
    return used and verdict(share, question.max_exposed) == YES


def retriable(found: Verified[Any], simulator: Simulator) -> bool:
    """Return whether other users would decide: there are others, enough of them, and they play quickly."""
    independent = len(found.users) / found.exposures.design_effect(found.choice.cap)
    slow = found.game.recorded is not None or found.choice.kind in simulator.budgets
    return not slow and decidable(simulator.question.max_exposed, independent)


def step_back(choice: Deployment, question: Question) -> Deployment:
    """Return a smaller cap where the error target fixes ε, else a smaller ε."""
    if question.fixes_epsilon:
        return choice._replace(cap=max(1, int(BACKOFF * choice.cap)))
    return choice._replace(epsilon=rounded_down(BACKOFF * choice.epsilon))


def play_choice(proposal: Proposal, simulator: Simulator, seed: int) -> Verified[Game]:
    """Play a deployment with its cap until the cap is reached."""
    # where events are sampled, the cap is reached at about the event that it stands for
    choice, question = proposal.choice, simulator.question
    simulator.progress.stage(f"Verifying {choice.kind} at epsilon {choice.epsilon:g} with held-out users")
    variant = simulator.deployed(choice.kind, choice.epsilon)
    counts = simulator.observation_counts(choice.kind, choice.cap, variant.memoizes)
    limited = variant.replace({"devices.cap": cap_in_reports(choice, variant), "attack.observations": counts})
    game = build_game(limited, seed, simulator.engine.map)
    recorded, most = users_to_play(game, None), simulator.max_users(choice.kind)
    users = range(most) if recorded is None else range(n_search_users(recorded, most), recorded)
    outcomes = simulator.outcomes(game, users, seed)
    *_, record = summarize(outcomes, game, seed, question.threshold)
    adversary = game.adversaries[0]
    at_cap = pool_sums(select(outcomes, adversary.name, game.horizon), game.horizon, EXPOSED_AT_THRESHOLD)
    names = (*adversary.universe.pool_names, *([NONE] if game.allows_no_pool else []))
    return Verified(
        choice=choice,
        limit=proposal.limit,
        game=game,
        seed=seed,
        users=users,
        exposures=exposures_of(outcomes, adversary, game),
        record=record,
        by_pool=tuple(pool_records([at_cap], adversary.name, game.horizon, names, question.threshold)),
    )


def cap_in_reports(choice: Deployment, scenario: Scenario) -> int:
    """Return the cap in reports: of the events up to it, those that are reported, or fewer by the measure."""
    reports, (_, measure) = max(1, round(choice.cap * scenario.devices.sampling_rate)), split_name(choice.kind)
    return reports if measure != CAP or scenario.devices.cap is None else min(reports, scenario.devices.cap)
