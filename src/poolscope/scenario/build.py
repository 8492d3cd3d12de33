"""From a scenario to the objects that play it.

A mechanism of one's own beside those of scenarios: a class, or where it is.

Only who gives a command, or calls a function, can name one: a scenario may come from a stranger, and to import is to
run.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from poolscope.core.arrays import Floats, Map
from poolscope.core.errors import InputError, located
from poolscope.core.randomness import curator_key, redraw_keys
from poolscope.devices.memoized import device_of
from poolscope.devices.policy import ReportingPolicy
from poolscope.devices.protocols import Device
from poolscope.devices.registry import composed, make
from poolscope.game.game import Game
from poolscope.inference.adversary import Adversary
from poolscope.mechanisms.custom import adapt
from poolscope.mechanisms.protocols import Mechanism
from poolscope.population.behavior import Behavior
from poolscope.population.popularity import uniform
from poolscope.population.priors import UNIFORM, Beta, Density, StepDensity
from poolscope.population.recipe import Recipe, prepare
from poolscope.population.recorded import Recorded, population, read_traces
from poolscope.population.universe import Universe
from poolscope.reports.frequencies import (
    frequencies_of_objects,
    further_popularities,
    further_popularities_of_objects,
    simulate_frequencies,
)
from poolscope.scenario.model import AdversaryTable, DensityTable, PriorTable
from poolscope.scenario.parameters import FILES
from poolscope.scenario.scenario import Scenario

#: Who an adversary is, in plain words, by what it knows of the popularity.
PHRASES = {
    "uniform": "an adversary who knows nothing about what is popular",
    "estimated": "an adversary who knows what is popular",
    "true": "an adversary who knows exactly what is popular",
    "given": "an adversary with a popularity of its own",
}

NAIVE = ", and takes every report by itself"


def build_game(scenario: Scenario, seed: int, threads: Map = map, mechanism: Mechanism | None = None) -> Game:
    """The game of a scenario, or the same with another mechanism. Curators' estimates are drawn from the run's seed."""
    if scenario.attack is None:
        raise scenario.missing("attack")
    if not scenario.adversaries and not scenario.attack.non_private:
        raise scenario.missing("[adversary]")
    universe = scenario.universe()
    mechanism = mechanism or build_mechanism(scenario, universe)
    recorded = build_recorded(scenario, universe, seed)
    popularity = None if recorded and not scenario.popularity_table else scenario.true_popularity(universe)
    adversaries = [
        build_adversary(
            scenario, i, universe, popularity, mechanism, seed, threads, recorded, scenario.attack.estimates
        )
        for i in range(len(scenario.adversaries))
    ]
    drawn = scenario.users.behavior if scenario.users else None
    behavior = build_behavior(drawn, universe, popularity) if drawn else Behavior()
    return Game(
        universe=universe,
        popularity=uniform(universe) if popularity is None else popularity,
        device=build_device(scenario, mechanism),
        policy=build_sending(scenario),
        adversaries=adversaries,
        observations=scenario.attack.observations,
        behavior=replace(behavior, none=scenario.users.none) if scenario.users else behavior,
        sigma=scenario.users.sigma if scenario.users else 0.0,
        non_private=scenario.attack.non_private,
        recorded=recorded,
        threshold=scenario.attack.threshold,
    )


def build_recorded(scenario: Scenario, universe: Universe, seed: int) -> Recorded | None:
    """The users of ``[users] traces``, prepared as the appendix says; None where users are synthetic."""
    if scenario.users is None or scenario.users.traces is None:
        return None
    assert scenario.attack is not None
    path = scenario.resolve(scenario.users.traces, place="users.traces")
    traces = read_traces(path, universe)
    recipe = Recipe(length=max(Recipe().length, scenario.attack.observations[-1]))
    with located(file=path):
        prepared = prepare(traces.users, traces.user, traces.object, universe, seed=seed, recipe=recipe)
    return population(prepared, traces.users, universe)


def build_mechanism(scenario: Scenario, universe: Universe) -> Mechanism:
    """What a report by itself comes from: ``[mechanism]``, and the noise that devices add again.

    Parameters that name files are read, never unpickled.
    """
    parameters: dict[str, Any] = dict(scenario.mechanism.parameters)
    for name in (name for name in FILES if name in parameters):
        path = scenario.resolve(str(parameters[name]), place=f"mechanism.{name}")
        parameters[name] = FILES[name](path, universe)
    with located(file=scenario.file, place="mechanism"):
        mechanism = make(scenario.mechanism.kind, universe.size, parameters)
    if scenario.devices.instantaneous is None:
        return mechanism
    with located(file=scenario.file, place="devices.instantaneous"):
        return composed(mechanism, **scenario.devices.instantaneous.model_dump())


def build_device(scenario: Scenario, mechanism: Mechanism) -> Device:
    """What the devices of a scenario send with the mechanism."""
    return device_of(mechanism, memoize=scenario.devices.memoize)


def build_sending(scenario: Scenario) -> ReportingPolicy:
    """How much of what its user does a device of a scenario sends."""
    with located(file=scenario.file, place="devices"):
        return ReportingPolicy(**scenario.devices.model_dump(exclude={"memoize", "instantaneous"}))


def build_adversary(
    scenario: Scenario,
    index: int,
    universe: Universe,
    popularity: Floats | None,
    mechanism: Mechanism,
    seed: int,
    threads: Map,
    recorded: Recorded | None = None,
    estimates: int = 1,
) -> Adversary:
    """An entry of ``[[adversary]]``; each has its own draws of other people's reports, as many as `estimates` says."""
    entry = scenario.adversaries[index]
    further: list[Floats] = []
    with located(file=scenario.file, place=f"adversary[{index}]"):
        if entry.popularity == "uniform":
            believed = uniform(universe)
        elif entry.popularity == "given":
            believed = scenario.given_popularity(entry, universe)
        elif entry.popularity == "estimated" and entry.estimate_from is None:
            remedy = "without them only attack can estimate the popularity, from the reports that it attacks"
            raise InputError("must have reports", remedy=remedy)
        elif entry.popularity == "estimated" and recorded:
            others = recorded.external_objects(entry.estimate_from or 0)
            key = curator_key(seed, index)
            more = redraw_keys(key, estimates - 1)
            believed = frequencies_of_objects(mechanism, others, key, threads, entry.method).popularity
            further = further_popularities_of_objects(mechanism, others, more, threads, entry.method)
        elif popularity is None:
            raise InputError(f"popularity {entry.popularity!r} must have a table [popularity] to know or draw from")
        elif entry.popularity == "true":
            believed = popularity
        else:
            assert entry.estimate_from is not None
            key = curator_key(seed, index)
            more = redraw_keys(key, estimates - 1)
            law = mechanism, popularity, entry.estimate_from
            believed = simulate_frequencies(*law, key, threads, entry.method).popularity
            further = further_popularities(*law, more, threads, entry.method)
        pools = other_pools(entry, universe)
        return adversary_of(entry, pools, [believed, *further], recorded.fitted if recorded else None)


