"""The frontier of a comparison: what each choice gives away against what its curator learns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle, islice
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from poolscope.base.errors import one_line
from poolscope.game.columns import NON_PRIVATE
from poolscope.metrics.records import Record
from poolscope.pages import style
from poolscope.verbs.compare import Choice

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""With the colours of `style`: shape and colour tell the mechanisms apart."""

HEIGHT = 3.8
"""Inches of a panel."""

LETTER, POINT = (4.4, 7.0), 2.2
"""Width and height of a letter of a label, and half the size of a point, in points."""

PLACES = ((1, 1), (-1, -1), (1, -1), (-1, 1), (1, 0), (-1, 0))
"""Where a label may stand, seen from its point: right or left, above or below."""


@mpl.rc_context(style.STYLE)
def frontier(results: Sequence[Choice], non_private: Record | None, reports: int, *, columns: int = 2) -> Figure:
    """AUC against the error of a frequency: a panel for each adversary, a line for each mechanism.

    Parameters
    ----------
    results : records of ``compare``; those without an estimate are left out.
    non_private : the record of the game without a mechanism.
    reports : how many the estimate is made of.
    columns : panels to a row.
    """
    shown = [record for record in results if record.mse]
    adversaries = list(dict.fromkeys(record.adversary for record in results))
    styles = styles_of(list(dict.fromkeys(record.mechanism for record in shown)))
    figure, axes = style.panels(
        adversaries,
        columns,
        HEIGHT,
        x=f"Error of a frequency from {reports:,} reports (RMSE)",
        y="AUC of the adversary",
        sharey=True,
        sharex=True,
    )
    for adversary, axis in zip(adversaries, axes, strict=True):
        mine = [record for record in shown if record.adversary == adversary]
        axis.axhline(results[0].baseline, **style.REFERENCE)
        if non_private:
            axis.axhline(non_private.auc.value, color=style.FAINT, linewidth=2.2)
        for mechanism, look in styles.items():
            _line(axis, [record for record in mine if record.mechanism == mechanism], look)
        _scales(axis, shown)
    style.legend_above(figure, _keys(styles, results[0].baseline, non_private))
    # labels last: only a figure that has been laid out knows which of them would touch
    figure.draw_without_rendering()
    for adversary, axis in zip(adversaries, axes, strict=True):
        _label(axis, [record for record in shown if record.adversary == adversary], styles)
    return figure


def styles_of(mechanisms: Sequence[str]) -> dict[str, dict[str, Any]]:
    """A colour and a marker for each mechanism."""
    colours = style.colours_of_pools(len(mechanisms))
    markers = islice(cycle(MARKERS), len(mechanisms))
    pairs = zip(mechanisms, colours, markers, strict=True)
    return {name: {"color": colour, "marker": marker} for name, colour, marker in pairs}


def _line(axis: Axes, records: Sequence[Choice], look: Mapping[str, Any]) -> None:
    """One mechanism from its smallest epsilon to its largest, with the intervals of its AUC."""
    records = sorted(records, key=lambda record: record.epsilon)
    error = [record.rmse for record in records]
    auc = [record.auc.value for record in records]
    axis.vlines(error, [r.auc.low for r in records], [r.auc.high for r in records], color=look["color"], linewidth=0.7)
    axis.plot(error, auc, **look, markersize=3.6, linewidth=1.2)


def _label(axis: Axes, records: Sequence[Choice], styles: Mapping[str, Mapping[str, Any]]) -> None:
    """Every point's epsilon beside it, where there is room: points first, then labels in the order of the records.

    A label tries the places around its point, right of the axis, and is left out where all are taken; those of its line
    tell it then.
    """
    where = np.array([[record.rmse, record.auc.value] for record in records])
    points = (axis.transData.transform(where) - axis.bbox.min) * 72 / axis.figure.dpi
    taken = [(x, y, POINT, POINT) for x, y in points]
    for record, data, (x, y) in zip(records, where, points, strict=True):
        text = "∞" if np.isinf(record.epsilon) else f"{record.epsilon:g}"
        width = LETTER[0] * len(text) / 2
        for right, up in PLACES:
            place = (x + right * (width + 4), y + up * 5.5, width, LETTER[1] / 2)
            if place[0] > width and not any(_touch(place, other) for other in taken):
                taken.append(place)
                offset = (right * (width + 4), up * 5.5)
                font = {"fontsize": 6.5, "color": styles[record.mechanism]["color"], "ha": "center", "va": "center"}
                axis.annotate(text, tuple(data), xytext=offset, textcoords="offset points", **font)
                break


def _touch(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Whether two boxes (centre, half widths) overlap."""
    return abs(one[0] - other[0]) < one[2] + other[2] and abs(one[1] - other[1]) < one[3] + other[3]


def _scales(axis: Axes, shown: Sequence[Choice]) -> None:
    axis.set_xscale("log")
    error = np.array([record.rmse for record in shown])
    # a label's room on either side
    axis.set_xlim(error.min() / 1.35, error.max() * 1.35)
    axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if error.max() / error.min() < 50 else (1.0,)))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}" if x >= 1e-4 else style.POWERS_OF_TEN(x, _)))
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.tick_params(labelbottom=True)
    axis.set_ylim(0, 1.02)
    axis.set_yticks(np.linspace(0, 1, 6))


def _keys(styles: Mapping[str, Mapping[str, Any]], baseline: float, non_private: Record | None) -> list[Line2D]:
    keys = [
        Line2D([], [], **look, markersize=3.6, linewidth=1.2, label=one_line(name)) for name, look in styles.items()
    ]
    if non_private:
        keys.append(Line2D([], [], color=style.FAINT, linewidth=2.2, label=NON_PRIVATE))
    return [*keys, Line2D([], [], **style.REFERENCE, label=f"random guess, 1/{round(1 / baseline)}")]
