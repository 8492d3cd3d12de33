"""The same reports in every kind of place: files, streams, databases, an object store."""

import gzip
import io
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import polars as pl
import zstandard

from poolscope.core.tables import opened
from poolscope.core.tables.sources import DEFAULT

#: Programs of a PostgreSQL server, as Debian installs them.
POSTGRESQL = Path("/usr/lib/postgresql")

#: The columns of a small table, and the table.
NAMES = [("user",), ("value",)]
ROWS = pl.DataFrame({"user": [f"u{i % 9}" for i in range(500)], "value": range(500)})

#: A password with characters that have a meaning in an address.
PASSWORD, QUOTED_PASSWORD = "s3cr3t/@pw", "s3cr3t%2F%40pw"


def rows_of(data, options=DEFAULT, names=NAMES):
    """Return all rows of a source, as text."""
    with opened(data, names, options) as source:
        batches = list(source.batches([name for (name, *_) in names]))
    return pl.concat([batch.frame.cast(pl.String) for batch in batches])


def content(kind, frame=ROWS):
    """Return the bytes of the small table, or of another, in this format."""
    out = io.BytesIO()
    {
        "parquet": frame.write_parquet,
        "csv": frame.write_csv,
        "tsv": lambda stream: frame.write_csv(stream, separator="\t"),
        "jsonl": frame.write_ndjson,
        "arrow": frame.write_ipc,
        "arrows": frame.write_ipc_stream,
    }[kind](out)
    return out.getvalue()


def as_bits(frame, form, m=32):
    """Return reports whose column of bits has another form."""
    rows = [[byte >> i & 1 for byte in value for i in range(8)][:m] for value in frame["bits"]]
    ones = [[i for i, bit in enumerate(row) if bit] for row in rows]
    forms = {
        "booleans": lambda: pl.Series("bits", [[bool(bit) for bit in row] for row in rows]),
        "integers": lambda: pl.Series("bits", rows),
        "text": lambda: pl.Series("bits", ["".join(map(str, row)) for row in rows]),
        "hexadecimal": lambda: pl.Series("bits", [value.hex() for value in frame["bits"]]),
        "prefixed": lambda: pl.Series("bits", ["\\x" + value.hex().upper() for value in frame["bits"]]),
        "ones": lambda: pl.Series("ones", ones, dtype=pl.List(pl.Int64)),
        "ones as text": lambda: pl.Series("ones", [" ".join(map(str, row)) for row in ones]),
    }
    return frame.drop("bits").with_columns(forms[form]())


def written(frame, kind):
    """Return the bytes of a table in this format."""
    out = io.BytesIO()
    if kind == "parquet":
        frame.write_parquet(out)
    elif kind in ("csv", "tsv"):
        as_bits(frame, "ones as text").write_csv(out, separator="," if kind == "csv" else "\t")
    elif kind in ("jsonl", "ndjson"):
        as_bits(frame, "ones").write_ndjson(out)
    elif kind in ("arrow", "feather", "ipc"):
        frame.write_ipc(out)
    else:
        frame.write_ipc_stream(out)
    return out.getvalue()


def compressed(data, ending):
    return {"": lambda x: x, "gz": gzip.compress, "zst": zstandard.compress}[ending](data)


def write_file(folder, frame, name):
    """Write a file in the format of its ending, which may be two."""
    _, kind, ending = f"{name}.".split(".")[:3]
    path = folder / name
    path.write_bytes(compressed(written(frame, kind), ending))
    return path


def write_sqlite(path, frame):
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE reports (id INTEGER PRIMARY KEY, device TEXT, hash INTEGER, payload BLOB)")
        rows = frame.select("user", "hash", "bits").rows()
        connection.executemany("INSERT INTO reports (device, hash, payload) VALUES (?, ?, ?)", rows)
    connection.close()


def write_duckdb(path, frame):
    import duckdb

    with duckdb.connect(str(path)) as connection:
        connection.register("frame", frame.with_row_index("id").to_arrow())
        connection.execute('CREATE TABLE reports AS SELECT id, "user" AS device, hash, bits AS payload FROM frame')


