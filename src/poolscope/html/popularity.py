"""The picture of how popular every object is."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from poolscope.core.errors import one_line
from poolscope.html import style
from poolscope.html.style import Picture, answer
from poolscope.population.universe import NEUTRAL


@style.quickly
def popularity_plot(popularity: ArrayLike, pool_of: ArrayLike, pool_names: Sequence[str]) -> Picture:
    """Popularity of every object, grouped and coloured by pool, on a logarithmic scale.

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
    palette = [*style.colours_of_pools(len(pool_names)), style.MUTED]
    colours = {name: colour for (index, name), colour in zip(named, palette, strict=True) if (pools == index).any()}
    order = np.concatenate([np.flatnonzero(pools == index) for index, _ in named])
    table = pl.DataFrame(
        {
            "place": np.arange(order.size),
            "popularity": weights[order],
            "line": [dict(named)[int(index)] for index in pools[order]],
        }
    ).filter(pl.col("popularity") > 0)
    said = answer({"Popularity": "format(100 * datum.popularity, '.3~g') + '\u202f%'"}, title="datum.line")
    points = (
        style.layer()
        .mark_point(filled=True, size=8, opacity=1, tooltip=alt.ExprRef(said), clip=True)
        .encode(
            x=alt.X(
                "place:Q",
                axis=alt.Axis(title="Objects, pool by pool", grid=False),
                scale=alt.Scale(domain=[0, max(order.size - 1, 1)], nice=False),
            ),
            y=alt.Y(
                "popularity:Q",
                scale=alt.Scale(type="log"),
                axis=style.percent_axis("Popularity", values=[10.0**power for power in range(-9, 1)]),
            ),
            color=alt.Color(
                "line:N",
                scale=alt.Scale(domain=list(colours), range=list(colours.values())),
                legend=alt.Legend(symbolType="circle", symbolSize=60, symbolStrokeWidth=0),
            ),
        )
        .add_params(style.zoom())
    )
    return style.single([points], table, height=style.PANEL, legend=list(colours))
