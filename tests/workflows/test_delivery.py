"""Outputs in databases and object stores: the rows of the local file, as a whole or not at all, and no credential."""

import io
import os
import signal
import sqlite3
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import duckdb
import polars as pl
import pytest
from cases.command_line import poolscope
from cases.data_sources import PASSWORD, QUOTED_PASSWORD, object_store, postgresql_programs, postgresql_server
from cases.platforms import posix_only
from cases.report_files import WEAK, small_attack
from polars.testing import assert_frame_equal

import poolscope as ps
from poolscope.core.errors import InputError
from poolscope.core.tables import Destination, SourceOptions, delivered, delivery, destination_of
from poolscope.scenario.scenario import load_scenario

PLACES = ("sqlite", "duckdb", "postgresql", "s3")
DATABASES = PLACES[:3]
OLD = pl.DataFrame({"old": [1, 2]})
ROWS = pl.DataFrame(
    {
        "user": [f"u{i}" for i in range(3000)],
        "n": pl.Series(range(3000), dtype=pl.UInt32),
        "guess": pl.Series([None, "a", "b"] * 1000, dtype=pl.Enum(["a", "b"])),
        "posterior.a": [i / 7 for i in range(3000)],
        "bits": [bytes([i % 256, 0]) for i in range(3000)],
    }
)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    scenario, path = small_attack(folder, adversaries=WEAK)
    return SimpleNamespace(scenario=scenario, path=path)


@pytest.fixture(scope="module")
def server():
    if postgresql_programs() is None:
        pytest.skip("PostgreSQL is not installed")
    # not a folder of pytest, which the server's own user may not enter
    with tempfile.TemporaryDirectory(prefix="pg") as folder, postgresql_server(Path(folder)) as (port, _):
        yield f"postgresql://ann:{QUOTED_PASSWORD}@127.0.0.1:{port}/postgres"


@pytest.fixture(scope="module")
def store():
    with object_store() as found:
        yield found


@pytest.fixture
def place(request, tmp_path, monkeypatch):
    """An empty place of a kind: its options, and a reader of its rows that shares no code with poolscope."""
    kind = request.param
    table = {"out_table": "made_here"}
    if kind == "s3":
        client, environment = request.getfixturevalue("store")
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        client.delete_object(Bucket="reports", Key="out/t.parquet")

        def read():
            if not client.list_objects_v2(Bucket="reports", Prefix="out/").get("Contents"):
                return None
            body = client.get_object(Bucket="reports", Key="out/t.parquet")["Body"].read()
            return pl.read_parquet(io.BytesIO(body))

        return SimpleNamespace(out="s3://reports/out/t.parquet", options={"allow_network": True}, read=read)
    if kind == "postgresql":
        import adbc_driver_postgresql.dbapi

        address = request.getfixturevalue("server")

        def query(sql):
            with adbc_driver_postgresql.dbapi.connect(address) as connection, connection.cursor() as cursor:
                cursor.execute(sql)
                found = cursor.fetchallarrow()
                connection.commit()
            return found

        query("DROP TABLE IF EXISTS made_here")

        def read():
            there = query("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").num_rows
            return pl.DataFrame(query("SELECT * FROM made_here")) if there else None

        return SimpleNamespace(out=address, options=table, read=read)
    file = tmp_path / f"there.{kind}"

    def read_file():
        if not file.exists():
            return None
        if kind == "duckdb":
            with duckdb.connect(str(file)) as connection:
                there = connection.execute("SHOW TABLES").fetchall()
                rows = connection.sql("FROM made_here") if there else None
                return None if rows is None else frame_of(rows.fetchall(), rows.columns)
        with sqlite3.connect(file) as connection:
            if not connection.execute("SELECT name FROM sqlite_master").fetchall():
                return None
            cursor = connection.execute("SELECT * FROM made_here")
            names = [column[0] for column in cursor.description]
            return frame_of(cursor.fetchall(), names)

    return SimpleNamespace(out=f"{kind}:///{file}", options=table, read=read_file)


def frame_of(rows, names):
    return pl.DataFrame(rows, schema=names, orient="row", infer_schema_length=None)


