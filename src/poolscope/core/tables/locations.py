"""Where tables are: files, patterns, folders, standard input, addresses; and their names in messages.

A name in a message, a report or a manifest never has a credential: the label of an address is its scheme, host and
path. User, password, query string and fragment are omitted (`label_of`), and replaced in messages of libraries
(`without_secrets`).
"""

from __future__ import annotations

import glob
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import Protocol, TypeGuard
from urllib.parse import parse_qsl, unquote

from poolscope.core.errors import InputError, did_you_mean, one_line
from poolscope.core.files import MARKERS, check_regular, folder_files
from poolscope.core.tables.atomic import checksum
from poolscope.core.tables.reading import Source


class ArrowStream(Protocol):
    """Anything with the Arrow C stream interface: frames of polars and pandas, Arrow tables, DuckDB relations."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


Data = str | PathLike[str] | Sequence[str | PathLike[str]] | ArrowStream | Source
"""A table to read: paths, patterns, folders, addresses, "-", an object with the Arrow C stream interface."""

#: Ending -> format.
FORMATS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".arrow": "arrow",
    ".ipc": "arrow",
    ".feather": "arrow",
    ".arrows": "arrow",
}

#: Ending -> compression.
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}

#: Schemes of object stores and web servers, which polars reads, and of databases.
NETWORK, DATABASES = ("s3", "gs", "az", "https", "http"), ("postgresql", "sqlite", "duckdb")

STANDARD_INPUT = "-"

#: Value of a Hive partition whose key is null.
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_HOST = re.compile(r"(?:[\w.-]*|\[[0-9a-fA-F:.]+\])(?::\d+)?")
_MAGIC = re.compile(r"[*?\[]")

ENDINGS = "must end in .parquet, .csv, .tsv, .jsonl or .arrow, also with .gz or .zst, or be a folder of such files"


@dataclass(frozen=True, kw_only=True)
class Location:
    """One place to read rows from.

    Parameters
    ----------
    label : its name in messages, without credentials.
    path : of a file; None for standard input and addresses.
    address : as the user gave it, with its credentials; hidden where the location is printed.
    format : a value of `FORMATS`, or the scheme of a database; None for standard input, whose content decides.
    compression : a value of `COMPRESSIONS`, if any.
    keys : values of Hive partitions, by column.
    """

    label: str
    path: Path | None = None
    address: str | None = field(default=None, repr=False)
    format: str | None = None
    compression: str | None = None
    keys: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def scheme(self) -> str | None:
        return None if self.address is None else scheme_of(self.address)


def is_stream(data: object) -> TypeGuard[ArrowStream]:
    """Return whether an object has the Arrow C stream interface."""
    return hasattr(data, "__arrow_c_stream__") and not isinstance(data, type)


def scheme_of(text: str) -> str | None:
    """Return the scheme of an address, or None for a path."""
    found = _SCHEME.match(text)
    return found[1].lower() if found else None


def label_of(data: Data) -> str:
    """Return the name of a table in messages, without credentials."""
    if isinstance(data, Source):
        return str(data.path)
    if isinstance(data, str | PathLike):
        return _label(fspath(data))
    if is_stream(data):
        kind = type(data)
        return f"{kind.__name__} of {kind.__module__.partition('.')[0].removeprefix('_')}"
    assert isinstance(data, Sequence)
    first = _label(fspath(data[0])) if data else "nothing"
    return first if len(data) < 2 else f"{first} and {len(data) - 1:,} more"


def _label(text: str) -> str:
    if text == STANDARD_INPUT:
        return "standard input"
    scheme = scheme_of(text)
    if scheme is None:
        return text
    rest = text[len(scheme) + 3 :]
    if scheme in DATABASES:
        # a password may have any character that its owner forgot to quote
        rest = rest.rpartition("@")[2]
    rest = re.split(r"[?#]", rest, maxsplit=1)[0]
    host, slash, path = rest.partition("/")
    host = host.rpartition("@")[2]
    if scheme not in ("s3", "gs", "az"):
        host, path = (host, path) if "@" not in path else ("...", path.rpartition("@")[2])
    # what is left of a password is no host
    return f"{scheme}://{host if _HOST.fullmatch(host) else '...'}{slash}{path}"


def without_secrets(text: str, address: str) -> str:
    """Return a library's message in one line, with everything of an address that its label omits as ``***``.

    A library may cut an address elsewhere, where a password is not quoted: fragments are replaced too.
    """
    rest = address.partition("://")[2]
    parts = {address, *re.split(r"[?#]", rest), *rest.rpartition("@")[0].split(":", 1), *_fragments(rest)}
    parts |= {value for _, value in parse_qsl(rest.partition("?")[2])}
    parts |= {unquote(part) for part in parts}
    shown = _label(address)
    for secret in sorted(parts, key=len, reverse=True):
        if secret and secret not in shown:
            text = text.replace(secret, "***")
    return one_line(text)


def _fragments(rest: str) -> list[str]:
    return [part for part in re.split(r"[:/@?#&=]+", rest) if len(part) > 2]


def without_credentials(arguments: Sequence[str]) -> list[str]:
    """Return command line arguments with every address as its label, and queries omitted."""
    out, hidden = list[str](), False
    for argument in arguments:
        option, equals, value = argument.partition("=")
        if hidden or (option == "--query" and equals):
            out.append("..." if hidden else "--query=...")
        elif option.startswith("--") and scheme_of(value):
            out.append(f"{option}={_label(value)}")
        else:
            out.append(_label(argument) if scheme_of(argument) else argument)
        hidden = argument == "--query"
    return out


def local_paths(data: Data | None) -> list[Path]:
    """Return the files and folders on this machine that are read, which no output may replace."""
    if data is None or is_stream(data):
        return []
    if isinstance(data, Source):
        return list(data.originals or data.files)
    found: list[Path] = []
    assert isinstance(data, str | PathLike | Sequence)
    for text in [fspath(path) for path in ([data] if isinstance(data, str | PathLike) else data)]:
        scheme = scheme_of(text)
        if scheme in ("sqlite", "duckdb"):
            found.append(database_path(text))
        elif scheme is None and text != STANDARD_INPUT:
            path = Path(text)
            found += [path] if path.exists() or not _MAGIC.search(text) else map(Path, _matches(text))
    return found


def locations(data: str | PathLike[str]) -> list[Location]:
    """Return the places that a path, pattern, folder or address names, in reading order."""
    text = fspath(data)
    if data == STANDARD_INPUT:
        # as a string; a path is a file of this name
        return [Location(label=_label(text))]
    scheme = scheme_of(text)
    if scheme is not None:
        return [_address(text, scheme)]
    path = Path(text)
    if path.is_dir():
        return _in_folder(path)
    if not path.exists() and _MAGIC.search(text):
        return _matching(text)
    return [_file(path)]


def table_checksum(path: Path) -> str:
    """Return the SHA-256 checksum of a file; of the names and checksums of all files of a pattern or folder."""
    if path.is_file():
        return checksum(path)
    base = path if path.is_dir() else Path(*path.parts[: _fixed_parts(path)])
    files = [place.path for place in locations(path) if place.path is not None]
    lines = [f"{file.relative_to(base).as_posix()} {checksum(file)}\n" for file in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def database_path(address: str) -> Path:
    """Return the file of ``sqlite:///path`` or ``duckdb:///path``; a fourth slash begins an absolute path."""
    host, _, path = re.split(r"[?#]", address.partition("://")[2], maxsplit=1)[0].partition("/")
    if host or not path:
        scheme = scheme_of(address)
        rule = f"must be {scheme}:///FILE, or {scheme}:////FILE for an absolute path"
        raise InputError(rule, file=_label(address))
    return Path(unquote(path))


