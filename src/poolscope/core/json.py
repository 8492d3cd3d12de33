"""JSON: read in one way, whatever is wrong with it, and written without what it lacks."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from poolscope.core.errors import InputError, reading
from poolscope.core.files import check_regular


def read_json(path: Path) -> Any:
    """What a file of JSON holds."""
    check_regular(path)
    with reading(path):
        return parse_json(path.read_text("utf-8"))


def parse_json(text: str, place: str | None = None) -> Any:
    """What a text says that is JSON; an error is at its own line, or at the place of the text."""
    try:
        return json.loads(text)
    except RecursionError:
        raise InputError("must not be nested that deeply", place=place) from None
    except ValueError as error:
        message = getattr(error, "msg", str(error))
        place = place or f"line {getattr(error, 'lineno', 1)}"
        raise InputError(f"must be JSON: {message}", place=place) from error


def plain(value: Any) -> Any:
    """A value for JSON, which has no infinity and no NaN: the first is a text, the second null."""
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value
