"""Deliver a finished table to its place: a file, an object store, or a table of a database.

A table for an address is written as a local Parquet file first, and sent when it is finished. A database receives it in
one transaction, a new database in a file is renamed into place, and an object appears as a whole. After an error the
previous content is unchanged. Everything that can be checked is checked before anything is computed.
"""

from __future__ import annotations

import glob
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from os import PathLike, fspath
from pathlib import Path
from threading import Thread
from typing import Any, overload
from urllib.parse import quote

import polars as pl

from poolscope.core.errors import InputError, did_you_mean, located
from poolscope.core.files import check_regular, check_writable, located_os_errors, scratch_folder
from poolscope.core.tables.atomic import put_in_place
from poolscope.core.tables.locations import DATABASES, Data, database_path, is_stream, label_of, scheme_of
from poolscope.core.tables.readers import ELSEWHERE, stream_batches
from poolscope.core.tables.reading import Source, labeled, parquet_batches
from poolscope.core.tables.remote import (
    DRIVERS,
    DUCKDB_MEMORY,
    MAX_RETRIES,
    library,
    library_errors,
    not_allowed,
    on_this_machine,
)
from poolscope.core.tables.sources import SourceOptions
from poolscope.core.tables.writing import GROUP_ROWS, check_output, scan_files

#: Schemes of object stores that polars writes to.
STORES = ("s3", "gs", "az")

#: Bytes of an identifier at most: PostgreSQL truncates longer ones without an error.
MAX_IDENTIFIER = 63

_IDENTIFIER = re.compile(rf"[A-Za-z_][A-Za-z0-9_]{{0,{MAX_IDENTIFIER - 1}}}")
_PATTERN = re.compile(r"[*?\[\]#]")

UNWRITABLE = "cannot be written"

#: No extension of DuckDB is installed over the network.
DUCKDB_SETTINGS = {"memory_limit": DUCKDB_MEMORY, "autoinstall_known_extensions": "false"}


@dataclass(frozen=True, kw_only=True)
class Destination:
    """A checked place for a table.

    Parameters
    ----------
    path : of a file on this machine; None for an address.
    address : as the user gave it, with its credentials; hidden where the destination is printed.
    table : name of the table in a database.
    overwrite : whether existing content may be replaced.
    """

    path: Path | None = None
    address: str | None = field(default=None, repr=False)
    table: str | None = None
    overwrite: bool = False

    @property
    def label(self) -> str:
        """Its name in messages, without credentials."""
        named = str(self.path) if self.address is None else label_of(self.address)
        return named if self.table is None else f"{named}, table {self.table}"

    @property
    def folder(self) -> Path | None:
        """The folder for temporary files; None for that of the system."""
        return None if self.path is None else self.path.parent

    def send(self, file: Path) -> None:
        """Send a finished Parquet file; a destination on this machine has it already."""
        if self.address is None:
            return
        scheme = scheme_of(self.address)
        with labeled(file, self.label), located(file=self.label), library_errors(self.address, UNWRITABLE):
            if scheme in STORES:
                _put_object(file, self.address)
            elif scheme == "postgresql":
                assert self.table is not None
                _ingest("postgresql", self.address, self.table, file, replace=self.overwrite)
            else:
                assert self.table is not None
                _into_file(str(scheme), database_path(self.address), self.table, file, replace=self.overwrite)


@overload
def destination_of(
    out: str | PathLike[str],
    table: str | None,
    options: SourceOptions,
    *,
    data: Data,
    overwrite: bool,
    inputs: Sequence[Path],
) -> Destination: ...


@overload
def destination_of(
    out: str | PathLike[str] | None,
    table: str | None,
    options: SourceOptions,
    *,
    data: Data,
    overwrite: bool,
    inputs: Sequence[Path],
) -> Destination | None: ...


def destination_of(
    out: str | PathLike[str] | None,
    table: str | None,
    options: SourceOptions,
    *,
    data: Data,
    overwrite: bool,
    inputs: Sequence[Path],
) -> Destination | None:
    """Return a destination, checked before anything is computed: its form, permission, driver and present content.

    Parameters
    ----------
    out : a file, or an address as a string; None for no output.
    table : name of the table, for a database.
    options : of the source; they allow the network for both.
    data : what is read, which is never replaced.
    overwrite : whether other content may be replaced.
    inputs : files and folders that are read.
    """
    scheme = scheme_of(out) if isinstance(out, str) else None
    if scheme not in DATABASES and table is not None:
        raise InputError("goes with the address of a database", value=table, place="out_table")
    if out is None:
        return None
    if scheme is None:
        path = Path(out)
        check_output(path, overwrite=overwrite, inputs=inputs)
        return Destination(path=path, overwrite=overwrite)
    place = Destination(address=fspath(out), table=table, overwrite=overwrite)
    with located(file=label_of(fspath(out))):
        if scheme in DATABASES:
            _check_database(place, scheme, options.allow_network)
        elif scheme in STORES:
            _check_object(place, options.allow_network)
        else:
            known = (*DATABASES, *STORES)
            rule = f"an output must be a file, or an address of {', '.join(known)}"
            raise InputError(rule, value=scheme, remedy=did_you_mean(scheme, known))
        _check_not_read(place, scheme, data, options.query)
    return place


