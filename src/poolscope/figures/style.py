"""Define the style of all figures: colors, axes, panels and tooltips, in Vega-Lite.

Text and lines are dark on nothing: the page shows through. Quantities with an order (the observation count n, the
thresholds of exposure, precision) run from light to dark, so lightness alone tells them apart, in any color blindness
and on a grey printer.

Names come from outside. They are values of a table, titles or domains, never part of an expression or of a field.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle, islice
from typing import Any

import polars as pl

from poolscope.core.errors import one_line
from poolscope.figures.grammar import Layer, Spec, faceted, field, layered, mark

Picture = Spec
"""A finished chart with its data: of panels, or a single one."""

PANEL = 220
"""Height of a panel with curves, in pixels."""

INK, MUTED, FAINT = "#24292f", "#6e7781", "#d8dee4"
"""Colors of text, of axes and references, of grids and of what is absent."""

PAPER = "#ffffff"
"""Background; a report inverts it with the other colors in dark mode."""

PALE = "#afb8c1"
"""Color of references in the background."""

EXPOSURE_COLORS = ("#e3a02f", "#c8553d", "#5b2a56")
"""Colors of thresholds, from lowest to highest."""

POOL_COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8f7b00")
"""Colors of unordered categories, after Okabe and Ito."""

PRECISION_COLORS = ("#fdfed3", "#d9f0b5", "#a3dbb7", "#56bfc0", "#2698c1", "#225da8", "#22308d", "#081d58")
"""Color scale from 0 to 1."""

SHADES = ("#7fcdbb", "#41b6c4", "#1d91c0", "#225ea8", "#253494", "#081d58")
"""Colors of lines, from light to dark, all visible on white."""

FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, "Liberation Sans", sans-serif'

DASHED = (4, 3)
"""Dash pattern of reference lines."""


def config(size: float) -> dict[str, Any]:
    """Return the Vega-Lite configuration for a font size in pixels."""
    small = {"labelFontSize": size, "titleFontSize": size, "labelColor": INK, "titleColor": INK}
    return {
        "aria": False,  # the page says what a picture shows; hundreds of marks would say it again
        "background": "transparent",
        "font": FONT,
        "view": {"stroke": None},
        "facet": {"spacing": 24},
        "axis": {
            **small,
            "titleFontWeight": "normal",
            "titlePadding": 8,
            "domainColor": MUTED,
            "tickColor": MUTED,
            "tickSize": 4,
            "gridColor": FAINT,
            "labelOverlap": "greedy",
            "labelSeparation": 4,
        },
        "header": {
            **small,
            "title": None,
            "labelFontWeight": "bold",
            "labelAnchor": "start",
            "labelPadding": 6,
            "labelLimit": 320,
        },
        "legend": {
            **small,
            "title": None,
            "orient": "top",
            "direction": "horizontal",
            "symbolType": "stroke",
            "symbolStrokeWidth": 2.5,
            "symbolSize": 180,
            "columnPadding": 14,
            "labelLimit": 320,
            "offset": 8,
        },
    }


def rows(table: pl.DataFrame) -> list[dict[str, Any]]:
    """Return a table as chart data, rounded to five digits."""
    return [{name: _short(value) for name, value in row.items()} for row in table.to_dicts()]


def _short(value: Any) -> Any:
    if not isinstance(value, float):
        return one_line(value) if isinstance(value, str) else value
    return float(f"{value:.5g}") if math.isfinite(value) else None


def percent(value: str, digits: str = ".1f") -> str:
    """Return a Vega expression of a share as a percentage."""
    return f"format(100 * {value}, '{digits}') + '%'"


def between(low: str = "datum.low", high: str = "datum.high") -> str:
    """Return a Vega expression of the interval of a share."""
    return f"format(100 * {low}, '.1f') + '–' + {percent(high)}"


def tooltip(lines: Mapping[str, str], title: str | None = None) -> str:
    """Return a Vega expression of a tooltip: labels, each with an expression of the mark's own row."""
    entries = {**({"title": title} if title else {}), **lines}
    return (
        "{" + ", ".join(f"{json.dumps(label, ensure_ascii=False)}: {value}" for label, value in entries.items()) + "}"
    )


def percent_axis(title: str, *, values: Sequence[float] = (0, 0.2, 0.4, 0.6, 0.8, 1), **axis: Any) -> Spec:
    """Return an axis of percentages."""
    # a count above theirs: of more values than that every other one would be left out
    return {
        "title": title,
        "values": list(values),
        "tickCount": 2 * len(values),
        "labelExpr": percent("datum.value", ".3~g"),
        **axis,
    }


def share_scale(**scale: Any) -> Spec:
    """Return a scale of shares, 0 to 100%."""
    return {"domain": [0, 1], "nice": False, **scale}


def line_legend(colors: Mapping[str, str], dashed: Sequence[str] = ()) -> dict[str, Any]:
    """Return color and dash of each line by its name in the field ``line``, with one legend."""
    dashes = [list(DASHED) if name in dashed else [1, 0] for name in colors]
    return {
        "stroke": field("line:N", scale=_scale(colors, list(colors.values())), legend=_legend()),
        "strokeDash": field("line:N", scale=_scale(colors, dashes), legend=_legend()),
    }


