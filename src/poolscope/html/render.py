"""Where the JavaScript of the pages comes from: Vega, Vega-Lite and Vega-Embed in one file.

It is made when the package is built (`hatch_build.py`) and lies beside this module. A checkout that was never built
makes it once, with vl-convert, and keeps it in the user's cache.

From records to one HTML page: the only Jinja environment, and what all pages have in common.

Pictures on their way out: inside a page, or as a file of their own.

A page holds the specification of each picture and, once, the JavaScript that draws them: ``embed(chart, ...)`` for
every picture, and a template that extends ``charts.html.j2`` for the page. Nothing is fetched, and no text of a
specification is run: a policy in the page's head allows the page's own scripts and no other (`html.render`).
"""

from __future__ import annotations

import json
import os
import re
import shlex
from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

from altair import Undefined
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from poolscope.core.errors import PoolscopeError, visible
from poolscope.core.files import told
from poolscope.core.tables.atomic import write_text
from poolscope.html.style import Picture, config, quickly

BUILT = Path(__file__).with_name("vega.js")

MISSING = "pip install 'poolscope[figures]'"
"""What brings vl-convert."""


@cache
def javascript() -> str:
    """The bundle, made fit to stand inside a page."""
    path = BUILT if BUILT.is_file() else _cached()
    # a page's parser looks for these in the middle of a script too; in a text of JavaScript the backslash is nothing
    return path.read_text("utf-8").replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _cached() -> Path:
    try:
        version = metadata.version("vl-convert-python")
        import vl_convert
    except ImportError:
        raise PoolscopeError(f"the JavaScript of the pages was not built; make it with: {MISSING}") from None
    path = _cache_folder() / f"vega-{version}.js"
    if not path.is_file():
        with told(path, "set XDG_CACHE_HOME to a folder that can be written"):
            path.parent.mkdir(parents=True, exist_ok=True)
            # its stub knows no default
            write_text(path, vl_convert.javascript_bundle())  # type: ignore[call-arg]
    return path


def _cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "poolscope"


POLICY = "script-src 'none'; "
"""What stands in the head of a page until its scripts are known."""


def render(template: str, **values: Any) -> str:
    """A page as HTML; every text is escaped, and a value that the template misses is an error.

    Its policy lets no script run but the page's own, which it names by their hashes, and lets nothing be fetched.
    """
    scripts: list[Markup] = []

    def script(code: str) -> Markup:
        scripts.append(Markup(code))
        return Markup("<script>{}</script>").format(scripts[-1])

    page = _environment().get_template(template).render(**values, script=script, bundle=javascript)
    hashes = " ".join(f"'sha256-{b64encode(sha256(code.encode()).digest()).decode()}'" for code in scripts)
    return page.replace(POLICY, f"script-src {hashes}; " if hashes else "", 1)


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("poolscope.html", "templates"),
        # Always: the templates' names do not end in .html, which is what Jinja would go by.
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _visible(value: Any) -> Any:
    """Marks that hide text or turn its direction are shown, not obeyed; what is Markup is ours."""
    return visible(value, besides="\n\r\t") if type(value) is str else value


def origin(command: str, *, seed: int, users: int, version: str, seconds: float | None) -> list[tuple[str, str]]:
    """Where the numbers come from, down to the command that makes them again."""
    told = [("Command", command), ("Seed", str(seed)), ("Users", f"{users:,}"), ("Version", f"poolscope {version}")]
    return told if seconds is None else [*told, ("Time", f"{seconds:,.1f} s")]


def options(asked: Mapping[str, Any]) -> str:
    """What was asked for, as options of a command."""
    lists = {name: ",".join(map(str, value)) if isinstance(value, list) else value for name, value in asked.items()}
    return "".join(f" --{name} {shlex.quote(str(value))}" for name, value in lists.items())


def slug(name: str) -> str:
    """What a file name can hold of a name; two names may have the same."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def tied(text: str) -> str:
    """Text whose numbers stay on one line with their percent sign."""
    return text.replace(" %", "\u202f%")


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
