"""Bytes that decoding some rows of a Parquet file makes, from what its page headers say, and cuts that bound them.

A value is never longer than its page or its dictionary. The pages and dictionaries that some rows touch therefore
bound the bytes of their texts, before any of them is decoded.

Whether a Parquet file's own account of itself can be true, before a decoder believes it.

A decoder takes the counts and sizes of a file at their word: a negative one, or one of 2^60, ends the whole process as
memory of that size is asked for, and no exception says so. Files come from strangers, so the footer and the headers of
all pages are read here first: a few bytes of every page, none of its content. What they say is also what decoding will
take: a page of kilobytes may unpack to gigabytes, and a list repeat one value a billion times.

References
----------
Apache Parquet, parquet.thrift; Apache Thrift, compact protocol.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from poolscope.core.errors import InputError, reading

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


MAGIC = b"PAR1"

#: Values of a page and rows of a row group: far more than any writer puts there, and less than ends a process.
MAX_VALUES, MAX_ROWS = 1 << 27, 1 << 31

#: Bytes of a page header, with its statistics; those of a footer are all that it says it has.
HEADER = 1 << 16

#: Bytes that decoding takes for each value of lists (texts, others), which are decoded a row group at a time and held
#: twice while they grow.
LISTED = {True: 48, False: 24}

#: The types of texts, and of values of a fixed length.
BYTE_ARRAY, FIXED_BYTES = 6, 7

#: How deep a footer may nest.
DEEPEST = 16

Struct = dict[int, Any]


class _Malformed(Exception):
    """What is read is no such structure."""


def check_file(path: Path, most: int = 1 << 50) -> Account:
    """An `InputError` on a file that cannot be what it says, or has more than so many rows."""
    with reading(path), path.open("rb") as stream:
        return check(stream, most)


def check(stream: BinaryIO, most: int = 1 << 50) -> Account:
    """The same for a stream, which is left at its start."""
    try:
        footer = _footer(stream)
        account = Account(_within(footer[3], 0, 1 << 62, "rows"), stream.seek(0, os.SEEK_END))
        if account.rows > most:
            raise InputError(f"must have at most {most} rows", value=account.rows)
        # columns of fixed length have few schemas: the longest stands for all
        lengths = (_within(element.get(2, 0), 0, 1 << 31, "length of a value") for element in footer[2])
        fixed = max(lengths, default=0)
        for chunk, rows in _chunks(footer):
            path = tuple(part.decode() for part in chunk[3])
            leaf = account.leaves.setdefault(path, Leaf())
            leaf.fixed = fixed if chunk[1] == FIXED_BYTES else 0
            _check_chunk(stream, chunk, rows, leaf)
            account.group_rows = max(account.group_rows, rows)
    except (_Malformed, IndexError, KeyError, TypeError, AttributeError, UnicodeDecodeError) as error:
        rule = f"must be a Parquet file: {error}" if isinstance(error, _Malformed) else "must be a Parquet file"
        raise InputError(rule) from None
    stream.seek(0)
    return account


def _footer(stream: BinaryIO) -> Struct:
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - 8))
    tail = stream.read(8)
    length = int.from_bytes(tail[:4], "little")
    if size < 12 or tail[4:] != MAGIC or length > size - 12:
        raise _Malformed("its end is missing")
    stream.seek(size - 8 - length)
    return _Compact(stream.read(length)).struct()


def _chunks(footer: Struct) -> Iterator[tuple[Struct, int]]:
    """The metadata of every column of every row group, and the rows of the group."""
    if sum(group[3] for group in footer[4]) != footer[3]:
        raise _Malformed("its row groups have not the rows that it says")
    for group in footer[4]:
        rows = _within(group[3], 0, MAX_ROWS, "rows")
        for column in group[1]:
            yield column[3], rows


def _check_chunk(stream: BinaryIO, chunk: Struct, rows: int, leaf: Leaf) -> None:
    """The pages of a column lie one behind the other in the file and hold its values; what they take goes to `leaf`."""
    size = stream.seek(0, os.SEEK_END)
    # A list in a row has several values, but no more than a page for each row could.
    values = _within(chunk[5], 0, MAX_ROWS, "values")
    start = _within(chunk.get(11) or chunk[9], 4, size, "offset of a column")
    end = start + _within(chunk[7], 0, size - start, "size of a column")
    listed, found, whole = values > rows, 0, 0
    while found < values:
        if start >= end:
            raise _Malformed(f"a column has {found} of {values} values")
        stream.seek(start)
        compact = _Compact(stream.read(min(HEADER, end - start)))
        header = compact.struct()
        start += compact.place + _within(header[3], 0, end - start - compact.place, "size of a page")
        unpacked = _within(header[2], 0, 1 << 31, "size of a page")
        leaf.largest = max(leaf.largest, unpacked)
        count = _page_values(header)
        if count and not listed:
            leaf.pages.add(count, unpacked)
        else:
            whole += unpacked
        found += count
    if found != values or values < rows or (rows > 0) != (values > 0):
        raise _Malformed(f"a column has {found} values instead of {values}")
    if listed:
        made = (LISTED[chunk[1] == BYTE_ARRAY] + leaf.fixed) * values
        leaf.lists, whole = max(leaf.lists, made), whole + made
        leaf.pages.add(rows, 0)
    leaf.groups.add(rows, whole)


def _page_values(header: Struct) -> int:
    """How many values of the column a page holds: a page of a dictionary none."""
    for number in (5, 8):
        if number in header:
            inner = header[number]
            for name in (2, 3, 5, 6) if number == 8 else ():
                _within(inner.get(name, 0), 0, 1 << 31, "lengths in a page")
            return _within(inner[1], 0, MAX_VALUES, "values of a page")
    if 7 in header:
        _within(header[7][1], 0, MAX_VALUES, "entries of a dictionary")
        return 0
    raise _Malformed("a page of no known kind")


def _within(value: Any, low: int, high: int, what: str) -> int:
    if not isinstance(value, int) or not low <= value <= high:
        raise _Malformed(f"{what} of {value}")
    return value


class _Compact:
    """Structures of Thrift's compact protocol, as numbered fields; `place` is how far it has read."""

    def __init__(self, data: bytes) -> None:
        self._data, self.place, self._depth = data, 0, 0

    def struct(self) -> Struct:
        """The fields that follow, up to the end of the structure."""
        self._depth += 1
        if self._depth > DEEPEST:
            raise _Malformed("it is nested too deeply")
        fields: Struct = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._signed()
            fields[number] = self._value(head & 15)
        self._depth -= 1
        return fields

    def _value(self, kind: int) -> Any:
        if kind not in _READERS:
            raise _Malformed("its metadata cannot be read")
        return _READERS[kind](self)

    def _list(self) -> list[Any]:
        head = self._byte()
        count = head >> 4 if head >> 4 < 15 else self._varint()
        if count > len(self._data) - self.place:
            raise _Malformed("its metadata is too short")
        kind = head & 15
        # in a list a truth value has a byte of its own
        return [self._byte() if kind in (1, 2) else self._value(kind) for _ in range(count)]

    def _byte(self) -> int:
        self.place += 1
        return self._data[self.place - 1]

    def _bytes(self, count: int) -> bytes:
        if count > len(self._data) - self.place:
            raise _Malformed("its metadata is too short")
        self.place += count
        return self._data[self.place - count : self.place]

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise _Malformed("a number has no end")

    def _signed(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)


#: How a value of each type of the protocol is read. Not held by the reader: it would hold itself, and what it has read.
_READERS: dict[int, Callable[[_Compact], Any]] = {
    1: lambda _: True,
    2: lambda _: False,
    3: _Compact._byte,
    4: _Compact._signed,
    5: _Compact._signed,
    6: _Compact._signed,
    7: lambda compact: compact._bytes(8),
    8: lambda compact: compact._bytes(compact._varint()),
    9: _Compact._list,
    10: _Compact._list,
    12: _Compact.struct,
}