def format_of(name: str) -> tuple[str | None, str | None]:
    """Return format and compression by the ending of a name; None where there is none."""
    suffixes = [suffix.lower() for suffix in Path(name).suffixes]
    compression = COMPRESSIONS.get(suffixes[-1]) if suffixes else None
    rest = suffixes[:-1] if compression else suffixes
    return (FORMATS.get(rest[-1]) if rest else None), compression


def check_one_format(found: Sequence[Location], label: str) -> None:
    """Check that all places have rows of one format: columns follow other rules in text than in Parquet."""
    kinds = dict.fromkeys(place.format for place in found)
    if len(kinds) > 1:
        rule, remedy = "must have files of one format", "read them one after the other"
        raise InputError(rule, value=", ".join(map(str, kinds)), file=label, remedy=remedy)


def _file(path: Path, keys: Mapping[str, str | None] | None = None) -> Location:
    kind, compression = format_of(path.name)
    if kind is None:
        raise InputError(ENDINGS, file=path)
    check_regular(path)
    return Location(label=str(path), path=path, format=kind, compression=compression, keys=keys or {})


def _address(text: str, scheme: str) -> Location:
    if scheme in DATABASES:
        return Location(label=_label(text), address=text, format=scheme)
    if scheme not in NETWORK:
        known = (*DATABASES, *NETWORK)
        raise InputError("unknown kind of address", value=scheme, file=_label(text), remedy=did_you_mean(scheme, known))
    name = re.split(r"[?#]", text, maxsplit=1)[0] if scheme in ("https", "http") else text
    kind, compression = format_of(name.rpartition("/")[2])
    if kind is None:
        raise InputError("must end in .parquet, .csv, .tsv, .jsonl or .arrow", file=_label(text))
    return Location(label=_label(text), address=text, format=kind, compression=compression)


