"""Batches of rows, and the rules of their columns: the same for every table and every command.

=========== ============================================ =====================================================
a column of in Parquet                                   in CSV, where every value is text
=========== ============================================ =====================================================
names       texts, categories, integers or UUIDs          texts, escaped (`csv`)
integers    integers                                     decimals
numbers     integers or floats                           decimals, also with an exponent
=========== ============================================ =====================================================

A name is not empty, and neither begins nor ends with white space: otherwise "ann " would silently be another user than
"ann". Missing values are neither names nor numbers. The length of names is limited, as a compressed file of kilobytes
can contain names of a gigabyte.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import polars as pl

from poolscope.core.arrays import Floats
from poolscope.core.errors import InputError, nearest
from poolscope.core.tables.csv import unescaped

#: Bytes of strings that are copied in one chunk; an operation copies a shared string for each row.
COPIED_BYTES = 1 << 24

#: Length of a binary UUID.
UUID_BYTES = 16

#: Maximum length of a name in bytes.
MAX_NAME_BYTES = 1 << 12


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Consecutive rows of a file.

    Parameters
    ----------
    file : the file's name in messages.
    first : number of the first row, from 1.
    frame : the rows; all columns of a CSV file are strings.
    text : whether all values are text, as in CSV.
    """

    file: Path | str
    first: int
    frame: pl.DataFrame
    text: bool

    def wrong(self, rule: str, row: int, value: object, remedy: str | None = None) -> InputError:
        """Return the error of a rule that the batch's `row` (from 0) breaks."""
        value = "" if self.text and value is None else value
        return InputError(rule, value=value, place=f"row {self.first + row}", file=self.file, remedy=remedy)

    def mistyped(self, column: str, rule: str) -> InputError:
        """Return the error of a Parquet column of the wrong type."""
        dtype = self.frame.schema[column]
        return InputError(f"column {column!r} must hold {rule}", value=str(dtype), file=self.file)

    def check(self, column: str, holds: pl.Series, rule: str) -> None:
        """Raise an `InputError` on the first row where a rule does not hold; null counts as false."""
        row = first_false(holds)
        if row is not None:
            raise self.wrong(f"{column} {rule}", row, self.frame[column][row])

    def names(self, column: str) -> pl.Series:
        """Return a column of names, strings or integers, none missing."""
        series = self.names_or_none(column)
        self.check(column, series.is_not_null() if series.dtype.is_integer() else series != "", "must have a name")
        return series

    def names_or_none(self, column: str) -> pl.Series:
        """Return a column of names that may be missing (null or an empty string)."""
        series = self.frame[column]
        if series.dtype.is_integer():
            return series
        if series.dtype == pl.Binary:
            return self._uuids(column)
        if series.dtype != pl.String:
            raise self.mistyped(column, "texts or integers")
        series = unescaped(series) if self.text else series
        lengths = series.str.len_bytes()
        row = first_false(lengths.fill_null(0) <= MAX_NAME_BYTES)
        if row is not None:
            raise self.wrong(f"{column} must have at most {MAX_NAME_BYTES:,} bytes", row, lengths[row])
        # rows of a user are often consecutive: then checking one of them is enough
        changed = series.filter(series.ne_missing(series.shift()))
        if any((chunk.str.strip_chars() != chunk).any() for chunk in in_chunks(changed)):
            stripped = pl.concat([chunk.str.strip_chars().eq_missing(chunk) for chunk in in_chunks(series)])
            self.check(column, stripped, "must not begin or end with white space")
        return series

    def _uuids(self, column: str) -> pl.Series:
        """Return binary UUIDs in their canonical form of text; null where one is missing."""
        series = self.frame[column]
        lengths = series.bin.size()
        row = first_false(lengths.fill_null(UUID_BYTES) == UUID_BYTES)
        if row is not None:
            raise self.wrong(f"{column} must be text, or a UUID of {UUID_BYTES} bytes", row, f"{lengths[row]} bytes")
        digits = series.bin.encode("hex")
        cuts = pairwise((0, 8, 12, 16, 20, 32))
        fields = [digits.str.slice(start, end - start).alias(str(start)) for start, end in cuts]
        return pl.DataFrame(fields).select(pl.concat_str(pl.all(), separator="-").alias(column)).to_series()

    def integers(self, column: str) -> pl.Series:
        """Return a column of integers; null where a value is none, which range checks refuse."""
        series = self.frame[column]
        if not (self.text or series.dtype.is_integer()):
            raise self.mistyped(column, "integers")
        return series.cast(pl.Int64, strict=False)

    def numbers(self, column: str, high: float = sys.float_info.max) -> Floats:
        """Return a column of finite numbers from 0 to `high`, none missing."""
        series = self.frame[column]
        if not (self.text or series.dtype.is_numeric()):
            raise self.mistyped(column, "numbers")
        values = series.cast(pl.Float64, strict=False)
        finite = high == sys.float_info.max
        rule = "must be a finite number, at least 0" if finite else f"must be a number from 0 to {high:g}"
        self.check(column, values.is_between(0.0, high), rule)
        return values.to_numpy()

    @property
    def text_bytes(self) -> int:
        """Bytes of all strings, counted for every row."""
        return int(self._text_bytes.sum())

    @property
    def _text_bytes(self) -> pl.Series:
        return sum((_text_bytes(series) for series in self.frame), pl.repeat(0, self.frame.height, eager=True))

    def split_by_bytes(self, max_bytes: int) -> Iterator[Batch]:
        """Yield the rows in batches of at most `max_bytes` bytes of strings, or of one row."""
        sizes = self._text_bytes
        starts = (sizes.cum_sum() // max_bytes).rle_id().arg_unique().to_list()
        for start, end in zip(starts, [*starts[1:], self.frame.height], strict=True):
            yield replace(self, first=self.first + start, frame=self.frame[start:end])


def _text_bytes(series: pl.Series) -> pl.Series:
    """Return the bytes of the strings, or lists of strings, of each row."""
    if series.dtype == pl.String:
        return series.str.len_bytes().fill_null(0).cast(pl.Int64)
    if series.dtype == pl.List(pl.String):
        return series.list.eval(pl.element().str.len_bytes()).list.sum().fill_null(0).cast(pl.Int64)
    return pl.repeat(0, len(series), eager=True, dtype=pl.Int64)


def in_chunks(texts: pl.Series) -> Iterator[pl.Series]:
    """Yield strings in chunks of about `COPIED_BYTES`, to bound what an operation on each row copies."""
    before = texts.str.len_bytes().fill_null(0).cast(pl.Int64).cum_sum() // COPIED_BYTES
    for start, end in pairwise([*before.rle_id().arg_unique().to_list(), len(texts)]):
        yield texts[start:end]


def first_false(holds: pl.Series) -> int | None:
    """Return the first row where a rule does not hold, or is null; None where it holds everywhere."""
    holds = holds.fill_null(False)
    return None if holds.all() else holds.arg_min()


def select_columns(header: Sequence[str], columns: Sequence[str], optional: Iterable[str] = ()) -> list[str]:
    """Return the columns to read; raise an `InputError` where a required one is missing."""
    for column in columns:
        if column not in header:
            raise no_column(column, header, columns)
    return [*columns, *(column for column in optional if column in header)]


def no_column(column: str, header: Iterable[str], expected: Iterable[str]) -> InputError:
    """Return the error of a table without a required column."""
    names = list(header)
    near = nearest(column, names)
    remedy = f"expected: {', '.join(expected)}" if near is None else f"did you mean {near!r}?"
    return InputError(f"must have a column {column!r}", value=names, remedy=remedy)
