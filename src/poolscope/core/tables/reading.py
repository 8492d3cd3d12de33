"""Parquet, a folder of Parquet files, or CSV, in batches of rows.

A batch knows its file and the number of its first row, so that whoever checks a value can say where it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import polars as pl

from poolscope.core.errors import InputError, one_line, reading
from poolscope.core.files import check_regular, folder_files
from poolscope.core.machine import as_bytes, check_memory
from poolscope.core.suppress_stderr import suppressed
from poolscope.core.tables.batch import Batch, select_columns
from poolscope.core.tables.parquet_check import Account, check_file
from poolscope.core.tables.text import read_back, text_batches

#: Rows of a Parquet batch at most; more would save nothing.
MAX_ROWS = 1 << 17

#: Bytes that parsing a byte of CSV takes at the worst: a position of three characters becomes a text, a number, a row.
PARSED = 16

#: Bytes that reading holds of a file at once where nobody says otherwise.
BATCH_BYTES = 64 << 20

#: Bytes that a row of names takes where all rows are held, with what is made of it.
HELD = 100

#: Bytes that what is held of a file of any size may take, and for each byte of a larger one: no file of a few kilobytes
#: is worth gigabytes.
FREE, FOR_A_BYTE = 1 << 30, 1 << 8

SHORTER = "write shorter names"

ENDINGS = (".csv", ".parquet")


@dataclass(frozen=True, kw_only=True)
class Source:
    """A table to read: one file, or the Parquet files of a folder in the order of their names."""

    path: Path
    files: tuple[Path, ...]
    text: bool

    def batches(
        self,
        columns: Sequence[str],
        *,
        optional: Sequence[str] = (),
        most: int = 1 << 50,
        max_bytes: int = BATCH_BYTES,
        row_bytes: int = 64,
        held: int = 0,
    ) -> Iterator[Batch]:
        """The rows in order, of which at most `max_bytes` bytes are held.

        Parameters
        ----------
        columns : the columns that are needed; a file without one of them is an error.
        optional : columns that are read where they are there.
        most : rows that a Parquet file may say to have.
        row_bytes : what a row takes, for Parquet.
        held : bytes of each row that the caller keeps: more than there are is refused before any of them is read.
        """
        empty = True
        wanted = partial(select_columns, columns=columns, optional=optional)
        for file in self.files:
            with reading(file):
                if self.text:
                    found = text_batches(file, wanted, max(1 << 12, max_bytes // PARSED))
                else:
                    rows = _batch_rows(max_bytes, row_bytes)
                    found = _parquet_batches(file, wanted, rows, max_bytes, most=most, held=held)
                for first, frame in found:
                    empty = False
                    yield Batch(file=file, first=first, frame=frame, text=self.text)
        if empty:
            raise InputError("must have at least one row", file=self.path)

    def rows(self, columns: Sequence[str], *, max_bytes: int, row_bytes: int, folder: Path) -> Iterator[RowRange]:
        """The rows in order, cut for others to read: at most `max_bytes` bytes each.

        Parquet is not read for that; CSV is, and its rows are kept as Parquet in the folder.
        """
        most, empty = _batch_rows(max_bytes, row_bytes), True
        if self.text:
            for batch in self.batches(columns, max_bytes=max_bytes, row_bytes=row_bytes):
                for start in range(0, batch.frame.height, most):
                    frame, first = batch.frame[start : start + most], batch.first + start
                    kept = folder / f"{first}.rows"
                    frame.write_parquet(kept, compression="uncompressed", statistics=False)
                    size = int(frame.estimated_size())
                    yield RowRange(file=batch.file, first=first, count=frame.height, size=size, place=kept, text=True)
            return
        for file in self.files:
            with reading(file):
                wanted = partial(select_columns, columns=columns, optional=())
                for first, count, size in _parquet_cut(file, wanted, most, max_bytes)[1]:
                    empty = False
                    yield RowRange(file=file, first=first, count=count, size=size, place=file.absolute(), text=False)
        if empty:
            raise InputError("must have at least one row", file=self.path)

    def height(self) -> int | None:
        """How many rows there are, as Parquet files say; None of CSV."""
        return None if self.text else sum(check_file(file).rows for file in self.files)

    def check_names(self, size: int) -> None:
        """Refuse names of so many bytes, if they are more than may be held of files of this size."""
        check_held("its names", size, self.path, SHORTER, sum(file.stat().st_size for file in self.files))

    def state(self) -> dict[Path, tuple[int, int]]:
        """Size and time of change of every file: another state is another table."""
        found = {}
        for file in self.files:
            with reading(file):
                stat = file.stat()
                found[file] = stat.st_size, stat.st_mtime_ns
        return found


@dataclass(frozen=True, kw_only=True)
class RowRange:
    """Some rows of a file, to be read by whoever gets to know of them.

    Parameters
    ----------
    file, first, count : whose they are, and which.
    size : bytes of their names, at most.
    place : the Parquet file to read, from anywhere: the file itself or, of CSV, which has no places, one of the rows.
    text : whether the file is CSV.
    """

    file: Path
    first: int
    count: int
    size: int
    place: Path
    text: bool

    def read(self, columns: Sequence[str]) -> Batch:
        """The rows, fewer where the file has changed."""
        with decoding(self.file):
            rows = scan(self.place).select(columns)
            frame = _texts(rows.slice(0 if self.text else self.first - 1, self.count).collect())
        return Batch(file=self.file, first=self.first, frame=frame, text=self.text)


def open_table(path: str | PathLike[str]) -> Source:
    """A table by its file's ending, .parquet or .csv, or a folder of Parquet files."""
    path = Path(path)
    if not path.is_dir():
        return _open_file(path, "must end in .csv or .parquet, or be a folder of Parquet files")
    return Source(path=path, files=tuple(folder_files(path, ".parquet", "Parquet files")), text=False)


