"""A reproduction on the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rich.text import Text

from poolscope.cli.terminal import Grid, Terminal
from poolscope.html.tables import rounded
from poolscope.paper.report import by_experiment, mark, verdict
from poolscope.paper.runner import Reproduction, finished_plays


def print_reproduction(done: Reproduction, page: Path, seconds: float) -> None:
    """Every cell beside the published one, how many agree, where the page is and how long it took."""
    console = Terminal()
    for grid in grids(done):
        grid.print(console)
    console.say(verdict(done))
    console.note(f"{seconds:.0f} s. Page: {page}")


def finished_experiments(folder: Path) -> str:
    """What a stopped reproduction leaves."""
    done = finished_plays(folder)
    return f"{done} finished {'play is' if done == 1 else 'plays are'} kept, and of the next what is finished"


def grids(reproduction: Reproduction) -> Iterable[Grid]:
    """One table for each experiment: published, ours, interval, agrees or not."""
    for experiment, cells in by_experiment(reproduction):
        took = reproduction.seconds.get(experiment.name, 0.0)
        heads = ["row", "column", "published", "ours", "95 % interval", ""]
        grid = Grid(title=f"{experiment.title} ({experiment.name}, {took:.0f} s)", heads=heads, left=[""])
        for cell in cells:
            style = {False: "red", True: "green", None: ""}[cell.agrees]
            grid.add(
                cell.row,
                cell.column,
                rounded(cell.published),
                rounded(cell.ours),
                f"{rounded(cell.low)} to {rounded(cell.high)}",
                Text(mark(cell), style=style),
            )
        yield grid
