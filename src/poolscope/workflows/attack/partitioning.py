"""Gather the rows of a file by user without holding all users: an external shuffle through Parquet files.

Rows are split into chunks that fit into memory. The features of each report of a chunk are written as a Parquet file in
the order of the users' hashes. A partition of users is an interval of hashes: a scan of all files reads it back, and
skips row groups by their statistics. All files are in one folder that every worker can read.

The hash of a name determines the user's partition, the position in the output, and how ties between pools are broken.
Two names with one hash are still two users: names are compared wherever rows are gathered.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from poolscope.core.arrays import Integers, Keys, positions
from poolscope.core.errors import InputError
from poolscope.core.files import check_shared
from poolscope.core.tables import Batch, RowRange, Source
from poolscope.core.tables.columns import in_chunks
from poolscope.kernels.hashing import hash_names
from poolscope.mechanisms.protocols import Mechanism, Reports
from poolscope.population.universe import Universe
from poolscope.reports.columns import binary, bytes_of
from poolscope.reports.digest import SMALL, Limits
from poolscope.reports.files import READING_FACTOR, USER, blocks, in_file, row_bytes, users_of


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Rows of one task, read in batches as a whole table is."""

    number: int
    rows: tuple[RowRange, ...]
    columns: tuple[str, ...]

    def header(self) -> tuple[str, ...]:
        """Return the columns that the rows have."""
        return self.columns

    @property
    def text(self) -> bool:
        return self.rows[0].text

    @property
    def count(self) -> int:
        return sum(rows.count for rows in self.rows)

    def batches(
        self, columns: Sequence[str], *, max_bytes: int, row_bytes: int, bytes_held_per_row: int = 0
    ) -> Iterator[Batch]:
        """Yield the rows as they were split, with the same memory."""
        for rows in self.rows:
            batch = rows.read(columns)
            if batch.frame.height != rows.count:
                raise changed_error(rows.file)
            yield batch


@dataclass(frozen=True, kw_only=True, eq=False)
class ReportReader:
    """What every task that reads reports needs.

    Parameters
    ----------
    methods : those by which adversaries estimate the popularity.
    devices : names of users that replace linked pseudonyms: columns ``pseudonym`` and ``user``.
    limits : of the digest of the reports.
    """

    mechanism: Mechanism
    universe: Universe
    folder: Path
    methods: tuple[str | None, ...] = ()
    devices: pl.DataFrame | None = None
    limits: Limits = SMALL

    def read(self, chunk: Chunk) -> tuple[pl.Series, Reports]:
        """Return the users, as the file names them, and the validated reports of a chunk."""
        check_shared(self.folder, "the folder of temporary files")
        return next(blocks(chunk, self.mechanism.report_columns, self.universe, rows=chunk.count))

    def block(self, chunk: Chunk) -> tuple[pl.Series, Reports]:
        """Return the users, pseudonyms replaced by devices, and the validated reports of a chunk."""
        users, reports = self.read(chunk)
        return self.linked(users), reports

    def linked(self, users: pl.Series) -> pl.Series:
        """Return the users with linked pseudonyms replaced by devices."""
        return users if self.devices is None else users.replace(self.devices["pseudonym"], self.devices["user"])


