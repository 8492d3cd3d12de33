"""Play a recommendation under other assumptions (sensitivity analysis) and with mitigations, for the same error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from poolscope.core.errors import InputError
from poolscope.game.game import Game
from poolscope.inference.adversary import Adversary
from poolscope.metrics.exposure import confident
from poolscope.metrics.precision import select
from poolscope.population.behavior import Behavior
from poolscope.population.priors import UNIFORM, Beta
from poolscope.scenario.build import build_game
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.advise.accuracy import devices_needed, smallest_serving
from poolscope.workflows.advise.findings import Candidate
from poolscope.workflows.advise.plays import LOOKS, Exposures, Players, exposures_of, looks
from poolscope.workflows.advise.question import Question
from poolscope.workflows.advise.records import Case, Mitigation
from poolscope.workflows.advise.refine import Configuration, Verified
from poolscope.workflows.compare import variants

#: Users of each case at most.
USERS = 2000

#: Populations that the same devices might have, by what is said of their relevant interest.
POPULATIONS = {
    "uniform interest": UNIFORM,
    "Beta(1, 5) interest: hardly any heavy users": Beta(a=1.0, b=5.0),
    "Beta(5, 1) interest: hardly any others": Beta(a=5.0, b=1.0),
}

#: What the adversary believes of interest and polarization: its own prior, or the truth about the users of a case.
PRIORS = AS_ASKED, MATCHED = "as asked", "matched"


def sensitivity(verified: Verified, players: Players) -> Iterator[Case]:
    """The recommendation under other assumptions; without its cap, so that the largest that would do is seen."""
    question, choice = players.question, verified.choice
    game, users = uncapped(verified, players), verified.users[:USERS]
    players.progress.stage("Asking what the answer hangs on")
    # with a cap that is never reached, it was played already
    again = list(game.observations) != list(verified.game.observations) or game.policy.sampling_rate < 1
    found = players.exposures(game, users, verified.seed) if again else verified.exposures.first_users(len(users))
    yield from by_behavior(found, game, question)
    if game.recorded is None and not players.hurried(choice.kind):
        yield from _by_population(game, found, players, verified)
        yield from _by_knowledge(game, found, players, verified)
        for case, scenario in resized(players.scenario):
            variant = replace(players, scenario=scenario).variant(choice.kind, choice.epsilon)
            other = build_game(variant, verified.seed, players.engine.map)
            yield _case("pools", case, players.exposures(other, users, verified.seed), AS_ASKED, question)


def uncapped(verified: Verified, players: Players) -> Game:
    """The game of a verified choice without its cap, played as far as trials are."""
    kind, keeps = verified.choice.kind, verified.game.device.memoizes
    counts = players.looks(kind, players.horizon(kind), keeps)
    return replace(verified.game, policy=replace(verified.game.policy, cap=None), observations=counts)


def by_behavior(found: Exposures, game: Game, question: Question) -> Iterator[Case]:
    """Users by relevant interest and polarization, in thirds of what these can be."""
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


def _by_population(game: Game, found: Exposures, players: Players, verified: Verified) -> Iterator[Case]:
    """Other populations, before the adversary as asked or the one whose prior matches them: the worse of the two."""
    (mine,), users = game.adversaries, verified.users[:USERS]
    for case, interest in POPULATIONS.items():
        behavior = replace(game.behavior, interest=interest)
        matched = _matched(mine, behavior)
        adversaries = [mine] if matched.belief == mine.belief else [mine, matched]
        if behavior == game.behavior and len(adversaries) == 1:
            exposures = [found]
        else:
            other = replace(game, behavior=behavior, adversaries=adversaries)
            outcomes = players.outcomes(other, users, verified.seed)
            exposures = [exposures_of(outcomes, adversary, other) for adversary in adversaries]
        cases = [_case("users", case, *both, players.question) for both in zip(exposures, PRIORS, strict=False)]
        yield max(cases, key=lambda one: one.exposed.value)


def _matched(adversary: Adversary, behavior: Behavior) -> Adversary:
    """The adversary whose prior of interest and polarization is the truth about some users."""
    redraws = tuple(_matched(redraw, behavior) for redraw in adversary.redraws)
    belief = replace(adversary.belief, interest=behavior.interest, polarization=behavior.polarization)
    name = f"{adversary.name}, with a prior that matches the users"
    return replace(adversary, name=name, belief=belief, redraws=redraws)


def _by_knowledge(game: Game, found: Exposures, players: Players, verified: Verified) -> Iterator[Case]:
    """Adversaries who know the popularity exactly or not at all, all before the same reports."""
    (mine,) = game.adversaries
    entry = players.scenario.adversaries[0]
    others: list[Adversary] = []
    if (matched := _matched(mine, game.behavior)).belief != mine.belief:
        others.append(matched)
    if entry.popularity != "true":
        others.append(replace(mine, name="knows the popularity exactly", popularity=game.popularity, redraws=()))
    if entry.popularity != "uniform":
        others.append(replace(Adversary.weak(mine.universe, mine.belief), name="knows nothing of the popularity"))
    users = verified.users[:USERS]
    yield _case("adversary", f"as asked ({mine.name})", found, AS_ASKED, players.question)
    outcomes = players.outcomes(replace(game, adversaries=others), users, verified.seed)
    for adversary in others:
        prior = MATCHED if adversary is matched else AS_ASKED
        yield _case("adversary", adversary.name, exposures_of(outcomes, adversary, game), prior, players.question)


def resized(scenario: Scenario) -> Iterator[tuple[str, Scenario]]:
    """The scenario with pools of half and of double size, the neutral rest as it is; where sizes are all there is."""
    table = scenario.universe_table
    if table.pools is None or table.size is None or "hash_table" in scenario.mechanism.parameters:
        return
    for word, factor in (("half", 0.5), ("double", 2.0)):
        pools = {name: max(1, round(factor * size)) for name, size in table.pools.items()}
        size = table.size + sum(pools.values()) - sum(table.pools.values())
        try:
            yield f"{word} the size", scenario.replace({"universe.size": size, "universe.pools": pools})
        except InputError:
            continue  # an adversary with pools of its own, which this universe does not have


def _case(about: str, case: str, found: Exposures, prior: str, question: Question) -> Case:
    return Case(
        about=about,
        variant=case,
        prior=prior,
        users=found.users,
        exposed=found.share(question.horizon),
        cap=found.cap(question.max_exposed),
    )


#: Users of each measure at most, and of devices with memory, which cost a hundred times as much.
MAX_USERS, KEEPING = 2000, 100

#: Epsilon up to which a measure may be paid for.
MAX_DEVICES_FACTOR = 50.0


@dataclass(frozen=True, kw_only=True)
class Measure:
    """What devices would do beside the mechanism, and the share of reports that is left of it."""

    words: str
    devices: Mapping[str, Any]
    left: float = 1.0
    cost: str = ""


def measures(n: int) -> tuple[Measure, ...]:
    """Measures on devices that report n events, each at two strengths."""
    third, sixth = max(1, round(n / 3)), max(1, round(n / 6))
    return (
        Measure(words=f"cap of {third:,} reports", devices={"cap": third}, left=third / n),
        Measure(words=f"cap of {sixth:,} reports", devices={"cap": sixth}, left=sixth / n),
        Measure(words="a third of the events", devices={"sampling_rate": 1 / 3}, left=1 / 3),
        Measure(
            words=f"a new pseudonym after {third:,} reports",
            devices={"rotate_after": third},
            cost="pseudonyms must not be linkable, by addresses, times or kept answers; nothing in the frequencies",
        ),
        Measure(
            words=f"a new pseudonym after {sixth:,} reports",
            devices={"rotate_after": sixth},
            cost="the same",
        ),
        Measure(
            words="kept answers (memory)",
            devices={"memoize": True},
            cost="devices store an answer for each object; noise of one collection comes again in the next, so that "
            f"errors do not average out over time. Played with at most {KEEPING} users and {LOOKS} looks",
        ),
    )


def mitigations(choice: Configuration, candidates: Mapping[str, Candidate]) -> Iterator[Mitigation]:
    """What each buys and costs, from the recommended mechanism and epsilon without any limit on."""
    own = candidates[choice.kind]
    question, reports = own.question, own.reports
    yield _played(own, choice.epsilon, {}, "nothing more", 1.0, "the measure of all below")
    target = own.errors(choice.epsilon)
    for measure in measures(question.horizon):
        if measure.left == 1 or target is None:
            yield _played(own, choice.epsilon, measure.devices, measure.words, 1.0, measure.cost)
            continue
        more = devices_needed(lambda n: own.rmse(choice.epsilon, n), target.rmse, measure.left * reports) / reports
        factor = more / measure.left
        fewer = measure.left * reports
        paid = smallest_serving(partial(_rmse, own, fewer), target.rmse, choice.epsilon, MAX_DEVICES_FACTOR)
        cost = f"{factor:.3g} times the devices" + ("; no larger epsilon makes up for it" if paid is None else "")
        yield _played(own, choice.epsilon, measure.devices, f"{measure.words}, more devices", factor, cost)
        if paid is not None:
            words = f"{measure.words}, larger epsilon"
            cost = f"epsilon {paid:g} instead of {choice.epsilon:g}"
            yield _played(own, paid, measure.devices, words, 1.0, cost)
    if target is None:
        return
    half = choice.epsilon / 2
    more = devices_needed(lambda n: own.rmse(half, n), target.rmse, reports) / reports
    yield _played(own, half, {}, "half the epsilon", more, f"{more:.3g} times the devices")
    for kind, other in candidates.items():
        if kind == choice.kind or other.errors(choice.epsilon) is None:
            continue
        equal = smallest_serving(other.rmse, target.rmse, question.lowest / 10, MAX_DEVICES_FACTOR)
        if equal is not None:
            words = f"{kind} in place of {choice.kind}"
            yield _played(other, equal, {}, words, 1.0, "another mechanism, with the same error")


def _rmse(candidate: Candidate, reports: float, epsilon: float) -> float:
    return candidate.rmse(epsilon, reports)


def _played(
    candidate: Candidate, epsilon: float, devices: Mapping[str, Any], words: str, factor: float, cost: str
) -> Mitigation:
    players, question = candidate.players, candidate.question
    players.progress.stage(f"Playing {words}")
    (variant,) = variants(players.scenario, [candidate.kind], [epsilon])
    changes: dict[str, Any] = {f"devices.{key}": value for key, value in devices.items()}
    memory = bool(devices.get("memoize", variant.memoizes))
    changes["attack.observations"] = looks(question.horizon, question.horizon, memory)
    limited = variant.replace(changes)
    # users who chose nothing, the same for all measures
    seed = players.seed + 1
    game = build_game(limited, seed, players.engine.map)
    most = min(KEEPING, players.max_users(candidate.kind)) if memory else MAX_USERS
    users = range(min(question.users, most if game.recorded is None else len(game.recorded)))
    outcomes = players.outcomes(game, users, seed)
    found = exposures_of(outcomes, game.adversaries[0], game)
    return Mitigation(
        mitigation=words,
        mechanism=candidate.kind,
        epsilon=epsilon,
        devices=factor,
        users=found.users,
        exposed=found.share(question.horizon),
        confident=confident(select(outcomes, game.adversaries[0].name, game.horizon), question.threshold),
        cost=cost,
    )
