"""The text of a scenario: TOML read, and TOML written from tables."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from poolscope.core.errors import InputError


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a text."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise InputError("must not be nested that deeply") from None
    except ValueError as error:
        # tomllib has the line only in its words, and not at all for an integer without end.
        message, _, where = str(error).partition(" (at ")
        line = re.match(r"line (\d+)", where)
        number = line[1] if line else str(text.count("\n") + 1)
        raise InputError(f"must be TOML: {message}", place=f"line {number}") from error


def as_toml(tables: Mapping[str, Any]) -> str:
    """TOML of the tables of a scenario, one key a line; what is nested deeper stands inline."""
    lines = [f"{_key(key)} = {_inline(value)}" for key, value in tables.items() if not _is_table(value)]
    for name, value in tables.items():
        for table in [] if not _is_table(value) else value if isinstance(value, list) else [value]:
            lines += ["", f"[[{_key(name)}]]" if isinstance(value, list) else f"[{_key(name)}]"]
            lines += [f"{_key(key)} = {_inline(entry)}" for key, entry in table.items()]
    return "\n".join(lines) + "\n"


def toml_value(value: Any, place: str = "") -> Any:
    """A value from Python as TOML can say it: tuples are lists, numbers of NumPy are numbers; others are refused."""
    if hasattr(value, "dtype") and hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise InputError("keys must be texts", value=key, place=place or None)
        return {key: toml_value(entry, f"{place}.{key}" if place else key) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [toml_value(entry, f"{place}[{i}]") for i, entry in enumerate(value)]
    if not isinstance(value, str | int | float):
        raise InputError("must be what TOML can say: texts, numbers, lists, tables", value=value, place=place or None)
    return value


def set_key(tables: dict[str, Any], key: str, value: Any) -> None:
    """Set a key that is named with dots, or take it away where the value is None."""
    *path, last = key.split(".") if isinstance(key, str) else [""]
    if not all((*path, last)):
        raise InputError("keys must be names with dots between them, as mechanism.epsilon", value=key)
    table = tables
    for depth, part in enumerate(path, start=1):
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            place = ".".join(path[:depth])
            raise InputError("must be a table to have keys", value=table, place=place, remedy=f"set {place} as a whole")
    if value is None:
        table.pop(last, None)
    else:
        table[last] = toml_value(value, key)


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and bool(value) and all(map(_is_table, value)))


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(key)} = {_inline(entry)}" for key, entry in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return _text(value) if isinstance(value, str) else json.dumps(value)


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _text(key)


def _text(value: str) -> str:
    """As JSON has it, but for what TOML has otherwise: characters beyond 16 bits, and DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
