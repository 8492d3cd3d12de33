"""The paper's figures, made from the plays."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import polars as pl

from poolscope.game.outcomes import NON_PRIVATE
from poolscope.html import figures
from poolscope.html.charts import Shown
from poolscope.html.html import slug
from poolscope.html.style import Picture
from poolscope.workflows.reproduce.experiments import PaperFigure
from poolscope.workflows.reproduce.experiments import figures as paper_figures
from poolscope.workflows.reproduce.values import Played


def pictures(played: Mapping[str, Played]) -> list[Shown]:
    """All figures whose plays are there."""
    return [_shown(figure, played) for figure in paper_figures() if set(figure.plays) <= played.keys()]


def _shown(figure: PaperFigure, played: Mapping[str, Played]) -> Shown:
    chart = KINDS[figure.kind](figure, [played[name] for name in figure.plays])
    where = f"Figure {figure.number} of the paper." if figure.number else "New: not in the paper."
    return Shown(name=slug(figure.title), title=figure.title, caption=f"{figure.caption} {where}", chart=chart)


def _precision(figure: PaperFigure, plays: list[Played]) -> Picture:
    (play,) = plays
    return figures.precision_null_rate(play.run.tables.curves, len(play.run.summary.pools))


def _behaviour(figure: PaperFigure, plays: list[Played]) -> Picture:
    (play,) = plays
    table = play.run.tables.maps.filter(pl.col("adversary") == figure.adversary)
    return figures.behaviour_maps(table, len(play.run.summary.pools))


def _calibration(figure: PaperFigure, plays: list[Played]) -> Picture:
    """All settings in one table; the panels are named after setting and adversary."""
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
    return figures.behaviour_density(play.behaviours(*play.run.outcomes.attacks()[0]))


def _popularity(figure: PaperFigure, plays: list[Played]) -> Picture:
    (play,) = plays
    universe = play.game.universe
    return figures.popularity_plot(play.game.popularity, universe.pool_of, universe.pool_names)


KINDS: Mapping[str, Callable[[PaperFigure, list[Played]], Picture]] = {
    "precision": _precision,
    "behaviour": _behaviour,
    "calibration": _calibration,
    "density": _density,
    "exposure": _exposure,
    "popularity": _popularity,
}
