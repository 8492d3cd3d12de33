"""The paper's figures, made from the plays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import polars as pl
from matplotlib.figure import Figure

from poolscope.game.columns import NON_PRIVATE
from poolscope.pages import figures
from poolscope.pages.html import slug
from poolscope.pages.style import to_svg
from poolscope.verbs.reproduce.experiments import PaperFigure
from poolscope.verbs.reproduce.values import Played


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A figure of the paper as SVG."""

    name: str
    slug: str
    svg: str


def picture_of(figure: PaperFigure, played: Mapping[str, Played]) -> Picture:
    """One figure; its plays must be there."""
    plays = [played[name] for name in figure.plays]
    svg = to_svg(KINDS[figure.kind](figure, plays))
    return Picture(name=figure.name, slug=slug(figure.name), svg=svg)


def _precision(figure: PaperFigure, plays: list[Played]) -> Figure:
    (play,) = plays
    return figures.precision_null_rate(play.run.tables.curves, len(play.run.summary.pools))


def _behaviour(figure: PaperFigure, plays: list[Played]) -> Figure:
    (play,) = plays
    table = play.run.tables.maps.filter(pl.col("adversary") == figure.adversary)
    return figures.behaviour_maps(table, len(play.run.summary.pools))


def _calibration(figure: PaperFigure, plays: list[Played]) -> Figure:
    """All settings in one table; the panels are named after setting and adversary."""
    tables = []
    for play in plays:
        table = play.run.tables.calibration.filter(pl.col("adversary") != NON_PRIVATE)
        tables.append(table.with_columns(pl.col("adversary") + f", {play.scenario.name}"))
    return figures.calibration_plot(pl.concat(tables), columns=4)


def _exposure(figure: PaperFigure, plays: list[Played]) -> Figure:
    (play,) = plays
    return figures.exposure_curves(play.run.tables.exposure)


def _density(figure: PaperFigure, plays: list[Played]) -> Figure:
    (play,) = plays
    return figures.behaviour_density(play.behaviours(*play.run.outcomes.attacks()[0]))


def _popularity(figure: PaperFigure, plays: list[Played]) -> Figure:
    (play,) = plays
    universe = play.game.universe
    return figures.popularity_plot(play.game.popularity, universe.pool_of, universe.pool_names)


KINDS: Mapping[str, Callable[[PaperFigure, list[Played]], Figure]] = {
    "precision": _precision,
    "behaviour": _behaviour,
    "calibration": _calibration,
    "density": _density,
    "exposure": _exposure,
    "popularity": _popularity,
}
