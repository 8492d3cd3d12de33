"""Open a table wherever it is, and read its rows as those of Parquet or CSV files.

Parquet and CSV files are read in place. Everything else is staged first: its rows are written as Parquet into a
temporary folder, with the columns that are needed and no others. What comes after sees the same rows from every source.
Memory is bounded by a few batches, and the disk is checked while rows are written.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path

import polars as pl

from poolscope.core.errors import InputError, did_you_mean, located
from poolscope.core.files import located_os_errors, scratch_folder
from poolscope.core.tables.columns import no_column
from poolscope.core.tables.locations import (
    STANDARD_INPUT,
    Data,
    Location,
    check_one_format,
    is_stream,
    label_of,
    local_paths,
    locations,
)
from poolscope.core.tables.ordering import NUMBER, TimeColumn, TimeOrder
from poolscope.core.tables.readers import (
    ELSEWHERE,
    SEPARATORS,
    Reader,
    arrow_errors,
    check_growth,
    decompress,
    file_reader,
    sniff,
    spool_standard_input,
    stream_batches,
)
from poolscope.core.tables.reading import Source
from poolscope.core.tables.remote import remote_reader

#: About the bytes of a staged file.
PART_BYTES = 1 << 25

Alternatives = Sequence[tuple[str, ...]]
"""Columns to read, each by its possible names; Parquet prefers the first, text the last."""


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """How to read a source.

    Parameters
    ----------
    columns : names of the source's columns, by the names that poolscope reads: ``{"user": "device_id"}``.
    time : the column that orders the rows; without it, they are in the order of the source.
    allow_network : whether to connect to other machines.
    query : SQL, for a database.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    time: str | None = None
    allow_network: bool = False
    query: str | None = None

    @classmethod
    def of(
        cls,
        columns: Mapping[str, str] | None = None,
        time: str | None = None,
        allow_network: bool = False,
        query: str | None = None,
    ) -> SourceOptions:
        """Return checked options, as the arguments of public functions."""
        columns = {} if columns is None else columns
        if not isinstance(columns, Mapping) or not all(isinstance(name, str) for name in columns.values()):
            rule = "must map names that poolscope reads to columns of the source"
            raise InputError(rule, value=columns, place="columns")
        used: dict[str, str] = {}
        for name, column in columns.items():
            if column in used:
                rule = f"must not use a column twice, for {used[column]!r} and {name!r}"
                raise InputError(rule, value=column, place="columns")
            used[column] = name
        return cls(columns=dict(columns), time=time, allow_network=allow_network, query=query)

    def select(self, wanted: Alternatives, header: Sequence[str], text: bool) -> dict[str, str]:
        """Return the source's column of each column to read."""
        known = [name for names in wanted for name in names]
        for name in self.columns:
            if name not in known:
                raise InputError("unknown column", value=name, place="columns", remedy=did_you_mean(name, known))
        chosen = {}
        for names in wanted:
            mapped = [name for name in names if name in self.columns]
            if len(mapped) > 1:
                raise InputError(f"must name one of {' and '.join(mapped)}", place="columns")
            name = mapped[0] if mapped else choose_name(names, header, text)
            column = self.columns.get(name, name)
            if column not in header:
                raise no_column(column, header, [self.columns.get(own, own) for own in (group[0] for group in wanted)])
            chosen[name] = column
        if self.time is not None and self.time not in header:
            raise no_column(self.time, header, [self.time])
        return chosen


def choose_name(names: tuple[str, ...], header: Sequence[str], text: bool) -> str:
    """Return which of a column's possible names a table has; the preferred one where it has none."""
    preferred = names[::-1] if text else names
    return next((name for name in preferred if name in header), preferred[0])


DEFAULT = SourceOptions()


@contextmanager
def opened(
    data: Data, wanted: Alternatives, options: SourceOptions = DEFAULT, *, beside: Path | None = None
) -> Iterator[Source]:
    """Open a table for reading; temporary files, in a folder `beside`, exist as long.

    An opened source is returned as it is: its options have been applied.
    """
    if isinstance(data, Source):
        yield data
        return
    with ExitStack() as stack:
        made: list[Path] = []

        def folder() -> Path:
            if not made:
                parent = beside or Path(tempfile.gettempdir())
                with located_os_errors(parent, ELSEWHERE):
                    made.append(stack.enter_context(scratch_folder(parent)))
            return made[0]

        label, originals = label_of(data), tuple(local_paths(data))
        if is_stream(data):
            check_query(options, database=False)
            yield _staged([_stream_reader(data, label)], label, originals, wanted, options, folder)
            return
        assert isinstance(data, str | PathLike | Sequence)
        found = _places(data, label, folder)
        check_query(options, database=all(place.address and place.format == place.scheme for place in found))
        kind, files = found[0].format, tuple(place.path for place in found if place.path is not None)
        if not (options.columns or options.time) and all(_in_place(place, wanted) for place in found):
            yield Source(
                path=label,
                files=files,
                text=kind == "csv",
                separator=SEPARATORS.get(str(kind)),
                labels=tuple(place.label for place in found),
                originals=originals,
            )
            return
        readers = [_reader(place, options, folder) for place in found]
        yield _staged(readers, label, originals, wanted, options, folder)


