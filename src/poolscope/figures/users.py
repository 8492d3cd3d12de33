"""Draw one user's posterior by report, and the popularity of every object."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from poolscope.core.errors import one_line
from poolscope.figures import style
from poolscope.figures.grammar import field, mark
from poolscope.figures.style import Picture, percent, tooltip
from poolscope.population.universe import NEUTRAL


def belief_growth(
    table: pl.DataFrame, lines: Sequence[str], *, points: bool = False, threshold: float | None = None
) -> Picture:
    """Return the posterior of one user by report: a line for each pool, or for each adversary's confidence.

    Set the parameter ``upto`` of the chart to hide later reports.

    Parameters
    ----------
    table : DataFrame
        n, line, posterior: one row per number of reports and line.
    lines : sequence of str
        The lines, in the order of the legend.
    points : bool
        Whether to mark every row, where there are few.
    threshold : float, optional
        A confidence to mark with a dashed line.

    Examples
    --------
    >>> beliefs = {"n": [0, 0, 1, 1], "line": ["light", "dark"] * 2, "posterior": [0.5, 0.5, 0.9, 0.1]}
    >>> ps.figures.save(ps.figures.belief_growth(pl.DataFrame(beliefs), ["light", "dark"]), "belief.svg")
    """
    names = [one_line(str(line)) for line in lines]
    colors = dict(zip(names, style.colors_of_pools(len(names)), strict=True))
    look, horizon = style.line_legend(colors), int(table["n"].to_numpy().max())
    x = field("n:Q", scale={"domain": [0, max(horizon, 1)], "nice": False}, axis={"title": "Reports", "tickMinStep": 1})
    y = field("posterior:Q", scale=style.share_scale(), axis=style.percent_axis("Belief"))
    hint = tooltip({"Belief": percent("datum.posterior"), "After": "format(datum.n, ',')"}, title="datum.line")
    there = "datum.n <= upto"
    line = mark("line", strokeWidth=2, point=points, clip=True).encode(x=x, y=y, **look)
    layers = [
        line.where(there).define({"name": "upto", "value": horizon}),
        style.pointer(x, y, colors, hint).where(there),
    ]
    if threshold is not None:
        limit = mark("rule", stroke=style.MUTED, strokeWidth=1.5, strokeDash=list(style.DASHED))
        layers.insert(0, limit.encode(y={"datum": threshold}))
    return style.single(layers, table, height=style.PANEL, legend=names)


def popularity_plot(popularity: ArrayLike, pool_of: ArrayLike, pool_names: Sequence[str]) -> Picture:
    """Return the popularity of every object, grouped and colored by pool, on a logarithmic scale.

    Parameters
    ----------
    popularity : array_like of float, shape (objects,)
        Objects of popularity 0 are left out.
    pool_of : array_like of int, shape (objects,)
        Index of each object's pool in ``pool_names``, -1 for the neutral pool.
    pool_names : sequence of str

    Examples
    --------
    >>> chart = ps.figures.popularity_plot(popularity, universe.pool_of, universe.pool_names)
    """
    weights, pools = np.asarray(popularity, dtype=np.float64), np.asarray(pool_of)
    named = [*enumerate(map(one_line, pool_names)), (NEUTRAL, "neutral")]
    palette = [*style.colors_of_pools(len(pool_names)), style.MUTED]
    colors = {name: color for (index, name), color in zip(named, palette, strict=True) if (pools == index).any()}
    order = np.concatenate([np.flatnonzero(pools == index) for index, _ in named])
    table = pl.DataFrame(
        {
            "place": np.arange(order.size),
            "popularity": weights[order],
            "line": [dict(named)[int(index)] for index in pools[order]],
        }
    ).filter(pl.col("popularity") > 0)
    hint = tooltip({"Popularity": "format(100 * datum.popularity, '.3~g') + '%'"}, title="datum.line")
    points = (
        mark("point", filled=True, size=8, opacity=1, tooltip={"expr": hint}, clip=True)
        .encode(
            x=field(
                "place:Q",
                axis={"title": "Objects, pool by pool", "grid": False},
                scale={"domain": [0, max(order.size - 1, 1)], "nice": False},
            ),
            y=field(
                "popularity:Q",
                scale={"type": "log"},
                axis=style.percent_axis("Popularity", values=[10.0**power for power in range(-9, 1)]),
            ),
            color=field(
                "line:N",
                scale={"domain": list(colors), "range": list(colors.values())},
                legend={"symbolType": "circle", "symbolSize": 60, "symbolStrokeWidth": 0},
            ),
        )
        .define(style.zoom())
    )
    return style.single([points], table, height=style.PANEL, legend=list(colors))