def open_file(path: str | PathLike[str]) -> Source:
    """A table that is one file, as all that a scenario names are."""
    path = Path(path)
    if path.is_dir():
        raise InputError("must be a file, is a folder", file=path)
    return _open_file(path, "must end in .csv or .parquet")


def _open_file(path: Path, rule: str) -> Source:
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise InputError(rule, file=path)
    check_regular(path)
    return Source(path=path, files=(path,), text=ending == ".csv")


def read_table(
    path: str | PathLike[str], columns: Sequence[str], *, optional: Sequence[str] = (), most: int = 1 << 50
) -> Batch:
    """All rows of a small table, as one batch."""
    batches, held = list[Batch](), 0
    for batch in open_file(path).batches(columns, optional=optional, most=most, held=HELD):
        held += batch.text_bytes
        check_held("its texts", held, Path(path), SHORTER)
        batches.append(batch)
    return replace(batches[0], frame=pl.concat([batch.frame for batch in batches]))


def check_names(file: Path, columns: Sequence[str]) -> None:
    """Refuse a Parquet file in which one of these columns is no name, or all of them are more than may be held."""
    held, source = 0, open_file(file)
    for batch in source.batches(columns) if columns and source.height() else ():
        for column in columns:
            batch.names_or_none(column)
        held += batch.text_bytes
        check_held("its texts", held, file, SHORTER)


def check_held(what: str, size: int, file: Path, remedy: str, file_size: int | None = None) -> None:
    """Refuse what takes more memory than is left, or than a file of its size is worth."""
    with reading(file):
        file_size = file.stat().st_size if file_size is None else file_size
        check_memory(what, size, remedy)
        if size > (most := max(FREE, FOR_A_BYTE * file_size)):
            rule = f"{what} would take about {as_bytes(size)} of memory"
            raise InputError(f"{rule}, a file of {as_bytes(file_size)} may take {as_bytes(most)}", remedy=remedy)


def scan(file: Path) -> pl.LazyFrame:
    """A Parquet file by its name alone: brackets and equals signs in it mean nothing."""
    return pl.scan_parquet(file, glob=False, hive_partitioning=False)


def scan_written(path: Path, names: Sequence[str]) -> pl.LazyFrame:
    """A table that a command wrote, with these columns as the texts that were written."""
    if path.suffix.lower() != ".csv":
        return scan(path).with_columns(pl.col(names).cast(pl.String))
    table = pl.scan_csv(path, glob=False, schema_overrides=dict.fromkeys(names, pl.String))
    return table.with_columns(read_back(pl.col(names)))


