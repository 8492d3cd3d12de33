"""The first pass of the attack on a file: chunks of rows become what the attack needs to know of each report.

Rows are cut into chunks that fit into memory. A task turns the reports of a chunk into the popularity masses of their
supports, a few numbers each, and writes them in the order of their users' hashes, so that a partition of users is read
without the rest. For adversaries who group reports it writes the reports themselves. Only counts are returned; all
files are in one folder, which every worker sees.

The hash of a name decides in which partition a user is, where in the output, and how ties between pools are broken. Two
names of one hash are still two users: names are compared wherever rows are brought together.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from poolscope.core.arrays import Integers, Keys, Tick, places
from poolscope.core.errors import InputError
from poolscope.core.executors import Engine, Local
from poolscope.core.files import check_shared
from poolscope.core.tables import Batch, Rows, Source
from poolscope.core.tables.batch import copied
from poolscope.kernels.hashing import hash_names
from poolscope.mechanisms.protocols import Mechanism, Reports
from poolscope.population.universe import Universe
from poolscope.reports.checks import Checks
from poolscope.reports.files import READING, USER, blocks, in_file, row_bytes, users_of
from poolscope.reports.frequencies import Counting
from poolscope.workflows.attack.scoring import Scorer


def name_hashes(names: pl.Series) -> Keys:
    """64 bits of each name, from its UTF-8 bytes; an integer is called by its decimal digits, as CSV would have it."""
    out, begin = np.empty(len(names), dtype=np.uint64), 0
    for some in copied(names.cast(pl.String)):
        letters = np.frombuffer(some.str.join("").item().encode(), dtype=np.uint8)
        ends = np.cumsum(some.str.len_bytes().to_numpy(), dtype=np.int64)
        hash_names(letters, ends, out[begin : begin + len(some)])
        begin += len(some)
    return out


def together(names: pl.Series, hashes: Keys) -> tuple[Integers, Integers]:
    """The entries in the order of their users (by hash, then name), those of a user in their own order.

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
    """Where a name differs from the one before."""
    return np.flatnonzero((names != names.shift()).fill_null(True).to_numpy())


#: Rows of a group of the file of names: what is read for one of them.
GROUP_ROWS = 1 << 13


#: Rows of a column that are brought into order at once: as many as stay in the cache.
SORTED = 1 << 12


def store(
    folder: Path, piece: int, names: pl.Series, hashes: Keys, lengths: Integers, told: Reports, rows: Integers
) -> None:
    """Write a piece.

    Parameters
    ----------
    names, hashes, lengths : (users,) in the order of the hashes, and how many rows each has.
    told : columns (rows, ...) in any order.
    rows : (rows,) the users' rows of these, one user after another.
    """
    frame = names.alias(USER).to_frame()
    names_file = _file(folder, piece, "names")
    frame.write_parquet(names_file, compression="uncompressed", statistics=False, row_group_size=GROUP_ROWS)
    hashes.tofile(_file(folder, piece, "hashes"))
    np.cumsum(lengths).tofile(_file(folder, piece, "ends"))
    for number, column in enumerate(told.values()):
        with open(_file(folder, piece, f"told{number}"), "wb") as stream:
            for start in range(0, len(rows), SORTED):
                stream.write(column[rows[start : start + SORTED]].data)


def _file(folder: Path, piece: int, what: str) -> str:
    """As text: a `Path` keeps the parts of its name, and there are as many as pieces times crowds."""
    return os.path.join(folder, f"{piece}.{what}")


class Section(NamedTuple):
    """Neighboring users of a piece: their names, hashes and how many rows each has; the first of these is `row`."""

    folder: Path
    piece: int
    names: pl.Series
    hashes: Keys
    lengths: Integers
    row: int

    def told(self, columns: Reports) -> Reports:
        """(rows, ...) what is told of their reports, from the files, as columns of these names, types and widths."""
        count, out = int(self.lengths.sum()), {}
        for number, (name, like) in enumerate(columns.items()):
            file, shape = _file(self.folder, self.piece, f"told{number}"), (count, *like.shape[1:])
            start = self.row * math.prod(like.shape[1:]) * like.itemsize
            out[name] = np.fromfile(file, like.dtype, math.prod(shape), offset=start).reshape(shape)
        return out


