"""Parquet files of a few bytes that say very much: one value, a billion times over.

A column is a dictionary of one value and pages that repeat it, each a run of a few bytes. No writer makes such files; a
decoder that takes them at once needs gigabytes.

References
----------
Apache Parquet, parquet.thrift and Encodings; Apache Thrift, compact protocol.
"""

import base64
import re
import zlib
from pathlib import Path

import polars as pl

#: Kinds of Thrift's compact protocol, and of Parquet.
I32, I64, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12
INT64, BYTE_ARRAY, FIXED = 2, 6, 7
PLAIN, RLE, RLE_DICTIONARY, GZIP = 0, 3, 8, 2
REQUIRED, REPEATED = 0, 2

#: Values of a page.
PAGE = 1 << 27


def write_bomb(
    path: Path,
    rows: int,
    columns: dict[str, int | str | bytes | list[str]],
    page: int = PAGE,
    each: int = 1,
    groups: int = 1,
) -> Path:
    """Write a table of equal rows.

    With `each`, a cell of texts is a list of that many. All row groups are the same bytes, which are there once.
    Bytes are values of a fixed length. A list of two texts has one in every other row.
    """
    content, chunks, group = b"PAR1", [], 0
    rows //= groups
    for name, value in columns.items():
        start, raw = len(content), 0
        plain = _plain(value)
        pages = [(_dictionary, 2 if isinstance(value, list) else 1, plain)]
        values = rows * (each if isinstance(value, str) else 1)
        for first in range(0, values, page):
            count = min(page, values - first)
            levels = _levels(count) if each > 1 and isinstance(value, str) else b""
            runs = _alternating(count) if isinstance(value, list) else _varint(count << 1) + b"\x00"
            pages.append((_data, count, levels + b"\x01" + runs))
        for kind, count, plain in pages:
            packed = _gzip(plain)
            content += kind(count, len(plain), len(packed)) + packed
            raw += len(plain)
        chunks.append(_chunk(name, value, values, raw, len(content) - start, start, each))
        group += raw
    footer = _footer(columns, rows, group, chunks, each, groups)
    path.write_bytes(content + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    return path


def write_wide_nulls(path: Path, rows: int, width: int) -> Path:
    """Write a table of users and of arrays that are null, whose schema says that each has `width` numbers."""
    small = 12345
    nulls = pl.Series([None] * rows, dtype=pl.Array(pl.Float64, small))
    pl.DataFrame({"user": range(rows), "value": nulls}).write_parquet(path)
    content = path.read_bytes()
    schema = re.compile(rb"[A-Za-z0-9+/=]{40,}").search(content, content.index(b"ARROW:schema") + 12).group()
    said = base64.b64decode(schema)
    assert said.count(small.to_bytes(4, "little")) == 1
    changed = base64.b64encode(said.replace(small.to_bytes(4, "little"), width.to_bytes(4, "little")))
    path.write_bytes(content.replace(schema, changed))
    return path


def _plain(value: int | str | bytes | list[str]) -> bytes:
    match value:
        case int():
            return value.to_bytes(8, "little")
        case bytes():
            return value
        case str():
            return _text(value.encode())
    return b"".join(_text(one.encode()) for one in value)


def _alternating(count: int) -> bytes:
    """Bit-packed 0, 1, 0, 1, ..., eight to a byte."""
    groups = -(-count // 8)
    return _varint(groups << 1 | 1) + b"\xaa" * groups


def _kind(value: object) -> int:
    return INT64 if isinstance(value, int) else FIXED if isinstance(value, bytes) else BYTE_ARRAY


def _levels(count: int) -> bytes:
    """Repetition (all but the first go on with the list) and definition of the entries of one list."""
    repeated = _varint(1 << 1) + b"\x00" + _varint((count - 1) << 1) + b"\x01"
    defined = _varint(count << 1) + b"\x01"
    return b"".join(len(part).to_bytes(4, "little") + part for part in (repeated, defined))


def _dictionary(count: int, raw: int, packed: int) -> bytes:
    return _struct((1, I32, 2), (2, I32, raw), (3, I32, packed), (7, STRUCT, _struct((1, I32, count), (2, I32, PLAIN))))


def _data(count: int, raw: int, packed: int) -> bytes:
    inner = _struct((1, I32, count), (2, I32, RLE_DICTIONARY), (3, I32, RLE), (4, I32, RLE))
    return _struct((1, I32, 0), (2, I32, raw), (3, I32, packed), (5, STRUCT, inner))


def _chunk(name: str, value: object, values: int, raw: int, packed: int, start: int, each: int) -> bytes:
    metadata = _struct(
        (1, I32, _kind(value)),
        (2, LIST, _list(I32, [PLAIN, RLE, RLE_DICTIONARY])),
        (3, LIST, _list(BINARY, [name])),
        (4, I32, GZIP),
        (5, I64, values),
        (6, I64, raw),
        (7, I64, packed),
        (9, I64, start),
        (11, I64, start),
    )
    return _struct((2, I64, start), (3, STRUCT, metadata))


def _footer(columns: dict[str, object], rows: int, raw: int, chunks: list[bytes], each: int, groups: int) -> bytes:
    schema = [_struct((4, BINARY, "schema"), (5, I32, len(columns)))]
    for name, value in columns.items():
        text = isinstance(value, str | list)
        repeated = REPEATED if text and each > 1 else REQUIRED
        length = [(2, I32, len(value))] if isinstance(value, bytes) else []
        fields = [(1, I32, _kind(value)), *length, (3, I32, repeated), (4, BINARY, name)]
        schema.append(_struct(*fields, *([(6, I32, 0)] if text else [])))
    group = _struct((1, LIST, _list(STRUCT, chunks)), (2, I64, raw), (3, I64, rows))
    both = (3, I64, rows * groups), (4, LIST, _list(STRUCT, [group] * groups))
    return _struct((1, I32, 1), (2, LIST, _list(STRUCT, schema)), *both)


def _struct(*fields: tuple[int, int, object]) -> bytes:
    out, last = b"", 0
    for number, kind, value in fields:
        out += bytes([(number - last) << 4 | kind]) + _value(kind, value)
        last = number
    return out + b"\x00"


def _list(kind: int, values: list) -> bytes:
    head = bytes([len(values) << 4 | kind]) if len(values) < 15 else bytes([15 << 4 | kind]) + _varint(len(values))
    return head + b"".join(_value(kind, value) for value in values)


def _value(kind: int, value: object) -> bytes:
    if kind == BINARY:
        return _varint(len(str(value).encode())) + str(value).encode()
    return value if isinstance(value, bytes) else _varint(value << 1)


def _varint(value: int) -> bytes:
    out = b""
    while value >= 128:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def _text(value: bytes) -> bytes:
    return len(value).to_bytes(4, "little") + value


def _gzip(content: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return packer.compress(content) + packer.flush()
