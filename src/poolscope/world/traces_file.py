"""Traces as files: who picked which object, one row each, a user's rows in order of time.

Columns ``user`` and ``object``, Parquet or CSV by the file's ending. Users' rows may be interleaved. Objects are called
by their names, or by their numbers where the universe has no names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from poolscope.base.arrays import Integers
from poolscope.base.errors import InputError, did_you_mean, one_line, reading
from poolscope.base.tables.atomic import replacing
from poolscope.base.tables.parquet_check import check_file
from poolscope.world.universe import Universe, read_columns

if TYPE_CHECKING:
    import polars as pl


COLUMNS = ("user", "object")
ENDINGS = (".csv", ".parquet")

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
    with reading(path):
        who, what = (_as_text(column, name) for name, column in zip(COLUMNS, _read(Path(path)), strict=True))
        names, called = _encoded(what)
        known = {name: i for i, name in enumerate(_names(universe))}
        index = np.array([known.get(name, -1) for name in names], dtype=np.int64)[called]
        inside = index >= 0
        if outside == "error" and not inside.all():
            row = int(inside.argmin())
            name = names[called[row]]
            remedy = did_you_mean(name, known) if len(known) <= _FEW else None
            rule = "must be an object of the universe"
            raise InputError(rule, value=name, place=f"row {row + 1}", remedy=remedy)
        if not inside.any():
            raise InputError("must have an object of the universe", value=names[called[0]], place="row 1")
        users, user = _encoded(who.filter(inside) if not inside.all() else who)
        return Traces(users=tuple(users), user=user, object=index[inside], outside=_counted(names, called[~inside]))


_FEW = 10_000  # names among which the nearest is looked for; among more it would take seconds


def write_traces(path: str | PathLike[str], users: Sequence[str], objects: Sequence[str]) -> None:
    """Write one row for each entry of ``users`` and ``objects``, at once: a file is there whole or not at all."""
    target = Path(path)
    check_ending(target)
    with replacing(target) as beside:
        write_rows(beside, target.suffix.lower(), users, objects)


def write_rows(path: Path, ending: str, users: Sequence[str], objects: Sequence[str]) -> None:
    """Write rows in the format of an ending, whatever the path's own."""
    import polars as pl

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


def _read(path: Path) -> Sequence[pl.Series]:
    import polars as pl

    if path.suffix.lower() != ".parquet":
        table = read_columns(path, required=COLUMNS)
        return [pl.Series(column, table[column], dtype=pl.String) for column in COLUMNS]
    check_file(path, MOST_ROWS)
    with path.open("rb") as stream:
        try:
            frame = pl.read_parquet(stream)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            raise InputError(f"must be a Parquet file: {one_line(str(error))[:80]}") from error
    for column in COLUMNS:
        if column not in frame:
            raise InputError(f"must have a column {column!r}", value=frame.columns)
    if frame.is_empty():
        raise InputError("must have at least one row")
    return [frame[column] for column in COLUMNS]


def _as_text(column: pl.Series, name: str) -> pl.Series:
    """A column of names as text, none of them missing or empty."""
    import polars as pl

    if not (column.dtype.is_integer() or isinstance(column.dtype, pl.String | pl.Categorical | pl.Enum)):
        raise InputError(f"{name} must be texts or integers", value=str(column.dtype))
    text = column.cast(pl.String)
    for rule, wrong in (
        ("must not be missing", text.is_null()),
        ("must have a name", text == ""),
        # "ann " beside "ann" would silently be one more user.
        ("must not begin or end with a blank", text.str.strip_chars() != text),
    ):
        if wrong.any():
            row = wrong.arg_max()
            assert row is not None
            raise InputError(f"{name} {rule}", value=text[row], place=f"row {row + 1}")
    return text


def _encoded(text: pl.Series) -> tuple[list[str], Integers]:
    """The different texts in order of first appearance, and for each row the index of its own."""
    import polars as pl

    names = text.unique(maintain_order=True)
    codes = text.cast(pl.Enum(names)).to_physical().to_numpy().astype(np.int64)
    return names.to_list(), codes


def _counted(names: Sequence[str], codes: Integers) -> tuple[tuple[str, int], ...]:
    counts = np.bincount(codes, minlength=len(names))
    order = np.argsort(-counts, kind="stable")
    return tuple((names[i], int(counts[i])) for i in order if counts[i])


def _names(universe: Universe) -> Sequence[str]:
    return universe.objects if universe.objects is not None else [str(i) for i in range(universe.size)]
