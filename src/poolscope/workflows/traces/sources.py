"""Read recorded data row by row, in the file's order: the user, and the cell with the user's objects.

=========================== =========================================================================
ending                      what it is
=========================== =========================================================================
``.csv``, ``.csv.gz``       a table with a header
``.jsonl``, ``.jsonl.gz``   a JSON object on each line (``.ndjson`` too)
``.parquet``                a table
``.json``                   a list of JSON objects: a day of the public archive "Tweets of Congress"
a folder                    its ``.json`` files; or tables, see below
=========================== =========================================================================

Other files, patterns, folders of tables, standard input and addresses are read as those of `attack`, see
:mod:`poolscope.core.tables.sources`. So are all sources where a column orders the rows.

Tables are read in the order in which they are given. Days of the archive, whose names are dates, are read in order of
their names, and the posts of a day in order of their ``time``; a day may be empty. CSV and JSON Lines are read line by
line, so that the size of the file does not matter.

The archive (repository alexlitel/congresstweets) has a JSON file for each day, named by its date: a list of posts with
``screen_name``, ``user_id``, ``text``, ``time`` and ``link``.
"""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from io import BufferedReader
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from poolscope.core.errors import InputError, one_line, reading
from poolscope.core.files import check_regular, folder_files, parse_json
from poolscope.core.tables import Batch, SourceOptions, label_of, local_paths, open_file, opened
from poolscope.core.tables.columns import no_column, select_columns
from poolscope.core.tables.locations import STANDARD_INPUT, format_of, scheme_of
from poolscope.core.tables.reading import BATCH_BYTES
from poolscope.core.tables.sources import DEFAULT, check_query

USER, TEXT = "screen_name", "text"
"""The columns of the user and of the text."""

ENDING = ".json"
"""Of a day's file."""

_QUOTED = re.compile(r"(?:^|\s)QT @\w")
_TWITTER = re.compile(r"https?://(?:[\w-]+\.)*(?:twitter\.com|twimg\.com|t\.co)(?![\w.-])\S*", re.IGNORECASE)


def is_archive(path: Path) -> bool:
    """Return whether a file is a day of the archive."""
    return path.suffix.lower() == ENDING


def own_words(text: str) -> str:
    """Return what the account itself wrote in a text of the archive.

    The archive writes a retweet as ``RT @name ...`` and appends ``QT @name ...`` with the quoted text to a quote;
    links to Twitter itself stand for pictures and quoted tweets. None of these is the account's own choice.
    """
    if text.startswith("RT @"):
        return ""
    return _TWITTER.sub(" ", _QUOTED.split(text, maxsplit=1)[0])


def time_of(post: Mapping[str, Any], number: int) -> datetime:
    """Return the time of the post with this number; posts without a time come first, in their order."""
    text = post.get("time")
    if text is None:
        return datetime.min.replace(tzinfo=UTC)
    try:
        time = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise InputError("time must be a date and time", value=text, place=f"row {number}") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


RawRows = Iterator[tuple[int, Any, Any]]
"""Row number, user and cell, not yet validated."""


class RecordedRow(NamedTuple):
    """A row of recorded data: its number, from 1, the user, and the cell: a text, or a list of texts."""

    number: int
    user: str
    cell: str | list[str]


class SourceColumns(NamedTuple):
    """The columns to read: the user, and the cell."""

    user: str
    cell: str


def ordered(sources: Iterable[str | PathLike[str]], options: SourceOptions = DEFAULT) -> list[Path | Tables]:
    """Return what to read, in order: days of the archive by name, other files as given, and tables of other kinds."""
    named = list(sources)
    if not named:
        raise InputError("there must be at least one source")
    found: list[Path | Tables] = []
    for source in named:
        path = Path(source)
        if path.is_dir() and not _has_tables(path):
            found += folder_files(path, ENDING, ".json files of the archive")
        elif _is_elsewhere(source, path):
            found.append(Tables((source,), options))
        else:
            found.append(path)
    paths = [file for file in found if isinstance(file, Path)]
    check_query(options, database=not paths)
    for file in paths:
        _reader(file)
    if len(paths) == len(found) and all(map(is_archive, paths)):
        days: list[Path | Tables] = [*sorted(paths, key=lambda file: (file.name, str(file)))]
        return days
    if options.time is not None:
        # one order for all of them
        return [Tables(tuple(named), options)]
    return found