def _matches(pattern: str) -> list[str]:
    return sorted(glob.glob(pattern, recursive=True))


def _matching(pattern: str) -> list[Location]:
    """Return the files that a pattern matches, with the Hive keys of the folders that it matches."""
    fixed = _fixed_parts(Path(pattern))
    found = [path for path in map(Path, _matches(pattern)) if not path.is_dir() and path.name not in MARKERS]
    if not found:
        raise InputError("matches no file", file=pattern)
    return [_file(path, _keys(path.parts[fixed:-1])) for path in found]


def _fixed_parts(pattern: Path) -> int:
    """Return how many parts of a pattern come before the first that is one."""
    return next((i for i, part in enumerate(pattern.parts) if _MAGIC.search(part)), len(pattern.parts))


def _in_folder(folder: Path) -> list[Location]:
    """Return the files of a folder and of its Hive partitions, sorted by name."""
    files = list(_walk(folder, ()))
    partitioned = any(keys for _, keys in files)
    kinds = {format_of(path.name)[0] for path, _ in files} - {None}
    if not partitioned and (not kinds or "parquet" in kinds):
        return [_file(path) for path in folder_files(folder, ".parquet", "Parquet files")]
    found = [_file(path, keys) for path, keys in files if format_of(path.name)[0] or _is_data(folder, path)]
    if not found:
        raise InputError("a folder must have files of rows", file=folder)
    check_one_format(found, str(folder))
    if len({tuple(place.keys) for place in found}) > 1:
        names = list(dict.fromkeys("/".join(place.keys) or "none" for place in found))
        raise InputError("all files of a folder must have the same partition keys", value=names, file=folder)
    return found


def _is_data(folder: Path, path: Path) -> bool:
    """Refuse a file of an unknown format, as its rows would be missing."""
    rule, remedy = "a folder must hold files of known formats alone", "move it out of the folder"
    raise InputError(rule, value=str(path.relative_to(folder)), file=folder, remedy=remedy)


def _walk(folder: Path, parts: tuple[str, ...]) -> Iterator[tuple[Path, dict[str, str | None]]]:
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.name in MARKERS:
            continue
        if not path.is_dir():
            yield path, _keys(parts)
        elif "=" in path.name:
            yield from _walk(path, (*parts, path.name))
        else:
            rule = "a subfolder must be a partition, as date=2026-01-01"
            raise InputError(rule, value=path.name, file=folder, remedy="read several folders with a pattern")


def _keys(parts: Sequence[str]) -> dict[str, str | None]:
    """Return the columns of Hive partitions: the folder ``date=2026-01-01`` is a column ``date``."""
    keys: dict[str, str | None] = {}
    for part in parts:
        name, equals, value = part.partition("=")
        if equals and name:
            keys[unquote(name)] = None if value == HIVE_NULL else unquote(value)
    return keys
