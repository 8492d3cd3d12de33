"""Some rows of a table, and what a column may hold: the same rules for every table and every command.

=========== ============================================ =====================================================
a column of in Parquet                                   in CSV, where every value is a text
=========== ============================================ =====================================================
names       texts, categories or integers                texts, escaped (`formulas`)
integers    integers                                     decimals
numbers     integers or floats                           decimals, also with an exponent
=========== ============================================ =====================================================

A name is not empty and neither begins nor ends with a blank: "ann " beside "ann" would silently be one more user.
Nothing at all is no name and no number. Names have an end: a file of kilobytes can say one of a gigabyte, for each row.
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
from poolscope.core.tables.text import unescaped

#: Bytes of texts that are copied at once: rows share a text, of which a copy is made for each.
COPIED = 1 << 24

#: Bytes of a name at most.
LONGEST = 1 << 12


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Some rows of a file.

    Parameters
    ----------
    file : where they are from.
    first : the number of the first row, from 1.
    frame : the rows; of a CSV file every column is text.
    text : whether the file is CSV.
    """

    file: Path
    first: int
    frame: pl.DataFrame
    text: bool

    def wrong(self, rule: str, row: int, value: object, remedy: str | None = None) -> InputError:
        """The error of a rule that the batch's `row` (from 0) breaks."""
        value = "" if self.text and value is None else value
        return InputError(rule, value=value, place=f"row {self.first + row}", file=self.file, remedy=remedy)

    def mistyped(self, column: str, rule: str) -> InputError:
        """The error of a Parquet column of the wrong type."""
        dtype = self.frame.schema[column]
        return InputError(f"column {column!r} must hold {rule}", value=str(dtype), file=self.file)

    def check(self, column: str, holds: pl.Series, rule: str) -> None:
        """An error on the first row for which a rule does not hold, as it does not for null."""
        row = first_false(holds)
        if row is not None:
            raise self.wrong(f"{column} {rule}", row, self.frame[column][row])

    def names(self, column: str) -> pl.Series:
        """Texts or integers that call something, none of them missing."""
        series = self.names_or_none(column)
        self.check(column, series.is_not_null() if series.dtype.is_integer() else series != "", "must have a name")
        return series

    def names_or_none(self, column: str) -> pl.Series:
        """The same, where nothing (null, or an empty text) is legal."""
        series = self.frame[column]
        if series.dtype.is_integer():
            return series
        if series.dtype != pl.String:
            raise self.mistyped(column, "texts or integers")
        series = unescaped(series) if self.text else series
        lengths = series.str.len_bytes()
        row = first_false(lengths.fill_null(0) <= LONGEST)
        if row is not None:
            raise self.wrong(f"{column} must have at most {LONGEST:,} bytes", row, lengths[row])
        # Rows of a user often stand together: then looking at one of them is enough.
        some = series.filter(series.ne_missing(series.shift()))
        if any((part.str.strip_chars() != part).any() for part in copied(some)):
            inside = pl.concat([part.str.strip_chars().eq_missing(part) for part in copied(series)])
            self.check(column, inside, "must not begin or end with white space")
        return series

    def integers(self, column: str) -> pl.Series:
        """Integers; null where a value is none, for whoever checks their range."""
        series = self.frame[column]
        if not (self.text or series.dtype.is_integer()):
            raise self.mistyped(column, "integers")
        return series.cast(pl.Int64, strict=False)

    def numbers(self, column: str, most: float = sys.float_info.max) -> Floats:
        """Finite numbers from 0 on, none of them missing."""
        series = self.frame[column]
        if not (self.text or series.dtype.is_numeric()):
            raise self.mistyped(column, "numbers")
        values = series.cast(pl.Float64, strict=False)
        finite = most == sys.float_info.max
        rule = "must be a finite number, at least 0" if finite else f"must be a number from 0 to {most:g}"
        self.check(column, values.is_between(0.0, most), rule)
        return values.to_numpy()

    @property
    def text_bytes(self) -> int:
        """Bytes of all texts, counted in every row that has them."""
        return int(self._text_bytes.sum())

    @property
    def _text_bytes(self) -> pl.Series:
        return sum((_text_bytes(series) for series in self.frame), pl.repeat(0, self.frame.height, eager=True))

    def light(self, max_bytes: int) -> Iterator[Batch]:
        """The rows in batches of so many bytes of text, or of one row: a file may say a long text once for all rows."""
        before = self._text_bytes
        starts = (before.cum_sum() // max_bytes).rle_id().arg_unique().to_list()
        for start, end in zip(starts, [*starts[1:], self.frame.height], strict=True):
            yield replace(self, first=self.first + start, frame=self.frame[start:end])


def _text_bytes(series: pl.Series) -> pl.Series:
    """What the texts of each row take, or of each row's list."""
    if series.dtype == pl.String:
        return series.str.len_bytes().fill_null(0).cast(pl.Int64)
    if series.dtype == pl.List(pl.String):
        return series.list.eval(pl.element().str.len_bytes()).list.sum().fill_null(0).cast(pl.Int64)
    return pl.repeat(0, len(series), eager=True, dtype=pl.Int64)


def copied(texts: pl.Series) -> Iterator[pl.Series]:
    """Texts, some after others, of which about `COPIED` bytes are copied where each row gets a text of its own."""
    before = texts.str.len_bytes().fill_null(0).cast(pl.Int64).cum_sum() // COPIED
    for start, end in pairwise([*before.rle_id().arg_unique().to_list(), len(texts)]):
        yield texts[start:end]


def first_false(holds: pl.Series) -> int | None:
    """The first row for which a rule does not hold, as it does not for null; None where there is none."""
    holds = holds.fill_null(False)
    return None if holds.all() else holds.arg_min()


def select_columns(header: Sequence[str], columns: Sequence[str], optional: Iterable[str] = ()) -> list[str]:
    """The columns to read of those that a table has; an error where it lacks one that must be there."""
    for column in columns:
        if column not in header:
            raise no_column(column, header, columns)
    return [*columns, *(column for column in optional if column in header)]


def no_column(column: str, header: Iterable[str], expected: Iterable[str]) -> InputError:
    """The error of a table that lacks one of the columns that are expected of it."""
    names = list(header)
    near = nearest(column, names)
    remedy = f"expected: {', '.join(expected)}" if near is None else f"did you mean {near!r}?"
    return InputError(f"must have a column {column!r}", value=names, remedy=remedy)
