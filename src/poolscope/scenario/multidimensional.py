"""Construction of the mechanism of ``[multidimensional]``: one report with a value of every collection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np

from poolscope.core.arrays import Floats, Map
from poolscope.core.errors import InputError, located
from poolscope.game.collections import JointGame
from poolscope.game.game import Game
from poolscope.inference.tuples import TupleAttack
from poolscope.mechanisms.fake_data import RSFD, RSRFD, SampledWithFakes
from poolscope.mechanisms.multidimensional import SMP, SPL, Multidimensional
from poolscope.mechanisms.protocols import Mechanism, ReportColumn
from poolscope.population.popularity import read_popularity
from poolscope.population.universe import Universe
from poolscope.reports.multidimensional import AttributeOracle
from poolscope.scenario.build import adversary_phrase, build_game, build_policy
from poolscope.scenario.collection_tables import randomizers_of
from poolscope.scenario.collections import build_joint_game, rate_of
from poolscope.scenario.scenario import Scenario


def build_multidimensional(scenario: Scenario) -> Multidimensional:
    """Build the mechanism of a scenario with ``[multidimensional]``; its attributes are the collections."""
    table = scenario.multidimensional
    assert table is not None
    attributes = {
        own.name: part.universe().size for own, part in zip(scenario.collections, scenario.parts, strict=True)
    }
    options: dict[str, Any] = {"randomizer": randomizers_of(scenario)}
    epsilon = table.randomizer_epsilon(len(attributes))
    with located(file=scenario.file, place="multidimensional"):
        if table.kind == "spl":
            assert table.epsilon is not None
            return SPL(attributes, epsilon=table.epsilon, **options)
        if table.kind == "smp":
            return SMP(attributes, epsilon=epsilon, **options)
        if table.kind == "rs+fd":
            return RSFD(attributes, epsilon=epsilon, fake=table.fake, **options)
    priors = {part.name: _prior(scenario, part) for part in scenario.parts}
    with located(file=scenario.file, place="multidimensional"):
        return RSRFD(attributes, epsilon=epsilon, priors=priors, **options)


def _prior(scenario: Scenario, part: Scenario) -> Floats:
    """Return (objects,) the distribution of the fake data of one collection."""
    assert scenario.multidimensional is not None
    priors, universe = scenario.multidimensional.priors, part.universe()
    if priors == "uniform":
        return np.full(universe.size, 1.0 / universe.size)
    if isinstance(priors, dict):
        place = f"multidimensional.priors.{part.name}"
        found = read_popularity(scenario.resolve(priors[part.name], place=place), universe)
    else:
        found = part.true_popularity(universe)
    total = float(found.sum())
    if not total > 0:
        raise InputError("must have a positive sum", file=scenario.file, place="multidimensional.priors", value=total)
    prior: Floats = found / total
    return prior


def attribute_oracle(part: Scenario, tuples: Multidimensional) -> tuple[Mechanism, Scenario]:
    """Return what an adversary estimates an attribute's popularity from, and the scenario with as many reports."""
    oracle = cast(Mechanism, AttributeOracle(tuples, part.name))
    if not isinstance(tuples, SMP):
        return oracle, part
    entries = part.to_dict().get("adversary", [])
    fewer = [
        {**entry, "estimate_from": max(1, entry["estimate_from"] // tuples.d)} if "estimate_from" in entry else entry
        for entry in entries
    ]
    return oracle, part.replace({"adversary": fewer}, name=part.name)


def build_attribute_game(part: Scenario, tuples: Multidimensional, seed: int, threads: Map = map) -> Game:
    """Build the game of one attribute of tuples; adversaries estimate its popularity from reports on tuples.

    Of SMP, the attribute has one of d events, and one of d reports of an estimate.
    """
    oracle, own = attribute_oracle(part, tuples)
    game = build_game(own, seed, threads, oracle=oracle)
    if not isinstance(tuples, SMP):
        return game
    phrased = [
        replace(one, phrase=adversary_phrase(entry))
        for one, entry in zip(game.adversaries, part.adversaries, strict=True)
    ]
    policy = replace(game.policy, sampling_rate=game.policy.sampling_rate / tuples.d)
    return replace(game, adversaries=phrased, policy=policy)


def build_tuple_game(scenario: Scenario, seed: int, threads: Map = map) -> JointGame:
    """Build the game of a scenario with ``[multidimensional]``: that of its collections, with one report for all."""
    tuples, policy = build_multidimensional(scenario), build_policy(scenario.parts[0])

    def build(part: Scenario, own_seed: int, threads: Map) -> Game:
        return build_attribute_game(part, tuples, own_seed, threads)

    game = build_joint_game(scenario, seed, threads, build)
    if isinstance(tuples, SampledWithFakes):
        for adversaries in zip(*(one.game.adversaries for one in game.collections), strict=True):
            with located(file=scenario.file, place="collection"):
                # it refuses too many combinations of pools
                TupleAttack(tuples, adversaries)
    common = replace(policy, reports_per_day=rate_of(scenario.parts[0]))
    return replace(game, tuples=tuples, policy=common)


def tuple_columns(mechanism: Multidimensional, universes: Mapping[str, Universe]) -> dict[str, ReportColumn]:
    """Return the columns of a file of tuple reports: values of attributes with named objects are their names."""
    found = dict(mechanism.report_columns)
    for name, universe in universes.items():
        if universe.objects is not None and found[name].kind == "integer":
            found[name] = ReportColumn("object", universe.size)
    return found


def column_universes(columns: Mapping[str, ReportColumn], universes: Mapping[str, Universe]) -> dict[str, Universe]:
    """Return the universe of each column of a file of tuple reports; the column of the sampled one takes any."""
    return {**dict.fromkeys(columns, next(iter(universes.values()))), **universes}


def tuple_label(mechanism: Multidimensional, universes: list[Universe], index: int) -> str:
    """Return a tuple in words, as "('smile', 3)": objects by name where they have one, else by number."""
    values = mechanism.tuples([index])[0].tolist()
    names = [repr(own.objects[z]) if own.objects else str(z) for own, z in zip(universes, values, strict=True)]
    return f"({', '.join(names)})"
