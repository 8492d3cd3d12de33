"""The universe: which objects there are, and which pool each of them is in.

A universe of ``size`` objects is split into ``k >= 2`` disjoint, non-empty pools of interest and a
neutral pool, which may be empty. An object is its index ``0 .. size - 1``; it may have a name.
"""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Self

import numpy as np

from poolscope.base.errors import InputError, did_you_mean, located, one_line, reading
from poolscope.base.tables.parquet_check import check_bytes

NEUTRAL = -1
"""The entry of ``pool_of`` for an object outside every pool of interest."""

LARGEST = 100_000_000
"""Objects that a universe can hold; more is a slip, and would not fit into memory."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Universe:
    """Objects and their pools.

    Parameters
    ----------
    size
        How many objects there are.
    pool_names
        The names of the ``k`` pools of interest.
    pool_of : (size,) int32
        For each object the index of its pool in ``pool_names``, or -1 for a neutral object.
        Stored read-only.
    objects
        The name of each object, or None where objects are only numbered.
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
        """Numbered objects: the first belong to the pools in order, the rest is neutral."""
        _check_size(size)
        _check_pool_names(tuple(pools))
        for name, count in pools.items():
            if not _is_integer(count) or count < 1:
                raise InputError("must have at least one object", value=count, place=f"pools.{name}")
        total = sum(pools.values())
        if total > size:
            raise InputError(f"must fit into the universe of {size} objects", value=total, place="pools")
        pool_of = np.full(size, NEUTRAL, dtype=np.int32)
        pool_of[:total] = np.repeat(np.arange(len(pools)), list(pools.values()))
        return cls(size=int(size), pool_names=tuple(pools), pool_of=pool_of)

    @classmethod
    def named(cls, objects: Sequence[str], pools: Sequence[str | None]) -> Self:
        """Named objects, each with the name of its pool, or "" or None for a neutral one.

        Pools are in order of first appearance.
        """
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
        """Pools given by their members; objects in none of them are neutral.

        Parameters
        ----------
        size_or_objects
            The number of objects, or their names.
        pools
            For each pool its members: names of objects, or numbers where objects have no names.
        """
        if isinstance(size_or_objects, int | np.integer):
            size, objects = int(size_or_objects), None
            _check_size(size)
        else:
            size, objects = len(size_or_objects), tuple(size_or_objects)
            _check_size(size)
            _check_objects(objects, size)
        position = _positions(size, objects)
        names = tuple(pools)
        pool_of = np.full(size, NEUTRAL, dtype=np.int32)
        for i, name in enumerate(names):
            with located(place=f"pools.{name}"):
                for member in pools[name]:
                    index = position.get(str(member))
                    if index is None:
                        raise _unknown(member, position)
                    if pool_of[index] == i:
                        raise InputError("must list each object once", value=member)
                    if pool_of[index] != NEUTRAL:
                        other = names[pool_of[index]]
                        raise InputError(
                            f"must not overlap with pool {other!r}: both have the object",
                            value=member,
                        )
                    pool_of[index] = i
        return cls(size=size, pool_names=names, pool_of=pool_of, objects=objects)

    @property
    def k(self) -> int:
        """How many pools of interest there are."""
        return len(self.pool_names)

    @property
    def pool_sizes(self) -> np.ndarray:
        """Objects in each pool of interest, (k,) int64."""
        return np.bincount(self.pool_of + 1, minlength=self.k + 1)[1:]

    @property
    def neutral_size(self) -> int:
        """Objects outside every pool of interest."""
        return self.size - int(self.pool_sizes.sum())

    def index(self, names: Iterable[str | int]) -> np.ndarray:
        """The index of each named object, (len(names),) int64.

        Objects without names are called by their number, as an integer or in decimals.
        """
        called = list(names)
        found = [self._position.get(str(name), -1) for name in called]
        if -1 in found:
            row = found.index(-1)
            raise _unknown(called[row], self._position).at(place=f"row {row + 1}")
        return np.array(found, dtype=np.int64)

    @cached_property
    def _position(self) -> dict[str, int]:
        return _positions(self.size, self.objects)


def read_objects(path: str | PathLike[str]) -> tuple[Universe, np.ndarray | None]:
    """Read a universe from a table ``object,pool[,popularity]``, CSV or Parquet.

    An empty pool is the neutral pool. Other columns are ignored.

    Returns
    -------
    universe
        Objects in the order of the rows.
    popularity : (size,) float64 or None
        The column as it stands, not rescaled; None where there is no such column.
    """
    with located(file=path):
        table = read_columns(path, required=("object", "pool"), optional=("popularity",))
        objects, pools = (_as_names(table[column], column) for column in ("object", "pool"))
        _check_distinct(objects, pools)
        weights = as_weights(table["popularity"]) if "popularity" in table else None
        return Universe.named(objects, pools), weights


