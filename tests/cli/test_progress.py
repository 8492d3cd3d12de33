"""What a person sees on a terminal while a command works."""

import io
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from cases.command_line import PROGRESS
from cases.engines import scenario_text
from cases.platforms import posix_only
from cases.report_files import command
from rich.progress import Progress as Bar

from poolscope.cli.progress import COMPILING, _Shown, working
from poolscope.cli.terminal import Terminal
from poolscope.core.errors import Stopped
from poolscope.workflows.traces import extract
from poolscope.workflows.traces.extract import make_traces


def on_a_terminal(arguments, cwd):
    """(what is shown, exit code, seconds) of a command whose streams are a terminal."""
    import pty  # not available everywhere

    ours, theirs = pty.openpty()
    started, shown = time.perf_counter(), b""
    process = subprocess.Popen(
        [sys.executable, "-m", "poolscope", *arguments], stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd
    )
    os.close(theirs)
    while True:
        try:
            found = os.read(ours, 1 << 16)
        except OSError:  # how Linux says that the other side is closed
            break
        if not found:
            break
        shown += found
    code = process.wait()
    os.close(ours)
    return shown.decode(), code, time.perf_counter() - started


@posix_only
def test_a_terminal_sees_every_stage_and_the_time_waited(tmp_path):
    (tmp_path / "small.toml").write_text(scenario_text(adversaries=("weak",), users=40))
    shown, code, seconds = on_a_terminal(["audit", "small.toml", "--out", "run"], tmp_path)
    assert code == 0, shown
    seen = [shown.find(stage) for stage in ("Starting", "Preparing", "Simulating 40 users", "Writing the report")]
    assert seen == sorted(seen)
    assert seen[0] >= 0
    said = float(re.search(r"seed 0, ([\d.]+) s\.", shown)[1])
    # the interpreter's own start and end are not in it, which on a busy machine are long
    assert seconds / 2 < said <= seconds + 0.1


def test_a_bar_says_that_it_compiles_and_goes_on():
    bar = Bar(console=Terminal(file=io.StringIO()))
    shown = _Shown(bar, "Playing", "users")
    shown.begin(1000)
    shown.compiling()
    assert bar.tasks[0].description == COMPILING
    shown.tick(250)
    assert (bar.tasks[0].description, bar.tasks[0].completed) == ("Playing 1,000 users", 250)


@pytest.mark.parametrize("total", [None, 1000])
def test_what_is_counted_is_shown(total):
    bar = Bar(console=Terminal(file=io.StringIO()))
    shown = _Shown(bar, "Reading", "reports")
    if total:
        shown.begin(total)
    shown.tick(10)
    assert (bar.tasks[0].completed, bar.tasks[0].total) == (10, total)


def logged(capfd, monkeypatch, steps, interval=0.02):
    """What a command whose streams are no terminals says while it works, without the seconds."""
    monkeypatch.setattr("poolscope.cli.progress.LOG_INTERVAL", interval)
    with working("Playing") as work:
        steps(work)
        time.sleep(0.2)
    printed = capfd.readouterr()
    assert printed.out == ""
    assert PROGRESS.sub("", printed.err) == ""
    return [line.rpartition(", ")[0] for line in printed.err.splitlines()]


def test_a_redirected_run_says_now_and_then_how_far_it_is(capfd, monkeypatch):
    def steps(work):
        work.begin(2000)
        for _ in range(3):
            work.tick(250.5)

    lines = logged(capfd, monkeypatch, steps)
    assert lines[-1] == "poolscope: Playing 2,000 users, 38%"
    time.sleep(0.1)
    assert capfd.readouterr().err == ""  # when it is done, it is silent


@pytest.mark.parametrize(
    ("steps", "line"),
    [
        (lambda work: None, "poolscope: Playing"),
        (lambda work: work.stage("Summing up"), "poolscope: Summing up"),
        (lambda work: work.compiling(), f"poolscope: {COMPILING}"),
        (lambda work: work.tick(1234), "poolscope: Playing, 1,234 users"),
    ],
)
def test_a_line_says_what_is_done(capfd, monkeypatch, steps, line):
    assert logged(capfd, monkeypatch, steps)[-1] == line


def test_a_quick_run_prints_no_line(capfd, monkeypatch):
    assert logged(capfd, monkeypatch, lambda work: work.begin(10), interval=5.0) == []


def test_a_command_prints_its_lines_to_the_error_stream_alone(tmp_path, capfd, monkeypatch):
    def slowly(*arguments, **options):
        time.sleep(0.2)
        return make_traces(*arguments, **options)

    monkeypatch.setattr("poolscope.cli.progress.LOG_INTERVAL", 0.02)
    monkeypatch.setattr(extract, "make_traces", slowly)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "traces.csv").write_text("user,object\n" + "ann,3\nbob,4\n" * 200)
    (tmp_path / "objects.csv").write_text("object,pool\n" + "".join(f"{i},{'ab'[i % 2]}\n" for i in range(6)))
    options = ["--universe", "objects.csv", "--user", "user", "--object", "object", "--out", "t.csv"]
    assert command("traces", "traces.csv", *options) == 0
    printed = capfd.readouterr()
    lines = printed.err.splitlines()
    assert lines
    assert all(PROGRESS.fullmatch(f"{line}\n") for line in lines)
    assert printed.out
    assert "poolscope: " not in printed.out


class Dying:
    """Asks for an end while it is taken down, where Python forgets exceptions."""

    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.01)


@posix_only
def test_an_end_asked_for_in_a_destructor_is_not_lost():
    def dying():
        Dying()
        time.sleep(30)

    with pytest.raises(Stopped, match="stopped; nothing was written") as stopped, working("Playing"):
        dying()
    assert stopped.value.code == 128 + signal.SIGTERM


@pytest.fixture
def heard():
    """Signals that whoever started the tests may have ignored, as a shell does in the background."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGINT, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@posix_only
@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", None)])
def test_what_a_library_makes_of_an_interrupt_is_an_end(number):
    def reading():
        try:
            os.kill(os.getpid(), number)
            time.sleep(30)
        except KeyboardInterrupt:
            raise ValueError("must be a Parquet file") from None

    with pytest.raises(Stopped) as stopped, working("Playing"):
        reading()
    assert stopped.value.code == 128 + number


def test_other_errors_are_not_an_end():
    with pytest.raises(ValueError, match="must be"), working("Playing"):
        raise ValueError("must be a Parquet file")


HANGING = """
import os, signal, time
from poolscope.cli import exit, progress
exit.PATIENCE = 0.2
with progress.working("Playing"):
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(30)
    except BaseException:
        time.sleep(30)
"""


@posix_only
def test_who_hangs_in_the_attempt_to_end_is_ended():
    done = subprocess.run([sys.executable, "-c", HANGING], capture_output=True, text=True, timeout=25)
    assert (done.returncode, done.stderr) == (128 + signal.SIGTERM, "poolscope: stopped; nothing was written\n")