def check_query(options: SourceOptions, *, database: bool) -> None:
    """Refuse a query where there is no database."""
    if options.query is not None and not database:
        raise InputError("goes with the address of a database", place="query")


def _places(data: str | PathLike[str] | Sequence[str | PathLike[str]], label: str, folder: Folder) -> list[Location]:
    named = [data] if isinstance(data, str | PathLike) else list(data)
    if not named:
        raise InputError("there must be at least one source")
    if len(named) > 1 and STANDARD_INPUT in named:
        raise InputError("standard input must be the only source")
    found = [place for entry in named for place in locations(entry)]
    if found[0].path is None and found[0].address is None:
        found = [_spooled(found[0], folder())]
    check_one_format(found, label)
    return found


Folder = Callable[[], Path]


def _spooled(place: Location, folder: Path) -> Location:
    """Return standard input as a file, decompressed where its content is."""
    path, number = folder / "input", 0
    spool_standard_input(path)
    kind, compression = sniff(path)
    while compression is not None and number < 2:
        number += 1
        plain = folder / f"input-{number}"
        decompress(path, plain, compression, place.label)
        path.unlink()
        path = plain
        kind, compression = sniff(path)
    if kind is None:
        raise InputError("must not be compressed more than twice", file=place.label)
    return Location(label=place.label, path=path, format=kind)


def _in_place(place: Location, wanted: Alternatives) -> bool:
    """Return whether a file can be read where it is: no column that is needed is a partition key."""
    keyed = any(name in place.keys for names in wanted for name in names)
    return place.format in ("parquet", "csv") and place.path is not None and not (place.compression or keyed)


def _reader(place: Location, options: SourceOptions, folder: Folder) -> Reader:
    if place.path is None:
        return remote_reader(place, allow_network=options.allow_network, query=options.query, folder=folder())
    return file_reader(place, folder)


def _stream_reader(data: object, label: str) -> Reader:
    def read(select: Callable[[Sequence[str]], list[str]]) -> Iterator[tuple[int, pl.DataFrame]]:
        with located(file=label), arrow_errors("must be a table"):
            yield from stream_batches(data, select)

    return Reader(label=label, text=False, read=read)


def _staged(
    readers: Sequence[Reader],
    label: str,
    originals: tuple[Path, ...],
    wanted: Alternatives,
    options: SourceOptions,
    folder: Folder,
) -> Source:
    """Write the rows as Parquet files, in order of time where a column orders them."""
    staging = _Staging(folder=folder() / "rows", numeric_keys=_numeric_keys(readers))
    staging.folder.mkdir()
    time = None if options.time is None else TimeColumn(options.time)
    order = TimeOrder(folder())
    number = 0
    for reader in readers:
        for first, frame in _selected(reader, wanted, options, staging, time):
            if time is None:
                staging.add(frame, reader.label, first, reader.size)
            else:
                numbers = pl.int_range(number, number + frame.height, eager=True).alias(NUMBER)
                number += frame.height
                check_growth(reader.label, staging.count(frame, reader.label), reader.size, staging.folder)
                for part in staging.gathered(frame.with_columns(numbers)):
                    order.add(part)
        staging.finish_label()
    if time is not None:
        for part in staging.gathered(None):
            order.add(part)
        row = 1
        for window in order.windows() if order.runs else ():
            staging.write(window, f"{label}, in order of {options.time}", row)
            row += window.height
    if not staging.files:
        raise InputError("must have at least one row", file=label)
    return Source(
        path=label,
        files=tuple(staging.files),
        text=readers[0].text,
        labels=tuple(staging.labels),
        before=tuple(staging.before),
        originals=originals,
    )


def _numeric_keys(readers: Sequence[Reader]) -> frozenset[str]:
    """Return the partition keys whose values are all integers, as ``day=7``."""
    values: dict[str, list[str | None]] = {}
    for reader in readers:
        for name, value in reader.keys.items():
            values.setdefault(name, []).append(value)
    return frozenset(name for name, found in values.items() if all(_is_decimal(value) for value in found))


def _is_decimal(value: str | None) -> bool:
    return value is None or (value.isascii() and value.isdigit() and len(value) < 19 and str(int(value)) == value)