def deliver(place, frame, overwrite=False):
    """Deliver a table, and return whatever the place has then."""
    options = dict(place.options)
    network = SourceOptions.of(allow_network=options.pop("allow_network", False))
    found = destination_of(
        place.out, options.get("out_table"), network, data="none.csv", overwrite=overwrite, inputs=[]
    )
    with delivered(found) as path:
        frame.write_parquet(path, row_group_size=1000, statistics=False, compression="uncompressed")
        if callable(place.__dict__.get("damage")):
            place.damage(path)
    return place.read()


def same(found, expected):
    """Check that the rows are the same to the bit, in any order and in types that the place has."""
    assert found.columns == expected.columns
    texts = expected.with_columns(pl.col(pl.Enum, pl.Categorical).cast(pl.String))
    keys = list(expected.columns[:3])
    assert_frame_equal(found.cast(texts.schema).sort(keys), texts.sort(keys), check_exact=True)


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_the_rows_of_the_local_file(place):
    assert place.read() is None
    same(deliver(place, ROWS), ROWS)
    with pytest.raises(InputError, match=r"is there already.*`overwrite`"):
        deliver(place, OLD)
    same(place.read(), ROWS)
    same(deliver(place, OLD, overwrite=True), OLD)
    # a table without rows
    empty = deliver(place, ROWS[:0], overwrite=True)
    assert (empty.height, empty.columns) == (0, ROWS.columns)


@pytest.mark.default_cases("old-postgresql", "old-s3", "new-sqlite", "new-duckdb")
@pytest.mark.parametrize("place", PLACES, indirect=True)
@pytest.mark.parametrize("old", [True, False], ids=["old", "new"])
def test_an_error_in_the_middle_changes_nothing(place, tmp_path, old):
    """A damaged row group is found after others have been read."""
    if old:
        deliver(place, OLD)

    def damage(path):
        data = bytearray(path.read_bytes())
        start = data.index(b"u2500")
        data[start - 4 : start + 2000] = b"\xff" * 2004
        path.write_bytes(data)

    place.damage = damage
    with pytest.raises(InputError) as caught:
        deliver(place, ROWS, overwrite=old)
    message = str(caught.value)
    assert "\n" not in message
    assert PASSWORD not in message
    assert QUOTED_PASSWORD not in message
    assert tempfile.gettempdir() + "/.poolscope" not in message
    found = place.read()
    assert found.rows() == OLD.rows() if old else found is None
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("place", ["postgresql"], indirect=True)
def test_a_row_that_the_database_refuses_changes_nothing(place):
    deliver(place, OLD)
    with pytest.raises(InputError, match=r"table made_here: cannot be written: .*invalid byte sequence"):
        deliver(place, ROWS.with_columns(pl.col("user").replace("u2999", "u\0")), overwrite=True)
    same(place.read(), OLD)
    with pytest.raises(InputError, match="a column's name must have at most 63 bytes"):
        deliver(place, ROWS.rename({"n": "posterior." + "x" * 60}), overwrite=True)
    same(place.read(), OLD)


@posix_only
@pytest.mark.parametrize("place", ["s3"], indirect=True)
def test_an_interrupt_waits_for_the_whole_object(place, monkeypatch):
    """Polars would complete an interrupted object with the rows so far."""
    scan = delivery.scan_files

    def interrupted(files):
        os.kill(os.getpid(), signal.SIGINT)
        # the main thread has the interrupt before the first row is sent
        time.sleep(0.2)
        return scan(files)

    monkeypatch.setattr(delivery, "scan_files", interrupted)
    # a shell that starts the tests in the background lets them ignore interrupts
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            deliver(place, ROWS)
    finally:
        signal.signal(signal.SIGINT, before)
    same(place.read(), ROWS)


@pytest.mark.parametrize("place", ["s3"], indirect=True)
def test_other_content_of_an_object_store(place, store):
    store[0].put_object(Bucket="reports", Key="out/t.parquet", Body=b"another kind of file")
    with pytest.raises(InputError, match="the output is there already"):
        deliver(place, ROWS)
    same(deliver(place, ROWS, overwrite=True), ROWS)
    with pytest.raises(InputError, match=r"s3://nowhere/t.parquet: there is no such bucket"):
        ps.estimate("none.parquet", load_scenario("apple-emojis"), "s3://nowhere/t.parquet", allow_network=True)


