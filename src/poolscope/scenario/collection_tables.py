"""The tables of a scenario with several collections of one person: ``[attribute]`` and ``[[collection]]``.

A person has an attribute, and in each collection a preferred pool that depends on it. Every collection is a scenario
of its own, with the users, adversaries and attack of the whole. With ``[multidimensional]``, all collections are sent
in one report, a tuple, with one ε.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Annotated, Any, Literal, Self, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, Discriminator, Field, Tag, model_validator

from poolscope.core.errors import InputError, did_you_mean
from poolscope.core.validation import rejection
from poolscope.scenario.tables import (
    DevicesTable,
    Link,
    MechanismTable,
    Name,
    PopularityTable,
    Positive,
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

COMMON_DEVICES = ("reports_per_day", "sampling_rate", "cap")
"""Keys of ``[devices]`` that go with ``[multidimensional]``: reports are fresh, under one pseudonym."""


def _distinct(names: tuple[str, ...]) -> tuple[str, ...]:
    if any(later == earlier for earlier, later in pairwise(sorted(names))):
        raise rejection("must be different", value=list(names))
    return names


class AttributeTable(TomlTable):
    """``[attribute]``: what all collections are about, and its values."""

    name: Name
    values: Annotated[tuple[Name, ...], Field(strict=False, min_length=2), AfterValidator(_distinct)]


class CollectionTable(TomlTable):
    """``[[collection]]``: reports of one kind, with their own universe, popularity, mechanism and devices.

    Without ``link``, the preferred pool is that of the attribute's value, by name. A number is the probability of that
    pool; otherwise another one is preferred, each with the same probability. A file or a matrix has a row for each
    value and a column for each pool. With ``[multidimensional]``, ``mechanism`` may name a randomizer by its kind.
    """

    name: Name
    universe: UniverseTable
    popularity: PopularityTable | None = None
    mechanism: MechanismTable | None = None
    devices: DevicesTable = DevicesTable()
    link: Link | None = None

    @model_validator(mode="after")
    def _free_name(self) -> Self:
        if self.name == JOINT or self.name.startswith(WITHOUT):
            raise rejection("is a name of several collections in results", key="name", value=self.name)
        return self


Randomizer = Literal["grr", "sue", "oue"]
"""Kinds of randomizers of an attribute of a tuple."""

RANDOMIZERS: tuple[str, ...] = get_args(Randomizer)


Priors = Annotated[
    Annotated[Literal["uniform", "popularity"], Tag("<name>")] | Annotated[dict[str, RelativePath], Tag("<files>")],
    Discriminator(lambda value: "<files>" if isinstance(value, dict) else "<name>"),
]
"""Distributions of realistic fake data: by name, or a file for each collection."""


class MultidimensionalTable(TomlTable):
    """``[multidimensional]``: all collections of a person in one report, a tuple with a value of each.

    ``epsilon`` holds for whole tuples. ``claimed_epsilon`` instead is what the papers of RS+FD and RS+RFD claim.
    """

    kind: Literal["spl", "smp", "rs+fd", "rs+rfd"]
    epsilon: Positive | None = None
    claimed_epsilon: Positive | None = None
    randomizer: Randomizer = "grr"
    fake: Literal["zero", "random"] | None = None
    priors: Priors | None = None

    @model_validator(mode="after")
    def _parameters(self) -> Self:
        if self.epsilon is None and self.claimed_epsilon is None:
            raise rejection("is missing", key="epsilon")
        self._only(self.epsilon is None, "claimed_epsilon", "a table without epsilon")
        self._only(self.kind.startswith("rs+"), "claimed_epsilon", 'kind = "rs+fd" or "rs+rfd"')
        self._only(self.kind == "rs+fd", "fake", 'kind = "rs+fd"')
        self._only(self.kind == "rs+rfd", "priors", 'kind = "rs+rfd"')
        if self.kind == "rs+rfd" and self.priors is None:
            remedy = 'write priors = "popularity", or a file for each collection'
            raise rejection("is missing", key="priors", remedy=remedy)
        return self

    def randomizer_epsilon(self, d: int) -> float:
        """Return the ε of the randomizer of one of d attributes."""
        if self.epsilon is None:
            assert self.claimed_epsilon is not None
            return math.log1p(d * math.expm1(self.claimed_epsilon))
        return self.epsilon / d if self.kind == "spl" else self.epsilon


def check_collections(scenario: Any) -> None:
    """Check the rules between ``[attribute]``, ``[[collection]]`` and the other tables."""
    given = scenario.model_fields_set
    if not scenario.collections:
        for key in ("attribute", "multidimensional"):
            if getattr(scenario, key) is not None:
                raise rejection("requires [[collection]]", key=key)
        for field, key in (("universe_table", "universe"), ("mechanism_table", "mechanism")):
            if field not in given:
                raise rejection("is missing", key=key)
        for i, adversary in enumerate(scenario.adversaries):
            if "links" in adversary.model_fields_set:
                raise rejection("requires [[collection]]", key=f"adversary[{i}].links")
        return
    if scenario.attribute is None:
        remedy = 'write [attribute] with a name and values, as ["left", "right"]'
        raise rejection("is missing", key="attribute", remedy=remedy)
    for field in ("universe_table", "popularity_table", "mechanism_table", "devices"):
        if field in given and not (field == "devices" and scenario.multidimensional):
            key = field.removesuffix("_table")
            raise rejection("belongs to a [[collection]] where there are any", key=key, remedy="move it there")
    names = [collection.name for collection in scenario.collections]
    for i, name in enumerate(names):
        if name in names[:i]:
            raise rejection("must be unique", key=f"collection[{i}].name", value=name)
    if scenario.multidimensional is None:
        for i, own in enumerate(scenario.collections):
            if own.mechanism is None:
                raise rejection("is missing", key=f"collection[{i}].mechanism")
    else:
        _check_multidimensional(scenario, names)
    _check_shared(scenario, names)


def _check_multidimensional(scenario: Any, names: list[str]) -> None:
    """Check that collections have nothing that is common to a tuple, and that the common tables fit fresh reports."""
    table, common = scenario.multidimensional, "is common with [multidimensional]"
    if len(names) < 2:
        raise rejection("must be two or more with [multidimensional]", key="collection", value=len(names))
    for i, own in enumerate(scenario.collections):
        if "devices" in own.model_fields_set:
            raise rejection(common, key=f"collection[{i}].devices", remedy="write a table [devices]")
        if own.name == "user" or (own.name == "sampled" and table.kind == "smp"):
            rule = "is another column of tuple reports"
            raise rejection(rule, key=f"collection[{i}].name", value=own.name)
        if own.mechanism is None:
            continue
        for key in own.mechanism.parameters:
            remedy = "write it in [multidimensional]" if key == "epsilon" else "give the kind alone"
            raise rejection(common, key=f"collection[{i}].mechanism.{key}", remedy=remedy)
        if own.mechanism.kind not in RANDOMIZERS:
            rule = f"must be {', '.join(RANDOMIZERS)} with [multidimensional]"
            raise rejection(rule, key=f"collection[{i}].mechanism.kind", value=own.mechanism.kind)
    for key in scenario.devices.model_fields_set:
        if key not in COMMON_DEVICES:
            raise rejection("cannot be combined with [multidimensional]", key=f"devices.{key}")
    if table.fake is not None and set(randomizers_of(scenario)) == {"grr"}:
        rule = "is for sue and oue: fake values of grr are uniform"
        raise rejection(rule, key="multidimensional.fake", value=table.fake)
    for i, adversary in enumerate(scenario.adversaries):
        if adversary.method not in (None, "linear"):
            rule = "must be linear with [multidimensional]"
            raise rejection(rule, key=f"adversary[{i}].method", value=adversary.method)
    if isinstance(table.priors, dict):
        for name in table.priors:
            if name not in names:
                remedy = did_you_mean(name, names)
                raise rejection("unknown collection", key=f"multidimensional.priors.{name}", remedy=remedy)
        for name in names:
            if name not in table.priors:
                raise rejection("is missing", key=f"multidimensional.priors.{name}")


def randomizers_of(scenario: Any) -> list[str]:
    """Return the kind of each collection's randomizer."""
    default = scenario.multidimensional.randomizer
    return [default if own.mechanism is None else own.mechanism.kind for own in scenario.collections]


