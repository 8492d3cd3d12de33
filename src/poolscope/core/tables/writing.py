"""Writing of a table in numbered parts, in any order and from any thread, that are then joined in order.

The parts are files in a scratch folder next to the target. They are joined in bounded memory into one file, which
replaces the target atomically. After an error the previous target is unchanged and nothing else is left.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import polars as pl

from poolscope.core.errors import InputError, one_line
from poolscope.core.files import check_writable, located_os_errors, scratch_folder
from poolscope.core.tables.atomic import put_in_place
from poolscope.core.tables.csv import escaped, read_back
from poolscope.core.tables.locations import label_of

#: Rows of a row group, which a reader holds in memory.
GROUP_ROWS = 1 << 16

#: Suffixes of tables and of HTML reports.
TABLES, PAGES = (".csv", ".parquet"), (".html",)

_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+")

Compression = Literal["uncompressed", "zstd"]


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Writer of the parts of a table.

    Parameters
    ----------
    text : whether the table is CSV.
    raw : whether strings of CSV are written unescaped.
    numeric : columns of CSV with lists of numbers, which are never escaped.
    """

    target: Path
    folder: Path
    text: bool
    raw: bool = False
    numeric: Sequence[str] = ()

    def write(self, number: int, frame: pl.DataFrame) -> Path:
        """Write a part and return its file; its number is its position in the table."""
        path = self.folder / f"{number:012d}.parquet"
        frame = escaped(frame, self.numeric) if self.text and not self.raw else frame
        with _located_disk_errors(self.target):
            # read once and soon: compression would cost more than it saves
            frame.write_parquet(path, compression="uncompressed", statistics=False, row_group_size=GROUP_ROWS)
        return path

    def scan(self, names: Sequence[str]) -> pl.LazyFrame:
        """Scan the parts written so far, in order, with these columns as the original strings."""
        table = scan_files(sorted(self.folder.iterdir())).with_columns(pl.col(names).cast(pl.String))
        return table.with_columns(read_back(pl.col(names))) if self.text and not self.raw else table


def check_output(
    path: Path,
    *,
    overwrite: bool = False,
    inputs: Sequence[Path] = (),
    endings: Sequence[str] = TABLES,
    option: str = "out",
) -> None:
    """Check an output file before anything is computed.

    Parameters
    ----------
    overwrite : whether an existing file may be replaced; inputs are never replaced.
    inputs : files and folders that are read.
    option : name of the output in messages.
    """
    another = f"choose another with `{option}`"
    refuse_address(path, option)
    if path.suffix.lower() not in endings:
        raise InputError(f"an output must end in {' or '.join(endings)}", file=path)
    if path.is_dir():
        raise InputError("an output must be a file, is a folder", file=path)
    if not path.parent.is_dir():
        raise InputError("the output's folder must exist", file=path)
    for other in inputs:
        if _same(path, other):
            raise InputError("the output must not be a file that is read", file=path, remedy=another)
        if other.is_dir() and path.resolve().is_relative_to(other.resolve()):
            raise InputError(f"the output must not lie in {other}, which is read", file=path, remedy=another)
    if path.exists() and not path.is_file():
        raise InputError("an output must be a regular file", file=path, remedy=another)
    if path.exists() and not overwrite:
        raise InputError("the output is there already", file=path, remedy=f"{another}, or replace it with `overwrite`")
    check_writable(path.parent, path, another)


def refuse_address(path: Path, option: str) -> None:
    """Refuse an address as a file; as a path, it has lost a slash."""
    if (found := _ADDRESS.match(str(path))) and not Path(found[0]).is_dir():
        address = f"{found[1]}://{str(path)[found.end() :]}"
        raise InputError(f"`{option}` must be a file on this machine, is an address", file=label_of(address))


def check_outputs(outputs: Mapping[str, Path | None], *, overwrite: bool = False, inputs: Sequence[Path] = ()) -> None:
    """Check several outputs by option name; all must be different files, and ``html`` is an HTML file."""
    there = {option: path for option, path in outputs.items() if path is not None}
    for place, (option, path) in enumerate(there.items()):
        for other, earlier in list(there.items())[:place]:
            if path.resolve() == earlier.resolve() or _same(path, earlier):
                rule = f"must be another file than that of `{other}`"
                raise InputError(rule, value=str(path), place=f"`{option}`")
        endings = PAGES if option == "html" else TABLES
        check_output(path, overwrite=overwrite, inputs=inputs, endings=endings, option=option)


def scan_files(files: list[Path]) -> pl.LazyFrame:
    """Scan Parquet files; brackets and equals signs in their names have no special meaning."""
    return pl.scan_parquet(files, glob=False, hive_partitioning=False)


def _same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)


@contextmanager
def writing(
    path: Path,
    *,
    compression: Compression = "zstd",
    raw: bool = False,
    numeric: Sequence[str] = (),
    folder: Path | None = None,
) -> Iterator[Parts]:
    """Yield a writer of parts; on exit the joined table replaces `path`.

    Parts are in a scratch folder; or in `folder`, beside `path`, which the caller removes: then parts that are there
    count too.
    """
    text = path.suffix.lower() == ".csv"
    place = scratch_folder(path.parent) if folder is None else nullcontext(folder)
    with _located_disk_errors(path), place as scratch:
        folder = scratch / "parts"
        folder.mkdir(exist_ok=True)
        yield Parts(target=path, folder=folder, text=text, raw=raw, numeric=numeric)
        joined = scratch / path.name
        _join(sorted(folder.iterdir()), joined, text, compression)
        put_in_place(joined, path)


@contextmanager
def _located_disk_errors(path: Path) -> Iterator[None]:
    """Convert disk errors, including those that polars raises, into an `InputError` on the path."""
    with located_os_errors(path):
        try:
            yield
        except (pl.exceptions.ComputeError, pl.exceptions.PanicException) as error:
            if "IO error" not in str(error):
                raise
            raise OSError(one_line(str(error))[:80]) from error


def _join(files: list[Path], out: Path, text: bool, compression: Compression) -> None:
    if len(files) == 1 and compression == "uncompressed" and not text:
        files[0].replace(out)
        return
    parts = scan_files(files)
    if text:
        parts.sink_csv(out)
    else:
        parts.sink_parquet(out, compression=compression, statistics=False, row_group_size=GROUP_ROWS)
