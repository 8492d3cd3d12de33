"""A reproduction on the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rich.table import Table
from rich.text import Text

from poolscope.cli.terminal import Terminal
from poolscope.pages.numbers import rounded
from poolscope.pages.reproduction import by_experiment, mark, verdict
from poolscope.verbs.reproduce.runner import Reproduction, finished_plays


def print_reproduction(done: Reproduction, page: Path, seconds: float) -> None:
    """Every cell beside the published one, how many agree, where the page is and how long it took."""
    console = Terminal()
    for table in terminal_tables(done):
        console.print(table)
    console.print(verdict(done), highlight=False)
    console.note(f"{seconds:.0f} s. Page: {page}")


def kept_plays(folder: Path) -> str:
    """What a stopped reproduction leaves."""
    done = finished_plays(folder)
    return f"{done} finished {'play is' if done == 1 else 'plays are'} kept, and of the next what is finished"


def terminal_tables(reproduction: Reproduction) -> Iterable[Table]:
    """One table for each experiment: published, ours, interval, agrees or not."""
    for experiment, cells in by_experiment(reproduction):
        took = reproduction.seconds.get(experiment.name, 0.0)
        table = Table(title=f"{experiment.title} ({experiment.name}, {took:.0f} s)", title_justify="left")
        for head in ("row", "column", "published", "ours", "95 % interval", ""):
            table.add_column(head, justify="left" if head in ("row", "") else "right")
        for cell in cells:
            style = {False: "red", True: "green", None: ""}[cell.agrees]
            table.add_row(
                cell.row,
                cell.column,
                rounded(cell.published),
                rounded(cell.ours),
                f"{rounded(cell.low)} to {rounded(cell.high)}",
                Text(mark(cell), style=style),
            )
        yield table
