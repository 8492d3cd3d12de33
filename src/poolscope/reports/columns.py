"""Formats of report columns: how each kind of column is stored, read, checked and written.

A mechanism declares the kind of each of its columns (`ReportColumn`). A new kind is a new entry of `COLUMN_FORMATS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from poolscope.core.tables import Batch
from poolscope.core.tables.columns import first_false
from poolscope.mechanisms.protocols import ReportColumn
from poolscope.population.universe import Universe, objects_of

#: Bits that are unpacked in one chunk.
UNPACKED_BITS = 1 << 24


class ColumnFormat(Protocol):
    """The interface of readers and writers to one kind of column."""

    def names_in_file(self, name: str) -> tuple[str, ...]:
        """Return the possible names of the column in a file; Parquet is written with the first, text with the last."""
        ...

    def empty(self, column: ReportColumn, rows: int) -> NDArray[Any]:
        """Return an uninitialized array for the values of `rows` reports."""
        ...

    def read(self, batch: Batch, header: str, column: ReportColumn, universe: Universe) -> NDArray[Any]:
        """Return the checked values of a batch."""
        ...

    def written(self, values: NDArray[Any], column: ReportColumn, universe: Universe, text: bool) -> pl.Series:
        """Return the values in the form of a file."""
        ...


@dataclass(frozen=True)
class IntegerFormat:
    """Integers 0..size-1."""

    def names_in_file(self, name: str) -> tuple[str, ...]:
        return (name,)

    def empty(self, column: ReportColumn, rows: int) -> NDArray[Any]:
        return np.empty(rows, dtype=np.int32 if column.size <= 1 << 31 else np.int64)

    def read(self, batch: Batch, header: str, column: ReportColumn, universe: Universe) -> NDArray[Any]:
        values = batch.integers(header)
        batch.check(header, values.is_between(0, column.size - 1), f"must be an integer from 0 to {column.size - 1}")
        return values.to_numpy()

    def written(self, values: NDArray[Any], column: ReportColumn, universe: Universe, text: bool) -> pl.Series:
        return pl.Series(values)


@dataclass(frozen=True)
class SignFormat(IntegerFormat):
    """1 or -1."""

    def empty(self, column: ReportColumn, rows: int) -> NDArray[Any]:
        return np.empty(rows, dtype=np.int8)

    def read(self, batch: Batch, header: str, column: ReportColumn, universe: Universe) -> NDArray[Any]:
        values = batch.integers(header)
        batch.check(header, values.is_in([1, -1]), "must be 1 or -1")
        return values.to_numpy()


@dataclass(frozen=True)
class BitsFormat:
    """Bit vectors: ``bits``, or the set positions in ``ones``; Parquet is written with the first, CSV with the second.

    ============================ ================================================================
    ``bits``                     bytes, least significant bit first; the same in hexadecimal; text
                                 of m characters 0 and 1; lists of m booleans, or of m 0 and 1
    ``ones``                     lists of positions; text of positions, separated by spaces
    ============================ ================================================================
    """

    def names_in_file(self, name: str) -> tuple[str, ...]:
        return ("bits", "ones") if name == "bits" else (name,)

    def empty(self, column: ReportColumn, rows: int) -> NDArray[Any]:
        return np.empty((rows, _bytes(column)), dtype=np.uint8)

    def read(self, batch: Batch, header: str, column: ReportColumn, universe: Universe) -> NDArray[Any]:
        dtype = batch.frame.schema[header]
        if isinstance(dtype, pl.List | pl.Array):
            lists = batch.frame[header].cast(pl.List(dtype.inner))
            return self._in_chunks(batch, header, column, lists, _positions if header == "ones" else _booleans)
        if dtype == pl.String and (header == "ones" or (batch.text and header != "bits")):
            # an empty field is a vector without a set bit
            words = batch.frame[header].fill_null("").str.split(" ")
            return self._in_chunks(batch, header, column, words, _positions)
        if dtype == pl.String:
            return self._from_digits(batch, header, column)
        return self._from_bytes(batch, header, column)

    def written(self, values: NDArray[Any], column: ReportColumn, universe: Universe, text: bool) -> pl.Series:
        return _positions_text(values, column.size) if text else binary(values)

    def _from_bytes(self, batch: Batch, header: str, column: ReportColumn) -> NDArray[Any]:
        series, m, size = batch.frame[header], column.size, _bytes(column)
        if series.dtype != pl.Binary or header == "ones":
            raise batch.mistyped(header, "lists or texts of positions" if header == "ones" else "bytes")
        lengths = series.bin.size()
        row = first_false(lengths == size)
        if row is not None:
            raise batch.wrong(f"{header} must have {size} bytes (m = {m})", row, lengths[row])
        return _without_spare(batch, header, bytes_of(series, size), m)

    def _from_digits(self, batch: Batch, header: str, column: ReportColumn) -> NDArray[Any]:
        """Read text of 0 and 1, or hexadecimal text of bytes, which have different lengths unless m is 2."""
        text, m, size = batch.frame[header], column.size, _bytes(column)
        lengths = text.str.len_bytes()
        if (lengths == m).all():
            row = first_false(text.str.contains("^[01]*$"))
            if row is not None:
                raise batch.wrong(f"{header} must be {m} characters 0 and 1", row, text[row])
            out = self.empty(column, len(text))
            at_once = max(1, UNPACKED_BITS // m)
            for start in range(0, len(text), at_once):
                chunk = text[start : start + at_once]
                dense = bytes_of(chunk.cast(pl.Binary), m) - ord("0")
                out[start : start + at_once] = np.packbits(dense, axis=1, bitorder="little")
            return out
        digits = text.str.replace(r"^(?:0x|\\x)", "")
        row = first_false((digits.str.len_bytes() == 2 * size) & digits.str.contains("^[0-9a-fA-F]*$"))
        if row is not None:
            rule = f"{header} must be {m} characters 0 and 1, or {2 * size} hexadecimal digits (m = {m})"
            raise batch.wrong(rule, row, text[row])
        return _without_spare(batch, header, bytes_of(digits.str.decode("hex"), size), m)

    def _in_chunks(
        self,
        batch: Batch,
        header: str,
        column: ReportColumn,
        lists: pl.Series,
        packed: Callable[[Batch, str, pl.Series, int, int], NDArray[np.uint8]],
    ) -> NDArray[Any]:
        out = self.empty(column, len(lists))
        at_once = max(1, UNPACKED_BITS // column.size)
        for start in range(0, len(lists), at_once):
            chunk = lists[start : start + at_once]
            out[start : start + at_once] = packed(batch, header, chunk, start, column.size)
        return out


@dataclass(frozen=True)
class ObjectFormat(IntegerFormat):
    """Objects of the universe: their names, or their numbers where they have none."""

    def empty(self, column: ReportColumn, rows: int) -> NDArray[Any]:
        return np.empty(rows, dtype=np.int64)

    def read(self, batch: Batch, header: str, column: ReportColumn, universe: Universe) -> NDArray[Any]:
        return objects_of(batch, header, universe).to_numpy()

    def written(self, values: NDArray[Any], column: ReportColumn, universe: Universe, text: bool) -> pl.Series:
        return pl.Series(values) if universe.objects is None else pl.Series(universe.objects).gather(values)


@dataclass(frozen=True)
class RealsFormat:
    """Vectors of finite numbers: lists; in CSV decimals, separated by spaces."""

    def names_in_file(self, name: str) -> tuple[str, ...]:
        return (name,)

    def empty(self, column: ReportColumn, rows: int) -> NDArray[Any]:
        return np.empty((rows, column.size))

    def read(self, batch: Batch, header: str, column: ReportColumn, universe: Universe) -> NDArray[Any]:
        series, size = batch.frame[header], column.size
        text = batch.text or series.dtype == pl.String
        if text:
            series = series.fill_null("").str.split(" ")
        elif not (isinstance(series.dtype, pl.List | pl.Array) and series.dtype.inner.is_numeric()):
            raise batch.mistyped(header, "lists of numbers")
        lists = series.arr.to_list() if isinstance(series.dtype, pl.Array) else series
        lengths = lists.list.len()
        row = first_false(lengths == size)
        rule = f"{header} must be {size} finite numbers" + (", separated by spaces" if text else "")
        if row is not None:
            raise batch.wrong(rule, row, lengths[row])
        flat = lists.explode()
        numbers = flat.cast(pl.Float64, strict=False)
        bad = first_false(numbers.is_finite())
        if bad is not None:
            raise batch.wrong(rule, bad // size, flat[bad])
        return numbers.to_numpy().reshape(len(series), size)

    def written(self, values: NDArray[Any], column: ReportColumn, universe: Universe, text: bool) -> pl.Series:
        if text:
            return pl.Series([" ".join(map(repr, row.tolist())) for row in values], dtype=pl.String)
        return pl.Series(values, dtype=pl.Array(pl.Float64, column.size))


COLUMN_FORMATS: dict[str, ColumnFormat] = {
    "integer": IntegerFormat(),
    "sign": SignFormat(),
    "bits": BitsFormat(),
    "object": ObjectFormat(),
    "reals": RealsFormat(),
}


def _bytes(column: ReportColumn) -> int:
    return -(-column.size // 8)


def binary(values: NDArray[np.uint8]) -> pl.Series:
    """Return rows of bytes as a binary column."""
    size = values.shape[1]
    try:
        return pl.Series(values, dtype=pl.Array(pl.UInt8, size)).cast(pl.List(pl.UInt8)).cast(pl.Binary)
    except pl.exceptions.InvalidOperationError:
        # older versions of polars lack this cast; a list of bytes takes ten times as long
        return pl.Series(np.ascontiguousarray(values).view(f"V{size}").ravel().tolist(), dtype=pl.Binary)


def bytes_of(series: pl.Series, size: int) -> NDArray[np.uint8]:
    """Return (rows, size) the bytes of a binary column whose rows all have `size` bytes."""
    return series.cast(pl.List(pl.UInt8)).explode().to_numpy().reshape(len(series), size)


def _without_spare(batch: Batch, header: str, bits: NDArray[np.uint8], m: int) -> NDArray[np.uint8]:
    """Return packed bits; refuse a bit beyond the last."""
    size = bits.shape[1]
    spare = bits[:, -1] >> (m - 8 * (size - 1)) if m % 8 else np.zeros(1, dtype=np.uint8)
    if spare.any():
        row = int(spare.astype(bool).argmax())
        last = m + int(spare[row]).bit_length() - 1
        raise batch.wrong(f"{header} must have no bit set beyond m = {m}", row, last)
    return bits


def _booleans(batch: Batch, header: str, lists: pl.Series, start: int, m: int) -> NDArray[np.uint8]:
    """Return packed bit vectors from lists of m booleans, or of m integers 0 and 1."""
    assert isinstance(lists.dtype, pl.List)
    inner = lists.dtype.inner
    if not (inner == pl.Boolean or inner.is_integer()):
        raise batch.mistyped(header, f"bytes, lists of {m} booleans, or text")
    lengths = lists.list.len()
    row = first_false(lengths == m)
    if row is not None:
        raise batch.wrong(f"{header} must be {m} booleans (m = {m})", start + row, lengths[row])
    flat = lists.explode()
    bad = first_false(flat.is_not_null() if inner == pl.Boolean else flat.is_between(0, 1))
    if bad is not None:
        raise batch.wrong(f"{header} must be {m} booleans, or {m} 0 and 1", start + bad // m, flat[bad])
    dense = flat.cast(pl.UInt8).to_numpy().reshape(len(lists), m)
    return np.packbits(dense, axis=1, bitorder="little")


def _positions(batch: Batch, header: str, words: pl.Series, start: int, m: int) -> NDArray[np.uint8]:
    """Return packed bit vectors from lists of set positions, integers or text."""
    assert isinstance(words.dtype, pl.List)
    text = words.dtype.inner == pl.String
    if not (text or words.dtype.inner.is_integer() or words.dtype.inner == pl.Null):
        raise batch.mistyped(header, "lists or texts of positions")
    rule = f"{header} must be positions from 0 to {m - 1}, each once" + (", separated by spaces" if text else "")
    missing = first_false(words.is_not_null())
    if missing is not None:
        raise batch.wrong(rule, start + missing, None)
    row_of = np.repeat(np.arange(len(words)), words.list.len().to_numpy())
    # an empty list is a null in the exploded column
    flat = words.filter(words.list.len() > 0).explode()
    if text:
        flat = flat.fill_null("")
        there = (flat != "").to_numpy()
        row_of, flat = row_of[there], flat.filter(there)
    positions = flat.cast(pl.Int64, strict=False)
    bad = first_false(positions.is_between(0, m - 1))
    if bad is not None:
        raise batch.wrong(rule, start + int(row_of[bad]), flat[bad])
    dense = np.zeros((len(words), m), dtype=np.uint8)
    dense[row_of, positions.to_numpy()] = 1
    twice = np.bincount(row_of, minlength=len(words)) != dense.sum(axis=1, dtype=np.int64)
    if twice.any():
        row = int(twice.argmax())
        raise batch.wrong(rule, start + row, batch.frame[header][start + row])
    return np.packbits(dense, axis=1, bitorder="little")


def _positions_text(values: NDArray[np.uint8], m: int) -> pl.Series:
    """Return the set positions of bit vectors, separated by spaces."""
    names = np.array([str(i) for i in range(m)], dtype=object)
    out: list[str] = []
    at_once = max(1, UNPACKED_BITS // m)
    for start in range(0, len(values), at_once):
        dense = np.unpackbits(values[start : start + at_once], axis=1, bitorder="little", count=m)
        row_of, positions = np.nonzero(dense)
        edges = np.concatenate([[0], np.cumsum(np.bincount(row_of, minlength=len(dense)))])
        words = names[positions]
        out += [" ".join(words[a:b]) for a, b in pairwise(edges)]
    return pl.Series(out, dtype=pl.String)
