"""Draw the Pareto front of a comparison: AUC-PN against RMSE."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle, islice, pairwise

import numpy as np
import polars as pl

from poolscope.core.arrays import Floats
from poolscope.core.counting import counted
from poolscope.core.errors import one_line
from poolscope.figures import style
from poolscope.figures.grammar import Layer, Spec, field, mark
from poolscope.figures.style import Picture, tooltip
from poolscope.game.columns import NON_PRIVATE
from poolscope.inference.thresholds import in_percent
from poolscope.metrics.records import Record
from poolscope.metrics.text import number
from poolscope.workflows.compare import Configuration

SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right")
"""Shapes that, with the colors of `style`, distinguish mechanisms."""

HEIGHT = 320
"""Height of a panel, in pixels."""

WIDTHS = (240, 330, 440)
"""Panel widths on a phone, in print and in pairs, in pixels; a label must be free at all of them."""

LETTER, POINT = (7.0, 12.0), 4.5
"""Width and height of a letter of a label, and half the size of a point, in pixels."""

PLACES = ((1, 1), (-1, -1), (1, -1), (-1, 1), (1, 0), (-1, 0), (0, 1), (0, -1))
"""Positions of a label relative to its point: right or left, above or below."""

AWAY = (7.0, 9.0)
"""Pixels from a point to the near edge of its label, and to the label's middle above or below."""

MARGIN = 0.12
"""Fraction of the error axis on either side of the points, for labels."""


def pareto_front(results: Sequence[Configuration], non_private: Record | None, reports: int) -> Picture:
    """Return AUC-PN against RMSE: a panel for each adversary, a line for each mechanism.

    Parameters
    ----------
    results : records of ``compare``; those without a frequency estimate are omitted.
    non_private : the record of the non-private game.
    reports : number of reports of the frequency estimate.
    """
    shown = [record for record in results if record.mse]
    adversaries = list(dict.fromkeys(record.adversary for record in results))
    mechanisms = list(dict.fromkeys(one_line(record.mechanism) for record in shown))
    colors = dict(zip(mechanisms, style.colors_of_pools(len(mechanisms)), strict=True))
    chance = f"random guess, 1/{round(1 / results[0].baseline)}"
    compared = {chance: results[0].baseline} | ({} if non_private is None else {NON_PRIVATE: non_private.auc_pn.value})
    every = colors | {chance: style.MUTED} | ({} if non_private is None else {NON_PRIVATE: style.PALE})
    look = style.line_legend(every, dashed=[chance])
    x = field(
        "rmse:Q",
        scale={"type": "log", "domain": _domain(shown), "nice": False},
        axis={
            "title": f"RMSE of a frequency from {counted(reports, 'report')}",
            "format": "~g",
            "tickCount": 5,
            # grid lines at labeled ticks only
            "gridOpacity": {"condition": {"test": "datum.label", "value": 1}, "value": 0},
        },
    )
    y = field("auc_pn:Q", scale=style.share_scale(), axis={"title": "AUC-PN", "tickCount": 5})
    shape = field(
        "line:N",
        scale={"domain": mechanisms, "range": list(islice(cycle(SHAPES), len(mechanisms)))},
        legend=None,
    )
    hint = tooltip(
        {
            "AUC-PN": "format(datum.auc_pn, '.3f')",
            "95% CI": "format(datum.low, '.3f') + '–' + format(datum.high, '.3f')",
            "RMSE": "format(datum.rmse, '.3~g')",
            "Correct": style.percent("datum.precision"),
            f"Exposed (≥ {in_percent(results[0].exposed_at)})": style.percent("datum.exposed"),
            "Users": "format(datum.users, ',')",
        },
        title="datum.line + ' at ε = ' + datum.epsilon",
    )
    layers = [
        mark("rule", data="levels", strokeWidth=1.4).encode(y=field("auc_pn:Q"), **look),
        mark("rule", strokeWidth=1, clip=True).encode(x=x, y=field("low:Q"), y2=field("high"), stroke=look["stroke"]),
        mark("line", strokeWidth=1.6, clip=True).encode(x=x, y=y, order=field("order:Q"), **look),
        mark("point", filled=True, size=60, opacity=1, tooltip={"expr": hint}, clip=True)
        .encode(x=x, y=y, fill=style.fills(every), shape=shape)
        .define(style.zoom()),
        *(label for place in range(len(PLACES)) for label in _labels(place, x, y, every)),
    ]
    tables = {
        "rows": pl.concat(
            _rows([record for record in shown if record.adversary == name], list(compared.values()))
            for name in adversaries
        ),
        "levels": pl.DataFrame({"line": list(compared), "auc_pn": list(compared.values())}),
    }
    return style.panels(layers, tables, "adversary", adversaries, height=HEIGHT, least=300, legend=list(every))


def _rows(records: Sequence[Configuration], levels: Sequence[float]) -> pl.DataFrame:
    """Return the points of a panel with label positions; `levels` are horizontal lines."""
    return pl.DataFrame(
        {
            "adversary": [record.adversary for record in records],
            "line": [one_line(record.mechanism) for record in records],
            "epsilon": [number(record.epsilon) for record in records],
            "order": [min(record.epsilon, 1e300) for record in records],
            "rmse": [record.rmse for record in records],
            "auc_pn": [record.auc_pn.value for record in records],
            "low": [record.auc_pn.low for record in records],
            "high": [record.auc_pn.high for record in records],
            "precision": [record.precision.value for record in records],
            "exposed": [record.exposed_share.value for record in records],
            "users": [record.users for record in records],
            "place": _places(records, levels),
        }
    )