def test_a_store_that_forbids_reading(monkeypatch):
    """An existing object may be hidden: it is replaced only where that was asked for."""

    def forbidden(*_, **__):
        raise PermissionError("403 Forbidden")

    monkeypatch.setattr(pl, "scan_parquet", forbidden)
    options = SourceOptions.of(allow_network=True)
    for overwrite in (False, True):
        given = {"data": "none.csv", "overwrite": overwrite, "inputs": []}
        if overwrite:
            assert destination_of("s3://b/t.parquet", None, options, **given).path is None
        else:
            with pytest.raises(InputError, match="must be readable, to see whether it is there; allow reading, or add"):
                destination_of("s3://b/t.parquet", None, options, **given)


@pytest.mark.default_cases("sqlite")
@pytest.mark.parametrize("place", DATABASES, indirect=True)
def test_other_tables_of_a_database_stay(place):
    deliver(place, OLD)
    place.options = {"out_table": "made_there"}
    deliver(place, ROWS, overwrite=True)
    same(place.read(), OLD)


@pytest.fixture(scope="module")
def workflows(small, tmp_path_factory):
    """Every workflow that writes a table, and the table that it writes to a local file."""
    folder = tmp_path_factory.mktemp("local")
    traces = pl.DataFrame({"user": [f"u{i % 7}" for i in range(60)], "object": [i % 30 for i in range(60)]})
    posts = pl.DataFrame({"who": ["ann", "bob", "ann"], "what": ["👍🏽 x", "👋🏿👋🏿", "👋🏿"]})
    posts.write_csv(folder / "p.csv")
    runs = {
        "attack": lambda **given: ps.attack(small.path, small.scenario, **given),
        "estimate": lambda **given: ps.estimate(small.path, small.scenario, **given),
        "obfuscate": lambda **given: ps.obfuscate(traces, small.scenario, seed=3, **given),
        "traces": lambda **given: ps.make_traces(
            [folder / "p.csv"], universe="emoji-11", user="who", text="what", **given
        ),
    }
    for name, run in runs.items():
        run(out=folder / f"{name}.parquet")
    return {name: (run, pl.read_parquet(folder / f"{name}.parquet")) for name, run in runs.items()}


@pytest.mark.default_cases("sqlite")
@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_every_workflow_writes_the_same_rows(workflows, tmp_path, place):
    for run, expected in workflows.values():
        run(out=place.out, overwrite=True, **place.options)
        same(place.read(), expected)
    assert not list(tmp_path.glob(".*"))


@pytest.mark.default_cases("she")
@pytest.mark.parametrize("kind", ["she", "oue", "grr"])
def test_reports_of_every_form_are_read_back(tmp_path, kind):
    """Vectors of numbers become lists or text, and give the same estimate."""
    text = '[universe]\nsize = 9\npools = {{ a = 3, b = 3 }}\n[mechanism]\nkind = "{}"\nepsilon = 2\n'
    (tmp_path / "s.toml").write_text(text.format(kind))
    scenario = load_scenario(tmp_path / "s.toml")
    traces = pl.DataFrame({"user": [f"u{i % 7}" for i in range(60)], "object": [i % 9 for i in range(60)]})
    ps.obfuscate(traces, scenario, tmp_path / "r.parquet")
    expected = ps.estimate(tmp_path / "r.parquet", scenario).table
    for base in ("sqlite", "duckdb"):
        address = f"{base}:///{tmp_path}/{base}.db"
        ps.obfuscate(traces, scenario, address, out_table="reports")
        found = ps.estimate(address, scenario, query="SELECT * FROM reports").table
        assert_frame_equal(found, expected, check_exact=True)


