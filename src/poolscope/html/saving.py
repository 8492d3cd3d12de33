"""A picture as a file for a paper: SVG, PNG or PDF, by vl-convert, as wide as a column or as a page."""

from __future__ import annotations

import re
from os import PathLike
from pathlib import Path
from typing import Any

from poolscope.core.errors import InputError, PoolscopeError
from poolscope.core.files import told
from poolscope.core.tables import check_output
from poolscope.core.tables.atomic import write_bytes
from poolscope.html.render import MISSING, fit, specification
from poolscope.html.style import Picture

WIDTHS = {"column": 3.33, "page": 7.0}
"""Inches."""

PIXELS = 96
"""To an inch."""

TEXT = 10
"""Pixels of a letter: 7.5 points."""

DENSITY = 300
"""Dots to an inch of a PNG."""

FORMATS = ("svg", "png", "pdf")


def save(chart: Picture, path: str | PathLike[str], *, width: str = "page", overwrite: bool = False) -> None:
    """Write a picture as SVG, PNG or PDF, by the file's ending, as wide as a paper's ``column`` or ``page``.

    An existing file is replaced only with `overwrite`.

    Examples
    --------
    >>> chart = ps.figures.behaviour_density(rows)
    >>> ps.figures.save(chart, "density.png", width="column")
    >>> open("density.png", "rb").read(4)
    b'\\x89PNG'
    """
    if not hasattr(chart, "to_dict"):
        raise InputError("must be a picture, as the functions of poolscope.figures make", value=chart)
    target = Path(path)
    check(target.suffix.removeprefix(".").lower(), width)
    check_output(target, overwrite=overwrite, endings=[f".{form}" for form in FORMATS], option="path")
    data = _converted(chart, target.suffix.removeprefix(".").lower(), width)
    with told(target):
        write_bytes(target, data)


def check(form: str, width: str) -> Any:
    """Refuse what is no format or no width, and an installation without vl-convert; returns vl-convert."""
    if form not in FORMATS:
        raise InputError("unknown format", value=form, remedy=f"take one of {', '.join(FORMATS)}")
    if width not in WIDTHS:
        raise InputError("unknown width", value=width, remedy=f"take one of {', '.join(WIDTHS)}")
    try:
        import vl_convert
    except ImportError:
        raise PoolscopeError(f"pictures as files need vl-convert; install it with: {MISSING}") from None
    return vl_convert


def _converted(chart: Picture, form: str, width: str) -> bytes:
    vl_convert = check(form, width)
    spec, pixels = _still(specification(chart, text=TEXT)), WIDTHS[width] * PIXELS
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


def _still(spec: dict[str, Any]) -> dict[str, Any]:
    """A specification without what only answers to a pointer, which a paper has not, on white as a paper is."""
    panel = spec.get("spec", spec)
    panel["layer"] = [layer for layer in panel["layer"] if "condition" not in layer["encoding"].get("opacity", {})]
    spec["params"] = [param for param in spec.get("params", []) if "select" not in param]
    return spec | {"background": "white"}


def _renumbered(svg: str) -> str:
    """The same drawing always with the same bytes: vl-convert counts clip paths on from one drawing to the next."""
    numbers: dict[str, int] = {}

    def renamed(found: re.Match[str]) -> str:
        return found[1] + str(numbers.setdefault(found[2], len(numbers)))

    return re.sub(r'( id="clip|"url\(#clip)(\d+)', renamed, svg)


def _width(svg: str) -> float:
    """Of a drawing, in pixels."""
    found = re.search(r'<svg[^>]* width="([\d.]+)"', svg)
    assert found is not None
    return float(found[1])
