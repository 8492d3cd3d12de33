"""What is read: regular files, and all data of a folder."""

import os
import signal
import socket
from pathlib import Path

import polars as pl
import pytest
from cases.platforms import posix_only
from cases.report_files import BASE, MECHANISMS, WEAK

from poolscope.core.errors import InputError
from poolscope.core.files import check_regular, read_json
from poolscope.core.tables import open_table
from poolscope.reports.files import read_reports
from poolscope.scenario.build import build_mechanism
from poolscope.scenario.scenario import load_scenario, parse
from poolscope.workflows.attack.summary import read_truth
from poolscope.workflows.traces.sources import SourceColumns, read_rows

CMS = f"{BASE}[mechanism]\n{MECHANISMS['cms']}{WEAK}"


@pytest.fixture
def in_time():
    """An error where something waits: nobody writes to these pipes."""

    def late(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, 5)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def _scenario(text):
    Path("mine.toml").write_text(text, encoding="utf-8")
    return load_scenario("mine.toml")


def _objects():
    return _scenario(CMS.replace("size = 30\npools = { a = 5, b = 6, c = 7 }", "objects = 'pipe.csv'")).universe()


def _hash_table():
    scenario = _scenario(CMS.replace("hashes = 64", "hash_table = 'pipe.npy'"))
    return build_mechanism(scenario, scenario.universe())


def _reports():
    scenario = parse(CMS, name="small")
    return read_reports("pipe.csv", build_mechanism(scenario, scenario.universe()), scenario.universe())


READERS = {
    "reports": ("pipe.csv", _reports),
    "parquet": ("pipe.parquet", lambda: open_table("pipe.parquet")),
    "truth": ("pipe.csv", lambda: read_truth("pipe.csv")),
    "scenario": ("pipe.toml", lambda: load_scenario("pipe.toml")),
    "objects": ("pipe.csv", _objects),
    "hash table": ("pipe.npy", _hash_table),
    "recorded data": ("pipe.csv.gz", lambda: next(read_rows(Path("pipe.csv.gz"), SourceColumns("a", "b")))),
    "a record": ("pipe.json", lambda: read_json(Path("pipe.json"))),
}


@posix_only
@pytest.mark.parametrize("name", READERS)
def test_a_pipe_is_refused_and_not_waited_for(tmp_path, monkeypatch, in_time, name):
    monkeypatch.chdir(tmp_path)
    file, read = READERS[name]
    os.mkfifo(file)
    with pytest.raises(
        InputError, match=rf"^{file}: must be a regular file, is a named pipe; write it to a file first$"
    ):
        read()


@posix_only
def test_sockets_and_devices_are_refused_and_links_followed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket.csv")
        with pytest.raises(InputError, match="must be a regular file, is a socket"):
            check_regular(Path("socket.csv"))
    Path("zero.csv").symlink_to("/dev/zero")
    with pytest.raises(InputError, match=r"zero\.csv: must be a regular file, is a device"):
        open_table("zero.csv")
    Path("real.csv").write_text("user\na\n", encoding="utf-8")
    Path("link.csv").symlink_to("real.csv")
    assert open_table("link.csv").files == (Path("link.csv"),)


def _folder(tmp_path, *others):
    folder = tmp_path / "reports"
    folder.mkdir()
    for name in ("2", "1"):
        pl.DataFrame({"user": [name]}).write_parquet(folder / f"{name}.parquet")
    for name in others:
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("user\n3\n")
    return folder


@pytest.mark.parametrize("other", ["3.csv", "date=2024-01-01/3.parquet", "old/notes.txt", "3.parquet.gz", "3.JSONL"])
def test_data_that_would_be_left_out_is_refused(tmp_path, other):
    folder, name = _folder(tmp_path, other), other.partition("/")[0]
    with pytest.raises(
        InputError, match=rf"reports: a folder must hold Parquet files alone, got '{name}'; move it out"
    ):
        open_table(folder)


def test_a_folder_without_parquet_says_what_it_has(tmp_path):
    (tmp_path / "date=2024-01-01").mkdir()
    with pytest.raises(InputError, match=r"a folder must have Parquet files, got \['date=2024-01-01'\]"):
        open_table(tmp_path)


@pytest.mark.filterwarnings("error")
def test_marks_of_other_systems_and_hidden_files_are_ignored(tmp_path):
    folder = _folder(tmp_path, "_SUCCESS", "_metadata", ".1.parquet.crc", ".hidden.csv")
    assert [file.name for file in open_table(folder).files] == ["1.parquet", "2.parquet"]
    (folder / "1.parquet").rename(folder / "1.PARQUET")
    assert [file.name for file in open_table(folder).files] == ["1.PARQUET", "2.parquet"]


def test_what_else_is_left_out_is_named(tmp_path):
    folder = _folder(tmp_path, "notes.txt", "schema.sql", "_old", "z.md")
    with pytest.warns(
        UserWarning, match=r"reports: ignored '_old', 'notes.txt', 'schema.sql' and 1 more, which are not"
    ):
        assert len(open_table(folder).files) == 2
