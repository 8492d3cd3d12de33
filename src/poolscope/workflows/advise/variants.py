"""Simulate a recommendation under other assumptions (sensitivity analysis) and with mitigations of equal error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from poolscope.core.counting import counted
from poolscope.core.errors import InputError
from poolscope.game.game import Game
from poolscope.inference.adversary import Adversary
from poolscope.metrics.exposure import confident
from poolscope.metrics.precision import select
from poolscope.population.behavior import Behavior
from poolscope.population.priors import UNIFORM, Beta
from poolscope.scenario.build import build_behavior, build_game, other_pools
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.advise.candidates import Candidate
from poolscope.workflows.advise.question import Question
from poolscope.workflows.advise.records import Case, Mitigation
from poolscope.workflows.advise.refine import Deployment, Verified
from poolscope.workflows.advise.search import devices_needed, min_epsilon_for_error
from poolscope.workflows.advise.simulation import N_OBSERVATIONS, Exposures, Simulator, exposures_of, observation_counts

#: Users of each case at most.
MAX_CASE_USERS = 2000

#: Other populations, by the distribution of relevant interest.
POPULATIONS = {
    "uniform interest": UNIFORM,
    "Beta(1, 5) interest: hardly any heavy users": Beta(a=1.0, b=5.0),
    "Beta(5, 1) interest: hardly any others": Beta(a=5.0, b=1.0),
}

#: The adversary's prior of interest and polarization: its own, or the distribution of the users of a case.
PRIORS = AS_ASKED, MATCHED = "as asked", "matched"


def sensitivity(verified: Verified[Game], simulator: Simulator) -> Iterator[Case]:
    """Yield the recommendation under other assumptions; without its cap, so that the largest cap is known."""
    question, choice = simulator.question, verified.choice
    game, users = uncapped(verified, simulator), verified.users[:MAX_CASE_USERS]
    simulator.progress.stage("Sensitivity analysis")
    # an unreached cap changes nothing: reuse the verification
    again = list(game.observations) != list(verified.game.observations) or game.policy.sampling_rate < 1
    found = simulator.exposures(game, users, verified.seed) if again else verified.exposures.first_users(len(users))
    yield from by_behavior(found, game, question)
    if game.recorded is None and not simulator.is_slow(choice.kind):
        yield from _by_population(game, found, simulator, verified)
        yield from _by_knowledge(game, found, simulator, verified)
        for case, scenario in resized(simulator.scenario):
            variant = replace(simulator, scenario=scenario).variant(choice.kind, choice.epsilon)
            other = build_game(variant, verified.seed, simulator.engine.map)
            yield _case("pools", case, simulator.exposures(other, users, verified.seed), AS_ASKED, question)


def uncapped(verified: Verified[Game], simulator: Simulator) -> Game:
    """Return the game of a verified deployment without its cap, with the horizon of a trial."""
    kind, memoizes = verified.choice.kind, verified.game.device.memoizes
    counts = simulator.observation_counts(kind, simulator.horizon(kind), memoizes)
    return replace(verified.game, policy=replace(verified.game.policy, cap=None), observations=counts)


def by_behavior(found: Exposures, game: Game, question: Question) -> Iterator[Case]:
    """Group users by relevant interest and polarization, in thirds of their ranges."""
    k = game.adversaries[0].k
    polarized = found.delta > 1 / k + (1 - 1 / k) * 2 / 3
    groups = {
        "light: interest up to 1/3": found.gamma <= 1 / 3,
        "middle: from 1/3 to 2/3": (found.gamma > 1 / 3) & (found.gamma <= 2 / 3),
        "heavy: above 2/3": found.gamma > 2 / 3,
        "heavy and polarized: both upper thirds": (found.gamma > 2 / 3) & polarized,
    }
    yield _case("all", "all users", found, AS_ASKED, question)
    for case, some in groups.items():
        if some.any():
            yield _case("behavior", case, found.of(some), AS_ASKED, question)


def _by_population(game: Game, found: Exposures, simulator: Simulator, verified: Verified[Game]) -> Iterator[Case]:
    """Yield other populations, against the adversary as asked or one with a matched prior: the worse of the two."""
    (mine,), users = game.adversaries, verified.users[:MAX_CASE_USERS]
    for case, behavior in _populations(game, simulator.scenario).items():
        matched = _matched(mine, behavior)
        adversaries = [mine] if matched.belief == mine.belief else [mine, matched]
        if behavior == game.behavior and len(adversaries) == 1:
            exposures = [found]
        else:
            other = replace(game, behavior=behavior, adversaries=adversaries)
            outcomes = simulator.outcomes(other, users, verified.seed)
            exposures = [exposures_of(outcomes, adversary, other) for adversary in adversaries]
        cases = [_case("users", case, *both, simulator.question) for both in zip(exposures, PRIORS, strict=False)]
        yield max(cases, key=lambda one: one.exposed.value)


def _populations(game: Game, scenario: Scenario) -> dict[str, Behavior]:
    """Return other distributions of the users' behavior: usual ones, and those at the edge of what data allow."""
    usual = {case: replace(game.behavior, interest=interest) for case, interest in POPULATIONS.items()}
    edges = scenario.users.edges if scenario.users else {}
    fitted = {
        f"edge of the data: {name}": replace(
            build_behavior(table, game.universe, game.popularity), none=game.behavior.none
        )
        for name, table in edges.items()
    }
    return usual | fitted


