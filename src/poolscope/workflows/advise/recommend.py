"""Choose the mechanism to recommend, say why, and list the alternatives with their price."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from poolscope.core.errors import InputError
from poolscope.core.randomness import curator_key
from poolscope.game.game import Game
from poolscope.metrics.bounds import epsilon_of, memoized_by
from poolscope.metrics.shuffling import shuffled_epsilon_of
from poolscope.reports.utility import measure_utility
from poolscope.scenario.build import build_device, build_mechanism
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.advise.accuracy import Errors
from poolscope.workflows.advise.findings import Candidate
from poolscope.workflows.advise.question import Question
from poolscope.workflows.advise.records import Alternative, Attempt, Finding, Recommendation
from poolscope.workflows.advise.refine import Configuration, Verified, capped
from poolscope.workflows.advise.search import NO, YES, Trial, all_of
from poolscope.workflows.advise.text import number, share
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
    fitting = [finding for finding in findings if finding.feasible != NO]
    if question.max_error is None:
        known = [finding for finding in fitting if finding.rmse_at_epsilon_max is not None] or fitting
        known = [finding for finding in known if finding.epsilon_max is not None]
        if not known:
            least = min(finding.trials[0].exposed.value for finding in findings)
            rule = f"no mechanism exposes as few users as {question.max_exposed:g} by {question.horizon:,} events"
            remedy = f"the least was {least:.2g}: let `epsilon` begin lower, or ask for a smaller `horizon`"
            raise InputError(rule, remedy=remedy)
        error = min(finding.rmse_at_epsilon_max or 0.0 for finding in known)
        tied = [finding for finding in known if (finding.rmse_at_epsilon_max or 0.0) <= (1 + MARGIN) * error]
        return _by_epsilon(tied)
    # something is played, as not all errors are refused
    serving = [finding for finding in fitting or findings if finding.at_epsilon_min is not None]
    most = max(_cap(finding) for finding in serving)
    tied = [finding for finding in serving if _cap(finding) >= (1 - MARGIN) * most]
    if most >= horizon:
        fewest = min(finding.at_epsilon_min.exposed.high for finding in tied if finding.at_epsilon_min)
        tied = [finding for finding in tied if finding.at_epsilon_min and finding.at_epsilon_min.exposed.low <= fewest]
    return _by_epsilon(tied)


def _cap(finding: Finding) -> float:
    assert finding.at_epsilon_min is not None
    return finding.at_epsilon_min.cap.value


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
    served = question.max_error is None or (errors is not None and errors.rmse <= question.max_error)
    by_then = min(question.horizon, choice.cap)
    long_enough = choice.cap >= question.horizon
    return Recommendation(
        mechanism=choice.kind,
        epsilon=choice.epsilon,
        cap=choice.cap,
        cumulative_epsilon=epsilon_of(game),
        meets_targets=all_of(attempts[-1].meets_targets, YES if served and long_enough else NO),
        limiting_constraint=finding.limiting_constraint,
        reason=reason,
        users=len(verified.users),
        exposed=verified.exposures.share(by_then),
        exposed_at_cap=verified.exposures.share(choice.cap),
        precision=verified.record.precision,
        baseline=verified.record.baseline,
        success_bound=verified.record.success_bound,
        reports=reports,
        errors=errors,
        empirical_errors=None if measured is None else Errors(rmse=float(np.sqrt(measured.mse)), mae=measured.mae),
        shuffle_epsilon=None
        if question.devices is None
        else shuffled_epsilon_of(game.mechanism, question.devices, DELTA),
        shuffle_epsilon_total=_shuffled_total(game, question.devices),
        by_pool=verified.by_pool,
        attempts=attempts,
    )


def _shuffled_total(game: Game, devices: int | None) -> float | None:
    """Central epsilon of all reports up to the cap, a shuffled round each; memoized responses do not compose."""
    cap = game.policy.cap
    if devices is None or cap is None or memoized_by(game.device) is not None:
        return None
    return shuffled_epsilon_of(game.mechanism, devices, DELTA, rounds=cap)


def recommended_scenario(scenario: Scenario, choice: Configuration, question: Question) -> Scenario:
    """The scenario with mechanism, epsilon and cap set, which `audit` plays as it is."""
    (variant,) = variants(scenario, [choice.kind], [choice.epsilon])
    assert scenario.attack is not None
    asked = (*scenario.attack.observations, question.horizon)
    counts = sorted({n for n in asked if n <= max(choice.cap, question.horizon)})
    changes = {
        "devices.cap": capped(choice, scenario),
        "attack.observations": counts,
        "attack.threshold": question.threshold,
    }
    return variant.replace(changes)


#: The criterion of the recommended mechanism, which stands first.
RECOMMENDED = "recommended"

#: What alternatives are best in: the number that is smallest.
CRITERIA: Mapping[str, Callable[[Alternative], float]] = {
    "lowest epsilon per report": lambda one: one.epsilon,
    "lowest total epsilon": lambda one: one.total_epsilon,
    "least exposure": lambda one: one.exposed.value,
    "best utility": lambda one: float("inf") if one.rmse is None else one.rmse,
}

#: What is said in place of a list where the recommended mechanism is the best in every criterion.
NO_BETTER = (
    "No other mechanism that could be recommended has a lower epsilon, exposes fewer users or has a smaller error."
)

#: An alternative is not named for being better than the recommended mechanism by less than this part.
EQUAL = 0.01


def alternatives_of(
    findings: Sequence[Finding], choice: Configuration, candidates: Mapping[str, Candidate]
) -> Iterator[Alternative]:
    """Price the recommended mechanism, then the best in each criterion, which it is itself where it is as good."""
    played = {one.mechanism: one for one in findings if one.trials}
    own = priced(played[choice.kind], candidates[choice.kind], choice)
    yield own
    possible = [one for one in played.values() if one.feasible != NO] or list(played.values())
    rows = [priced(finding, candidates[finding.mechanism], choice) for finding in possible]
    for criterion, price in CRITERIA.items():
        best = min(rows, key=price)
        yield replace(own if _equal(own, best, criterion, price) else best, criterion=criterion)


def priced(finding: Finding, candidate: Candidate, choice: Configuration) -> Alternative:
    """A mechanism at the epsilon that it would be recommended at, by the asked number of events and without a cap."""
    question, trial = candidate.question, _trial(finding, candidate.question, choice)
    variant = candidate.players.variant(candidate.kind, trial.epsilon)
    kept = memoized_by(build_device(variant, build_mechanism(variant, variant.universe())))
    reports = question.horizon * variant.devices.sampling_rate
    return Alternative(
        criterion=RECOMMENDED,
        mechanism=finding.mechanism,
        epsilon=trial.epsilon,
        total_epsilon=trial.epsilon * reports if kept is None else kept.spent(reports),
        users=trial.users,
        exposed=trial.exposed,
        cap=trial.cap,
        rmse=trial.error,
        meets_targets=finding.feasible,
    )


def reason_of(
    leaders: Sequence[Finding],
    findings: Sequence[Finding],
    alternatives: Sequence[Alternative],
    question: Question,
    horizon: int,
) -> str:
    """Say why the first of the leaders is recommended, and what it costs."""
    parts = (
        _why(leaders, findings, question, horizon),
        price_of(alternatives, question),
        missed_by(leaders[0], findings),
    )
    return " ".join(filter(None, parts))


def best_in_all(alternatives: Sequence[Alternative]) -> bool:
    """Say whether the recommended mechanism is the best of those that fit in every criterion."""
    return len({one.mechanism for one in alternatives}) == 1


def _why(leaders: Sequence[Finding], findings: Sequence[Finding], question: Question, horizon: int) -> str:
    """Compare what the choice was made by; `leaders` are about as good, by the rule of `recommend.leaders_of`."""
    best, *tied = leaders
    name = best.mechanism
    others = [finding for finding in findings if finding.trials and finding.mechanism != name]
    if not others:
        return f"{name} is the only mechanism " + (
            "whose error can be small enough." if len(findings) > 1 else "that was tried."
        )
    if question.max_error is None:
        what, where = "the smallest error", "at the largest epsilon that exposes few enough"
        values = [
            (f.mechanism, number(f.rmse_at_epsilon_max)) for f in (best, *others) if f.rmse_at_epsilon_max is not None
        ]
    else:
        where, served = "at the smallest epsilon that meets the error", [f for f in (best, *others) if f.at_epsilon_min]
        trials = [(finding.mechanism, finding.at_epsilon_min) for finding in served if finding.at_epsilon_min]
        if trials[0][1].cap.value < horizon:
            what, values = "the largest cap", [(kind, f"{trial.cap.value:,.0f}") for kind, trial in trials]
        else:
            what, values = "the fewest users exposed", [(kind, share(trial.exposed.value)) for kind, trial in trials]
    listed = ", ".join(f"{kind} {value}" for kind, value in values)
    if not tied:
        return f"{name} has {what} {where} ({listed})."
    lowest = all(best.epsilon <= finding.epsilon for finding in tied)
    rule = "it has the lowest epsilon per report" if lowest else "it was named first, at about the same epsilon"
    names = " and ".join(finding.mechanism for finding in tied)
    return f"{name} has about {what} {where}, beside {names} ({listed}); of these {rule}."


def price_of(alternatives: Sequence[Alternative], question: Question) -> str | None:
    """Say what the recommended mechanism costs in epsilon, where another needs less."""
    own, lowest, *_ = alternatives
    if lowest.mechanism == own.mechanism:
        return None
    less = f"{number(lowest.epsilon)} and {total(lowest.total_epsilon)}"
    return (
        f"Its epsilon is not the lowest: {number(own.epsilon)} per report and {total(own.total_epsilon)} in total by "
        f"{question.horizon:,}, where {lowest.mechanism} takes {less}."
    )


def missed_by(best: Finding, findings: Sequence[Finding]) -> str | None:
    """Name the mechanism with the lowest epsilon of those that do not fit, where the best one, which does, needs more.

    It is no alternative for the asked number of events, but may be one for fewer.
    """
    lower = [one for one in findings if one.feasible == NO and one.at_epsilon_min and one.epsilon < best.epsilon]
    if best.feasible == NO or not lower:
        return None
    other = min(lower, key=lambda one: one.epsilon)
    assert other.at_epsilon_min is not None
    return (
        f"{other.mechanism} takes only {number(other.epsilon)} per report, but does not fit: it exposes few enough "
        f"users up to a cap of {other.at_epsilon_min.cap.value:,.0f}."
    )


def total(epsilon: float) -> str:
    """Write a total epsilon with all digits before the point."""
    return f"{epsilon:,.0f}" if epsilon >= 100 else number(epsilon)


def _trial(finding: Finding, question: Question, choice: Configuration) -> Trial:
    """The trial at the smallest epsilon that meets the error, or else at the largest that exposes few enough."""
    if finding.at_epsilon_min is not None:
        return finding.at_epsilon_min
    if finding.mechanism == choice.kind:
        return min(finding.trials, key=lambda trial: abs(trial.epsilon - choice.epsilon))
    few = [trial for trial in finding.trials if trial.exposed.value <= question.max_exposed]
    return few[-1] if few else finding.trials[0]


def _equal(own: Alternative, best: Alternative, criterion: str, price: Callable[[Alternative], float]) -> bool:
    if criterion == "least exposure":
        return own.exposed.low <= best.exposed.high
    return price(own) <= (1 + EQUAL) * price(best)
