"""Reports as columns of a file, read, validated and written; and blocks of reports shared among threads.

One row is a report: ``user`` and the columns of the mechanism (`Mechanism.report_columns`). Parquet has bits as bytes;
CSV, where every value is text, lists the set positions in a column ``ones``. What a kernel relies on is checked here.
Results do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from os import PathLike
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from poolscope.core.arrays import Floats, Integers, Keys, Map, Tick
from poolscope.core.executors import Engine
from poolscope.core.tables import Batch, open_table
from poolscope.core.tables.reading import BATCH_BYTES
from poolscope.mechanisms.hashing import sort_by_function
from poolscope.mechanisms.protocols import Mechanism, PoolWeights, ReportColumn, Reports, report_count
from poolscope.population.universe import Universe
from poolscope.reports.columns import COLUMN_FORMATS

Columns = Mapping[str, ReportColumn]

USER = "user"

MEMORY_BYTES = 1 << 30
"""Bytes that work on a file of any size holds, beside one row group of the file; `obfuscate` also holds all users."""

#: Rows that are worked on at once, at least and at most; more would save nothing.
MIN_ROWS, MAX_ROWS = 64, 1 << 20

#: What a row takes while it is read and checked, as a multiple of what it takes afterwards.
READING = 3


def read_reports(path: str | PathLike[str], mechanism: Mechanism, universe: Universe) -> tuple[pl.Series, Reports]:
    """All reports of a file: the user of each, as text or integers, and the mechanism's columns."""
    held = READING * row_bytes(mechanism.report_columns)
    found = list(blocks(open_table(path), mechanism.report_columns, universe, rows=1 << 16, reuse=False, held=held))
    users = pl.concat([users for users, _ in found])
    return users, {name: np.concatenate([reports[name] for _, reports in found]) for name in found[0][1]}


def row_bytes(columns: Columns) -> int:
    """Bytes that a row takes in memory, its user included."""
    return 16 + sum(COLUMN_FORMATS[column.kind].empty(column, 1).nbytes for column in columns.values())


