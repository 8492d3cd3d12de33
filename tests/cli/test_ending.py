"""However a command ends, it leaves nothing behind that the next one does not take away."""

import os
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest
from cases.engines import scenario_text, start
from cases.platforms import linux_only, posix_only
from cases.selection import mostly, slow

from poolscope.scenario.scenario import load_scenario
from poolscope.workflows.obfuscate import obfuscate

USERS, LENGTH = 400, 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A scenario, traces and reports that take a while."""
    folder = tmp_path_factory.mktemp("long")
    (folder / "mine.toml").write_text(scenario_text(users=3000, observations=(30, 60)))
    rows = pl.DataFrame({"user": [f"u{i % USERS}" for i in range(USERS * LENGTH)]})
    rows.with_columns(object=pl.int_range(pl.len()) % 30).write_parquet(folder / "traces.parquet")
    obfuscate(folder / "traces.parquet", load_scenario(folder / "mine.toml"), folder / "reports.parquet", 1)
    return folder


COMMANDS = {
    "attack": ("attack", "reports.parquet", "--scenario", "mine.toml", "--out", "posteriors.parquet", "--overwrite"),
    "audit": ("audit", "mine.toml", "--out", "played"),
    "compare": ("compare", "mine.toml", "--mechanism", "grr,oue", "--epsilon", "1,2", "--out", "compared"),
}


def scratch(folder):
    return list(folder.glob(".*"))


def is_at_work(process, folder):
    """When the command has made its scratch folder, and is still at work."""
    end = time.monotonic() + 120
    while not scratch(folder) and process.poll() is None and time.monotonic() < end:
        time.sleep(0.005)
    return process.poll() is None


ENDS = [(name, how) for name in ("attack", "compare") for how in ("SIGTERM", "SIGHUP")]


@posix_only
@pytest.mark.parametrize(("name", "how"), mostly(slow, ENDS, ("attack", "SIGTERM")))
def test_a_command_that_is_asked_to_end_cleans_up(folder, name, how):
    """As a cluster's time limit asks, or a terminal that is closed."""
    process = start(*COMMANDS[name], cwd=folder)
    assert is_at_work(process, folder)
    process.send_signal(getattr(signal, how))
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (128 + getattr(signal, how), "poolscope: stopped; nothing was written\n")
    assert not scratch(folder)
    assert not (folder / COMMANDS[name][-1]).exists()


@pytest.mark.slow
def test_what_a_killed_command_left_is_taken_away_by_the_next(folder):
    process = start(*COMMANDS["attack"], cwd=folder)
    assert is_at_work(process, folder)
    process.kill()
    process.communicate()
    assert scratch(folder)
    (folder / ".poolscope.not-ours").mkdir()
    (folder / ".poolscope.not-ours" / "work").touch()
    done = start(*COMMANDS["attack"], cwd=folder)
    said = done.communicate()[1]
    # that these users pick objects uniformly is noticed
    assert "do not follow the popularity" in said
    assert (said.count("\n"), done.returncode) == (1, 0)
    assert [path.name for path in scratch(folder)] == [".poolscope.not-ours"]
    shutil.rmtree(folder / ".poolscope.not-ours")
    (folder / "posteriors.parquet").unlink()


@pytest.mark.slow
def test_two_audits_do_not_share_a_folder(folder):
    """The second says so at once; the first is not disturbed, and a dead one holds nothing."""
    first = start("audit", "mine.toml", "--out", "run", cwd=folder)
    end = time.monotonic() + 120
    while not list(folder.glob("run/outcomes/part-*")) and first.poll() is None and time.monotonic() < end:
        time.sleep(0.005)
    second = start("audit", "mine.toml", "--out", "run", "--resume", cwd=folder)
    _, said = second.communicate(timeout=120)
    assert second.returncode == 2
    assert (
        said == "poolscope: run: another process is at work in this folder; wait for it, or choose another with --out\n"
    )
    assert first.poll() is None
    first.kill()
    first.communicate()
    third = start("audit", "mine.toml", "--out", "run", "--resume", cwd=folder)
    # a busy machine makes it say how far it is
    lines = [line for line in third.communicate(timeout=300)[1].splitlines() if not line.endswith(" so far")]
    assert (lines, third.returncode) == ([], 0)


def children(process):
    """How many processes a process has started that are still there."""
    count = 0
    for path in Path(f"/proc/{process.pid}/task").glob("*/children"):
        with suppress(OSError):  # its thread has ended meanwhile
            count += len(path.read_text(encoding="utf-8").split())
    return count


ENDS_OF_DASK = [("audit", "SIGHUP"), ("audit", "SIGINT"), ("attack", "SIGTERM")]


@linux_only
@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize(("name", "how"), mostly(slow, ENDS_OF_DASK, ("audit", "SIGINT")))
def test_dask_tells_no_story_of_its_own(folder, name, how):
    """Ended while its processes start, all at once as a terminal does: one line, ours, and Ctrl-C is not forgotten."""
    process = start(*COMMANDS[name], "--engine", "dask", cwd=folder, start_new_session=True)
    try:
        end = time.monotonic() + 120
        while children(process) < 2 and process.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        os.killpg(process.pid, getattr(signal, how))
        _, said = process.communicate(timeout=200)
    finally:
        # otherwise the next test would find it at work in the folder
        process.kill()
    assert process.returncode == 128 + getattr(signal, how)
    # before it may stand what is noticed of the reports
    assert said.splitlines()[-1].startswith("poolscope: stopped; ")
    assert said.count("\n") <= 2
    assert not scratch(folder)
