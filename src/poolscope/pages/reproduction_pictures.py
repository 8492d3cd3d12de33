"""The paper's figures, made from the plays."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import polars as pl
from matplotlib.figure import Figure

from poolscope.game.columns import NON_PRIVATE
from poolscope.metrics.calibration import calibration
from poolscope.metrics.exposure import exposure_by_adversary
from poolscope.metrics.precision import behaviour_map, for_each_attack, precision_curve
from poolscope.pages import figures
from poolscope.pages.style import to_svg
from poolscope.verbs.reproduce.experiments import PaperFigure
from poolscope.verbs.reproduce.values import Played

CURVE_POINTS = 200


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
    return Picture(name=figure.name, slug=re.sub(r"[^a-z0-9]+", "-", figure.name.lower()).strip("-"), svg=svg)


def _precision(figure: PaperFigure, plays: list[Played]) -> Figure:
    (play,) = plays
    curves = for_each_attack(play.outcomes, lambda rows: precision_curve(rows, play.seed, CURVE_POINTS))
    return figures.precision_null_rate(curves, play.game.universe.k)


def _behaviour(figure: PaperFigure, plays: list[Played]) -> Figure:
    (play,) = plays
    k = play.game.universe.k
    rows = play.outcomes.filter(pl.col("adversary") == figure.adversary)
    return figures.behaviour_maps(for_each_attack(rows, lambda part: behaviour_map(part, k)), k)


def _calibration(figure: PaperFigure, plays: list[Played]) -> Figure:
    """All settings in one table; the panels are named after setting and adversary."""
    tables = []
    for play in plays:
        rows = play.outcomes.filter(pl.col("adversary") != NON_PRIVATE)
        table = for_each_attack(rows, calibration)
        tables.append(table.with_columns(pl.col("adversary").cast(pl.String) + f", {play.scenario.name}"))
    return figures.calibration_plot(pl.concat(tables), columns=4)


def _exposure(figure: PaperFigure, plays: list[Played]) -> Figure:
    (play,) = plays
    return figures.exposure_curves(exposure_by_adversary(play.outcomes, play.game.horizon))


def _density(figure: PaperFigure, plays: list[Played]) -> Figure:
    (play,) = plays
    first = play.outcomes.filter(pl.col("adversary") == play.outcomes["adversary"][0])
    return figures.behaviour_density(first.filter(pl.col("n") == first["n"][0]))


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