REFUSED = {
    "no permission for a store": ("s3://b/t.parquet", {}, "the network is not used unless you allow it"),
    "no permission for a server": ("postgresql://u:s3cr3t@db.example/d", {"out_table": "t"}, "the network is not used"),
    "no table": ("sqlite:///t.db", {}, "sqlite:///t.db: a database must have the name of a table; add `out_table`"),
    "no name": ("sqlite:///t.db", {"out_table": 'a"; DROP'}, "out_table: must be a name of at most 63 letters"),
    "a long name": ("duckdb:///t.db", {"out_table": "a" * 64}, "out_table: must be a name"),
    "a reserved name": ("sqlite:///t.db", {"out_table": "sqlite_x"}, "out_table: must be a name"),
    "a table of a file": ("t.parquet", {"out_table": "t"}, "out_table: goes with the address of a database"),
    "a table of a store": ("s3://b/t.parquet", {"out_table": "t"}, "out_table: goes with the address of a database"),
    "a table of nothing": (None, {"out_table": "t"}, "out_table: goes with the address of a database"),
    "no folder": ("sqlite:///none/t.db", {"out_table": "t"}, "the output's folder must exist"),
    "another format": ("s3://b/t.csv", {"allow_network": True}, "must end in .parquet"),
    "a pattern": ("s3://b/*.parquet", {"allow_network": True}, "must be SCHEME://BUCKET/KEY, without a pattern"),
    "a web server": ("https://u:s3cr3t@h/t.parquet", {"allow_network": True}, "an output must be a file, or an"),
    "a misspelled base": ("postgres://u:s3cr3t@h/d", {}, "did you mean 'postgresql'"),
    "a path that was an address": (Path("s3://b/t.parquet"), {}, "s3://b/t.parquet: `out` must be a file on this"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_before_anything_is_read(small, tmp_path, monkeypatch, case):
    monkeypatch.chdir(tmp_path)
    out, options, message = REFUSED[case]
    with pytest.raises(InputError, match=message) as caught:
        ps.attack("missing.parquet", small.scenario, out=out, **options)
    assert "s3cr3t" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_missing_driver_is_named_before_anything_is_read(small, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "adbc_driver_sqlite.dbapi", None)
    with pytest.raises(InputError, match=r"needs adbc_driver_sqlite.*pip install 'poolscope\[databases\]'"):
        ps.estimate("missing.parquet", small.scenario, f"sqlite:///{tmp_path}/t.db", out_table="t")


def test_what_is_read_is_never_replaced(small, tmp_path):
    address = f"sqlite:///{tmp_path}/t.db"
    ps.obfuscate(pl.DataFrame({"user": ["a", "b"], "object": [1, 2]}), small.scenario, address, out_table="reports")
    options = {"query": "SELECT * FROM reports", "overwrite": True}
    with pytest.raises(InputError, match="out_table: must not be a table that the query reads, got 'Reports'"):
        ps.estimate(address, small.scenario, address, out_table="Reports", **options)
    # another table of the same database
    ps.estimate(address, small.scenario, address, out_table="popularity", **options)
    for read in ("s3://b/t.parquet", ["s3://b/*.parquet"]):
        place = Destination(address="s3://b/t.parquet")
        with pytest.raises(InputError, match="the output must not be a file that is read"):
            delivery._check_not_read(place, "s3", read, None)


def test_commands(small, tmp_path, server):
    """The command line: credentials, the report of posteriors that are elsewhere, and what stays a local file."""
    common = ("attack", small.path, "--scenario", small.scenario.file)
    elsewhere = ("--out", server, "--out-table", "posteriors")
    done = poolscope(*common, *elsewhere, "--html", "r.html", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "r.html").read_text()
    shown = server.rpartition("@")[2]
    assert f"--out postgresql://{shown} --out-table posteriors" in page
    assert f"Posteriors: postgresql://{shown}, table posteriors" in done.stderr
    again = poolscope(*common, *elsewhere, cwd=tmp_path)
    assert again.returncode == 2
    assert "the table is there already" in again.stderr
    assert "--overwrite" in again.stderr
    resumed = poolscope(*common, *elsewhere, "--overwrite", "--resume", cwd=tmp_path)
    assert resumed.returncode == 2
    assert "resume needs a table in a file on this machine" in resumed.stderr
    local = [
        poolscope(*common, "--out", "o.parquet", option, value, *more, cwd=tmp_path)
        for option, value, *more in (
            ("--html", server),
            ("--link-scores", server),
            ("--linked-out", "s3://b/x.parquet", "--link-fdr", "0.1"),
        )
    ]
    for one in local:
        assert one.returncode == 2
        assert one.stderr.count("\n") == 1
        assert "must be a file on this machine, is an address" in one.stderr
    for one in (done, again, resumed, *local):
        for secret in (PASSWORD, QUOTED_PASSWORD, "s3cr3t"):
            assert secret not in one.stdout + one.stderr + page
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]


def test_traces_with_a_file_beside_stay_on_this_machine(tmp_path):
    (tmp_path / "p.csv").write_text("who,what\nann,https://example.org\n")
    with pytest.raises(InputError, match="traces of news-2021 must be a file on this machine"):
        ps.make_traces(
            [tmp_path / "p.csv"],
            f"sqlite:///{tmp_path}/t.db",
            universe="news-2021",
            user="who",
            domain="what",
            out_table="t",
        )
