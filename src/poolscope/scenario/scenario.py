"""Scenarios: validated tables that define every part of a game, from TOML or Python, and back to TOML."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field, PrivateAttr, ValidationError, model_validator

from poolscope.core.errors import InputError, did_you_mean, located, reading
from poolscope.core.files import check_regular, json_safe
from poolscope.core.machine import check_memory
from poolscope.core.validation import input_error, rejection
from poolscope.scenario import collection_tables as several
from poolscope.scenario.tables import (
    FILE_PARAMETERS,
    OUTSIDE,
    AdversaryTable,
    AttackTable,
    DevicesTable,
    MechanismTable,
    Name,
    PopularityTable,
    TomlTable,
    UniverseTable,
    UsersTable,
    is_inside,
    set_key,
)
from poolscope.scenario.toml import merged_toml, parse_toml, toml_data

if TYPE_CHECKING:
    import numpy as np

    from poolscope.core.arrays import Map
    from poolscope.game.game import Game
    from poolscope.population.universe import Universe


BYTES_PER_OBJECT = 40
"""Memory of an object, for the population and for each adversary: its pool, popularity and weight."""

MAX_FILE_BYTES = 1_000_000
"""Maximum size of a scenario file; data belongs in separate files."""


@dataclass(frozen=True, kw_only=True)
class _Source:
    """The origin of a scenario: its name, file, folder and text. A built-in scenario has no folder."""

    name: str = "scenario"
    file: str = "scenario"
    folder: Path | None = Path()
    text: str = ""
    overrides: Mapping[str, Any] = field(default_factory=dict)


class Scenario(TomlTable):
    """A validated scenario: its tables, and methods that build what they describe.

    Created by :func:`load_scenario`, from tables by :meth:`from_dict`, or from another one by :meth:`replace`. Tables
    that the file does not have are None, except ``devices``, which has defaults. ``source`` cites the publication of a
    deployment's parameters; ``historical`` marks a retired deployment. The tables define the game, and ``text`` is
    derived from them.

    Examples
    --------
    >>> scenario = ps.load_scenario("apple-emojis")
    >>> scenario.title, scenario.mechanism.kind, scenario.universe().size
    ('Emojis as collected by Apple (2017)', 'cms', 2600)
    >>> scenario.replace({"mechanism.epsilon": 2}).mechanism.epsilon
    2.0
    """

    title: str = ""
    source: Name | None = None
    historical: bool = False
    universe_table: UniverseTable = Field(default_factory=UniverseTable.model_construct, alias="universe")
    popularity_table: PopularityTable | None = Field(default=None, alias="popularity")
    mechanism_table: MechanismTable | None = Field(default=None, alias="mechanism")
    devices: DevicesTable = DevicesTable()
    users: UsersTable | None = None
    attribute: several.AttributeTable | None = None
    collections: Annotated[tuple[several.CollectionTable, ...], Field(strict=False, alias="collection")] = ()
    multidimensional: several.MultidimensionalTable | None = None
    adversaries: Annotated[tuple[AdversaryTable, ...], Field(strict=False)] = Field(default=(), alias="adversary")
    attack: AttackTable | None = None
    _source: _Source = PrivateAttr(default_factory=_Source)

    def __init__(self, /, **tables: Any) -> None:
        data = toml_data(tables)
        try:
            super().__init__(**data)
        except ValidationError as invalid:
            raise input_error(invalid) from invalid

    @classmethod
    def from_dict(
        cls, tables: Mapping[str, Any], *, folder: str | os.PathLike[str] | None = None, name: str | None = None
    ) -> Self:
        """Create a scenario from its tables, nested as in its file.

        Parameters
        ----------
        tables : ``{"universe": {"size": 20, "pools": {"a": 5, "b": 5}}, "mechanism": {"kind": "grr", "epsilon": 1}}``;
            tuples and NumPy values are converted, and keys with None are dropped.
        folder : folder of the files that it names; default: the current directory.
        name : its name in results.
        """
        if not isinstance(tables, Mapping):
            raise InputError("tables must be a mapping, nested as in a scenario file", value=tables)
        if folder is not None and not isinstance(folder, str | os.PathLike):
            raise InputError("folder must be a path", value=folder)
        name = "scenario" if name is None else name
        return cls._made(tables, _Source(name=name, file=name, folder=Path() if folder is None else Path(folder)))

    @classmethod
    def _made(cls, tables: Mapping[str, Any], source: _Source) -> Self:
        """Create a scenario with its origin; the files that it names are not read."""
        if not isinstance(source.name, str) or not source.name:
            raise InputError("name must be a string", value=source.name)
        with located(file=source.file):
            made = cls(**toml_data(tables))
        made._source = source
        if made.collections:
            made.parts  # noqa: B018  # checks each collection
        elif made.universe_table.objects is None:
            made.universe()
        return made

    def replace(self, changes: Mapping[str, Any], *, name: str | None = None) -> Self:
        """Return the scenario with some keys set, each named with dots; None removes a key.

        Parameters
        ----------
        changes : as ``{"mechanism.epsilon": 2, "devices.cap": None}``; a table or a list can be set as a whole.
        name : its name in results; default: unchanged.
        """
        if not isinstance(changes, Mapping):
            raise InputError("changes must be a mapping from keys, as mechanism.epsilon, to values", value=changes)
        tables, source = self.to_dict(), self._source
        with located(file=source.file):
            for key, value in changes.items():
                set_key(Scenario, tables, key, value)
        if name is not None:
            source = replace(source, name=name, file=name if source.file == source.name else source.file)
        return self._made(tables, source)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy; `update` is an error, as it would not be validated."""
        if update:
            remedy = 'use scenario.replace({"mechanism.epsilon": 2})'
            raise InputError("a scenario cannot be updated by model_copy", value=list(update), remedy=remedy)
        return super().model_copy(deep=deep)

    @model_validator(mode="after")
    def _agree(self) -> Self:
        """Check the rules between tables."""
        several.check_collections(self)
        numbered = not self.collections and self.universe_table.objects is None
        remedy = "only a file of objects in [universe] can have a column popularity"
        if numbered and self.popularity_table and self.popularity_table.kind == "given":
            raise rejection("must not be 'given'", key="popularity.kind", remedy=remedy)
        names: set[str] = set()
        for i, adversary in enumerate(self.adversaries):
            if adversary.name in names:
                key = f"adversary[{i}].name"
                raise rejection("must be unique", key=key, value=adversary.name)
            names.add(adversary.name)
            if "knows_memoization" in adversary.model_fields_set and not self.memoizes:
                key = f"adversary[{i}].knows_memoization"
                raise rejection("requires memoize = true in [devices]", key=key, value=adversary.knows_memoization)
            if numbered and adversary.popularity == "given" and adversary.file is None:
                key = f"adversary[{i}].popularity"
                raise rejection("must have a file to be 'given'", key=key, remedy=remedy)
        return self

    @property
    def name(self) -> str:
        """The built-in name, or the file name without its suffix."""
        return self._source.name

    @property
    def mechanism(self) -> MechanismTable:
        """The table ``[mechanism]``; an error where there are several collections, each with its own."""
        if self.mechanism_table is None:
            raise several.several_collections(self)
        return self.mechanism_table

    @cached_property
    def parts(self) -> tuple[Scenario, ...]:
        """Each collection as a scenario of its own, without observation counts."""
        return tuple(
            several.collection_parts(self, lambda tables, name: self._made(tables, replace(self._source, **name)))
        )

    @cached_property
    def text(self) -> str:
        """The scenario as TOML: as it was read, or with replaced keys; comments are kept."""
        tables, original = self.to_dict(), self._source.text
        if original and same_tables(original, tables):
            return original
        merged = merged_toml(original, tables)
        return merged if same_tables(merged, tables) else merged_toml("", tables)

    @property
    def file(self) -> str:
        """The file as named in messages; for a built-in scenario its name."""
        return self._source.file

    @property
    def memoizes(self) -> bool:
        """Whether devices memoize: by ``[devices]``, or by default of the mechanism."""
        return any(map(several.is_memoizing, self.collections or (self,)))

    @property
    def tells_users_apart(self) -> bool:
        """Whether reports of two pseudonyms are independent; those of one device share its memoized responses."""
        return self.devices.rotate_after is None or not self.memoizes

    @property
    def named_files(self) -> list[str]:
        """The files that the scenario names."""
        if self.collections:
            return several.files_of_collections(self)
        named = [self.universe_table.objects, self.users.traces if self.users else None]
        named += [str(value) for name, value in self.mechanism.parameters.items() if name in FILE_PARAMETERS]
        named += [adversary.file for adversary in self.adversaries]
        return list(dict.fromkeys(name for name in named if name))

    @property
    def overrides(self) -> dict[str, Any]:
        """Values that a command overrode, by the names of its options."""
        return dict(self._source.overrides)

    def with_overrides_recorded(self, overrides: Mapping[str, Any]) -> Self:
        """Return the scenario with these overridden values on record."""
        made = self.model_copy()
        made._source = replace(self._source, overrides=overrides)
        return made

    def universe(self) -> Universe:
        """Return the universe of ``[universe]``; a file of objects is read once."""
        if self.collections:
            raise several.several_collections(self)
        return self._objects[0]

    def game(self, seed: int, threads: Map = map) -> Game:
        """Build the game of this scenario. Estimated popularities derive from the run's seed."""
        from poolscope.scenario.build import build_game

        return build_game(self, seed, threads)

    def true_popularity(self, universe: Universe) -> np.ndarray:
        """Return (size,) float64 the popularity of ``[popularity]``."""
        import numpy as np

        from poolscope.population import popularity

        table = self.popularity_table
        if table is None:
            raise self.missing("popularity")
        if table.kind == "zipf":
            assert table.exponent is not None
            return popularity.zipf(universe, table.exponent)
        if table.kind == "random":
            return popularity.random(universe, np.random.default_rng(table.seed))
        return popularity.uniform(universe) if table.kind == "uniform" else self._column(universe)

    def given_popularity(self, adversary: AdversaryTable, universe: Universe) -> np.ndarray:
        """Return the given popularity of an adversary, from its own file or from the file of objects."""
        from poolscope.population.popularity import read_popularity

        if adversary.file is None:
            return self._column(universe)
        return read_popularity(self.resolve(adversary.file), universe)

    def resolve(self, path: str, *, place: str | None = None) -> Path:
        """Resolve a path relative to the scenario's folder, inside which it must stay.

        ``place`` is the key of the path, for messages.
        """
        # a scenario is read without the libraries of tables
        from poolscope.core.tables import local_paths

        with located(file=self.file, place=place):
            if not is_inside(path):
                raise InputError(OUTSIDE, value=path)
            if self._source.folder is None:
                remedy = f"write it beside them first: poolscope scenarios {self.name} > mine.toml"
                raise InputError("a scenario without a folder cannot name files", value=path, remedy=remedy)
            target = self._source.folder / path
            # a scenario and its folder are untrusted, and a link can point anywhere
            found = [target, *(target.rglob("*") if target.is_dir() else local_paths(target))]
            if not all(file.resolve().is_relative_to(self._source.folder.resolve()) for file in found):
                raise InputError("must not be a link out of the scenario's folder", value=path, remedy="copy the file")
            return target

    def input_paths(self, *others: str | os.PathLike[str] | None) -> list[Path]:
        """Return all files that a command reads: the scenario, the files that it names, and others that are given."""
        from poolscope.core.tables import local_paths

        own = [] if self.file == self.name else [self.file]
        named = [path for name in self.named_files for path in local_paths(self.resolve(name))]
        return [Path(path) for path in (*own, *named, *others) if path is not None]

    def missing(self, table: str) -> InputError:
        """Return the error of a missing table."""
        return InputError(f"must have a table [{table}]", file=self.file)

    def about(self) -> dict[str, Any]:
        """Return the description of the scenario that results store, for JSON."""
        about = {"name": self.name, "file": self.file, "title": self.title or self.name, "text": self.text}
        return about | {"asked": json_safe(self.overrides)}

    def to_dict(self) -> dict[str, Any]:
        """Return the tables, nested as in the file; the inverse of :meth:`from_dict`."""
        tables: dict[str, Any] = toml_data(self.model_dump(by_alias=True, exclude_unset=True))
        return tables

    def dump(self) -> dict[str, Any]:
        """Return the tables for JSON, with infinity as the string "inf"."""
        tables: dict[str, Any] = json_safe(self.to_dict())
        return tables

    @cached_property
    def _objects(self) -> tuple[Universe, np.ndarray | None]:
        from poolscope.population.builtin import builtin_universe
        from poolscope.population.universe import Universe, read_objects

        table = self.universe_table
        if table.builtin is not None:
            with located(file=self.file, place="universe.builtin"):
                content: tuple[Universe, np.ndarray | None] = builtin_universe(table.builtin), None
        elif table.objects is not None:
            content = read_objects(self.resolve(table.objects, place="universe.objects"))
        else:
            assert table.size is not None
            assert table.pools is not None
            with located(file=self.file, place="universe"):
                taken = table.size * BYTES_PER_OBJECT * (1 + len(self.adversaries))
                check_memory(f"{table.size:,} objects", taken, "take a smaller size")
                content = Universe.sized(table.size, table.pools), None
        pools = content[0].pool_names
        priors = {f"adversary[{i}].prior": (own.prior, own.pools or pools) for i, own in enumerate(self.adversaries)}
        drawn = self.users.behaviors if self.users else {}
        for place, (prior, names) in (priors | {f"users.{at}": (one, pools) for at, one in drawn.items()}).items():
            with located(file=self.file, place=place):
                prior.pool_weights(tuple(names))
        return content

    def _column(self, universe: Universe) -> np.ndarray:
        """Return the popularity column of the file of objects."""
        from poolscope.population.popularity import given

        assert self.universe_table.objects is not None
        with located(file=self.resolve(self.universe_table.objects)):
            weights = self._objects[1]
            if weights is None:
                raise InputError("must have a column 'popularity'")
            return given(universe, weights)


