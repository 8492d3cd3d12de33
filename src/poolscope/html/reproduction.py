"""The reproduction as one HTML page laid out like the paper."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from poolscope import __version__
from poolscope.core.counting import counted
from poolscope.core.files import told
from poolscope.core.tables.atomic import write_text
from poolscope.html.charts import placed
from poolscope.html.html import render
from poolscope.html.numbers import rounded
from poolscope.html.reproduction_pictures import pictures
from poolscope.workflows.reproduce.experiments import Experiment, experiments, published
from poolscope.workflows.reproduce.runner import Compared, Reproduction


def mark(cell: Compared) -> str:
    """Whether ours and the published value agree."""
    return {True: "agrees", False: "differs", None: ""}[cell.agrees]


def verdict(reproduction: Reproduction) -> str:
    """How many of the published cells agree."""
    judged = [cell for cell in reproduction.cells if cell.agrees is not None]
    agree = sum(bool(cell.agrees) for cell in judged)
    new = len(reproduction.cells) - len(judged)
    fresh = f"{counted(new, 'cell')} {'is' if new == 1 else 'are'} new"
    return f"{agree} of {counted(len(judged), 'published value')} agree; {fresh}."


def write_page(reproduction: Reproduction, out: Path) -> Path:
    """``reproduction.html``, self-contained."""
    html = render(
        "reproduction.html.j2",
        title="The paper, reproduced",
        words=verdict(reproduction),
        facts=[
            f"poolscope {__version__}",
            f"{platform.system()}, {platform.machine()}, Python {platform.python_version()}",
            f"{sum(reproduction.seconds.values()):,.0f} s in all",
        ],
        version=__version__,
        tables=[_record(experiment, cells, reproduction) for experiment, cells in by_experiment(reproduction)],
        figures=placed(pictures(reproduction.played)),
    )
    page = out / "reproduction.html"
    with told(page):
        write_text(page, html)
    return page


def _record(experiment: Experiment, cells: Sequence[Compared], reproduction: Reproduction) -> dict[str, Any]:
    columns = list(dict.fromkeys(cell.column for cell in cells))
    rows = list(dict.fromkeys(cell.row for cell in cells))
    observed = {str(n) for n in published()["observations"]}
    at = {(cell.row, cell.column): _shown(cell) for cell in cells}
    return {
        "name": experiment.name,
        "title": experiment.title,
        "new": experiment.new,
        "seconds": f"{reproduction.seconds.get(experiment.name, 0.0):.0f}",
        "columns": [f"n = {column}" if column in observed else column for column in columns],
        "rows": [(row, [at.get((row, column)) for column in columns]) for row in rows],
    }


def _shown(cell: Compared) -> dict[str, str]:
    return {
        "ours": rounded(cell.ours),
        "interval": f"{rounded(cell.low)} to {rounded(cell.high)}",
        "published": "" if cell.published is None else rounded(cell.published),
        "mark": mark(cell),
    }


def by_experiment(reproduction: Reproduction) -> Iterable[tuple[Experiment, list[Compared]]]:
    """The experiments with their cells, in order."""
    for name in dict.fromkeys(cell.experiment for cell in reproduction.cells):
        yield experiments()[name], [cell for cell in reproduction.cells if cell.experiment == name]