def split_chunks(
    source: Source, reading: ReportReader, *, size: int, name_bytes: int, max_bytes: int
) -> tuple[list[Chunk], pl.DataType]:
    """Split into chunks of at most `size` rows and `name_bytes` bytes of names; return them and the type of names.

    `max_bytes` is for reading.
    """
    columns = reading.mechanism.report_columns
    row = max(READING_FACTOR * row_bytes(columns), -(-max_bytes // size))
    wanted = (USER, *in_file(columns, text=source.text, header=source.header()))
    chunks: list[Chunk] = []
    held: list[RowRange] = []
    dtype, file = None, None
    for rows in source.rows(wanted, max_bytes=max_bytes, row_bytes=row, folder=reading.folder):
        if rows.file != file:
            file = rows.file
            dtype = users_of(replace(rows, count=0).read([USER]), dtype).dtype
        full = sum(each.count for each in held) + rows.count > size
        if held and (full or sum(each.size for each in held) + rows.size > name_bytes):
            chunks.append(Chunk(number=len(chunks), rows=tuple(held), columns=wanted))
            held = []
        held.append(rows)
    assert dtype is not None
    return [*chunks, Chunk(number=len(chunks), rows=tuple(held), columns=wanted)], dtype


def changed_error(file: Path | str) -> InputError:
    """Return the error of a file that has changed since it was split."""
    return InputError("must not change while it is read", file=file)


def name_hashes(names: pl.Series) -> Keys:
    """Hash each name to 64 bits, from its UTF-8 bytes; an integer as its decimal digits, as in CSV."""
    out, begin = np.empty(len(names), dtype=np.uint64), 0
    for some in in_chunks(names.cast(pl.String)):
        name_bytes = np.frombuffer(some.str.join("").item().encode(), dtype=np.uint8)
        ends = np.cumsum(some.str.len_bytes().to_numpy(), dtype=np.int64)
        hash_names(name_bytes, ends, out[begin : begin + len(some)])
        begin += len(some)
    return out


def row_hashes(users: pl.Series) -> Keys:
    """Hash the name of each row; rows of a user are often adjacent."""
    runs = users.rle().struct.unnest()
    return np.repeat(name_hashes(runs["value"]), runs["len"].to_numpy())


def group_by_user(names: pl.Series, hashes: Keys) -> tuple[Integers, Integers]:
    """Order the entries by user (by hash, then name), and within a user by position.

    Returns
    -------
    order : (entries,).
    starts : (users,) where in it each user begins.
    """
    order = np.argsort(hashes, kind="stable")
    starts = _changes(names.gather(order))
    if len(starts) > 1 + np.count_nonzero(np.diff(hashes[order])):
        # two names of one hash
        by_name = pl.DataFrame({"hash": hashes, "name": names}).with_row_index()
        order = by_name.sort("hash", "name", maintain_order=True)["index"].to_numpy().astype(np.int64)
        starts = _changes(names.gather(order))
    return order, starts


def _changes(names: pl.Series) -> Integers:
    """Return where a name differs from the one before."""
    return np.flatnonzero((names != names.shift()).fill_null(True).to_numpy())


def first_rows(names: pl.Series, hashes: Keys, horizon: int) -> tuple[Integers, Integers, Integers]:
    """Return the first rows of each user, up to the horizon, by user (hash, then name) and within by time.

    Returns
    -------
    rows : (rows,) which these are; first : (users,) the first of each; lengths : (users,) how many of each.
    """
    order, starts = group_by_user(names, hashes)
    lengths = np.minimum(np.diff(np.append(starts, len(order))), horizon)
    return order[positions(starts, lengths)], order[starts], lengths


FEWER = "use fewer of them with `observations`"

#: The column of hashes; no report column has a blank in its name.
HASH = "user hash"

#: Rows of a row group, and about the bytes of its features, at most.
GROUP_ROWS, GROUP_BYTES = 1 << 13, 1 << 20


def write_chunk(folder: Path, chunk: int, names: pl.Series, hashes: Keys, features: Reports) -> Path:
    """Write the features of the reports of a chunk, in the order of the users' hashes, each row as bytes."""
    frame = pl.DataFrame({HASH: hashes, USER: names} | {name: binary(_as_bytes(features[name])) for name in features})
    row = sum(column.nbytes for column in features.values()) // len(names)
    size = max(1, min(GROUP_ROWS, GROUP_BYTES // max(1, row)))
    file = _file(folder, chunk)
    frame.write_parquet(file, compression="uncompressed", row_group_size=size)
    return file


def _as_bytes(column: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(column).reshape(len(column), -1).view(np.uint8)


def _file(folder: Path, chunk: int) -> Path:
    return folder / f"{chunk}.parquet"


def check_reports(user: str, reports: int, max_reports: int, remedy: str = FEWER) -> None:
    """Refuse a user whose reports do not fit into memory."""
    if reports > max_reports:
        rule = f"must have at most {max_reports:,} reports"
        raise InputError(rule, value=reports, place=f"user {user}", remedy=remedy)


class Partition(NamedTuple):
    """Users with hashes from `low` to below `high`."""

    number: int
    low: int
    high: int


#: Copies of the features of a partition that are held while they are ordered and scored.
N_COPIES = 3

#: Further copies of a user's features during scoring, and reports of a user that are never refused.
N_SCORING_COPIES, MIN_MAX_REPORTS = 2, 1 << 16

#: Bytes of a row beside its features, and of a user in each chunk.
ROW_OVERHEAD, USER_OVERHEAD = 48, 128


def partitions(users: int, rows: int, name_bytes: int, row: int, max_bytes: int) -> Iterator[Partition]:
    """Yield equal intervals of hashes such that a partition takes about `max_bytes` bytes.

    users, rows, name_bytes : those of all chunks together, and the bytes of users' names; row : bytes of the features.
    """
    needed = N_COPIES * ((row + ROW_OVERHEAD) * rows + name_bytes) + USER_OVERHEAD * users
    count = min(users, -(-needed // max(1, max_bytes)))
    edges = [number * 2**64 // count for number in range(count + 1)]
    for number in range(count):
        yield Partition(number, edges[number], edges[number + 1])


def max_reports_of_user(row: int, max_bytes: int) -> int:
    """Return how many reports of one user fit into memory, by the bytes of the features of a report."""
    return max(MIN_MAX_REPORTS, max_bytes // ((N_COPIES + N_SCORING_COPIES) * (row + 8)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Gathered:
    """Some users with all their reports.

    Parameters
    ----------
    names, hashes : (users,) who they are.
    lengths : (users,) reports of each.
    features : those of the `Scorer` for each report, by user and within by time.
    """

    names: pl.Series
    hashes: Keys
    lengths: Integers
    features: Reports


def read_partition(folder: Path, chunks: int, partition: Partition) -> pl.DataFrame:
    """Read the rows of a partition's users, in the order of chunks."""
    files = [_file(folder, chunk) for chunk in range(chunks)]
    scan = pl.scan_parquet(files, glob=False, hive_partitioning=False)
    return scan.filter(pl.col(HASH).is_between(partition.low, partition.high - 1)).collect()


def gather(frame: pl.DataFrame, horizon: int, columns: Reports, max_reports: int) -> Gathered:
    """Group rows by user (hash, then name), with the first reports of each, up to the horizon.

    `columns` are those of the features, without rows. A user with more than `max_reports` of them is refused.
    """
    names, hashes = frame[USER], frame[HASH].to_numpy()
    rows, first, lengths = first_rows(names, hashes, horizon)
    most = int(lengths.argmax())
    check_reports(names[int(first[most])], int(lengths[most]), max_reports)
    features = {}
    for name, like in columns.items():
        size = like.itemsize * math.prod(like.shape[1:])
        features[name] = bytes_of(frame[name].gather(rows), size).view(like.dtype).reshape(-1, *like.shape[1:])
    return Gathered(names=names.gather(first), hashes=hashes[first], lengths=lengths, features=features)
