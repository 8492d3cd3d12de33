"""The picture of the trade-off between the two errors of a test."""

from __future__ import annotations

import altair as alt
import numpy as np
import polars as pl

from poolscope.html import style
from poolscope.html.style import Picture, answer, percent

MOST_CORNERS = 200
"""Corners of one curve: more cannot be seen."""

NOTHING = "no information"
"""The line of tests that ignore the reports."""


@style.quickly
def trade_off_curves(table: pl.DataFrame) -> Picture:
    """False negative rate against false positive rate of the best test, a line per n.

    Parameters
    ----------
    table : DataFrame
        ``metrics.trade_off`` of each number of reports, with column n.

    Examples
    --------
    >>> curves = [ps.metrics.trade_off(1.0, n).table().with_columns(n=pl.lit(n)) for n in (1, 7, 30)]
    >>> ps.figures.save(ps.figures.trade_off_curves(pl.concat(curves)), "trade-off.svg")
    """
    lines = {f"n = {n:,}": colour for n, colour in style.shades_of(table["n"].unique().to_list()).items()}
    colours = lines | {NOTHING: style.MUTED}
    shown = pl.concat(map(_thinned, table.partition_by("n", maintain_order=True))).with_columns(
        line=pl.col("n").map_elements(lambda n: f"n = {n:,}", return_dtype=pl.String)
    )
    blind = pl.DataFrame({"fpr": [0.0, 1.0], "fnr": [1.0, 0.0], "line": [NOTHING] * 2})
    look = style.keys(colours, dashed=[NOTHING])
    x = alt.X("fpr:Q", scale=style.share_scale(), axis=style.percent_axis("False positive rate (FPR)"))
    y = alt.Y("fnr:Q", scale=style.share_scale(), axis=style.percent_axis("False negative rate (FNR)"))
    said = answer(
        {"FPR": percent("datum.fpr", ".3~g"), "FNR at least": percent("datum.fnr", ".3~g")}, title="datum.line"
    )
    layers = [
        style.layer().mark_line(strokeWidth=2, clip=True).encode(x=x, y=y, order=alt.Order("fpr:Q"), **look),
        style.pointer(x, y, colours, said),
    ]
    return style.single(layers, pl.concat([shown.select(blind.columns), blind]), height=300, legend=list(colours))


def _thinned(curve: pl.DataFrame) -> pl.DataFrame:
    """Corners of one curve, evenly along it where there are many."""
    along = (curve["fpr"] - curve["fnr"]).to_numpy()
    kept = np.unique(np.searchsorted(along, np.linspace(along[0], along[-1], MOST_CORNERS)))
    return curve.filter(pl.Series(np.isin(np.arange(curve.height), kept)))
