"""Recommend a mechanism, an epsilon and a cap that meet an exposure and a utility target."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from tempfile import gettempdir

import numpy as np

from poolscope.core.arguments import checked
from poolscope.core.errors import InputError
from poolscope.core.executors import EngineLike, as_engine
from poolscope.core.files import check_new
from poolscope.core.progress import SILENT, Progress
from poolscope.core.randomness import curator_key
from poolscope.game.game import Game
from poolscope.metrics.bounds import epsilon_of, memoized_by
from poolscope.metrics.provenance import combined, provenance_of
from poolscope.metrics.shuffling import shuffle_epsilon_of_mechanism
from poolscope.reports.utility import measure_utility
from poolscope.scenario.build import build_device, build_mechanism
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.advise.candidates import Candidate, candidates_of, with_simulator
from poolscope.workflows.advise.question import Question, question_of
from poolscope.workflows.advise.records import Advice, Alternative, Attempt, Finding, Recommendation
from poolscope.workflows.advise.refine import Deployment, Refinement, Verified, cap_in_reports, start_refinement, verify
from poolscope.workflows.advise.search import NO, YES, Errors, Trial, combine_verdicts
from poolscope.workflows.advise.simulation import simulator_of, with_budgets
from poolscope.workflows.advise.text import (
    assumptions_of,
    budget_notes,
    notes_of,
    reason_of,
    relaxations_of,
    sentence_of,
)
from poolscope.workflows.advise.variants import mitigations as mitigation_records
from poolscope.workflows.advise.variants import sensitivity
from poolscope.workflows.audit.run_folder import input_files
from poolscope.workflows.compare import variants

#: First epsilon of the search where no error target sets it.
START = 2.0

#: The delta of the epsilon of shuffled reports.
DELTA = 1e-6

#: Relative difference up to which caps, errors and epsilons count as equal.
MARGIN = 0.1

#: The criterion of the recommended mechanism, which comes first.
RECOMMENDED = "recommended"

#: What each alternative is best in: the number that is smallest.
CRITERIA: Mapping[str, Callable[[Alternative], float]] = {
    "lowest epsilon per report": lambda one: one.epsilon,
    "lowest total epsilon": lambda one: one.total_epsilon,
    "least exposure": lambda one: one.exposed.value,
    "best utility": lambda one: float("inf") if one.rmse is None else one.rmse,
}

#: Relative difference by which an alternative must be better than the recommended mechanism.
EQUAL = 0.01


@checked
def advise(
    scenario: Scenario,
    *,
    max_exposed: float,
    threshold: float | None = None,
    horizon: int | None = None,
    days: float | None = None,
    max_error: float | None = None,
    devices: int | None = None,
    mechanisms: Sequence[str] | None = None,
    adversary: str | None = None,
    epsilon: tuple[float, float] | None = None,
    users: int | None = None,
    tolerance: float | None = None,
    mitigations: bool = False,
    seed: int = 0,
    engine: EngineLike | None = None,
    out: str | PathLike[str] | None = None,
    progress: Progress = SILENT,
) -> Advice:
    """Advise without an HTML report: parameters are those of `poolscope.advise`."""
    engine, target = as_engine(engine), None if out is None else Path(out)
    started = time.perf_counter()
    if target is not None:
        check_new(target)
    question = question_of(
        scenario,
        max_exposed=max_exposed,
        threshold=threshold,
        horizon=horizon,
        days=days,
        max_error=max_error,
        devices=devices,
        mechanisms=mechanisms,
        adversary=adversary,
        epsilon=epsilon,
        users=users,
        tolerance=tolerance,
    )
    simulator = simulator_of(scenario, question, seed, engine, progress)
    # what the error target rules out is neither timed nor simulated
    candidates = candidates_of(simulator, target.absolute().parent if target else Path(gettempdir()))
    simulator = with_budgets(simulator, users, [candidate.kind for candidate in candidates if not candidate.infeasible])
    candidates, question = with_simulator(candidates, simulator), simulator.question
    findings: dict[str, Finding] = {}
    start = START
    for candidate in candidates:
        findings[candidate.kind] = finding = candidate.finding(start)
        start = finding.epsilon_max.value if finding.epsilon_max else start
    by_kind = {candidate.kind: candidate for candidate in candidates}
    horizon = min(simulator.horizon(finding.mechanism) for finding in findings.values() if finding.trials)
    refinements: dict[str, Refinement] = {}
    # a mechanism that leads with few users may not lead with many
    while (leaders := leaders_of(list(findings.values()), question, horizon))[0].mechanism not in refinements:
        kind = leaders[0].mechanism
        refinements[kind] = start_refinement(by_kind[kind], leaders[0])
        findings[kind] = refinements[kind].finding()
    own = by_kind[leaders[0].mechanism]
    verified, attempts = verify(refinements[own.kind], simulator)
    findings[own.kind] = leaders[0] = refinements[own.kind].finding()
    every = list(findings.values())
    alternatives = tuple(alternatives_of(every, verified.choice, by_kind))
    reason = reason_of(leaders, every, alternatives, question, horizon)
    recommendation = recommendation_of(verified, attempts, leaders[0], own, reason)
    phrase = verified.game.adversaries[0].phrase
    done = Advice(
        scenario=scenario,
        question=question,
        seed=seed,
        horizon=horizon,
        findings=tuple(every),
        recommendation=recommendation,
        recommended=recommended_scenario(scenario, verified.choice, question),
        alternatives=alternatives,
        sentence=sentence_of(recommendation, question, scenario),
        relaxations=tuple(relaxations_of(every, question, scenario)),
        notes=(
            *budget_notes(simulator.budgets, question),
            *notes_of(every, recommendation, question, verified.limit),
        ),
        curve=tuple(verified.exposures.share(int(n)) for n in np.arange(verified.choice.cap + 1)),
        sensitivity=tuple(sensitivity(verified, simulator)),
        mitigations=tuple(mitigation_records(verified.choice, by_kind)) if mitigations else (),
        assumptions=tuple(assumptions_of(question, scenario, verified.game)),
        adversary=phrase,
        seconds=time.perf_counter() - started,
        asked_users=users,
        provenance=provenance_of(
            seed=seed, users=question.users, inputs=input_files(scenario), outcomes=combined(simulator.digests)
        ),
    )
    if target is not None:
        done.write(target)
    return done


def leaders_of(findings: Sequence[Finding], question: Question, horizon: int) -> list[Finding]:
    """Return the mechanisms that are about as good as the best, the recommended one first.

    With an error target, those with the largest cap at the smallest epsilon that meets it; where caps reach the
    horizon, those that expose the fewest users. Without one, those whose error is smallest at the largest epsilon that
    meets the exposure target. Among these, the lowest epsilon per report comes first; among about equal epsilons, the
    mechanism that was named first. Only large differences decide, so that chance does not.
    """
    feasible = [finding for finding in findings if finding.feasible != NO]
    if question.max_error is None:
        known = [finding for finding in feasible if finding.rmse_at_epsilon_max is not None] or feasible
        known = [finding for finding in known if finding.epsilon_max is not None]
        if not known:
            least = min(finding.trials[0].exposed.value for finding in findings)
            rule = f"no mechanism exposes at most {question.max_exposed:g} of the users by {question.horizon:,} events"
            remedy = f"the smallest share was {least:.2g}: use a smaller LOW of `epsilon` or a smaller `horizon`"
            raise InputError(rule, remedy=remedy)
        error = min(finding.rmse_at_epsilon_max or 0.0 for finding in known)
        ties = [finding for finding in known if (finding.rmse_at_epsilon_max or 0.0) <= (1 + MARGIN) * error]
        return _by_epsilon(ties)
    # at least one mechanism meets the error target
    meeting = [finding for finding in feasible or findings if finding.at_epsilon_min is not None]
    most = max(_cap(finding) for finding in meeting)
    ties = [finding for finding in meeting if _cap(finding) >= (1 - MARGIN) * most]
    if most >= horizon:
        fewest = min(finding.at_epsilon_min.exposed.high for finding in ties if finding.at_epsilon_min)
        ties = [finding for finding in ties if finding.at_epsilon_min and finding.at_epsilon_min.exposed.low <= fewest]
    return _by_epsilon(ties)


def _cap(finding: Finding) -> float:
    """Return the cap at the smallest epsilon."""
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
    """Return the record of the recommendation, with its empirical error."""
    choice, game, question = verified.choice, verified.game, candidate.question
    reports = max(1, round(candidate.reports))
    measured = measure_utility(
        game.mechanism,
        candidate.popularity,
        reports,
        curator_key(verified.seed, 1 << 32),
        candidate.simulator.engine.map,
    )
    errors = candidate.errors(choice.epsilon)
    meets_error = question.max_error is None or (errors is not None and errors.rmse <= question.max_error)
    by_then = min(question.horizon, choice.cap)
    reaches_horizon = choice.cap >= question.horizon
    return Recommendation(
        mechanism=choice.kind,
        epsilon=choice.epsilon,
        cap=choice.cap,
        cumulative_epsilon=epsilon_of(game),
        meets_targets=combine_verdicts(attempts[-1].meets_targets, YES if meets_error and reaches_horizon else NO),
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
        else shuffle_epsilon_of_mechanism(game.mechanism, question.devices, DELTA),
        shuffle_epsilon_total=_shuffled_total(game, question.devices),
        by_pool=verified.by_pool,
        attempts=attempts,
    )


def _shuffled_total(game: Game, devices: int | None) -> float | None:
    """Return the central epsilon of all reports up to the cap, a shuffled round each; None for memoized responses."""
    cap = game.policy.cap
    if devices is None or cap is None or memoized_by(game.device) is not None:
        return None
    return shuffle_epsilon_of_mechanism(game.mechanism, devices, DELTA, rounds=cap)


def recommended_scenario(scenario: Scenario, choice: Deployment, question: Question) -> Scenario:
    """Return the scenario with mechanism, epsilon and cap set, ready for `audit`."""
    (variant,) = variants(scenario, [choice.kind], [choice.epsilon])
    assert scenario.attack is not None
    asked = (*scenario.attack.observations, question.horizon)
    counts = sorted({n for n in asked if n <= max(choice.cap, question.horizon)})
    changes = {
        "devices.cap": cap_in_reports(choice, scenario),
        "attack.observations": counts,
        "attack.threshold": question.threshold,
    }
    return variant.replace(changes)


def alternatives_of(
    findings: Sequence[Finding], choice: Deployment, candidates: Mapping[str, Candidate]
) -> Iterator[Alternative]:
    """Yield the recommended mechanism, then the best in each criterion, which it is itself where it ties."""
    played = {one.mechanism: one for one in findings if one.trials}
    own = alternative_of(played[choice.kind], candidates[choice.kind], choice)
    yield own
    possible = [one for one in played.values() if one.feasible != NO] or list(played.values())
    rows = [alternative_of(finding, candidates[finding.mechanism], choice) for finding in possible]
    for criterion, price in CRITERIA.items():
        best = min(rows, key=price)
        yield replace(own if _equal(own, best, criterion, price) else best, criterion=criterion)


def alternative_of(finding: Finding, candidate: Candidate, choice: Deployment) -> Alternative:
    """Return a mechanism at the epsilon that it would be recommended at, by the horizon and without a cap."""
    question, trial = candidate.question, _trial(finding, candidate.question, choice)
    variant = candidate.simulator.variant(candidate.kind, trial.epsilon)
    memoized = memoized_by(build_device(variant, build_mechanism(variant, variant.universe())))
    reports = question.horizon * variant.devices.sampling_rate
    return Alternative(
        criterion=RECOMMENDED,
        mechanism=finding.mechanism,
        epsilon=trial.epsilon,
        total_epsilon=trial.epsilon * reports if memoized is None else memoized.spent(reports),
        users=trial.users,
        exposed=trial.exposed,
        cap=trial.cap,
        rmse=trial.error,
        meets_targets=finding.feasible,
    )


def _trial(finding: Finding, question: Question, choice: Deployment) -> Trial:
    """Return the trial at the smallest epsilon that meets the error, else at the largest that exposes few enough."""
    if finding.at_epsilon_min is not None:
        return finding.at_epsilon_min
    if finding.mechanism == choice.kind:
        return min(finding.trials, key=lambda trial: abs(trial.epsilon - choice.epsilon))
    few = [trial for trial in finding.trials if trial.exposed.value <= question.max_exposed]
    return few[-1] if few else finding.trials[0]


def _equal(own: Alternative, best: Alternative, criterion: str, price: Callable[[Alternative], float]) -> bool:
    """Return whether the recommended mechanism ties with the best."""
    if criterion == "least exposure":
        return own.exposed.low <= best.exposed.high
    return price(own) <= (1 + EQUAL) * price(best)
