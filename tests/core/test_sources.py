"""Sources: what is refused, damaged files, labels without credentials, and the order of time."""

import gzip
import random
import sqlite3

import numpy as np
import polars as pl
import pytest
import zstandard
from cases.data_sources import NAMES, ROWS, content, memory_growth, rows_of
from cases.platforms import linux_only
from hypothesis import given, settings
from hypothesis import strategies as st

from poolscope.core.errors import InputError
from poolscope.core.tables import SourceOptions, delivered, delivery, destination_of, label_of, opened, readers
from poolscope.core.tables import sources as sources_module
from poolscope.core.tables.locations import without_credentials, without_secrets
from poolscope.core.tables.ordering import NUMBER, TIME, TimeColumn, TimeOrder
from poolscope.core.tables.remote import on_this_machine

REFUSED = {
    "an unknown column": ({"columns": {"user": "usr"}}, r"must have a column 'usr', got \['user', 'value'\]; did you"),
    "an unknown name": ({"columns": {"usr": "user"}}, r"columns: unknown column, got 'usr'; did you mean 'user'\?"),
    "one column for two": ({"columns": {"user": "value", "value": "value"}}, "must not use a column twice"),
    "no mapping": ({"columns": ["user"]}, "columns: must map names that poolscope reads to columns"),
    "an unknown time": ({"time": "at"}, "must have a column 'at'"),
    "a time that is none": ({"time": "user"}, "row 1: user must be a time: a date, ISO 8601, or a number, got 'u0'"),
    "two names of one column": ({"columns": {"value": "value", "object": "user"}}, "must name one of value and object"),
    "a query without a database": ({"query": "SELECT 1"}, "query: goes with the address of a database"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_options_that_do_not_fit(tmp_path, case):
    given_options, message = REFUSED[case]
    ROWS.write_parquet(tmp_path / "r.parquet")
    for data in (tmp_path / "r.parquet", ROWS):
        with pytest.raises(InputError, match=message):
            rows_of(data, SourceOptions.of(**given_options), names=[("user",), ("value", "object")])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("none.parquet", "none.parquet: there is no such file"),
        ("*.parquet", r"\*.parquet: matches no file"),
        ("r.xlsx", "r.xlsx: must end in .parquet, .csv, .tsv"),
        ([], "there must be at least one source"),
        (["-", "r.csv"], "standard input must be the only source"),
        ("ftp://host/r.csv", "ftp://host/r.csv: unknown kind of address, got 'ftp'"),
        ("postgres://host/db", "did you mean 'postgresql'"),
        ("sqlite:///r.db", "sqlite:///r.db: a database must have a query; add `query`"),
        ("s3://bucket/reports", "must end in .parquet, .csv"),
        ("s3://bucket/r.csv", "the network is not used unless you allow it; add `allow_network`"),
    ],
)
def test_sources_that_are_none(tmp_path, monkeypatch, data, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        rows_of(data)


def test_a_compressed_file_on_the_network_is_refused():
    with pytest.raises(InputError, match="must not be compressed where it is read over the network, got 'zstd'"):
        rows_of("s3://bucket/r.arrow.zst", SourceOptions.of(allow_network=True))


def test_databases_that_are_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.db").write_text("no database " * 500)
    asked = SourceOptions.of(query="SELECT * FROM reports")
    for scheme in ("sqlite", "duckdb"):
        with pytest.raises(InputError, match=r"none\.db: there is no such file"):
            rows_of(f"{scheme}:///none.db", asked)
        with pytest.raises(InputError, match=f"{scheme}:///text.db: cannot be read: ") as caught:
            rows_of(f"{scheme}:///text.db", asked)
        assert "\n" not in str(caught.value)
        with pytest.raises(InputError, match=f"must be {scheme}:///FILE"):
            rows_of(f"{scheme}://none.db", asked)
        with pytest.raises(InputError, match=r"text\.db: a database must have a query"):
            rows_of(f"{scheme}:///text.db", SourceOptions.of(query=" "))


def test_folders_of_several_formats_or_partitions(tmp_path):
    ROWS.write_csv(tmp_path / "a.csv")
    ROWS.write_ndjson(tmp_path / "b.jsonl")
    with pytest.raises(InputError, match="must have files of one format, got 'csv, jsonl'"):
        rows_of(tmp_path)
    with pytest.raises(InputError, match="must have files of one format, got 'csv, jsonl'"):
        rows_of([tmp_path / "a.csv", tmp_path / "b.jsonl"])
    (tmp_path / "b.jsonl").unlink()
    (tmp_path / "old").mkdir()
    with pytest.raises(InputError, match="a subfolder must be a partition, as date=2026-01-01, got 'old'"):
        rows_of(tmp_path)
    (tmp_path / "old").rmdir()
    (tmp_path / "day=1").mkdir()
    ROWS.write_csv(tmp_path / "day=1/a.csv")
    with pytest.raises(InputError, match=r"must have the same partition keys, got \['none', 'day'\]"):
        rows_of(tmp_path)
    (tmp_path / "a.csv").rename(tmp_path / "day=1/notes.txt")
    with pytest.raises(InputError, match=r"must hold files of known formats alone, got 'day=1/notes\.txt'"):
        rows_of(tmp_path)
    (tmp_path / "day=1/notes.txt").unlink()
    (tmp_path / "day=1").rename(tmp_path / "value=1")
    with pytest.raises(InputError, match="a partition key must not be a column of its files, got 'value'"):
        rows_of(tmp_path)


def test_partitions_are_read_in_place_unless_a_key_is_needed(tmp_path):
    for day in (1, 2):
        (tmp_path / f"day={day}").mkdir()
        ROWS.write_parquet(tmp_path / f"day={day}/r.parquet")
    with opened(tmp_path, NAMES) as source:
        assert source.files == (tmp_path / "day=1/r.parquet", tmp_path / "day=2/r.parquet")
    assert rows_of(tmp_path, names=[("user",), ("day",)])["day"].unique().sort().to_list() == ["1", "2"]


def test_rows_and_files_of_errors_are_those_of_the_source(tmp_path):
    """However the rows were staged."""
    good = pl.DataFrame({"user": ["a"] * 4, "value": range(4)})
    bad = good.with_columns(user=pl.Series(["a", "a", "", "a"]))
    for name, frame in (("1.jsonl", good), ("2.jsonl", bad)):
        frame.write_ndjson(tmp_path / name)
    with opened(str(tmp_path / "*.jsonl"), NAMES) as source:
        batches = list(source.batches(["user"]))
    with pytest.raises(InputError) as caught:
        batches[1].names("user")
    assert str(caught.value) == f"{tmp_path}/2.jsonl: row 3: user must have a name, got ''"


def test_types_must_not_change(tmp_path):
    lines = '{"user": "a", "value": 1}\n' * 3 + '{"user": 7, "value": 1}\n'
    (tmp_path / "r.jsonl").write_text(lines)
    with pytest.raises(InputError, match=r"r.jsonl: rows 1 to 4: column 'user' must hold values of one type"):
        rows_of(tmp_path / "r.jsonl")
    for number, user in enumerate(("a", 7)):
        pl.DataFrame({"user": [user], "value": [1]}).write_ndjson(tmp_path / f"{number}.ndjson")
    with pytest.raises(InputError, match=r"1.ndjson: row 1: column 'user' must hold String as in the rows before"):
        rows_of(str(tmp_path / "*.ndjson"))


@pytest.mark.default_cases("-*", ".gz-csv", ".gz-parquet", ".zst-jsonl", ".zst-arrows")
@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "arrow", "arrows", "parquet"])
@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_damaged_files_are_one_line(tmp_path, kind, ending):
    """Truncated, with random bytes and with flipped ones: rows, or an error of one line, and nothing is left."""
    compress = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.compress}[ending]
    whole, rng = compress(content(kind)), random.Random(f"{kind}{ending}")
    path = tmp_path / f"r.{kind}{ending}"
    refused = []
    for trial in range(40):
        data = bytearray(whole)
        if trial % 4 == 0:
            data = data[: rng.randrange(len(data))]
        elif trial % 4 == 1:
            data = bytearray(rng.randbytes(rng.randrange(1, 300)))
        else:
            for _ in range(1 + trial // 4):
                data[rng.randrange(len(data))] = rng.randrange(256)
        path.write_bytes(data)
        try:
            rows_of(path)
        except InputError as error:
            refused.append(str(error))
    assert len(refused) >= 8
    assert all(line.startswith(f"{path}: ") and "\n" not in line for line in refused)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_compressed_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("poolscope.core.tables.readers.FREE", 1 << 20)
    text = b"user,value\n" + b"a,1\n" * (1 << 22)
    for name, data in (("r.csv.gz", gzip.compress(text)), ("r.csv.zst", zstandard.compress(text))):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(InputError, match=rf"{name}: a file of .* may take .* on disk, takes more"):
            rows_of(tmp_path / name)


def test_a_full_disk_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr("poolscope.core.machine.available_disk", lambda folder: 10)
    with pytest.raises(InputError, match=r"a copy of the rows would take about .*, 10 bytes are free; set TMPDIR"):
        rows_of(ROWS)


ADDRESSES = {
    "postgresql://ann:s3cr3t@host:5432/db": "postgresql://host:5432/db",
    "postgresql://ann:s3cr3t/x@y@host/db?sslmode=require": "postgresql://host/db",
    "postgresql://ann:p?s3cr3t@host/db": "postgresql://host/db",
    "postgresql:///db?host=/run&password=s3cr3t": "postgresql:///db",
    "https://host/r.csv?X-Amz-Signature=s3cr3t": "https://host/r.csv",
    "https://ann:s3cr3t@host/r.csv#s3cr3t": "https://host/r.csv",
    "https://ann:s3cr3t/x@host/r.csv": "https://.../host/r.csv",
    "s3://bucket/a@b/r.parquet": "s3://bucket/a@b/r.parquet",
    "sqlite:////data/r.db?key=s3cr3t": "sqlite:////data/r.db",
}


@pytest.mark.parametrize("address", ADDRESSES)
def test_labels_have_no_credentials(address):
    assert label_of(address) == ADDRESSES[address]
    message = f"cannot connect to {address}: s3cr3t"
    assert "s3cr3t" not in label_of(address)
    if "s3cr3t" in address:
        assert "s3cr3t" not in without_secrets(message, address)
    command = ["attack", address, f"--out={address}", "--query", "SELECT 's3cr3t'", "--query=s3cr3t", "--out", "o.csv"]
    assert "s3cr3t" not in " ".join(without_credentials(command))
    assert without_credentials(command)[-2:] == ["--out", "o.csv"]


@given(st.lists(st.integers(0, 6), min_size=1, max_size=60), st.integers(1, 9), st.integers(1, 4))
@settings(max_examples=25)
def test_time_order_is_a_stable_sort(tmp_path_factory, times, batch, step):
    """Against the sort of Python, for windows of a few rows."""
    folder = tmp_path_factory.mktemp("order")
    order = TimeOrder(folder, window_bytes=64, step=step)
    for start in range(0, len(times), batch):
        some = times[start : start + batch]
        numbers = np.arange(start, start + len(some))
        order.add(pl.DataFrame({TIME: some, NUMBER: numbers, "row": numbers}))
    windows = list(order.windows())
    found = [row for window in windows for row in window["row"]]
    assert found == sorted(range(len(times)), key=lambda row: times[row])
    assert list(folder.iterdir()) == []


def test_windows_of_equal_times_are_bounded(tmp_path):
    order = TimeOrder(tmp_path, window_bytes=24 * 64, step=16)
    for start in range(0, 5000, 500):
        numbers = np.arange(start, start + 500)
        order.add(pl.DataFrame({TIME: np.zeros(500, dtype=np.int64), NUMBER: numbers, "row": numbers}))
    windows = list(order.windows())
    assert max(window.height for window in windows) <= 64 + 10 * 16
    assert pl.concat(windows)["row"].to_list() == list(range(5000))


@pytest.mark.parametrize(
    "values",
    [
        ["2026-01-02", "2026-01-01T23:00", "2026-01-02T00:00:00.5Z", "2026-01-02 01:00:00+02:00"],
        ["30", "4", "100", "-1"],
        ["1e3", "2.5", "10", "0"],
        [3, 1, 2, 0],
        [0.5, -1.0, 7.25, 0.0],
    ],
)
def test_kinds_of_time(values):
    from datetime import UTC, datetime

    def key(value):
        if isinstance(value, str) and "-" in value[1:]:
            time = datetime.fromisoformat(value)
            return time if time.tzinfo else time.replace(tzinfo=UTC)
        return float(value)

    numbers = TimeColumn("at").numbers(pl.Series(values), "r.csv", 1)
    assert np.argsort(numbers.to_numpy()).tolist() == sorted(range(len(values)), key=lambda i: key(values[i]))


def write_many(folder, kind, rows):
    """Write so many rows of about 200 bytes, and return the source."""
    path = folder / f"{rows}.{kind}"
    table = pl.LazyFrame({"at": pl.int_range(rows, 0, -1, eager=True)}).with_columns(
        user=pl.lit("u" * 180) + pl.col("at").cast(pl.String), value=pl.col("at") % 1000
    )
    if kind in ("sqlite", "duckdb"):
        if kind == "duckdb":
            import duckdb

            fill = f"""SELECT repeat('u', 180) || i AS "user", i % 1000 AS value, -i AS at FROM range({rows}) t(i)"""
            with duckdb.connect(str(path)) as connection:
                connection.execute(f"CREATE TABLE t AS {fill}")
        else:
            with sqlite3.connect(path) as connection:
                connection.execute("CREATE TABLE t (user TEXT, value INTEGER, at INTEGER)")
                connection.executemany(
                    "INSERT INTO t VALUES (?, ?, ?)", (("u" * 180 + str(i), i % 1000, -i) for i in range(rows))
                )
        return f"{kind}:///{path}"
    if kind == "jsonl":
        table.sink_ndjson(path)
    elif kind == "arrow":
        table.sink_ipc(path)
    elif kind == "parquet":
        table.sink_parquet(path)
    else:
        plain = folder / f"{rows}.csv"
        table.sink_csv(plain)
        with plain.open("rb") as stream, gzip.open(path, "wb", compresslevel=1) as target:
            while block := stream.read(1 << 24):
                target.write(block)
    return str(path)


@linux_only
@pytest.mark.slow
@pytest.mark.parametrize("time", ["", "at"])
@pytest.mark.parametrize("kind", ["csv.gz", "jsonl", "arrow", "parquet", "sqlite", "duckdb"])
def test_memory_is_bounded_at_ten_times_the_data(tmp_path, kind, time):
    """A source of 400 MB takes hardly more memory than one of 40 MB."""
    small, large = (write_many(tmp_path, kind, rows) for rows in (200_000, 2_000_000))
    query = "SELECT * FROM t" if kind in ("sqlite", "duckdb") else ""
    rows, growth = memory_growth(small, large, query, query, time)
    assert rows == 2_000_000
    assert growth < 150 << 20


@pytest.mark.parametrize(
    ("address", "local"),
    [
        ("postgresql://ann@127.0.0.1:5432/db", True),
        ("postgresql://localhost/db", True),
        ("postgresql://[::1]:5432/db", True),
        ("postgresql:///db?host=/run", True),
        ("postgresql://127.example.org/db", False),
        ("postgresql://localhost,db.example/db", False),
        ("postgresql://localhost/db?hostaddr=10.0.0.1", False),
        ("postgresql:///db?service=reports", False),
        ("postgresql://[::1/db", False),
    ],
)
def test_hosts_of_this_machine(monkeypatch, address, local):
    for name in ("PGSERVICE", "PGHOST", "PGHOSTADDR"):
        monkeypatch.delenv(name, raising=False)
    assert on_this_machine(address) is local
    monkeypatch.setenv("PGSERVICE", "reports")
    assert not on_this_machine(address)


def test_a_query_of_a_file_writes_nothing(tmp_path):
    """And reads no other file."""
    import duckdb

    ROWS.write_csv(tmp_path / "other.csv")
    with sqlite3.connect(tmp_path / "r.db") as connection:
        connection.execute("CREATE TABLE t AS SELECT 'a' AS user, 1 AS value")
    with duckdb.connect(str(tmp_path / "r.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT 'a' AS user, 1 AS value")
    for scheme, name, query in (
        ("sqlite", "r.db", "DELETE FROM t RETURNING *"),
        ("duckdb", "r.duckdb", "DELETE FROM t RETURNING *"),
        ("duckdb", "r.duckdb", f"SELECT * FROM read_csv('{tmp_path}/other.csv')"),
    ):
        address = f"{scheme}:///{tmp_path}/{name}"
        with pytest.raises(InputError, match="cannot be read: "):
            rows_of(address, SourceOptions.of(query=query))
        assert rows_of(address, SourceOptions.of(query="SELECT * FROM t")).rows() == [("a", "1")]
    with pytest.raises(InputError, match=r"r\.duckdb: the query must return rows"):
        rows_of(f"duckdb:///{tmp_path}/r.duckdb", SourceOptions.of(query="-- SELECT * FROM t"))


def test_a_decoded_password_is_not_shown():
    shown = without_secrets("no password p@ss-w0rd at host", "postgresql://ann:p%40ss-w0rd@host/db")
    assert shown == "no password *** at host"


def test_values_of_partitions(tmp_path):
    """A folder of Hive may have no value, and leading zeros are part of a value."""
    for day in ("01", "02", "__HIVE_DEFAULT_PARTITION__"):
        (tmp_path / f"day={day}").mkdir()
        ROWS[:1].write_parquet(tmp_path / f"day={day}/r.parquet")
    found = rows_of(tmp_path, names=[("user",), ("day",)])
    assert found["day"].to_list() == ["01", "02", None]


def test_rows_of_errors_are_counted_across_staged_files(monkeypatch):
    monkeypatch.setattr(sources_module, "PART_BYTES", 1)
    monkeypatch.setattr(readers, "STREAM_ROWS", 100)
    with opened(ROWS, NAMES) as source:
        batches = list(source.batches(["value"]))
    assert len(batches) > 1
    for batch in batches:
        assert batch.first == batch.frame["value"][0] + 1


def test_a_truncated_zstd_file_is_refused(tmp_path):
    """Also within the second frame, while whole frames after one another are one file."""
    whole = zstandard.compress(content("jsonl"))
    (tmp_path / "r.jsonl.zst").write_bytes(whole + whole)
    assert rows_of(tmp_path / "r.jsonl.zst").height == 2 * ROWS.height
    for end in (len(whole) - 1, 2 * len(whole) - 1):
        (tmp_path / "r.jsonl.zst").write_bytes((whole + whole)[:end])
        with pytest.raises(InputError, match="must be a whole zstd file: it ends within a frame"):
            rows_of(tmp_path / "r.jsonl.zst")


@pytest.mark.parametrize("scheme", ["sqlite", "duckdb"])
def test_a_new_database_appears_complete(tmp_path, monkeypatch, scheme):
    place = destination_of(
        f"{scheme}:///{tmp_path}/new.db", "t", SourceOptions.of(), data=ROWS, overwrite=False, inputs=()
    )

    def failing(*_):
        raise OSError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(delivery, "parquet_batches", failing)
        patched.setattr(delivery.glob, "escape", failing)
        with pytest.raises(InputError, match="cannot write: no space left"), delivered(place) as path:
            ROWS.write_parquet(path)
    assert list(tmp_path.iterdir()) == []
    with delivered(place) as path:
        ROWS.write_parquet(path)
    assert rows_of(place.address, SourceOptions.of(query="SELECT * FROM t")).equals(ROWS.cast(pl.String))


def test_a_bomb_is_not_written_to_the_disk(tmp_path, monkeypatch):
    """It is refused while it is decompressed, not when its rows are read."""
    monkeypatch.setattr(readers, "FREE", 1 << 20)
    monkeypatch.setattr(readers, "BATCH_BYTES", 1 << 20)
    text = bytes(1 << 24)
    for compression, data in (("gzip", gzip.compress(text)), ("zstd", zstandard.compress(text))):
        (tmp_path / "bomb").write_bytes(data)
        with pytest.raises(InputError, match=r"bomb: a file of .* may take .* on disk, takes more"):
            readers.decompress(tmp_path / "bomb", tmp_path / "plain", compression, "bomb")
        assert (tmp_path / "plain").stat().st_size < len(text) / 2
