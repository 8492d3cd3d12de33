"""CSV and TSV: reading in batches, and escaping of strings that a spreadsheet would run as formulas.

Polars fills short rows with null, reads stray quotes differently from version to version, and does not name the row of
an error. It therefore parses only text without quotes and blank lines whose number of separators is right. The rest
goes through Python's `csv` module.

A string that begins with ``=``, ``+``, ``-``, ``@``, a tab or a line break is written with a leading apostrophe. So is
one that begins with apostrophes before such a character, so that reading restores every string.

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

#: Maximum length of a row of CSV in bytes.
MAX_ROW_BYTES = 1 << 26

#: Byte order mark, which spreadsheets write and which is not part of the first column's name.
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def text_batches(
    file: Path, wanted: Callable[[Sequence[str]], list[str]], size: int, separator: str = ","
) -> Iterator[tuple[int, pl.DataFrame]]:
    """Yield the first row (from 1) and the rows of each batch of about `size` bytes; all columns are strings.

    `wanted` selects columns of the header.
    """
    with file.open("rb") as stream:
        names = _read_names(stream, separator)
        columns = wanted(names)
        row, line = 1, 2
        for data in _chunks(stream, size):
            frame = _parsed(data, _decoded(data, line), names, row, line, separator)
            if frame.height:
                yield row, frame.select(columns)
            row += frame.height
            line += data.count(b"\n")


def header_of(file: Path, separator: str = ",") -> list[str]:
    """Return the names of the columns."""
    with file.open("rb") as stream:
        return _read_names(stream, separator)


def _read_names(stream: BinaryIO, separator: str) -> list[str]:
    header = _decoded(stream.readline(MAX_ROW_BYTES).removeprefix(BYTE_ORDER_MARK), 1)
    try:
        names = [name.strip() for name in next(csv.reader([header], delimiter=separator), [])]
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
    """Yield chunks of complete rows, of about `size` bytes."""
    rest = b""
    while block := stream.read(size):
        rest += block
        end = _end_of_rows(rest)
        if end:
            yield rest[:end]
            rest = rest[end:]
        elif len(rest) > MAX_ROW_BYTES:
            raise InputError(f"a row must have at most {MAX_ROW_BYTES} bytes")
    if rest:
        yield rest


def _end_of_rows(data: bytes) -> int:
    """Return the end of the last complete row; a line break between quotes is part of a field."""
    end = data.rfind(b"\n") + 1
    while end and data.count(b'"', 0, end) % 2:
        opened = data.rfind(b'"', 0, end)
        end = data.rfind(b"\n", 0, opened) + 1
    return end


def _is_plain(data: bytes, fields: int, separator: str) -> bool:
    """Return whether polars can parse the text: no quotes or blank lines, and the right number of separators."""
    if b'"' in data or data.startswith((b"\n", b"\r")) or b"\n\n" in data or b"\n\r" in data or fields == 1:
        return False
    rows = data.count(b"\n") + (not data.endswith(b"\n"))
    return data.count(separator.encode()) == rows * (fields - 1)


def _parsed(data: bytes, text: str, names: Sequence[str], row: int, line: int, separator: str) -> pl.DataFrame:
    if _is_plain(data, len(names), separator):
        schema = dict.fromkeys(names, pl.String)
        try:
            return pl.read_csv(io.BytesIO(data), has_header=False, schema=schema, quote_char=None, separator=separator)
        except pl.exceptions.PolarsError:
            pass
    return _parsed_by_csv(text, names, row, line, separator)


def _parsed_by_csv(text: str, names: Sequence[str], row: int, line: int, separator: str) -> pl.DataFrame:
    """Parse row by row, so that errors name row and line."""
    lines = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=separator)
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

#: Patterns of strings that are escaped, and of escaped strings.
FORMULA, ESCAPED = rf"^'*{_SIGNS}", rf"^'+{_SIGNS}"


def escape(text: str) -> str:
    """Return an escaped string."""
    return f"'{text}" if re.match(FORMULA, text) else text


def escaped(frame: pl.DataFrame, besides: Collection[str] = ()) -> pl.DataFrame:
    """Return a table with escaped strings, except in the columns `besides`."""
    names = [name for name, kind in frame.schema.items() if kind == pl.String and name not in besides]
    formula = pl.col(names).str.contains(FORMULA)
    return frame.with_columns(pl.when(formula).then("'" + pl.col(names)).otherwise(pl.col(names)).name.keep())


def unescaped(texts: pl.Series) -> pl.Series:
    """Return the original strings of an escaped column."""
    found = texts.str.contains(ESCAPED)
    return texts if not found.any() else texts.zip_with(~found.fill_null(False), texts.str.slice(1))


def read_back(text: pl.Expr) -> pl.Expr:
    """Return the original strings of an escaped column, as a lazy expression."""
    return pl.when(text.str.contains(ESCAPED)).then(text.str.slice(1)).otherwise(text).name.keep()
