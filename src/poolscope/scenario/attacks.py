"""Attacks of one's own in the game of a scenario: a built-in name, a class, an instance, or "module:Class".

Only commands and functions can name one: scenarios are untrusted, and an import runs code.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import is_dataclass, replace
from typing import Any

from poolscope.core.errors import InputError, did_you_mean
from poolscope.devices.protocols import Device
from poolscope.game.game import Game
from poolscope.game.users import calibrated
from poolscope.inference.adversary import Adversary
from poolscope.inference.attacks import ATTACKS
from poolscope.inference.custom import AnyAttack, is_attack, with_attack
from poolscope.population.behavior import Behavior
from poolscope.population.popularity import uniform
from poolscope.population.universe import Universe
from poolscope.scenario.build import build_behavior
from poolscope.scenario.custom import custom_class
from poolscope.scenario.scenario import Scenario

#: An attack as functions take it.
AttackSpec = str | Callable[[], Any] | AnyAttack


def make_attack(given: AttackSpec) -> AnyAttack:
    """Return an attack from a built-in name, a class, "module:Class" or an instance."""
    if is_attack(given):
        return given
    if isinstance(given, str) and ":" not in given:
        if given not in ATTACKS:
            remedy = did_you_mean(given, ATTACKS) or f"one of {', '.join(ATTACKS)}, or module:Class"
            raise InputError("must be a known attack", value=given, place="attack", remedy=remedy)
        return ATTACKS[given]()
    if not isinstance(given, str) and not callable(given):
        raise InputError("must be an attack", value=given, place="attack", remedy="a name, a class or an instance")
    maker = custom_class(given, "attack")
    try:
        parameters = inspect.signature(maker).parameters.values()
    except ValueError:  # some built-in classes have none
        raise InputError("must be a class of an attack", value=given, place="attack") from None
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [one.name for one in parameters if one.default is one.empty and one.kind not in variadic]
    if needed:
        rule = "a class must take no arguments without a default"
        raise InputError(rule, value=needed[0], place=f"attack {maker.__name__}", remedy="give an instance in Python")
    made = maker()
    if not is_attack(made):
        rule = "must have a name and a method posteriors or scores"
        raise InputError(rule, value=maker.__name__, place="attack")
    return made


def attack_name(given: AttackSpec) -> str:
    """Return how a record calls an attack: a built-in name, or module:Class, with the parameters of an instance.

    A built-in attack with other parameters than its defaults has no name.
    """
    if isinstance(given, str):
        return given
    kind = given if isinstance(given, type) else type(given)
    for name, made in ATTACKS.items():
        if kind is made and given in (kind, made()):
            return name
    own = repr(given) if is_dataclass(given) and not isinstance(given, type) else kind.__name__
    return f"{kind.__module__}:{own}"


def attack_adversaries(
    attacks: Sequence[AttackSpec], adversaries: Sequence[Adversary], universe: Universe, popularity: Any = None
) -> list[Adversary]:
    """Return an adversary for each attack, with the assumptions of the scenario's last adversary.

    Without any, they know the popularity, or assume it to be uniform where there is none.
    """
    assumed = next(
        reversed(adversaries),
        Adversary(
            name="assumed",
            universe=universe,
            popularity=uniform(universe) if popularity is None else popularity,
            phrase="popularity assumed uniform" if popularity is None else "popularity known exactly",
        ),
    )
    return [with_attack(assumed, make_attack(given)) for given in attacks]


#: Numbers of reports at which scores are calibrated where a scenario has no observation counts.
COUNTS = (1, 3, 10, 30, 100, 300)


def calibrated_attacks(
    attacks: Sequence[AttackSpec],
    scenario: Scenario,
    adversaries: Sequence[Adversary],
    universe: Universe,
    device: Device,
    seed: int,
) -> list[Adversary]:
    """Return an adversary for each attack on given reports; scores are calibrated on synthetic users of the scenario.

    These users have the popularity and the behavior of the scenario; without a popularity, that of the last adversary.
    """
    if not attacks:
        return []
    popularity = scenario.true_popularity(universe) if scenario.popularity_table else None
    made = attack_adversaries(attacks, adversaries, universe, popularity)
    own = scenario.users
    # pool weights of the scenario are those of its own pools
    known = own is not None and own.behavior is not None and made[0].universe.pool_names == universe.pool_names
    behavior = build_behavior(own.behavior, universe, popularity) if known else Behavior()  # type: ignore[union-attr, arg-type]
    game = Game(
        universe=made[0].universe,
        popularity=made[0].popularity if popularity is None else popularity,
        device=device,
        adversaries=made,
        observations=scenario.attack.observations if scenario.attack else COUNTS,
        behavior=replace(behavior, none=own.none) if own else behavior,
        non_private=False,
    )
    return list(calibrated(game, seed).adversaries)
