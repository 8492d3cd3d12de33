"""Files of kilobytes that decode to gigabytes: read in slices, or refused in one line before memory is eaten."""

import subprocess
import sys

import polars as pl
import pytest
from cases.bombs import write_bomb
from cases.command_line import SMALL, poolscope
from cases.platforms import linux_only
from cases.report_files import command
from cases.selection import mostly, slow

from poolscope.core import machine
from poolscope.core.errors import InputError
from poolscope.core.tables import open_table, read_table
from poolscope.core.tables.columns import MAX_NAME_BYTES, Batch
from poolscope.core.tables.parquet_check import RowRunSizes, check_file
from poolscope.game.outcome_files import OutcomeFiles
from poolscope.reports.files import read_reports
from poolscope.scenario.build import build_mechanism
from poolscope.scenario.scenario import parse
from poolscope.workflows.audit.run_folder import COLUMNS

#: Bytes that a command may have in all, and rows that need more than that at once.
MEMORY, ROWS = 2 << 30, 1 << 27

GRR = SMALL.replace('kind = "cms"\nepsilon = 4\nm = 32\nhashes = 64', 'kind = "grr"\nepsilon = 2')
EMOJIS = ("--universe", "emoji-11", "--user", "user", "--text", "text")
RECORDED = GRR.replace("count = 200", 'traces = "bomb.parquet"')
RECORDED = RECORDED.replace('[popularity]\nkind = "zipf"\nexponent = 1.2', "")