@contextmanager
def local_copy(place: Destination | None) -> Iterator[Path | None]:
    """Yield where the table is written: the file itself, or a temporary Parquet file for an address."""
    if place is None or place.address is None:
        yield None if place is None else place.path
        return
    parent = Path(tempfile.gettempdir())
    with ExitStack() as stack:
        with located_os_errors(parent, ELSEWHERE):
            folder = stack.enter_context(scratch_folder(parent))
        yield folder / "table.parquet"


@contextmanager
def delivered(place: Destination) -> Iterator[Path]:
    """Yield where the table is written; on success it is sent to its destination."""
    with local_copy(place) as path:
        assert path is not None
        yield path
        place.send(path)


def _check_database(place: Destination, scheme: str, allow_network: bool) -> None:
    address, table = place.address, place.table
    assert address is not None
    if table is None:
        raise InputError("a database must have the name of a table", remedy="add `out_table`")
    if not _IDENTIFIER.fullmatch(table) or (scheme == "sqlite" and table.lower().startswith("sqlite_")):
        rule = f"must be a name of at most {MAX_IDENTIFIER} letters, digits and underscores"
        raise InputError(rule, value=table, place="out_table")
    if scheme == "postgresql" and not (allow_network or on_this_machine(address)):
        raise not_allowed()
    library(DRIVERS[scheme])
    path = None if scheme == "postgresql" else database_path(address)
    if path is not None:
        if not path.parent.is_dir():
            raise InputError("the output's folder must exist")
        check_writable(path.parent, path)
        if not path.exists():
            return
        check_regular(path)
        if not os.access(path, os.W_OK):
            raise InputError("must be a file that can be written")
    with library_errors(address, UNWRITABLE):
        if _has_table(scheme, address, path, table) and not place.overwrite:
            rule, remedy = "the table is there already", "choose another with `out_table`, or replace it with"
            raise InputError(rule, value=table, place="out_table", remedy=f"{remedy} `overwrite`")


def _has_table(scheme: str, address: str, path: Path | None, table: str) -> bool:
    """Return whether the database has a table, or a view, of this name; the name has been checked."""
    if scheme == "duckdb":
        with closing(library(DRIVERS[scheme]).connect(str(path), read_only=True)) as connection:
            found = connection.execute(
                "SELECT count(*) FROM information_schema.tables WHERE table_schema = current_schema() "
                "AND lower(table_name) = lower(?)",
                [table],
            )
            return bool(found.fetchone()[0])
    if path is not None:
        sql = f"SELECT count(*) FROM sqlite_master WHERE type IN ('table', 'view') AND lower(name) = '{table.lower()}'"
        return bool(_rows("sqlite", f"file:{quote(str(path))}?mode=rw", sql)[0][0])
    sql = (
        "SELECT current_schema() IS NOT NULL AND has_schema_privilege(current_schema(), 'CREATE'), "
        "EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        f"WHERE n.nspname = current_schema() AND c.relname = '{table}')"
    )
    ((allowed, there),) = _rows(scheme, address, sql)
    if not allowed:
        raise InputError("must be a database in which this user may create tables")
    return bool(there)