class Tables(NamedTuple):
    """Sources that are read as those of `attack`, and how."""

    sources: tuple[str | PathLike[str], ...]
    options: SourceOptions

    @property
    def label(self) -> str:
        return label_of(self.sources)


def _has_tables(folder: Path) -> bool:
    """Return whether a folder has tables or partitions, rather than days of the archive."""
    with reading(folder):
        return any(format_of(path.name)[0] or (path.is_dir() and "=" in path.name) for path in folder.iterdir())


def _is_elsewhere(source: str | PathLike[str], path: Path) -> bool:
    if path.is_dir() or source == STANDARD_INPUT or (isinstance(source, str) and scheme_of(source)):
        return True
    if path.exists():
        return _ending(path) not in READERS and format_of(path.name)[0] is not None
    return local_paths(source) != [path]


def _read_tables(tables: Tables, columns: SourceColumns) -> RawRows:
    names = tuple(dict.fromkeys(columns))
    with opened(tables.sources, [(name,) for name in names], tables.options) as source:
        for batch in source.batches(names):
            if batch.frame.schema[columns.user] == pl.Binary:
                batch = replace(batch, frame=batch.frame.with_columns(batch.names(columns.user)))
            yield from _batch_rows(batch, columns)


def read_rows(path: Path | Tables, columns: SourceColumns) -> Iterator[RecordedRow]:
    """Yield the rows of one source: users are all texts or all integers, a cell is a text, a list of texts or null."""
    if isinstance(path, Path):
        check_regular(path)
        yield from _checked_rows(path, _reader(path)(path, columns), columns, may_be_empty=is_archive(path))
    else:
        yield from _checked_rows(path.label, _read_tables(path, columns), columns)


def _checked_rows(
    label: Path | str, rows: RawRows, columns: SourceColumns, *, may_be_empty: bool = False
) -> Iterator[RecordedRow]:
    number, kind = 0, None
    with reading(label):
        for number, who, cell in rows:
            if type(who) is not kind:
                kind = _checked_kind(who, kind, columns.user, number)
            if type(cell) is not str:
                cell = _checked_cell(cell, columns.cell, number)
            yield RecordedRow(number, _checked_name(who, columns.user, number) if kind is str else str(who), cell)
        if number == 0 and not may_be_empty:
            raise InputError("must have at least one row")


def _checked_kind(who: object, kind: type | None, column: str, number: int) -> type:
    """Return the type of the first user, which all must have: 7 and "7" may be two people or one."""
    place = f"row {number}"
    if who is None or (isinstance(who, float) and who != who):
        raise InputError(f"{column} must not be missing", value=who, place=place)
    if type(who) not in (str, int):
        raise InputError(f"{column} must be a text or an integer", value=who, place=place)
    if kind is not None:
        rule = f"{column} must be {'a text' if kind is str else 'an integer'} as in the rows before"
        raise InputError(rule, value=who, place=place)
    return type(who)


def _checked_name(who: str, column: str, number: int) -> str:
    rule = None
    if not who:
        rule = "must not be empty"
    elif who != who.strip():
        # "ann " beside "ann" would silently be one more user.
        rule = "must not begin or end with white space"
    elif not who.isascii() and not _is_unicode(who):
        rule = "must be Unicode text, without halves of characters"
    if rule:
        raise InputError(f"{column} {rule}", value=who, place=f"row {number}")
    return who


