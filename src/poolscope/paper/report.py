"""Render the reproduction as one HTML report in the order of the paper."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from poolscope import __version__
from poolscope.core.counting import counted
from poolscope.core.files import located_os_errors
from poolscope.core.tables.atomic import write_text
from poolscope.figures import charts as figures
from poolscope.figures.saving import Figure, slug
from poolscope.figures.style import Picture
from poolscope.figures.users import popularity_plot
from poolscope.game.columns import NON_PRIVATE
from poolscope.html.render import placed, render
from poolscope.html.tables import rounded
from poolscope.paper.experiments import Experiment, PaperFigure, experiments, published
from poolscope.paper.experiments import figures as paper_figures
from poolscope.paper.runner import Compared, Reproduction
from poolscope.paper.values import Played


def pictures(played: Mapping[str, Played]) -> list[Figure]:
    """Return all figures whose runs are finished."""
    return [_paper_figure(figure, played) for figure in paper_figures() if set(figure.plays) <= played.keys()]


def _paper_figure(figure: PaperFigure, played: Mapping[str, Played]) -> Figure:
    chart = KINDS[figure.kind](figure, [played[name] for name in figure.plays])
    where = f"Figure {figure.number} of the paper." if figure.number else "New: not in the paper."
    return Figure(name=slug(figure.title), title=figure.title, caption=f"{figure.caption} {where}", chart=chart)


def _precision(figure: PaperFigure, plays: list[Played]) -> Picture:
    (play,) = plays
    return figures.precision_null_rate(play.run.tables.curves, len(play.run.summary.pools))


def _behavior(figure: PaperFigure, plays: list[Played]) -> Picture:
    (play,) = plays
    table = play.run.tables.maps.filter(pl.col("adversary") == figure.adversary)
    return figures.behavior_maps(table, len(play.run.summary.pools))


def _calibration(figure: PaperFigure, plays: list[Played]) -> Picture:
    """Return all settings in one chart, with a panel for each setting and adversary."""
    tables = []
    for play in plays:
        table = play.run.tables.calibration.filter(pl.col("adversary") != NON_PRIVATE)
        tables.append(table.with_columns(pl.col("adversary") + f", {play.scenario.name}"))
    return figures.calibration_plot(pl.concat(tables))


def _exposure(figure: PaperFigure, plays: list[Played]) -> Picture:
    (play,) = plays
    return figures.exposure_curves(play.run.tables.exposure)


def _density(figure: PaperFigure, plays: list[Played]) -> Picture:
    (play,) = plays
    return figures.behavior_density(play.behaviors(*play.run.outcomes.attacks()[0]))


def _popularity(figure: PaperFigure, plays: list[Played]) -> Picture:
    (play,) = plays
    universe = play.game.universe
    return popularity_plot(play.game.popularity, universe.pool_of, universe.pool_names)


KINDS: Mapping[str, Callable[[PaperFigure, list[Played]], Picture]] = {
    "precision": _precision,
    "behavior": _behavior,
    "calibration": _calibration,
    "density": _density,
    "exposure": _exposure,
    "popularity": _popularity,
}


def mark(cell: Compared) -> str:
    """Return whether our value and the published one agree."""
    return {True: "agrees", False: "differs", None: ""}[cell.agrees]


def verdict(reproduction: Reproduction) -> str:
    """Return how many published values agree."""
    judged = [cell for cell in reproduction.cells if cell.agrees is not None]
    agree = sum(bool(cell.agrees) for cell in judged)
    new = len(reproduction.cells) - len(judged)
    fresh = f"{counted(new, 'cell')} {'is' if new == 1 else 'are'} new"
    return f"{agree} of {counted(len(judged), 'published value')} agree; {fresh}."


def write_page(reproduction: Reproduction, out: Path) -> Path:
    """Write ``reproduction.html`` and return its path."""
    html = render(
        "reproduction.html.j2",
        title="Reproduction of the paper",
        words=verdict(reproduction),
        facts=[
            f"poolscope {__version__}",
            f"{platform.system()}, {platform.machine()}, Python {platform.python_version()}",
            f"{sum(reproduction.seconds.values()):,.0f} s in total",
        ],
        version=__version__,
        tables=[_record(experiment, cells, reproduction) for experiment, cells in by_experiment(reproduction)],
        figures=placed(pictures(reproduction.played)),
    )
    page = out / "reproduction.html"
    with located_os_errors(page):
        write_text(page, html)
    return page


def _record(experiment: Experiment, cells: Sequence[Compared], reproduction: Reproduction) -> dict[str, Any]:
    columns = list(dict.fromkeys(cell.column for cell in cells))
    rows = list(dict.fromkeys(cell.row for cell in cells))
    observed = {str(n) for n in published()["observations"]}
    at = {(cell.row, cell.column): _cell(cell) for cell in cells}
    return {
        "name": experiment.name,
        "title": experiment.title,
        "new": experiment.new,
        "seconds": f"{reproduction.seconds.get(experiment.name, 0.0):.0f}",
        "columns": [f"n = {column}" if column in observed else column for column in columns],
        "rows": [(row, [at.get((row, column)) for column in columns]) for row in rows],
    }


def _cell(cell: Compared) -> dict[str, str]:
    return {
        "ours": rounded(cell.ours),
        "interval": f"{rounded(cell.low)} to {rounded(cell.high)}",
        "published": "" if cell.published is None else rounded(cell.published),
        "mark": mark(cell),
    }


def by_experiment(reproduction: Reproduction) -> Iterable[tuple[Experiment, list[Compared]]]:
    """Yield the experiments with their cells, in order."""
    for name in dict.fromkeys(cell.experiment for cell in reproduction.cells):
        yield experiments()[name], [cell for cell in reproduction.cells if cell.experiment == name]
