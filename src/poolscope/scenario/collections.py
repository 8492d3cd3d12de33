"""Construction of the game of several collections, and of the links between an attribute and pools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from poolscope.core.arrays import Floats, Map
from poolscope.core.errors import InputError, did_you_mean, located
from poolscope.core.randomness import collection_seed
from poolscope.core.tables import read_table
from poolscope.game.collections import Collection, JointGame, events_by
from poolscope.game.game import Game
from poolscope.inference.joint import as_link
from poolscope.mechanisms.protocols import Mechanism
from poolscope.population.universe import Universe
from poolscope.scenario.attacks import AttackSpec
from poolscope.scenario.build import build_game
from poolscope.scenario.collection_tables import tuples_unsupported
from poolscope.scenario.scenario import Scenario
from poolscope.scenario.tables import ROW_SUM_TOLERANCE, Link, PriorTable

GameBuilder = Callable[[Scenario, int, Map], Game]
"""Builds the game of one collection from its scenario and seed."""


def build_joint_game(scenario: Scenario, seed: int, threads: Map = map, build: GameBuilder = build_game) -> JointGame:
    """Build the game of the collections of a scenario. Estimated popularities derive from the run's seed."""
    if scenario.attack is None:
        raise scenario.missing("attack")
    if scenario.multidimensional and build is build_game:
        # reports of tuples are not those of single collections
        raise tuples_unsupported(scenario.file)
    assert scenario.attribute is not None
    values = scenario.attribute.values
    collections = []
    for index, part in enumerate(played_parts(scenario)):
        with located(file=scenario.file, place=f"collection[{index}]"):
            link = link_of(scenario, index, part.universe())
            game = build(part, collection_seed(seed, index), threads)
        assumed = {
            adversary.name: assumed_link(scenario, index, i)
            for i, adversary in enumerate(scenario.adversaries)
            if part.name in adversary.links
        }
        if game.policy.reports_per_day is None:
            game = replace(game, policy=replace(game.policy, reports_per_day=rate_of(part)))
        collections.append(Collection(name=part.name, game=game, link=link, assumed=assumed))
    users = scenario.users.behavior if scenario.users else None
    return JointGame(
        attribute=scenario.attribute.name,
        values=values,
        collections=collections,
        prior=attribute_prior(users, values),
        beliefs={adversary.name: attribute_prior(adversary.prior, values) for adversary in scenario.adversaries},
        observations=scenario.attack.observations,
        non_private=scenario.attack.non_private,
        threshold=scenario.attack.threshold,
    )


def rate_of(part: Scenario) -> float:
    """Return the events per day of a collection, one where it does not say."""
    return part.devices.reports_per_day or 1.0


def report_rate(part: Scenario) -> float:
    """Return the reports per day of a collection: its events, less those that are not sampled."""
    return rate_of(part) * part.devices.sampling_rate


def played_parts(scenario: Scenario) -> list[Scenario]:
    """Return each collection as a scenario of its own, whose observation counts are events instead of days."""
    if scenario.attack is None:
        raise scenario.missing("attack")
    attack, days = scenario.attack, np.asarray(scenario.attack.observations, dtype=np.int64)
    parts = []
    for index, part in enumerate(scenario.parts):
        counts = np.unique(np.maximum(events_by(days, rate_of(part)), 1)).tolist()
        own = attack.model_dump(exclude_unset=True) | {"observations": counts}
        with located(file=scenario.file, place=f"collection[{index}]"):
            parts.append(part.replace({"attack": own}, name=part.name))
    return parts


def game_of(
    scenario: Scenario,
    seed: int,
    threads: Map = map,
    mechanism: Mechanism | None = None,
    attacks: Sequence[AttackSpec] = (),
) -> Game | JointGame:
    """Build the game of a scenario, of one collection or of several; one's own parts go with one collection."""
    if not scenario.collections:
        return build_game(scenario, seed, threads, mechanism, attacks=attacks)
    if mechanism is not None or attacks:
        place = "attacks" if mechanism is None else "mechanism"
        raise InputError("requires a single collection", file=scenario.file, place=place)
    if scenario.multidimensional:
        from poolscope.scenario.multidimensional import build_tuple_game  # it is made of this module

        return build_tuple_game(scenario, seed, threads)
    return build_joint_game(scenario, seed, threads)


