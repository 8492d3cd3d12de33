"""Serve the page itself, its scripts and its style, which need nothing that takes long to import."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib import resources

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from poolscope import __version__
from poolscope.explore.server import Explorer
from poolscope.html.render import javascript, render

MAX_COMPARED = 4
"""Largest number of compared settings."""

COMPARED = (
    "Strongest adversary",
    "Correct",
    "Correct in top 10%",
    "Exposed",
    "AUC-PN",
    "Bound",
    "RMSE",
    "ε per year",
)
"""Columns of the comparison."""


def _page(explorer: Explorer, _: Request) -> Response:
    people = explorer.people
    start = {
        "scenarios": explorer.shelf.names,
        "scenario": explorer.start,
        "seed": explorer.seed,
        "opened": explorer.opened,
        "compared": COMPARED,
        "max_compared": MAX_COMPARED,
        "people": people and people.name,
    }
    text = json.dumps(start, ensure_ascii=True).replace("<", "\\u003c")
    return HTMLResponse(render("explore.html.j2", start=Markup(text), version=__version__))


def _bundle(_: Explorer, __: Request) -> Response:
    return Response(javascript(), media_type="text/javascript")


def _script(_: Explorer, __: Request) -> Response:
    return Response("\n".join(map(_template, ("charts.js", "tables.js", "explore.js"))), media_type="text/javascript")


def _style(_: Explorer, __: Request) -> Response:
    return Response("\n".join(map(_template, ("report.css", "explore.css"))), media_type="text/css")


def _template(name: str) -> str:
    return (resources.files("poolscope.html") / "templates" / name).read_text("utf-8")


PARTS: Mapping[str, Callable[[Explorer, Request], Response]] = {
    "": _page,
    "vega.js": _bundle,
    "explore.js": _script,
    "explore.css": _style,
}
"""The handler of each path."""
