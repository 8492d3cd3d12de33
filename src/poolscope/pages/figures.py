"""The figures of a run. Each function takes a tidy table and returns a matplotlib ``Figure``.

No pyplot, so no global state and no window. Panels stand side by side, ``columns`` to a row;
with ``columns=1`` a figure is as wide as one column of a paper and is still readable.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, LogNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import ArrayLike, NDArray

from poolscope.base.errors import one_line
from poolscope.game.columns import NON_PRIVATE
from poolscope.pages import style
from poolscope.pages.style import FAINT, INK, MUTED, STYLE
from poolscope.world.universe import NEUTRAL

FEWEST = 20
"""Users below which a point of a precision or calibration curve is noise and is left out."""

PANEL = 2.5
"""Inches: the height of a panel with curves."""

GAMMA, DELTA = "Relevant interest γ", "Polarization δ"

NON_PRIVATE_LINE: dict[str, Any] = {"color": "#afb8c1", "linewidth": 0.8}

MOST_POINTS = 300
"""Points of one exposure curve: more cannot be seen."""


__all__ = [
    "behaviour_density",
    "behaviour_maps",
    "calibration_plot",
    "exposure_curves",
    "popularity_plot",
    "precision_null_rate",
    "save",
]


@mpl.rc_context(STYLE)
def precision_null_rate(curves: pl.DataFrame, k: int, *, columns: int = 3) -> Figure:
    """Precision against null rate: a panel per adversary, a line per n with its interval.

    Parameters
    ----------
    curves : DataFrame
        ``metrics.precision_curve`` of each attack, with columns adversary and n. The non-private
        game has no panel of its own: its curves stand in grey behind the others.
    k : int
        Number of pools; the baseline is 1/k.
    columns : int
        Panels to a row.
    """
    curves = _without_noise(curves)
    free = curves.filter(pl.col("adversary") == NON_PRIVATE)
    private = curves.filter(pl.col("adversary") != NON_PRIVATE)
    shown = curves if private.is_empty() else private
    adversaries = _in_order(shown["adversary"])
    colours = style.colours_of(_in_order(curves["n"]))
    dashes = style.dashes_of(adversaries)
    figure, axes = style.panels(
        adversaries,
        columns,
        PANEL,
        x="Users without a guess (null rate)",
        y="Guesses that are right (precision)",
        sharey=True,
    )
    for adversary, axis in zip(adversaries, axes, strict=True):
        axis.axhline(1 / k, **style.REFERENCE)
        if shown is private:
            for _, curve in free.group_by("n", maintain_order=True):
                axis.plot(curve["null_rate"], curve["precision"], **NON_PRIVATE_LINE)
        for (n,), curve in shown.filter(pl.col("adversary") == adversary).group_by("n", maintain_order=True):
            _line_with_band(axis, curve, "null_rate", "precision", colours[n], dashes[adversary])
        style.percent_axes(axis, x=True, y=True)
    handles = [_key(f"n = {n}", color=colour) for n, colour in colours.items()]
    if shown is private and not free.is_empty():
        handles.append(_key(NON_PRIVATE, **NON_PRIVATE_LINE))
    handles.append(_key(f"random guess, 1/{k}", **style.REFERENCE))
    style.legend_above(figure, handles)
    return figure


@mpl.rc_context(STYLE)
def calibration_plot(table: pl.DataFrame, *, columns: int = 3) -> Figure:
    """Success rate against confidence: a panel per adversary, a line per n with its intervals.

    Parameters
    ----------
    table : DataFrame
        ``calibration.calibration`` of each attack, with columns adversary and n.
    columns : int
        Panels to a row.
    """
    adversaries = _in_order(table["adversary"])
    colours = style.colours_of(_in_order(table["n"]))
    dashes = style.dashes_of(adversaries)
    # Only now: an adversary with few users keeps its panel.
    table = _without_noise(table)
    figure, axes = style.panels(
        adversaries,
        columns,
        PANEL,
        x="Confidence of the adversary",
        y="Guesses that are right",
        sharey=True,
    )
    for adversary, axis in zip(adversaries, axes, strict=True):
        axis.plot([0, 1], [0, 1], **style.REFERENCE)
        for (n,), line in table.filter(pl.col("adversary") == adversary).group_by("n", maintain_order=True):
            x, y = line["confidence"], line["success"]
            axis.vlines(x, line["low"], line["high"], color=colours[n], linewidth=0.7, alpha=0.55)
            axis.plot(
                x,
                y,
                color=colours[n],
                linestyle=dashes[adversary],
                marker="o",
                markersize=2.4,
                linewidth=1.1,
            )
        style.percent_axes(axis, x=True, y=True)
    handles = [_key(f"n = {n}", color=colour, marker="o", markersize=2.4) for n, colour in colours.items()]
    handles.append(_key("perfect calibration", **style.REFERENCE))
    style.legend_above(figure, handles)
    return figure


@mpl.rc_context(STYLE)
def behaviour_maps(table: pl.DataFrame, k: int, *, columns: int = 4) -> Figure:
    """Precision over relevant interest and polarization: a panel per n, one scale for all.

    Parameters
    ----------
    table : DataFrame
        ``metrics.behaviour_map`` of one adversary, with column n.
    k : int
        Number of pools; a line on the colour bar marks the baseline 1/k.
    columns : int
        Panels to a row.
    """
    counts = _in_order(table["n"])
    narrow = columns <= 2
    figure, axes = style.panels(
        [f"n = {n}" for n in counts],
        columns,
        1.55 if narrow else 1.75,
        x=GAMMA,
        y=DELTA,
        sharey=True,
    )
    if narrow:
        figure.set_figwidth(style.COLUMN)
    colours = style.precision_map()
    norm = BoundaryNorm(np.linspace(0, 1, colours.N + 1), colours.N)
    for n, axis in zip(counts, axes, strict=True):
        cells = table.filter(pl.col("n") == n)
        gamma, delta = (_edges(cells, name) for name in ("gamma", "delta"))
        # One row of the mesh is one delta; the table has delta fastest.
        share = cells["precision"].to_numpy().reshape(gamma.size - 1, delta.size - 1).T
        axis.set_facecolor(FAINT)
        mesh = axis.pcolormesh(
            gamma,
            delta,
            np.ma.masked_invalid(share),
            cmap=colours,
            norm=norm,
            edgecolors="face",
            linewidth=0.4,
        )
        axis.grid(False)
        axis.set_xlim(0, 1)
        axis.set_ylim(1 / k, 1)
        axis.set_xticks([0, 0.5, 1])
    bar = figure.colorbar(
        mesh,
        ax=axes,
        ticks=np.linspace(0, 1, 6),
        format=style.PERCENT,
        label="Precision",
        location="bottom" if narrow else "right",
        fraction=0.06,
        aspect=28,
        pad=0.02,
    )
    bar.outline.set_visible(False)
    bar.minorticks_off()
    mark = bar.ax.axvline if narrow else bar.ax.axhline
    mark(1 / k, color=INK, linewidth=1)
    if (table["users"] == 0).any():
        style.legend_above(figure, [Patch(facecolor=FAINT, label="no users")])
    return figure


@mpl.rc_context(STYLE)
def exposure_curves(table: pl.DataFrame, *, columns: int = 3) -> Figure:
    """Share of users exposed against reports sent: a panel per adversary, a line per threshold.

    Parameters
    ----------
    table : DataFrame
        ``metrics.exposure`` of each adversary, with column adversary.
    columns : int
        Panels to a row.
    """
    adversaries = _in_order(table["adversary"])
    thresholds = sorted(_in_order(table["threshold"]))
    colours = dict(zip(thresholds, style.EXPOSURE_COLOURS, strict=False))
    dashes = style.dashes_of(adversaries)
    horizon = int(table["n"].to_numpy().max())
    kept = np.unique(np.linspace(0, horizon, MOST_POINTS).round().astype(np.int64))
    table = table.filter(pl.col("n").is_in(kept))
    figure, axes = style.panels(adversaries, columns, PANEL, x="Reports sent", y="Users exposed by then", sharey=True)
    for adversary, axis in zip(adversaries, axes, strict=True):
        for (threshold,), line in table.filter(pl.col("adversary") == adversary).group_by(
            "threshold", maintain_order=True
        ):
            _line_with_band(axis, line, "n", "share", colours[threshold], dashes[adversary])
        style.percent_axes(axis, x=False, y=True)
        axis.set_xlim(0, horizon)
    style.legend_above(
        figure,
        [_key(f"confidence of {100 * t:.0f} % or more", color=c) for t, c in colours.items()],
    )
    return figure


@mpl.rc_context(STYLE)
def popularity_plot(popularity: ArrayLike, pool_of: ArrayLike, pool_names: Sequence[str]) -> Figure:
    """Popularity of every object, grouped and coloured by pool, on a logarithmic scale.

    Parameters
    ----------
    popularity : array_like of float, shape (objects,)
        Objects of popularity 0 are left out.
    pool_of : array_like of int, shape (objects,)
        Index of each object's pool in ``pool_names``, -1 for the neutral pool.
    pool_names : sequence of str
    """
    weights, pools = np.asarray(popularity, dtype=np.float64), np.asarray(pool_of)
    figure, (axis,) = style.panels([""], 1, 2.4, x="Objects, pool by pool", y="Popularity")
    figure.set_figwidth(style.PAGE)
    parts = list(enumerate(zip(pool_names, style.colours_of_pools(len(pool_names)), strict=True)))
    handles, start = [], 0
    for index, (name, colour) in [*parts, (NEUTRAL, ("neutral", MUTED))]:
        members = weights[pools == index]
        if not members.size:
            continue
        place = np.arange(start, start + members.size)
        start += members.size
        shown = members > 0
        axis.plot(
            place[shown],
            members[shown],
            ".",
            color=colour,
            markersize=2,
            markeredgewidth=0,
            rasterized=weights.size > 10_000,
        )
        handles.append(_key(name, color=colour, linestyle="none", marker="o", markersize=4))
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter(style.POWERS_OF_TEN)
    axis.set_xlim(0, max(start - 1, 1))
    figure.legend(handles=handles, loc="outside right upper", handletextpad=0.2)
    return figure


@mpl.rc_context(STYLE)
def behaviour_density(rows: pl.DataFrame, *, cells: int = 20) -> Figure:
    """Joint distribution of the users' relevant interest and polarization.

    Parameters
    ----------
    rows : DataFrame
        One row per user, with columns gamma and delta.
    cells : int
        Cells along each axis.
    """
    users, gamma, delta = np.histogram2d(
        rows["gamma"].to_numpy(), rows["delta"].to_numpy(), bins=cells, range=((0, 1), (0, 1))
    )
    share = users.T / rows.height
    figure, (axis,) = style.panels([""], 1, PANEL, x=GAMMA, y=DELTA)
    # From one user to the fullest cell: recorded users crowd in a corner.
    norm = LogNorm(1 / rows.height, max(share.max(), 2 / rows.height))
    mesh = axis.pcolormesh(
        gamma,
        delta,
        np.ma.masked_equal(share, 0),
        cmap=style.PRECISION_MAP,
        norm=norm,
        edgecolors="face",
        linewidth=0.4,
    )
    bar = figure.colorbar(mesh, ax=axis, label="Share of users in a cell", aspect=28, pad=0.02)
    bar.ax.yaxis.set_major_formatter(style.POWERS_OF_TEN)
    bar.outline.set_visible(False)
    return figure


def save(figure: Figure, path: str | PathLike[str]) -> None:
    """Write a figure as SVG, the same bytes every time."""
    Path(path).write_text(style.to_svg(figure), encoding="utf-8")


def _in_order(column: pl.Series) -> list[Any]:
    """Distinct values by first appearance."""
    return column.unique(maintain_order=True).to_list()


def _without_noise(table: pl.DataFrame) -> pl.DataFrame:
    """Rows with enough users, or the fullest rows of a run that has too few anywhere."""
    return table.filter(pl.col("users") >= min(FEWEST, int(table["users"].to_numpy().max())))


def _edges(cells: pl.DataFrame, name: str) -> NDArray[np.float64]:
    """Cell borders along one axis of a behaviour map."""
    return np.unique(cells.select(f"{name}_low", f"{name}_high").to_numpy())


def _line_with_band(axis: Axes, line: pl.DataFrame, x: str, y: str, colour: str, dash: object) -> None:
    axis.fill_between(line[x], line["low"], line["high"], color=colour, alpha=0.16, linewidth=0)
    axis.plot(line[x], line[y], color=colour, linestyle=dash, linewidth=1.4)


def _key(label: str, **line: Any) -> Line2D:
    """A legend entry."""
    return Line2D([], [], **{"linewidth": 1.4, **line}, label=one_line(label))