def _check_shared(scenario: Any, names: list[str]) -> None:
    """Check that the shared tables have only keys that every collection can use."""
    rule, values = "cannot be combined with [[collection]]", scenario.attribute.values
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
        raise rejection("cannot be combined with [[collection]]", key=f"{place}.none")
    if isinstance(prior.pools, dict):
        for name in prior.pools:
            if name not in values:
                raise rejection(
                    "unknown value of the attribute", key=f"{place}.pools.{name}", remedy=did_you_mean(name, values)
                )
        for name in values:
            if name not in prior.pools:
                raise rejection("is missing", key=f"{place}.pools.{name}")


def several_collections(scenario: Any) -> InputError:
    """Return the error of what takes a single collection with a mechanism of its own."""
    if scenario.multidimensional:
        return tuples_unsupported(scenario.file)
    remedy = (
        "several collections are for audit, attack, advise and explore; obfuscate, inspect, estimate and check take "
        "one by name: `collection`, or Scenario.parts in Python"
    )
    return InputError("must have tables [universe] and [mechanism]", file=scenario.file, remedy=remedy)


def setting_of_each(name: str, file: str) -> InputError:
    """Return the error of an option that is about a single collection."""
    remedy = f"set {name} in the scenario"
    return InputError(f"`{name}` requires a single collection", file=file, remedy=remedy)