def sections(folder: Path, pieces: int, low: int, high: int) -> Iterator[Section]:
    """The users whose hashes are from `low` to below `high`, of every piece that has some, in the order of pieces."""
    for piece in range(pieces):
        hashes = np.memmap(_file(folder, piece, "hashes"), dtype=np.uint64, mode="r")
        begin = int(np.searchsorted(hashes, np.uint64(low)))
        end = int(np.searchsorted(hashes, np.uint64(high - 1), side="right"))
        if begin == end:
            continue
        ends = np.memmap(_file(folder, piece, "ends"), dtype=np.int64, mode="r")
        row = int(ends[begin - 1]) if begin else 0
        scan = pl.scan_parquet(_file(folder, piece, "names"), glob=False, hive_partitioning=False)
        names = scan.slice(begin, end - begin).collect()[USER]
        yield Section(folder, piece, names, np.array(hashes[begin:end]), np.diff(ends[begin:end], prepend=row), row)


FEWER = "look at fewer of them with `observations`"


@dataclass(frozen=True, kw_only=True)
class Piece:
    """Rows that one task takes, read in batches as a whole table is."""

    number: int
    rows: tuple[Rows, ...]

    @property
    def text(self) -> bool:
        return self.rows[0].text

    @property
    def count(self) -> int:
        return sum(rows.count for rows in self.rows)

    def batches(self, columns: Sequence[str], *, max_bytes: int, row_bytes: int, held: int = 0) -> Iterator[Batch]:
        """The rows as they were cut, for the same memory."""
        for rows in self.rows:
            batch = rows.read(columns)
            if batch.frame.height != rows.count:
                raise changed(rows.file)
            yield batch


@dataclass(frozen=True, kw_only=True, eq=False)
class Reading:
    """What every task that reads reports needs.

    Parameters
    ----------
    methods : those by which adversaries estimate the popularity.
    devices : what users are called in place of some names of the file: columns ``pseudonym`` and ``user``.
    """

    mechanism: Mechanism
    universe: Universe
    folder: Path
    methods: tuple[str | None, ...] = ()
    devices: pl.DataFrame | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Weighing:
    """Moreover, who attacks."""

    reading: Reading
    scorer: Scorer


class Weighed(NamedTuple):
    """A piece that is done: its users, rows that count, bytes of names, and the user with most rows, and how many."""

    users: int
    rows: int
    letters: int
    busiest: tuple[str, int]