def rows_within(max_bytes: float, row: int) -> int:
    """Rows that are worked on at once, of so many bytes each and some for their order."""
    return max(MIN_ROWS, min(MAX_ROWS, int(max_bytes) // (row + 48)))


class Batches(Protocol):
    """A table, or some rows of one, that is read in batches."""

    @property
    def text(self) -> bool: ...

    def batches(self, columns: Sequence[str], *, max_bytes: int, row_bytes: int, held: int) -> Iterator[Batch]: ...


def blocks(
    source: Batches,
    columns: Columns,
    universe: Universe,
    *,
    rows: int,
    max_bytes: int = BATCH_BYTES,
    reuse: bool = True,
    held: int = 0,
) -> Iterator[tuple[pl.Series, Reports]]:
    """Users and checked columns of a file, so many rows at a time.

    What is tabulated for a hash function serves all of its reports in a block, so blocks are larger than the batches in
    which a file is read (`max_bytes`). With `reuse`, a block's arrays are those of the block before; without, the
    caller may keep them: `held` bytes of each row.
    """
    users: list[pl.Series] = []
    workspace, filled, dtype = workspace_for(columns, rows), 0, None
    called = (USER, *in_file(columns, text=source.text))
    for batch in source.batches(called, max_bytes=max_bytes, row_bytes=READING * row_bytes(columns), held=held):
        who, decoded = users_of(batch, dtype), decode(batch, columns, universe)
        dtype, taken = who.dtype, 0
        while taken < len(who):
            some = min(len(who) - taken, rows - filled)
            for name in columns:
                workspace[name][filled : filled + some] = decoded[name][taken : taken + some]
            users.append(who[taken : taken + some])
            taken, filled = taken + some, filled + some
            if filled == rows:
                yield pl.concat(users), workspace
                users, filled = [], 0
                workspace = workspace if reuse else workspace_for(columns, rows)
    if filled:
        yield pl.concat(users), {name: column[:filled] for name, column in workspace.items()}


def in_file(columns: Columns, *, text: bool) -> dict[str, tuple[str, ReportColumn]]:
    """The columns as a file calls them, each with its own name and what it holds."""
    return {COLUMN_FORMATS[column.kind].called(name, text): (name, column) for name, column in columns.items()}


def numeric_columns(columns: Columns) -> list[str]:
    """The columns of CSV that hold numbers, be they lists of them, and no names."""
    return [called for called, (_, column) in in_file(columns, text=True).items() if column.kind != "object"]


def decode(batch: Batch, columns: Columns, universe: Universe) -> dict[str, NDArray[Any]]:
    """The columns of a batch, each checked."""
    wanted = in_file(columns, text=batch.text)
    return {
        name: COLUMN_FORMATS[column.kind].read(batch, called, column, universe)
        for called, (name, column) in wanted.items()
    }


def users_of(batch: Batch, dtype: pl.DataType | None = None) -> pl.Series:
    """The column of users, texts or integers, none of them missing; of the given type where there were some before."""
    users = batch.names(USER)
    if dtype is not None and users.dtype != dtype:
        raise batch.mistyped(USER, f"{dtype} as in the files before")
    return users


def report_frame(
    users: pl.Series, reports: Reports, columns: Columns, universe: Universe, *, text: bool
) -> pl.DataFrame:
    """Reports as the rows of a file."""
    frame = {USER: users.rename(USER)}
    for called, (name, column) in in_file(columns, text=text).items():
        frame[called] = COLUMN_FORMATS[column.kind].written(reports[name], column, universe, text)
    return pl.DataFrame(frame)


def workspace_for(columns: Columns, rows: int) -> dict[str, NDArray[Any]]:
    """Columns for so many reports, of the types that a file's have."""
    return {name: COLUMN_FORMATS[column.kind].empty(column, rows) for name, column in columns.items()}


def sent_masses(
    mechanism: Mechanism,
    objects: Integers,
    keys: Keys,
    view: PoolWeights,
    threads: Map,
    parts: int,
    tick: Tick | None = None,
) -> Floats:
    """`mechanism.sent_masses` of all objects, in so many parts; `tick` is told reports as they are made."""
    out = np.empty((len(keys), view.width))

    def part(rows: Integers) -> int:
        mechanism.sent_masses(objects[rows], keys[rows], view, rows, out)
        return len(rows)

    for count in threads(part, partition_rows(mechanism, mechanism.shared_by(keys), len(keys), parts)):
        if tick:
            tick(count)
    return out


def masses(mechanism: Mechanism, reports: Reports, view: PoolWeights, engine: Engine) -> Floats:
    """The popularity mass of each report's support, (reports, width)."""
    out = np.empty((report_count(reports), view.width))

    def part(rows: Integers) -> None:
        out[rows] = mechanism.mass(select_rows(reports, rows), view)

    for _ in engine.map(part, partition_reports(mechanism, reports, engine.threads)):
        pass
    return out


def partition_rows(
    mechanism: Mechanism, shared_by: NDArray[np.integer] | None, count: int, parts: int
) -> Iterator[Integers]:
    """The rows of each part, about as many.

    What is tabulated, for a hash function say, serves all reports that are looked up in it, so they stay together,
    unless there are fewer functions than parts.
    """
    order, cuts = np.arange(count), np.linspace(0, count, parts + 1).astype(np.int64)
    column = mechanism.shared_column
    if column is not None and shared_by is not None:
        functions = mechanism.report_columns[column].size
        starts, order = sort_by_function(shared_by, functions, column)
        if functions >= parts:
            cuts = starts[np.searchsorted(starts, cuts)]
    for begin, end in pairwise(cuts):
        if end > begin:
            yield order[begin:end]


def partition_reports(mechanism: Mechanism, reports: Reports, parts: int) -> Iterator[Integers]:
    """The rows of each part of these reports, by the table that the mechanism says each is looked up in."""
    column = mechanism.shared_column
    return partition_rows(mechanism, None if column is None else reports[column], report_count(reports), parts)


def select_rows(reports: Reports, rows: Integers) -> Reports:
    """The reports of these rows; all of them in order are not copied."""
    if np.array_equal(rows, np.arange(report_count(reports))):
        return reports
    return {name: column[rows] for name, column in reports.items()}
