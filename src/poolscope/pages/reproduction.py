"""The reproduction as one HTML page laid out like the paper."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from poolscope import __version__
from poolscope.base.tables.atomic import write_text
from poolscope.pages.inline import inline
from poolscope.pages.reproduction_pictures import Drawing, draw
from poolscope.verbs.reproduce.experiments import Experiment, experiments, figures, published
from poolscope.verbs.reproduce.runner import Compared, Reproduction


def number(value: float | str | None) -> str:
    """Two decimals for shares, more where the number is small, words as they are."""
    if value is None or isinstance(value, str):
        return value or "-"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) >= 0.1 or value == 0 else f"{value:.3g}"


def mark(cell: Compared) -> str:
    """Whether ours and the published value agree."""
    return {True: "agrees", False: "differs", None: ""}[cell.agrees]


def verdict(reproduction: Reproduction) -> str:
    """How many of the published cells agree."""
    judged = [cell for cell in reproduction.cells if cell.agrees is not None]
    agree = sum(bool(cell.agrees) for cell in judged)
    return f"{agree} of {len(judged)} published values agree; {len(reproduction.cells) - len(judged)} cells are new."


def write_page(reproduction: Reproduction, out: Path, seconds: float) -> Path:
    """``reproduction.html``, self-contained, and the figures as SVG in ``figures/``."""
    drawings = [
        draw(figure, reproduction.played) for figure in figures() if set(figure.plays) <= reproduction.played.keys()
    ]
    (out / "figures").mkdir(exist_ok=True)
    for drawing in drawings:
        write_text(out / "figures" / f"{drawing.slug}.svg", drawing.svg)
    environment = Environment(
        loader=PackageLoader("poolscope.pages", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    html = environment.get_template("reproduction.html.j2").render(
        verdict=verdict(reproduction),
        version=__version__,
        machine=f"{platform.system()}, {platform.machine()}, Python {platform.python_version()}",
        seconds=f"{seconds:,.0f}",
        tables=[_record(experiment, cells, reproduction) for experiment, cells in by_experiment(reproduction)],
        figures=[_figure(i, drawing) for i, drawing in enumerate(drawings, 1)],
    )
    write_text(out / "reproduction.html", html)
    return out / "reproduction.html"


def _figure(index: int, drawing: Drawing) -> dict[str, Any]:
    caption = published()["figures"].get(drawing.name, "new: not in the paper")
    return {
        "name": drawing.name,
        "caption": caption,
        "svg": inline(drawing.svg, prefix=f"f{index}-", label=drawing.name),
    }


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
        "ours": number(cell.ours),
        "interval": f"{number(cell.low)} to {number(cell.high)}",
        "published": "" if cell.published is None else number(cell.published),
        "mark": mark(cell),
    }


def by_experiment(reproduction: Reproduction) -> Iterable[tuple[Experiment, list[Compared]]]:
    """The experiments with their cells, in order."""
    for name in dict.fromkeys(cell.experiment for cell in reproduction.cells):
        yield experiments()[name], [cell for cell in reproduction.cells if cell.experiment == name]
