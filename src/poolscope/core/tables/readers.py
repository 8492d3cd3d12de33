"""Readers of files: formats that are not read in place, compressed files, and standard input.

A compressed file, and standard input, become a plain file in a temporary folder. A reader yields its rows in batches of
bounded size, whatever the size of the file. `sources` stages them as Parquet.
"""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl

from poolscope.core.errors import InputError, one_line, reading
from poolscope.core.files import located_os_errors
from poolscope.core.machine import as_bytes, check_disk
from poolscope.core.suppress_stderr import suppressed
from poolscope.core.tables.csv import BYTE_ORDER_MARK, MAX_ROW_BYTES, text_batches
from poolscope.core.tables.locations import Location
from poolscope.core.tables.reading import (
    BATCH_BYTES,
    FREE,
    MEMORY_PER_BYTE,
    check_memory_for_file,
    labeled,
    parquet_batches,
    text_bytes,
)

Select = Callable[[Sequence[str]], list[str]]
"""Selects columns of a header."""

Frames = Iterator[tuple[int, pl.DataFrame]]
"""The first row (from 1) and the rows of each batch."""

#: Separator of each format of text.
SEPARATORS = {"csv": ",", "tsv": "\t"}

#: Bytes that are copied at once, and bytes of zstd that are decompressed at once, as one may become 32,768.
BLOCK, ZSTD_BLOCK = 1 << 20, 1 << 11

#: Rows of a batch of an Arrow stream.
STREAM_ROWS = 1 << 13

#: Memory of a byte of an Arrow stream that is decoded as a whole.
STREAM_FACTOR = 4

ELSEWHERE = "set TMPDIR to a folder on another disk"


@dataclass(frozen=True, kw_only=True)
class Reader:
    """Rows of one place.

    Parameters
    ----------
    label : the place in messages.
    text : whether all values are text.
    read : yields batches of the columns that its argument selects.
    keys : values of columns that all rows share.
    size : bytes of the file, which bound the bytes of its copy; None where unknown.
    """

    label: str
    text: bool
    read: Callable[[Select], Frames]
    keys: Mapping[str, str | None] = field(default_factory=dict)
    size: int | None = None


def file_reader(place: Location, folder: Callable[[], Path]) -> Reader:
    """Return the reader of a file; a compressed one becomes a plain one in the folder while it is read."""
    file, kind = place.path, place.format
    assert file is not None

    def read(select: Select) -> Frames:
        if place.compression is None:
            yield from _plain_batches(file, place.label, kind, select)
            return
        plain = folder() / "plain"
        try:
            decompress(file, plain, place.compression, place.label)
            yield from _plain_batches(plain, place.label, kind, select)
        finally:
            plain.unlink(missing_ok=True)

    size = file.stat().st_size
    return Reader(label=place.label, text=kind in SEPARATORS, read=read, keys=place.keys, size=size)


def _plain_batches(file: Path, label: str, kind: str | None, select: Select) -> Frames:
    with labeled(file, label):
        if kind in SEPARATORS:
            yield from text_batches(file, select, text_bytes(BATCH_BYTES), SEPARATORS[kind])
        elif kind == "jsonl":
            yield from json_batches(file, select)
        elif kind == "arrow":
            yield from arrow_batches(file, select)
        else:
            yield from parquet_batches(file, select)


def check_growth(label: str, copied: int, size: int | None, folder: Path) -> None:
    """Check that the copy of a file of `size` bytes fits on the disk, and is no bomb."""
    with reading(label):
        if size is not None and copied > (most := max(FREE, MEMORY_PER_BYTE * size)):
            raise InputError(f"a file of {as_bytes(size)} may take {as_bytes(most)} on disk, takes more")
        check_disk("a copy of the rows", BATCH_BYTES, folder, ELSEWHERE)


def spool_standard_input(out: Path) -> None:
    """Copy standard input to a file."""
    label = "standard input"
    if sys.stdin is None or sys.stdin.isatty():
        raise InputError("must be piped in, is a terminal", file=label)
    _copy(iter(lambda: sys.stdin.buffer.read(BLOCK), b""), out, label, None)


def decompress(file: Path, out: Path, compression: str, label: str, size: int | None = None) -> None:
    """Write the content of a compressed file to another one."""
    with reading(label), file.open("rb") as stream:
        _copy(DECOMPRESSORS[compression](stream), out, label, file.stat().st_size if size is None else size)


