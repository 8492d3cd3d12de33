"""Parquet, a folder of Parquet files, or CSV, in batches of rows.

A batch knows its file and the number of its first row, so that whoever checks a value can say where it stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import polars as pl

from poolscope.base.errors import InputError, one_line, reading
from poolscope.base.tables.parquet_check import check_file
from poolscope.base.tables.text import text_batches

#: Rows of a Parquet batch at most; more would save nothing.
MOST_ROWS = 1 << 17

#: Bytes that parsing a byte of CSV takes at the worst: a position of three characters becomes a text, a number, a row.
PARSED = 16


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
        return InputError(rule, value=value, place=f"row {self.first + row}", file=self.file, remedy=remedy)

    def mistyped(self, column: str, rule: str) -> InputError:
        """The error of a Parquet column of the wrong type."""
        dtype = self.frame.schema[column]
        return InputError(f"column {column!r} must hold {rule}", value=str(dtype), file=self.file)


@dataclass(frozen=True, kw_only=True)
class Source:
    """A table to read: one file, or the Parquet files of a folder in the order of their names."""

    path: Path
    files: tuple[Path, ...]
    text: bool

    def batches(self, columns: Sequence[str], *, memory: int, row_bytes: int) -> Iterator[Batch]:
        """The rows in order, of which at most `memory` bytes are held.

        Parameters
        ----------
        columns : the columns that are needed; a file without one of them is an error.
        row_bytes : what a row takes, for Parquet.
        """
        empty = True
        for file in self.files:
            with reading(file):
                if self.text:
                    found = text_batches(file, columns, max(1 << 12, memory // PARSED))
                else:
                    found = _parquet_batches(file, columns, _batch_rows(memory, row_bytes))
                for first, frame in found:
                    empty = False
                    yield Batch(file=file, first=first, frame=frame, text=self.text)
        if empty:
            raise InputError("must have at least one row", file=self.path)

    def rows(self, columns: Sequence[str], *, memory: int, row_bytes: int, folder: Path) -> Iterator[Rows]:
        """The rows in order, cut for others to read: at most `memory` bytes each.

        Parquet is not read for that; CSV is, and its rows are kept as Parquet in the folder.
        """
        most, empty = _batch_rows(memory, row_bytes), True
        if self.text:
            for batch in self.batches(columns, memory=memory, row_bytes=row_bytes):
                for start in range(0, batch.frame.height, most):
                    frame, first = batch.frame[start : start + most], batch.first + start
                    kept = folder / f"{first}.rows"
                    frame.write_parquet(kept, compression="uncompressed", statistics=False)
                    yield Rows(file=batch.file, first=first, count=frame.height, place=kept, text=True)
            return
        for file in self.files:
            with reading(file):
                for first, count in _parquet_cut(file, columns, most):
                    empty = False
                    yield Rows(file=file, first=first, count=count, place=file.absolute(), text=False)
        if empty:
            raise InputError("must have at least one row", file=self.path)

    def state(self) -> dict[Path, tuple[int, int]]:
        """Size and time of change of every file: another state is another table."""
        found = {}
        for file in self.files:
            with reading(file):
                stat = file.stat()
                found[file] = stat.st_size, stat.st_mtime_ns
        return found


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Some rows of a file, to be read by whoever gets to know of them.

    Parameters
    ----------
    file, first, count : whose they are, and which.
    place : the Parquet file to read, from anywhere: the file itself or, of CSV, which has no places, one of the rows.
    text : whether the file is CSV.
    """

    file: Path
    first: int
    count: int
    place: Path
    text: bool

    def read(self, columns: Sequence[str]) -> Batch:
        """The rows, fewer where the file has changed."""
        with reading(self.file), _parquet():
            scan = pl.scan_parquet(self.place, glob=False, hive_partitioning=False)
            start = 0 if self.text else self.first - 1
            frame = scan.select(columns).slice(start, self.count).collect()
        return Batch(file=self.file, first=self.first, frame=frame, text=self.text)


def open_table(path: str | PathLike[str]) -> Source:
    """A table by its file's ending, .parquet or .csv, or a folder of Parquet files."""
    path = Path(path)
    if path.is_dir():
        files = tuple(sorted(file for file in path.glob("*.parquet") if not file.name.startswith((".", "_"))))
        if not files:
            raise InputError("a folder must have Parquet files", file=path)
        return Source(path=path, files=files, text=False)
    ending = path.suffix.lower()
    if ending not in (".csv", ".parquet"):
        raise InputError("must end in .csv or .parquet, or be a folder of Parquet files", file=path)
    if not path.exists():
        raise InputError("there is no such file", file=path)
    return Source(path=path, files=(path,), text=ending == ".csv")


def _batch_rows(memory: int, row_bytes: int) -> int:
    return max(64, min(memory // row_bytes, MOST_ROWS))


def _parquet_batches(file: Path, columns: Sequence[str], rows: int) -> Iterator[tuple[int, pl.DataFrame]]:
    for first, count in _parquet_cut(file, columns, rows):
        with _parquet():
            # A slice at a time rather than one streaming scan: every version of polars reads it alike.
            scan = pl.scan_parquet(file, glob=False, hive_partitioning=False)
            frame = scan.select(columns).slice(first - 1, count).collect()
        yield first, frame


def _parquet_cut(file: Path, columns: Sequence[str], rows: int) -> Iterator[tuple[int, int]]:
    """The first row, from 1, and the rows of each batch of a file that is what it says and has the columns."""
    check_file(file)
    with _parquet():
        scan = pl.scan_parquet(file, glob=False, hive_partitioning=False)
        names = scan.collect_schema().names()
        for column in columns:
            if column not in names:
                raise InputError(f"must have a column {column!r}", value=names)
        height = scan.select(pl.len()).collect().item()
    for start in range(0, height, rows):
        yield start + 1, min(rows, height - start)


@contextmanager
def _parquet() -> Iterator[None]:
    """What polars says of a file that it cannot read, in one line."""
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise InputError(f"must be a Parquet file: {one_line(str(error))[:80]}") from error
