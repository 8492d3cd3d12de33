"""Mechanisms of one's own in place of a scenario's: instances, classes, and classes by their module."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable
from typing import Any

from poolscope.core.errors import InputError
from poolscope.mechanisms.checking import check_mechanism
from poolscope.mechanisms.custom import adapt, as_mechanism
from poolscope.mechanisms.protocols import Mechanism
from poolscope.population.universe import Universe
from poolscope.scenario.scenario import Scenario

CONSTRUCTOR_ARGUMENTS = ("universe", "size", "epsilon")
"""Arguments that the constructor of a custom mechanism may take: the number of objects (two names), and epsilon."""


def is_custom(kind: object) -> bool:
    """Return whether a mechanism is custom: a class, or "module:Class"."""
    return not isinstance(kind, str) or ":" in kind


def custom_class(kind: str | Callable[..., Any], place: str = "mechanism") -> Callable[..., Any]:
    """Return a custom class; "module:Class" is imported, also from the current directory."""
    if not isinstance(kind, str):
        return kind
    module, _, name = kind.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        rule = "must be an importable module:Class"
        raise InputError(rule, value=kind, place=place, remedy=str(error)) from None
    if not callable(found):
        raise InputError("must be a class", value=kind, place=place)
    made: Callable[..., Any] = found
    return made


def import_name(kind: Any) -> str:
    """Return the name of a custom mechanism on the command line; that of its class for an instance."""
    if isinstance(kind, str):
        return kind
    own = kind if hasattr(kind, "__name__") else type(kind)
    return f"{own.__module__}:{own.__name__}"


def own_mechanism(given: Any, scenario: Scenario, epsilon: float | None = None) -> Mechanism | None:
    """Return a mechanism of one's own: an instance, a class or "module:Class"; None for a name or nothing.

    A class is constructed with the ε that is asked for, or else with that of the scenario.
    """
    if given is None or not is_custom(given):
        return None
    universe = scenario.universe()
    if isinstance(given, str | type):
        asked = scenario.mechanism.epsilon if epsilon is None else epsilon
        return make_custom(custom_class(given), universe, asked)
    if epsilon is not None:
        raise InputError("goes with a class, not with an instance", value=epsilon, place="epsilon")
    made: Mechanism = as_mechanism(given, universe)
    check_mechanism(made)
    return made


def takes_epsilon(maker: Callable[..., Any]) -> bool:
    """Return whether the constructor takes an ε."""
    return "epsilon" in inspect.signature(maker).parameters


def make_custom(maker: Callable[..., Any], universe: Universe, epsilon: float | None) -> Mechanism:
    """Construct a custom mechanism and adapt it for the game (`adapt`)."""
    known = inspect.signature(maker).parameters
    values = {"universe": universe.size, "size": universe.size, "epsilon": epsilon}
    for name, parameter in known.items():
        variadic = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if parameter.default is parameter.empty and not variadic and name not in CONSTRUCTOR_ARGUMENTS:
            rule = f"must take only {', '.join(CONSTRUCTOR_ARGUMENTS)}, or arguments with defaults"
            raise InputError(rule, value=name, place=f"mechanism {maker.__name__}")
    return adapt(maker(**{name: values[name] for name in CONSTRUCTOR_ARGUMENTS if name in known}), universe)
