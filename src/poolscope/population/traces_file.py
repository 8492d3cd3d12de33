"""Traces as files: who picked which object, one row each, a user's rows in order of time.

Columns ``user`` and ``object``, Parquet or CSV by the file's ending. Users' rows may be interleaved. Objects are called
by their names, or by their numbers where the universe has no names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
import polars as pl

from poolscope.core.arrays import Integers
from poolscope.core.errors import InputError
from poolscope.core.tables import open_file
from poolscope.core.tables.reading import HELD
from poolscope.core.tables.text import escaped
from poolscope.population.universe import Universe

COLUMNS = ("user", "object")

MOST_ROWS = 1 << 31
"""Rows of traces at most; they are held in memory."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Traces:
    """What users picked, in order.

    Parameters
    ----------
    users
        The users' names in order of their first rows.
    user : (rows,) int64
        For each row the index of its user in ``users``.
    object : (rows,) int64
        For each row the index of its object in the universe.
    """

    users: tuple[str, ...]
    user: Integers
    object: Integers


def read_traces(path: str | PathLike[str], universe: Universe) -> Traces:
    """Read and check traces, CSV or Parquet; rows whose object is not in the universe are left out."""
    users, objects, first = list[pl.Series](), list[pl.Series](), None
    for batch in open_file(path).batches(COLUMNS, most=MOST_ROWS, held=HELD):
        who, what = (batch.names(column).cast(pl.String) for column in COLUMNS)
        index = universe.find(what)
        inside, first = index.is_not_null(), what[0] if first is None else first
        users.append(who.filter(inside))
        objects.append(index.filter(inside))
    if not any(map(len, users)):
        raise InputError("must have an object of the universe", value=first, place="row 1", file=path)
    names, user = _encoded(pl.concat(users))
    return Traces(users=names, user=user, object=pl.concat(objects).to_numpy())


def write_rows(path: Path, ending: str, users: Sequence[str], objects: Sequence[str], *, raw: bool = False) -> None:
    """Write rows in the format of an ending, whatever the path's own; texts of CSV are escaped unless `raw`."""
    columns = dict(zip(COLUMNS, (users, objects), strict=True))
    table = pl.DataFrame(columns, schema=dict.fromkeys(COLUMNS, pl.String))
    if ending == ".csv":
        (table if raw else escaped(table)).write_csv(path)
    else:
        table.write_parquet(path)


def _encoded(text: pl.Series) -> tuple[tuple[str, ...], Integers]:
    """The different texts in order of first appearance, and for each row the index of its own."""
    names = text.unique(maintain_order=True)
    codes = text.cast(pl.Enum(names)).to_physical().to_numpy().astype(np.int64)
    return tuple(names), codes
