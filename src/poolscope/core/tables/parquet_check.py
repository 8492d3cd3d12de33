"""Validation of the metadata of Parquet files before they are decoded, and bounds on the memory of decoding.

Decoders trust the counts and sizes that a file declares: a negative one, or one of 2^60, makes them allocate that much
memory, which ends the process without an exception. Files are untrusted, so the footer and all page headers are checked
first; page contents are not read. The headers also bound the memory of decoding: a page of kilobytes may decompress to
gigabytes, and a list may repeat one value a billion times.

A value is never longer than its page or its dictionary. The pages and dictionaries that a range of rows touches
therefore bound the bytes of its strings.

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

#: Memory of decoding, per byte of the largest page.
DECODING_FACTOR = 3


class RowRunSizes:
    """Consecutive runs of rows, and the bytes that reading any row of a run takes."""

    def __init__(self) -> None:
        self._ends, self._bytes = [0], [0]

    def add(self, rows: int, size: int) -> None:
        """Append a run."""
        self._ends.append(self._ends[-1] + rows)
        self._bytes.append(self._bytes[-1] + size)

    def decoded_bytes(self, first: int, end: int) -> int:
        """Return the bytes of all runs that contain rows `first` (from 0) to `end` - 1."""
        return self._bytes[bisect_left(self._ends, end)] - self._bytes[bisect_right(self._ends, first) - 1]


@dataclass
class LeafColumn:
    """A leaf column of the schema.

    Parameters
    ----------
    pages, groups : bytes of each page, and of what each row group decodes as a whole (dictionaries, lists).
    largest : bytes of the largest page.
    lists : bytes of the largest row group of lists.
    fixed : bytes of each value of fixed length, as dictionary values are copied for each row.
    """

    pages: RowRunSizes = field(default_factory=RowRunSizes)
    groups: RowRunSizes = field(default_factory=RowRunSizes)
    largest: int = 0
    lists: int = 0
    fixed: int = 0

    def decoded_bytes(self, first: int, end: int) -> int:
        """Return an upper bound on the bytes of decoding rows `first` (from 0) to `end` - 1."""
        return self.pages.decoded_bytes(first, end) + self.groups.decoded_bytes(first, end) + self.fixed * (end - first)


@dataclass
class ParquetMetadata:
    """The checked metadata of a Parquet file.

    Parameters
    ----------
    rows : number of rows.
    size : bytes of the file.
    group_rows : rows of the largest row group.
    leaves : the leaf columns, by their path in the schema.
    """

    rows: int
    size: int
    group_rows: int = 0
    leaves: dict[tuple[str, ...], LeafColumn] = field(default_factory=dict)

    def decoding(self, columns: Container[str]) -> int:
        """Return the bytes that decoding any row of these columns takes."""
        return sum(DECODING_FACTOR * leaf.largest + leaf.lists for leaf in self._of(columns))

    def decoded_bytes(self, columns: Container[str], first: int, end: int) -> int:
        """Return an upper bound on the bytes of strings and lists of rows `first` (from 0) to `end` - 1."""
        return sum(leaf.decoded_bytes(first, end) for leaf in self._of(columns))

    def row_slices(self, columns: Container[str], rows: int, max_bytes: int) -> Iterator[tuple[int, int]]:
        """Yield the first row (from 0) and the length of consecutive runs of at most `rows` rows.

        A run takes at most `max_bytes` bytes in addition to those of its first row.
        """
        first = 0
        while first < self.rows:
            count = min(rows, self.rows - first)
            limit = max_bytes + self.decoded_bytes(columns, first, first + 1)
            while count > 1 and self.decoded_bytes(columns, first, first + count) > limit:
                count = (count + 1) // 2
            yield first, count
            first += count

    def _of(self, columns: Container[str]) -> Iterator[LeafColumn]:
        return (leaf for path, leaf in self.leaves.items() if path[0] in columns)


MAGIC = b"PAR1"

#: Maximum number of values of a page and rows of a row group: far more than writers use.
MAX_VALUES, MAX_ROWS = 1 << 27, 1 << 31

#: Maximum bytes of a page header, with its statistics.
HEADER = 1 << 16

#: Memory of decoding per value of lists (strings, others), which are decoded by row group and held twice while they
#: grow.
LISTED = {True: 48, False: 24}

#: Physical types of strings, and of values of fixed length.
BYTE_ARRAY, FIXED_BYTES = 6, 7

#: Maximum nesting depth of a footer.
MAX_DEPTH = 16

Struct = dict[int, Any]


class _Malformed(Exception):
    """The bytes are not the expected structure."""


def check_file(path: Path, max_rows: int = 1 << 50) -> ParquetMetadata:
    """Return the checked metadata of a file; raise an `InputError` if it is inconsistent or has too many rows."""
    with reading(path), path.open("rb") as stream:
        return check(stream, max_rows)


def check(stream: BinaryIO, max_rows: int = 1 << 50) -> ParquetMetadata:
    """Return the checked metadata of a stream, which is rewound to its start."""
    try:
        footer = _footer(stream)
        metadata = ParquetMetadata(_within(footer[3], 0, 1 << 62, "rows"), stream.seek(0, os.SEEK_END))
        if metadata.rows > max_rows:
            raise InputError(f"must have at most {max_rows} rows", value=metadata.rows)
        # the longest fixed length bounds those of all columns
        lengths = (_within(element.get(2, 0), 0, 1 << 31, "length of a value") for element in footer[2])
        fixed = max(lengths, default=0)
        for chunk, rows in _chunks(footer):
            path = tuple(part.decode() for part in chunk[3])
            leaf = metadata.leaves.setdefault(path, LeafColumn())
            leaf.fixed = fixed if chunk[1] == FIXED_BYTES else 0
            _check_chunk(stream, chunk, rows, leaf)
            metadata.group_rows = max(metadata.group_rows, rows)
    except (_Malformed, IndexError, KeyError, TypeError, AttributeError, UnicodeDecodeError) as error:
        rule = f"must be a Parquet file: {error}" if isinstance(error, _Malformed) else "must be a Parquet file"
        raise InputError(rule) from None
    stream.seek(0)
    return metadata


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
    """Yield the metadata of every column chunk, and the rows of its row group."""
    if sum(group[3] for group in footer[4]) != footer[3]:
        raise _Malformed("its row groups have not the rows that it says")
    for group in footer[4]:
        rows = _within(group[3], 0, MAX_ROWS, "rows")
        for column in group[1]:
            yield column[3], rows


def _check_chunk(stream: BinaryIO, chunk: Struct, rows: int, leaf: LeafColumn) -> None:
    """Check that the pages of a column chunk are contiguous and contain its values; add their sizes to `leaf`."""
    size = stream.seek(0, os.SEEK_END)
    # rows of lists have several values each
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
    """Return the number of values of a page; 0 for a dictionary page."""
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
    """Reader of Thrift's compact protocol: structures as numbered fields; `place` is the read position."""

    def __init__(self, data: bytes) -> None:
        self._data, self.place, self._depth = data, 0, 0

    def struct(self) -> Struct:
        """Read the fields up to the end of the structure."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
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
        # in a list a boolean takes one byte
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


#: Readers of the types of the protocol; at module level, as a reader that refers to itself is freed late.
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