def _batch_rows(max_bytes: int, row_bytes: int) -> int:
    return max(64, min(max_bytes // row_bytes, MAX_ROWS))


@contextmanager
def decoding(file: Path) -> Iterator[None]:
    """Turn what goes wrong when a Parquet file is read, polars' own errors too, into an `InputError` on that file."""
    with reading(file), suppressed():
        try:
            yield
        except pl.exceptions.PanicException as error:
            raise InputError("is damaged: must be a Parquet file") from error
        except pl.exceptions.PolarsError as error:
            raise InputError(f"must be a Parquet file: {one_line(str(error))[:80]}") from error


def _parquet_batches(
    file: Path, wanted: Callable[[Sequence[str]], list[str]], rows: int, max_bytes: int, *, most: int, held: int
) -> Iterator[tuple[int, pl.DataFrame]]:
    table, cuts = _parquet_cut(file, wanted, rows, max_bytes, most=most, held=held)
    with decoding(file):
        for first, count, _ in cuts:
            # A slice at a time rather than one streaming scan: every version of polars reads it alike.
            yield first, _texts(table.slice(first - 1, count).collect())


def _parquet_cut(
    file: Path,
    wanted: Callable[[Sequence[str]], list[str]],
    rows: int,
    max_bytes: int,
    *,
    most: int = 1 << 50,
    held: int = 0,
) -> tuple[pl.LazyFrame, Iterator[tuple[int, int, int]]]:
    """The columns of a file that is what it says, and each batch: its first row, from 1, its rows, bytes of names."""
    account = check_file(file, most)
    with decoding(file):
        table = scan(file)
        schema = table.collect_schema()
        columns = wanted(schema.names())
        kinds = {column: schema[column] for column in columns}
        check_decoding(file, account, kinds, held)
        padded = sum(map(_padded, kinds.values()))
        table = table.select(columns)
    if padded:
        rows = max(1, min(rows, max_bytes // padded))
    names = [column for column, kind in kinds.items() if isinstance(kind, pl.String | pl.Categorical | pl.Enum)]
    cuts = account.cuts(columns, rows, max_bytes)
    return table, ((first + 1, count, account.taken(names, first, first + count)) for first, count in cuts)


def check_decoding(file: Path, account: Account, kinds: Mapping[str, pl.DataType], held: int = 0) -> None:
    """Refuse a file whose columns would take more than there is: for decoding some rows, or for holding all."""
    taken = account.decoding(kinds) + account.group_rows * sum(map(_padded, kinds.values()))
    remedy = "write it with smaller pages, and shorter lists and texts"
    check_held("decoding a few of its rows", taken, file, remedy, account.size)
    check_held(f"{account.rows:,} rows", taken + held * account.rows, file, "take fewer rows", account.size)


def _padded(kind: Any) -> int:
    """Bytes that a row of arrays of a fixed length takes even where it is null."""
    if isinstance(kind, pl.Array):
        return kind.size * max(8, _padded(kind.inner))
    if isinstance(kind, pl.Struct):
        return sum([_padded(field.dtype) for field in kind.fields])
    return _padded(kind.inner) if isinstance(kind, pl.List) else 0


def _texts(frame: pl.DataFrame) -> pl.DataFrame:
    """Categories as what they are, texts: those of two files need not be the same.

    Each category becomes a text once, which its rows share: a cast would copy it for each row.
    """
    kinds = frame.schema.items()
    found = (frame[name] for name, kind in kinds if isinstance(kind, pl.Categorical | pl.Enum))
    return frame.with_columns([_text_of(series) for series in found])


def _text_of(categories: pl.Series) -> pl.Series:
    numbers = categories.to_physical()
    first = numbers.arg_unique()
    positions = numbers.replace_strict(
        numbers.gather(first), pl.int_range(len(first), eager=True), return_dtype=pl.UInt32
    )
    return categories.gather(first).cast(pl.String).gather(positions).alias(categories.name)
