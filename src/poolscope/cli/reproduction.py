"""Print a reproduction of the paper."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rich.text import Text

from poolscope.cli.terminal import Terminal, TextTable
from poolscope.html.tables import rounded
from poolscope.paper.report import by_experiment, mark, verdict
from poolscope.paper.runner import Reproduction, finished_plays


def print_reproduction(done: Reproduction, page: Path, seconds: float) -> None:
    """Print how many published values agree, then every cell beside its published value."""
    console = Terminal()
    console.say(verdict(done))
    for table in tables(done):
        table.print(console)
    console.note(f"{seconds:.0f} s. Report: {page}")


def finished_experiments(folder: Path) -> str:
    """Return how many runs of a stopped reproduction are saved."""
    done = finished_plays(folder)
    return f"{done} finished {'run is' if done == 1 else 'runs are'} saved, and the finished part of the next"


def tables(reproduction: Reproduction) -> Iterable[TextTable]:
    """Yield one table for each experiment: published value, ours, CI, agreement."""
    for experiment, cells in by_experiment(reproduction):
        took = reproduction.seconds.get(experiment.name, 0.0)
        heads = ["row", "column", "published", "ours", "95% CI", ""]
        table = TextTable(title=f"{experiment.title} ({experiment.name}, {took:.0f} s)", heads=heads, left=[""])
        for cell in cells:
            style = {False: "red", True: "green", None: ""}[cell.agrees]
            table.add(
                cell.row,
                cell.column,
                rounded(cell.published),
                rounded(cell.ours),
                f"{rounded(cell.low)}–{rounded(cell.high)}",
                Text(mark(cell), style=style),
            )
        yield table
