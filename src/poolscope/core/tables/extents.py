"""Bytes that decoding some rows of a Parquet file makes, from what its page headers say, and cuts that bound them.

A value is never longer than its page or its dictionary. The pages and dictionaries that some rows touch therefore
bound the bytes of their texts, before any of them is decoded.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterator
from dataclasses import dataclass, field

#: Bytes that decoding takes for each byte of the largest page.
UNPACKED = 3


class Extents:
    """Runs of rows, one after the other, and the bytes that touching a run takes."""

    def __init__(self) -> None:
        self._ends, self._bytes = [0], [0]

    def add(self, rows: int, size: int) -> None:
        """Append a run."""
        self._ends.append(self._ends[-1] + rows)
        self._bytes.append(self._bytes[-1] + size)

    def taken(self, first: int, end: int) -> int:
        """Bytes of all runs that hold a row from `first` (from 0) to before `end`."""
        return self._bytes[bisect_left(self._ends, end)] - self._bytes[bisect_right(self._ends, first) - 1]


@dataclass
class Leaf:
    """A column of values.

    Parameters
    ----------
    pages, groups : what each page takes, and what each row group decodes as a whole (dictionaries, lists).
    largest : bytes of the largest page; lists : of the largest row group of lists.
    fixed : bytes of each row, where the schema fixes the length of values: a dictionary's are copied for each row.
    """

    pages: Extents = field(default_factory=Extents)
    groups: Extents = field(default_factory=Extents)
    largest: int = 0
    lists: int = 0
    fixed: int = 0

    def taken(self, first: int, end: int) -> int:
        """Bytes that decoding rows `first` (from 0) to before `end` makes, at most."""
        return self.pages.taken(first, end) + self.groups.taken(first, end) + self.fixed * (end - first)


@dataclass
class Account:
    """What a Parquet file says of itself.

    Parameters
    ----------
    rows : in all; group_rows : of the largest row group.
    size : bytes of the file.
    leaves : the columns of values, by their path in the schema.
    """

    rows: int
    size: int
    group_rows: int = 0
    leaves: dict[tuple[str, ...], Leaf] = field(default_factory=dict)

    def decoding(self, columns: Container[str]) -> int:
        """Bytes that decoding any row of these columns takes."""
        return sum(UNPACKED * leaf.largest + leaf.lists for leaf in self._of(columns))

    def taken(self, columns: Container[str], first: int, end: int) -> int:
        """Bytes of texts and lists that decoding rows `first` (from 0) to before `end` makes, at most."""
        return sum(leaf.taken(first, end) for leaf in self._of(columns))

    def cuts(self, columns: Container[str], rows: int, max_bytes: int) -> Iterator[tuple[int, int]]:
        """Cut all rows into runs: the first row of each, from 0, and how many, at most `rows`.

        A run makes at most `max_bytes` bytes beside what its first row makes by itself.
        """
        first = 0
        while first < self.rows:
            count = min(rows, self.rows - first)
            most = max_bytes + self.taken(columns, first, first + 1)
            while count > 1 and self.taken(columns, first, first + count) > most:
                count = (count + 1) // 2
            yield first, count
            first += count

    def _of(self, columns: Container[str]) -> Iterator[Leaf]:
        return (leaf for path, leaf in self.leaves.items() if path[0] in columns)
