"""From records to one HTML page: the only Jinja environment, and what all pages have in common."""

from __future__ import annotations

import re
import shlex
from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from poolscope.core.errors import visible
from poolscope.html.bundle import javascript

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
