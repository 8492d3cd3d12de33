"""Recommend a mechanism, an ε and a cap that meet an exposure and a utility target."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
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
from poolscope.metrics.usefulness import Usefulness, usefulness
from poolscope.reports.utility import measure_utility
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.advise.candidates import Candidate, candidates_of, with_simulator
from poolscope.workflows.advise.choice import Standing, choose, equally_good
from poolscope.workflows.advise.options import alternatives_of, options_of, standing_of
from poolscope.workflows.advise.question import CAP, DEFAULT_REPORTS, EPSILON_RANGE, Budget, Question, question_of
from poolscope.workflows.advise.records import Advice, Attempt, Finding, Recommendation
from poolscope.workflows.advise.refine import (
    Deployment,
    MechanismRefinement,
    Verified,
    cap_in_reports,
    start_refinement,
    verify,
)
from poolscope.workflows.advise.search import NO, YES, Errors, combine_verdicts
from poolscope.workflows.advise.setups import deployed, expand_all, order_of, parameter_notes, split_name
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

#: First epsilon of the search where no error target sets it.
START = 2.0

#: The delta of the epsilon of shuffled reports.
DELTA = 1e-6


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
    prefer: str | None = None,
    consider: Sequence[str] | None = None,
    mitigations: bool = False,
    seed: int = 0,
    engine: EngineLike | None = None,
    out: str | PathLike[str] | None = None,
    progress: Progress = SILENT,
    budgets: Mapping[str, Budget] | None = None,
) -> Advice:
    """Advise without an HTML report: parameters are those of `poolscope.advise`, and `budgets` of an earlier advice."""
    engine, target = as_engine(engine), None if out is None else Path(out)
    started = time.perf_counter()
    if target is not None:
        check_new(target)
    mechanisms, left_out = expand_all(scenario, mechanisms, epsilon or EPSILON_RANGE, max_error is not None)
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
        prefer=prefer,
        consider=consider,
    )
    simulator = simulator_of(scenario, question, seed, engine, progress)
    # what the error target rules out is neither timed nor simulated
    candidates = candidates_of(simulator, target.absolute().parent if target else Path(gettempdir()))
    kinds = [candidate.kind for candidate in candidates if not candidate.infeasible]
    simulator = with_budgets(simulator, users, kinds, budgets or {})
    candidates, question = with_simulator(candidates, simulator), simulator.question
    findings: dict[str, Finding] = {}
    start = START
    # the order of names has no influence on what is played
    for candidate in sorted(candidates, key=lambda one: order_of(one.kind, scenario.mechanism.kind)):
        findings[candidate.kind] = finding = candidate.finding(start)
        start = finding.epsilon_max.value if finding.epsilon_max else start
    findings = {candidate.kind: findings[candidate.kind] for candidate in candidates}
    by_kind = {candidate.kind: candidate for candidate in candidates}
    horizon = min(simulator.horizon(finding.name) for finding in findings.values() if finding.trials)
    refinements: dict[str, MechanismRefinement] = {}
    # a mechanism that leads with few users may not lead with many
    while (leaders := leaders_of(findings, by_kind, horizon))[0] not in refinements:
        kind = leaders[0]
        refinements[kind] = start_refinement(by_kind[kind], findings[kind])
        findings[kind] = refinements[kind].finding()
    own = by_kind[leaders[0]]
    verified, attempts = verify(refinements[own.kind], simulator)
    findings[own.kind] = refinements[own.kind].finding()
    every = list(findings.values())
    equal = ties_of(findings, by_kind, own.kind, horizon)
    alternatives = tuple(alternatives_of(every, verified.choice, by_kind))
    ordered = sorted(every, key=lambda one: order_of(one.name, scenario.mechanism.kind))
    reason = reason_of([findings[name] for name in leaders], ordered, alternatives, question, horizon, equal)
    recommendation = replace(
        recommendation_of(verified, attempts, findings[own.kind], own, reason), equally_good=tuple(equal)
    )
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
        options=options_of(every, verified.choice, by_kind, equal),
        usefulness=usefulness_of(verified, own),
        sentence=sentence_of(recommendation, question, scenario),
        relaxations=tuple(relaxations_of(every, question, scenario)),
        notes=(
            *budget_notes(simulator.budgets, question),
            *notes_of(every, recommendation, question, verified.limit),
            *parameter_notes(scenario, question.mechanisms),
            *left_out,
        ),
        curve=tuple(verified.exposures.share(int(n)) for n in np.arange(verified.choice.cap + 1)),
        sensitivity=tuple(sensitivity(verified, simulator)),
        mitigations=tuple(mitigation_records(verified.choice, by_kind)) if mitigations else (),
        assumptions=tuple(assumptions_of(question, scenario, verified.game)),
        adversary=phrase,
        seconds=time.perf_counter() - started,
        asked_users=users,
        budgets=dict(simulator.budgets),
        provenance=provenance_of(
            seed=seed, users=question.users, inputs=input_files(scenario), outcomes=combined(simulator.digests)
        ),
    )
    if target is not None:
        done.write(target)
    return done


def leaders_of(findings: Mapping[str, Finding], candidates: Mapping[str, Candidate], horizon: int) -> list[str]:
    """Return the names of the options that are about as good as the best, the recommended one first."""
    question = next(iter(candidates.values())).question
    standings = _standings(findings, candidates)
    if not standings:
        least = min(finding.trials[0].exposed.value for finding in findings.values() if finding.trials)
        rule = f"no mechanism exposes at most {question.max_exposed:g} of the users by {question.horizon:,} events"
        remedy = f"the smallest share was {least:.2g}: use a smaller LOW of `epsilon` or a smaller `horizon`"
        raise InputError(rule, remedy=remedy)
    return [one.name for one in choose(standings, question.prefer, horizon, fixed=question.fixes_epsilon)]


def ties_of(
    findings: Mapping[str, Finding], candidates: Mapping[str, Candidate], chosen: str, horizon: int
) -> list[str]:
    """Return the names of options that are equally good as the recommended one."""
    question, standings = candidates[chosen].question, _standings(findings, candidates)
    own = next(one for one in standings if one.name == chosen)
    return equally_good(standings, own, question.prefer, horizon, fixed=question.fixes_epsilon)


def _standings(findings: Mapping[str, Finding], candidates: Mapping[str, Candidate]) -> list[Standing]:
    found = (standing_of(candidates[name], finding) for name, finding in findings.items())
    return [standing for standing in found if standing is not None]


def recommendation_of(
    verified: Verified[Game], attempts: tuple[Attempt, ...], finding: Finding, candidate: Candidate, reason: str
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
    mechanism, measure = split_name(choice.kind)
    # a cap that is a measure is paid for by the error
    reaches_horizon = choice.cap >= question.horizon
    deployed_cap = min(choice.cap, game.policy.cap or choice.cap) if measure == CAP else choice.cap
    return Recommendation(
        mechanism=mechanism,
        measure=measure,
        epsilon=choice.epsilon,
        cap=deployed_cap,
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
    """Return the central ε of all reports up to the cap, a shuffled round each; None for memoized responses."""
    cap = game.policy.cap
    if devices is None or cap is None or memoized_by(game.device) is not None:
        return None
    return shuffle_epsilon_of_mechanism(game.mechanism, devices, DELTA, rounds=cap)


def usefulness_of(verified: Verified[Game], candidate: Candidate) -> Usefulness | None:
    """Return what can be seen in the frequencies of a verified deployment, in one collection and over time."""
    game, question = verified.game, candidate.question
    return usefulness(
        game.mechanism,
        game.universe,
        candidate.popularity,
        candidate.reports,
        policy=game.policy,
        memoizes=game.device.memoizes,
        devices=question.devices or DEFAULT_REPORTS,
        horizon=question.horizon,
    )


def recommended_scenario(scenario: Scenario, choice: Deployment, question: Question) -> Scenario:
    """Return the scenario with mechanism, ε and cap set, ready for `audit`."""
    variant = deployed(scenario, choice.kind, choice.epsilon, question.horizon)
    assert scenario.attack is not None
    asked = (*scenario.attack.observations, question.horizon)
    counts = sorted({n for n in asked if n <= max(choice.cap, question.horizon)})
    changes = {
        "devices.cap": cap_in_reports(choice, variant),
        "attack.observations": counts,
        "attack.threshold": question.threshold,
    }
    return variant.replace(changes)