def _copy(blocks: Iterator[bytes], out: Path, label: str, size: int | None) -> None:
    copied = checked = 0
    with located_os_errors(out.parent, ELSEWHERE), out.open("wb") as target:
        for block in blocks:
            copied += len(block)
            if copied - checked > BATCH_BYTES // 4:
                check_growth(label, copied, size, out.parent)
                checked = copied
            target.write(block)


def _gunzipped(stream: BinaryIO) -> Iterator[bytes]:
    try:
        with gzip.open(stream) as content:
            while block := content.read(BLOCK):
                yield block
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"must be a whole gzip file: {one_line(str(error))}") from error


def _unzstd(stream: BinaryIO) -> Iterator[bytes]:
    import zstandard

    frame, within = zstandard.ZstdDecompressor().decompressobj(), False
    try:
        while block := stream.read(ZSTD_BLOCK):
            while block:
                yield frame.decompress(block)
                within, block = not frame.eof, b""
                if frame.eof:
                    block = frame.unused_data
                    frame = zstandard.ZstdDecompressor().decompressobj()
    except zstandard.ZstdError as error:
        raise InputError(f"must be a whole zstd file: {one_line(str(error))}") from error
    if within:
        raise InputError("must be a whole zstd file: it ends within a frame")


DECOMPRESSORS: dict[str, Callable[[BinaryIO], Iterator[bytes]]] = {"gzip": _gunzipped, "zstd": _unzstd}


def sniff(file: Path) -> tuple[str | None, str | None]:
    """Return format and compression of a file by its first bytes; one of the two."""
    with file.open("rb") as stream:
        begin = stream.read(BLOCK).removeprefix(BYTE_ORDER_MARK)
    if begin.startswith(b"\x1f\x8b"):
        return None, "gzip"
    if begin.startswith(b"\x28\xb5\x2f\xfd"):
        return None, "zstd"
    if begin.startswith(b"PAR1"):
        return "parquet", None
    if begin.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return "arrow", None
    if begin.lstrip().startswith(b"{"):
        return "jsonl", None
    header = begin.partition(b"\n")[0]
    return ("tsv" if b"\t" in header and b"," not in header else "csv"), None


def json_batches(file: Path, select: Select) -> Frames:
    """Read JSON Lines; the first line decides which columns there are, and types must not change."""
    columns: list[str] | None = None
    row = 1
    with file.open("rb") as stream:
        for line, texts in _lines(stream):
            records = [
                _record(text, line + number)
                for number, text in enumerate(texts)
                if text.removeprefix(BYTE_ORDER_MARK).strip()
            ]
            if not records:
                continue
            columns = columns or select(list(records[0]))
            yield row, pl.DataFrame([_series(column, records, row) for column in columns])
            row += len(records)


def _lines(stream: BinaryIO) -> Iterator[tuple[int, list[bytes]]]:
    """Yield lines in batches, with the number of the first."""
    first, texts, held = 1, list[bytes](), 0
    while text := stream.readline(MAX_ROW_BYTES + 1):
        if len(text) > MAX_ROW_BYTES:
            raise InputError(f"a line must have at most {MAX_ROW_BYTES} bytes", place=f"line {first + len(texts)}")
        texts.append(text)
        held += len(text)
        if held > text_bytes(BATCH_BYTES):
            yield first, texts
            first, texts, held = first + len(texts), [], 0
    yield first, texts


def _record(text: bytes, line: int) -> dict[str, Any]:
    place = f"line {line}"
    try:
        found = json.loads(text.removeprefix(BYTE_ORDER_MARK).decode())
    except RecursionError:
        raise InputError("must not be nested that deeply", place=place) from None
    except UnicodeDecodeError as error:
        raise InputError("must be UTF-8 text", value=text[error.start : error.start + 1], place=place) from None
    except ValueError as error:
        raise InputError(f"must be JSON: {getattr(error, 'msg', error)}", place=place) from error
    if not isinstance(found, dict):
        raise InputError("must be a JSON object", value=found, place=place)
    return found


def _series(column: str, records: Sequence[Mapping[str, Any]], first: int) -> pl.Series:
    """Return a column of records; a key that a record lacks is null."""
    values = [record.get(column) for record in records]
    for row, value in enumerate(values):
        if type(value) not in _JSON_TYPES:
            raise InputError(f"{column} must be text, a number or a list", value=value, place=f"row {first + row}")
    dtype = _dtype(values)
    if dtype is None:
        rule = f"column {column!r} must hold values of one type, or lists of them"
        raise InputError(rule, place=f"rows {first} to {first + len(values) - 1}")
    try:
        return pl.Series(column, values, dtype=dtype)
    except _NOT_HELD:
        row = next(row for row, value in enumerate(values) if not _held(value, dtype))
        raise InputError(
            f"column {column!r} must hold {dtype}", value=values[row], place=f"row {first + row}"
        ) from None


