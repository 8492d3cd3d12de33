"""One choice of all that was found, played again by users who did not choose it."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from poolscope.base.errors import InputError
from poolscope.base.randomness import curator_key
from poolscope.game.game import Game
from poolscope.game.plan import playing
from poolscope.metrics.epsilon import epsilon_of, kept_by
from poolscope.metrics.records import Record, summarise
from poolscope.metrics.shuffling import shuffled_epsilon_of
from poolscope.reports.utility import measure_utility
from poolscope.scenario.build import build_game
from poolscope.scenario.scenario import Scenario, changed
from poolscope.verbs.advise.advice import Attempt, Finding, Recommendation
from poolscope.verbs.advise.error import Errors, rounded_down, rounded_up
from poolscope.verbs.advise.findings import Candidate, searching
from poolscope.verbs.advise.plays import Exposures, Players, exposures_of
from poolscope.verbs.advise.question import Question
from poolscope.verbs.advise.search import provable
from poolscope.verbs.compare import variants

#: How often a recommendation that fresh users contradict is taken back a step, and how far.
ATTEMPTS, BACK = 4, 0.93

#: How often more may be revealed than the epsilon of shuffled reports says.
DELTA = 1e-6


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What a deployment sets."""

    kind: str
    epsilon: float
    cap: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Verified:
    """A choice as fresh users play it: the game, their exposures up to the cap, and an audit's record at the cap."""

    choice: Choice
    game: Game
    seed: int
    users: range
    exposures: Exposures
    record: Record


def best_of(findings: Sequence[Finding], question: Question) -> Finding:
    """The mechanism that is recommended.

    With an error asked for, the one with the largest cap at the smallest epsilon that serves, then the one that exposes
    fewest; without, of those that expose no more than asked for, the one whose error is smallest. Where nothing fits,
    the same of those that come closest.
    """
    fitting = [finding for finding in findings if finding.fits]
    if question.error is None:
        known = [finding for finding in fitting if finding.error_at_largest is not None] or fitting
        if not known:
            least = min(finding.trials[0].exposed.value for finding in findings)
            rule = f"no mechanism exposes as few users as {question.exposed:g} by {question.reports:,} events"
            remedy = (
                f"the least was {least:.2g}: let `epsilon` begin lower, or ask for fewer `reports` or more `exposed`"
            )
            raise InputError(rule, remedy=remedy)
        return min(known, key=lambda f: (f.error_at_largest or 0.0, -f.largest.low if f.largest else 0.0))
    serving = [finding for finding in fitting or findings if finding.at_smallest is not None]
    if not serving:
        least = min(finding.least_error for finding in findings if finding.least_error is not None)
        rule = f"no mechanism has an error of {question.error:g} up to epsilon {question.highest:g}"
        raise InputError(rule, remedy=f"the least is {least:.2g}; ask for a larger HIGH of `epsilon` or more `devices`")
    return max(serving, key=_room)


def _room(finding: Finding) -> tuple[float, float]:
    assert finding.at_smallest is not None
    return finding.at_smallest.cap.value, -finding.at_smallest.exposed.value


def choice_of(finding: Finding, question: Question) -> Choice:
    """The epsilon and the cap that a finding stands for, in three digits.

    With an error asked for, the smallest epsilon that serves and the largest cap whose interval holds at it; otherwise
    the largest epsilon whose interval holds, capped at what was asked for.
    """
    if question.error is None:
        assert finding.largest is not None
        sure = finding.largest.low
        if not provable(finding.trials, question.exposed):
            # no interval can hold: the largest that was seen to expose few enough, for fresh users to decide
            sure = max(trial.epsilon for trial in finding.trials if trial.exposed.value <= question.exposed)
        return Choice(kind=finding.mechanism, epsilon=rounded_down(sure), cap=question.reports)
    assert finding.smallest is not None
    assert finding.at_smallest is not None
    cap = finding.at_smallest.cap
    # what was asked for where it may hold, so that fresh users decide; otherwise what surely holds
    holds = cap.low if provable(finding.trials, question.exposed) else cap.value
    fitting = question.reports if cap.low < question.reports <= cap.value else max(1, int(holds))
    return Choice(kind=finding.mechanism, epsilon=rounded_up(finding.smallest), cap=fitting)


def step_back(choice: Choice, question: Question) -> Choice:
    """What to try when fresh users contradict a choice: a smaller cap where the error holds epsilon, else epsilon."""
    if question.error is not None:
        return replace(choice, cap=max(1, int(BACK * choice.cap)))
    return replace(choice, epsilon=rounded_down(BACK * choice.epsilon))