def adversary_of(
    entry: AdversaryTable, universe: Universe, popularities: Sequence[Floats], fitted: Behavior | None = None
) -> Adversary:
    """An entry of ``[[adversary]]`` with its pools and its popularity, or several draws of an estimated one."""
    first, *redraws = (
        Adversary(
            name=entry.name,
            universe=universe,
            popularity=believed,
            belief=build_behavior(entry.prior, universe, believed, fitted),
            phrase=PHRASES[entry.popularity] + ("" if entry.knows_memoization else NAIVE),
            knows_memoization=entry.knows_memoization,
        )
        for believed in popularities
    )
    return replace(first, redraws=tuple(redraws))


def other_pools(entry: AdversaryTable, universe: Universe) -> Universe:
    """The universe with the adversary's own pools; the scenario's where it has none."""
    if entry.pools is None:
        return universe
    members = {name: [m for part in parts for m in _members(part, universe)] for name, parts in entry.pools.items()}
    return Universe.from_pools(universe.objects or universe.size, members)


def _members(part: str | int, universe: Universe) -> list[str | int]:
    """A name or a number is itself; "start:stop[:step]" is a slice of numbers."""
    if isinstance(part, int) or not re.fullmatch(r"\d+:\d+(:\d+)?", part):
        return [part]
    numbers = range(universe.size)[slice(*map(int, part.split(":")))]
    return [universe.objects[i] for i in numbers] if universe.objects else list(numbers)


