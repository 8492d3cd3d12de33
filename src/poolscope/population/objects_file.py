"""Objects in files: the table of a universe, a table of other pools, and the objects that any other table calls.

Columns ``object`` and ``pool``, Parquet or CSV by the file's ending. No pool is the neutral pool.
"""

from __future__ import annotations

import warnings
from os import PathLike

import numpy as np
import polars as pl

from poolscope.core.arrays import Floats
from poolscope.core.errors import located, shown
from poolscope.core.tables import Batch, read_table
from poolscope.core.tables.batch import first_false
from poolscope.population.universe import LARGEST, NEUTRAL, Universe


def read_objects(path: str | PathLike[str]) -> tuple[Universe, Floats | None]:
    """Read a universe from a table ``object,pool[,popularity]``.

    Returns
    -------
    universe
        Objects in the order of the rows.
    popularity : (size,) float64 or None
        The column as it stands, not rescaled; None where there is no such column.
    """
    table = read_table(path, ("object", "pool"), optional=("popularity",), most=LARGEST)
    objects, pools = table.names("object").cast(pl.String), _pools(table)
    weights = table.numbers("popularity") if "popularity" in table.frame.columns else None
    with located(file=path):
        return Universe.named(objects.to_list(), pools.to_list()), weights


def read_pools(path: str | PathLike[str], universe: Universe) -> Universe:
    """The universe with the pools of a table ``object,pool``; objects that it lacks or gives none are neutral."""
    table = read_table(path, ("object", "pool"), most=LARGEST)
    index, pools = objects_of(table, "object", universe), _pools(table)
    names = pools.filter(pools != "").unique(maintain_order=True)
    numbers = pl.int_range(len(names), eager=True)
    pool_of = np.full(universe.size, NEUTRAL, dtype=np.int32)
    pool_of[index] = pools.replace_strict(names, numbers, default=NEUTRAL, return_dtype=pl.Int32)
    with located(file=path):
        return Universe(size=universe.size, pool_names=tuple(names), pool_of=pool_of, objects=universe.objects)


def objects_of(batch: Batch, column: str, universe: Universe) -> pl.Series:
    """A column of objects as indices into the universe, int64."""
    names = batch.names(column)
    found = universe.find(names)
    row = first_false(found.is_not_null())
    if row is not None:
        error = universe.unknown(names[row])
        raise batch.wrong(f"{column} {error.rule}", row, names[row], error.remedy)
    return found


def check_once(table: Batch, pools: pl.Series | None = None) -> None:
    """Name both rows of an object that is listed twice."""
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
    """The pool of each object, which is listed once; an empty text is the neutral pool."""
    pools = table.names_or_none("pool").cast(pl.String).fill_null("")
    check_once(table, pools)
    _warn_of_look_alikes(table, pools)
    return pools


def _warn_of_look_alikes(table: Batch, pools: pl.Series) -> None:
    """Two pools whose names differ in nothing but case or blanks are likely one, spelled in two ways."""
    names = pools.unique(maintain_order=True).to_list()
    first: dict[str, str] = {}
    for name in names:
        other = first.setdefault("".join(name.casefold().split()), name)
        if other != name:
            row = int((pools == name).arg_max() or 0)
            both = f"pool {shown(name)} beside pool {shown(other)}, which differs in case or blanks alone"
            rest = "they are two pools; spell them alike if they are one"
            warnings.warn(f"{table.file}: row {table.first + row}: {both}: {rest}", stacklevel=2)
