"""The universe: its objects, their pools, and the tables that list them.

A universe of ``size`` objects is split into ``k >= 2`` disjoint, non-empty pools of interest and a neutral pool, which
may be empty. An object is an index ``0 .. size - 1``; it may have a name. Tables have the columns ``object`` and
``pool``, in Parquet or CSV; an object without a pool is neutral.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from typing import Self

import numpy as np
import polars as pl

from poolscope.core.arguments import is_integer
from poolscope.core.arrays import Floats
from poolscope.core.errors import InputError, did_you_mean, format_value, located
from poolscope.core.tables import Batch, read_table
from poolscope.core.tables.columns import first_false

NEUTRAL = -1
"""The entry of ``pool_of`` for an object outside every pool of interest."""

MAX_OBJECTS = 100_000_000
"""Maximum size of a universe; larger ones do not fit into memory."""

MAX_SUGGESTIONS = 10_000
"""Number of names up to which a message suggests the nearest one; with more, the search takes seconds."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Universe:
    """Objects and their pools.

    Parameters
    ----------
    size
        Number of objects.
    pool_names
        The names of the ``k`` pools of interest.
    pool_of : (size,) int32
        Index of each object's pool in ``pool_names``, or -1 for a neutral object. Stored read-only.
    objects
        Name of each object, or None where objects are only numbered.

    Examples
    --------
    >>> universe = ps.Universe.named(["cat", "oak", "rain"], ["animals", "plants", ""])
    >>> universe.size, universe.pool_names, universe.pool_of.tolist()
    (3, ('animals', 'plants'), [0, 1, -1])
    """

    size: int
    pool_names: tuple[str, ...]
    pool_of: np.ndarray = field(repr=False)
    objects: tuple[str, ...] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        _check_size(self.size)
        _check_pool_names(self.pool_names)
        if self.objects is not None:
            _check_objects(self.objects, self.size)
        pool_of = np.array(self.pool_of)
        if pool_of.shape != (self.size,):
            raise InputError(
                f"must have one entry for each of {self.size} objects",
                value=pool_of.shape,
                place="pool_of",
            )
        if pool_of.dtype.kind not in "iu" or pool_of.min() < NEUTRAL or pool_of.max() >= self.k:
            raise InputError(f"must hold integers from -1 to {self.k - 1}", place="pool_of")
        pool_of = pool_of.astype(np.int32)
        pool_of.flags.writeable = False
        object.__setattr__(self, "pool_of", pool_of)
        for name, size in zip(self.pool_names, self.pool_sizes, strict=True):
            if size == 0:
                raise InputError("must have at least one object", value=0, place=f"pools.{name}")

    @classmethod
    def sized(cls, size: int, pools: Mapping[str, int]) -> Self:
        """Create a universe of numbered objects: the first belong to the pools in order, the rest is neutral."""
        _check_size(size)
        _check_mapping(pools)
        _check_pool_names(tuple(pools))
        for name, count in pools.items():
            if not is_integer(count) or count < 1:
                raise InputError("must have at least one object", value=count, place=f"pools.{name}")
        total = sum(pools.values())
        if total > size:
            raise InputError(f"must fit into the universe of {size} objects", value=total, place="pools")
        pool_of = np.full(size, NEUTRAL, dtype=np.int32)
        pool_of[:total] = np.repeat(np.arange(len(pools)), list(pools.values()))
        return cls(size=int(size), pool_names=tuple(pools), pool_of=pool_of)

    @classmethod
    def named(cls, objects: Sequence[str], pools: Sequence[str | None]) -> Self:
        """Create a universe of named objects, each with the name of its pool, or "" or None for a neutral one.

        Pools are in order of first appearance.
        """
        _check_list("objects", objects)
        _check_list("pools", pools)
        if len(pools) != len(objects):
            raise InputError(
                f"must have one entry for each of {len(objects)} objects",
                value=len(pools),
                place="pools",
            )
        position = {name: i for i, name in enumerate(dict.fromkeys(p for p in pools if p))}
        pool_of = np.array([position[p] if p else NEUTRAL for p in pools], dtype=np.int32)
        return cls(size=len(objects), pool_names=tuple(position), pool_of=pool_of, objects=tuple(objects))

    @classmethod
    def from_pools(
        cls,
        size_or_objects: int | Sequence[str],
        pools: Mapping[str, Iterable[str | int]],
    ) -> Self:
        """Create a universe from the members of its pools; all other objects are neutral.

        Parameters
        ----------
        size_or_objects
            The number of objects, or their names.
        pools
            Members of each pool: names of objects, or numbers where objects have no names.
        """
        if isinstance(size_or_objects, int | np.integer):
            size, objects = int(size_or_objects), None
            _check_size(size)
        else:
            _check_list("objects", size_or_objects)
            size, objects = len(size_or_objects), tuple(size_or_objects)
            _check_size(size)
            _check_objects(objects, size)
        _check_mapping(pools)
        names = tuple(pools)
        pool_of = np.full(size, NEUTRAL, dtype=np.int32)
        for i, name in enumerate(names):
            if isinstance(pools[name], str) or not isinstance(pools[name], Iterable):
                raise InputError("must be a list of its members", value=pools[name], place=f"pools.{name}")
            members = list(pools[name])
            found = _find(pl.Series(map(str, members), dtype=pl.String), size, objects)
            with located(place=f"pools.{name}"):
                for member, index in zip(members, found, strict=True):
                    if index is None:
                        raise _unknown(member, size, objects)
                    if pool_of[index] == i:
                        raise InputError("must list each object once", value=member)
                    if pool_of[index] != NEUTRAL:
                        other = names[pool_of[index]]
                        raise InputError(
                            f"must not overlap with pool {other!r}: both contain the object",
                            value=member,
                        )
                    pool_of[index] = i
        return cls(size=size, pool_names=names, pool_of=pool_of, objects=objects)

    @property
    def k(self) -> int:
        """Number of pools of interest."""
        return len(self.pool_names)

    @property
    def pool_sizes(self) -> np.ndarray:
        """(k,) int64, number of objects in each pool of interest."""
        return np.bincount(self.pool_of + 1, minlength=self.k + 1)[1:]

    @property
    def neutral_size(self) -> int:
        """Number of objects outside every pool of interest."""
        return self.size - int(self.pool_sizes.sum())

    def find(self, names: pl.Series) -> pl.Series:
        """Return the int64 index of each object given by name or number; null for unknown ones.

        Objects without names are given by number, in decimal without a sign or leading zeros.
        """
        return _find(names, self.size, self._names)

    def unknown(self, name: object) -> InputError:
        """Return the error of an unknown object."""
        return _unknown(name, self.size, self.objects)

    @cached_property
    def _names(self) -> pl.Series | None:
        return None if self.objects is None else pl.Series(self.objects, dtype=pl.String)


