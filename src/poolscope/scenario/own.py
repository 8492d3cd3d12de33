"""A mechanism of one's own beside those of scenarios: a class, or where it is.

Only who gives a command, or calls a function, can name one: a scenario may come from a stranger, and to import is to
run.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable
from typing import Any

from poolscope.core.errors import InputError
from poolscope.mechanisms import adapt
from poolscope.mechanisms.protocols import Mechanism
from poolscope.population.universe import Universe

GIVEN = ("universe", "size", "epsilon")
"""What a class can ask for by these names: the number of objects, twice, and epsilon."""


def is_own(kind: object) -> bool:
    """Whether it is a class, or "module:Class"; scenarios know the others."""
    return not isinstance(kind, str) or ":" in kind


def own_class(kind: str | Callable[..., Any]) -> Callable[..., Any]:
    """The class, imported where it is named; modules of the folder that the command is given in are found."""
    if not isinstance(kind, str):
        return kind
    module, _, name = kind.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        rule = "must be module:Class that can be imported"
        raise InputError(rule, value=kind, place="mechanism", remedy=str(error)) from None
    if not callable(found):
        raise InputError("must be a class", value=kind, place="mechanism")
    made: Callable[..., Any] = found
    return made


def place_of(kind: str | Callable[..., Any]) -> str:
    """How a command names it."""
    return kind if isinstance(kind, str) else f"{kind.__module__}:{kind.__name__}"


def takes_epsilon(maker: Callable[..., Any]) -> bool:
    """Whether it is made for an epsilon."""
    return "epsilon" in inspect.signature(maker).parameters


def make_own(maker: Callable[..., Any], universe: Universe, epsilon: float | None) -> Mechanism:
    """The mechanism that a class makes, fit for the game (`adapt`)."""
    known = inspect.signature(maker).parameters
    values = {"universe": universe.size, "size": universe.size, "epsilon": epsilon}
    for name, parameter in known.items():
        plain = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if parameter.default is parameter.empty and not plain and name not in GIVEN:
            rule = f"must be made of {', '.join(GIVEN)} or have a default for what else it takes"
            raise InputError(rule, value=name, place=f"mechanism {maker.__name__}")
    return adapt(maker(**{name: values[name] for name in GIVEN if name in known}), universe)