def _matched(adversary: Adversary, behavior: Behavior) -> Adversary:
    """Return the adversary whose prior of interest and polarization is that of the users."""
    redraws = tuple(_matched(redraw, behavior) for redraw in adversary.redraws)
    belief = replace(adversary.belief, interest=behavior.interest, polarization=behavior.polarization)
    name = f"{adversary.name}, with a prior that matches the users"
    return replace(adversary, name=name, belief=belief, redraws=redraws)


def _by_knowledge(game: Game, found: Exposures, simulator: Simulator, verified: Verified[Game]) -> Iterator[Case]:
    """Yield adversaries who know the popularity exactly or not at all, with the same reports."""
    (mine,) = game.adversaries
    entry = simulator.scenario.adversaries[0]
    others: list[Adversary] = []
    if (matched := _matched(mine, game.behavior)).belief != mine.belief:
        others.append(matched)
    if entry.popularity != "true":
        others.append(replace(mine, name="knows the popularity exactly", popularity=game.popularity, redraws=()))
    if entry.popularity != "uniform":
        others.append(replace(Adversary.weak(mine.universe, mine.belief), name="knows nothing of the popularity"))
    users = verified.users[:MAX_CASE_USERS]
    yield _case("adversary", f"as asked ({mine.name})", found, AS_ASKED, simulator.question)
    outcomes = simulator.outcomes(replace(game, adversaries=others), users, verified.seed)
    for adversary in others:
        prior = MATCHED if adversary is matched else AS_ASKED
        yield _case("adversary", adversary.name, exposures_of(outcomes, adversary, game), prior, simulator.question)


def resized(scenario: Scenario) -> Iterator[tuple[str, Scenario]]:
    """Yield the scenario with pools of half and of double size, where pools are given by sizes."""
    table = scenario.universe_table
    if table.pools is None or table.size is None or "hash_table" in scenario.mechanism.parameters:
        return
    for word, factor in (("half", 0.5), ("double", 2.0)):
        pools = {name: max(1, round(factor * size)) for name, size in table.pools.items()}
        size = table.size + sum(pools.values()) - sum(table.pools.values())
        variant = scenario.replace({"universe.size": size, "universe.pools": pools})
        try:
            for entry in variant.adversaries:
                other_pools(entry, variant.universe())
        except InputError:
            continue  # an adversary whose own pools this universe lacks
        yield f"{word} the size", variant


def _case(about: str, case: str, found: Exposures, prior: str, question: Question) -> Case:
    """Return the record of a case."""
    return Case(
        about=about,
        variant=case,
        prior=prior,
        users=found.users,
        exposed=found.share(question.horizon),
        cap=found.cap(question.max_exposed),
    )


#: Users of each mitigation at most, and with memoization, which takes a hundred times as long.
MAX_MITIGATION_USERS, MAX_MEMOIZED_USERS = 2000, 100

#: Largest epsilon that may compensate for fewer reports.
MAX_EPSILON = 50.0


@dataclass(frozen=True, kw_only=True)
class MitigationPlan:
    """What devices do beside the mechanism, and the share of reports that remains."""

    label: str
    devices: Mapping[str, Any]
    left: float = 1.0
    cost: str = ""


