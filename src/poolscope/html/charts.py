"""Pictures on their way out: inside a page, or as a file of their own.

A page holds the specification of each picture and, once, the JavaScript that draws them: ``embed(chart, ...)`` for
every picture, and a template that extends ``charts.html.j2`` for the page. Nothing is fetched, and no text of a
specification is run: a policy in the page's head allows the page's own scripts and no other (`html.render`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from altair import Undefined
from markupsafe import Markup

from poolscope.html.html import tied
from poolscope.html.style import Picture, config, quickly

TEXT = 12
"""Pixels of a letter on a page."""

ROOM = 64
"""Pixels that the axis left of a row of panels takes, about; the browser measures it."""

ELEMENT = (
    '<div class="chart" role="img" aria-label="{}" data-name="{}"><script type="application/json">{}</script></div>'
)


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A picture with the name of its file, its title, and the sentence that says how to read it."""

    name: str
    title: str
    caption: str
    chart: Picture


@quickly
def specification(chart: Picture, *, text: float = TEXT) -> dict[str, Any]:
    """A picture as Vega-Lite, in letters of so many pixels; it is ours, so it is not held against the schema."""
    bare = chart.copy(deep=False)
    # apart: altair would look into every row
    bare.datasets = Undefined
    spec: dict[str, Any] = bare.to_dict(validate=False)
    spec["datasets"] = chart.datasets
    spec["config"] = config(text)
    room = spec["usermeta"]
    spec["usermeta"] = {name: size if name == "panels" else size * text / TEXT for name, size in room.items()}
    return spec


def fit(spec: dict[str, Any], width: float, taken: float | None = None) -> None:
    """Give a specification as many panels to a row as fit into so many pixels, and let them fill the row.

    `taken` is what a drawing of it took: with it the width is met exactly. A page does the same for itself
    (`templates/charts.js`).
    """
    meta, panel = spec["usermeta"], spec.get("spec", spec)
    columns = int(max(1, min(meta["panels"], width // meta["least"])))
    if "spec" in spec:
        spec["columns"] = columns
    beside = width - ROOM
    # none: all words in one row
    spec["config"]["legend"]["columns"] = 0 if meta["legend"] <= beside else int(max(1, beside // meta["entry"]))
    if taken is None:
        panel["width"] = max(beside / columns - spec["config"]["facet"]["spacing"], 40)
    else:
        panel["width"] += (width - taken) / columns


def embed(chart: Picture, *, name: str, label: str) -> Markup:
    """A picture as an element of a page.

    Parameters
    ----------
    chart : the picture.
    name : of the file under which a reader may save it, without its ending.
    label : what it shows, for those who do not see it.
    """
    text = json.dumps(specification(chart), separators=(",", ":"), ensure_ascii=False)
    # no character of it can end the element that holds it
    text = text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return Markup(ELEMENT).format(label, name, Markup(text))


def placed(pictures: Iterable[Shown]) -> list[dict[str, Any]]:
    """What the template `figure.html.j2` places: pictures with titles and captions, numbered if there are several."""
    every = list(pictures)
    return [
        {
            "number": number if len(every) > 1 else None,
            "title": picture.title,
            "chart": embed(picture.chart, name=picture.name, label=picture.title),
            "caption": tied(picture.caption),
        }
        for number, picture in enumerate(every, start=1)
    ]
