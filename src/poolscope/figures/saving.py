"""Complete the specification of a chart, and turn it into a file for a paper: SVG, PNG or PDF, by vl-convert."""

from __future__ import annotations

import re
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from poolscope.core.errors import InputError, PoolscopeError
from poolscope.core.files import located_os_errors
from poolscope.core.tables import check_output
from poolscope.core.tables.atomic import write_bytes
from poolscope.figures.style import Picture, config

MISSING = "pip install 'poolscope[figures]'"
"""Command that installs vl-convert."""

SCREEN_TEXT = 12
"""Font size in a report, in pixels."""

AXIS_WIDTH = 64
"""Approximate width of the left axis, in pixels; the browser measures it."""

WIDTHS = {"column": 3.33, "page": 7.0}
"""Widths in inches."""

PIXELS = 96
"""Pixels per inch."""

PAPER_TEXT = 10
"""Font size in print, in pixels: 7.5 points."""

DENSITY = 300
"""Resolution of a PNG, in dots per inch."""

FORMATS = ("svg", "png", "pdf")

SIZES = {"panels", "least", "legend", "entry"}
"""What the layout of a figure depends on (`style._layout`): the number of panels, and sizes in pixels."""


def save(chart: Any, path: str | PathLike[str], *, width: str = "page", overwrite: bool = False) -> None:
    """Write a figure as SVG, PNG or PDF, by the file's suffix, as wide as a paper's ``column`` or ``page``.

    An existing file is replaced only with `overwrite`.

    Examples
    --------
    >>> chart = ps.figures.behavior_density(rows)
    >>> ps.figures.save(chart, "density.png", width="column")
    >>> open("density.png", "rb").read(4)
    b'\\x89PNG'
    """
    picture = _picture(chart)
    target = Path(path)
    check(target.suffix.removeprefix(".").lower(), width)
    check_output(target, overwrite=overwrite, endings=[f".{form}" for form in FORMATS], option="path")
    data = _converted(picture, target.suffix.removeprefix(".").lower(), width)
    with located_os_errors(target):
        write_bytes(target, data)


def check(form: str, width: str) -> Any:
    """Check format and width, and return vl-convert; raise an error if it is not installed."""
    if form not in FORMATS:
        raise InputError("unknown format", value=form, remedy=f"take one of {', '.join(FORMATS)}")
    if width not in WIDTHS:
        raise InputError("unknown width", value=width, remedy=f"take one of {', '.join(WIDTHS)}")
    try:
        import vl_convert
    except ImportError:
        raise PoolscopeError(f"pictures as files need vl-convert; install it with: {MISSING}") from None
    return vl_convert


def _picture(chart: Any) -> Picture:
    """Return a new figure from one, or from what a user made of its Altair chart."""
    picture = chart
    if not isinstance(chart, dict) and hasattr(chart, "usermeta"):
        from poolscope.figures.notebook import picture_of

        picture = picture_of(chart)
    if not isinstance(picture, dict) or not set(picture.get("usermeta") or ()) >= SIZES:
        raise InputError("must be a picture, as the functions of poolscope.figures make", value=chart)
    return dict(picture)


def notebook_image(chart: Any) -> str | None:
    """Return a chart as SVG that fits the column of a notebook; None where vl-convert is not installed."""
    try:
        data = _converted(chart, "svg", "page").decode()
    except PoolscopeError:
        return None
    # as wide as it was drawn, but no wider than its column
    return data.replace("<svg ", '<svg style="max-width: 100%; height: auto" ', 1)


def _converted(chart: Picture, form: str, width: str) -> bytes:
    vl_convert = check(form, width)
    spec, pixels = _for_print(specification(chart, text=PAPER_TEXT)), WIDTHS[width] * PIXELS
    fit(spec, pixels)
    # what axes and legends take is known only once it is drawn: draw, and fill the width
    fit(spec, pixels, _width(vl_convert.vegalite_to_svg(spec, allowed_base_urls=[])))
    svg = _renumbered(vl_convert.vegalite_to_svg(spec, allowed_base_urls=[]))
    if form == "svg":
        return bytes(svg, "utf-8")
    if form == "pdf":
        return bytes(vl_convert.svg_to_pdf(svg))
    # vl-convert takes 72 pixels for an inch
    return bytes(vl_convert.svg_to_png(svg, scale=72 / PIXELS, ppi=DENSITY))


def _for_print(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a specification for print: without tooltips, on white."""
    panel = spec.get("spec", spec)
    panel["layer"] = [layer for layer in panel["layer"] if not _is_tooltip(layer)]
    spec["params"] = [param for param in spec.get("params", []) if "select" not in param]
    return spec | {"background": "white"}


def _is_tooltip(layer: dict[str, Any]) -> bool:
    """Return whether a layer has the points that show tooltips; layers that a user added may have no encoding."""
    return "condition" in layer.get("encoding", {}).get("opacity", {})


def _renumbered(svg: str) -> str:
    """Renumber clip paths, which vl-convert counts across drawings, so that equal drawings have equal bytes."""
    numbers: dict[str, int] = {}

    def renamed(found: re.Match[str]) -> str:
        return found[1] + str(numbers.setdefault(found[2], len(numbers)))

    return re.sub(r'( id="clip|"url\(#clip)(\d+)', renamed, svg)


def _width(svg: str) -> float:
    """Return the width of a drawing, in pixels."""
    found = re.search(r'<svg[^>]* width="([\d.]+)"', svg)
    assert found is not None
    return float(found[1])


def slug(name: str) -> str:
    """Return a name reduced to characters of a file name; not unique."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A chart with its file name, title and caption."""

    name: str
    title: str
    caption: str
    chart: Picture


def specification(chart: Any, *, text: float = SCREEN_TEXT) -> dict[str, Any]:
    """Return a chart, or one of Altair, with a font size in pixels; its sizes can be set, as `fit` does."""
    spec = _picture(chart)
    spec |= {"spec": dict(spec["spec"])} if "spec" in spec else {}
    spec["config"] = config(text)
    layout = spec["usermeta"]
    spec["usermeta"] = layout | {name: layout[name] * text / SCREEN_TEXT for name in SIZES - {"panels"}}
    return spec


def fit(spec: dict[str, Any], width: float, taken: float | None = None) -> None:
    """Lay out as many panels in a row as fit a width in pixels, and let them fill the row.

    `taken` is what a drawing of it took: with it the width is met exactly. A page does the same for itself
    (`templates/charts.js`).
    """
    meta, panel = spec["usermeta"], spec.get("spec", spec)
    columns = int(max(1, min(meta["panels"], width // meta["least"])))
    if "spec" in spec:
        spec["columns"] = columns
    beside = width - AXIS_WIDTH
    # none: all words in one row
    spec["config"]["legend"]["columns"] = 0 if meta["legend"] <= beside else int(max(1, beside // meta["entry"]))
    if taken is None:
        panel["width"] = max(beside / columns - spec["config"]["facet"]["spacing"], 40)
    else:
        panel["width"] += (width - taken) / columns
