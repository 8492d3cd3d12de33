"""Reading of Parquet files, folders of Parquet files, and CSV, in batches of rows.

A batch knows its file and the number of its first row, so that error messages can name the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from os import PathLike
from pathlib import Path
from typing import Any

import polars as pl

from poolscope.core.errors import InputError, one_line, reading
from poolscope.core.files import check_regular, folder_files
from poolscope.core.machine import as_bytes, check_memory
from poolscope.core.suppress_stderr import suppressed
from poolscope.core.tables.columns import Batch, select_columns
from poolscope.core.tables.csv import header_of, read_back, text_batches
from poolscope.core.tables.parquet_check import ParquetMetadata, check_file

#: Maximum number of rows of a Parquet batch; larger batches are not faster.
MAX_ROWS = 1 << 17

#: Memory of parsing a byte of CSV in the worst case: a field of three characters becomes a string, a number and a row.
PARSING_FACTOR = 16

#: Default memory of one batch.
BATCH_BYTES = 64 << 20

#: Memory of a row of names, and of what is derived from it, where all rows are held.
HELD = 100

#: Memory that a file of any size may take, and per byte of a larger one: no file of kilobytes may take gigabytes.
FREE, MEMORY_PER_BYTE = 1 << 30, 1 << 8

SHORTER = "write shorter names"

ENDINGS = (".csv", ".parquet")


@dataclass(frozen=True, kw_only=True)
class Source:
    """A table to read: files of one format, in order.

    Parameters
    ----------
    path : the table's name in messages.
    files : the files to read, which may be copies of what the user named (`sources`).
    text : whether all values are text, as in CSV.
    separator : of the fields of text files; None for Parquet.
    labels : the name of each file in messages; the files themselves by default.
    before : rows of the same label in earlier files.
    originals : the files and folders that the user named, which no output may replace.
    """

    path: Path | str
    files: tuple[Path, ...]
    text: bool
    separator: str | None = None
    labels: tuple[Path | str, ...] = ()
    before: tuple[int, ...] = ()
    originals: tuple[Path, ...] = ()

    def batches(
        self,
        columns: Sequence[str],
        *,
        optional: Sequence[str] = (),
        max_rows: int = 1 << 50,
        max_bytes: int = BATCH_BYTES,
        row_bytes: int = 64,
        bytes_held_per_row: int = 0,
    ) -> Iterator[Batch]:
        """Yield the rows in order, in batches of at most `max_bytes` bytes.

        Parameters
        ----------
        columns : required columns.
        optional : columns that are read where they exist.
        max_rows : maximum number of rows that a Parquet file may declare.
        row_bytes : memory of a row, for Parquet.
        bytes_held_per_row : bytes of each row that the caller keeps; checked against available memory before reading.
        """
        empty = True
        wanted = partial(select_columns, columns=columns, optional=optional)
        for file, label, before in self._files():
            with labeled(file, label):
                if self.separator is not None:
                    found = text_batches(file, wanted, text_bytes(max_bytes), self.separator)
                else:
                    rows = _batch_rows(max_bytes, row_bytes)
                    found = parquet_batches(
                        file, wanted, rows, max_bytes, max_rows=max_rows, bytes_held_per_row=bytes_held_per_row
                    )
                for first, frame in found:
                    empty = False
                    yield Batch(file=label, first=before + first, frame=frame, text=self.text)
        if empty:
            raise InputError("must have at least one row", file=self.path)

    def rows(self, columns: Sequence[str], *, max_bytes: int, row_bytes: int, folder: Path) -> Iterator[RowRange]:
        """Yield ranges of rows for other processes to read, of at most `max_bytes` bytes each.

        Parquet is not read for this. CSV is read, and its rows are written as Parquet files into the folder.
        """
        rows, empty = _batch_rows(max_bytes, row_bytes), True
        if self.separator is not None:
            copies = count()
            for batch in self.batches(columns, max_bytes=max_bytes, row_bytes=row_bytes):
                for start in range(0, batch.frame.height, rows):
                    frame, first = batch.frame[start : start + rows], batch.first + start
                    copy = folder / f"{next(copies)}.rows"
                    frame.write_parquet(copy, compression="uncompressed", statistics=False)
                    size = int(frame.estimated_size())
                    yield RowRange(file=batch.file, first=first, count=frame.height, size=size, place=copy, text=True)
            return
        wanted = partial(select_columns, columns=columns, optional=())
        for file, label, before in self._files():
            with labeled(file, label):
                for first, height, size in _parquet_cut(file, wanted, rows, max_bytes)[1]:
                    empty = False
                    yield RowRange(
                        file=label,
                        first=before + first,
                        count=height,
                        size=size,
                        place=file.absolute(),
                        start=first - 1,
                        text=self.text,
                    )
        if empty:
            raise InputError("must have at least one row", file=self.path)

    def header(self) -> list[str]:
        """Return the columns of the first file."""
        file, label, _ = next(self._files())
        with labeled(file, label):
            return parquet_header(file) if self.separator is None else header_of(file, self.separator)

    def height(self) -> int | None:
        """Return the number of rows that Parquet files declare; None for CSV."""
        if self.separator is not None:
            return None
        rows = 0
        for file, label, _ in self._files():
            with labeled(file, label):
                rows += check_file(file).rows
        return rows

    def check_names(self, size: int) -> None:
        """Check that names of `size` bytes fit into the memory that files of this size may take."""
        check_memory_for_file("its names", size, self.path, SHORTER, sum(file.stat().st_size for file in self.files))

    def state(self) -> dict[Path, tuple[int, int]]:
        """Return size and modification time of every file, to detect changes."""
        found = {}
        for file, label, _ in self._files():
            with reading(label):
                stat = file.stat()
                found[file] = stat.st_size, stat.st_mtime_ns
        return found

    def _files(self) -> Iterator[tuple[Path, Path | str, int]]:
        before = self.before or (0,) * len(self.files)
        return zip(self.files, self.labels or self.files, before, strict=True)


@dataclass(frozen=True, kw_only=True)
class RowRange:
    """A range of rows of a file, to be read by another process.

    Parameters
    ----------
    file, first, count : the file's name in messages, its first row and the number of rows.
    size : upper bound on the bytes of their names.
    place : absolute path of the Parquet file to read: the file itself, or a copy of rows.
    start : rows of that file before the range.
    text : whether all values are text.
    """

    file: Path | str
    first: int
    count: int
    size: int
    place: Path
    start: int = 0
    text: bool

    def read(self, columns: Sequence[str]) -> Batch:
        """Read the rows; fewer where the file has changed."""
        with decoding(self.file):
            frame = _texts(scan(self.place).select(columns).slice(self.start, self.count).collect())
        return Batch(file=self.file, first=self.first, frame=frame, text=self.text)


@contextmanager
def labeled(file: Path, label: Path | str) -> Iterator[None]:
    """Name a file by its label in errors of reading it, as it may be a copy."""
    try:
        with reading(label):
            yield
    except InputError as error:
        if error.file == str(file) != str(label):
            error.file = str(label)
        raise


def open_table(path: str | PathLike[str]) -> Source:
    """Open a .parquet or .csv file, or a folder of Parquet files."""
    path = Path(path)
    if not path.is_dir():
        return _open_file(path, "must end in .csv or .parquet, or be a folder of Parquet files")
    return Source(path=path, files=tuple(folder_files(path, ".parquet", "Parquet files")), text=False)


def open_file(path: str | PathLike[str]) -> Source:
    """Open a table that must be one file, as those that a scenario names."""
    path = Path(path)
    if path.is_dir():
        raise InputError("must be a file, is a folder", file=path)
    return _open_file(path, "must end in .csv or .parquet")


def _open_file(path: Path, rule: str) -> Source:
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise InputError(rule, file=path)
    check_regular(path)
    text = ending == ".csv"
    return Source(path=path, files=(path,), text=text, separator="," if text else None)


def read_table(
    path: str | PathLike[str], columns: Sequence[str], *, optional: Sequence[str] = (), max_rows: int = 1 << 50
) -> Batch:
    """Read all rows of a small table as one batch."""
    batches, held = list[Batch](), 0
    for batch in open_file(path).batches(columns, optional=optional, max_rows=max_rows, bytes_held_per_row=HELD):
        held += batch.text_bytes
        check_memory_for_file("its texts", held, Path(path), SHORTER)
        batches.append(batch)
    return replace(batches[0], frame=pl.concat([batch.frame for batch in batches]))


def check_names(file: Path, columns: Sequence[str]) -> None:
    """Check that these columns of a Parquet file are names, and fit into memory."""
    held, source = 0, open_file(file)
    for batch in source.batches(columns) if columns and source.height() else ():
        for column in columns:
            batch.names_or_none(column)
        held += batch.text_bytes
        check_memory_for_file("its texts", held, file, SHORTER)


def check_memory_for_file(what: str, size: int, file: Path | str, remedy: str, file_size: int | None = None) -> None:
    """Check required memory against what is available, and against what a file of this size may take."""
    with reading(file):
        file_size = Path(file).stat().st_size if file_size is None else file_size
        check_memory(what, size, remedy)
        if size > (most := max(FREE, MEMORY_PER_BYTE * file_size)):
            rule = f"{what} would take about {as_bytes(size)} of memory"
            raise InputError(f"{rule}, a file of {as_bytes(file_size)} may take {as_bytes(most)}", remedy=remedy)


def scan(file: Path) -> pl.LazyFrame:
    """Scan a Parquet file; brackets and equals signs in its name have no special meaning."""
    return pl.scan_parquet(file, glob=False, hive_partitioning=False)


def scan_written(path: Path, names: Sequence[str]) -> pl.LazyFrame:
    """Scan a table that a command wrote, with these columns as the original strings."""
    if path.suffix.lower() != ".csv":
        return scan(path).with_columns(pl.col(names).cast(pl.String))
    table = pl.scan_csv(path, glob=False, schema_overrides=dict.fromkeys(names, pl.String))
    return table.with_columns(read_back(pl.col(names)))


def text_bytes(max_bytes: int) -> int:
    """Return the bytes of a batch of text whose parsing takes `max_bytes`."""
    return max(1 << 12, max_bytes // PARSING_FACTOR)


def _batch_rows(max_bytes: int, row_bytes: int) -> int:
    return max(64, min(max_bytes // row_bytes, MAX_ROWS))


@contextmanager
def decoding(file: Path | str) -> Iterator[None]:
    """Convert errors of reading a Parquet file, including those of polars, into an `InputError` on that file."""
    with reading(file), suppressed():
        try:
            yield
        except pl.exceptions.PanicException as error:
            raise InputError("is damaged: must be a Parquet file") from error
        except pl.exceptions.PolarsError as error:
            raise InputError(f"must be a Parquet file: {one_line(str(error))[:80]}") from error


def parquet_batches(
    file: Path,
    wanted: Callable[[Sequence[str]], list[str]],
    rows: int = MAX_ROWS,
    max_bytes: int = BATCH_BYTES,
    *,
    max_rows: int = 1 << 50,
    bytes_held_per_row: int = 0,
) -> Iterator[tuple[int, pl.DataFrame]]:
    """Yield the first row (from 1) and the rows of each batch of a Parquet file; `wanted` selects columns."""
    table, cuts = _parquet_cut(file, wanted, rows, max_bytes, max_rows=max_rows, bytes_held_per_row=bytes_held_per_row)
    with decoding(file):
        for first, height, _ in cuts:
            # slices rather than one streaming scan, as all versions of polars read slices the same way
            yield first, _texts(table.slice(first - 1, height).collect())


def _parquet_cut(
    file: Path,
    wanted: Callable[[Sequence[str]], list[str]],
    rows: int,
    max_bytes: int,
    *,
    max_rows: int = 1 << 50,
    bytes_held_per_row: int = 0,
) -> tuple[pl.LazyFrame, Iterator[tuple[int, int, int]]]:
    """Return the checked columns of a file, and for each batch its first row (from 1), rows, and bytes of names."""
    metadata = check_file(file, max_rows)
    with decoding(file):
        table = scan(file)
        schema = table.collect_schema()
        columns = wanted(schema.names())
        kinds = {column: schema[column] for column in columns}
        check_decoding(file, metadata, kinds, bytes_held_per_row)
        padded = sum(map(_padded, kinds.values()))
        table = table.select(columns)
    if padded:
        rows = max(1, min(rows, max_bytes // padded))
    names = [column for column, kind in kinds.items() if isinstance(kind, pl.String | pl.Categorical | pl.Enum)]
    cuts = metadata.row_slices(columns, rows, max_bytes)
    return table, ((first + 1, rows, metadata.decoded_bytes(names, first, first + rows)) for first, rows in cuts)


def parquet_header(file: Path) -> list[str]:
    """Return the columns of a Parquet file, whose metadata is checked first."""
    check_file(file)
    with decoding(file):
        return scan(file).collect_schema().names()


def check_decoding(
    file: Path, metadata: ParquetMetadata, kinds: Mapping[str, pl.DataType], bytes_held_per_row: int = 0
) -> None:
    """Check the memory for decoding some rows of a file, and for holding all of them."""
    taken = metadata.decoding(kinds) + metadata.group_rows * sum(map(_padded, kinds.values()))
    remedy = "write it with smaller pages, and shorter lists and strings"
    check_memory_for_file("decoding a few of its rows", taken, file, remedy, metadata.size)
    check_memory_for_file(
        f"{metadata.rows:,} rows", taken + bytes_held_per_row * metadata.rows, file, "take fewer rows", metadata.size
    )


def _padded(kind: Any) -> int:
    """Return the bytes of a row of fixed-length arrays, which even null rows take."""
    if isinstance(kind, pl.Array):
        return kind.size * max(8, _padded(kind.inner))
    if isinstance(kind, pl.Struct):
        return sum(_padded(field.dtype) for field in kind.fields)
    return _padded(kind.inner) if isinstance(kind, pl.List) else 0


def _texts(frame: pl.DataFrame) -> pl.DataFrame:
    """Convert categories to strings, as categories of two files may differ.

    Each category is converted once and shared by its rows; a cast would copy it for each row.
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