def load_scenario(name_or_path: str | os.PathLike[str]) -> Scenario:
    """Load a scenario: a built-in name, or a TOML file.

    Files that the scenario names are read when they are needed.

    Examples
    --------
    >>> ps.load_scenario("apple-web-domains").mechanism.epsilon
    8.0
    >>> ps.load_scenario("apple-emoji")
    Traceback (most recent call last):
        ...
    poolscope.core.errors.InputError: unknown scenario, neither buil...ple-emoji'; did you mean 'apple-emojis'?
    """
    if not isinstance(name_or_path, str | os.PathLike):
        raise InputError("must be a built-in name or a path", value=name_or_path)
    name = os.fspath(name_or_path)
    known = builtin_names()
    if name in known:
        return parse(builtin_text(name), name=name)
    if os.path.basename(name) == name and not name.endswith(".toml") and not os.path.exists(name):
        rule = "unknown scenario, neither built in nor a file"
        raise InputError(rule, value=name, remedy=did_you_mean(name, known))
    path = Path(name)
    check_regular(path)
    with reading(path):
        with path.open("rb") as stream:
            content = stream.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise InputError(f"must have at most {MAX_FILE_BYTES} bytes")
        # some editors write a byte order mark, which is not valid TOML
        text = content.decode("utf-8-sig")
    return parse(text, name=path.stem, file=path)


