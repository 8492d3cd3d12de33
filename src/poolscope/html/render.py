"""Render records as one HTML report: the only Jinja environment, and what all reports have in common.

A report holds the specification of each picture and, once, the JavaScript that draws them: ``embed(chart, ...)`` for
every picture, and a template that extends ``charts.html.j2`` for the report. Nothing is fetched, and no text of a
specification is run: a policy in the head allows the report's own scripts and no other.

The JavaScript (Vega, Vega-Lite and Vega-Embed in one file) is made when the package is built (`hatch_build.py`) and
lies beside this module. A checkout that was never built makes it once, with vl-convert, and caches it.
"""

from __future__ import annotations

import json
import shlex
from base64 import b64encode
from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from poolscope.core.errors import PoolscopeError, visible
from poolscope.core.files import located_os_errors
from poolscope.core.tables.atomic import write_text
from poolscope.figures.saving import MISSING, Figure, specification
from poolscope.figures.style import Picture

BUILT = Path(__file__).with_name("vega.js")


@cache
def javascript() -> str:
    """The bundle, made fit to stand inside a page."""
    path = BUILT if BUILT.is_file() else _cached()
    # a page's parser looks for these in the middle of a script too; in a text of JavaScript the backslash is nothing
    return path.read_text("utf-8").replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _cached() -> Path:
    from platformdirs import user_cache_path  # only a checkout that was never built needs it

    try:
        version = metadata.version("vl-convert-python")
        import vl_convert
    except ImportError:
        raise PoolscopeError(f"the JavaScript of the pages was not built; make it with: {MISSING}") from None
    path = user_cache_path("poolscope", appauthor=False) / f"vega-{version}.js"
    if not path.is_file():
        with located_os_errors(path, "set XDG_CACHE_HOME to a folder that can be written"):
            path.parent.mkdir(parents=True, exist_ok=True)
            # its stub knows no default
            write_text(path, vl_convert.javascript_bundle())  # type: ignore[call-arg]
    return path


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
    facts = [("Command", command), ("Seed", str(seed)), ("Users", f"{users:,}"), ("Version", f"poolscope {version}")]
    return facts if seconds is None else [*facts, ("Time", f"{seconds:,.1f} s")]


def options(asked: Mapping[str, Any]) -> str:
    """What was asked for, as options of a command."""
    lists = {name: ",".join(map(str, value)) if isinstance(value, list) else value for name, value in asked.items()}
    return "".join(f" --{name} {shlex.quote(str(value))}" for name, value in lists.items())


def tied(text: str) -> str:
    """Text whose numbers stay on one line with their percent sign."""
    return text.replace(" %", "\u202f%")


ELEMENT = (
    '<div class="chart" role="img" aria-label="{}" data-name="{}"><script type="application/json">{}</script></div>'
)


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


def placed(pictures: Iterable[Figure]) -> list[dict[str, Any]]:
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