def read_columns(
    path: str | PathLike[str], *, required: Sequence[str], optional: Sequence[str] = ()
) -> dict[str, list]:
    """Read columns of a table, CSV (every value is text) or Parquet, by the file's ending."""
    with reading(path):
        ending = Path(path).suffix.lower()
        if ending not in (".csv", ".parquet"):
            raise InputError("must end in .csv or .parquet")
        content = Path(path).read_bytes()
        table = _parse_parquet(content) if ending == ".parquet" else _parse_csv(content)
        for column in required:
            if column not in table:
                raise InputError(f"must have a column {column!r}", value=list(table))
        wanted = {c: table[c] for c in (*required, *optional) if c in table}
        if not wanted[required[0]]:
            raise InputError("must have at least one row")
        return wanted


def as_weights(values: Sequence[object]) -> np.ndarray:
    """A column of popularities, checked row by row, as (rows,) float64."""
    weights = np.empty(len(values))
    for row, value in enumerate(values):
        try:
            weights[row] = float(value)  # type: ignore[arg-type]  # what is no number raises
        except (TypeError, ValueError):
            weights[row] = np.nan
        if not 0 <= weights[row] < np.inf:
            raise InputError(
                "popularity must be a finite number, at least 0",
                value=value,
                place=f"row {row + 1}",
            )
    return weights


def _parse_csv(content: bytes) -> dict[str, list]:
    # Spreadsheets write a byte order mark, which is no part of the first column's name.
    lines = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True)
    try:
        header = [name.strip() for name in next(lines, [])]
        if not header:
            raise InputError("must not be empty")
        rows = []
        for fields in filter(None, lines):
            rows.append(fields)
            if len(fields) != len(header):
                raise InputError(f"must have {len(header)} fields", value=len(fields), place=f"row {len(rows)}")
    except csv.Error as error:
        raise InputError(f"must be CSV: {error}", place=f"line {lines.line_num}") from error
    if len(set(header)) != len(header):
        raise InputError("must not have two columns of one name", value=header)
    return {name: [fields[i] for fields in rows] for i, name in enumerate(header)}


def _parse_parquet(content: bytes) -> dict[str, list]:
    import polars as pl

    check_bytes(content, LARGEST)
    try:
        return pl.read_parquet(io.BytesIO(content)).to_dict(as_series=False)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise InputError(f"must be a Parquet file: {one_line(str(error))[:80]}") from error


def _as_names(values: Sequence[object], column: str) -> list[str]:
    names = ["" if value is None else str(value) for value in values]
    for row, name in enumerate(names, start=1):
        # "light " beside "light" would silently be one more pool.
        if name != name.strip():
            raise InputError(f"{column} must not begin or end with a blank", value=name, place=f"row {row}")
        if column == "object" and not name:
            raise InputError("object must have a name", value=name, place=f"row {row}")
    return names


def _check_distinct(objects: Sequence[str], pools: Sequence[str]) -> None:
    """Name both rows of an object that is listed twice."""
    first: dict[str, int] = {}
    for row, name in enumerate(objects):
        earlier = first.setdefault(name, row)
        if earlier == row:
            continue
        if pools[earlier] != pools[row]:
            both = " and ".join(repr(p or "neutral") for p in (pools[earlier], pools[row]))
            rule = f"an object must be in one pool, row {earlier + 1} and this one say {both}"
        else:
            rule = f"an object must be listed once, row {earlier + 1} has it too"
        raise InputError(rule, value=name, place=f"row {row + 1}")


def _check_size(size: int) -> None:
    if not _is_integer(size) or not 1 <= size <= LARGEST:
        raise InputError(f"must be an integer from 1 to {LARGEST}", value=size, place="size")


def _check_pool_names(names: tuple[str, ...]) -> None:
    if len(names) < 2:
        raise InputError(
            "must be at least two",
            value=list(names),
            place="pools",
            remedy="with one pool there is nothing to infer",
        )
    for name in names:
        if not isinstance(name, str) or not name:
            raise InputError("must have names", value=name, place="pools")
    if len(set(names)) != len(names):
        raise InputError("must have different names", value=list(names), place="pools")


def _check_objects(objects: tuple[str, ...], size: int) -> None:
    if len(objects) != size:
        raise InputError(f"must be {size} names", value=len(objects), place="objects")
    seen: set[str] = set()
    for name in objects:
        if not isinstance(name, str) or not name:
            raise InputError("must have names", value=name, place="objects")
        if name in seen:
            raise InputError("must list each object once", value=name, place="objects")
        seen.add(name)


def _is_integer(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _positions(size: int, objects: tuple[str, ...] | None) -> dict[str, int]:
    names = map(str, range(size)) if objects is None else objects
    return {name: i for i, name in enumerate(names)}


def _unknown(name: str | int, position: Mapping[str, int]) -> InputError:
    return InputError("must be an object of the universe", value=name, remedy=did_you_mean(str(name), position))
