"""CSV in batches: plain text goes through polars, whatever is quoted or odd through Python's own reader.

Polars fills short rows with nothing and reads stray quotes differently from version to version, and says no row. So it
gets only text without quotes and blank lines whose commas add up; the rest is parsed with care.

Texts of CSV that a spreadsheet would run as formulas: written behind an apostrophe, and read without it.

A text that begins with ``=``, ``+``, ``-``, ``@``, a tab or a line break gets an apostrophe in front. So does one that
begins with apostrophes before such a sign, so that reading gives every text back as it was.

References
----------
OWASP, CSV Injection.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import polars as pl

from poolscope.core.errors import InputError

#: Bytes that a row of CSV may have.
LONGEST_ROW = 1 << 26

# Spreadsheets write a byte order mark, which is no part of the first column's name.
MARK = b"\xef\xbb\xbf"


def text_batches(
    file: Path, wanted: Callable[[Sequence[str]], list[str]], size: int
) -> Iterator[tuple[int, pl.DataFrame]]:
    """The number of its first row, from 1, and each batch of about `size` bytes; every column is text.

    `wanted` chooses the columns to keep among those of the header.
    """
    with file.open("rb") as stream:
        header = stream.readline(LONGEST_ROW).removeprefix(MARK)
        names = _names(_decoded(header, 1))
        columns = wanted(names)
        row, line = 1, 2
        for data in _chunks(stream, size):
            frame = _parsed(data, _decoded(data, line), names, row, line)
            if frame.height:
                yield row, frame.select(columns)
            row += frame.height
            line += data.count(b"\n")


def _names(header: str) -> list[str]:
    try:
        names = [name.strip() for name in next(csv.reader([header]), [])]
    except csv.Error as error:
        raise InputError(f"must be CSV: {error}", place="line 1") from error
    if not names:
        raise InputError("must not be empty")
    if len(set(names)) != len(names):
        raise InputError("must not have two columns of one name", value=names)
    return names


def _decoded(data: bytes, line: int) -> str:
    try:
        return data.decode("ascii" if data.isascii() else "utf-8")
    except UnicodeDecodeError as error:
        line += data.count(b"\n", 0, error.start)
        byte = data[error.start : error.start + 1]
        raise InputError("must be UTF-8 text", value=byte, place=f"line {line}") from None


def _chunks(stream: BinaryIO, size: int) -> Iterator[bytes]:
    """Whole rows, about `size` bytes at a time."""
    rest = b""
    while block := stream.read(size):
        rest += block
        end = _end_of_rows(rest)
        if end:
            yield rest[:end]
            rest = rest[end:]
        elif len(rest) > LONGEST_ROW:
            raise InputError(f"a row must have at most {LONGEST_ROW} bytes")
    if rest:
        yield rest


def _end_of_rows(data: bytes) -> int:
    """Where the last whole row ends; a line break between quotes is part of a field."""
    end = data.rfind(b"\n") + 1
    while end and data.count(b'"', 0, end) % 2:
        opened = data.rfind(b'"', 0, end)
        end = data.rfind(b"\n", 0, opened) + 1
    return end


def _is_plain(data: bytes, fields: int) -> bool:
    """No quotes, no blank lines, and as many commas as the rows need; polars itself sees a row that has too many."""
    if b'"' in data or data.startswith((b"\n", b"\r")) or b"\n\n" in data or b"\n\r" in data or fields == 1:
        return False
    rows = data.count(b"\n") + (not data.endswith(b"\n"))
    return data.count(b",") == rows * (fields - 1)


def _parsed(data: bytes, text: str, names: Sequence[str], row: int, line: int) -> pl.DataFrame:
    if _is_plain(data, len(names)):
        schema = dict.fromkeys(names, pl.String)
        try:
            return pl.read_csv(io.BytesIO(data), has_header=False, schema=schema, quote_char=None)
        except pl.exceptions.PolarsError:
            pass
    return _careful(text, names, row, line)


def _careful(text: str, names: Sequence[str], row: int, line: int) -> pl.DataFrame:
    """Row by row, which says the row and the line of what is wrong."""
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[list[str]] = []
    try:
        for fields in filter(None, lines):
            if len(fields) != len(names):
                raise InputError(f"must have {len(names)} fields", value=len(fields), place=f"row {row + len(rows)}")
            rows.append(fields)
    except csv.Error as error:
        raise InputError(f"must be CSV: {error}", place=f"line {line - 1 + lines.line_num}") from error
    columns = {name: [fields[i] or None for fields in rows] for i, name in enumerate(names)}
    return pl.DataFrame(columns, schema=dict.fromkeys(names, pl.String))


_SIGNS = r"[=+\-@\t\r\n]"

#: What is written behind an apostrophe, and what is read without its first one.
FORMULA, ESCAPED = rf"^'*{_SIGNS}", rf"^'+{_SIGNS}"


def escape(text: str) -> str:
    """One text as CSV has it."""
    return f"'{text}" if re.match(FORMULA, text) else text


def escaped(frame: pl.DataFrame, besides: Collection[str] = ()) -> pl.DataFrame:
    """A table with its texts as CSV has them, `besides` some columns."""
    names = [name for name, kind in frame.schema.items() if kind == pl.String and name not in besides]
    formula = pl.col(names).str.contains(FORMULA)
    return frame.with_columns(pl.when(formula).then("'" + pl.col(names)).otherwise(pl.col(names)).name.keep())


def unescaped(texts: pl.Series) -> pl.Series:
    """Texts of CSV as they were before they were escaped."""
    found = texts.str.contains(ESCAPED)
    return texts if not found.any() else texts.zip_with(~found.fill_null(False), texts.str.slice(1))


def read_back(text: pl.Expr) -> pl.Expr:
    """The same of a column that is read lazily."""
    return pl.when(text.str.contains(ESCAPED)).then(text.str.slice(1)).otherwise(text).name.keep()
