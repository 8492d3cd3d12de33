"""Render HTML reports: the Jinja environment, and what all reports have in common.

A report contains the Vega-Lite specification of each figure and, once, the JavaScript that draws them: ``embed(chart)``
for a figure, and a template that extends ``charts.html.j2``. A report fetches nothing. Its Content Security Policy
allows its own scripts only, so no text of a specification is run.

The JavaScript (Vega, Vega-Lite and Vega-Embed in one file) is bundled when the package is built (`hatch_build.py`). A
source checkout bundles it once with vl-convert and caches it.
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
    """Return the bundle, escaped for use inside HTML."""
    path = BUILT if BUILT.is_file() else _cached()
    # an HTML parser looks for these inside a script as well; in a JavaScript string the backslash has no effect
    return path.read_text("utf-8").replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _cached() -> Path:
    from platformdirs import user_cache_path  # only a checkout that was never built needs it

    try:
        version = metadata.version("vl-convert-python")
        import vl_convert
    except ImportError:
        raise PoolscopeError(f"the JavaScript of the reports is not built; build it with: {MISSING}") from None
    path = user_cache_path("poolscope", appauthor=False) / f"vega-{version}.js"
    if not path.is_file():
        with located_os_errors(path, "set XDG_CACHE_HOME to a folder that can be written"):
            path.parent.mkdir(parents=True, exist_ok=True)
            # the stub lacks the default
            write_text(path, vl_convert.javascript_bundle())  # type: ignore[call-arg]
    return path


POLICY = "script-src 'none'; "
"""Placeholder in the head of a report until its scripts are known."""


def render(template: str, **values: Any) -> str:
    """Return a report as HTML; escape every text, and raise an error for a value that the template lacks.

    The policy allows the report's own scripts by their hashes, and no requests.
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
    """Make characters visible that hide text or change its direction; Markup is trusted."""
    return visible(value, besides="\n\r\t") if type(value) is str else value


def origin(command: str, *, seed: int, users: int, version: str, seconds: float | None) -> list[tuple[str, str]]:
    """Return the provenance of a report: command, seed, users, version and time."""
    facts = [("Command", command), ("Seed", str(seed)), ("Users", f"{users:,}"), ("Version", f"poolscope {version}")]
    return facts if seconds is None else [*facts, ("Time", f"{seconds:,.1f} s")]


def options(overrides: Mapping[str, Any]) -> str:
    """Return changed settings as options of a command."""
    lists = {name: ",".join(map(str, value)) if isinstance(value, list) else value for name, value in overrides.items()}
    return "".join(f" --{name} {shlex.quote(str(value))}" for name, value in lists.items())


ELEMENT = (
    '<div class="chart" role="img" aria-label="{}" data-name="{}"><script type="application/json">{}</script></div>'
)


def embed(chart: Picture, *, name: str, label: str) -> Markup:
    """Return a figure as an HTML element.

    Parameters
    ----------
    chart : the figure.
    name : file name for saving, without its suffix.
    label : accessible name.
    """
    text = json.dumps(specification(chart), separators=(",", ":"), ensure_ascii=False)
    # no character can end the enclosing element
    text = text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return Markup(ELEMENT).format(label, name, Markup(text))


def placed(pictures: Iterable[Figure]) -> list[dict[str, Any]]:
    """Return the figures for the template `figure.html.j2`, numbered if there are several."""
    every = list(pictures)
    return [
        {
            "number": number if len(every) > 1 else None,
            "title": picture.title,
            "chart": embed(picture.chart, name=picture.name, label=picture.title),
            "caption": picture.caption,
        }
        for number, picture in enumerate(every, start=1)
    ]
