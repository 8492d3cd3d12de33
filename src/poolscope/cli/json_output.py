"""Results as JSON: those that have a file as in the file, others field by field."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from poolscope.core.files import json_safe
from poolscope.metrics.intervals import Estimate
from poolscope.metrics.models import ENDS, Result, as_text
from poolscope.population.universe import Universe


def json_text(result: Any) -> str:
    """Return a result as the text of JSON."""
    if isinstance(result, Result):
        return as_text(result)
    return json.dumps(plain(result), indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def plain(value: Any) -> Any:
    """Return a value as JSON has it: an estimate is three entries, a table a list of rows, a universe its size."""
    if isinstance(value, Result):
        return value.as_json()
    if isinstance(value, Universe):
        return value.size
    if isinstance(value, pl.DataFrame):
        return [plain(row) for row in value.iter_rows(named=True)]
    if is_dataclass(value) and not isinstance(value, type):
        return plain({entry.name: getattr(value, entry.name) for entry in fields(value)})
    if isinstance(value, Mapping):
        return {key: entry for name, given in value.items() for key, entry in _entries(str(name), given)}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, Path):
        return str(value)
    return json_safe(value.item() if isinstance(value, np.generic) else value)


def _entries(name: str, value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, Estimate):
        return [(f"{name}{end}", json_safe(part)) for end, part in zip(ENDS, value, strict=True)]
    return [(name, plain(value))]
