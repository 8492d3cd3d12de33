"""What a person sees in a terminal."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from poolscope.base.errors import Stopped
from poolscope.cli.terminal import Terminal
from poolscope.metrics.records import in_plain_words, is_skewed
from poolscope.scenario.scenario import builtin_names, load

if TYPE_CHECKING:
    from poolscope.verbs.reproduce.runner import Reproduction

Progressing = tuple[Callable[[int], None], Callable[[float], None]]


class _UsersPerSecond(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f} users/s", style="cyan")


@contextmanager
def progress(title: str) -> Iterator[Progressing]:
    """A bar on a terminal, nothing in a pipe: (begin(total), tick(amount))."""
    console = Terminal(stderr=True)
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        _UsersPerSecond(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task("Preparing", total=None)

        def begin(total: int) -> None:
            bar.reset(task, total=total, description=f"{title} {total:,} users")

        yield begin, lambda amount: bar.advance(task, amount)


@contextmanager
def stoppable(how: str = "nothing was written") -> Iterator[None]:
    """Ctrl-C ends what is inside with one line that says how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        raise Stopped(f"stopped; {how}") from None


def going_on(folder: Path | None = None, resume: bool | None = None) -> str:
    """The command that goes on with this one: the same, into the same folder, with --resume where there is such."""
    more = [] if folder is None else ["--out", str(folder)]
    more += ["--resume"] if resume is False else []
    return f"what is finished is kept, go on with: {shlex.join(['poolscope', *sys.argv[1:], *more])}"


def print_audit(summary: Mapping[str, Any], report: Path) -> None:
    """Table of adversaries by observation count, the headline in words, and where the report is."""
    console = Terminal()
    table = Table(title=str(summary["scenario"]["title"]), title_justify="left")
    names = ["adversary", "n", "AUC", "95 % interval", "precision", "top 10 %", "baseline"]
    skewed = is_skewed(summary["results"][0])
    names += ["majority"] if skewed else []
    tau = summary["results"][0].get("threshold")
    if tau is not None:
        names += [f"guessed at {tau:g}", "right then"]
    for name in names:
        table.add_column(name, justify="left" if name == "adversary" else "right")
    last = None
    for row in summary["results"]:
        if last is not None and row["adversary"] != last:
            table.add_section()
        table.add_row(
            row["adversary"] if row["adversary"] != last else "",
            str(row["n"]),
            f"{row['auc']:.3f}",
            f"{row['auc_low']:.3f}-{row['auc_high']:.3f}",
            f"{row['precision']:.3f}",
            f"{row['precision_top10']:.3f}",
            f"{row['baseline']:.3f}",
            *([f"{row['majority']:.3f}"] if skewed else []),
            *_at_threshold(row),
        )
        last = row["adversary"]
    console.print(table)
    console.print(in_plain_words(summary["results"], summary["adversaries"]), highlight=False)
    console.print(
        f"{summary['users']:,} users, seed {summary['seed']}, {summary['seconds']:.1f} s. Report: {report}",
        style="dim",
        highlight=False,
        soft_wrap=True,
    )


def print_reproduction(done: Reproduction, out: Path) -> None:
    """Every cell beside the published one, how many agree, and where the page is."""
    from poolscope.pages.reproduction import terminal_tables, verdict, write_page

    console = Terminal()
    for table in terminal_tables(done):
        console.print(table)
    console.print(verdict(done), highlight=False)
    page = write_page(done, out, sum(done.seconds.values()))
    console.print(f"{sum(done.seconds.values()):.0f} s. Page: {page}", style="dim", highlight=False, soft_wrap=True)


def _at_threshold(row: Mapping[str, Any]) -> list[str]:
    """With a threshold: the share of users who get a guess, and how often it is right."""
    if "threshold" not in row:
        return []
    guessed = 1.0 - row["null_rate"]
    return [f"{guessed:.3f}", f"{row['precision_at_threshold']:.3f}" if guessed else "-"]


def print_scenarios() -> None:
    """The built-in scenarios with their titles."""
    table = Table(box=None, pad_edge=False)
    table.add_column("scenario")
    table.add_column("title")
    for name in builtin_names():
        table.add_row(name, load(name).title)
    Terminal().print(table)