def _selected(
    reader: Reader, wanted: Alternatives, options: SourceOptions, staging: _Staging, time: TimeColumn | None
) -> Iterator[tuple[int, pl.DataFrame]]:
    """Yield the rows of a reader with the names that poolscope reads, and with numbers of time."""
    chosen: dict[str, str] = {}

    def select(header: Sequence[str]) -> list[str]:
        for key in reader.keys:
            if key in header:
                raise InputError("a partition key must not be a column of its files", value=key)
        chosen.update(options.select(wanted, [*header, *reader.keys], reader.text))
        columns = [*chosen.values()] if options.time is None else [*chosen.values(), options.time]
        return [name for name in dict.fromkeys(columns) if name not in reader.keys] or list(header[:1])

    with located(file=reader.label):
        for first, frame in reader.read(select):
            frame = frame.with_columns(
                pl.lit(value, dtype=pl.String)
                .cast(pl.Int64 if key in staging.numeric_keys and not reader.text else pl.String)
                .alias(key)
                for key, value in reader.keys.items()
            )
            times = []
            if time is not None:
                values = frame[time.name]
                values = values.cast(pl.Int64) if time.name in staging.numeric_keys else values
                times = [time.numbers(values, reader.label, first)]
            rows = frame.select(pl.col(column).alias(name) for name, column in chosen.items())
            rows = rows.with_columns(_storage(series) for series in rows)
            staging.check_types(rows, reader.label, first)
            yield first, rows.with_columns(times)


def _storage(series: pl.Series) -> pl.Series:
    """Return values as ones that stand in one column with others.

    Databases have extension types for numbers and UUIDs. The categories of two files need not be the same.
    """
    extension = getattr(pl, "BaseExtension", None)
    if extension is not None and isinstance(series.dtype, extension):
        return series.ext.storage()
    return series.cast(pl.Categorical) if isinstance(series.dtype, pl.Categorical | pl.Enum) else series


@dataclass
class _Staging:
    """Writer of staged files.

    Parameters
    ----------
    numeric_keys : partition keys that are integers.
    files, labels, before : as of `Source`.
    """

    folder: Path
    numeric_keys: frozenset[str]
    files: list[Path] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    before: list[int] = field(default_factory=list)
    _types: dict[str, pl.DataType] = field(default_factory=dict)
    _held: list[pl.DataFrame] = field(default_factory=list)
    _bytes: int = 0
    _first: int = 1
    _label: str = ""
    _copied: int = 0

    def check_types(self, frame: pl.DataFrame, label: str, first: int) -> None:
        """Refuse a column whose type differs from that in earlier rows."""
        for name, dtype in frame.schema.items():
            known = self._types.setdefault(name, dtype)
            if not _compatible(known, dtype):
                rule = f"column {name!r} must hold {known} as in the rows before"
                raise InputError(rule, value=str(dtype), file=label, place=f"row {first}")
            # empty lists are of any type
            if known == pl.Null or (known == pl.List(pl.Null) and dtype != pl.Null):
                self._types[name] = dtype

    def count(self, frame: pl.DataFrame, label: str) -> int:
        """Return the bytes of the rows of this label so far."""
        self._copied = int(frame.estimated_size()) + (self._copied if label == self._label else 0)
        self._label = label
        return self._copied

    def add(self, frame: pl.DataFrame, label: str, first: int, size: int | None) -> None:
        """Add rows of a label; `first` is the number of the first."""
        check_growth(label, self.count(frame, label), size, self.folder)
        if not self._held:
            self._first = first
        for part in self.gathered(frame):
            self.write(part, label, self._first)

    def finish_label(self) -> None:
        """Write the rest of a label's rows."""
        if NUMBER in (self._held[0].columns if self._held else ()):
            return
        for part in self.gathered(None):
            self.write(part, self._label, self._first)

    def gathered(self, frame: pl.DataFrame | None) -> Iterator[pl.DataFrame]:
        """Add rows to those that are held, and yield them when they fill a file, or where there are no more (None)."""
        if frame is not None and frame.height:
            self._held.append(frame)
            self._bytes += int(frame.estimated_size())
        if self._held and (frame is None or self._bytes >= PART_BYTES):
            part = pl.concat(self._held, how="vertical_relaxed")
            self._held, self._bytes = [], 0
            yield part

    def write(self, frame: pl.DataFrame, label: str, first: int) -> None:
        """Write a file of rows."""
        path = self.folder / f"{len(self.files):09d}.parquet"
        with located_os_errors(self.folder, ELSEWHERE):
            frame.write_parquet(path, compression="uncompressed", statistics=False)
        self.files.append(path)
        self.labels.append(label)
        self.before.append(first - 1)


def _compatible(one: pl.DataType, other: pl.DataType) -> bool:
    """Return whether rows of two types can stand in one column: integers, or categories, of any kind."""
    if pl.Null in (one, other) or one == other:
        return True
    if isinstance(one, pl.List) and isinstance(other, pl.List):
        inner = one.inner, other.inner
        return pl.Null in inner or inner[0] == inner[1] or all(kind.is_numeric() for kind in inner)
    texts = (pl.Categorical, pl.String)
    return (isinstance(one, texts) and isinstance(other, texts)) or (one.is_integer() and other.is_integer())
