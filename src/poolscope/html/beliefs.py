"""The picture of what is believed about one user, report by report."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl

from poolscope.core.errors import one_line
from poolscope.html import style
from poolscope.html.style import Picture, answer, percent


@style.quickly
def belief_growth(table: pl.DataFrame, lines: Sequence[str], *, points: bool = False) -> Picture:
    """How the belief about one user grows: a line for each pool, or for each adversary's confidence.

    Who shows the chart may set its parameter ``upto``: what comes after so many reports is left out.

    Parameters
    ----------
    table : DataFrame
        n, line, posterior: one row per number of reports and line.
    lines : sequence of str
        The lines, in the order of the legend.
    points : bool
        Whether to mark every row, where there are few.

    Examples
    --------
    >>> beliefs = {"n": [0, 0, 1, 1], "line": ["light", "dark"] * 2, "posterior": [0.5, 0.5, 0.9, 0.1]}
    >>> ps.figures.save(ps.figures.belief_growth(pl.DataFrame(beliefs), ["light", "dark"]), "belief.svg")
    """
    names = [one_line(str(line)) for line in lines]
    colours = dict(zip(names, style.colours_of_pools(len(names)), strict=True))
    look, horizon = style.keys(colours), int(table["n"].to_numpy().max())
    x = alt.X(
        "n:Q", scale=alt.Scale(domain=[0, max(horizon, 1)], nice=False), axis=alt.Axis(title="Reports", tickMinStep=1)
    )
    y = alt.Y("posterior:Q", scale=style.share_scale(), axis=style.percent_axis("Belief"))
    said = answer({"Belief": percent("datum.posterior"), "After": "format(datum.n, ',')"}, title="datum.line")
    there = "datum.n <= upto"
    line = style.layer().mark_line(strokeWidth=2, point=points, clip=True).encode(x=x, y=y, **look)
    layers = [
        line.transform_filter(there).add_params(alt.param(name="upto", value=horizon)),
        style.pointer(x, y, colours, said).transform_filter(there),
    ]
    return style.single(layers, table, height=style.PANEL, legend=names)
