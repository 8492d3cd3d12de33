"""Validation with pydantic: numbers of JSON, and errors as ``InputError``: place, rule, value, remedy on one line."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from poolscope.core.errors import InputError

_RULES = {
    "model_type": "must be {table}",
    "dict_type": "must be {table}",
    "dataclass_type": "must be {table}",
    "mapping_type": "must be {table}",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length} entries",
    "string_too_short": "must not be empty",
    "string_type": "must be a string",
    "bool_type": "must be true or false",
    "int_type": "must be an integer",
    "float_type": "must be a number",
    "finite_number": "must be finite",
    "greater_than": "must be positive",  # no model has another bound of this kind
    "greater_than_equal": "must be at least {ge:g}",
    "less_than_equal": "must be at most {le:g}",
}
"""House words for pydantic's error types; for the others its own message does."""


def rejection(rule: str, *, key: str | None = None, **details: Any) -> PydanticCustomError:
    """Return the error of a broken rule of a model, or of one key in it; details are those of ``InputError``."""
    return PydanticCustomError("rule", "rule", {"rule": rule, "key": key, "details": details})


INFINITIES = {"inf": inf, "-inf": -inf}
"""Infinities as texts, as JSON has no number for them."""

NUMBER: dict[str, Any] = {"anyOf": [{"type": "number"}, {"enum": list(INFINITIES)}]}
"""A number in a JSON Schema."""


def real(value: Any, key: str | None = None) -> float:
    """Return a number as it is, or the infinity that a text names; refuse anything else, at this key."""
    if isinstance(value, str) and value in INFINITIES:
        return INFINITIES[value]
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise rejection("must be a number", key=key, value=value)
    return value


def input_error(invalid: ValidationError) -> InputError:
    """Return the first of pydantic's errors in one line, with places as in TOML: ``adversary[0].name``."""
    return _translated(invalid, lambda place, step: f"{place}[{step}]", "a table")


def json_input_error(invalid: ValidationError) -> InputError:
    """Return the first of pydantic's errors in one line, with places as in JSON: ``results.0.n``."""
    return _translated(invalid, lambda place, step: f"{place}.{step}" if place else str(step), "an object")


def _translated(invalid: ValidationError, indexed: Callable[[str, int], str], table: str) -> InputError:
    error = invalid.errors(include_url=False)[0]
    context: dict[str, Any] = error.get("ctx", {})
    place = ""
    for step in (*error["loc"], context.get("key")):
        if isinstance(step, int):
            place = indexed(place, step)
        # A tag of Discriminator is pydantic's own step, no key of the file.
        elif step and not step.startswith("<"):
            place += f".{step}" if place else step
    at = place or None
    if error["type"] == "rule":
        return InputError(context["rule"], place=at, **context["details"])
    if error["type"] == "missing":
        return InputError("is missing", place=at)
    if error["type"] in _RULES:
        rule = _RULES[error["type"]].format(table=table, **context)
        if error["type"] == "too_short" and context["min_length"] == 1:
            rule = "must not be empty"
    else:
        rule = error["msg"].replace("Input should", "must")
    if "<word>" in error["loc"]:
        rule += " or a table"
    return InputError(rule, place=at, value=error["input"])