def tuples_unsupported(file: str) -> InputError:
    """Return the error of a command that takes no ``[multidimensional]``."""
    remedy = "tuples are for audit, check, obfuscate, estimate and attack"
    return InputError("must not have a table [multidimensional]", file=file, remedy=remedy)


def is_memoizing(tables: Any) -> bool:
    """Return whether the devices of a scenario or a collection memoize."""
    from poolscope.devices.memoized import is_memoized
    from poolscope.devices.registry import MECHANISMS

    if tables.mechanism is None:
        # an attribute of a tuple
        return False
    return is_memoized(MECHANISMS.get(tables.mechanism.kind), tables.devices.memoize)


def files_of_collections(scenario: Any) -> list[str]:
    """Return the files that collections and their links name."""
    links = [own.link for own in scenario.collections]
    links += [link for adversary in scenario.adversaries for link in adversary.links.values()]
    named = [link for link in links if isinstance(link, str)]
    priors = scenario.multidimensional.priors if scenario.multidimensional else None
    named += priors.values() if isinstance(priors, dict) else ()
    return list(dict.fromkeys([name for part in scenario.parts for name in part.named_files] + named))


def collection_parts(scenario: Any, make: Callable[[dict[str, Any], dict[str, Any]], Made]) -> Iterator[Made]:
    """Yield each collection as a scenario; errors have the places of the whole."""
    tables, common = scenario.to_dict(), scenario.multidimensional
    for index, own in enumerate(scenario.collections):
        made = collection_tables(tables, index, is_memoizing(own))
        if common is not None:
            epsilon = common.randomizer_epsilon(len(scenario.collections))
            made["mechanism"] = {"kind": randomizers_of(scenario)[index], "epsilon": epsilon}
            made |= {"devices": tables["devices"]} if "devices" in tables else {}
        try:
            yield make(made, {"name": own.name, "text": "", "overrides": {}})
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
