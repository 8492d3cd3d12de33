"""What was learnt from each report, brought together user by user in bounded memory.

Rows of users may be interleaved in a file of any size. Users are cut into *buckets* of neighbours (in order of their
first rows) that fit into memory; how many rows each will have is known from a first look at the file. A bucket is
finished with its last row. Where users' rows stand together a bucket is finished soon after it was begun, and nothing
touches the disk; where they do not, the fullest buckets wait in files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from poolscope.base.arrays import Floats, Integers

#: Copies of a bucket that are held while it is brought into order and used.
COPIES = 3


@dataclass(frozen=True, kw_only=True, eq=False)
class Bucket:
    """Some users with all their rows.

    Parameters
    ----------
    number : its place among the buckets.
    users : the numbers of its users.
    lengths : (users,) rows of each.
    mass : (rows, width) user after user, each in order of time.
    """

    number: int
    users: range
    lengths: Integers
    mass: Floats


class Gathering:
    """Buckets on their way.

    Parameters
    ----------
    lengths : (users,) how many rows of each user will come.
    width : columns of a row.
    memory : bytes that a bucket may take, and as many again all waiting rows together.
    folder : where rows go that have to wait outside of memory.
    """

    def __init__(self, lengths: Integers, width: int, memory: int, folder: Path) -> None:
        self._lengths, self._width, self._memory, self._folder = lengths, width, memory, folder
        self._edges = bucket_edges(lengths, bucket_rows(memory, width))
        ends = np.concatenate([[0], np.cumsum(lengths)])[self._edges]
        self._missing = np.diff(ends)
        self._waiting: dict[int, list[tuple[Integers, Floats]]] = {}
        self._rows: dict[int, int] = {}

    @property
    def unfinished(self) -> bool:
        """Whether rows are still to come."""
        return bool(self._missing.any())

    def add(self, users: Integers, mass: Floats) -> Iterator[Bucket]:
        """Take the next rows, of these users; yields the buckets that they finish."""
        if not len(users):
            return
        bucket = np.searchsorted(self._edges, users, side="right") - 1
        order = np.argsort(bucket, kind="stable")
        numbers, starts = np.unique(bucket[order], return_index=True)
        for number, rows in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True):
            # Copies: a view would keep all rows of the block in memory.
            self._waiting.setdefault(number, []).append((users[rows], mass[rows]))
            self._rows[number] = self._rows.get(number, 0) + len(rows)
            self._missing[number] -= len(rows)
            if self._missing[number] == 0:
                yield self._finished(number)
        while sum(self._rows.values()) * _row_bytes(self._width) > self._memory:
            self._spill(max(self._rows, key=self._rows.__getitem__))

    def _files(self, number: int) -> tuple[Path, Path]:
        return self._folder / f"{number}.users", self._folder / f"{number}.mass"

    def _spill(self, number: int) -> None:
        for users, mass in self._waiting.pop(number):
            for path, array in zip(self._files(number), (users, mass), strict=True):
                with path.open("ab") as stream:
                    stream.write(array.data)
        del self._rows[number]

    def _finished(self, number: int) -> Bucket:
        waiting = self._waiting.pop(number)
        del self._rows[number]
        files = self._files(number)
        if files[0].exists():
            spilt = np.fromfile(files[1]).reshape(-1, self._width)
            waiting.insert(0, (np.fromfile(files[0], dtype=np.int64), spilt))
            for path in files:
                path.unlink()
        users, mass = (np.concatenate(parts) for parts in zip(*waiting, strict=True))
        del waiting
        if np.any(users[1:] < users[:-1]):
            mass = mass[np.argsort(users, kind="stable")]
        own = range(int(self._edges[number]), int(self._edges[number + 1]))
        return Bucket(number=number, users=own, lengths=self._lengths[own.start : own.stop], mass=mass)


def bucket_rows(memory: int, width: int) -> int:
    """Rows of a bucket that takes so many bytes."""
    return memory // (COPIES * _row_bytes(width))


def _row_bytes(width: int) -> int:
    return 8 * (width + 1)


def bucket_edges(lengths: Integers, rows: int) -> Integers:
    """Where buckets of neighbouring users begin and end, of at most so many rows, or of one user."""
    ends = np.cumsum(lengths)
    edges = [0]
    while edges[-1] < len(lengths):
        done = ends[edges[-1] - 1] if edges[-1] else 0
        edges.append(max(edges[-1] + 1, int(np.searchsorted(ends, done + rows, side="right"))))
    return np.array(edges, dtype=np.int64)
