"""Files of reports: reading, validation and writing; and the partition of reports among threads.

A row is a report: ``user`` and the columns of the mechanism (`Mechanism.report_columns`). Parquet stores bits as bytes;
CSV lists the set positions in a column ``ones``; other forms are read too (`BitsFormat`). Everything that kernels rely
on is checked here. Results do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from poolscope.core.arrays import Floats, Integers, Keys, Map, Tick
from poolscope.core.executors import Engine
from poolscope.core.tables import Batch, Data, SourceOptions, opened
from poolscope.core.tables.reading import BATCH_BYTES
from poolscope.core.tables.sources import Alternatives, choose_name
from poolscope.mechanisms.hashing import sort_by_function
from poolscope.mechanisms.protocols import Mechanism, PoolWeights, ReportColumn, Reports, report_count
from poolscope.population.universe import Universe
from poolscope.reports.columns import COLUMN_FORMATS

Columns = Mapping[str, ReportColumn]

USER = "user"

MEMORY_BYTES = 1 << 30
"""Memory for work on a file of any size, apart from one row group of the file; `obfuscate` also holds all users."""

#: Minimum and maximum number of rows of a block; larger blocks are not faster.
MIN_ROWS, MAX_ROWS = 64, 1 << 20

#: Memory of a row while it is read and checked, as a multiple of its size afterwards.
READING_FACTOR = 3


def read_reports(
    reports: Data,
    mechanism: Mechanism,
    universe: Universe,
    *,
    columns: Mapping[str, str] | None = None,
    time: str | None = None,
    allow_network: bool = False,
    query: str | None = None,
) -> tuple[pl.Series, Reports]:
    """Read all reports: the user of each, as strings or integers, and the mechanism's columns.

    See `attack` for sources and for the keywords.
    """
    options = SourceOptions.of(columns, time, allow_network, query)
    with opened(reports, report_names(mechanism.report_columns), options) as source:
        found = list(
            blocks(
                source,
                mechanism.report_columns,
                universe,
                rows=1 << 16,
                reuse=False,
                bytes_held_per_row=READING_FACTOR * row_bytes(mechanism.report_columns),
            )
        )
    users = pl.concat([users for users, _ in found])
    return users, {name: np.concatenate([reports[name] for _, reports in found]) for name in found[0][1]}


def row_bytes(columns: Columns) -> int:
    """Return the bytes of a row in memory, including its user."""
    return 16 + sum(COLUMN_FORMATS[column.kind].empty(column, 1).nbytes for column in columns.values())


def rows_within(max_bytes: float, row: int) -> int:
    """Return the number of rows of a block, given the bytes of a row; 48 more bytes are for the order of rows."""
    return max(MIN_ROWS, min(MAX_ROWS, int(max_bytes) // (row + 48)))


class Batches(Protocol):
    """A table, or a range of its rows, that is read in batches."""

    @property
    def text(self) -> bool: ...

    def header(self) -> Sequence[str]: ...

    def batches(
        self, columns: Sequence[str], *, max_bytes: int, row_bytes: int, bytes_held_per_row: int
    ) -> Iterator[Batch]: ...


def blocks(
    source: Batches,
    columns: Columns,
    universe: Universe | Mapping[str, Universe],
    *,
    rows: int,
    max_bytes: int = BATCH_BYTES,
    reuse: bool = True,
    bytes_held_per_row: int = 0,
) -> Iterator[tuple[pl.Series, Reports]]:
    """Yield users and checked columns of a file in blocks of `rows` rows.

    Blocks are larger than the batches of a file (`max_bytes`), as each hash function is tabulated once per block. With
    `reuse`, a block overwrites the arrays of the previous block. Without, the caller may keep them, `held` bytes a row.
    """
    users: list[pl.Series] = []
    workspace, filled, dtype = workspace_for(columns, rows), 0, None
    names = (USER, *in_file(columns, text=source.text, header=source.header()))
    for batch in source.batches(
        names, max_bytes=max_bytes, row_bytes=READING_FACTOR * row_bytes(columns), bytes_held_per_row=bytes_held_per_row
    ):
        who, decoded = users_of(batch, dtype), decode(batch, columns, universe)
        dtype, taken = who.dtype, 0
        while taken < len(who):
            count = min(len(who) - taken, rows - filled)
            for name in columns:
                workspace[name][filled : filled + count] = decoded[name][taken : taken + count]
            users.append(who[taken : taken + count])
            taken, filled = taken + count, filled + count
            if filled == rows:
                yield pl.concat(users), workspace
                users, filled = [], 0
                workspace = workspace if reuse else workspace_for(columns, rows)
    if filled:
        yield pl.concat(users), {name: column[:filled] for name, column in workspace.items()}


def report_names(columns: Columns) -> Alternatives:
    """Return the columns of reports, each by its possible names."""
    return [(USER,), *(COLUMN_FORMATS[column.kind].names_in_file(name) for name, column in columns.items())]


def in_file(columns: Columns, *, text: bool, header: Sequence[str] = ()) -> dict[str, tuple[str, ReportColumn]]:
    """Return the columns by their names in a file, each with its name in the mechanism and its description.

    `header` has the columns of a file to read; a file to write has none yet.
    """
    names = (COLUMN_FORMATS[column.kind].names_in_file(name) for name, column in columns.items())
    return {choose_name(called, header, text): entry for called, entry in zip(names, columns.items(), strict=True)}


def numeric_columns(columns: Columns) -> list[str]:
    """Return the CSV columns of numbers or lists of numbers, as opposed to names."""
    return [called for called, (_, column) in in_file(columns, text=True).items() if column.kind != "object"]


def decode(batch: Batch, columns: Columns, universe: Universe | Mapping[str, Universe]) -> dict[str, NDArray[Any]]:
    """Return the checked columns of a batch; columns of tuples have a universe each."""
    found = {}
    for called, (name, column) in in_file(columns, text=batch.text, header=batch.frame.columns).items():
        own = universe if isinstance(universe, Universe) else universe[name]
        found[name] = COLUMN_FORMATS[column.kind].read(batch, called, column, own)
    return found


def users_of(batch: Batch, dtype: pl.DataType | None = None) -> pl.Series:
    """Return the column of users, strings or integers, none missing; of the given type, that of earlier files."""
    users = batch.names(USER)
    if dtype is not None and users.dtype != dtype:
        raise batch.mistyped(USER, f"{dtype} as in the earlier files")
    return users


def report_frame(
    users: pl.Series, reports: Reports, columns: Columns, universe: Universe | Mapping[str, Universe], *, text: bool
) -> pl.DataFrame:
    """Return reports as the rows of a file; columns of tuples have a universe each."""
    frame = {USER: users.rename(USER)}
    for called, (name, column) in in_file(columns, text=text).items():
        own = universe if isinstance(universe, Universe) else universe[name]
        frame[called] = COLUMN_FORMATS[column.kind].written(reports[name], column, own, text)
    return pl.DataFrame(frame)


def workspace_for(columns: Columns, rows: int) -> dict[str, NDArray[Any]]:
    """Return uninitialized columns for `rows` reports."""
    return {name: COLUMN_FORMATS[column.kind].empty(column, rows) for name, column in columns.items()}


def sent_masses(
    mechanism: Mechanism,
    objects: Integers,
    keys: Keys,
    pool_weights: PoolWeights,
    threads: Map,
    partitions: int,
    tick: Tick | None = None,
) -> Floats:
    """Return `mechanism.sent_masses` of all objects, computed in partitions; `tick` receives the reports done."""
    out = np.empty((len(keys), pool_weights.width))

    def fill(rows: Integers) -> int:
        mechanism.sent_masses(objects[rows], keys[rows], pool_weights, rows, out)
        return len(rows)

    for count in threads(fill, partition_rows(mechanism, mechanism.shared_by(keys), len(keys), partitions)):
        if tick:
            tick(count)
    return out


def masses(mechanism: Mechanism, reports: Reports, pool_weights: PoolWeights, engine: Engine) -> Floats:
    """Return (reports, width) the popularity mass of each report's support."""
    out = np.empty((report_count(reports), pool_weights.width))

    def fill(rows: Integers) -> None:
        out[rows] = mechanism.mass(select_rows(reports, rows), pool_weights)

    for _ in engine.map(fill, partition_reports(mechanism, reports, engine.threads)):
        pass
    return out


