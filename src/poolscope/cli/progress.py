"""What a person sees while a command works, and when they stop it."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from poolscope.base.errors import Stopped
from poolscope.cli.terminal import Terminal

#: Signals that ask a process to end; the second is not everywhere.
ENDING = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]

Progressing = tuple[Callable[[int], None], Callable[[float], None]]


class _Speed(ProgressColumn):
    def __init__(self, what: str) -> None:
        super().__init__()
        self._what = what

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f} {self._what}/s", style="cyan")


@contextmanager
def progress(title: str, what: str = "users") -> Iterator[Progressing]:
    """A bar on a terminal, nothing in a pipe: (begin(total), tick(amount)), of users or what else is counted."""
    console = Terminal(stderr=True)
    if not console.is_terminal:
        yield (lambda _: None), (lambda _: None)
        return
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        _Speed(what),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    with bar:
        task = bar.add_task("Preparing", total=None)

        def begin(total: int) -> None:
            bar.reset(task, total=total, description=f"{title} {total:,} {what}")

        yield begin, lambda amount: bar.advance(task, amount)


class Ended(KeyboardInterrupt):
    """The process was asked to end: by a cluster's time limit, or a terminal that was closed."""


@contextmanager
def stoppable(how: str = "nothing was written") -> Iterator[None]:
    """Ctrl-C, TERM and HUP end what is inside with one line that says how to go on; all take their leftovers along."""
    asked: list[int] = []

    def end(number: int, _: object) -> None:
        if not asked:  # asked again, it is already cleaning up
            asked.append(number)
            raise Ended

    # a signal that is ignored, as HUP below nohup, stays so
    wanted = [number for number in ENDING if signal.getsignal(number) is signal.SIG_DFL]
    before = {number: signal.signal(number, end) for number in wanted}
    try:
        yield
    except KeyboardInterrupt:
        raise Stopped(f"stopped; {how}", code=128 + (asked[0] if asked else signal.SIGINT)) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def going_on(folder: Path | None = None, resume: bool | None = None) -> str:
    """The command that goes on with this one: the same, into the same folder, with --resume where there is such."""
    more = [] if folder is None else ["--out", str(folder)]
    more += ["--resume"] if resume is False else []
    return f"what is finished is kept, go on with: {shlex.join(['poolscope', *sys.argv[1:], *more])}"
