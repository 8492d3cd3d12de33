"""A stopped attack continues where it was, and its table is the same to the byte."""

import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import polars as pl
import pytest
from cases.command_line import poolscope
from cases.platforms import posix_only
from cases.report_files import small_attack
from cases.selection import mostly, slow

import poolscope as ps
from poolscope.core.errors import InputError
from poolscope.workflows.attack import tasks
from poolscope.workflows.attack.resuming import Records

#: So little memory that there are several chunks and partitions.
BOUND = 1 << 15
ESTIMATED = '[[adversary]]\nname = "curious"\npopularity = "estimated"\n'


class Stopped(KeyboardInterrupt):
    pass


def stop_after(monkeypatch, name, count):
    """Let a task stop the process in place of a later one, after its file was written but before its record."""
    own, done = getattr(tasks, name), []

    def stopping(*arguments):
        if len(done) == count:
            raise Stopped
        done.append(own(*arguments))
        return done[-1]

    monkeypatch.setattr(tasks, name, stopping)
    return done


def attacked(path, scenario, out, **options):
    return ps.attack(path, scenario, out=out, max_bytes=BOUND, engine=ps.Local(threads=1), top=3, why=True, **options)


@pytest.mark.parametrize("ending", mostly(slow, ["parquet", "csv"], "parquet"))
@pytest.mark.parametrize(
    ("name", "count"),
    mostly(slow, [("score_chunk", 0), ("score_chunk", 2), ("score_partition", 9)], ("score_partition", 9)),
)
def test_a_stopped_attack_continues_to_the_same_bytes(tmp_path, monkeypatch, ending, name, count):
    scenario, path = small_attack(tmp_path, adversaries=ESTIMATED)
    whole, out = tmp_path / f"whole.{ending}", tmp_path / f"out.{ending}"
    with monkeypatch.context() as patched:
        every = stop_after(patched, name, 1 << 30)
        expected = attacked(path, scenario, whole)
    with monkeypatch.context() as patched:
        before = stop_after(patched, name, count)
        with pytest.raises(Stopped):
            attacked(path, scenario, out, resume=True)
    # a partition without users leaves nothing to keep
    kept = sum(one is not None for one in before)
    folder = tmp_path / f"out.{ending}.unfinished"
    assert folder.is_dir()
    assert not out.exists()
    done = stop_after(monkeypatch, name, 1 << 30)
    found = attacked(path, scenario, out, resume=True)
    assert out.read_bytes() == whole.read_bytes()
    assert found == expected
    assert not folder.exists()
    assert len(done) == len(every) - kept, "what was finished is not done again"
    assert kept >= min(count, 2)
    assert len(every) > 2


def test_changed_work_is_done_again(tmp_path, monkeypatch):
    scenario, path = small_attack(tmp_path, adversaries=ESTIMATED)
    whole, out = tmp_path / "whole.parquet", tmp_path / "out.parquet"
    attacked(path, scenario, whole)
    with monkeypatch.context() as patched:
        stop_after(patched, "score_partition", 9)
        with pytest.raises(Stopped):
            attacked(path, scenario, out, resume=True)
    folder = tmp_path / "out.parquet.unfinished"
    features, part = folder / "0.parquet", sorted((folder / "parts").iterdir())[0]
    features.write_bytes(features.read_bytes()[:-1])
    part.unlink()
    (folder / "records" / ".part-1.json.abc.part").write_text("{")
    attacked(path, scenario, out, resume=True)
    assert out.read_bytes() == whole.read_bytes()


