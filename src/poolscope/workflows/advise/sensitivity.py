"""What an advice hangs on: who the users are, what the adversary knows, how large the pools are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from poolscope.core.errors import InputError
from poolscope.game.game import Game
from poolscope.inference.adversary import Adversary
from poolscope.mechanisms.devices import Keeping
from poolscope.population.behavior import Behaviour
from poolscope.population.densities import UNIFORM, Beta
from poolscope.scenario.build import build_game
from poolscope.scenario.scenario import Scenario, changed
from poolscope.workflows.advise.advice import Case
from poolscope.workflows.advise.plays import Exposures, Players, exposures_of
from poolscope.workflows.advise.question import Question
from poolscope.workflows.advise.verify import Verified

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
    again = list(game.observations) != list(verified.game.observations) or game.sending.sample < 1
    found = players.exposures(game, users, verified.seed) if again else verified.exposures.first_users(len(users))
    yield from by_behaviour(found, game, question)
    if game.recorded is None and not players.hurried(choice.kind):
        yield from _by_population(game, found, players, verified)
        yield from _by_knowledge(game, found, players, verified)
        for case, scenario in resized(players.scenario):
            variant = replace(players, scenario=scenario).variant(choice.kind, choice.epsilon)
            other = build_game(variant, verified.seed, players.engine.map)
            yield _case("pools", case, players.exposures(other, users, verified.seed), AS_ASKED, question)


def uncapped(verified: Verified, players: Players) -> Game:
    """The game of a verified choice without its cap, played as far as trials are."""
    kind, keeps = verified.choice.kind, isinstance(verified.game.device, Keeping)
    counts = players.looks(kind, players.horizon(kind), keeps)
    return replace(verified.game, sending=replace(verified.game.sending, cap=None), observations=counts)


def by_behaviour(found: Exposures, game: Game, question: Question) -> Iterator[Case]:
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
            yield _case("behaviour", case, found.of(some), AS_ASKED, question)


def _by_population(game: Game, found: Exposures, players: Players, verified: Verified) -> Iterator[Case]:
    """Other populations, before the adversary as asked or the one whose prior matches them: the worse of the two."""
    (mine,), users = game.adversaries, verified.users[:USERS]
    for case, interest in POPULATIONS.items():
        behaviour = replace(game.behaviour, interest=interest)
        matched = _matched(mine, behaviour)
        adversaries = [mine] if matched.belief == mine.belief else [mine, matched]
        if behaviour == game.behaviour and len(adversaries) == 1:
            exposures = [found]
        else:
            other = replace(game, behaviour=behaviour, adversaries=adversaries)
            outcomes = players.outcomes(other, users, verified.seed)
            exposures = [exposures_of(outcomes, adversary, other) for adversary in adversaries]
        cases = [_case("users", case, *both, players.question) for both in zip(exposures, PRIORS, strict=False)]
        yield max(cases, key=lambda one: one.exposed.value)


def _matched(adversary: Adversary, behaviour: Behaviour) -> Adversary:
    """The adversary whose prior of interest and polarization is the truth about some users."""
    redraws = tuple(_matched(redraw, behaviour) for redraw in adversary.redraws)
    belief = replace(adversary.belief, interest=behaviour.interest, polarization=behaviour.polarization)
    name = f"{adversary.name}, with a prior that matches the users"
    return replace(adversary, name=name, belief=belief, redraws=redraws)


def _by_knowledge(game: Game, found: Exposures, players: Players, verified: Verified) -> Iterator[Case]:
    """Adversaries who know the popularity exactly or not at all, all before the same reports."""
    (mine,) = game.adversaries
    entry = players.scenario.adversaries[0]
    others: list[Adversary] = []
    if (matched := _matched(mine, game.behaviour)).belief != mine.belief:
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
            yield (
                f"{word} the size",
                changed(scenario, {"universe.size": size, "universe.pools": pools}, name=scenario.name),
            )
        except InputError:
            continue  # an adversary with pools of its own, which this universe does not have


def _case(about: str, case: str, found: Exposures, prior: str, question: Question) -> Case:
    return Case(
        about=about,
        case=case,
        prior=prior,
        users=found.users,
        exposed=found.share(question.reports),
        cap=found.cap(question.exposed),
    )
