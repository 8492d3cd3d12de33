"""What a command asks of a scenario in place of what the scenario says: another mechanism, other counts."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from poolscope.core.errors import InputError, did_you_mean, located
from poolscope.devices.memoized import is_kept
from poolscope.devices.registry import MECHANISMS
from poolscope.scenario.scenario import Scenario, changed


def as_asked(
    scenario: Scenario,
    *,
    observations: Sequence[int] | None = None,
    threshold: float | None = None,
    epsilon: float | None = None,
    mechanism: str | None = None,
) -> Scenario:
    """The scenario with these in place of its own; itself where nothing is asked. Its text says what is played."""
    counts = None if observations is None else list(observations)
    words = {"mechanism": mechanism, "epsilon": epsilon, "observations": counts, "threshold": threshold}
    asked: dict[str, Any] = {name: value for name, value in words.items() if value is not None}
    if not asked:
        return scenario
    changes = {f"attack.{name}": asked[name] for name in ("observations", "threshold") if name in asked}
    if mechanism is not None:
        kept = scenario.mechanism.epsilon if epsilon is None else epsilon
        changes |= mechanism_changes(scenario, mechanism, kept)
    elif epsilon is not None:
        changes["mechanism.epsilon"] = float(epsilon)
    with located(file=scenario.file):
        return changed(scenario, changes, name=scenario.name, asked=scenario.asked | asked)


def mechanism_changes(scenario: Scenario, kind: str, epsilon: float | None) -> dict[str, Any]:
    """What another kind changes: ``[mechanism]``; and where it keeps no answers, there is nothing to know of them."""
    changes: dict[str, Any] = {"mechanism": mechanism_table(scenario, kind, epsilon)}
    if scenario.keeps_answers and not is_kept(MECHANISMS[kind], scenario.devices.memoize):
        listed = tomllib.loads(scenario.text).get("adversary", [])
        changes["adversary"] = [{key: entry[key] for key in entry if key != "knows_memoization"} for entry in listed]
    return changes


def mechanism_table(scenario: Scenario, kind: str, epsilon: float | None) -> dict[str, Any]:
    """``[mechanism]`` of another kind, or of the same at another epsilon; one without an epsilon takes none."""
    known = parameters_of(kind)
    table: dict[str, Any] = {"kind": kind}
    if "epsilon" in known and epsilon is not None:
        table["epsilon"] = float(epsilon)
    return table | _shared(scenario, kind, known)


def parameters_of(kind: str) -> Mapping[str, inspect.Parameter]:
    """The parameters that a mechanism takes."""
    if not isinstance(kind, str):
        remedy = "of your own classes, compare(scenario, [Mine], epsilons) plays each beside the others"
        raise InputError("must be the name of a mechanism", value=kind, place="mechanism", remedy=remedy)
    if kind not in MECHANISMS:
        remedy = did_you_mean(kind, MECHANISMS)
        raise InputError("must be a known mechanism", value=kind, place="mechanism", remedy=remedy)
    return inspect.signature(MECHANISMS[kind]).parameters


def _shared(scenario: Scenario, kind: str, known: Mapping[str, inspect.Parameter]) -> dict[str, Any]:
    """The scenario's parameters that a mechanism takes: all of them for the scenario's own, else what has no default.

    Another mechanism's default is meant: the hash functions of a Bloom filter are not those of a sketch.
    """
    own = kind == scenario.mechanism.kind
    lacking = {name for name, p in known.items() if own or p.default in (None, inspect.Parameter.empty)}
    stated = scenario.mechanism.parameters
    return {name: value for name, value in stated.items() if name in lacking and name != "epsilon"}
