"""Candidates by name: a mechanism, and at most one measure that devices take beside it, as ``grr + rotate``.

A measure that reduces reports costs accuracy. Of n events, devices that sample a third of them or stop after a third
leave a third of the reports to every collection, so that a larger ε is needed for the same error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from poolscope.core.errors import InputError
from poolscope.devices.memoized import is_memoized
from poolscope.devices.registry import MECHANISMS
from poolscope.reports.frequencies import closed_estimator
from poolscope.scenario.build import build_mechanism, mechanism_changes, parameters_of
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.advise.question import CAP, MEMOIZE, ROTATE, SAMPLE, Question, canonical_order

#: The name that stands for every mechanism with an epsilon parameter.
ALL = "all"

#: Between a mechanism and a measure in a name.
PLUS = " + "

#: Part of the events that a measure leaves under one pseudonym, or to be reported.
PART = 1 / 3

#: Width and hash functions of a sketch where the scenario sets none: those of Apple's deployments.
SKETCH: Mapping[str, Any] = {"m": 1024, "hashes": 65536}

#: Parameters of mechanisms without defaults.
PARAMETERS: Mapping[str, Mapping[str, Any]] = {"cms": SKETCH, "hcms": SKETCH}


def name_of(mechanism: str, measure: str) -> str:
    """Return the name of a candidate."""
    return f"{mechanism}{PLUS}{measure}" if measure else mechanism


def split_name(name: str) -> tuple[str, str]:
    """Return the mechanism and the measure of a candidate; an empty measure is none."""
    mechanism, _, measure = name.partition(PLUS)
    return mechanism, measure


def names_of(scenario: Scenario, question: Question) -> Iterator[str]:
    """Yield the candidates: each mechanism alone, then with each measure that changes what its devices do."""
    for kind in question.mechanisms:
        yield kind
        for measure in question.consider:
            if not _idle(scenario, kind, measure, question.horizon):
                yield name_of(kind, measure)


def _idle(scenario: Scenario, kind: str, measure: str, horizon: int) -> bool:
    """Return whether a measure changes nothing: devices memoize or rotate sooner already, or there are few reports."""
    devices = scenario.devices
    if measure == MEMOIZE:
        return is_memoized(MECHANISMS.get(kind), devices.memoize)
    few = round(horizon * devices.sampling_rate * PART) < 1
    sooner = devices.rotate_after is not None and devices.rotate_after <= horizon * devices.sampling_rate * PART
    return few or (measure == ROTATE and sooner)


def order_of(name: str, own: str) -> tuple[int, str]:
    """Return a sort key by mechanism in canonical order, then by measure; `own` is the scenario's mechanism."""
    kind, measure = split_name(name)
    known = canonical_order(own)
    return (known.index(kind) if kind in known else len(known)), measure


def expand_all(
    scenario: Scenario, mechanisms: Sequence[str] | None, epsilons: tuple[float, float], needs_error: bool
) -> tuple[Sequence[str] | None, list[str]]:
    """Return the mechanisms with "all" replaced by those that can be tried, and notes on those that cannot."""
    if mechanisms is None or ALL not in mechanisms:
        return mechanisms, []
    found, notes = [kind for kind in mechanisms if kind != ALL], []
    for kind in canonical_order(scenario.mechanism.kind):
        try:
            for epsilon in epsilons:
                variant = deployed(scenario, kind, epsilon, 1)
                mechanism = build_mechanism(variant, variant.universe())
            if needs_error and closed_estimator(mechanism) is None:
                raise InputError("has no closed form of its error")
        except InputError as error:
            notes.append(f"{kind} was not tried: {error}.")
        else:
            found.append(kind)
    return found, notes


def parameter_notes(scenario: Scenario, mechanisms: Sequence[str]) -> Iterator[str]:
    """Yield the parameters that mechanisms got because the scenario sets none."""
    for kind in mechanisms:
        if added := added_parameters(scenario, kind):
            given = ", ".join(f"{key} = {_value(value)}" for key, value in added.items())
            yield f"{kind} was tried with {given}, as the scenario sets no such parameter."


def added_parameters(scenario: Scenario, kind: str) -> dict[str, Any]:
    """Return the parameters that a mechanism lacks in a scenario, and gets here."""
    table = mechanism_changes(scenario, kind, None)["mechanism"]
    if "hash_table" in table:
        return {}
    return {key: value for key, value in PARAMETERS.get(kind, {}).items() if table.get(key) is None}


def deployed(scenario: Scenario, name: str, epsilon: float, horizon: int) -> Scenario:
    """Return the scenario with a candidate at an ε; `horizon` is that of the question."""
    kind, measure = split_name(name)
    known = "epsilon" in parameters_of(kind)
    changes = mechanism_changes(scenario, kind, epsilon if known else None)
    changes["mechanism"] |= added_parameters(scenario, kind)
    return scenario.replace(changes | measure_changes(scenario, measure, horizon))


def measure_changes(scenario: Scenario, measure: str, horizon: int) -> dict[str, Any]:
    """Return the keys of ``[devices]`` that a measure sets."""
    rate = scenario.devices.sampling_rate
    third = max(1, round(horizon * rate * PART))
    changes: dict[str, dict[str, Any]] = {
        "": {},
        MEMOIZE: {"devices.memoize": True},
        ROTATE: {"devices.rotate_after": third},
        SAMPLE: {"devices.sampling_rate": round(rate * PART, 4)},
        CAP: {"devices.cap": third},
    }
    return changes[measure]


def reports_per_collection(scenario: Scenario, name: str, horizon: int) -> float:
    """Return how many reports each device has in a collection on average, for a deployed scenario."""
    devices, (_, measure) = scenario.devices, split_name(name)
    if measure != CAP or devices.cap is None:
        return devices.sampling_rate
    return min(devices.sampling_rate, devices.cap / horizon)


def describe_parameters(scenario: Scenario, name: str) -> str:
    """Return the parameters of a deployed candidate beside ε, as "m = 1,024, rotate_after = 60"."""
    _, measure = split_name(name)
    shown = {key: value for key, value in scenario.mechanism.parameters.items() if key != "epsilon"}
    keys = {ROTATE: "rotate_after", SAMPLE: "sampling_rate", MEMOIZE: "memoize", CAP: "cap"}
    if measure:
        shown[keys[measure]] = getattr(scenario.devices, keys[measure])
    return ", ".join(f"{key} = {_value(value)}" for key, value in shown.items())


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:,}" if isinstance(value, int) else str(value)
