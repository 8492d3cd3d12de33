"""The tables of a scenario with several collections of one person: ``[attribute]`` and ``[[collection]]``.

A person has an attribute, and in each collection a preferred pool that depends on it. Every collection is a scenario
of its own, with the users, adversaries and attack of the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Annotated, Any, Self, TypeVar

from pydantic import AfterValidator, BaseModel, Discriminator, Field, Tag, model_validator

from poolscope.core.errors import InputError, did_you_mean
from poolscope.core.validation import rejection
from poolscope.scenario.tables import (
    DevicesTable,
    MechanismTable,
    Name,
    NotNegative,
    PopularityTable,
    RelativePath,
    TomlTable,
    UniverseTable,
)

Made = TypeVar("Made")

JOINT, WITHOUT = "joint", "without "
"""Names in results: all collections together, and all but one."""

SHARED_USERS = ("count", "sigma", "behavior")
"""Keys of ``[users]`` that apply to every collection."""

SHARED_ADVERSARY = ("name", "popularity", "estimate_from", "method", "prior", "knows_memoization", "links")
"""Keys of ``[[adversary]]`` that apply to every collection."""

PER_COLLECTION = ("universe", "popularity", "mechanism", "devices")
"""Tables that each collection has instead of the scenario."""

ROW_SUM_TOLERANCE = 1e-6
"""Largest deviation from 1 of a row of a link."""


def _distinct(names: tuple[str, ...]) -> tuple[str, ...]:
    if any(later == earlier for earlier, later in pairwise(sorted(names))):
        raise rejection("must be different", value=list(names))
    return names


def _rows_sum_to_one(rows: tuple[tuple[float, ...], ...]) -> tuple[tuple[float, ...], ...]:
    for row in rows:
        if abs(sum(row) - 1) > ROW_SUM_TOLERANCE:
            raise rejection("rows of a link must sum to 1", value=list(row))
    return rows


def _form(value: object) -> str:
    """Return the form of a link: a number, a file, or a matrix."""
    if isinstance(value, list | tuple):
        return "<matrix>"
    return "<file>" if isinstance(value, str) else "<number>"


LinkRow = Annotated[tuple[NotNegative, ...], Field(strict=False, min_length=2)]
Link = Annotated[
    Annotated[float, Field(ge=0, le=1), Tag("<number>")]
    | Annotated[RelativePath, Tag("<file>")]
    | Annotated[
        tuple[LinkRow, ...], Field(strict=False, min_length=2), AfterValidator(_rows_sum_to_one), Tag("<matrix>")
    ],
    Discriminator(_form),
]
"""Pr[preferred pool | value]: the probability of the pool of the same name, a CSV file, or the rows of a matrix."""


class AttributeTable(TomlTable):
    """``[attribute]``: what all collections are about, and its values."""

    name: Name
    values: Annotated[tuple[Name, ...], Field(strict=False, min_length=2), AfterValidator(_distinct)]


class CollectionTable(TomlTable):
    """``[[collection]]``: reports of one kind, with their own universe, popularity, mechanism and devices.

    Without ``link``, the preferred pool is that of the attribute's value, by name. A number is the probability of that
    pool; otherwise another one is preferred, each with the same probability. A file or a matrix has a row for each
    value and a column for each pool.
    """

    name: Name
    universe: UniverseTable
    popularity: PopularityTable | None = None
    mechanism: MechanismTable
    devices: DevicesTable = DevicesTable()
    link: Link | None = None

    @model_validator(mode="after")
    def _free_name(self) -> Self:
        if self.name == JOINT or self.name.startswith(WITHOUT):
            raise rejection("is a name of several collections in results", key="name", value=self.name)
        return self


def check_collections(scenario: Any) -> None:
    """Check the rules between ``[attribute]``, ``[[collection]]`` and the other tables."""
    given = scenario.model_fields_set
    if not scenario.collections:
        if scenario.attribute is not None:
            raise rejection("goes only with [[collection]]", key="attribute")
        for field, key in (("universe_table", "universe"), ("mechanism_table", "mechanism")):
            if field not in given:
                raise rejection("is missing", key=key)
        for i, adversary in enumerate(scenario.adversaries):
            if "links" in adversary.model_fields_set:
                raise rejection("goes only with [[collection]]", key=f"adversary[{i}].links")
        return
    if scenario.attribute is None:
        remedy = 'write [attribute] with a name and values, as ["left", "right"]'
        raise rejection("is missing", key="attribute", remedy=remedy)
    for field in ("universe_table", "popularity_table", "mechanism_table", "devices"):
        if field in given:
            key = field.removesuffix("_table")
            raise rejection("belongs to a [[collection]] where there are any", key=key, remedy="move it there")
    names = [collection.name for collection in scenario.collections]
    for i, name in enumerate(names):
        if name in names[:i]:
            raise rejection("must be unique", key=f"collection[{i}].name", value=name)
    _check_shared(scenario, names)


def _check_shared(scenario: Any, names: list[str]) -> None:
    """Check that the shared tables have only keys that every collection can use."""
    rule, values = "goes not with [[collection]]", scenario.attribute.values
    for key in scenario.users.model_fields_set if scenario.users else ():
        if key not in SHARED_USERS:
            raise rejection(rule, key=f"users.{key}")
    if scenario.users and scenario.users.behavior:
        _check_prior(scenario.users.behavior, values, "users.behavior")
    for i, adversary in enumerate(scenario.adversaries):
        for key in adversary.model_fields_set:
            if key not in SHARED_ADVERSARY:
                raise rejection(rule, key=f"adversary[{i}].{key}")
        for name in adversary.links:
            if name not in names:
                remedy = did_you_mean(name, names)
                raise rejection("unknown collection", key=f"adversary[{i}].links.{name}", remedy=remedy)
        _check_prior(adversary.prior, values, f"adversary[{i}].prior")


def _check_prior(prior: Any, values: tuple[str, ...], place: str) -> None:
    """Check a prior: its pools are the values of the attribute, and nothing is fitted."""
    for key in ("interest", "polarization", "pools"):
        if getattr(prior, key) in ("fitted", "popularity"):
            rule = "must not be fitted or given by the popularity with [[collection]]"
            raise rejection(rule, key=f"{place}.{key}", value=getattr(prior, key))
    if prior.none:
        raise rejection("goes not with [[collection]]", key=f"{place}.none")
    if isinstance(prior.pools, dict):
        for name in prior.pools:
            if name not in values:
                raise rejection(
                    "unknown value of the attribute", key=f"{place}.pools.{name}", remedy=did_you_mean(name, values)
                )
        for name in values:
            if name not in prior.pools:
                raise rejection("is missing", key=f"{place}.pools.{name}")


def several_collections(file: str) -> InputError:
    """Return the error of a command that takes a single collection."""
    remedy = "several collections are for audit and attack; write one of them as a scenario"
    return InputError("must have tables [universe] and [mechanism]", file=file, remedy=remedy)


def is_memoizing(tables: Any) -> bool:
    """Return whether the devices of a scenario or a collection memoize."""
    from poolscope.devices.memoized import is_memoized
    from poolscope.devices.registry import MECHANISMS

    return is_memoized(MECHANISMS.get(tables.mechanism.kind), tables.devices.memoize)


def files_of_collections(scenario: Any) -> list[str]:
    """Return the files that collections and their links name."""
    links = [own.link for own in scenario.collections if isinstance(own.link, str)]
    return list(dict.fromkeys([name for part in scenario.parts for name in part.named_files] + links))


def collection_parts(scenario: Any, make: Callable[[dict[str, Any], dict[str, Any]], Made]) -> Iterator[Made]:
    """Yield each collection as a scenario; errors have the places of the whole."""
    tables = scenario.to_dict()
    for index, own in enumerate(scenario.collections):
        try:
            yield make(
                collection_tables(tables, index, is_memoizing(own)), {"name": own.name, "text": "", "overrides": {}}
            )
        except InputError as error:
            place = error.place or ""
            if not place.startswith(("adversary", "users")):
                error.place = f"collection[{index}]" + (f".{place}" if place else "")
            raise


def collection_tables(tables: dict[str, Any], index: int, memoizes: bool) -> dict[str, Any]:
    """Return the tables of one collection as a scenario of its own: pools are evenly preferred there.

    Observations are left out: those of the whole are days.
    """
    own = tables["collection"][index]
    made: dict[str, Any] = {key: own[key] for key in PER_COLLECTION if key in own}
    made["title"] = own["name"]
    if "users" in tables:
        made["users"] = _without_pools(tables["users"], "behavior")
    omitted = {"links"} if memoizes else {"links", "knows_memoization"}
    made["adversary"] = [
        _without_pools({key: value for key, value in entry.items() if key not in omitted}, "prior")
        for entry in tables.get("adversary", [])
    ]
    return made


def _without_pools(table: dict[str, Any], key: str) -> dict[str, Any]:
    if not isinstance(table.get(key), BaseModel | dict):
        return table
    return {**table, key: {name: value for name, value in table[key].items() if name != "pools"}}
