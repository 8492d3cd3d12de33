"""The frontier of a comparison: what each choice gives away against what its curator learns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle, islice

import altair as alt
import numpy as np
import polars as pl

from poolscope.attack.levels import in_percent
from poolscope.base.errors import one_line
from poolscope.game.columns import NON_PRIVATE
from poolscope.metrics.records import Record
from poolscope.pages import style
from poolscope.pages.numbers import number
from poolscope.pages.style import Picture, answer
from poolscope.verbs.comparison import Choice

SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right")
"""With the colours of `style`: shape and colour tell the mechanisms apart."""

PANEL = (360, 320)
"""Pixels of a panel, about: for labels that do not touch."""

LETTER, POINT = (6.5, 10.0), 4.0
"""Width and height of a letter of a label, and half the size of a point, in pixels."""

PLACES = ((1, 1), (-1, -1), (1, -1), (-1, 1), (1, 0), (-1, 0))
"""Where a label may stand, seen from its point: right or left, above or below."""


@style.quickly
def frontier(results: Sequence[Choice], non_private: Record | None, reports: int) -> Picture:
    """AUC against the error of a frequency: a panel for each adversary, a line for each mechanism.

    Parameters
    ----------
    results : records of ``compare``; those without an estimate are left out.
    non_private : the record of the game without a mechanism.
    reports : how many the estimate is made of.
    """
    shown = [record for record in results if record.mse]
    adversaries = list(dict.fromkeys(record.adversary for record in results))
    mechanisms = list(dict.fromkeys(one_line(record.mechanism) for record in shown))
    colours = dict(zip(mechanisms, style.colours_of_pools(len(mechanisms)), strict=True))
    chance = f"random guess, 1/{round(1 / results[0].baseline)}"
    compared = {chance: results[0].baseline} | ({} if non_private is None else {NON_PRIVATE: non_private.auc.value})
    every = colours | {chance: style.MUTED} | ({} if non_private is None else {NON_PRIVATE: style.PALE})
    look = style.keys(every, dashed=[chance])
    x = alt.X(
        "rmse:Q",
        scale=alt.Scale(type="log", domain=_domain(shown), nice=False),
        axis=alt.Axis(title=f"Error of a frequency from {reports:,} reports (RMSE)", format="~g", tickCount=5),
    )
    y = alt.Y("auc:Q", scale=style.share_scale(), axis=alt.Axis(title="AUC of the adversary", tickCount=5))
    shape = alt.Shape(
        "line:N",
        scale=alt.Scale(domain=mechanisms, range=list(islice(cycle(SHAPES), len(mechanisms)))),
        legend=None,
    )
    said = answer(
        {
            "AUC": "format(datum.auc, '.3f')",
            "95\u202f% interval": "format(datum.low, '.3f') + ' to ' + format(datum.high, '.3f')",
            "RMSE": "format(datum.rmse, '.3~g')",
            "Guessed rightly": style.percent("datum.precision"),
            f"Exposed, {in_percent(results[0].exposed_at)}": style.percent("datum.exposed"),
            "Users": "format(datum.users, ',')",
        },
        title="datum.line + ' at ε ' + datum.epsilon",
    )
    layers = [
        style.layer("levels").mark_rule(strokeWidth=1.4).encode(y=alt.Y("auc:Q"), **look),
        style.layer()
        .mark_rule(strokeWidth=1, clip=True)
        .encode(x=x, y=alt.Y("low:Q"), y2=alt.Y2("high:Q"), stroke=look["stroke"]),
        style.layer().mark_line(strokeWidth=1.6, clip=True).encode(x=x, y=y, order=alt.Order("order:Q"), **look),
        style.layer()
        .mark_point(filled=True, size=60, opacity=1, tooltip=alt.ExprRef(said), clip=True)
        .encode(x=x, y=y, fill=style.fills(every), shape=shape)
        .add_params(style.zoom()),
        *(_labels(place, x, y, every) for place in range(len(PLACES))),
    ]
    tables = {
        "rows": pl.concat(_rows([record for record in shown if record.adversary == name]) for name in adversaries),
        "levels": pl.DataFrame({"line": list(compared), "auc": list(compared.values())}),
    }
    return style.panels(layers, tables, "adversary", adversaries, height=PANEL[1], least=300, legend=list(every))


def _rows(records: Sequence[Choice]) -> pl.DataFrame:
    """The points of a panel, each with the place of its label."""
    return pl.DataFrame(
        {
            "adversary": [record.adversary for record in records],
            "line": [one_line(record.mechanism) for record in records],
            "epsilon": [number(record.epsilon) for record in records],
            "order": [min(record.epsilon, 1e300) for record in records],
            "rmse": [record.rmse for record in records],
            "auc": [record.auc.value for record in records],
            "low": [record.auc.low for record in records],
            "high": [record.auc.high for record in records],
            "precision": [record.precision.value for record in records],
            "exposed": [record.exposed_share.value for record in records],
            "users": [record.users for record in records],
            "place": _places(records),
        }
    )


def _domain(shown: Sequence[Choice]) -> list[float]:
    """Errors from the least to the largest, and a label's room on either side."""
    errors = [record.rmse for record in shown if record.rmse] or [0.1, 1.0]
    return [min(errors) / 1.35, max(errors) * 1.35]


def _labels(place: int, x: alt.X, y: alt.Y, colours: dict[str, str]) -> Picture:
    """The epsilons whose label stands at this place."""
    right, up = PLACES[place]
    text = style.layer().mark_text(dx=7 * right, dy=-8 * up, align="left" if right > 0 else "right", clip=True)
    return text.encode(x=x, y=y, text=alt.Text("epsilon:N"), fill=style.fills(colours)).transform_filter(
        f"datum.place == {place}"
    )


def _places(records: Sequence[Choice]) -> list[int]:
    """Where each point's epsilon stands beside it: points first, then labels in the order of the records.

    A label tries the places around its point and is left out, -1, where all are taken; those of its line tell it then.
    """
    low, high = np.log(_domain(records))
    points = [
        ((np.log(record.rmse) - low) / (high - low) * PANEL[0], record.auc.value * PANEL[1]) for record in records
    ]
    taken, found = [(x, y, POINT, POINT) for x, y in points], []
    for record, (x, y) in zip(records, points, strict=True):
        width = LETTER[0] * len(number(record.epsilon)) / 2
        boxes = [(x + right * (width + 7), y + up * 8, width, LETTER[1] / 2) for right, up in PLACES]
        free = (i for i, box in enumerate(boxes) if box[0] > width and not any(_touch(box, one) for one in taken))
        found.append(next(free, -1))
        taken += [boxes[found[-1]]] if found[-1] >= 0 else []
    return found


def _touch(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Whether two boxes (centre, half widths) overlap."""
    return abs(one[0] - other[0]) < one[2] + other[2] and abs(one[1] - other[1]) < one[3] + other[3]