def _check_size(size: int) -> None:
    if not is_integer(size) or not 1 <= size <= MAX_OBJECTS:
        raise InputError(f"must be an integer from 1 to {MAX_OBJECTS}", value=size, place="size")


def _check_list(name: str, values: object) -> None:
    if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray | pl.Series):
        raise InputError("must be a list", value=values, place=name)


def _check_mapping(pools: object) -> None:
    if not isinstance(pools, Mapping):
        raise InputError("must be a mapping from the names of pools", value=pools, place="pools")


def _check_pool_names(names: tuple[str, ...]) -> None:
    _check_list("pools", names)
    if len(names) < 2:
        raise InputError(
            "must be at least two",
            value=list(names),
            place="pools",
            remedy="with one pool there is nothing to infer",
        )
    for name in names:
        _check_name(name, "pools")
    if len(set(names)) != len(names):
        raise InputError("must have different names", value=list(names), place="pools")


def _check_objects(objects: tuple[str, ...], size: int) -> None:
    _check_list("objects", objects)
    if len(objects) != size:
        raise InputError(f"must be {size} names", value=len(objects), place="objects")
    seen: set[str] = set()
    for name in objects:
        _check_name(name, "objects")
        if name in seen:
            raise InputError("must list each object once", value=name, place="objects")
        seen.add(name)


def _check_name(name: object, place: str) -> None:
    if not isinstance(name, str) or not name:
        raise InputError("must have names", value=name, place=place)
    # tables strip or refuse such names, see `poolscope.core.tables.columns`
    if name != name.strip():
        raise InputError("must not begin or end with white space", value=name, place=place)