def mitigation_plans(n: int) -> tuple[MitigationPlan, ...]:
    """Return mitigations for devices that report n events, each at two strengths where n is large enough."""
    limits = dict.fromkeys(max(1, round(n / part)) for part in (3, 6))
    unlinked = "pseudonyms must not be linkable by address, time or memoized response; frequencies are unaffected"
    return (
        *(
            MitigationPlan(label=f"cap of {counted(limit, 'report')}", devices={"cap": limit}, left=limit / n)
            for limit in limits
        ),
        MitigationPlan(label="a third of the events", devices={"sampling_rate": 1 / 3}, left=1 / 3),
        *(
            MitigationPlan(
                label=f"a new pseudonym after {counted(limit, 'report')}",
                devices={"rotate_after": limit},
                cost="as above" if number else unlinked,
            )
            for number, limit in enumerate(limits)
        ),
        MitigationPlan(
            label="memoization",
            devices={"memoize": True},
            cost="devices store a response for each object; noise repeats in every collection, so that errors do not "
            f"average out over time. Simulated with at most {MAX_MEMOIZED_USERS} users, {N_OBSERVATIONS} observations",
        ),
    )


def mitigations(choice: Deployment, candidates: Mapping[str, Candidate]) -> Iterator[Mitigation]:
    """Yield the benefit and cost of each mitigation, for the recommended mechanism and ε without a cap."""
    own = candidates[choice.kind]
    question, reports = own.question, own.reports
    yield _played(own, choice.epsilon, {}, "none", 1.0, "reference of all rows below")
    target = own.errors(choice.epsilon)
    for plan in mitigation_plans(question.horizon):
        if plan.left == 1 or target is None:
            yield _played(own, choice.epsilon, plan.devices, plan.label, 1.0, plan.cost)
            continue
        more = devices_needed(lambda n: own.rmse(choice.epsilon, n), target.rmse, plan.left * reports) / reports
        factor = more / plan.left
        fewer = plan.left * reports
        larger = min_epsilon_for_error(partial(_rmse, own, fewer), target.rmse, choice.epsilon, MAX_EPSILON)
        cost = f"{factor:.3g} times the devices" + ("; no larger epsilon compensates" if larger is None else "")
        yield _played(own, choice.epsilon, plan.devices, f"{plan.label}, more devices", factor, cost)
        if larger is not None:
            label = f"{plan.label}, larger epsilon"
            cost = f"epsilon {larger:g} instead of {choice.epsilon:g}"
            yield _played(own, larger, plan.devices, label, 1.0, cost)
    if target is None:
        return
    half = choice.epsilon / 2
    more = devices_needed(lambda n: own.rmse(half, n), target.rmse, reports) / reports
    yield _played(own, half, {}, "half the epsilon", more, f"{more:.3g} times the devices")
    for kind, other in candidates.items():
        if kind == choice.kind or other.errors(choice.epsilon) is None:
            continue
        equal = min_epsilon_for_error(other.rmse, target.rmse, question.lowest / 10, MAX_EPSILON)
        if equal is not None:
            label = f"{kind} in place of {choice.kind}"
            yield _played(other, equal, {}, label, 1.0, "another mechanism of equal error")


def _rmse(candidate: Candidate, reports: float, epsilon: float) -> float:
    """Return the analytical RMSE with the arguments in another order."""
    return candidate.rmse(epsilon, reports)


def _played(
    candidate: Candidate, epsilon: float, devices: Mapping[str, Any], label: str, factor: float, cost: str
) -> Mitigation:
    """Simulate a mitigation."""
    simulator, question = candidate.simulator, candidate.question
    simulator.progress.stage(f"Simulating mitigation: {label}")
    variant = simulator.deployed(candidate.kind, epsilon)
    changes: dict[str, Any] = {f"devices.{key}": value for key, value in devices.items()}
    memoize = bool(devices.get("memoize", variant.memoizes))
    changes["attack.observations"] = observation_counts(question.horizon, question.horizon, memoize)
    limited = variant.replace(changes)
    # held-out users, the same for all mitigations
    seed = simulator.seed + 1
    game = build_game(limited, seed, simulator.engine.map)
    most = min(MAX_MEMOIZED_USERS, simulator.max_users(candidate.kind)) if memoize else MAX_MITIGATION_USERS
    users = range(min(question.users, most if game.recorded is None else len(game.recorded)))
    outcomes = simulator.outcomes(game, users, seed)
    found = exposures_of(outcomes, game.adversaries[0], game)
    return Mitigation(
        mitigation=label,
        mechanism=candidate.kind,
        epsilon=epsilon,
        devices=factor,
        users=found.users,
        exposed=found.share(question.horizon),
        confident=confident(select(outcomes, game.adversaries[0].name, game.horizon), question.threshold),
        cost=cost,
    )
