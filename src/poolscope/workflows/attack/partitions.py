"""The second round of the attack on a file: crowds of users become posteriors.

A *crowd* is an interval of hashes, so small that what is told of its users' reports fits into memory. A task takes
these out of all pieces, brings them together user by user, and writes the crowd's part of the table. Crowds follow each
other as their hashes do, and so do the users in them: the table does not depend on how many crowds there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from poolscope.core.arrays import Integers, Tick, places
from poolscope.core.executors import Local
from poolscope.core.tables import Parts
from poolscope.mechanisms.protocols import Reports
from poolscope.workflows.attack.chunks import Section, Weighed, check_reports, sections, together
from poolscope.workflows.attack.linked_devices import Joined
from poolscope.workflows.attack.scoring import Gathered, Scorer
from poolscope.workflows.attack.summary import Counts, count, surest

#: Copies of what is told of a crowd that are held while they are brought into order and used.
COPIES = 3

#: Copies of what is told of a user's reports that scoring holds beside, and reports of a user that are never refused.
SCORED, ALWAYS = 2, 1 << 16

#: Bytes that a user takes beside, for each piece that has rows of it.
NAMED = 128


class Crowd(NamedTuple):
    """Users with hashes from `low` to below `high`."""

    number: int
    low: int
    high: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Scoring:
    """What every task of the second round needs.

    Parameters
    ----------
    pieces : how many there are in the folder.
    max_reports : of a user that fit into memory.
    dtype : of the users' names in the table.
    parts : where the table goes, if anywhere.
    preview : rows of it that are handed back; top : of each adversary the surest users, as many.
    joined : how pseudonyms are joined to users, if they are.
    """

    scorer: Scorer
    folder: Path
    pieces: int
    max_reports: int
    dtype: pl.DataType
    parts: Parts | None
    head: int
    top: int
    joined: Joined | None = None


class ScoredCrowd(NamedTuple):
    """A crowd that is done: its part is written, its counts, its first and its surest rows are told."""

    number: int
    counts: Counts
    head: list[dict[str, Any]]
    top: pl.DataFrame


def crowds(done: Sequence[Weighed], row: int, max_bytes: int) -> Iterator[Crowd]:
    """So many equal intervals of hashes that a crowd takes about `max_bytes` bytes, what is told of a report `row`."""
    users, rows, letters = (sum(counts) for counts in list(zip(*done, strict=True))[:3])
    needed = COPIES * ((row + 8) * rows + letters) + NAMED * users
    count = min(users, -(-needed // max(1, max_bytes)))
    edges = [number * 2**64 // count for number in range(count + 1)]
    for number in range(count):
        yield Crowd(number, edges[number], edges[number + 1])


def fitting_reports(row: int, max_bytes: int) -> int:
    """How many reports of one user fit into so many bytes, what is told of a report `row`; some always do."""
    return max(ALWAYS, max_bytes // ((COPIES + SCORED) * (row + 8)))


def score_crowd(scoring: Scoring, crowd: Crowd, engine: Local, tick: Tick) -> ScoredCrowd | None:
    """Task: the posteriors of a crowd's users, written as a part of the table; None where there is nobody."""
    found = list(sections(scoring.folder, scoring.pieces, crowd.low, crowd.high))
    if not found:
        return None
    scorer = scoring.scorer
    names, gathered = gather(found, scorer.horizon, scorer.columns, scoring.max_reports)
    scorer.check(names, gathered.lengths, gathered.told)
    # each report is half done; those that come too late for their users are done with
    late = sum(int(section.lengths.sum()) for section in found) - int(gathered.lengths.sum())
    tick(late / 2)
    scored = scorer.score(gathered, engine, lambda reports: tick(reports / 2))
    frame = scorer.frame(scored, names.cast(scoring.dtype))
    if scoring.joined is not None:
        frame = scoring.joined.counted(frame)
    if scoring.parts is not None:
        scoring.parts.write(crowd.number, frame)
    head = frame.head(scoring.head).rows(named=True)
    return ScoredCrowd(crowd.number, count(scorer, scored), head, surest(frame, scoring.top))


def gather(found: Sequence[Section], horizon: int, columns: Reports, max_reports: int) -> tuple[pl.Series, Gathered]:
    """The users of some sections, by hash and then name, with the first reports of each, up to the horizon.

    `columns` are those that are told, without rows. A user with more than `max_reports` of them is refused.
    """
    names = pl.concat([section.names for section in found])
    hashes = np.concatenate([section.hashes for section in found])
    lengths = np.concatenate([section.lengths for section in found])
    order, starts = together(names, hashes)
    counts = np.add.reduceat(lengths[order], starts)
    kept = np.minimum(counts, horizon)
    most = int(kept.argmax())
    check_reports(names[int(order[starts[most]])], int(kept[most]), max_reports)
    begins, taken = _moves(order, starts, lengths, kept)
    told = {name: np.empty((int(kept.sum()), *like.shape[1:]), like.dtype) for name, like in columns.items()}
    done = 0
    for section in found:
        own = slice(done, done + len(section.names))
        goes, late = places(begins[own], taken[own]), bool((section.lengths > taken[own]).any())
        early = places(np.cumsum(section.lengths) - section.lengths, taken[own]) if late else slice(None)
        for name, column in section.told(columns).items():
            told[name][goes] = column[early]
        done = own.stop
    first = order[starts]
    return names.gather(first), Gathered(hashes=hashes[first], lengths=kept, told=told)


def _moves(order: Integers, starts: Integers, lengths: Integers, kept: Integers) -> tuple[Integers, Integers]:
    """Where the rows of each entry (a user of a section) begin among all that are kept, and how many of them are.

    `lengths` are the entries' rows, `order` and `starts` bring those of a user together, who keeps so many in all.
    """
    entries = np.diff(np.append(starts, len(order)))
    before = np.cumsum(lengths[order]) - lengths[order]
    before -= np.repeat(before[starts], entries)
    begins, taken = np.empty_like(lengths), np.empty_like(lengths)
    begins[order] = np.repeat(np.cumsum(kept) - kept, entries) + before
    taken[order] = np.clip(np.repeat(kept, entries) - before, 0, lengths[order])
    return begins, taken
