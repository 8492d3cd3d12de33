"""The two rounds of tasks of an attack on a file: chunks of reports to features, partitions of users to posteriors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from poolscope.core.arrays import Tick
from poolscope.core.executors import Engine, Local
from poolscope.core.progress import Progress
from poolscope.core.tables import Parts
from poolscope.reports.digest import FileDigest
from poolscope.workflows.attack import partitioning
from poolscope.workflows.attack.explanation import strongest_reports
from poolscope.workflows.attack.linking import LinkedPseudonyms
from poolscope.workflows.attack.partitioning import Chunk, Partition, ReportReader
from poolscope.workflows.attack.preparation import run_tasks
from poolscope.workflows.attack.resuming import Records
from poolscope.workflows.attack.scoring import Scorer
from poolscope.workflows.attack.summary import UserCounts, count, top_users


@dataclass(frozen=True, kw_only=True, eq=False)
class AttackTask:
    """What the tasks of both rounds share.

    Parameters
    ----------
    chunks : how many there are.
    max_reports : reports of a user that fit into memory.
    dtype : of the users' names in the table.
    parts : where the table is written, if it is.
    head : rows of the preview; top : users of each adversary in the top list.
    joined : how pseudonyms are linked to users, if they are.
    why : whether the strongest reports are found; records : of finished tasks, where these are kept.
    """

    scorer: Scorer
    reading: ReportReader
    chunks: int
    max_reports: int
    dtype: pl.DataType
    parts: Parts | None
    head: int
    top: int
    joined: LinkedPseudonyms | None = None
    why: bool = False
    records: Records | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class ChunkSummary:
    """A scored chunk, or several: users, rows that count, bytes of names, and the digest of all rows.

    busy : rows of users with so many that all chunks together may exceed memory.
    """

    users: int = 0
    rows: int = 0
    name_bytes: int = 0
    busy: Mapping[str, int] = field(default_factory=dict)
    digest: FileDigest = field(default_factory=FileDigest)

    def __add__(self, other: ChunkSummary) -> ChunkSummary:
        return ChunkSummary(
            users=self.users + other.users,
            rows=self.rows + other.rows,
            name_bytes=self.name_bytes + other.name_bytes,
            busy=Counter(self.busy) + Counter(other.busy),
            digest=self.digest + other.digest,
        )

    def facts(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        return {"users": self.users, "rows": self.rows, "name_bytes": self.name_bytes, "busy": dict(self.busy)}


def chunk_summaries(
    task: AttackTask, chunks: Sequence[Chunk], engine: Engine, progress: Progress
) -> Iterator[ChunkSummary]:
    """Yield the summary of every chunk: of finished ones from their records, then of the others."""
    todo = []
    for chunk in chunks:
        kept = task.records and task.records.found(f"chunk-{chunk.number}", task.reading.folder)
        if kept:
            summary = ChunkSummary(**kept[0], digest=FileDigest.from_arrays(kept[1]))
            progress.tick(chunk.count - summary.rows / 2)
            yield summary
        else:
            todo.append(chunk)
    yield from run_tasks(engine, score_chunk, task, todo, progress.tick)


def score_chunk(task: AttackTask, chunk: Chunk, engine: Local, tick: Tick) -> ChunkSummary:
    """Write the features of each report of a chunk to a file, ordered by the users' hashes (a task).

    A user's reports beyond the horizon are omitted; reports in earlier chunks count too, but are unknown here.
    """
    users, reports = task.reading.read(chunk)
    hashes = partitioning.row_hashes(users)
    digest = FileDigest.of(hashes, reports, chunk.number, task.reading.limits)
    if task.reading.devices is not None:
        users = task.reading.linked(users)
        hashes = partitioning.row_hashes(users)
    names = users.cast(pl.String)
    rows, first, lengths = partitioning.first_rows(names, hashes, task.scorer.horizon)
    positions = rows
    if len(rows) < len(users):
        early = np.zeros(len(users), dtype=bool)
        early[rows] = True
        reports = {name: column[early] for name, column in reports.items()}
        positions = (np.cumsum(early) - 1)[rows]
    features = {name: column[positions] for name, column in task.scorer.features(reports, engine).items()}
    file = partitioning.write_chunk(task.reading.folder, chunk.number, names.gather(rows), hashes[rows], features)
    own, busy = names.gather(first), np.flatnonzero(lengths > task.max_reports // task.chunks)
    summary = ChunkSummary(
        users=len(first),
        rows=len(rows),
        name_bytes=int(own.str.len_bytes().sum()),
        busy=dict(zip(own.gather(busy).to_list(), lengths[busy].tolist(), strict=True)),
        digest=digest,
    )
    if task.records is not None:
        task.records.add(f"chunk-{chunk.number}", file, summary.facts(), digest.arrays())
    # the reports that count are scored later
    tick(chunk.count - len(rows) / 2)
    return summary


def total_of(done: Iterable[ChunkSummary], max_reports: int, horizon: int) -> ChunkSummary:
    """Sum up all chunks; refuse a user whose reports do not fit into memory."""
    total = ChunkSummary()
    for chunk in done:
        total += chunk
        for user in chunk.busy:
            partitioning.check_reports(user, min(total.busy[user], horizon), max_reports)
    return total


class ScoredPartition(NamedTuple):
    """A scored partition: its part is written; its counts, preview rows, top users and strongest reports."""

    number: int
    counts: UserCounts
    head: list[dict[str, Any]]
    top: pl.DataFrame
    strongest: pl.DataFrame | None


def scored_partitions(
    task: AttackTask, partitions: Iterable[Partition], engine: Engine, progress: Progress
) -> Iterator[ScoredPartition]:
    """Yield every partition that has users: finished ones from their records, then the others."""
    todo = []
    for partition in partitions:
        kept = task.records and task.parts and task.records.found(f"part-{partition.number}", task.parts.folder)
        if kept:
            scored = _partition_of(*kept)
            progress.tick(int(scored.counts.used[-1]) / 2)
            yield scored
        else:
            todo.append(partition)
    for found in run_tasks(engine, score_partition, task, todo, progress.tick):
        if found is not None:
            yield found


def _partition_of(facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> ScoredPartition:
    """Return a finished partition from its record."""
    counts = UserCounts._make(arrays[name] for name in UserCounts._fields)
    head, top = _frame(arrays["head"]), _frame(arrays["top"])
    strongest = _frame(arrays["strongest"]) if "strongest" in arrays else None
    return ScoredPartition(facts["number"], counts, head.rows(named=True), top, strongest)


def _frame(stored: NDArray[np.uint8]) -> pl.DataFrame:
    return pl.read_parquet(BytesIO(stored.tobytes()))


def _stored(frame: pl.DataFrame) -> NDArray[np.uint8]:
    """Return a small table as bytes."""
    stream = BytesIO()
    frame.write_parquet(stream)
    return np.frombuffer(stream.getvalue(), dtype=np.uint8)


def score_partition(task: AttackTask, partition: Partition, engine: Local, tick: Tick) -> ScoredPartition | None:
    """Compute the posteriors of a partition's users and write them to the table (a task); None without users."""
    scorer, rows = task.scorer, partitioning.read_partition(task.reading.folder, task.chunks, partition)
    if not rows.height:
        return None
    gathered = partitioning.gather(rows, scorer.horizon, scorer.columns, task.max_reports)
    # reports beyond the horizon of their users are done
    tick((rows.height - int(gathered.lengths.sum())) / 2)
    del rows
    scorer.check(gathered.names, gathered.lengths, gathered.features)
    scored = scorer.score(gathered, engine, lambda reports: tick(reports / 2))
    frame = scorer.frame(scored, gathered.names.cast(task.dtype))
    if task.joined is not None:
        frame = task.joined.counted(frame)
    head = frame.head(task.head)
    strongest = strongest_reports(scorer, gathered, engine) if task.why else None
    counts, top = count(scorer, scored), top_users(frame, task.top)
    if task.parts is not None:
        file = task.parts.write(partition.number, frame)
        if task.records is not None:
            tables = {"head": head, "top": top} | ({} if strongest is None else {"strongest": strongest})
            arrays = {name: np.asarray(value) for name, value in counts._asdict().items()}
            arrays |= {name: _stored(table) for name, table in tables.items()}
            task.records.add(f"part-{partition.number}", file, {"number": partition.number}, arrays)
    return ScoredPartition(partition.number, counts, head.rows(named=True), top, strongest)
