"""Draw the figures of several collections: exposure jointly and by each alone, and what each adds to the others."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from poolscope.figures import style
from poolscope.figures.charts import EXPOSED_AT, MAX_POINTS, ZOOM
from poolscope.figures.grammar import field, mark
from poolscope.figures.saving import Figure
from poolscope.figures.style import Picture, between, percent, tooltip
from poolscope.game.collections import JOINT
from poolscope.game.columns import NON_PRIVATE
from poolscope.inference.thresholds import in_percent
from poolscope.workflows.audit.collections import collection_exposure
from poolscope.workflows.audit.run_folder import Run


def collection_pictures(run: Run) -> Iterator[Figure]:
    """Yield the figures of the collections; nothing where there is a single one."""
    about = run.summary.collections
    if about is None:
        return
    level = in_percent(run.summary.results[0].exposed_at)
    yield Figure(
        name="collections",
        title="Exposure by collection",
        caption=f"Share of users exposed (confidence ≥ {level} at least once, correct or not), from the reports of all "
        f"collections together and of each alone. Square-root axis, 95% CI shaded. {ZOOM}",
        chart=collection_curves(collection_exposure(run.outcomes, run.summary)),
    )
    rows = pl.DataFrame([record.flat() for record in about.contributions])
    private = rows.filter(pl.col("adversary") != NON_PRIVATE)
    yield Figure(
        name="contributions",
        title="What each collection adds",
        caption="Mean log-odds of the true value from all collections, minus those without the collection. Above 0, "
        "its reports help the adversary on average. Bars are 95% CIs.",
        chart=contribution_plot(rows if private.is_empty() else private),
    )


def _colors(names: list[str]) -> dict[str, str]:
    """Return a color for each collection; all together are dark."""
    alone = [name for name in names if name != JOINT]
    return {JOINT: style.EXPOSURE_COLORS[-1]} | dict(zip(alone, style.colors_of_pools(len(alone)), strict=True))


def collection_curves(table: pl.DataFrame, *, n: int | None = None) -> Picture:
    """Return the share of users exposed against days: a panel per adversary, a line per collection and for all.

    Parameters
    ----------
    table : DataFrame
        Columns adversary, collection, n, share, low, high and users.
    n : int, optional
        A day to mark with a line.
    """
    names = table["collection"].unique(maintain_order=True).to_list()
    colors, horizon = _colors(names), int(table["n"].to_numpy().max())
    kept = np.unique(np.linspace(0, horizon, MAX_POINTS).round().astype(np.int64))
    shown = table.filter(pl.col("n").is_in(kept)).rename({"collection": "line"})
    look = style.line_legend(colors)
    x = field("n:Q", scale={"domain": [0, horizon], "nice": False}, axis={"title": "Days (n)", "tickMinStep": 1})
    y = field(
        "share:Q",
        scale=style.share_scale(type="sqrt"),
        axis=style.percent_axis("Users exposed", values=EXPOSED_AT, labelOverlap=False),
    )
    hint = tooltip(
        {"Users exposed": percent("datum.share"), "95% CI": between(), "Days": "format(datum.n, ',')"},
        title="datum.line",
    )
    band = mark("area", opacity=0.16, clip=True).encode(
        x=x, y=field("low:Q"), y2=field("high"), fill=style.fills(colors)
    )
    line = mark("line", strokeWidth=2, clip=True).encode(x=x, y=y, **look).define(style.zoom())
    tables = {"rows": shown.select("adversary", "line", "n", "share", "low", "high", "users")}
    order = table["adversary"].unique(maintain_order=True).to_list()
    layers = [band, line, style.pointer(x, y, colors, hint)]
    if n is not None:
        tables["mark"] = pl.DataFrame({"n": [n]})
        marked = mark("rule", data="mark", stroke=style.MUTED, strokeWidth=1.5, strokeDash=list(style.DASHED))
        layers.insert(0, marked.encode(x=x))
    return style.panels(layers, tables, "adversary", order, legend=list(colors))


def collection_auc(table: pl.DataFrame) -> Picture:
    """Return AUC-PN against days: a panel per adversary, a line per collection and for all, with 95% CIs.

    Parameters
    ----------
    table : DataFrame
        Columns adversary, n, collection, auc_pn, auc_pn_low and auc_pn_high.
    """
    return _by_day(table, "auc_pn", "AUC-PN")


def contribution_plot(table: pl.DataFrame) -> Picture:
    """Return what each collection adds in log-odds against days: a panel per adversary, with 95% CIs.

    Parameters
    ----------
    table : DataFrame
        Contributions with columns adversary, n, collection, log_odds, log_odds_low and log_odds_high.
    """
    return _by_day(table, "log_odds", "Log-odds added")


def _by_day(table: pl.DataFrame, estimate: str, title: str) -> Picture:
    """Return an estimate against days: a panel per adversary, a line with bars per collection."""
    names = table["collection"].unique(maintain_order=True).to_list()
    colors = {name: color for name, color in _colors(names).items() if name in names}
    shown = table.select(
        "adversary",
        "n",
        pl.col("collection").alias("line"),
        *(pl.col(f"{estimate}{end}").alias(name) for end, name in (("", "value"), ("_low", "low"), ("_high", "high"))),
    )
    look = style.line_legend(colors)
    x = field("n:Q", scale={"nice": False, "zero": True}, axis={"title": "Days (n)", "tickMinStep": 1})
    y = field("value:Q", axis={"title": title, "tickCount": 5})
    hint = tooltip(
        {
            title: "format(datum.value, '.3f')",
            "95% CI": "format(datum.low, '.3f') + ' to ' + format(datum.high, '.3f')",
            "Days": "format(datum.n, ',')",
        },
        title="datum.line",
    )
    bars = mark("rule", strokeWidth=1.5).encode(x=x, y=field("low:Q"), y2=field("high"), **look)
    line = mark("line", strokeWidth=2, clip=True).encode(x=x, y=y, **look)
    order = table["adversary"].unique(maintain_order=True).to_list()
    layers = [bars, line, style.pointer(x, y, colors, hint)]
    return style.panels(layers, {"rows": shown}, "adversary", order, legend=list(colors))
