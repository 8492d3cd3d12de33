"""Readers of object stores, web servers and databases.

Nothing here connects to another machine unless `allow_network` says so; a database in a file, and a server on this
machine, need no permission. Databases are opened for reading only. Messages never have credentials (`locations`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import polars as pl

from poolscope.core.errors import InputError, located
from poolscope.core.files import check_regular
from poolscope.core.tables.locations import DATABASES, Location, database_path, without_secrets
from poolscope.core.tables.readers import (
    SEPARATORS,
    Frames,
    Reader,
    Select,
    arrow_errors,
    stream_batches,
)
from poolscope.core.tables.reading import labeled, parquet_batches

#: Records of JSON Lines from which polars infers types.
INFERRED_RECORDS = 10_000

#: Attempts after a failed request.
MAX_RETRIES = 2

#: Memory of DuckDB.
DUCKDB_MEMORY = "1GB"

#: Where messages of ADBC drivers repeat the query.
_QUERY_TEXT = re.compile(r"Query was:|\nquery(?: was)?:")

INSTALL = "pip install 'poolscope[databases]'"


def remote_reader(place: Location, *, allow_network: bool, query: str | None, folder: Path) -> Reader:
    """Return the reader of an address, which is checked before anything connects; `folder` is for temporary files."""
    assert place.address is not None
    with located(file=place.label):
        if place.scheme not in DATABASES:
            if not allow_network:
                raise not_allowed()
            if place.compression and place.format not in (*SEPARATORS, "jsonl"):
                raise InputError("must not be compressed where it is read over the network", value=place.compression)
            return Reader(
                label=place.label, text=place.format in SEPARATORS, read=lambda select: _scanned(place, folder, select)
            )
        if query is None or not query.strip():
            remedy = 'add `query`, as "SELECT user, hash, bits FROM reports ORDER BY id"'
            raise InputError("a database must have a query", remedy=remedy)
        if place.scheme == "postgresql" and not (allow_network or on_this_machine(place.address)):
            raise not_allowed()
        # before any file is written
        library(DRIVERS[place.scheme])
    return Reader(label=place.label, text=False, read=lambda select: _queried(place, query, folder, select))


def not_allowed() -> InputError:
    """Return the error of an address on the network that was not allowed."""
    return InputError("the network is not used unless you allow it", remedy="add `allow_network`")


def on_this_machine(address: str) -> bool:
    """Return whether all hosts of a PostgreSQL address are sockets or loopback addresses."""
    try:
        parts = urlsplit(address)
        options = parse_qs(parts.query)
    except ValueError:
        return False
    if "service" in options or "PGSERVICE" in os.environ:
        return False
    named = parts.netloc.rpartition("@")[2] or ",".join(options.get("host", [])) or os.environ.get("PGHOST", "")
    hosts = [*named.split(","), *options.get("hostaddr", []), os.environ.get("PGHOSTADDR", "")]
    return all(map(_is_local, hosts))


def _is_local(host: str) -> bool:
    if not host or host.startswith(("/", "%2F", "%2f", "[::1]")) or host == "::1":
        return True
    name = host.rpartition(":")[0] or host
    return name == "localhost" or (name.startswith("127.") and name.replace(".", "").isdigit())


def _scanned(place: Location, folder: Path, select: Select) -> Frames:
    """Read files of an object store or a web server by polars, through a copy of the columns that are needed."""
    copy = folder / f"remote-{len(list(folder.iterdir()))}.parquet"
    address = place.address
    assert address is not None
    web = place.scheme in ("https", "http")
    # a question mark in a web address begins its query
    options: dict[str, Any] = {"glob": not web, "storage_options": {"max_retries": MAX_RETRIES}}
    with located(file=place.label), library_errors(address):
        if place.format in SEPARATORS:
            separator = SEPARATORS[place.format]
            table = pl.scan_csv(address, infer_schema=False, separator=separator, **options)
        elif place.format == "jsonl":
            del options["glob"]
            table = pl.scan_ndjson(address, infer_schema_length=INFERRED_RECORDS, **options)
        else:
            scan: Any = pl.scan_parquet if place.format == "parquet" else pl.scan_ipc
            table = scan(address, hive_partitioning=not web, **options)
        columns = select(table.collect_schema().names())
        # a sink holds little, whatever it reads; batches of a scan would be read ahead without bound
        table.select(columns).sink_parquet(copy, compression="uncompressed", statistics=False, maintain_order=True)
    with labeled(copy, place.label):
        yield from parquet_batches(copy, lambda _: columns)
    copy.unlink()


#: Scheme -> module of its driver.
DRIVERS = {"postgresql": "adbc_driver_postgresql.dbapi", "sqlite": "adbc_driver_sqlite.dbapi", "duckdb": "duckdb"}


def library(name: str) -> Any:
    """Import a driver, or say how to install it."""
    try:
        return import_module(name)
    except ImportError:
        raise InputError(f"needs {name.partition('.')[0]}, which is not installed", remedy=INSTALL) from None


def _queried(place: Location, query: str, folder: Path, select: Select) -> Frames:
    """Read the rows of a query, batch by batch."""
    address, scheme = place.address, place.scheme
    assert address is not None
    assert scheme is not None
    driver = library(DRIVERS[scheme])
    path = None if scheme == "postgresql" else database_path(address)
    if path is not None:
        check_regular(path)
    with located(file=place.label), library_errors(address):
        if scheme == "duckdb":
            # the query cannot read or write other files, nor use the network; its progress is not printed
            settings = {"enable_external_access": "false", "memory_limit": DUCKDB_MEMORY, "temp_directory": str(folder)}
            with closing(driver.connect(str(path), read_only=True, config=settings)) as connection:
                connection.execute("SET enable_progress_bar = false").fetchall()
                relation = connection.sql(query)
                if relation is None:
                    raise InputError("the query must return rows")
                yield from stream_batches(relation, select)
            return
        uri = address if path is None else f"file:{quote(str(path))}?mode=ro"
        with closing(driver.connect(uri)) as connection, closing(connection.cursor()) as cursor:
            if path is None:
                cursor.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
                connection.commit()
            cursor.execute(query)
            yield from stream_batches(cursor.fetch_arrow(), select)


@contextmanager
def library_errors(address: str, rule: str = "cannot be read") -> Iterator[None]:
    """Convert errors of drivers and of polars into one line without credentials or the query's text."""

    def shown(message: str) -> str:
        return without_secrets(_QUERY_TEXT.split(message, maxsplit=1)[0], address)

    try:
        with arrow_errors(rule, shown):
            yield
    except InputError:
        raise
    except Exception as error:
        # each driver has exceptions of its own; none is shown as a cause, as its text may have the address
        raise InputError(f"{rule}: {shown(str(error))[:160]}") from None