def postgresql_programs():
    """Return the folder of the newest server's programs, or None."""
    return max(POSTGRESQL.glob("*/bin"), default=None, key=lambda path: float(path.parent.name))


@contextmanager
def postgresql_server(folder):
    """Run a server for as long, with a password; yield its port and the folder of its socket."""
    programs, data, sockets = postgresql_programs(), folder / "data", folder / "sockets"
    who = {}
    for path in (folder, sockets):
        path.mkdir(exist_ok=True)
        if os.getuid() == 0:
            # the server refuses to run as root
            who = {"user": "postgres", "group": "postgres"}
            shutil.chown(path, "postgres", "postgres")
    (folder / "password").write_text(PASSWORD)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    def run(program, *arguments):
        command = [programs / program, *map(str, arguments)]
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=60, **who)

    secure = ("--auth=scram-sha-256", f"--pwfile={folder / 'password'}")
    run("initdb", "-D", data, "-U", "ann", "-N", *secure)
    options = f"-c listen_addresses=127.0.0.1 -p {port} -k {sockets} -c fsync=off"
    # without a file of its own for messages the server would keep our pipe open
    run("pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", options, "start")
    try:
        yield port, sockets
    finally:
        run("pg_ctl", "-D", data, "-m", "immediate", "stop")


def fill_postgresql(address, frame):
    import adbc_driver_postgresql.dbapi

    with adbc_driver_postgresql.dbapi.connect(address) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE reports (id int, device text, hash int, payload bytea)")
        rows = frame.with_row_index("id").select(pl.col("id").cast(pl.Int32), "user", "hash", "bits")
        cursor.executemany("INSERT INTO reports VALUES ($1, $2, $3, $4)", rows.rows())
        connection.commit()


@contextmanager
def object_store():
    """Run a server of S3 for as long; yield a client and the environment in which polars finds it."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        address = "http://{}:{}".format(*server.get_host_and_port())
        keys = {"aws_access_key_id": "KEYOFTHETEST", "aws_secret_access_key": "SECRETOFTHETEST"}
        client = boto3.client("s3", endpoint_url=address, region_name="us-east-1", **keys)
        client.create_bucket(Bucket="reports")
        environment = {"AWS_ENDPOINT_URL": address, "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true"}
        yield client, environment | {name.upper(): value for name, value in keys.items()}
    finally:
        server.stop()


@contextmanager
def web_server(files):
    """Serve contents by their paths, with ranges as real servers do; yield the address and the list of requests."""
    requests = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self):
            self.answer()

        def do_GET(self):
            self.wfile.write(self.answer())

        def answer(self):
            requests.append(self.path)
            data = files.get(self.path.partition("?")[0])
            part, status = data or b"", 200 if data else 404
            wanted = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
            if data and wanted:
                low = int(wanted[1]) if wanted[1] else max(0, len(data) - int(wanted[2]))
                high = min(len(data) - 1, int(wanted[2])) if wanted[1] and wanted[2] else len(data) - 1
                part, status = data[low : high + 1], 206
            self.send_response(status)
            if status == 206:
                self.send_header("Content-Range", f"bytes {low}-{high}/{len(data)}")
            self.send_header("Content-Length", str(len(part)))
            self.send_header("Last-Modified", "Wed, 01 Jan 2025 00:00:00 GMT")
            self.end_headers()
            return part

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", requests
    finally:
        server.shutdown()
        server.server_close()


#: Reads a source in a process of its own, and prints the growth of its peak memory in bytes.
MEASURED = """
import resource, sys
import polars as pl
from poolscope.core.tables import SourceOptions, opened
def read(data, options):
    with opened(data, [("user",), ("value",)], options) as source:
        return sum(batch.frame.height for batch in source.batches(("user", "value")))
small, data, small_query, query, time = sys.argv[1:]
options = [SourceOptions.of(time=time or None, query=asked or None) for asked in (small_query, query)]
read(small, options[0])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
rows = read(data, options[1])
print(rows, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10)
"""


def memory_growth(small, large, small_query, query, time):
    """Read a small and then a large source; return the rows of the second, and the growth of the peak in bytes."""
    command = [sys.executable, "-c", MEASURED, small, large, small_query, query, time]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows, growth = map(int, done.stdout.split())
    return rows, growth