#: What polars raises for a number that is too large, or a text that no encoding has.
_NOT_HELD = (TypeError, OverflowError, UnicodeEncodeError, pl.exceptions.PolarsError)


def _held(value: Any, dtype: Any) -> bool:
    try:
        pl.Series([value], dtype=dtype)
    except _NOT_HELD:
        return False
    return True


_JSON_TYPES = (str, int, float, bool, list, type(None))


def _dtype(values: Sequence[Any]) -> Any:
    """Return the type of values of JSON, or of lists of such values; None where they have several."""
    if set(map(type, values)) - {type(None)} == {list}:
        inner = _DTYPES.get(_kinds(entry for value in values if value is not None for entry in value))
        return None if inner is None else pl.List(inner)
    return _DTYPES.get(_kinds(values))


def _kinds(values: Iterable[Any]) -> frozenset[type]:
    return frozenset(map(type, values)) - {type(None)}


_DTYPES: dict[frozenset[type], Any] = {
    frozenset(): pl.Null,
    frozenset({str}): pl.String,
    frozenset({int}): pl.Int64,
    frozenset({float}): pl.Float64,
    frozenset({int, float}): pl.Float64,
    frozenset({bool}): pl.Boolean,
}


def arrow_batches(file: Path, select: Select) -> Frames:
    """Read an Arrow IPC file, or a stream: in batches where pyarrow is installed, or else within memory."""
    with file.open("rb") as stream:
        is_file = stream.read(6) == b"ARROW1"
    with arrow_errors("must be an Arrow file"):
        if is_file:
            yield from _sliced_batches(file, select)
            return
        with suppress(ImportError):
            import pyarrow.ipc

            with pyarrow.OSFile(str(file)) as source:
                yield from _validated_batches(pyarrow.ipc.open_stream(source), select)
            return
        size = STREAM_FACTOR * file.stat().st_size
        check_memory_for_file("an Arrow stream", size, file, "install pyarrow, which reads it in batches")
        yield from stream_batches(pl.read_ipc_stream(file), select)


def _sliced_batches(file: Path, select: Select) -> Frames:
    """Read an Arrow file in slices, as a streaming scan would read ahead without bound."""
    table = pl.scan_ipc(file, glob=False, hive_partitioning=False)
    columns = select(table.collect_schema().names())
    height = table.select(pl.len()).collect().item()
    rows = max(64, min(1 << 16, BATCH_BYTES * height // max(1, file.stat().st_size)))
    for start in range(0, height, rows):
        yield start + 1, table.select(columns).slice(start, rows).collect()


def _validated_batches(stream: Any, select: Select) -> Frames:
    """Read a stream of pyarrow; a damaged batch is refused before polars, which trusts it, would read it."""
    columns, row = select(stream.schema.names), 1
    for batch in stream:
        batch.validate(full=True)
        for start in range(0, batch.num_rows, STREAM_ROWS):
            frame = pl.DataFrame(batch.select(columns).slice(start, STREAM_ROWS))
            yield row, frame
            row += frame.height


def stream_batches(stream: Any, select: Select) -> Frames:
    """Read an object with the Arrow C stream interface, batch by batch."""
    table = pl.scan_arrow_c_stream(stream)
    columns, row = select(table.collect_schema().names()), 1
    for frame in table.select(columns).collect_batches(chunk_size=STREAM_ROWS, maintain_order=True, lazy=True):
        if frame.height:
            yield row, frame
        row += frame.height


@contextmanager
def arrow_errors(rule: str, shown: Callable[[str], str] = one_line) -> Iterator[None]:
    """Convert errors of polars and pyarrow into one line; `shown` formats their messages."""
    try:
        with suppressed():
            yield
    except InputError:
        raise
    except (MemoryError, pl.exceptions.PanicException):
        # a damaged file may declare any size
        raise InputError(f"is damaged: {rule}") from None
    except (pl.exceptions.PolarsError, OSError, ValueError, TypeError, OverflowError, NotImplementedError) as error:
        raise InputError(f"{rule}: {shown(str(error))[:160]}") from None