def _is_unicode(text: str) -> bool:
    """Return whether a text can be encoded: JSON can spell one half of a surrogate pair, which no file can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _checked_cell(cell: object, column: str, number: int) -> str | list[str]:
    """Validate a cell that is not just a text; null is a row without a text."""
    if cell is None:
        return ""
    if isinstance(cell, list) and all(isinstance(entry, str) for entry in cell):
        return cell
    raise InputError(f"{column} must be a text or a list of texts", value=cell, place=f"row {number}")


def _read_csv(path: Path, columns: SourceColumns) -> RawRows:
    with _lines(path) as lines:
        rows = csv.reader((text for _, text in lines), strict=True)
        try:
            header = [name.strip() for name in next(rows, [])]
            if not header:
                raise InputError("must not be empty")
            if len(set(header)) != len(header):
                raise InputError("must not have two columns of one name", value=header)
            who, what = map(header.index, select_columns(header, columns))
            for number, fields in enumerate(filter(None, rows), start=1):
                if len(fields) != len(header):
                    raise InputError(f"must have {len(header)} fields", value=len(fields), place=f"row {number}")
                yield number, fields[who], fields[what]
        except csv.Error as error:
            raise InputError(f"must be CSV: {error}", place=f"line {rows.line_num}") from error


def _read_json_lines(path: Path, columns: SourceColumns) -> RawRows:
    with _lines(path) as lines:
        number = 0
        for line, text in lines:
            if text.strip():
                number += 1
                yield _record(parse_json(text, f"line {line}"), columns, number)


def _read_json(path: Path, columns: SourceColumns) -> RawRows:
    with _lines(path) as lines:
        entries = parse_json("".join(text for _, text in lines), None)
    if not isinstance(entries, list):
        raise InputError("must be a list of JSON objects", value=entries)
    records = [_record(entry, columns, number) for number, entry in enumerate(entries, start=1)]
    times = [time_of(entry, number) for number, entry in enumerate(entries, start=1)]
    for i in sorted(range(len(records)), key=times.__getitem__):
        yield records[i]


def _read_parquet(path: Path, columns: SourceColumns) -> RawRows:
    for batch in open_file(path).batches(tuple(dict.fromkeys(columns))):
        yield from _batch_rows(batch, columns)


def _batch_rows(batch: Batch, columns: SourceColumns) -> RawRows:
    for some in batch.split_by_bytes(BATCH_BYTES):
        numbers = range(some.first, some.first + some.frame.height)
        yield from zip(numbers, *(some.frame[column].to_list() for column in columns), strict=True)


READERS: dict[str, Callable[[Path, SourceColumns], RawRows]] = {
    ".csv": _read_csv,
    ".csv.gz": _read_csv,
    ".jsonl": _read_json_lines,
    ".jsonl.gz": _read_json_lines,
    ".ndjson": _read_json_lines,
    ".ndjson.gz": _read_json_lines,
    ".parquet": _read_parquet,
    ".json": _read_json,
}
"""Ending -> reader."""


def _reader(path: Path) -> Callable[[Path, SourceColumns], RawRows]:
    ending = _ending(path)
    if ending not in READERS:
        raise InputError(f"must end in one of {', '.join(READERS)}, .tsv, .arrow, or these with .zst", file=path)
    return READERS[ending]


def _ending(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    return "".join(suffixes[-2:]) if suffixes[-1:] == [".gz"] else "".join(suffixes[-1:])


@contextmanager
def _lines(path: Path) -> Iterator[Iterator[tuple[int, str]]]:
    """Yield the numbered lines of a text file, possibly compressed, decoded one by one: an error can name the line."""

    def decoded(stream: Iterable[bytes]) -> Iterator[tuple[int, str]]:
        for number, line in enumerate(stream, start=1):
            try:
                # Spreadsheets write a byte order mark, which is no part of the first column's name.
                yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                value = line[error.start : error.start + 1]
                raise InputError("must be UTF-8 text", value=value, place=f"line {number}") from None

    try:
        # A buffer of our own, as the lines of a GzipFile are read in Python.
        with BufferedReader(gzip.open(path)) if path.suffix.lower() == ".gz" else path.open("rb") as stream:
            yield decoded(stream)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"must be a whole gzip file: {one_line(str(error))}") from error


def _record(entry: Any, columns: SourceColumns, number: int) -> tuple[int, Any, Any]:
    place = f"row {number}"
    if not isinstance(entry, dict):
        raise InputError("must be a JSON object", value=entry, place=place)
    for column in columns:
        if column not in entry:
            raise no_column(column, entry, columns).at(place=place)
    return number, entry[columns.user], entry[columns.cell]
