"""Show the progress of a command, and choose its engine."""

from __future__ import annotations

import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich import progress as rich
from rich.text import Text

from poolscope.cli.exit import stoppable
from poolscope.cli.terminal import Terminal
from poolscope.core.executors import Engine, Local, engine_named
from poolscope.core.progress import Progress
from poolscope.inference.posterior import COMPILED
from poolscope.kernels.compilation import watched

#: Seconds between two lines if the output is not a terminal.
LOG_INTERVAL = 30.0

COMPILING = "Compiling kernels (once after installation)"


class Work(Progress):
    """The progress of a command; `saved_message` returns what is saved if it is stopped now."""

    def __init__(self) -> None:
        self.saved_message: Callable[[], str] = lambda: "nothing was written"

    def compiling(self) -> None:
        """A kernel is being compiled."""


class _Shown(Work):
    """A progress bar on a terminal."""

    def __init__(self, bar: rich.Progress, title: str, what: str) -> None:
        super().__init__()
        self._bar, self._title, self._what = bar, title, what
        self._doing = "Starting"
        self._task = bar.add_task(self._doing, total=None)
        bar.refresh()  # what follows may hold the interpreter for a while

    def stage(self, doing: str) -> None:
        self._doing = doing
        self._bar.update(self._task, description=doing, refresh=True)

    def begin(self, total: int) -> None:
        self._bar.reset(self._task, total=total)
        self.stage(f"{self._title} {total:,} {self._what}")

    def tick(self, amount: float) -> None:
        self._bar.update(self._task, advance=amount, description=self._doing)

    def compiling(self) -> None:
        self._bar.update(self._task, description=COMPILING, refresh=True)


class _Logged(Work):
    """Occasional lines in a file or a pipe, so that a long run shows progress."""

    def __init__(self, title: str, what: str) -> None:
        super().__init__()
        self._title, self._what, self._doing = title, what, title
        self._total, self._done, self._compiling = 0, 0.0, False
        self._started, self._lock = time.monotonic(), threading.Lock()

    def stage(self, doing: str) -> None:
        self._doing, self._compiling = doing, False

    def begin(self, total: int) -> None:
        self._total, self._done = total, 0.0
        self.stage(f"{self._title} {total:,} {self._what}")

    def tick(self, amount: float) -> None:
        with self._lock:
            self._done, self._compiling = self._done + amount, False

    def compiling(self) -> None:
        self._compiling = True

    @property
    def line(self) -> str:
        """Return the stage, the finished part, and the elapsed time."""
        if not self._done:
            much = ""
        elif self._total:
            much = f", {100 * min(self._done / self._total, 1):.0f}%"
        else:
            much = f", {self._done:,.0f} {self._what}"
        doing = COMPILING if self._compiling else f"{self._doing}{much}"
        return f"{doing}, {time.monotonic() - self._started:.0f} s so far"

    @contextmanager
    def printing(self) -> Iterator[None]:
        """Print the line to the error stream every `LOG_INTERVAL` seconds."""
        over = threading.Event()

        def print_lines() -> None:
            while not over.wait(LOG_INTERVAL):
                print(f"poolscope: {self.line}", file=sys.stderr, flush=True)

        printer = threading.Thread(target=print_lines, daemon=True)
        printer.start()
        try:
            yield
        finally:
            over.set()
            printer.join(0.05)


class _Count(rich.ProgressColumn):
    """The finished part and the rate, once there is one."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self._what = what

    def render(self, task: rich.Task) -> Text:
        if not task.completed:
            return Text("")
        speed = task.finished_speed or task.speed
        much = f"{task.completed:,.0f} {self._what}" if task.total is None else f"{task.percentage:.0f}%"
        return Text(much if speed is None else f"{much}, {speed:,.0f} {self._what}/s", style="cyan")


@contextmanager
def working(title: str, what: str = "users") -> Iterator[Work]:
    """Show a bar on a terminal, occasional lines elsewhere, and one line when the command is stopped."""
    console = Terminal(stderr=True)
    if not console.is_terminal:
        logged = _Logged(title, what)
        with stoppable(lambda: logged.saved_message()), logged.printing():
            yield logged
        return
    columns = (
        rich.SpinnerColumn(),
        rich.TextColumn("{task.description}", markup=False),
        rich.BarColumn(bar_width=20),
        _Count(what),
        rich.TimeElapsedColumn(),
        rich.TimeRemainingColumn(),
    )
    with rich.Progress(*columns, console=console, transient=True) as bar:
        work = _Shown(bar, title, what)
        with stoppable(lambda: work.saved_message()):
            yield work


def command_of(more: Sequence[str] = ()) -> str:
    """Return this command as it was typed, without credentials and queries, and with more arguments."""
    # loaded by now: a command runs
    from poolscope.core.tables.locations import without_credentials

    return shlex.join(["poolscope", *without_credentials(sys.argv[1:]), *more])


def resume_command(folder: Path | None = None, resume: bool | None = None) -> str:
    """Return the command that resumes this one: the same folder, and --resume where there is such an option."""
    more = [] if folder is None else ["--out", str(folder)]
    more += ["--resume"] if resume is False else []
    return f"resume with: {command_of(more)}"


@contextmanager
def running(work: Work, engine: str | None, scheduler: str | None) -> Iterator[Engine]:
    """Return the engine of a name, see `engine_named`."""
    with watched(work.compiling), engine_named(engine, scheduler) as own:
        if isinstance(own, Local) and own.threads > 1:
            # workers compile for themselves
            COMPILED.begin()
        yield own
