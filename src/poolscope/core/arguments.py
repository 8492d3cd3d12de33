"""Checks of the arguments of public functions; each raises a one-line `InputError`."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from os import PathLike
from typing import Any, NamedTuple, ParamSpec, TypeGuard, TypeVar

import numpy as np

from poolscope.core.arrays import Floats, Integers
from poolscope.core.errors import InputError

#: Largest signed 64-bit integer, the type of tables and kernels.
MAX_INT64 = 2**63 - 1


def is_integer(value: object) -> TypeGuard[int]:
    """Return whether a value is an integer by type, and not a boolean."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Return whether a value is a number by type, and neither NaN nor a boolean."""
    return is_integer(value) or (isinstance(value, float | np.floating) and not math.isnan(value))


def check_integer(name: str, value: Any, low: int, high: int = MAX_INT64) -> None:
    """Check that a value is an integer from `low` to `high`."""
    if not (is_integer(value) and low <= value <= high):
        bounds = f"of at least {low}" if high == MAX_INT64 else f"from {low} to {high}"
        raise InputError(f"{name} must be an integer {bounds}", value=value)


def check_integers(name: str, values: Any, low: int, high: int = MAX_INT64) -> None:
    """Check that values are a sequence of integers from `low` to `high`."""
    if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray):
        raise InputError(f"{name} must be a list of integers", value=values)
    for value in values:
        check_integer(f"each of {name}", value, low, high)


def as_integers(name: str, values: Any) -> Integers:
    """Return the values as an array of integers, or raise an `InputError`."""
    found = np.asarray(values)
    if found.dtype.kind not in "iu" and found.size:
        raise InputError(f"{name} must be integers", value=values)
    return found.astype(np.int64)


def as_counts(name: str, values: Any) -> Integers:
    """Return the values as a one-dimensional array of integers of at least 0, or raise an `InputError`."""
    found = np.asarray(values)
    whole = found.dtype.kind in "iu" or not found.size
    if found.ndim != 1 or not whole or np.any(found < 0):
        raise InputError(f"{name} must be a list of integers of at least 0", value=values)
    return found.astype(np.int64)


def as_floats(name: str, values: Any) -> Floats:
    """Return the values as an array of floats, or raise an `InputError`."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be numbers", value=values) from None


Params = ParamSpec("Params")
Return = TypeVar("Return")


class ArgumentType(NamedTuple):
    """Predicate of an argument type, its name in messages, and the remedy for other values."""

    matches: Callable[[Any], bool]
    name: str
    remedy: str | None = None


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_real(value: Any) -> bool:
    """Return whether a value is a real number that is a float; functions check for NaN and infinity themselves."""
    if isinstance(value, int):
        return not isinstance(value, bool) and value.bit_length() < sys.float_info.max_exp
    return isinstance(value, float | np.integer | np.floating)


def _is_path(value: Any) -> bool:
    return isinstance(value, str | PathLike)


def _has(*names: str) -> Callable[[Any], bool]:
    return lambda value: not isinstance(value, type) and all(hasattr(value, name) for name in names)


def _is_a(name: str, library: str = "poolscope") -> Callable[[Any], bool]:
    """Return a predicate by class name, as this layer cannot import the classes."""

    def matches(value: Any) -> bool:
        return any(k.__name__ == name and k.__module__.partition(".")[0] == library for k in type(value).__mro__)

    return matches


def _list_of(matches: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def listed(value: Any) -> bool:
        return isinstance(value, Sequence | np.ndarray) and not isinstance(value, str) and all(map(matches, value))

    return listed


_is_opened = _is_a("Source")


def _is_data(value: Any) -> bool:
    """Return whether a value can be a table to read, by type; an empty list is refused where it is read."""
    return _is_path(value) or _list_of(_is_path)(value) or _has("__arrow_c_stream__")(value) or _is_opened(value)


SCENARIO = ArgumentType(_is_a("Scenario"), "a Scenario", "made by poolscope.load_scenario or Scenario.from_dict")
ENGINE = ArgumentType(_has("map", "tasks", "threads"), "an engine", "poolscope.Local() or poolscope.Dask(...)")
NAMES = ArgumentType(_list_of(_is_text), "a list of names")
PATH = ArgumentType(_is_path, "a path")

#: Annotation -> argument type; parameters with other annotations are checked where they are used.
ARGUMENT_TYPES = {
    "int": ArgumentType(is_integer, "a whole number"),
    "float": ArgumentType(_is_real, "a number"),
    "str": ArgumentType(_is_text, "a string"),
    "bool": ArgumentType(lambda value: isinstance(value, bool | np.bool_), "true or false"),
    "str | PathLike[str]": PATH,
    "str | os.PathLike[str]": PATH,
    "Sequence[int]": ArgumentType(_list_of(is_integer), "a list of whole numbers"),
    "Sequence[float]": ArgumentType(_list_of(_is_real), "a list of numbers"),
    "Sequence[str]": NAMES,
    "str | Sequence[str]": ArgumentType(
        lambda value: _is_text(value) or NAMES.matches(value), "a name or a list of names"
    ),
    "Data": ArgumentType(_is_data, "a path, an address, a list of them, or a table with the Arrow C stream interface"),
    "Sequence[str | PathLike[str]]": ArgumentType(_list_of(_is_path), "a list of paths"),
    "Sequence[str | Callable[..., Any]]": ArgumentType(
        _list_of(lambda value: _is_text(value) or callable(value)), "a list of names or classes of mechanisms"
    ),
    "tuple[float, float]": ArgumentType(lambda value: _list_of(_is_real)(value) and len(value) == 2, "two numbers"),
    "Scenario": SCENARIO,
    "Engine": ENGINE,
    "Local": ENGINE,
    "Progress": ArgumentType(_has("begin", "stage", "tick"), "a Progress"),
    "Game": ArgumentType(_has("pool_counts", "epsilon"), "a Game", "of a scenario: scenario.game(seed)"),
    "Universe": ArgumentType(_is_a("Universe"), "a Universe", "for example Universe.sized(100, {'a': 20, 'b': 20})"),
    "Behavior": ArgumentType(_is_a("Behavior"), "a Behavior"),
    "pl.DataFrame": ArgumentType(_is_a("DataFrame", "polars"), "a DataFrame of polars"),
}


def checked(function: Callable[Params, Return]) -> Callable[Params, Return]:
    """Decorate a public function to check its arguments against their annotations, and that a seed is at least 0."""
    signature = inspect.signature(function)

    @wraps(function)
    def checking(*args: Params.args, **options: Params.kwargs) -> Return:
        for name, value in signature.bind(*args, **options).arguments.items():
            _check(name, value, signature.parameters[name].annotation)
        return function(*args, **options)

    return checking


def _check(name: str, value: Any, declared: Any) -> None:
    text = declared.__name__ if isinstance(declared, type) else str(declared)
    if text.endswith(" | None"):
        if value is None:
            return
        text = text.removesuffix(" | None")
    kind = ARGUMENT_TYPES.get(text)
    if kind is not None and not kind.matches(value):
        raise InputError(f"{name} must be {kind.name}", value=value, remedy=kind.remedy)
    if name == "seed" and value < 0:
        raise InputError("seed must be at least 0", value=value)
