"""The attack on a file by an engine with several workers.

The client reads who sent each row and cuts the table into *pieces* of rows. Two rounds of tasks follow. The first turns
the reports of a piece into the popularity masses of their supports, sorted by user, in a file. The second scores a
bucket of users: it takes their rows out of the pieces that have some, and writes its part of the table of posteriors.
Nothing but names, lengths and counts goes through the client; all files are in one folder, which every worker sees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from poolscope.base.arrays import Integers, Tick
from poolscope.base.engines import Engine, Local
from poolscope.base.errors import InputError
from poolscope.base.tables import Parts, Rows, Source
from poolscope.mechanisms.role import Mechanism, Reports
from poolscope.reports.files import USER, Columns, decode, in_file, users_of
from poolscope.reports.shares import Counting, masses
from poolscope.verbs.attack.crowds import Bucket, bucket_edges, bucket_rows
from poolscope.verbs.attack.scorer import Counts, Scorer
from poolscope.verbs.attack.users import Arrivals, Places
from poolscope.world.universe import Universe


class Piece(NamedTuple):
    """Rows that one task takes: where they are; their users' numbers are in a file."""

    number: int
    rows: tuple[Rows, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Reading:
    """What every task of the first round needs; `scorer` is there once it is known what the adversaries believe.

    `methods` are those by which adversaries estimate the popularity from the reports.
    """

    mechanism: Mechanism
    universe: Universe
    folder: Path
    scorer: Scorer | None = None
    methods: tuple[str | None, ...] = ()


class Sorted(NamedTuple):
    """A piece that is done: the first and the last user of its rows; none where all of them came too late."""

    number: int
    first: int
    last: int


class Crowd(NamedTuple):
    """The users of a bucket, and the pieces that have rows of them."""

    number: int
    users: range
    names: pl.Series
    lengths: Integers
    pieces: list[int]


@dataclass(frozen=True, kw_only=True, eq=False)
class Scoring:
    """What every task of the second round needs; `parts` is where the table goes, if anywhere."""

    scorer: Scorer
    folder: Path
    parts: Parts | None
    head: int


class ScoredCrowd(NamedTuple):
    """A bucket that is done: its part is written, its counts and, of the first, some rows are told."""

    number: int
    counts: Counts
    head: list[dict[str, Any]]


def cut(
    source: Source,
    columns: Columns,
    arrivals: Arrivals,
    places: Places,
    folder: Path,
    *,
    size: int,
    horizon: int,
    memory: int,
) -> Iterator[Piece]:
    """Number the users of all rows and cut the rows into pieces of about `size`.

    The numbers of a piece go to a file, with -1 for rows beyond a user's `horizon`. Rows of CSV are kept as Parquet,
    where a task finds them without reading what is before.
    """
    number, held, numbers, dtype = 0, [], [], None
    wanted = (USER, *in_file(columns, text=True)) if source.text else (USER,)
    for index, batch in enumerate(source.batches(wanted, memory=memory, row_bytes=64)):
        users = users_of(batch, dtype)
        dtype = users.dtype
        own = arrivals.number(users)
        numbers.append(np.where(places.of(own) < horizon, own, -1))
        kept = None
        if source.text:
            kept = folder / f"{index}.rows"
            batch.frame.write_parquet(kept, compression="uncompressed", statistics=False)
        held.append(Rows(file=batch.file.absolute(), first=batch.first, count=len(users), kept=kept))
        if sum(map(len, numbers)) >= size:
            yield _piece(number, held, numbers, folder)
            number, held, numbers = number + 1, [], []
    if held:
        yield _piece(number, held, numbers, folder)


def _piece(number: int, rows: list[Rows], numbers: list[Integers], folder: Path) -> Piece:
    np.concatenate(numbers).tofile(folder / f"{number}.numbers")
    return Piece(number, tuple(rows))


def counted_of(reading: Reading, piece: Piece, engine: Local, tick: Tick) -> list[tuple[Any, int]]:
    """Task: what each method of estimating needs to know of the reports of a piece, and how many there are."""
    reports, out = _reports(reading, piece), []
    for method in reading.methods:
        counting = Counting(reading.mechanism, engine, method)
        counting.add(reports)
        out.append((counting.counted, counting.reports))
    return out


def sort_masses(reading: Reading, piece: Piece, engine: Local, tick: Tick) -> Sorted:
    """Task: what the adversaries learn from each report of a piece, sorted by user, in two files."""
    assert reading.scorer is not None
    scorer = reading.scorer
    mass = masses(scorer.mechanism, _reports(reading, piece), scorer.view, engine)
    numbers = np.fromfile(reading.folder / f"{piece.number}.numbers", dtype=np.int64)
    if len(numbers) != len(mass):
        raise changed(piece.rows[0].file)
    order = np.argsort(numbers, kind="stable")
    order = order[np.searchsorted(numbers[order], 0) :]
    numbers = numbers[order]
    numbers.tofile(reading.folder / f"{piece.number}.users")
    mass[order].tofile(reading.folder / f"{piece.number}.mass")
    return Sorted(piece.number, int(numbers[0]), int(numbers[-1])) if len(numbers) else Sorted(piece.number, 0, -1)


def score_crowd(scoring: Scoring, crowd: Crowd, engine: Local, tick: Tick) -> ScoredCrowd:
    """Task: the posteriors of a bucket's users, written as a part of the table."""
    parts = [_rows_of(scoring, piece, crowd.users) for piece in crowd.pieces]
    users, mass = (np.concatenate(found) for found in zip(*parts, strict=True))
    mass = mass[np.argsort(users, kind="stable")]
    bucket = Bucket(number=crowd.number, users=crowd.users, lengths=crowd.lengths, mass=mass)
    return scored_crowd(scoring, bucket, crowd.names, engine, tick)


def scored_crowd(scoring: Scoring, bucket: Bucket, names: pl.Series, engine: Engine, tick: Tick) -> ScoredCrowd:
    """Score a bucket's users, of these names, and write their part of the table."""
    scored = scoring.scorer.score(bucket, engine, tick)
    frame = scoring.scorer.frame(scored, names)
    if scoring.parts is not None:
        scoring.parts.write(bucket.number, frame)
    head = frame.head(scoring.head).rows(named=True) if bucket.number == 0 else []
    return ScoredCrowd(bucket.number, scoring.scorer.count(scored), head)


def crowds(done: Iterable[Sorted], lengths: Integers, names: pl.Series, width: int, memory: int) -> Iterator[Crowd]:
    """Buckets of users, the same as one process would make, each with the pieces it needs in the file's order."""
    pieces = sorted(done)
    edges = bucket_edges(lengths, bucket_rows(memory, width))
    for number, (begin, end) in enumerate(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)):
        needed = [piece.number for piece in pieces if piece.first < end and piece.last >= begin]
        yield Crowd(number, range(begin, end), names[begin:end], lengths[begin:end], needed)