def parse(text: str, *, name: str, file: str | os.PathLike[str] | None = None) -> Scenario:
    """Parse the TOML text of a scenario; without a file, it cannot name other files."""
    file, folder = (name, None) if file is None else (os.fspath(file), Path(file).parent)
    with located(file=file):
        tables = parse_toml(text)
    return Scenario._made(tables, _Source(name=name, file=file, folder=folder, text=text))


def same_tables(text: str, tables: Mapping[str, Any] | str) -> bool:
    """Return whether a text has the same tables as another text or mapping, including the order of pools."""
    if text == tables:
        return True
    try:
        one, other = (Scenario(**(parse_toml(t) if isinstance(t, str) else t)).to_dict() for t in (text, tables))
    except InputError:
        return False
    for each in (one, other):
        for entry in (each, *each.get("collection", ())):
            if "mechanism" in entry:
                entry["mechanism"] = dict(sorted(entry["mechanism"].items()))
    return json.dumps(one, ensure_ascii=False) == json.dumps(other, ensure_ascii=False)


def scenario_from_record(about: Any) -> Scenario:
    """Restore the scenario of a `Scenario.about` record; files that it names are not read."""
    if not isinstance(about, dict) or not all(isinstance(about.get(key), str) for key in ("name", "file", "text")):
        raise InputError("must have the strings name, file and text", place="scenario")
    overrides = about.get("asked", {})
    if not isinstance(overrides, dict):
        raise InputError("must be an object", value=overrides, place="scenario.asked")
    return parse(about["text"], name=about["name"], file=about["file"]).with_overrides_recorded(overrides)


def builtin_names() -> list[str]:
    """Return the names of the built-in scenarios."""
    folder = resources.files("poolscope.scenario") / "builtin"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def builtin_text(name: str) -> str:
    """Return the TOML text of a built-in scenario."""
    known = builtin_names()
    if name not in known:
        raise InputError("unknown scenario", value=name, remedy=did_you_mean(name, known))
    return (resources.files("poolscope.scenario") / "builtin" / f"{name}.toml").read_text("utf-8")
