"""From records to one HTML page: the only Jinja environment, and what all pages have in common."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


def render(template: str, **values: Any) -> str:
    """A page as HTML; every text is escaped, and a value that the template misses is an error."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("poolscope.pages", "templates"),
        # Always: the templates' names do not end in .html, which is what Jinja would go by.
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def tied(text: str) -> str:
    """Text whose numbers stay on one line with their percent sign."""
    return text.replace(" %", "\u202f%")
