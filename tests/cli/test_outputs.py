"""Outputs: nothing is replaced unless asked for, no input ever, and all is checked before the work begins."""

import errno
import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from cases.platforms import posix_only
from cases.report_files import ADVERSARIES, command, scenario_of, small_attack, write_traces

from poolscope.core.errors import InputError
from poolscope.core.files import claimed
from poolscope.core.tables import check_output, check_outputs
from poolscope.scenario.scenario import load_scenario
from poolscope.workflows.attack import attack as attacking
from poolscope.workflows.audit.audit import audit
from poolscope.workflows.compare import compare

OBJECTS = "size = 30\npools = { a = 5, b = 6, c = 7 }", "objects = 'objects.csv'"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Reports, a truth, pools and traces, and a scenario that names a file of objects and a hash table."""
    monkeypatch.chdir(tmp_path)
    small_attack(tmp_path)
    names = [str(number) for number in range(30)]
    pools = [pool for pool in "abc" for _ in range(10)]
    pl.DataFrame({"object": names, "pool": pools, "popularity": [1.0] * 30}).write_csv("objects.csv")
    pl.DataFrame({"object": names, "pool": pools}).write_csv("pools.csv")
    pl.DataFrame({"user": ["u1", "u2"], "pool": ["a", "b"]}).write_csv("truth.csv")
    np.save("table.npy", np.arange(64 * 30).reshape(64, 30) % 32)
    text = (
        Path("small.toml")
        .read_text(encoding="utf-8")
        .replace(*OBJECTS)
        .replace("hashes = 64", "hash_table = 'table.npy'")
    )
    Path("small.toml").write_text(text.replace('kind = "zipf"\nexponent = 1.2', "kind = 'uniform'"), encoding="utf-8")
    write_traces(Path("traces.csv"), np.zeros((2, 3), dtype=np.int64))
    load_scenario("small.toml").universe()
    return tmp_path


AT = ("--scenario", "small.toml")
READ = ("--pools", "pools.csv", "--ground-truth", "truth.csv")


def unchanged(before):
    return {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before


@posix_only
@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("attack", "reports.parquet", *AT, *READ, "--out", "truth.csv"), "out"),
        (("attack", "reports.parquet", *AT, *READ, "--out", "pools.csv"), "out"),
        (("attack", "reports.parquet", *AT, *READ, "--out", "objects.csv"), "out"),
        (("attack", "reports.parquet", *AT, "--out", "reports.parquet"), "out"),
        (("attack", "reports.parquet", *AT, "--user", "u1", "--out", "objects.csv"), "out"),
        (("attack", "reports.parquet", *AT, "--out", "link.csv"), "out"),
        (("attack", "reports.parquet", *AT, "--out", "hard.csv"), "out"),
        (("attack", "reports.parquet", *AT, "--link-scores", "objects.csv"), "link-scores"),
        (("attack", "reports.parquet", *AT, "--link-fdr", "0.1", "--linked-out", "objects.csv"), "linked-out"),
        (("estimate", "reports.parquet", *AT, "--out", "objects.csv"), "out"),
        (("obfuscate", "traces.csv", *AT, "--out", "traces.csv"), "out"),
        (("obfuscate", "traces.csv", *AT, "--out", "objects.csv"), "out"),
        (("traces", "traces.csv", "--universe", "objects.csv", "--user", "user", "--object", "object"), "out"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value,
)
def test_an_input_is_never_replaced(folder, capsys, arguments, option):
    """Nor where replacing is asked for."""
    Path("link.csv").symlink_to("truth.csv" if "--ground-truth" in arguments else "objects.csv")
    os.link("objects.csv", "hard.csv")
    arguments = (*arguments, *(("--out", "objects.csv") if arguments[0] == "traces" else ()))
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    for more in ((), ("--overwrite",)):
        assert command(*arguments, *more) == 2
        said = capsys.readouterr().err
        assert f": the output must not be a file that is read; choose another with --{option}\n" in said
        assert said.count("\n") == 1
        assert unchanged(before)


@pytest.mark.parametrize(
    ("arguments", "option", "file"),
    [
        (("attack", "reports.parquet", *AT, "--out", "old.csv"), "out", "old.csv"),
        (("attack", "reports.parquet", *AT, "--user", "u1", "--out", "old.csv"), "out", "old.csv"),
        (("attack", "reports.parquet", *AT, "--out", "new.csv", "--html", "old.html"), "html", "old.html"),
        (("estimate", "reports.parquet", *AT, "--out", "old.csv"), "out", "old.csv"),
        (("obfuscate", "traces.csv", *AT, "--out", "old.csv"), "out", "old.csv"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value,
)
def test_what_is_there_is_replaced_only_when_asked_for(folder, capsys, arguments, option, file):
    for name in ("old.csv", "old.html"):
        Path(name).write_text("mine", encoding="utf-8")
    before = sorted(os.listdir())
    assert command(*arguments) == 2
    remedy = f"choose another with --{option}, or replace it with --overwrite"
    assert capsys.readouterr().err == f"poolscope: {file}: the output is there already; {remedy}\n"
    assert sorted(os.listdir()) == before
    assert command(*arguments, "--overwrite") == 0
    assert Path(file).read_text(encoding="utf-8") != "mine"


def test_no_output_lies_in_the_folder_that_is_read(folder, capsys):
    """The next run would read it."""
    Path("sent").mkdir()
    Path("reports.parquet").rename("sent/1.parquet")
    for command_line in (("attack", "sent", *AT), ("estimate", "sent", *AT)):
        assert command(*command_line, "--out", "sent/../sent/posteriors.parquet", "--overwrite") == 2
        assert "the output must not lie in sent, which is read" in capsys.readouterr().err
        assert command(*command_line, "--out", f"{command_line[0]}.parquet") == 0
    assert os.listdir("sent") == ["1.parquet"]


def test_all_outputs_are_checked_before_the_work(folder, capsys, monkeypatch):
    monkeypatch.setattr(attacking, "prepare_attack", None)
    Path("old.html").write_text("mine", encoding="utf-8")
    at = "attack", "reports.parquet", *AT, "--out", "posteriors.csv"
    assert command(*at, "--html", "old.html") == 2
    assert command(*at, "--html", "posteriors.html", "--link-scores", "./posteriors.csv") == 2
    assert "--link-scores: must be another file than that of --out" in capsys.readouterr().err


@posix_only
def test_outputs_that_cannot_be_written(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(InputError, match="an output must be a regular file"):
        check_output(tmp_path / "pipe.csv", overwrite=True)
    (tmp_path / "link.csv").symlink_to("one.csv")
    with pytest.raises(InputError, match="`linked_out`: must be another file than that of `out`"):
        check_outputs({"out": tmp_path / "one.csv", "html": None, "linked_out": tmp_path / "link.csv"})
    if Path("/proc").is_dir():
        rule = r"/proc/x\.csv: must be where files can be written: /proc is not writable; choose another with `out`"
        with pytest.raises(InputError, match=rule):
            check_output(Path("/proc/x.csv"))
    assert sorted(os.listdir(tmp_path)) == ["link.csv", "pipe.csv"]


# Folders


@pytest.fixture
def read_only(tmp_path, monkeypatch):
    """An empty folder into which nothing can be put, for whoever runs the tests."""
    folder = tmp_path / "ro"
    folder.mkdir()
    make, opened = Path.mkdir, os.open

    def refused(path, *arguments, **more):
        if path.parent == folder:
            raise PermissionError(errno.EACCES, "Permission denied")
        return make(path, *arguments, **more)

    def no_lock(path, *arguments, **more):
        if Path(os.fsdecode(path)).parent == folder:
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(path, *arguments, **more)

    monkeypatch.setattr(Path, "mkdir", refused)
    monkeypatch.setattr(os, "open", no_lock)
    return folder


@posix_only
def test_a_folder_that_was_there_is_left_there(tmp_path, read_only):
    with pytest.raises(PermissionError), claimed(read_only):
        pass
    assert read_only.is_dir()
    with claimed(tmp_path / "a" / "b"):
        assert (tmp_path / "a" / "b").is_dir()
    assert os.listdir(tmp_path) == ["ro"]
    (tmp_path / "a").mkdir()
    with claimed(tmp_path / "a" / "b" / "c"):
        pass
    assert os.listdir(tmp_path / "a") == []
    with claimed(tmp_path / "a"):
        pass
    assert (tmp_path / "a").is_dir()


def test_an_audit_into_a_folder_that_cannot_be_written(tmp_path, read_only):
    scenario = scenario_of(tmp_path)
    with pytest.raises(InputError, match=r"ro: must be where files can be written: .* is not writable; choose another"):
        audit(scenario, read_only, users=5)
    assert read_only.is_dir()


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs a file system that nobody can write")
def test_nothing_is_free_where_nothing_can_be_written(tmp_path):
    scenario = scenario_of(tmp_path)
    for run in (lambda out: audit(scenario, out, users=5), lambda out: compare(scenario, ["grr"], [1.0], out=out)):
        with pytest.raises(InputError, match=r"^/proc/xx: must be where files can be written: /proc is not writable"):
            run(Path("/proc/xx"))


def test_a_comparison_makes_the_folders_above_its_own(tmp_path):
    scenario = scenario_of(tmp_path, adversaries=ADVERSARIES)
    compare(scenario, ["grr"], [1.0], users=5, estimate_from=100, out=tmp_path / "np" / "a" / "x")
    assert (tmp_path / "np" / "a" / "x" / "comparison.json").is_file()
    assert sorted(os.listdir(tmp_path)) == ["np", "small.toml"]


def test_resume_is_told_only_of_a_run(tmp_path):
    scenario, out = scenario_of(tmp_path), tmp_path / "mine"
    (out / "outcomes").mkdir(parents=True)
    (out / "outcomes" / "part-000000.parquet").write_text("mine")
    for resume in (False, True):
        with pytest.raises(InputError, match=r"mine: the output folder is not empty; choose another with `out`$"):
            audit(scenario, out, users=5, resume=resume)
    assert (out / "outcomes" / "part-000000.parquet").read_text() == "mine"
    (out / "outcomes" / "part-000000.parquet").unlink()
    (out / ".manifest.json.abc.part").write_text("{")
    audit(scenario, out, users=5, resume=True)
    with pytest.raises(InputError, match=r"mine: the output folder holds another run; continue with `resume`"):
        audit(scenario, out, users=5)


def test_a_missing_column_says_which_are_expected(folder, capsys):
    pl.DataFrame({"who": ["ann"], "x": [1]}).write_csv("reports.csv")
    assert command("attack", "reports.csv", *AT) == 2
    said = capsys.readouterr().err
    assert "must have a column 'user', got ['who', 'x']; expected: user, hash, ones" in said