def _rows(scheme: str, uri: str, sql: str) -> list[tuple[Any, ...]]:
    with closing(library(DRIVERS[scheme]).connect(uri)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(sql)
        return [row for _, frame in stream_batches(cursor.fetch_arrow(), list) for row in frame.rows()]


def _check_object(place: Destination, allow_network: bool) -> None:
    address = place.address
    assert address is not None
    if not address.lower().endswith(".parquet"):
        raise InputError("an output in an object store must end in .parquet")
    if not re.fullmatch(r"\w+://[^/@]+/.+", address) or _PATTERN.search(address):
        raise InputError("must be SCHEME://BUCKET/KEY, without a pattern")
    if not allow_network:
        raise not_allowed()
    with library_errors(address, UNWRITABLE):
        if _has_object(address, place.overwrite) and not place.overwrite:
            remedy = "choose another with `out`, or replace it with `overwrite`"
            raise InputError("the output is there already", remedy=remedy)


def _has_object(address: str, overwrite: bool) -> bool:
    """Return whether there is an object; a store that forbids reading is trusted where it may be replaced."""
    try:
        pl.scan_parquet(address, glob=False, storage_options={"max_retries": MAX_RETRIES}).collect_schema()
    except FileNotFoundError as error:
        if "NoSuchBucket" in str(error):
            raise InputError("there is no such bucket") from None
        return False
    except pl.exceptions.ComputeError as error:
        # another kind of file
        if not str(error).startswith("parquet:"):
            raise
    except PermissionError:
        if not overwrite:
            rule, remedy = "must be readable, to see whether it is there", "allow reading, or add `overwrite`"
            raise InputError(rule, remedy=remedy) from None
    return True


def _check_not_read(place: Destination, scheme: str, data: Data, query: str | None) -> None:
    """Refuse to replace what is read: an object among the sources, or a table that the query names."""
    if isinstance(data, Source) or is_stream(data):
        return
    assert isinstance(data, str | PathLike | Sequence)
    named = [fspath(path) for path in ([data] if isinstance(data, str | PathLike) else data)]
    same = [text for text in named if scheme_of(text) == scheme]
    if scheme in STORES:
        assert place.address is not None
        if any(text == place.address or fnmatchcase(place.address, text) for text in same):
            remedy = "choose another with `out`"
            raise InputError("the output must not be a file that is read", remedy=remedy)
    elif same and place.overwrite and re.search(rf"\b{place.table}\b", query or "", re.IGNORECASE):
        rule, remedy = "must not be a table that the query reads", "choose another"
        raise InputError(rule, value=place.table, place="out_table", remedy=remedy)


def _put_object(file: Path, address: str) -> None:
    """Write an object by polars, which shows it when it is complete.

    Where a scan fails or is interrupted, polars would complete the object with the rows so far. So the file is decoded
    once before, and is sent by a thread that gets no signals; an interrupt waits for it.
    """
    for _ in parquet_batches(file, list):
        pass
    done: Future[None] = Future()

    def send() -> None:
        try:
            scan_files([file]).sink_parquet(
                address,
                compression="zstd",
                statistics=False,
                row_group_size=GROUP_ROWS,
                storage_options={"max_retries": MAX_RETRIES},
            )
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(None)

    thread = Thread(target=send)
    try:
        # not of a pool: one does not wait for a thread whose start is interrupted
        thread.start()
        done.result()
    finally:
        if thread.ident is not None:
            thread.join()


def _into_file(scheme: str, path: Path, table: str, file: Path, *, replace: bool) -> None:
    """Add a table to a database in a file; a new database is renamed into place when it is complete."""
    if path.exists():
        _into_database(scheme, path, table, file, replace=replace)
        return
    with located_os_errors(path), scratch_folder(path.parent) as folder:
        _into_database(scheme, folder / "database", table, file, replace=False)
        put_in_place(folder / "database", path)


def _into_database(scheme: str, path: Path, table: str, file: Path, *, replace: bool) -> None:
    if scheme == "sqlite":
        _ingest(scheme, f"file:{quote(str(path))}?mode=rwc", table, file, replace=replace)
        return
    settings = DUCKDB_SETTINGS | {"temp_directory": str(file.parent / "duckdb")}
    with closing(library(DRIVERS[scheme]).connect(str(path), config=settings)) as connection:
        connection.execute("SET enable_progress_bar = false").fetchall()
        create = "CREATE OR REPLACE TABLE" if replace else "CREATE TABLE"
        # one statement is one transaction
        connection.execute(f'{create} "{table}" AS SELECT * FROM read_parquet(?)', [glob.escape(str(file))]).fetchall()


def _ingest(scheme: str, uri: str, table: str, file: Path, *, replace: bool) -> None:
    """Write a table through ADBC in one transaction, batch by batch."""
    with closing(library(DRIVERS[scheme]).connect(uri)) as connection, closing(connection.cursor()) as cursor:
        if replace:
            cursor.execute(f'DROP TABLE IF EXISTS "{table}"')
        # a table without rows has columns nevertheless
        empty = scan_files([file]).head(0).collect()
        for name in empty.columns:
            if len(name.encode()) > MAX_IDENTIFIER and scheme == "postgresql":
                raise InputError(f"a column's name must have at most {MAX_IDENTIFIER} bytes", value=name)
        cursor.adbc_ingest(table, _plain(empty, scheme), mode="create")
        for _, frame in parquet_batches(file, list):
            cursor.adbc_ingest(table, _plain(frame, scheme), mode="append")
        connection.commit()


def _plain(frame: pl.DataFrame, scheme: str) -> pl.DataFrame:
    """Return rows in types that the database has: text for categories; lists, or in SQLite text with blanks."""
    changed = []
    for name, dtype in frame.schema.items():
        column = pl.col(name)
        if isinstance(dtype, pl.Categorical | pl.Enum):
            changed.append(column.cast(pl.String))
        elif isinstance(dtype, pl.List | pl.Array):
            lists = column.arr.to_list() if isinstance(dtype, pl.Array) else column
            as_text = lists.cast(pl.List(pl.String)).list.join(" ")
            changed.append(as_text if scheme == "sqlite" else lists)
    return frame.with_columns(changed)
