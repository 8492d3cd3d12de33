"""Where the JavaScript of the pages comes from: Vega, Vega-Lite and Vega-Embed in one file.

It is made when the package is built (`hatch_build.py`) and lies beside this module. A checkout that was never built
makes it once, with vl-convert, and keeps it in the user's cache.
"""

from __future__ import annotations

import os
from functools import cache
from importlib import metadata
from pathlib import Path

from poolscope.core.errors import PoolscopeError
from poolscope.core.files import told
from poolscope.core.tables.atomic import write_text

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
