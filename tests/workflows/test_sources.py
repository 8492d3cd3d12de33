"""The same posteriors to the bit from every source of the same rows, and no credential anywhere."""

import io
import random
import re
import shlex
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote

import polars as pl
import pytest
from cases.command_line import poolscope
from cases.data_sources import (
    PASSWORD,
    QUOTED_PASSWORD,
    as_bits,
    compressed,
    fill_postgresql,
    memory_growth,
    object_store,
    postgresql_programs,
    postgresql_server,
    web_server,
    write_duckdb,
    write_file,
    write_sqlite,
    written,
)
from cases.platforms import linux_only, posix_only
from cases.report_files import WEAK, small_attack
from polars.testing import assert_frame_equal

import poolscope as ps
from poolscope.core.errors import InputError

FILES = (
    *("r.csv", "r.csv.gz", "r.csv.zst", "r.tsv", "r.tsv.gz", "r.jsonl", "r.jsonl.zst", "r.ndjson"),
    *("r.parquet", "r.parquet.gz", "r.arrow", "r.arrow.zst", "r.feather", "r.ipc", "r.arrows", "r.arrows.gz"),
)
FORMS = ("booleans", "integers", "text", "hexadecimal", "prefixed", "ones", "ones as text")
QUERY = 'SELECT device AS "user", hash, payload AS bits FROM reports ORDER BY id'
DEVICES = {"user": "device", "bits": "payload"}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A scenario, its reports, and the posteriors of those reports in one Parquet file."""
    folder = tmp_path_factory.mktemp("small")
    scenario, path = small_attack(folder, adversaries=WEAK)
    ps.attack(path, scenario, out=folder / "expected.parquet")
    frame = pl.read_parquet(path)
    return SimpleNamespace(
        scenario=scenario, path=path, frame=frame, expected=pl.read_parquet(folder / "expected.parquet"), folder=folder
    )


@pytest.fixture(scope="module")
def server(small, tmp_path_factory):
    if postgresql_programs() is None:
        pytest.skip("PostgreSQL is not installed")
    # not a folder of pytest, which the server's own user may not enter
    with tempfile.TemporaryDirectory(prefix="pg") as folder, postgresql_server(Path(folder)) as (port, sockets):
        address = f"postgresql://ann:{QUOTED_PASSWORD}@127.0.0.1:{port}/postgres"
        fill_postgresql(address, small.frame)
        yield SimpleNamespace(address=address, port=port, sockets=sockets)


@pytest.fixture(scope="module")
def store():
    with object_store() as (client, environment):
        yield SimpleNamespace(client=client, environment=environment)


def same(small, tmp_path, data, **options):
    """Check that the posteriors are those of one Parquet file."""
    ps.attack(data, small.scenario, out=tmp_path / "posteriors.parquet", **options)
    found = pl.read_parquet(tmp_path / "posteriors.parquet")
    assert_frame_equal(found, small.expected, check_exact=True)


@pytest.mark.default_cases("r.csv", "r.tsv.gz", "r.jsonl.zst", "r.parquet.gz", "r.arrows.gz")
@pytest.mark.parametrize("name", FILES)
def test_files(small, tmp_path, name):
    same(small, tmp_path, write_file(tmp_path, small.frame, name))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["posteriors.parquet", name]


@pytest.mark.default_cases("parquet", "tsv.zst")
@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl", "tsv.zst"])
def test_many_files_patterns_and_folders(small, tmp_path, ending):
    folder = tmp_path / "parts"
    folder.mkdir()
    cuts = range(0, small.frame.height, 100)
    parts = [write_file(folder, small.frame[start : start + 100], f"{start:05}.{ending}") for start in cuts]
    assert len(parts) > 2
    for data in (parts, str(folder / f"*.{ending}"), folder):
        same(small, tmp_path, data, overwrite=True)


def test_the_order_of_files_is_the_order_of_their_names(small, tmp_path):
    """The negative control: the same rows in another order have other posteriors."""
    half = small.frame.height // 2
    parts = [small.frame[half:], small.frame[:half]]
    data = [write_file(tmp_path, part, f"{number}.parquet") for number, part in enumerate(parts)]
    with pytest.raises(AssertionError):
        same(small, tmp_path, data)
    same(small, tmp_path, data[::-1], overwrite=True)


@pytest.mark.default_cases("jsonl.gz")
@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl.gz"])
def test_partitions_are_columns_and_times(small, tmp_path, ending):
    """Days are numbered without leading zeros: their order is not that of their names."""
    for day in range(12):
        rows = small.frame[day * small.frame.height // 12 : (day + 1) * small.frame.height // 12]
        folder = tmp_path / "reports" / "year=2026" / f"day={day}"
        folder.mkdir(parents=True)
        write_file(folder, rows, f"part.{ending}")
    with pytest.raises(AssertionError):
        same(small, tmp_path, tmp_path / "reports")
    same(small, tmp_path, tmp_path / "reports", time="day", overwrite=True)
    same(small, tmp_path, str(tmp_path / f"reports/*/day=*/*.{ending}"), time="day", overwrite=True)


@pytest.mark.default_cases("-csv", "zst-jsonl", "-parquet", "gz-arrow")
@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet", "arrow", "arrows"])
@pytest.mark.parametrize("ending", ["", "gz", "zst"])
def test_standard_input(small, tmp_path, monkeypatch, kind, ending):
    data = compressed(written(small.frame, kind), ending)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))
    same(small, tmp_path, "-")


@pytest.mark.default_cases("parquet-booleans", "parquet-ones as text", "jsonl-ones")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
def test_forms_of_bits(small, tmp_path, form, ending):
    frame = as_bits(small.frame, form)
    same(small, tmp_path, frame)
    path = tmp_path / f"r.{ending}"
    frame.write_parquet(path) if ending == "parquet" else frame.write_ndjson(path)
    same(small, tmp_path, path, overwrite=True)


@pytest.mark.parametrize("form", ["text", "hexadecimal"])
def test_forms_of_bits_in_csv(small, tmp_path, form):
    as_bits(small.frame, form).write_csv(tmp_path / "r.csv")
    same(small, tmp_path, tmp_path / "r.csv")


def frames():
    import duckdb
    import pyarrow as pa

    return {
        "polars": lambda frame: frame,
        "lazy batches": lambda frame: pa.RecordBatchReader.from_batches(
            frame.to_arrow().schema, frame.to_arrow().to_batches(max_chunksize=7)
        ),
        "pandas": lambda frame: frame.to_pandas(),
        "arrow": lambda frame: frame.to_arrow(),
        "duckdb": lambda frame: duckdb.connect().from_arrow(frame.to_arrow()),
    }


@pytest.mark.parametrize("kind", ["polars", "lazy batches", "pandas", "arrow", "duckdb"])
def test_frames(small, tmp_path, kind):
    same(small, tmp_path, frames()[kind](small.frame))
    same(small, tmp_path, frames()[kind](small.frame.rename(DEVICES)), columns=DEVICES, overwrite=True)


@pytest.mark.default_cases("csv")
@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl", "arrow"])
def test_columns_and_time(small, tmp_path, ending):
    """Runs of five rows share a time and stay together; the runs are shuffled."""
    order = list(range(small.frame.height))
    runs = [order[start : start + 5] for start in range(0, len(order), 5)]
    random.Random(7).shuffle(runs)
    shuffled = small.frame.with_row_index("at")[[row for run in runs for row in run]]
    times = pl.datetime(2026, 1, 1) + pl.duration(minutes=pl.col("at") // 5)
    frame = shuffled.with_columns(at=times).rename({"user": "device", "at": "received"})
    if ending in ("csv", "jsonl"):
        frame = frame.with_columns(pl.col("received").dt.to_string("%Y-%m-%dT%H:%M:%SZ"))
    path = write_file(tmp_path, frame.rename({"device": "user"}), f"r.{ending}")
    with pytest.raises(AssertionError):
        same(small, tmp_path, path)
    same(small, tmp_path, path, time="received", overwrite=True)
    same(small, tmp_path, frame, columns={"user": "device"}, time="received", overwrite=True)


def test_users_as_binary_uuids(small, tmp_path):
    names = {user: uuid.UUID(int=number) for number, user in enumerate(small.frame["user"].unique().to_list())}
    text = small.frame.with_columns(pl.Series("user", [str(names[user]) for user in small.frame["user"]]))
    binary = small.frame.with_columns(pl.Series("user", [names[user].bytes for user in small.frame["user"]]))
    for name, frame in (("text", text), ("binary", binary)):
        frame.write_parquet(tmp_path / f"{name}.parquet")
        ps.attack(tmp_path / f"{name}.parquet", small.scenario, out=tmp_path / f"{name}-out.parquet")
    found = [pl.read_parquet(tmp_path / f"{name}-out.parquet") for name in ("text", "binary")]
    assert_frame_equal(*found, check_exact=True)


def test_sqlite_and_duckdb(small, tmp_path):
    write_sqlite(tmp_path / "r.db", small.frame)
    write_duckdb(tmp_path / "r.duckdb", small.frame)
    for address in (f"sqlite:///{tmp_path}/r.db", f"duckdb:///{tmp_path}/r.duckdb"):
        same(small, tmp_path, address, query=QUERY, overwrite=True)
        plain = "SELECT * FROM reports"
        same(small, tmp_path, address, query=plain, columns=DEVICES, time="id", overwrite=True)


def test_postgresql(small, tmp_path, server):
    same(small, tmp_path, server.address, query=QUERY)
    socket = f"postgresql:///postgres?host={server.sockets}&port={server.port}&user=ann&password={QUOTED_PASSWORD}"
    same(small, tmp_path, socket, query=QUERY, overwrite=True)
    plain = "SELECT * FROM reports ORDER BY hash"
    same(small, tmp_path, server.address, query=plain, columns=DEVICES, time="id", overwrite=True)


def test_a_query_changes_nothing(small, tmp_path, server):
    write_duckdb(tmp_path / "r.duckdb", small.frame)
    for address, query in (
        (server.address, "DELETE FROM reports RETURNING *"),
        (f"duckdb:///{tmp_path}/r.duckdb", "DELETE FROM reports"),
        (f"duckdb:///{tmp_path}/r.duckdb", f"SELECT * FROM read_csv('{tmp_path}/other.csv')"),
        (f"duckdb:///{tmp_path}/r.duckdb", f"COPY reports TO '{tmp_path}/copy.csv'"),
    ):
        with pytest.raises(InputError, match="cannot be read: "):
            ps.attack(address, small.scenario, query=query)
    assert not (tmp_path / "copy.csv").exists()
    same(small, tmp_path, server.address, query=QUERY)


@pytest.mark.default_cases("r.parquet", "r.csv.gz", "r.jsonl")
@pytest.mark.parametrize("name", ["r.parquet", "r.csv", "r.csv.gz", "r.tsv", "r.jsonl", "r.jsonl.zst", "r.arrow"])
def test_an_object_store(small, tmp_path, store, monkeypatch, name):
    for key, value in store.environment.items():
        monkeypatch.setenv(key, value)
    store.client.put_object(Bucket="reports", Key=name, Body=write_file(tmp_path, small.frame, name).read_bytes())
    same(small, tmp_path, f"s3://reports/{name}", allow_network=True)


@pytest.mark.default_cases("r.parquet", "r.jsonl.gz")
@pytest.mark.parametrize("name", ["r.parquet", "r.csv", "r.jsonl.gz", "r.arrow"])
def test_a_web_server(small, tmp_path, name):
    """Also where the address is signed: its query is sent, and is not shown."""
    files = {f"/{name}": write_file(tmp_path, small.frame, name).read_bytes()}
    with web_server(files) as (address, requests):
        with pytest.raises(InputError, match="the network is not used unless you allow it"):
            ps.attack(f"{address}/{name}", small.scenario)
        assert requests == []
        same(small, tmp_path, f"{address}/{name}?signature=s3cr3t", allow_network=True)
        assert all(path.endswith("?signature=s3cr3t") for path in requests)
        with pytest.raises(InputError, match="cannot be read") as caught:
            ps.attack(f"{address}/none-{name}?signature=s3cr3t", small.scenario, allow_network=True)
    assert "s3cr3t" not in str(caught.value)


def test_partitions_in_an_object_store(small, tmp_path, store, monkeypatch):
    for key, value in store.environment.items():
        monkeypatch.setenv(key, value)
    for day in range(12):
        rows = small.frame[day * small.frame.height // 12 : (day + 1) * small.frame.height // 12]
        store.client.put_object(Bucket="reports", Key=f"t/day={day}/part.parquet", Body=written(rows, "parquet"))
    same(small, tmp_path, "s3://reports/t/**/*.parquet", allow_network=True, time="day")


@pytest.mark.parametrize(
    "address", ["s3://b/r.parquet", "gs://b/r.csv", "az://b/r.jsonl", "https://h/r.csv?sig=SECRET", "http://h/r.csv"]
)
def test_the_network_is_refused(small, address):
    with pytest.raises(InputError, match="the network is not used unless you allow it; add `allow_network`") as caught:
        ps.attack(address, small.scenario)
    assert "SECRET" not in str(caught.value)


def test_a_database_on_another_machine_is_refused(small):
    for host in ("db.example", "10.0.0.1", "localhost,db.example"):
        with pytest.raises(InputError, match="the network is not used unless you allow it"):
            ps.attack(f"postgresql://ann:{QUOTED_PASSWORD}@{host}/db", small.scenario, query="SELECT 1")


def test_no_credential_is_shown_or_written(small, tmp_path, server):
    """In messages, in the HTML report, and in the files."""
    options = ["--scenario", small.scenario.file, "--out", "o.parquet", "--html", "o.html", "--query"]
    done = poolscope("attack", server.address, *options, QUERY, "--strict", cwd=tmp_path)
    assert done.returncode in (0, 1), done.stderr
    page = (tmp_path / "o.html").read_text()
    assert f"postgresql://127.0.0.1:{server.port}/postgres" in page
    shown = [page, done.stdout, done.stderr, (tmp_path / "o.parquet").read_bytes().decode("latin-1")]
    wrong = server.address.replace(QUOTED_PASSWORD, "wr0ng-s3cr3t")
    for address, query, rule in (
        (wrong, QUERY, "password authentication failed"),
        (server.address, "SELECT nothing FROM reports", "does not exist"),
        (server.address, "SELECT 1 AS a", "must have a column 'user'"),
        (server.address.replace(str(server.port), "1"), QUERY, "Connection refused"),
        (server.address.replace("%40", "%ZZ"), QUERY, "invalid percent-encoded token"),
    ):
        done = poolscope("attack", address, *options, query, "--overwrite", cwd=tmp_path)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert rule in done.stderr
        shown.append(done.stderr)
    for text in shown:
        for secret in (PASSWORD, QUOTED_PASSWORD, "s3cr3t", "wr0ng", quote(PASSWORD)):
            assert secret not in text


def test_nothing_is_left_where_a_database_fails_in_the_middle(small, tmp_path, server):
    """After some batches were read: the row of a division by zero comes late."""
    query = "SELECT 'u' || i AS \"user\", 1 / (280000 - i) AS hash, '\\x00000000'::bytea AS bits"
    query += " FROM generate_series(1, 300000) i"
    with pytest.raises(InputError, match="division by zero"):
        ps.attack(server.address, small.scenario, query=query, out=tmp_path / "o.parquet")
    assert list(tmp_path.iterdir()) == []


@posix_only
@pytest.mark.slow
def test_a_kill_in_the_middle_of_a_database_read_loses_nothing(small, tmp_path, server):
    """No output is there, the next run removes what was left, and its posteriors are the same."""
    slow = QUERY.replace("hash,", "hash + coalesce(length(pg_sleep(0.05)::text), 0) AS hash,")
    options = ("--scenario", str(small.scenario.file), "--out", "o.parquet", "--query")
    command = [sys.executable, "-m", "poolscope", "attack", server.address, *options, slow]
    killed = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob(".poolscope.*/rows")) and time.monotonic() < deadline:
        time.sleep(0.05)
    killed.kill()
    killed.communicate()
    assert killed.returncode == -9
    assert not (tmp_path / "o.parquet").exists()
    assert list(tmp_path.glob(".poolscope.*"))
    done = poolscope("attack", server.address, *options, QUERY, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["o.parquet"]
    assert_frame_equal(pl.read_parquet(tmp_path / "o.parquet"), small.expected, check_exact=True)


@linux_only
@pytest.mark.slow
def test_memory_of_a_server_is_bounded_at_ten_times_the_data(server):
    query = "SELECT repeat('u', 180) || i AS \"user\", i AS value FROM generate_series(1, {}) i"
    queries = [query.format(rows) for rows in (200_000, 2_000_000)]
    rows, growth = memory_growth(server.address, server.address, *queries, "")
    assert rows == 2_000_000
    assert growth < 150 << 20


def test_estimate_obfuscate_and_traces(small, tmp_path):
    """The same result from a frame as from a file, for every workflow."""
    one, other = (
        ps.estimate(small.path, small.scenario),
        ps.estimate(small.frame.rename(DEVICES), small.scenario, columns=DEVICES),
    )
    assert_frame_equal(one.table, other.table, check_exact=True)
    traces = pl.DataFrame(
        {"who": [f"u{i % 7}" for i in range(60)], "what": [i % 30 for i in range(60)], "at": range(60)}
    )
    named = traces.select(user="who", object="what")
    named.write_parquet(tmp_path / "t.parquet")
    ps.obfuscate(tmp_path / "t.parquet", small.scenario, tmp_path / "a.parquet", seed=3)
    columns = {"user": "who", "object": "what"}
    ps.obfuscate(traces.reverse(), small.scenario, tmp_path / "b.parquet", seed=3, columns=columns, time="at")
    assert_frame_equal(*(pl.read_parquet(tmp_path / f"{name}.parquet") for name in "ab"), check_exact=True)


def test_traces_from_every_place(tmp_path):
    rows = pl.DataFrame({"who": ["ann", "bob", "ann"], "what": ["👍🏽 x", "👋🏿👋🏿", "👋🏿"], "at": [2, 1, 0]})
    rows.write_csv(tmp_path / "p.csv")
    rows.write_csv(tmp_path / "p.tsv", separator="\t")
    rows.write_ipc(tmp_path / "p.arrow")
    (tmp_path / "p.csv.zst").write_bytes(compressed((tmp_path / "p.csv").read_bytes(), "zst"))
    columns = {"universe": "emoji-11", "user": "who", "text": "what", "overwrite": True}
    out = tmp_path / "out.csv"
    expected = "user,object\nann,👍🏽\nbob,👋🏿\nbob,👋🏿\nann,👋🏿\n"
    for name in ("p.csv", "p.tsv", "p.arrow", "p.csv.zst", "*.tsv"):
        ps.make_traces([str(tmp_path / name)], out, **columns)
        assert out.read_text() == expected, name
    ps.make_traces([tmp_path / "p.csv"], out, **columns, time="at")
    assert out.read_text() == "user,object\nann,👋🏿\nbob,👋🏿\nbob,👋🏿\nann,👍🏽\n"
    with pytest.raises(InputError, match="query: goes with the address of a database"):
        ps.make_traces([tmp_path / "p.csv"], out, **columns, query="SELECT 1")


def test_the_guide_runs_as_it_is_written(small, tmp_path, monkeypatch):
    """Its commands on files and databases, and its Python."""
    page = (Path(__file__).parents[2] / "docs/guides/sources.md").read_text()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(Path(small.scenario.file).read_text(encoding="utf-8"))
    (tmp_path / "logs").mkdir()
    small.frame.write_parquet("reports.parquet")
    for name in ("monday.csv.gz", "tuesday.csv.gz", "logs/a.jsonl.zst"):
        write_file(tmp_path, small.frame, name)
    named = small.frame.rename({"user": "device_id", "bits": "payload"}).with_row_index("received_at")
    write_sqlite(tmp_path / "reports.db", small.frame)
    write_duckdb(tmp_path / "reports.duckdb", small.frame)
    shell = re.findall(r"(?m)^(?:zcat .* \| )?poolscope (.*)$", page)
    assert len(shell) > 6
    ran = 0
    for line in shell:
        arguments = shlex.split(line)
        if "reports.d" in line:
            arguments += ["--column", "user=device", "--column", "bits=payload"]
            arguments = ["id" if argument == "received_at" else argument for argument in arguments]
        elif "--column" in arguments:
            for path in (tmp_path / "logs").iterdir():
                path.unlink()
            named.write_parquet("logs/a.parquet")
        elif "postgresql" in line or "--allow-network" in line or "-" in arguments:
            continue
        done = poolscope(*arguments, *(["--overwrite"] if "--out" in arguments else []), cwd=tmp_path)
        assert done.returncode == 0, (line, done.stderr)
        ran += 1
    assert ran == 8
    for code in re.findall(r"(?ms)^```python\n(.*?)^```", page):
        exec(code, {})