def warmed(
    engine: Engine, function: Callable[..., Any], shared: Any, items: Iterable[Any], tick: Tick | None = None
) -> Iterator[Any]:
    """The tasks of a round, the first one alone: it compiles for all."""
    waiting = iter(items)
    yield from engine.tasks(function, shared, islice(waiting, 1), tick)
    yield from engine.tasks(function, shared, waiting, tick)


def changed(file: Path) -> InputError:
    """The error of a file whose second look is not its first."""
    return InputError("must not change while it is read", file=file)


def _reports(reading: Reading, piece: Piece) -> Reports:
    """The reports of a piece, checked."""
    if not reading.folder.is_dir():
        remedy = "workers must share the file system of the output folder"
        raise InputError("a worker cannot see the folder of temporary files", file=reading.folder, remedy=remedy)
    columns = reading.mechanism.report_columns
    found = []
    for rows in piece.rows:
        batch = rows.read([USER, *in_file(columns, text=rows.text)])
        if batch.frame.height != rows.count:
            raise changed(rows.file)
        found.append(decode(batch, columns, reading.universe))
    return {name: np.concatenate([part[name] for part in found]) for name in columns}


def _rows_of(scoring: Scoring, piece: int, users: range) -> tuple[Integers, np.ndarray]:
    """A piece's rows of some users: read where they are, not the file."""
    who = np.memmap(scoring.folder / f"{piece}.users", dtype=np.int64, mode="r")
    begin, end = np.searchsorted(who, [users.start, users.stop])
    if begin == end:
        return np.empty(0, dtype=np.int64), np.empty((0, scoring.scorer.view.width))
    width = scoring.scorer.view.width
    mass = np.memmap(scoring.folder / f"{piece}.mass", dtype=np.float64, mode="r", shape=(len(who), width))
    return np.array(who[begin:end]), np.array(mass[begin:end])
