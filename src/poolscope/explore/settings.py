"""A setting: a scenario, and what somebody has changed of it by hand."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from poolscope.core.errors import InputError, did_you_mean
from poolscope.core.files import parse_json
from poolscope.devices.registry import MECHANISMS
from poolscope.scenario.build import adversaries_without_memoization
from poolscope.scenario.scenario import Scenario, builtin_names, load_scenario
from poolscope.workflows.compare import variants

KIND, EPSILON, N = "mechanism.kind", "mechanism.epsilon", "n"

KEYS = (
    KIND,
    EPSILON,
    "devices.reports_per_day",
    "devices.cap",
    "devices.rotate_after",
    "devices.sampling_rate",
    "devices.memoize",
    "universe.size",
    "universe.pools",
    "popularity.exponent",
    "users.behavior.interest",
    "users.behavior.polarization",
    N,
)
"""What can be changed: keys of a scenario, none of them a file, and n: after how many reports the adversary guesses."""

LARGEST_N = 2000
"""Reports of a user that are still played while somebody waits."""

USUAL_N = 90
"""After how many reports the adversary guesses, about, where nobody says."""

LONGEST = 20_000
"""Characters of a setting."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A scenario's name, the keys of ``KEYS`` that differ from it (None: taken away), and who plays."""

    scenario: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0

    @classmethod
    def from_json(cls, text: str) -> Setting:
        """What a page's address says; anybody may have written it."""
        if len(text) > LONGEST:
            raise InputError(f"must have at most {LONGEST} characters", place="setting")
        found = parse_json(text, place="setting")
        if not isinstance(found, dict) or not isinstance(found.get("scenario"), str):
            raise InputError("must be an object with a scenario", place="setting")
        changes, seed = found.get("changes", {}), found.get("seed", 0)
        if not isinstance(changes, dict):
            raise InputError("must be an object", place="setting.changes")
        for key in changes:
            if key not in KEYS:
                raise InputError("unknown key", place=f"setting.changes.{key}", remedy=did_you_mean(key, KEYS))
        if type(seed) is not int:
            raise InputError("must be a whole number", value=seed, place="setting.seed")
        return cls(scenario=found["scenario"], changes=changes, seed=seed)


@dataclass(frozen=True)
class Shelf:
    """The scenarios that settings may start from: the built-in ones, and one that was given by its file."""

    given: Scenario | None = None

    def scenario(self, name: str) -> Scenario:
        """The scenario of a name; no name is a path."""
        if self.given is not None and name == self.given.name:
            return self.given
        if name not in self.names:
            raise InputError("unknown scenario", value=name, remedy=did_you_mean(name, self.names))
        return load_scenario(name)

    @property
    def names(self) -> list[str]:
        """The given one first, then those that need no file of somebody's own."""
        own = [self.given.name] if self.given else []
        return list(dict.fromkeys([*own, *_alone()]))

    def played(self, setting: Setting) -> tuple[Scenario, int]:
        """The scenario of a setting as it is played, and after how many reports guesses are told."""
        n = setting.changes.get(N) or usual_n(self.scenario(setting.scenario))
        return self.changed(replace(setting, changes={**setting.changes, N: n})), n

    def changed(self, setting: Setting) -> Scenario:
        """The scenario of a setting, which its TOML plays again."""
        base = self.scenario(setting.scenario)
        changes = dict(setting.changes)
        made = _mechanised(base, changes.pop(KIND, None), changes.pop(EPSILON, None))
        n = changes.pop(N, None)
        if n is not None:
            changes["attack.observations"] = observations(base, n)
        if changes.get("devices.memoize") is False:
            changes["devices.instantaneous"] = None
            changes["adversary"] = adversaries_without_memoization(made)
        # a default of the format would be written, were it not taken away
        if changes.get("devices.sampling_rate") == 1:
            changes["devices.sampling_rate"] = None
        return made.replace(changes)


@cache
def _alone() -> tuple[str, ...]:
    """The built-in scenarios without recorded users."""
    every = ((name, load_scenario(name).users) for name in builtin_names())
    return tuple(name for name, users in every if users is None or users.traces is None)


def observations(scenario: Scenario, n: Any) -> list[int]:
    """The scenario's observation counts, and n among them."""
    if type(n) is not int or not 1 <= n <= LARGEST_N:
        raise InputError(f"must be a whole number from 1 to {LARGEST_N}", value=n, place=N)
    if scenario.attack is None:
        raise scenario.missing("attack")
    return sorted({*scenario.attack.observations, n})


def usual_n(scenario: Scenario) -> int:
    """The observation count that a scenario is told by: the one nearest to 90."""
    if scenario.attack is None:
        raise scenario.missing("attack")
    return min(scenario.attack.observations, key=lambda n: abs(n - USUAL_N))


def horizon(scenario: Scenario) -> int:
    """Until how many reports a scenario looks."""
    if scenario.attack is None:
        raise scenario.missing("attack")
    return scenario.attack.observations[-1]


def _mechanised(base: Scenario, kind: Any, epsilon: Any) -> Scenario:
    """The scenario with another mechanism or epsilon, as `compare` has it."""
    if kind is None and epsilon is None:
        return base
    for value, what, place in ((kind, str, KIND), (epsilon, int | float, EPSILON)):
        if value is not None and (not isinstance(value, what) or isinstance(value, bool)):
            raise InputError("must be a text" if what is str else "must be a number", value=value, place=place)
    epsilon = epsilon or base.mechanism.epsilon or 1.0
    return next(variants(base, [kind or base.mechanism.kind], [float(epsilon)]))


def offered(scenario: Scenario) -> dict[str, bool]:
    """The mechanisms that a scenario has all parameters for, and whether each has an epsilon to choose."""
    found = {}
    for kind, maker in MECHANISMS.items():
        known = inspect.signature(maker).parameters
        there = {"universe", "epsilon", *scenario.mechanism.parameters}
        lacking = [n for n, p in known.items() if p.default is inspect.Parameter.empty and n not in there]
        if not lacking or kind == scenario.mechanism.kind:
            found[kind] = "epsilon" in known
    return found