def _find(names: pl.Series, size: int, objects: Sequence[str] | pl.Series | None) -> pl.Series:
    if objects is not None:
        numbers = pl.int_range(size, eager=True)
        return names.cast(pl.String).replace_strict(objects, numbers, default=None, return_dtype=pl.Int64)
    found = names.cast(pl.Int64, strict=False)
    inside = found.is_between(0, size - 1)
    if names.dtype == pl.String:
        inside &= found.cast(pl.String) == names
    return found.zip_with(inside.fill_null(False), pl.Series([None], dtype=pl.Int64))


def _unknown(name: object, size: int, objects: Sequence[str] | None) -> InputError:
    rule = "must be an object of the universe"
    if objects is None:
        return InputError(f"{rule}, a number from 0 to {size - 1}", value=name)
    return InputError(rule, value=name, remedy=did_you_mean(str(name), objects) if size <= MAX_SUGGESTIONS else None)


def read_objects(path: str | PathLike[str]) -> tuple[Universe, Floats | None]:
    """Read a universe from a table ``object,pool[,popularity]``.

    Returns
    -------
    universe
        Objects in the order of the rows.
    popularity : (size,) float64 or None
        The column as given, not normalized; None where there is no such column.
    """
    table = read_table(path, ("object", "pool"), optional=("popularity",), max_rows=MAX_OBJECTS)
    objects, pools = table.names("object").cast(pl.String), _pools(table)
    weights = table.numbers("popularity") if "popularity" in table.frame.columns else None
    with located(file=path):
        return Universe.named(objects.to_list(), pools.to_list()), weights


def read_pools(path: str | PathLike[str], universe: Universe) -> Universe:
    """Return the universe with the pools of a table ``object,pool``; objects without a pool are neutral."""
    table = read_table(path, ("object", "pool"), max_rows=MAX_OBJECTS)
    index, pools = objects_of(table, "object", universe), _pools(table)
    names = pools.filter(pools != "").unique(maintain_order=True)
    numbers = pl.int_range(len(names), eager=True)
    pool_of = np.full(universe.size, NEUTRAL, dtype=np.int32)
    pool_of[index] = pools.replace_strict(names, numbers, default=NEUTRAL, return_dtype=pl.Int32)
    with located(file=path):
        return Universe(size=universe.size, pool_names=tuple(names), pool_of=pool_of, objects=universe.objects)


def objects_of(batch: Batch, column: str, universe: Universe) -> pl.Series:
    """Return a column of objects as int64 indices into the universe."""
    names = batch.names(column)
    found = universe.find(names)
    row = first_false(found.is_not_null())
    if row is not None:
        error = universe.unknown(names[row])
        raise batch.wrong(f"{column} {error.rule}", row, names[row], error.remedy)
    return found


def check_once(table: Batch, pools: pl.Series | None = None) -> None:
    """Raise an `InputError` with both rows of an object that is listed twice."""
    objects = table.frame["object"]
    row = first_false(objects.is_first_distinct())
    if row is None:
        return
    earlier = (objects == objects[row]).arg_max() or 0
    rule = f"an object must be listed once, row {earlier + 1} has it too"
    if pools is not None and pools[earlier] != pools[row]:
        both = " and ".join(repr(pools[i] or "neutral") for i in (earlier, row))
        rule = f"an object must be in one pool, row {earlier + 1} and this one say {both}"
    raise table.wrong(rule, row, objects[row])


def _pools(table: Batch) -> pl.Series:
    """Return the pool of each object, checked for duplicate objects; the empty string is the neutral pool."""
    pools = table.names_or_none("pool").cast(pl.String).fill_null("")
    check_once(table, pools)
    _warn_of_similar_pools(table, pools)
    return pools


def _warn_of_similar_pools(table: Batch, pools: pl.Series) -> None:
    """Warn of pools whose names differ only in case or white space, as they are likely the same pool."""
    names = pools.unique(maintain_order=True).to_list()
    first: dict[str, str] = {}
    for name in names:
        other = first.setdefault("".join(name.casefold().split()), name)
        if other != name:
            row = int((pools == name).arg_max() or 0)
            both = f"pool {format_value(name)} and pool {format_value(other)} differ only in case or white space"
            rest = "they are treated as two pools; use one spelling if they are the same"
            warnings.warn(f"{table.file}: row {table.first + row}: {both}: {rest}", stacklevel=2)
