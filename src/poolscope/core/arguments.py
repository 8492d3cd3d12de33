"""Check arguments of public functions: a wrong one is one line, not a traceback."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from functools import wraps
from os import PathLike
from typing import Any, NamedTuple, ParamSpec, TypeVar

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


Given = ParamSpec("Given")
Done = TypeVar("Done")


class ArgumentType(NamedTuple):
    """Whether a value is of a kind, what the kind is called, and what to do about another one."""

    fits: Callable[[Any], bool]
    words: str
    remedy: str | None = None


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_real(value: Any) -> bool:
    """Any real number: whether NaN and infinity are refused is for the function to say."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _is_path(value: Any) -> bool:
    return isinstance(value, str | PathLike)


def _has(*names: str) -> Callable[[Any], bool]:
    return lambda value: not isinstance(value, type) and all(hasattr(value, name) for name in names)


def _is_a(name: str, library: str = "poolscope") -> Callable[[Any], bool]:
    """By the name of the class, as this module is below those that define them."""

    def fits(value: Any) -> bool:
        return any(k.__name__ == name and k.__module__.partition(".")[0] == library for k in type(value).__mro__)

    return fits


def _list_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def listed(value: Any) -> bool:
        return isinstance(value, Sequence | np.ndarray) and not isinstance(value, str) and all(map(fits, value))

    return listed


SCENARIO = ArgumentType(_is_a("Scenario"), "a Scenario", "made by poolscope.load_scenario or Scenario.from_dict")
ENGINE = ArgumentType(_has("map", "tasks", "threads"), "an engine", "poolscope.Local() or poolscope.Dask(...)")
NAMES = ArgumentType(_list_of(_is_text), "a list of names")
PATH = ArgumentType(_is_path, "a path")

#: Declared type -> kind; parameters of other types are checked where they are used.
ARGUMENT_TYPES = {
    "int": ArgumentType(is_integer, "a whole number"),
    "float": ArgumentType(_is_real, "a number"),
    "str": ArgumentType(_is_text, "a text"),
    "bool": ArgumentType(lambda value: isinstance(value, bool | np.bool_), "true or false"),
    "str | PathLike[str]": PATH,
    "str | os.PathLike[str]": PATH,
    "Sequence[int]": ArgumentType(_list_of(is_integer), "a list of whole numbers"),
    "Sequence[float]": ArgumentType(_list_of(_is_real), "a list of numbers"),
    "Sequence[str]": NAMES,
    "str | Sequence[str]": ArgumentType(
        lambda value: _is_text(value) or NAMES.fits(value), "a name or a list of names"
    ),
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


def checked(function: Callable[Given, Done]) -> Callable[Given, Done]:
    """A public function that refuses arguments of other types than it declares, and a seed below zero."""
    signature = inspect.signature(function)

    @wraps(function)
    def called(*args: Given.args, **options: Given.kwargs) -> Done:
        for name, value in signature.bind(*args, **options).arguments.items():
            _check(name, value, signature.parameters[name].annotation)
        return function(*args, **options)

    return called


def _check(name: str, value: Any, declared: Any) -> None:
    text = declared.__name__ if isinstance(declared, type) else str(declared)
    if text.endswith(" | None"):
        if value is None:
            return
        text = text.removesuffix(" | None")
    kind = ARGUMENT_TYPES.get(text)
    if kind is not None and not kind.fits(value):
        raise InputError(f"{name} must be {kind.words}", value=value, remedy=kind.remedy)
    if name == "seed" and value < 0:
        raise InputError("seed must be at least 0", value=value)
