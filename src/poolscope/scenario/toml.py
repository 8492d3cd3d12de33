"""TOML: parsing, conversion of Python values, and editing of a text that keeps its comments."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, MutableMapping
from datetime import date, time
from typing import TYPE_CHECKING, Any

from poolscope.core.errors import InputError

if TYPE_CHECKING:
    from tomlkit.items import AoT, Item

MAX_BITS = 1024
"""Maximum number of bits of an integer."""


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML text into tables."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise InputError("must not be nested that deeply") from None
    except ValueError as error:
        # tomllib gives the line only in its message, and not at all for a very long integer
        message, _, where = str(error).partition(" (at ")
        line = re.match(r"line (\d+)", where)
        number = line[1] if line else str(text.count("\n") + 1)
        raise InputError(f"must be TOML: {message}", place=f"line {number}") from error


def toml_data(value: Any, place: str = "") -> Any:
    """Convert a Python value to TOML types: tuples to lists, NumPy values to numbers; keys with None are dropped."""
    try:
        return _toml_data(value, place)
    except RecursionError:
        raise InputError("must not be nested that deeply", place=place or None) from None


def _toml_data(value: Any, place: str) -> Any:
    if hasattr(value, "dtype") and hasattr(value, "tolist"):
        value = value.tolist()
    elif hasattr(value, "model_dump"):
        value = value.model_dump(by_alias=True, exclude_unset=True)
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str) or not _is_unicode(key):
                raise InputError("keys must be strings", value=key, place=place or None)
        entries = ((key, entry) for key, entry in value.items() if entry is not None)
        return {key: _toml_data(entry, f"{place}.{key}" if place else key) for key, entry in entries}
    if isinstance(value, list | tuple):
        return [_toml_data(entry, f"{place}[{i}]") for i, entry in enumerate(value)]
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise InputError(f"must have at most {MAX_BITS} bits", place=place or None)
    if not isinstance(value, str | int | float | date | time) or (isinstance(value, str) and not _is_unicode(value)):
        raise InputError("must be a TOML type: string, number, list or table", value=value, place=place or None)
    return value


def _is_unicode(text: str) -> bool:
    """Return whether a string can be encoded; lone surrogates cannot."""
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def merged_toml(original: str, tables: Mapping[str, Any]) -> str:
    """Return the original text, edited to match these tables; comments and order are kept.

    The result is not verified; callers parse it again.
    """
    import tomlkit

    try:
        document = tomlkit.parse(original)
        _merge(document, tables)
        return document.as_string().rstrip("\n") + "\n"
    except Exception:
        # the text is valid for tomllib; where tomlkit fails on it, only its comments are lost
        if not original:
            raise
        return merged_toml("", tables)


def _merge(table: MutableMapping[str, Any], wanted: Mapping[str, Any], *, top: bool = True) -> None:
    import tomlkit
    from tomlkit.items import AoT

    for key in [key for key in table if key not in wanted]:
        del table[key]
    for key, value in wanted.items():
        found = table.get(key)
        reordered = key == "pools" and found is not None and list(found) != list(value)
        if isinstance(found, MutableMapping) and isinstance(value, dict) and not reordered:
            _merge(found, value, top=False)
        elif isinstance(found, AoT) and isinstance(value, list) and _kept_entries(found, value):
            for entry, table_wanted in zip(found, value, strict=False):
                _merge(entry, table_wanted, top=False)
            for table_wanted in value[len(found) :]:
                found.append(_item(table_wanted, top=True).add(tomlkit.nl()))
        elif found is None or reordered or found != value:
            table[key] = _item(value, top=top)


def _kept_entries(found: AoT, wanted: list[Any]) -> bool:
    """Remove entries of other names; return whether the remaining ones are a prefix of the wanted ones."""
    names = [entry["name"] for entry in wanted]
    for index in reversed(range(len(found))):
        if found[index].get("name") not in names:
            del found[index]
    return len(found) > 0 and [entry["name"] for entry in found] == names[: len(found)]


def _item(value: Any, *, top: bool) -> Any:
    """Return a tomlkit item: top-level tables with a header, nested ones inline."""
    import tomlkit

    if isinstance(value, dict):
        made: Any = tomlkit.table() if top else tomlkit.inline_table()
        for key, entry in value.items():
            made.append(key, _item(entry, top=False))
        return made
    if top and isinstance(value, list) and value and all(isinstance(entry, dict) for entry in value):
        listed = tomlkit.aot()
        for entry in value:
            listed.append(_item(entry, top=True))
        return listed
    made_item: Item = tomlkit.item(value)
    return made_item