def verify(choice: Choice, players: Players, question: Question) -> tuple[Verified, tuple[Attempt, ...]]:
    """Play a choice with fresh users, step back while they contradict it, and say all that was tried.

    Every attempt has users and, where a popularity is estimated, an estimate of its own.
    """
    attempts: list[Attempt] = []
    while True:
        seed = players.seed + 1 + len(attempts)
        players.progress.stage(f"Verifying {choice.kind} at epsilon {choice.epsilon:g} with fresh users")
        found = play_choice(choice, players, question, seed)
        share = found.exposures.share(choice.cap)
        kept = share.value <= question.exposed
        attempts.append(
            Attempt(epsilon=choice.epsilon, cap=choice.cap, users=len(found.users), exposed=share, kept=kept)
        )
        if kept or len(attempts) == ATTEMPTS or choice.cap == 1:
            return found, tuple(attempts)
        choice = step_back(choice, question)


def play_choice(choice: Choice, players: Players, question: Question, seed: int) -> Verified:
    """The choice with its cap, as it would be deployed, played until the cap is full."""
    # where a share of the events is reported the cap is filled later, at about the event that it stands for
    (variant,) = variants(players.scenario, [choice.kind], [choice.epsilon])
    counts = players.looks(choice.kind, choice.cap, variant.keeps_answers)
    attack = {"observations": counts, "threshold": question.confidence, "non_private": False}
    limited = changed(variant, {"devices.cap": capped(choice, variant), "attack": attack}, name=variant.name)
    game = build_game(limited, seed, players.engine.map)
    there = playing(game, None)
    most = players.most_users(choice.kind)
    users = range(most) if there is None else range(searching(game, most), there)
    outcomes = players.outcomes(game, users, seed)
    *_, record = summarise(outcomes, game, seed, question.confidence)
    exposures = exposures_of(outcomes, game.adversaries[0].name, game.horizon)
    return Verified(choice=choice, game=game, seed=seed, users=users, exposures=exposures, record=record)


def capped(choice: Choice, scenario: Scenario) -> int:
    """The cap in reports: of the events up to it, those that are reported."""
    return max(1, round(choice.cap * scenario.devices.sample))


def recommendation_of(
    verified: Verified, attempts: tuple[Attempt, ...], finding: Finding, candidate: Candidate
) -> Recommendation:
    """The choice with all that is known of it; its error is simulated too."""
    choice, game, question = verified.choice, verified.game, candidate.question
    reports = max(1, round(candidate.reports))
    measured = measure_utility(
        game.mechanism, candidate.popularity, reports, curator_key(verified.seed, 1 << 32), candidate.players.engine.map
    )
    errors = candidate.errors(choice.epsilon)
    served = question.error is None or (errors is not None and errors.rmse <= question.error)
    by_then = min(question.reports, choice.cap)
    return Recommendation(
        mechanism=choice.kind,
        epsilon=choice.epsilon,
        cap=choice.cap,
        epsilon_in_time=epsilon_of(game),
        meets=bool(served and attempts[-1].kept and choice.cap >= question.reports),
        binds=finding.binds,
        users=len(verified.users),
        exposed=verified.exposures.share(by_then),
        exposed_at_cap=verified.exposures.share(choice.cap),
        precision=verified.record.precision,
        baseline=verified.record.baseline,
        most_right=verified.record.most_right,
        reports=reports,
        errors=errors,
        measured=None if measured is None else Errors(rmse=float(np.sqrt(measured.mse)), mae=measured.mae),
        shuffled=None if question.devices is None else shuffled_epsilon_of(game.mechanism, question.devices, DELTA),
        shuffled_total=_shuffled_total(game, question.devices),
        attempts=attempts,
    )


def _shuffled_total(game: Game, devices: int | None) -> float | None:
    """Central epsilon of all reports up to the cap, a shuffled round each; memoized responses do not compose."""
    cap = game.sending.cap
    if devices is None or cap is None or kept_by(game.device) is not None:
        return None
    return shuffled_epsilon_of(game.mechanism, devices, DELTA, rounds=cap)


def recommended_scenario(scenario: Scenario, choice: Choice, question: Question) -> Scenario:
    """The scenario with mechanism, epsilon and cap set, which `audit` plays as it is."""
    (variant,) = variants(scenario, [choice.kind], [choice.epsilon])
    attack: dict[str, Any] = tomllib.loads(scenario.text)["attack"]
    counts = sorted({n for n in (*attack["observations"], question.reports) if n <= max(choice.cap, question.reports)})
    changes = {
        "devices.cap": capped(choice, scenario),
        "attack.observations": counts,
        "attack.threshold": question.confidence,
    }
    return changed(variant, changes, name=scenario.name)