def fills(colors: Mapping[str, str]) -> Spec:
    """Return the fill color of each line, in the same legend."""
    return field("line:N", scale=_scale(colors, list(colors.values())), legend=_legend())


def gradient(title: str, **legend: Any) -> Spec:
    """Return the legend of a color scale."""
    return dict(
        title=title, titleFontWeight="normal", titleLimit=320, gradientLength=220, gradientThickness=10, **legend
    )


def _scale(names: Iterable[str], values: Sequence[Any]) -> Spec:
    return {"domain": list(names), "range": values}


def _legend() -> Spec:
    return {"labelOverlap": False, "symbolOpacity": 1}


def pointer(x: Spec, y: Spec, colors: Mapping[str, str], hint: str) -> Layer:
    """Return a point with a tooltip, visible where it is nearest to the pointer."""
    # who answers is the cell around the point, and its datum is the point
    hint = f"isDefined(datum.datum) ? {hint.replace('datum.', 'datum.datum.')} : null"
    near = {"name": "near", "select": {"type": "point", "nearest": True, "on": "pointerover", "clear": "pointerout"}}
    return (
        mark("point", filled=True, size=50, tooltip={"expr": hint}, clip=True)
        .encode(
            x=x,
            y=y,
            fill=fills(colors),
            opacity={"condition": {"param": "near", "value": 1, "empty": False}, "value": 0},
        )
        .define(near)
    )


def zoom() -> Spec:
    """Return a zoom by Shift and scroll, with drag and double-click; scrolling alone moves the page."""
    return {"name": "zoom", "select": {"type": "interval", "zoom": "wheel![event.shiftKey]"}, "bind": "scales"}


def panels(
    layers: Sequence[Layer],
    tables: Mapping[str, pl.DataFrame],
    by: str,
    order: Sequence[Any],
    *,
    height: float = PANEL,
    least: float = 280,
    legend: Sequence[str] = (),
    behind: str | None = None,
) -> Picture:
    """Return the same layers for each value of a field, side by side where they fit.

    Parameters
    ----------
    layers : sequence of Layer
        Those without data of their own show the panel's rows, the others a table of that name in every panel.
    tables : mapping of DataFrame
        By name; the panels' own is the first.
    by : str
        A column of the first table; its values are the panels' titles.
    order : sequence
        The titles from left to right.
    height, least : float
        Pixels of a panel: its height, and its least width with its axis.
    legend : sequence of str
        The words of the legend above.
    behind : str, optional
        Color of a panel where nothing is drawn.
    """
    titles = [one_line(str(value)) for value in order]
    facet = field(f"{by}:N", sort=titles, header={"title": None})
    inside = {"view": {"fill": behind}} if behind else {}
    chart = faceted(layers, next(iter(tables)), facet, len(titles), height=height, **inside)
    return _finished(chart, tables, _layout(len(titles), least, legend))


def single(layers: Sequence[Layer], table: pl.DataFrame, *, height: float, legend: Sequence[str] = ()) -> Picture:
    """Return a chart of one panel without a title."""
    return _finished(layered(layers, "rows", height=height), {"rows": table}, _layout(1, 1, legend))


def _finished(chart: Spec, tables: Mapping[str, pl.DataFrame], layout: dict[str, float]) -> Picture:
    """Return the chart with its data and its layout."""
    return chart | {"usermeta": layout, "datasets": {name: rows(table) for name, table in tables.items()}}


def _layout(panels: int, least: float, legend: Sequence[str]) -> dict[str, float]:
    """Return what the layout of a chart depends on, see `saving.fit`."""
    widths = [34 + 6.2 * len(words) for words in legend]
    return {"panels": panels, "least": least, "legend": sum(widths), "entry": max(widths, default=1)}


def shades_of(observations: Sequence[int]) -> dict[int, str]:
    """Return a color for each observation count, the largest darkest."""
    counts = sorted(observations)
    positions = [place / max(len(counts) - 1, 1) for place in range(len(counts))] if len(counts) > 1 else [0.8]
    return {n: _shade(place) for n, place in zip(counts, positions, strict=True)}


def exposure_colors(count: int) -> list[str]:
    """Return a color for each exposure threshold, from lowest to highest."""
    return [_shade(place / max(count - 1, 1), EXPOSURE_COLORS) for place in range(count)]


def _shade(place: float, colors: Sequence[str] = SHADES) -> str:
    """Return the color between the lightest, 0, and the darkest, 1."""
    left = min(int(place * (len(colors) - 1)), len(colors) - 2)
    part = place * (len(colors) - 1) - left
    pairs = ((int(colors[left][i : i + 2], 16), int(colors[left + 1][i : i + 2], 16)) for i in (1, 3, 5))
    return "#" + "".join(f"{round(low + part * (high - low)):02x}" for low, high in pairs)


def colors_of_pools(count: int) -> list[str]:
    """Return colors for unordered pools, repeated when they run out."""
    return list(islice(cycle(POOL_COLORS), count))
