"""The table of options: every candidate as it would be deployed, played by the same held-out users."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from poolscope.game.blocks import users_to_play
from poolscope.metrics.bounds import cumulative_epsilon, memoized_by
from poolscope.metrics.intervals import Estimate
from poolscope.scenario.build import build_device, build_game, build_mechanism, build_policy
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.advise.candidates import Candidate, n_search_users
from poolscope.workflows.advise.choice import EQUAL, Standing
from poolscope.workflows.advise.prices import describe_price
from poolscope.workflows.advise.question import (
    CAP,
    FEWEST_REPORTS,
    LOWEST_EPSILON,
    LOWEST_TOTAL,
    MIN_EXPOSURE,
    UTILITY,
    Question,
)
from poolscope.workflows.advise.records import Advice, Alternative, Finding, Option
from poolscope.workflows.advise.refine import MAX_ATTEMPTS, Deployment, cap_in_reports
from poolscope.workflows.advise.search import (
    NO,
    UNDECIDED,
    YES,
    Trial,
    bracket,
    combine_verdicts,
    crossing,
    rounded_down,
    target_with_margin,
    verdict,
)
from poolscope.workflows.advise.setups import deployed, describe_parameters, order_of, split_name
from poolscope.workflows.advise.simulation import exposures_of, largest_count, reduced_scenario

#: Users of each option at most.
MAX_OPTION_USERS = 2000

#: The criterion of the recommended mechanism among the alternatives, which comes first.
RECOMMENDED = "recommended"

#: What each alternative is best in: the number that is smallest.
BEST_IN: Mapping[str, Callable[[Alternative], float]] = {
    "lowest epsilon per report": lambda one: one.epsilon,
    "lowest total epsilon": lambda one: one.total_epsilon,
    "least exposure": lambda one: one.exposed.value,
    "best utility": lambda one: math.inf if one.rmse is None else one.rmse,
}

#: What each preference sorts options by: the number that is smallest.
SORTED_BY: Mapping[str, Callable[[Option], float]] = {
    UTILITY: lambda one: math.inf if one.rmse is None else one.rmse,
    LOWEST_EPSILON: lambda one: one.epsilon,
    LOWEST_TOTAL: lambda one: one.total_epsilon,
    MIN_EXPOSURE: lambda one: one.exposed.value,
    FEWEST_REPORTS: lambda one: one.reports,
}


def standing_of(candidate: Candidate, finding: Finding) -> Standing | None:
    """Return what a search knows of a candidate at the ε that it would be recommended at; None without one."""
    question = candidate.question
    if question.fixes_epsilon:
        if finding.at_epsilon_min is None or finding.epsilon_min is None:
            return None
        epsilon = _exactly(finding.epsilon_min)
        cap, exposed = finding.at_epsilon_min.cap, finding.at_epsilon_min.exposed
    else:
        if finding.epsilon_max is None:
            return None
        epsilon = finding.epsilon_max
        near = min(finding.trials, key=lambda trial: abs(trial.epsilon - epsilon.value))
        cap, exposed = _exactly(float(candidate.simulator.horizon(candidate.kind))), near.exposed
    value, low, high = (candidate.errors(one) for one in epsilon)
    return Standing(
        name=finding.name,
        order=order_of(finding.name, candidate.simulator.scenario.mechanism.kind),
        feasible=finding.feasible,
        epsilon=epsilon,
        total_epsilon=Estimate(*(total_epsilon(candidate, one) for one in epsilon)),
        reports=reports_by_horizon(candidate),
        cap=cap,
        exposed=exposed,
        # the error falls as epsilon grows
        rmse=Estimate(*(math.nan if one is None else one.rmse for one in (value, high, low))),
    )


def reports_by_horizon(candidate: Candidate) -> float:
    """Return the reports of a device by the horizon of the question, on average."""
    question = candidate.question
    policy = build_policy(candidate.simulator.deployed(candidate.kind, question.highest))
    return policy.mean_reports(question.horizon)


def total_epsilon(candidate: Candidate, epsilon: float, reports: float | None = None) -> float:
    """Return the total ε by the horizon; of memoized responses, the longitudinal one."""
    variant = candidate.simulator.deployed(candidate.kind, epsilon)
    memoized = memoized_by(build_device(variant, build_mechanism(variant, variant.universe())))
    reports = reports_by_horizon(candidate) if reports is None else reports
    return epsilon * reports if memoized is None else memoized.spent(reports)


def _exactly(value: float) -> Estimate:
    return Estimate(value, value, value)


def options_of(
    findings: Sequence[Finding], choice: Deployment, candidates: Mapping[str, Candidate], equal: Sequence[str]
) -> tuple[Option, ...]:
    """Play every candidate that was searched as it would be deployed, and sort them by the preference.

    The recommended one has the ε and cap that were verified; `equal` are the names of those about as good.
    """
    rows = []
    for finding in findings:
        if not finding.trials:
            continue
        candidate = candidates[finding.name]
        plan = choice if finding.name == choice.kind else plan_of(candidate, finding)
        row = option_of(candidate, plan)
        rows.append(replace(row, recommended=finding.name == choice.kind, equally_good=finding.name in equal))
    own = next(row for row in rows if row.recommended)
    rows = [
        replace(row, price="" if row.recommended else describe_price(row, own)) for row in mark_pareto_optimal(rows)
    ]
    criterion = SORTED_BY[candidates[choice.kind].question.prefer]
    rank = {YES: 0, UNDECIDED: 1, NO: 2}
    mechanism = candidates[choice.kind].simulator.scenario.mechanism.kind

    def key(row: Option) -> tuple[bool, int, float, tuple[int, str]]:
        return not row.recommended, rank[row.meets_targets], criterion(row), order_of(row.name, mechanism)

    return tuple(sorted(rows, key=key))


def plan_of(candidate: Candidate, finding: Finding) -> Deployment:
    """Return the deployment of a candidate that is not recommended, at a share that held-out users can confirm."""
    question = candidate.question
    users = min(MAX_OPTION_USERS, candidate.max_users)
    searched = max(trial.users / trial.design_effect for trial in finding.trials)
    aim = target_with_margin(question.max_exposed, searched, users)
    if question.fixes_epsilon:
        assert finding.at_epsilon_min is not None
        played = candidate.played(finding.at_epsilon_min.epsilon, 1)
        shares = played.counts() / played.users
        cap = largest_count(shares, aim)
        if cap < question.horizon <= largest_count(shares, question.max_exposed):
            cap = question.horizon
        return Deployment(candidate.kind, finding.at_epsilon_min.epsilon, max(1, cap))
    low, high = question.lowest, question.highest
    few = [trial.epsilon for trial in finding.trials if trial.exposed.value <= aim]
    many = [
        trial.epsilon for trial in finding.trials if trial.exposed.value > aim and trial.epsilon > max(few, default=0)
    ]
    if not few or not many:
        return Deployment(candidate.kind, max(few, default=low), question.horizon)
    below, above = bracket(finding.trials, aim, low, high)
    near = (max(few), min(many)) if below <= max(few) and min(many) <= above else (below, above)
    epsilon = crossing(finding.trials, aim, *near)
    return Deployment(candidate.kind, rounded_down(epsilon), question.horizon)


def option_of(candidate: Candidate, plan: Deployment) -> Option:
    """Play a deployment with held-out users who verify no recommendation."""
    simulator, question = candidate.simulator, candidate.question
    simulator.progress.stage(f"Playing the option {plan.kind} at epsilon {plan.epsilon:.3g}")
    variant = simulator.deployed(plan.kind, plan.epsilon)
    cap = cap_in_reports(plan, variant)
    counts = simulator.observation_counts(plan.kind, question.horizon, variant.memoizes)
    seed = simulator.seed + 1 + MAX_ATTEMPTS
    limited = variant.replace({"devices.cap": cap, "attack.observations": counts})
    game = build_game(limited, seed, simulator.engine.map)
    recorded, most = users_to_play(game, None), min(MAX_OPTION_USERS, simulator.max_users(plan.kind))
    users = range(most) if recorded is None else range(n_search_users(recorded, most), recorded)
    found = exposures_of(simulator.outcomes(game, users, seed), game.adversaries[0], game)
    exposed, errors = found.share(question.horizon), candidate.errors(plan.epsilon)
    meets_error = question.max_error is None or (errors is not None and errors.rmse <= question.max_error)
    mechanism, measure = split_name(plan.kind)
    reaches = plan.cap >= question.horizon or measure == CAP
    reports = game.policy.mean_reports(question.horizon)
    return Option(
        mechanism=mechanism,
        measure=measure,
        parameters=describe_parameters(variant, plan.kind),
        epsilon=plan.epsilon,
        cumulative_epsilon=cumulative_epsilon(plan.epsilon, game.policy, memoized=memoized_by(game.device)),
        total_epsilon=total_epsilon(candidate, plan.epsilon, reports),
        reports=reports,
        cap=cap,
        users=len(users),
        seed=seed,
        observations=tuple(counts),
        exposed=exposed,
        rmse=None if errors is None else errors.rmse,
        meets_targets=combine_verdicts(verdict(exposed, question.max_exposed), YES if meets_error and reaches else NO),
    )


def option_scenario(advice: Advice, option: Option) -> Scenario:
    """Return the scenario of an option: an audit of its users and seed gives the same numbers, unless recorded."""
    question = advice.question
    reduced = reduced_scenario(advice.scenario, question, option.observations)
    return deployed(reduced, option.name, option.epsilon, question.horizon).replace({"devices.cap": option.cap})


def mark_pareto_optimal(options: Sequence[Option]) -> Iterator[Option]:
    """Yield the options, each with whether it is Pareto-optimal among those that may meet the targets, else all."""
    rivals = [one for one in options if one.meets_targets != NO] or options
    for one in options:
        mine = _costs(one)
        beaten = any(_beats(_costs(other), mine) for other in rivals)
        yield replace(one, pareto_optimal=one in rivals and not beaten)


def _costs(one: Option) -> tuple[float, ...]:
    """Return what an option costs, to two digits, so that noise and rounding decide nothing."""
    rmse = math.inf if one.rmse is None else one.rmse
    values = one.epsilon, one.total_epsilon, one.exposed.value, rmse, one.reports
    return tuple(float(f"{value:.2g}") for value in values)


def _beats(one: Sequence[float], other: Sequence[float]) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True)) and one != other


def alternatives_of(
    findings: Sequence[Finding], choice: Deployment, candidates: Mapping[str, Candidate]
) -> Iterator[Alternative]:
    """Yield the recommended mechanism, then the best in each criterion, which it is itself where it ties."""
    played = {one.name: one for one in findings if one.trials}
    own = alternative_of(played[choice.kind], candidates[choice.kind], choice)
    yield own
    possible = [one for one in played.values() if one.feasible != NO] or list(played.values())
    rows = [alternative_of(finding, candidates[finding.name], choice) for finding in possible]
    for criterion, price in BEST_IN.items():
        best = min(rows, key=price)
        yield replace(own if _equal(own, best, criterion, price) else best, criterion=criterion)


def alternative_of(finding: Finding, candidate: Candidate, choice: Deployment) -> Alternative:
    """Return a mechanism at the ε that it would be recommended at, by the horizon and without a cap."""
    trial = _trial(finding, candidate.question, choice)
    return Alternative(
        criterion=RECOMMENDED,
        mechanism=finding.mechanism,
        measure=finding.measure,
        epsilon=trial.epsilon,
        total_epsilon=total_epsilon(candidate, trial.epsilon),
        users=trial.users,
        exposed=trial.exposed,
        cap=trial.cap,
        rmse=trial.error,
        meets_targets=finding.feasible,
    )


def _trial(finding: Finding, question: Question, choice: Deployment) -> Trial:
    """Return the trial at the smallest ε that meets the error, else at the largest that exposes few enough."""
    if finding.at_epsilon_min is not None and question.fixes_epsilon:
        return finding.at_epsilon_min
    if finding.name == choice.kind:
        return min(finding.trials, key=lambda trial: abs(trial.epsilon - choice.epsilon))
    few = [trial for trial in finding.trials if trial.exposed.value <= question.max_exposed]
    return few[-1] if few else finding.trials[0]


def _equal(own: Alternative, best: Alternative, criterion: str, price: Callable[[Alternative], float]) -> bool:
    """Return whether the recommended mechanism ties with the best."""
    if criterion == "least exposure":
        return own.exposed.low <= best.exposed.high
    return price(own) <= (1 + EQUAL) * price(best)
