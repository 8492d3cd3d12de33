"""Cap, share, window, memory, smaller epsilon, other mechanisms: side by side for the same error, and played."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from poolscope.metrics.exposure import sure
from poolscope.metrics.precision import select
from poolscope.scenario.build import build_game
from poolscope.scenario.scenario import changed
from poolscope.workflows.advise.advice import Mitigation
from poolscope.workflows.advise.error import devices_needed, smallest_serving
from poolscope.workflows.advise.findings import Candidate
from poolscope.workflows.advise.plays import LOOKS, exposures_of, looks
from poolscope.workflows.advise.refine import Choice
from poolscope.workflows.compare import variants

#: Users of each measure at most, and of devices with memory, which cost a hundred times as much.
USERS, KEEPING = 2000, 100

#: Epsilon up to which a measure may be paid for.
MOST = 50.0


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
        Measure(words="a third of the events", devices={"sample": 1 / 3}, left=1 / 3),
        Measure(
            words=f"a new pseudonym after {third:,} reports",
            devices={"window": third},
            cost="pseudonyms must not be linkable, by addresses, times or kept answers; nothing in the frequencies",
        ),
        Measure(
            words=f"a new pseudonym after {sixth:,} reports",
            devices={"window": sixth},
            cost="the same",
        ),
        Measure(
            words="kept answers (memory)",
            devices={"memory": True},
            cost="devices store an answer for each object; noise of one collection comes again in the next, so that "
            f"errors do not average out over time. Played with at most {KEEPING} users and {LOOKS} looks",
        ),
    )


def mitigations(choice: Choice, candidates: Mapping[str, Candidate]) -> Iterator[Mitigation]:
    """What each buys and costs, from the recommended mechanism and epsilon without any limit on."""
    own = candidates[choice.kind]
    question, reports = own.question, own.reports
    yield _played(own, choice.epsilon, {}, "nothing more", 1.0, "the measure of all below")
    target = own.errors(choice.epsilon)
    for measure in measures(question.reports):
        if measure.left == 1 or target is None:
            yield _played(own, choice.epsilon, measure.devices, measure.words, 1.0, measure.cost)
            continue
        more = devices_needed(lambda n: own.rmse(choice.epsilon, n), target.rmse, measure.left * reports) / reports
        factor = more / measure.left
        fewer = measure.left * reports
        paid = smallest_serving(partial(_rmse, own, fewer), target.rmse, choice.epsilon, MOST)
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
        equal = smallest_serving(other.rmse, target.rmse, question.lowest / 10, MOST)
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
    memory = bool(devices.get("memory", variant.keeps_answers))
    changes["attack.observations"] = looks(question.reports, question.reports, memory)
    limited = changed(variant, changes, name=variant.name)
    # users who chose nothing, the same for all measures
    seed = players.seed + 1
    game = build_game(limited, seed, players.engine.map)
    most = min(KEEPING, players.most_users(candidate.kind)) if memory else USERS
    users = range(min(question.users, most if game.recorded is None else len(game.recorded)))
    outcomes = players.outcomes(game, users, seed)
    found = exposures_of(outcomes, game.adversaries[0], game)
    return Mitigation(
        measure=words,
        mechanism=candidate.kind,
        epsilon=epsilon,
        devices=factor,
        users=found.users,
        exposed=found.share(question.reports),
        sure=sure(select(outcomes, game.adversaries[0].name, game.horizon), question.confidence),
        cost=cost,
    )
