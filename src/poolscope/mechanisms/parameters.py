"""Parameters of mechanisms, by the types that they are declared with: a file or a caller can give anything."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from poolscope.core.arguments import is_integer
from poolscope.core.errors import InputError

#: Numbers that a parameter may have: what is beyond does not fit into the kernels' integers.
LARGEST = 1 << 62

#: Declared type -> whether a value has it, and its name.
TYPES = {
    "int": (is_integer, "a whole number"),
    "float": (lambda value: is_integer(value) or isinstance(value, float | np.floating), "a number"),
    "str": (lambda value: isinstance(value, str), "a text"),
}


def check_parameters(maker: Any, parameters: Mapping[str, Any]) -> None:
    """Refuse values that are not of the declared types, before anything is computed with them."""
    known = inspect.signature(maker).parameters
    for name, value in parameters.items():
        if name in known and not (value is None and known[name].default is None):
            _check(name, value, str(known[name].annotation).partition(" ")[0])
    if is_integer(parameters.get("universe")) and parameters["universe"] < 1:
        raise InputError("must have at least one object", value=parameters["universe"], place="universe")


def _check(name: str, value: Any, declared: str) -> None:
    if declared not in TYPES:
        return
    fits, words = TYPES[declared]
    if not fits(value):
        remedy = "give its size" if name == "universe" and hasattr(value, "size") else None
        raise InputError(f"must be {words}", value=value, place=name, remedy=remedy)
    if is_integer(value) and abs(int(value)) > LARGEST:
        raise InputError(f"must be at most {LARGEST}", value=value, place=name)
