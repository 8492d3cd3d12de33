"""The choice of one collection of a scenario, by `--collection`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poolscope.core.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from poolscope.scenario.scenario import Scenario

OPTION = "--collection"


def load_part(scenario: str, collection: str | None) -> Scenario:
    """Load a scenario, or one collection of it as a scenario of its own."""
    return load_part_and_seed(scenario, collection, 0)[0]


def load_part_and_seed(scenario: str, collection: str | None, seed: int) -> tuple[Scenario, int]:
    """Load a scenario or one collection, and return the seed of its reports.

    Each collection has a seed of its own, as the reports of two collections must not share their noise.
    """
    from poolscope.core.randomness import collection_seed
    from poolscope.scenario.scenario import load_scenario

    loaded = load_scenario(scenario)
    if collection is None:
        return loaded, seed
    index = _index(loaded, collection)
    return loaded.parts[index], collection_seed(seed, index)


def _index(scenario: Scenario, collection: str) -> int:
    """Return the position of a collection, by its name."""
    names = [own.name for own in scenario.collections]
    if not names:
        rule, remedy = "requires a scenario with [[collection]]", "omit the option"
        raise InputError(rule, file=scenario.file, place=OPTION, value=collection, remedy=remedy)
    if scenario.multidimensional:
        rule, remedy = "cannot be combined with [multidimensional]", "one report is for all collections"
        raise InputError(rule, file=scenario.file, place=OPTION, value=collection, remedy=remedy)
    if collection not in names:
        rule, remedy = "unknown collection", did_you_mean(collection, names)
        raise InputError(rule, file=scenario.file, place=OPTION, value=collection, remedy=remedy)
    return names.index(collection)