def partition_rows(
    mechanism: Mechanism, shared_by: NDArray[np.integer] | None, count: int, partitions: int
) -> Iterator[Integers]:
    """Yield the rows of each partition, of about equal size.

    Reports of one hash function stay together, as the function is tabulated once for all of them, unless there are
    fewer functions than partitions.
    """
    order, cuts = np.arange(count), np.linspace(0, count, partitions + 1).astype(np.int64)
    column = mechanism.shared_column
    if column is not None and shared_by is not None:
        functions = mechanism.report_columns[column].size
        starts, order = sort_by_function(shared_by, functions, column)
        if functions >= partitions:
            cuts = starts[np.searchsorted(starts, cuts)]
    for begin, end in pairwise(cuts):
        if end > begin:
            yield order[begin:end]


def partition_reports(mechanism: Mechanism, reports: Reports, partitions: int) -> Iterator[Integers]:
    """Yield the rows of each partition of these reports, by the mechanism's shared column."""
    column = mechanism.shared_column
    return partition_rows(mechanism, None if column is None else reports[column], report_count(reports), partitions)


def select_rows(reports: Reports, rows: Integers) -> Reports:
    """Return the reports of these rows; without a copy where these are all rows in order."""
    if np.array_equal(rows, np.arange(report_count(reports))):
        return reports
    return {name: column[rows] for name, column in reports.items()}