def cut(
    source: Source, reading: Reading, *, size: int, letters: int, max_bytes: int
) -> tuple[list[Piece], pl.DataType]:
    """Pieces of at most `size` rows and `letters` bytes of names, in order, and the type of users' names.

    `max_bytes` is for reading.
    """
    columns = reading.mechanism.report_columns
    row = max(READING * row_bytes(columns), -(-max_bytes // size))
    wanted = (USER, *in_file(columns, text=source.text))
    pieces: list[Piece] = []
    held: list[Rows] = []
    dtype = None
    for rows in source.rows(wanted, max_bytes=max_bytes, row_bytes=row, folder=reading.folder):
        if rows.first == 1:
            dtype = users_of(replace(rows, count=0).read([USER]), dtype).dtype
        full = sum(each.count for each in held) + rows.count > size
        if held and (full or sum(each.size for each in held) + rows.size > letters):
            pieces.append(Piece(number=len(pieces), rows=tuple(held)))
            held = []
        held.append(rows)
    assert dtype is not None
    return [*pieces, Piece(number=len(pieces), rows=tuple(held))], dtype


def counted_of(reading: Reading, piece: Piece, engine: Local, tick: Tick) -> list[tuple[Any, int]]:
    """Task: what each method of estimating needs to know of the reports of a piece, and how many there are."""
    reports, out = block(reading, piece)[1], list[tuple[Any, int]]()
    for method in reading.methods:
        counting = Counting(reading.mechanism, engine, method)
        counting.add(reports)
        out.append((counting.counted, counting.reports))
    return out


def violations_of(reading: Reading, pieces: Sequence[Piece], checks: Checks) -> list[str]:
    """What the first reports of a file contradict, see `Checks`."""
    for piece in pieces:
        if not checks.enough:
            checks.add(*block(reading, piece))
    return checks.found()


def weigh(weighing: Weighing, piece: Piece, engine: Local, tick: Tick) -> Weighed:
    """Task: what the adversaries learn from each report of a piece, in the order of the users' hashes, in files.

    A user's reports beyond the horizon are left out; those of earlier pieces count as well, but are not known here.
    """
    users, reports = block(weighing.reading, piece)
    # Rows of a user often stand together, and a run costs what a row does.
    runs = users.rle().struct.unnest()
    names, lengths = runs["value"].cast(pl.String), runs["len"].to_numpy().astype(np.int64)
    hashes = name_hashes(names)
    order, starts = together(names, hashes)
    rows = places((np.cumsum(lengths) - lengths)[order], lengths[order])
    counts = np.add.reduceat(lengths[order], starts)
    kept = np.minimum(counts, weighing.scorer.horizon)
    if len(rows) > kept.sum():
        rows, early = _early(rows[places(np.cumsum(counts) - counts, kept)], len(rows))
        reports = {name: column[early] for name, column in reports.items()}
    told = weighing.scorer.told(reports, engine)
    first = order[starts]
    users = names.gather(first)
    store(weighing.reading.folder, piece.number, users, hashes[first], kept, told, rows)
    # the reports that count are only half done
    tick(piece.count - len(rows) / 2)
    most = int(kept.argmax())
    return Weighed(len(users), len(rows), int(users.str.len_bytes().sum()), (users[most], int(kept[most])))


def bounded(done: Iterable[Weighed], max_reports: int, horizon: int) -> Iterator[Weighed]:
    """The pieces, as long as no user is seen to have more reports than fit into memory."""
    reports = Counter[str]()
    for piece in done:
        user, count = piece.busiest
        reports[user] += count
        check_reports(user, min(reports[user], horizon), max_reports)
        yield piece


def check_reports(user: str, reports: int, max_reports: int, remedy: str = FEWER) -> None:
    """Refuse a user whose reports do not fit into memory."""
    if reports > max_reports:
        rule = f"must have at most {max_reports:,} reports"
        raise InputError(rule, value=reports, place=f"user {user}", remedy=remedy)


def warmed(
    engine: Engine, function: Callable[..., Any], shared: Any, items: Iterable[Any], tick: Tick | None = None
) -> Iterator[Any]:
    """The tasks of a round, the first one alone: it compiles for all."""
    waiting = iter(items)
    yield from engine.tasks(function, shared, islice(waiting, 1), tick)
    yield from engine.tasks(function, shared, waiting, tick)


def changed(file: Path) -> InputError:
    """The error of a file that is not what it was when it was cut."""
    return InputError("must not change while it is read", file=file)


def _early(rows: Integers, count: int) -> tuple[Integers, NDArray[np.bool_]]:
    """Some of so many rows: which they are, and their places among those that are left."""
    early = np.zeros(count, dtype=bool)
    early[rows] = True
    return (np.cumsum(early) - 1)[rows], early


def block(reading: Reading, piece: Piece) -> tuple[pl.Series, Reports]:
    """The users and the reports of a piece, checked."""
    check_shared(reading.folder, "the folder of temporary files")
    users, reports = next(blocks(piece, reading.mechanism.report_columns, reading.universe, rows=piece.count))
    if reading.devices is not None:
        users = users.replace(reading.devices["pseudonym"], reading.devices["user"])
    return users, reports
