"""Which mechanism is recommended, and all that is known of the choice."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import Any

import numpy as np

from poolscope.core.errors import InputError
from poolscope.core.randomness import curator_key
from poolscope.game.game import Game
from poolscope.metrics.bounds import epsilon_of, kept_by
from poolscope.metrics.shuffling import shuffled_epsilon_of
from poolscope.reports.utility import measure_utility
from poolscope.scenario.scenario import Scenario, changed
from poolscope.workflows.advise.advice import Attempt, Finding, Recommendation
from poolscope.workflows.advise.error import Errors
from poolscope.workflows.advise.findings import Candidate
from poolscope.workflows.advise.question import Question
from poolscope.workflows.advise.refine import Choice
from poolscope.workflows.advise.verdicts import NO, YES, all_of
from poolscope.workflows.advise.verify import Verified, capped
from poolscope.workflows.compare import variants

#: How often more may be revealed than the epsilon of shuffled reports says.
DELTA = 1e-6

#: Caps, errors and epsilons that differ by less than this part are taken for equal.
MARGIN = 0.1


def leaders_of(findings: Sequence[Finding], question: Question, horizon: int) -> list[Finding]:
    """The mechanisms that are about as good as the best, the recommended one first.

    With an error asked for, those with the largest cap at the smallest epsilon that meets it; of caps that are not
    known beyond the horizon, those that expose fewest users. Without, those whose error is smallest where they expose
    as many users as allowed. Of mechanisms about as good, the one with the lowest epsilon per report comes first; of
    epsilons about equal, the one that was named first. So chance decides nothing unless the differences are large.
    """
    fitting = [finding for finding in findings if finding.fits != NO]
    if question.error is None:
        known = [finding for finding in fitting if finding.error_at_largest is not None] or fitting
        known = [finding for finding in known if finding.largest is not None]
        if not known:
            least = min(finding.trials[0].exposed.value for finding in findings)
            rule = f"no mechanism exposes as few users as {question.exposed:g} by {question.reports:,} events"
            remedy = (
                f"the least was {least:.2g}: let `epsilon` begin lower, or ask for fewer `reports` or more `exposed`"
            )
            raise InputError(rule, remedy=remedy)
        error = min(finding.error_at_largest or 0.0 for finding in known)
        tied = [finding for finding in known if (finding.error_at_largest or 0.0) <= (1 + MARGIN) * error]
        return _by_epsilon(tied)
    # something is played, as not all errors are refused
    serving = [finding for finding in fitting or findings if finding.at_smallest is not None]
    most = max(_cap(finding) for finding in serving)
    tied = [finding for finding in serving if _cap(finding) >= (1 - MARGIN) * most]
    if most >= horizon:
        fewest = min(finding.at_smallest.exposed.high for finding in tied if finding.at_smallest)
        tied = [finding for finding in tied if finding.at_smallest and finding.at_smallest.exposed.low <= fewest]
    return _by_epsilon(tied)


def _cap(finding: Finding) -> float:
    assert finding.at_smallest is not None
    return finding.at_smallest.cap.value


def _by_epsilon(findings: Sequence[Finding]) -> list[Finding]:
    """Put the first of those with about the lowest epsilon first."""
    lowest = min(finding.epsilon for finding in findings)
    best = next(finding for finding in findings if finding.epsilon <= (1 + MARGIN) * lowest)
    return [best, *(finding for finding in findings if finding is not best)]


def recommendation_of(
    verified: Verified, attempts: tuple[Attempt, ...], finding: Finding, candidate: Candidate, reason: str
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
    long_enough = choice.cap >= question.reports
    return Recommendation(
        mechanism=choice.kind,
        epsilon=choice.epsilon,
        cap=choice.cap,
        epsilon_in_time=epsilon_of(game),
        meets=all_of(attempts[-1].kept, YES if served and long_enough else NO),
        binds=finding.binds,
        reason=reason,
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
        by_pool=verified.by_pool,
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