def attribute_prior(table: PriorTable | None, values: Sequence[str]) -> Floats:
    """Return (values,) the prior of the attribute: the weights of ``pools`` in a prior, else uniform."""
    weights = table.pool_weights(values) if table is not None else None
    prior: Floats = np.ones(len(values)) if weights is None else np.asarray(weights, dtype=np.float64)
    prior /= prior.sum()
    return prior


def assumed_link(scenario: Scenario, index: int, adversary: int) -> Floats:
    """Return the link (values, pools) of a collection that an adversary assumes: its own, or else the true one."""
    part, entry = scenario.parts[index], scenario.adversaries[adversary]
    if part.name in entry.links:
        place = f"adversary[{adversary}].links.{part.name}"
        return _link(scenario, entry.links[part.name], part.universe(), place)
    return link_of(scenario, index, part.universe())


def link_of(scenario: Scenario, index: int, universe: Universe) -> Floats:
    """Return the link (values, pools) of a collection: by name, by a number, from a matrix or from a file."""
    link = scenario.collections[index].link
    return _link(scenario, 1.0 if link is None else link, universe, f"collection[{index}].link")


def _link(scenario: Scenario, link: Link, universe: Universe, place: str) -> Floats:
    """Return a link (values, pools) that the scenario has at a place."""
    assert scenario.attribute is not None
    values = scenario.attribute.values
    if isinstance(link, str):
        path = scenario.resolve(link, place=place)
        return read_link(path, scenario.attribute.name, values, universe.pool_names)
    with located(file=scenario.file, place=place):
        if isinstance(link, float | int):
            return number_link(link, values, universe.pool_names)
        if {len(link), *map(len, link)} != {len(values), universe.k} or len(link) != len(values):
            rule = f"must have {len(values)} rows (values) of {universe.k} numbers (pools)"
            raise InputError(rule, value=[len(row) for row in link])
        return as_link(link)


def number_link(probability: float, values: Sequence[str], pools: Sequence[str]) -> Floats:
    """Return the link (values, pools) where the pool of the same name has this probability, and others equal ones."""
    for name in values:
        if name not in pools:
            remedy = "give a link as a matrix, a row for each value" if len(pools) != len(values) else None
            raise InputError("every value must be a pool", value=name, remedy=remedy)
    for name in pools:
        if name not in values:
            remedy = did_you_mean(name, values) + " or give a link as a matrix"
            raise InputError("every pool must be a value of the attribute", value=name, remedy=remedy)
    same = np.array([[value == pool for pool in pools] for value in values])
    return np.where(same, probability, (1.0 - probability) / (len(pools) - 1))


def read_link(path: Path, attribute: str, values: Sequence[str], pools: Sequence[str]) -> Floats:
    """Read a link from a table: a row for each value, in a column ``value`` or the attribute's name, and the pools."""
    table = read_table(path, pools, optional=("value", attribute))
    column = "value" if "value" in table.frame.columns else attribute
    with located(file=path):
        if column not in table.frame.columns:
            raise InputError("must have a column 'value'", value=table.frame.columns)
        names = table.names(column).cast(pl.String).to_list()
        for row, name in enumerate(names):
            if name not in values or name in names[:row]:
                rule = "every row must be another value of the attribute"
                raise table.wrong(rule, row, name)
        for name in values:
            if name not in names:
                raise InputError("must have a row for each value", value=name)
        rows = np.stack([table.numbers(pool, high=1.0) for pool in pools], axis=1)
        off = np.flatnonzero(np.abs(rows.sum(axis=1) - 1) > ROW_SUM_TOLERANCE)
        if len(off):
            raise table.wrong("rows of a link must sum to 1", int(off[0]), rows[off[0]].tolist())
        return as_link(rows[[names.index(name) for name in values]])
