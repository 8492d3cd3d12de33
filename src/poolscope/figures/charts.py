"""Draw the figures of a run: each function takes a tidy table and returns a Vega-Lite specification.

A chart has a panel for each adversary or observation count; a report and ``save`` place as many in a row as fit. A
tooltip shows the value of a point, its 95% CI and the number of users.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from poolscope.core.counting import MIN_USERS
from poolscope.figures import style
from poolscope.figures.grammar import Layer, Spec, field, mark
from poolscope.figures.style import Picture, between, percent, tooltip
from poolscope.game.columns import NON_PRIVATE
from poolscope.inference.thresholds import in_percent

MAX_CORNERS = 200
"""Vertices of one curve; more are not visible."""

NOTHING = "no information"
"""Name of the line of tests that ignore the reports."""


def trade_off_curves(table: pl.DataFrame) -> Picture:
    """Return the false negative rate against the false positive rate of the best test, a line per n.

    Parameters
    ----------
    table : DataFrame
        ``metrics.bounds`` of each number of reports, with column n.

    Examples
    --------
    >>> curves = [ps.metrics.trade_off(1.0, n).table().with_columns(n=pl.lit(n)) for n in (1, 7, 30)]
    >>> ps.figures.save(ps.figures.trade_off_curves(pl.concat(curves)), "trade-off.svg")
    """
    lines = {f"n = {n:,}": color for n, color in style.shades_of(table["n"].unique().to_list()).items()}
    colors = lines | {NOTHING: style.MUTED}
    shown = pl.concat(map(_thinned, table.partition_by("n", maintain_order=True))).with_columns(
        line=pl.col("n").map_elements(lambda n: f"n = {n:,}", return_dtype=pl.String)
    )
    blind = pl.DataFrame({"fpr": [0.0, 1.0], "fnr": [1.0, 0.0], "line": [NOTHING] * 2})
    look = style.line_legend(colors, dashed=[NOTHING])
    x = field("fpr:Q", scale=style.share_scale(), axis=style.percent_axis("False positive rate (FPR)"))
    y = field("fnr:Q", scale=style.share_scale(), axis=style.percent_axis("False negative rate (FNR)"))
    hint = tooltip(
        {"FPR": percent("datum.fpr", ".3~g"), "FNR at least": percent("datum.fnr", ".3~g")}, title="datum.line"
    )
    layers = [
        mark("line", strokeWidth=2, clip=True).encode(x=x, y=y, order=field("fpr:Q"), **look),
        style.pointer(x, y, colors, hint),
    ]
    return style.single(layers, pl.concat([shown.select(blind.columns), blind]), height=300, legend=list(colors))


def _thinned(curve: pl.DataFrame) -> pl.DataFrame:
    """Return the vertices of one curve, evenly spaced where there are many."""
    along = (curve["fpr"] - curve["fnr"]).to_numpy()
    kept = np.unique(np.searchsorted(along, np.linspace(along[0], along[-1], MAX_CORNERS)))
    return curve.filter(pl.Series(np.isin(np.arange(curve.height), kept)))


QUARTERS = (0, 0.25, 0.5, 0.75, 1)

GAMMA, DELTA = "Relevant interest γ", "Polarization δ"

MAX_POINTS = 200
"""Points of one exposure curve; more are not visible."""

MAX_TOOLTIPS = 50
"""Points of one curve with a tooltip."""

EXPOSED_AT = (0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1)
"""Ticks of the exposure axis."""

ZOOM = "Shift and scroll to zoom, drag to move, double-click to reset."
"""Instructions in the caption of a figure that zooms."""


def precision_null_rate(curves: pl.DataFrame, k: int) -> Picture:
    """Return precision against null rate: a panel per adversary, a line per n with its 95% CI.

    Parameters
    ----------
    curves : DataFrame
        ``metrics.precision_curve`` of each attack, with columns adversary and n. The non-private game has no panel of
        its own: its curves are gray, behind the others.
    k : int
        Number of pools; the baseline is 1/k.

    Examples
    --------
    >>> curves = ps.metrics.for_each_attack(outcomes, lambda rows: ps.metrics.precision_curve(rows, seed=1))
    >>> ps.figures.save(ps.figures.precision_null_rate(curves, k=3), "precision.svg", width="column")
    """
    curves = _without_noise(curves).with_columns(_counted())
    free = curves.filter(pl.col("adversary") == NON_PRIVATE)
    private = curves.filter(pl.col("adversary") != NON_PRIVATE)
    shown, behind = (curves, free.clear()) if private.is_empty() else (private, free)
    chance = f"random guess, 1/{k}"
    colors = _shades(curves) | ({} if behind.is_empty() else {NON_PRIVATE: style.PALE}) | {chance: style.MUTED}
    look = style.line_legend(colors, dashed=[chance])
    x = field("null_rate:Q", scale=style.share_scale(), axis=style.percent_axis("Users without a guess (null rate)"))
    y = field("precision:Q", scale=style.share_scale(), axis=style.percent_axis("Correct guesses (precision)"))
    hint = tooltip(
        {
            "Correct": percent("datum.precision"),
            "95% CI": between(),
            "Users guessed": "format(datum.users, ',')",
            "Without a guess": percent("datum.null_rate"),
            "Confidence at least": percent("datum.threshold"),
        },
        title="datum.line",
    )
    tables = {"rows": _with_tooltips(shown), "chance": pl.DataFrame({"precision": [1 / k], "line": [chance]})}
    layers = [mark("rule", data="chance", strokeWidth=1.2).encode(y=field("precision:Q"), **look)]
    if not behind.is_empty():
        tables["behind"] = behind.select("n", "null_rate", "precision").with_columns(line=pl.lit(NON_PRIVATE))
        layers.append(
            mark("line", data="behind", strokeWidth=1.2).encode(
                x=x, y=y, detail=field("n:N"), order=field("null_rate:Q"), **look
            )
        )
    layers += _line_with_band(x, y, colors, look, order=field("null_rate:Q"))
    layers.append(style.pointer(x, y, colors, hint).where("datum.tooltip"))
    return style.panels(layers, tables, "adversary", _in_order(shown["adversary"]), legend=list(colors))


def calibration_plot(table: pl.DataFrame) -> Picture:
    """Return precision against confidence: a panel per adversary, a line per n with 95% CIs.

    Parameters
    ----------
    table : DataFrame
        ``calibration.calibration`` of each attack, with columns adversary and n.

    Examples
    --------
    >>> chart = ps.figures.calibration_plot(ps.metrics.for_each_attack(outcomes, ps.metrics.calibration))
    >>> sorted(chart.to_dict())[:3]
    ['$schema', 'columns', 'config']
    """
    adversaries, perfect = _in_order(table["adversary"]), "perfect calibration"
    colors = _shades(table) | {perfect: style.MUTED}
    # after the colors: an adversary with few users keeps its panel
    shown = _without_noise(table).with_columns(_counted())
    missing = [name for name in adversaries if name not in set(shown["adversary"])]
    shown = pl.concat([shown, pl.DataFrame({"adversary": missing}, schema={"adversary": pl.String})], how="diagonal")
    look = style.line_legend(colors, dashed=[perfect])
    x = field("confidence:Q", scale=style.share_scale(), axis=style.percent_axis("Confidence of the adversary"))
    y = field("success:Q", scale=style.share_scale(), axis=style.percent_axis("Correct guesses"))
    hint = tooltip(
        {
            "Correct": percent("datum.success"),
            "95% CI": between(),
            "Confidence": percent("datum.confidence"),
            "Users": "format(datum.users, ',')",
        },
        title="datum.line",
    )
    diagonal = pl.DataFrame({"confidence": [0.0, 1.0], "success": [0.0, 1.0], "line": [perfect] * 2})
    there = "isValid(datum.success)"
    layers = [
        mark("line", data="diagonal", strokeWidth=1.2).encode(x=x, y=y, **look),
        mark("rule", strokeWidth=1, opacity=0.55)
        .encode(x=x, y=field("low:Q"), y2=field("high"), stroke=look["stroke"])
        .where(there),
        mark("line", strokeWidth=1.5).encode(x=x, y=y, **look).where(there),
        mark("point", filled=True, size=16).encode(x=x, y=y, fill=style.fills(colors)).where(there),
        style.pointer(x, y, colors, hint).where(there),
    ]
    tables = {"rows": shown, "diagonal": diagonal}
    return style.panels(layers, tables, "adversary", adversaries, legend=list(colors))


def behavior_maps(table: pl.DataFrame, k: int) -> Picture:
    """Return precision by relevant interest and polarization: a panel per n, one scale for all.

    Parameters
    ----------
    table : DataFrame
        ``metrics.behavior_map`` of one adversary, with column n. Cells without users are gray.
    k : int
        Number of pools; the title of the scale names the baseline 1/k.

    Examples
    --------
    >>> table = ps.metrics.for_each_attack(outcomes, lambda rows: ps.metrics.behavior_map(rows, k=3))
    >>> ps.figures.save(ps.figures.behavior_maps(table.filter(adversary="strong"), k=3), "maps.svg")
    """
    counts = _in_order(table["n"])
    shown = table.drop("adversary", strict=False).with_columns(_counted()).filter(pl.col("users") > 0)
    hint = tooltip(
        {
            "Correct": percent("datum.precision"),
            "95% CI": between(),
            "Users": "format(datum.users, ',')",
            "Relevant interest": between("datum.gamma_low", "datum.gamma_high"),
            "Polarization": between("datum.delta_low", "datum.delta_high"),
        },
        title="datum.line",
    )
    gamma, delta = style.share_scale(), {"domain": [1 / k, 1], "nice": False}
    title = f"Correct guesses (random: {100 / k:.0f}%)"
    cells = mark("rect", tooltip={"expr": hint}).encode(
        x=field("gamma_low:Q", scale=gamma, axis=style.percent_axis(GAMMA, values=(0, 0.5, 1), grid=False)),
        x2=field("gamma_high"),
        y=field("delta_low:Q", scale=delta, axis=style.percent_axis(DELTA, values=QUARTERS, grid=False)),
        y2=field("delta_high"),
        color=field(
            "precision:Q",
            scale={"domain": [0, 1], "range": list(style.PRECISION_COLORS)},
            legend=style.gradient(title, values=[0, 0.5, 1], labelExpr=percent("datum.value", ".0f")),
        ),
    )
    titles = [f"n = {n:,}" for n in counts]
    return style.panels([cells], {"rows": shown}, "line", titles, height=150, least=170, behind=style.FAINT)


def exposure_curves(table: pl.DataFrame, *, n: int | None = None, unit: str = "report") -> Picture:
    """Return the share of users exposed against reports: a panel per adversary, a line per threshold.

    The axis of the share is a square root, which enlarges small shares.

    Parameters
    ----------
    table : DataFrame
        ``metrics.exposure`` of each adversary, with column adversary.
    n : int, optional
        A number of reports to mark with a line.
    unit : str
        What n counts, "report" or "event".

    Examples
    --------
    >>> table = ps.metrics.exposure_by_adversary(outcomes, horizon=40)
    >>> ps.figures.save(ps.figures.exposure_curves(table), "exposure.svg")
    """
    thresholds = sorted(_in_order(table["threshold"]))
    names = {threshold: f"confidence ≥ {in_percent(threshold)}" for threshold in thresholds}
    colors = dict(zip(names.values(), style.exposure_colors(len(names)), strict=True))
    horizon = int(table["n"].to_numpy().max())
    kept = np.unique(np.linspace(0, horizon, MAX_POINTS).round().astype(np.int64))
    shown = table.filter(pl.col("n").is_in(kept)).with_columns(line=pl.col("threshold").replace_strict(names))
    look = style.line_legend(colors)
    x = field(
        "n:Q",
        scale={"domain": [0, horizon], "nice": False},
        axis={"title": f"{unit.capitalize()}s (n)", "tickMinStep": 1},
    )
    y = field(
        "share:Q",
        scale=style.share_scale(type="sqrt"),
        axis=style.percent_axis("Users exposed", values=EXPOSED_AT, labelOverlap=False),
    )
    hint = tooltip(
        {
            "Users exposed": percent("datum.share"),
            "95% CI": between(),
            "n": "format(datum.n, ',')",
            "Users": "format(datum.share * datum.users, ',.0f') + ' of ' + format(datum.users, ',')",
        },
        title="datum.line",
    )
    layers = _line_with_band(x, y, colors, look)
    layers[-1] = layers[-1].define(style.zoom())
    layers.append(style.pointer(x, y, colors, hint).where("datum.tooltip"))
    tables = {"rows": _with_tooltips(shown.select("adversary", "line", "n", "share", "low", "high", "users"))}
    if n is not None:
        tables["mark"] = pl.DataFrame({"n": [n]})
        marked = mark("rule", data="mark", stroke=style.MUTED, strokeWidth=1.5, strokeDash=list(style.DASHED))
        layers.insert(0, marked.encode(x=x))
    return style.panels(layers, tables, "adversary", _in_order(table["adversary"]), legend=list(colors))


def behavior_density(rows: pl.DataFrame, *, cells: int = 20) -> Picture:
    """Return the joint distribution of the users' relevant interest and polarization.

    Parameters
    ----------
    rows : DataFrame
        One row per user, with columns gamma and delta.
    cells : int
        Cells along each axis.

    Examples
    --------
    >>> ps.figures.save(ps.figures.behavior_density(rows, cells=10), "density.svg")
    """
    users, gamma, delta = np.histogram2d(
        rows["gamma"].to_numpy(), rows["delta"].to_numpy(), bins=cells, range=((0, 1), (0, 1))
    )
    across, up = np.nonzero(users)
    table = pl.DataFrame(
        {
            "gamma_low": gamma[across],
            "gamma_high": gamma[across + 1],
            "delta_low": delta[up],
            "delta_high": delta[up + 1],
            "users": users[across, up].astype(np.int64),
            "share": users[across, up] / max(rows.height, 1),
        }
    )
    hint = tooltip(
        {
            "Users": "format(datum.users, ',') + ' (' + " + percent("datum.share", ".2~g") + " + ')'",
            "Relevant interest": between("datum.gamma_low", "datum.gamma_high"),
            "Polarization": between("datum.delta_low", "datum.delta_high"),
        }
    )
    # logarithmic: recorded users concentrate in a corner
    domain = [1, max(int(users.max()), 2)]
    squares = mark("rect", tooltip={"expr": hint}).encode(
        x=field("gamma_low:Q", scale=style.share_scale(), axis=style.percent_axis(GAMMA, grid=False)),
        x2=field("gamma_high"),
        y=field("delta_low:Q", scale=style.share_scale(), axis=style.percent_axis(DELTA, grid=False)),
        y2=field("delta_high"),
        color=field(
            "users:Q",
            scale={"type": "log", "domain": domain, "range": list(style.PRECISION_COLORS)},
            legend=style.gradient("Users per cell"),
        ),
    )
    return style.single([squares], table, height=300)


def levels(table: pl.DataFrame) -> str:
    """Return the thresholds of a table of exposure, for a caption: "50, 90 or 95%"."""
    *others, last = (f"{100 * threshold:g}" for threshold in sorted(_in_order(table["threshold"])))
    return f"{', '.join(others)} or {last}%" if others else f"{last}%"


def _in_order(column: pl.Series) -> list[Any]:
    """Return distinct values by first appearance."""
    return column.unique(maintain_order=True).to_list()


def _counted() -> pl.Expr:
    """Return the name of the line of an observation count."""
    return pl.col("n").map_elements(lambda n: f"n = {n:,}", return_dtype=pl.String).alias("line")


def _shades(table: pl.DataFrame) -> dict[str, str]:
    """Return the lines of the observation counts and their colors."""
    return {f"n = {n:,}": color for n, color in style.shades_of(_in_order(table["n"])).items()}


def _without_noise(table: pl.DataFrame) -> pl.DataFrame:
    """Return rows with enough users, or the largest rows of a run with too few everywhere."""
    return table.filter(pl.col("users") >= min(MIN_USERS, int(table["users"].to_numpy().max())))


def _with_tooltips(table: pl.DataFrame) -> pl.DataFrame:
    """Mark which rows of each curve have a tooltip; both ends do."""
    curve = "adversary", "line"
    place, last = pl.int_range(pl.len()).over(curve), pl.len().over(curve) - 1
    # evenly spaced: where the rounded position grows by one
    share = (MAX_TOOLTIPS - 1) / last.clip(MAX_TOOLTIPS - 1)
    grows = (place * share).floor() > ((place - 1) * share).floor()
    return table.with_columns(tooltip=grows | (place == last))


def _line_with_band(x: Spec, y: Spec, colors: dict[str, str], look: dict[str, Any], **more: Spec) -> list[Layer]:
    """Return the lines of a panel and the shaded CIs behind them."""
    band = mark("area", opacity=0.16, clip=True).encode(
        x=x, y=field("low:Q"), y2=field("high"), fill=style.fills(colors)
    )
    return [band, mark("line", strokeWidth=2, clip=True).encode(x=x, y=y, **look, **more)]
