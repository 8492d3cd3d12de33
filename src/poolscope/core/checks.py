"""Checks of arguments that a caller gives from Python, where anything may be of any type."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from poolscope.core.arrays import Floats, Integers
from poolscope.core.errors import InputError

#: The largest count that fits into the integers of tables and kernels.
LARGEST_INTEGER = 2**63 - 1


def is_integer(value: object) -> bool:
    """Whether it is a whole number by type; a boolean is none."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Whether it is a number by type, and not NaN; a boolean is none."""
    return is_integer(value) or (isinstance(value, float | np.floating) and not math.isnan(value))


def check_integer(name: str, value: Any, low: int, high: int = LARGEST_INTEGER) -> None:
    """Refuse what is not an integer from `low` to `high`."""
    if not (is_integer(value) and low <= value <= high):
        bounds = f"of at least {low}" if high == LARGEST_INTEGER else f"from {low} to {high}"
        raise InputError(f"{name} must be an integer {bounds}", value=value)


def check_integers(name: str, values: Any, low: int, high: int = LARGEST_INTEGER) -> None:
    """Refuse what is not a sequence of such integers."""
    if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray):
        raise InputError(f"{name} must be a list of integers", value=values)
    for value in values:
        check_integer(f"each of {name}", value, low, high)


def as_integers(name: str, values: Any) -> Integers:
    """The values as an array of integers; refused where they are something else."""
    found = np.asarray(values)
    if found.dtype.kind not in "iu" and found.size:
        raise InputError(f"{name} must be integers", value=values)
    return found.astype(np.int64)


def as_counts(name: str, values: Any) -> Integers:
    """The values as (any,) integers of at least 0; refused where they are something else."""
    found = np.asarray(values)
    whole = found.dtype.kind in "iu" or not found.size
    if found.ndim != 1 or not whole or np.any(found < 0):
        raise InputError(f"{name} must be a list of integers of at least 0", value=values)
    return found.astype(np.int64)


def as_floats(name: str, values: Any) -> Floats:
    """The values as an array of numbers; refused where they are something else."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be numbers", value=values) from None
