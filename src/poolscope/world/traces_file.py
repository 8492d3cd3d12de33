"""Traces as files: who picked which object, one row each, a user's rows in order of time.

Columns ``user`` and ``object``, Parquet or CSV by the file's ending. Users' rows may be interleaved. Objects are called
by their names, or by their numbers where the universe has no names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl

from poolscope.base.arrays import Integers
from poolscope.base.errors import InputError
from poolscope.base.tables import open_file
from poolscope.base.tables.atomic import replacing
from poolscope.base.tables.reading import ENDINGS, HELD
from poolscope.world.objects_file import objects_of
from poolscope.world.universe import Universe

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
    outside
        Names of objects that the universe lacks, with the number of rows that were left out for them, most frequent
        first; empty unless the reader was asked to count them.
    """

    users: tuple[str, ...]
    user: Integers
    object: Integers
    outside: tuple[tuple[str, int], ...] = ()


def read_traces(
    path: str | PathLike[str], universe: Universe, *, outside: Literal["error", "count"] = "error"
) -> Traces:
    """Read and check traces.

    Parameters
    ----------
    path
        CSV or Parquet.
    universe
        Where the objects must be.
    outside
        What a row means whose object is not in the universe. "error": the file is wrong. "count": it is left out and
        counted.
    """
    users, objects, others = list[pl.Series](), list[pl.Series](), list[pl.Series]()
    for batch in open_file(path).batches(COLUMNS, most=MOST_ROWS, held=HELD):
        who, what = (batch.names(column).cast(pl.String) for column in COLUMNS)
        index = objects_of(batch, "object", universe) if outside == "error" else universe.find(what)
        inside = index.is_not_null()
        users.append(who.filter(inside))
        objects.append(index.filter(inside))
        others.append(what.filter(~inside))
    left_out = _counted(pl.concat(others))
    if not any(map(len, users)):
        raise InputError("must have an object of the universe", value=others[0][0], place="row 1", file=path)
    names, user = _encoded(pl.concat(users))
    return Traces(users=names, user=user, object=pl.concat(objects).to_numpy(), outside=left_out)


def write_traces(path: str | PathLike[str], users: Sequence[str], objects: Sequence[str]) -> None:
    """Write one row for each entry of ``users`` and ``objects``, at once: a file is there whole or not at all."""
    target = Path(path)
    check_ending(target)
    with replacing(target) as beside:
        write_rows(beside, target.suffix.lower(), users, objects)


def write_rows(path: Path, ending: str, users: Sequence[str], objects: Sequence[str]) -> None:
    """Write rows in the format of an ending, whatever the path's own."""
    columns = dict(zip(COLUMNS, (users, objects), strict=True))
    table = pl.DataFrame(columns, schema=dict.fromkeys(COLUMNS, pl.String))
    if ending == ".csv":
        table.write_csv(path)
    else:
        table.write_parquet(path)


def check_ending(path: Path) -> None:
    """Traces are written as CSV or Parquet."""
    if path.suffix.lower() not in ENDINGS:
        raise InputError(f"must end in {' or '.join(ENDINGS)}", file=path)


def _encoded(text: pl.Series) -> tuple[tuple[str, ...], Integers]:
    """The different texts in order of first appearance, and for each row the index of its own."""
    names = text.unique(maintain_order=True)
    codes = text.cast(pl.Enum(names)).to_physical().to_numpy().astype(np.int64)
    return tuple(names), codes


def _counted(names: pl.Series) -> tuple[tuple[str, int], ...]:
    """How often each name is there, most frequent first, then in order of first appearance."""
    counts = names.to_frame().group_by(names.name, maintain_order=True).len()
    return tuple(counts.sort("len", descending=True, maintain_order=True).rows())