READ_ROWS = f"""
import resource, sys
from pathlib import Path
from poolscope.workflows.traces.sources import SourceColumns, read_rows
resource.setrlimit(resource.RLIMIT_AS, ({MEMORY},) * 2)
print(sum(len(row.cell) == 10_000_000 for row in read_rows(Path(sys.argv[1]), SourceColumns("user", "text"))))
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mine.toml").write_text(GRR)
    return tmp_path


def test_it_is_a_table_as_any_other(tmp_path):
    """What is refused below is refused for its size alone."""
    path = write_bomb(tmp_path / "small.parquet", 5, {"user": "ann", "object": 3}, page=2)
    assert pl.read_parquet(path).rows() == [("ann", 3)] * 5
    path = write_bomb(tmp_path / "lists.parquet", 1, {"user": 1, "object": "a"}, each=3)
    assert pl.read_parquet(path).rows() == [(1, ["a"] * 3)]


@linux_only
@pytest.mark.slow
@pytest.mark.parametrize("name", mostly(slow, ["estimate", "attack"], "attack"))
def test_reports_are_read_in_slices(folder, name):
    path = write_bomb(folder / "bomb.parquet", ROWS, {"user": 7, "value": 3})
    assert path.stat().st_size < 2000
    done = poolscope(name, path.name, "--scenario", "mine.toml", cwd=folder, memory=MEMORY)
    # that a million reports are all the same is noticed, and no error
    assert done.returncode == 0
    assert "reports repeat" in done.stderr
    assert done.stderr.count("\n") == 1
    assert f"{ROWS:,}" in done.stdout


def test_reports_that_the_disk_cannot_hold_are_not_begun(folder):
    write_bomb(folder / "bomb.parquet", 1 << 38, {"user": 7, "object": 3}, page=1 << 27, groups=1 << 8)
    done = poolscope("obfuscate", "bomb.parquet", "--scenario", "mine.toml", "--out", "out.parquet", cwd=folder)
    assert done.returncode == 2
    said = "poolscope: bomb.parquet: reports of 274,877,906,944 rows would take about 6.6 TB on disk, "
    assert done.stderr.startswith(said)
    assert done.stderr.endswith(" are free; use fewer rows, or another disk\n")


@pytest.mark.parametrize("limited", [False, pytest.param(True, marks=[slow, linux_only])])
def test_traces_that_do_not_fit_are_refused(folder, limited, monkeypatch, capsys):
    """Where the machine says that memory is short, and in a process that may have no more."""
    write_bomb(folder / "bomb.parquet", ROWS, {"user": 7, "object": 3})
    (folder / "recorded.toml").write_text(RECORDED)
    arguments = ("audit", "recorded.toml", "--out", "run")
    if limited:
        done = poolscope(*arguments, cwd=folder, memory=MEMORY)
        code, said = done.returncode, done.stderr
    else:
        monkeypatch.chdir(folder)
        monkeypatch.setattr(machine, "available_memory", lambda: MEMORY)
        code, said = command(*arguments), capsys.readouterr().err
    assert code == 2
    assert said.startswith("poolscope: bomb.parquet: 134,217,728 rows would take about 13 GB of memory, ")
    assert said.endswith("B are free; take fewer rows\n")


@linux_only
def test_lists_without_end_are_refused(folder):
    write_bomb(folder / "bomb.parquet", 1, {"user": 7, "text": "x"}, each=1 << 27)
    arguments = ("bomb.parquet", *EMOJIS, "--out", "traces.csv")
    done = poolscope("traces", *arguments, cwd=folder, memory=MEMORY)
    assert done.returncode == 2
    assert "bomb.parquet: decoding a few of its rows would take about 6.4 GB of memory, " in done.stderr
    assert done.stderr.endswith("; write it with smaller pages, and shorter lists and strings\n")
    assert done.stderr.count("\n") == 1


@linux_only
def test_a_text_that_stands_in_every_row_is_not_held_for_each(folder):
    """300 posts of 10 MB, which are there once: no two hundred of them fit."""
    path = write_bomb(folder / "bomb.parquet", 300, {"user": 7, "text": "x" * 10_000_000})
    done = subprocess.run([sys.executable, "-c", READ_ROWS, path], capture_output=True, text=True)
    assert (done.stderr, done.stdout) == ("", "300\n")


def test_all_rows_of_a_table_have_to_fit(folder, monkeypatch):
    path = write_bomb(folder / "bomb.parquet", ROWS, {"user": 7, "object": 3, "value": 3})
    scenario = parse(GRR, name="small")
    mechanism = build_mechanism(scenario, scenario.universe())
    monkeypatch.setattr(machine, "available_memory", lambda: MEMORY)
    for read in (
        lambda: read_table(path, ("user", "object")),
        lambda: read_reports(path, mechanism, scenario.universe()),
    ):
        with pytest.raises(InputError, match=r"bomb.parquet: 134,217,728 rows would take .* take fewer rows"):
            read()


def test_pages_are_measured_unpacked(folder, monkeypatch):
    path = write_bomb(folder / "bomb.parquet", 10, {"user": "x" * 10_000_000, "object": 1})
    monkeypatch.setattr(machine, "available_memory", lambda: 20_000_000)
    with pytest.raises(InputError, match=r"bomb.parquet: decoding a few of its rows would take about 30 MB of memory"):
        next(open_table(path).batches(["user"]))
    # of a column that nobody asks for nothing is decoded
    assert next(open_table(path).batches(["object"])).frame.height == 10


def test_outcomes_of_a_stranger_have_to_fit(folder, monkeypatch):
    (folder / "outcomes").mkdir()
    write_bomb(folder / "outcomes" / "part-000000.parquet", ROWS, dict.fromkeys(COLUMNS, 1))
    monkeypatch.setattr(machine, "available_memory", lambda: MEMORY)
    with pytest.raises(InputError, match=r"part-000000.parquet: 134,217,728 rows would take about .* take fewer rows"):
        OutcomeFiles.within(folder / "outcomes").check(COLUMNS)


def test_names_have_an_end(folder):
    path = write_bomb(folder / "bomb.parquet", 3, {"user": "x" * (MAX_NAME_BYTES + 1), "object": 1})
    (batch,) = open_table(path).batches(["user", "object"])
    with pytest.raises(InputError, match=r"bomb.parquet: row 1: user must have at most 4,096 bytes, got 4097"):
        batch.names("user")


def test_light_batches_have_all_rows_once(tmp_path):
    frame = pl.DataFrame({"a": ["xx", None, "x" * 9, "", "x"], "b": [["yy", "y"], None, [], ["y" * 20], ["y"]]})
    whole = Batch(file=tmp_path, first=11, frame=frame, text=False)
    some = list(whole.split_by_bytes(10))
    assert pl.concat([batch.frame for batch in some]).equals(frame)
    assert len(some) > 2
    assert [batch.first for batch in some] == [11 + sum(b.frame.height for b in some[:i]) for i in range(len(some))]
    assert [batch.frame.height for batch in whole.split_by_bytes(1000)] == [5]


def test_rows_have_the_bytes_of_their_pages():
    """Of every page that has one of them, also where they begin within it."""
    pages = RowRunSizes()
    for size in (100, 1000):
        pages.add(10, size)
    asked = {(0, 1): 100, (5, 6): 100, (9, 10): 100, (9, 11): 1100, (10, 11): 1000, (15, 20): 1000, (0, 20): 1100}
    assert {rows: pages.decoded_bytes(*rows) for rows in asked} == asked


def test_values_of_fixed_length_are_copied_for_each_row(tmp_path):
    path = write_bomb(tmp_path / "bomb.parquet", 8, {"user": b"x" * 1000, "object": 1})
    metadata = check_file(path)
    assert metadata.decoded_bytes(["user"], 2, 6) >= 4 * 1000
    assert metadata.decoded_bytes(["object"], 2, 6) < 1000