def test_other_work_is_refused(tmp_path, monkeypatch):
    scenario, path = small_attack(tmp_path, adversaries=ESTIMATED)
    out, folder = tmp_path / "out.parquet", tmp_path / "out.parquet.unfinished"
    with monkeypatch.context() as patched:
        stop_after(patched, "score_partition", 9)
        with pytest.raises(Stopped):
            attacked(path, scenario, out, resume=True)
    with pytest.raises(
        InputError, match="the option seed differs from that of the attack to resume; remove the folder"
    ):
        attacked(path, scenario, out, resume=True, seed=1)
    with pytest.raises(InputError, match="the scenario differs"):
        attacked(path, scenario.replace({"mechanism.epsilon": 3}), out, resume=True)
    assert folder.is_dir()
    rows = pl.read_parquet(path)
    os.utime(path, ns=(1, 1))
    with pytest.raises(InputError, match="the file of reports differs"):
        attacked(path, scenario, out, resume=True)
    assert rows.height
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "mine.txt").write_text("not ours")
    with pytest.raises(InputError, match="must be a folder of unfinished work"):
        attacked(path, scenario, out, resume=True)
    assert (folder / "mine.txt").exists()
    with pytest.raises(InputError, match="resume: must have `out`, the table that is resumed"):
        ps.attack(path, scenario, resume=True)


def test_reports_that_are_no_files_are_refused(tmp_path):
    """What a query finds is copied to a file that no later process has."""
    scenario, path = small_attack(tmp_path)
    address = f"sqlite:///{tmp_path / 'reports.db'}"
    (tmp_path / "reports.db").touch()
    words = ("--query", "SELECT 1", "--scenario", scenario.file, "--out", "out.csv", "--resume")
    done = poolscope("attack", address, *words, cwd=tmp_path)
    assert done.returncode == 2
    assert "resume needs reports in files on this machine, got 'sqlite:" in done.stderr
    with pytest.raises(InputError, match=r"resume needs reports in files .*; write the reports to a file first"):
        ps.attack(address, scenario, out=tmp_path / "out.csv", query="SELECT 1", resume=True)
    folder = tmp_path / "out.csv.unfinished"
    folder.mkdir()
    (folder / "manifest.json").write_text("[1]")
    with pytest.raises(InputError, match=r"manifest.json: must be the manifest of unfinished work"):
        ps.attack(path, scenario, out=tmp_path / "out.csv", resume=True)


def test_an_error_leaves_nothing_behind(tmp_path):
    scenario, path = small_attack(tmp_path, adversaries=ESTIMATED)
    pl.read_parquet(path).with_columns(pl.lit(99).alias("hash")).write_parquet(path)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(InputError):
        attacked(path, scenario, tmp_path / "out.parquet", resume=True)
    assert sorted(tmp_path.iterdir()) == before


@posix_only
@slow
def test_a_killed_process_is_resumed_by_another(tmp_path):
    scenario, path = small_attack(tmp_path, adversaries=ESTIMATED)
    rows = pl.read_parquet(path)
    pl.concat([rows.with_columns(pl.col("user") + f"-{i}") for i in range(200)]).write_parquet(path)
    program = (
        "import sys, poolscope as ps\n"
        f"ps.attack({str(path)!r}, ps.load_scenario({str(scenario.file)!r}), out=sys.argv[1], max_bytes={1 << 20}, "
        "resume=True, engine=ps.Local(threads=1))\n"
    )
    out = tmp_path / "out.parquet"
    records = tmp_path / "out.parquet.unfinished" / "records"
    kills = 0
    for _ in range(2):
        before = len(list(records.glob("*.json"))) if records.is_dir() else 0
        process = subprocess.Popen([sys.executable, "-c", program, out])
        while process.poll() is None and len(list(records.glob("*.json"))) < before + 3:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
    assert kills == 2
    assert not out.exists()
    subprocess.run([sys.executable, "-c", program, out], check=True)
    assert not (tmp_path / "out.parquet.unfinished").exists()
    subprocess.run([sys.executable, "-c", program, tmp_path / "whole.parquet"], check=True)
    assert out.read_bytes() == (tmp_path / "whole.parquet").read_bytes()


def test_records_of_changed_numbers_are_not_found(tmp_path):
    """A power failure may leave another file of numbers beside the record."""
    records, file = Records(folder=tmp_path), tmp_path / "part.parquet"
    file.write_bytes(b"rows")
    records.add("part-1", file, {"users": 3}, {"lengths": np.arange(3)})
    facts, arrays = records.found("part-1", tmp_path)
    assert (facts, arrays["lengths"].tolist()) == ({"users": 3}, [0, 1, 2])
    np.savez(tmp_path / "part-1.npz", lengths=np.arange(4))
    assert records.found("part-1", tmp_path) is None