def build_behavior(
    prior: PriorTable, universe: Universe, popularity: Floats | None, fitted: Behavior | None = None
) -> Behavior:
    """A table of priors: "popularity" weighs pools by theirs (as published), "fitted" is what others teach."""
    if fitted is None and "fitted" in (prior.interest, prior.polarization, prior.pools):
        raise InputError("can be 'fitted' only with recorded users", place="prior", remedy="give [users] traces")
    pools = prior.pool_weights(universe.pool_names)
    if prior.pools == "popularity":
        masses = np.bincount(universe.pool_of + 1, weights=popularity, minlength=universe.k + 1)
        pools = tuple(float(mass) for mass in masses[1:])
    elif prior.pools == "fitted" and fitted:
        pools = fitted.pools
    return Behavior(
        interest=_density(prior.interest, fitted.interest if fitted else UNIFORM),
        polarization=_density(prior.polarization, fitted.polarization if fitted else UNIFORM),
        pools=pools,
        none=prior.none,
    )


def _density(given: str | DensityTable, fitted: Density) -> Density:
    if isinstance(given, str):
        return fitted if given == "fitted" else UNIFORM
    if given.beta is not None:
        return Beta(a=given.beta[0], b=given.beta[1])
    assert given.table is not None
    return StepDensity(given.table)


GIVEN = ("universe", "size", "epsilon")
"""What a class can ask for by these names: the number of objects, twice, and epsilon."""


def is_own(kind: object) -> bool:
    """Whether it is a class, or "module:Class"; scenarios know the others."""
    return not isinstance(kind, str) or ":" in kind


def own_class(kind: str | Callable[..., Any]) -> Callable[..., Any]:
    """The class, imported where it is named; modules of the folder that the command is given in are found."""
    if not isinstance(kind, str):
        return kind
    module, _, name = kind.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        rule = "must be module:Class that can be imported"
        raise InputError(rule, value=kind, place="mechanism", remedy=str(error)) from None
    if not callable(found):
        raise InputError("must be a class", value=kind, place="mechanism")
    made: Callable[..., Any] = found
    return made


def place_of(kind: str | Callable[..., Any]) -> str:
    """How a command names it."""
    return kind if isinstance(kind, str) else f"{kind.__module__}:{kind.__name__}"


def takes_epsilon(maker: Callable[..., Any]) -> bool:
    """Whether it is made for an epsilon."""
    return "epsilon" in inspect.signature(maker).parameters


def make_own(maker: Callable[..., Any], universe: Universe, epsilon: float | None) -> Mechanism:
    """The mechanism that a class makes, fit for the game (`adapt`)."""
    known = inspect.signature(maker).parameters
    values = {"universe": universe.size, "size": universe.size, "epsilon": epsilon}
    for name, parameter in known.items():
        plain = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if parameter.default is parameter.empty and not plain and name not in GIVEN:
            rule = f"must be made of {', '.join(GIVEN)} or have a default for what else it takes"
            raise InputError(rule, value=name, place=f"mechanism {maker.__name__}")
    return adapt(maker(**{name: values[name] for name in GIVEN if name in known}), universe)