def _domain(shown: Sequence[Configuration]) -> list[float]:
    """Return the range of errors with margins for labels."""
    errors = [record.rmse for record in shown if record.rmse] or [0.1, 1.0]
    least, most = min(errors), max(errors)
    margin = max((most / least) ** (MARGIN / (1 - 2 * MARGIN)), 1.35)
    return [least / margin, most * margin]


def _labels(place: int, x: Spec, y: Spec, colors: dict[str, str]) -> Iterator[Layer]:
    """Yield the labels at one position, each with a background that covers lines."""
    right, up = PLACES[place]
    align = ("right", "center", "left")[right + 1]
    for own, paint in (({"stroke": style.PAPER}, {}), ({}, {"fill": style.fills(colors)})):
        text = mark(
            "text",
            dx=AWAY[0] * right,
            dy=-AWAY[1] * up,
            align=align,
            clip=True,
            strokeWidth=3,
            strokeJoin="round",
            **own,
        )
        text = text.encode(x=x, y=y, text=field("epsilon:N"), **paint)
        yield text.where(f"datum.place == {place}")


def _places(records: Sequence[Configuration], levels: Sequence[float] = ()) -> list[int]:
    """Return the label position of each point, in the order of the records.

    A label tries the places around its point: those where it covers no line before those where it does. It is left
    out, -1, where all are taken by points, by other labels or by the edge; the pointer and the tables say it then.
    """
    panels = [_Panel(width, records, levels) for width in WIDTHS]
    found = []
    for point in range(len(records)):
        free = [place for place in range(len(PLACES)) if all(panel.free(point, place) for panel in panels)]
        bare = [place for place in free if not any(panel.crossed(point, place) for panel in panels)]
        found.append(next(iter(bare or free), -1))
        for panel in panels:
            panel.take(point, found[-1])
    return found


Box = tuple[float, float, float, float]
"""Middle and half widths of a rectangle, in pixels."""


class _Panel:
    """The points, lines and labels of a panel of a given width."""

    def __init__(self, width: float, records: Sequence[Configuration], levels: Sequence[float]) -> None:
        low, high = np.log(_domain(records))
        across = [(float(np.log(record.rmse)) - low) / (high - low) * width for record in records]
        self._width = width
        self._points = [(x, record.auc_pn.value * HEIGHT) for x, record in zip(across, records, strict=True)]
        self._halves = [LETTER[0] * len(number(record.epsilon)) / 2 for record in records]
        self._taken: list[Box] = [(x, y, POINT, POINT) for x, y in self._points]
        across_it = [((0.0, level * HEIGHT), (width, level * HEIGHT)) for level in levels]
        self._lines = np.vstack([_dots(*line) for line in (*self._strokes(records), *across_it)])

    def _strokes(self, records: Sequence[Configuration]) -> Iterator[tuple[tuple[float, float], tuple[float, float]]]:
        """Yield the lines between points and the CI bars."""
        order = sorted(range(len(records)), key=lambda i: (records[i].mechanism, records[i].epsilon))
        for one, other in pairwise(order):
            if records[one].mechanism == records[other].mechanism:
                yield self._points[one], self._points[other]
        for (x, _), record in zip(self._points, records, strict=True):
            yield (x, record.auc_pn.low * HEIGHT), (x, record.auc_pn.high * HEIGHT)

    def _box(self, point: int, place: int) -> Box:
        (right, up), (x, y), half = PLACES[place], self._points[point], self._halves[point]
        return x + right * (AWAY[0] + half), y + up * AWAY[1], half, LETTER[1] / 2

    def free(self, point: int, place: int) -> bool:
        """Return whether a label fits and touches no point or other label."""
        x, y, half, tall = box = self._box(point, place)
        inside = half <= x <= self._width - half and tall <= y <= HEIGHT - tall
        return inside and not any(_touch(box, other) for other in self._taken)

    def crossed(self, point: int, place: int) -> bool:
        """Return whether a label would cover a line."""
        x, y, half, tall = self._box(point, place)
        return bool(np.any((np.abs(self._lines[:, 0] - x) < half) & (np.abs(self._lines[:, 1] - y) < tall)))

    def take(self, point: int, place: int) -> None:
        """Reserve the position of a label; -1 is no label."""
        self._taken += [self._box(point, place)] if place >= 0 else []


def _dots(start: tuple[float, float], end: tuple[float, float]) -> Floats:
    """Return points of a line, two pixels apart: (dots, 2)."""
    steps = 2 + int(np.hypot(end[0] - start[0], end[1] - start[1]) / 2)
    dots: Floats = np.linspace(start, end, steps)
    return dots


def _touch(one: Box, other: Box) -> bool:
    """Return whether two rectangles overlap."""
    return abs(one[0] - other[0]) < one[2] + other[2] and abs(one[1] - other[1]) < one[3] + other[3]
