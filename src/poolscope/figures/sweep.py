"""Draw a sweep: any column of its results against any key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import polars as pl

from poolscope.core.errors import InputError, did_you_mean
from poolscope.figures import style
from poolscope.figures.grammar import Spec, field, mark
from poolscope.figures.saving import Figure, slug
from poolscope.figures.style import Picture, tooltip

if TYPE_CHECKING:
    from poolscope.workflows.sweep import Sweep

NAMES = ("adversary", "mechanism.kind")
"""Columns whose values need no explanation."""

USUAL = ("auc_pn", "exposed_90")
"""Columns that a folder's figures show."""


def sweep_plot(
    results: pl.DataFrame,
    y: str = "auc_pn",
    x: str | None = None,
    *,
    color: str = "adversary",
    panel: str | None = None,
) -> Picture:
    """Return a column of a sweep against a key: the mean over all rows of a value, and the range of their intervals.

    Parameters
    ----------
    results : DataFrame
        ``Sweep.results``, or some of its rows: filter by adversary, n or another key first.
    y : str
        A numeric column. Bars show the means of ``y_low`` and ``y_high`` where these exist, otherwise the smallest and
        the largest value.
    x : str, optional
        A key or another column, by default the first varied key.
    color, panel : str
        Columns that distinguish lines and panels.

    Examples
    --------
    >>> done = ps.sweep(ps.load_scenario("apple-emojis"), {"mechanism.epsilon": [1, 4]}, users=20)
    >>> ps.figures.save(ps.figures.sweep_plot(done.results.filter(n=180)), "sweep.svg", width="column")
    """
    x = results.columns[0] if x is None else x
    for name in (y, x, color, *([] if panel is None else [panel])):
        if name not in results.columns:
            remedy = did_you_mean(name, results.columns)
            raise InputError("must be a column of the results", value=name, remedy=remedy)
    if not results[y].dtype.is_numeric():
        raise InputError("must be a numeric column", value=y, place="y")
    if results.is_empty():
        raise InputError("must have at least one row", place="results")
    has_ends = {f"{y}_low", f"{y}_high"} <= set(results.columns)
    low, high = (
        (pl.col(f"{y}_low").mean(), pl.col(f"{y}_high").mean()) if has_ends else (pl.col(y).min(), pl.col(y).max())
    )
    groups = list(dict.fromkeys([x, color, *([] if panel is None else [panel])]))
    table = results.group_by(groups, maintain_order=True).agg(y=pl.col(y).mean(), low=low, high=high, rows=pl.len())
    # names of columns come from scenarios: none is part of an expression
    across = pl.col(x) if results[x].dtype.is_numeric() else pl.col(x).cast(pl.String)
    table = table.select(
        across.alias("x"),
        _labels(color).alias("line"),
        (_labels(panel) if panel else pl.lit("")).alias("panel"),
        "y",
        "low",
        "high",
        "rows",
    )
    numeric = table["x"].dtype.is_numeric()
    lines = list(dict.fromkeys(table["line"]))
    colors = dict(zip(lines, style.colors_of_pools(len(lines)), strict=True))
    look = style.line_legend(colors)
    kind = "Q" if numeric else "N"
    along: Spec = {"scale": {"zero": False}} if numeric else {"sort": list(dict.fromkeys(table["x"]))}
    axis_x, axis_y = (
        field(f"x:{kind}", axis={"title": x}, **along),
        field("y:Q", scale={"zero": False}, axis={"title": y}),
    )
    hint = tooltip(
        {
            y: "format(datum.y, '.4~g')",
            "interval" if has_ends else "range": "format(datum.low, '.4~g') + '–' + format(datum.high, '.4~g')",
            "rows": "format(datum.rows, ',')",
        },
        title="datum.line",
    )
    layers = [
        mark("rule", strokeWidth=1, opacity=0.6).encode(
            x=axis_x, y=field("low:Q"), y2=field("high"), stroke=look["stroke"]
        ),
        mark("line", strokeWidth=1.6).encode(x=axis_x, y=axis_y, **look),
        mark("point", filled=True, size=40, opacity=1, tooltip={"expr": hint}).encode(
            x=axis_x, y=axis_y, fill=style.fills(colors)
        ),
    ]
    if panel is None:
        return style.single(layers, table, height=280, legend=lines)
    return style.panels(layers, {"rows": table}, "panel", list(dict.fromkeys(table["panel"])), legend=lines)


def _labels(column: str) -> pl.Expr:
    """Return the values of a column as labels: names as they are, other values after the name of their key."""
    values = pl.col(column).cast(pl.String)
    return values if column in NAMES else pl.format("{} = {}", pl.lit(column), values)


def pictures(sweep: Sweep) -> Iterator[Figure]:
    """Yield the usual columns at the largest n against each key that has several values."""
    last = sweep.results.filter(pl.col("n") == pl.col("n").max())
    for key, values in sweep.plan.vary.items():
        others = [other for other, some in sweep.plan.vary.items() if other != key and len(some) > 1]
        if len(values) > 1:
            for y in USUAL:
                yield Figure(
                    name=f"{y.replace('_', '-')}-by-{slug(key)}",
                    title=f"{y} against {key}",
                    caption=_caption(sweep.plan.seeds, others),
                    chart=sweep_plot(last, y, key),
                )


def _caption(seeds: Sequence[int], others: Sequence[str]) -> str:
    over = " and ".join([f"{len(seeds)} seed{'s' * (len(seeds) > 1)}", *(f"all values of {key}" for key in others)])
    return f"Mean over {over}, at the largest n; bars are mean ends of the 95% CI."
