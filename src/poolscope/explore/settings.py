"""Represent a setting of the explorer: a scenario with changes.

What takes long to import is imported where it is used: the server listens before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from poolscope.core.errors import InputError, did_you_mean
from poolscope.core.files import parse_json
from poolscope.inference.thresholds import DEFAULT_THRESHOLD, in_percent
from poolscope.scenario.collection_tables import PER_COLLECTION, tuples_unsupported
from poolscope.scenario.scenario import Scenario, builtin_names, load_scenario

KIND, EPSILON, N, THRESHOLD = "mechanism.kind", "mechanism.epsilon", "n", "attack.threshold"

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
    THRESHOLD,
    N,
)
"""Keys that a setting may change: keys of a scenario other than files, and n."""

LINK = "link"

COLLECTION_KEYS = (*(key for key in KEYS if key.split(".")[0] in PER_COLLECTION), LINK)
"""Keys that a setting may change of a collection, as ``collection[0].mechanism.epsilon``."""

OF_COLLECTION = re.compile(r"collection\[(0|[1-9][0-9]{0,2})\]\.(.+)")

LARGEST_N = 2000
"""Largest n of an interactive simulation."""

USUAL_N = 90
"""Default n, approximately."""

LONGEST = 20_000
"""Largest length of a setting, in characters."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A scenario's name, the changed keys of ``KEYS`` (None removes one), and the seed."""

    scenario: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0

    @classmethod
    def from_json(cls, text: str) -> Setting:
        """Parse the setting of a URL, which is untrusted."""
        if len(text) > LONGEST:
            raise InputError(f"must have at most {LONGEST} characters", place="setting")
        found = parse_json(text, place="setting")
        if not isinstance(found, dict) or not isinstance(found.get("scenario"), str):
            raise InputError("must be an object with a scenario", place="setting")
        changes, seed = found.get("changes", {}), found.get("seed", 0)
        if not isinstance(changes, dict):
            raise InputError("must be an object", place="setting.changes")
        for key in changes:
            own, known = _split(key)[1], KEYS if _split(key)[0] is None else COLLECTION_KEYS
            if own not in known:
                raise InputError("unknown key", place=f"setting.changes.{key}", remedy=did_you_mean(own, known))
        if type(seed) is not int:
            raise InputError("must be a whole number", value=seed, place="setting.seed")
        return cls(scenario=found["scenario"], changes=changes, seed=seed)


@dataclass(frozen=True)
class Scenarios:
    """The scenarios that settings may start from: the built-in ones, and one given as a file."""

    given: Scenario | None = None

    def __post_init__(self) -> None:
        if self.given is not None and self.given.multidimensional:
            raise tuples_unsupported(self.given.file)

    def scenario(self, name: str) -> Scenario:
        """Return the scenario of a name; a name is never a path."""
        if self.given is not None and name == self.given.name:
            return self.given
        if name not in self.names:
            raise InputError("unknown scenario", value=name, remedy=did_you_mean(name, self.names))
        return load_scenario(name)

    @property
    def names(self) -> list[str]:
        """Return the given scenario first, then the built-in ones that need no file."""
        own = [self.given.name] if self.given else []
        return list(dict.fromkeys([*own, *_alone()]))

    def played(self, setting: Setting) -> tuple[Scenario, int]:
        """Return the scenario of a setting as it is simulated, and its n."""
        n = setting.changes.get(N) or usual_n(self.scenario(setting.scenario))
        return self.changed(replace(setting, changes={**setting.changes, N: n})), n

    def changed(self, setting: Setting) -> Scenario:
        """Return the scenario of a setting, whose TOML reproduces it."""
        base = self.scenario(setting.scenario)
        changes = dict(setting.changes)
        n = changes.pop(N, None)
        if n is not None:
            changes["attack.observations"] = observations(base, n)
        return _changed_collections(base, changes) if base.collections else _changed(base, changes)


def _split(key: str) -> tuple[int | None, str]:
    """Return the index of the collection that a key is of, and its key there; None for the whole scenario."""
    found = OF_COLLECTION.fullmatch(key)
    return (int(found[1]), found[2]) if found else (None, key)


def _changed(base: Scenario, changes: dict[str, Any]) -> Scenario:
    """Return a scenario of a single collection with changed keys."""
    for key in changes:
        if _split(key)[0] is not None:
            raise InputError("must have [[collection]] to change one", value=key, file=base.file)
    made = _with_mechanism(base, changes.pop(KIND, None), changes.pop(EPSILON, None))
    if changes.get("devices.memoize") is False:
        from poolscope.scenario.build import adversaries_without_memoization

        changes["devices.instantaneous"] = None
        changes["adversary"] = adversaries_without_memoization(made)
    # remove a default, which would be written otherwise
    if changes.get("devices.sampling_rate") == 1:
        changes["devices.sampling_rate"] = None
    return made.replace(changes)


def _changed_collections(base: Scenario, changes: dict[str, Any]) -> Scenario:
    """Return a scenario with changed keys of its collections, each of which is changed as a scenario of its own."""
    shared: dict[str, Any] = {}
    of_parts: dict[int, dict[str, Any]] = {}
    for key, value in changes.items():
        index, own = _split(key)
        if index is None and own.split(".")[0] in PER_COLLECTION:
            raise InputError("must be a key of a collection", value=key, remedy=f"write collection[0].{key}")
        if index is not None and index >= len(base.collections):
            raise InputError(f"must be below {len(base.collections)}, the number of collections", value=index)
        (shared if index is None else of_parts.setdefault(index, {}))[own] = value
    tables = base.to_dict()["collection"]
    memoizes = [part.memoizes for part in base.parts]
    for index, changed in of_parts.items():
        link = changed.pop(LINK, tables[index].get(LINK))
        try:
            made = _changed(base.parts[index], changed)
        except InputError as error:
            error.place = ".".join(filter(None, (f"collection[{index}]", error.place)))
            raise
        memoizes[index], found = made.memoizes, made.to_dict()
        parts = {key: found[key] for key in PER_COLLECTION if key in found}
        tables[index] = {"name": tables[index]["name"]} | parts | ({} if link is None else {LINK: link})
    if of_parts:
        shared["collection"] = tables
        if not any(memoizes):
            from poolscope.scenario.build import adversaries_without_memoization

            shared["adversary"] = adversaries_without_memoization(base)
    whole = base.replace(shared)
    for index, (part, before) in enumerate(zip(whole.parts, base.parts, strict=True)):
        days, usual = horizon(whole), horizon(base)
        most = max(LARGEST_N, usual * (before.devices.reports_per_day or 1))
        if days * (part.devices.reports_per_day or 1) > most:
            rule = f"reports per day times {days:,} days must be at most {most:,.0f}"
            place = f"collection[{index}].devices.reports_per_day"
            raise InputError(rule, value=part.devices.reports_per_day, place=place, remedy="take fewer of either")
    return whole


@cache
def _alone() -> tuple[str, ...]:
    """Return the built-in scenarios without recorded users."""
    every = ((name, load_scenario(name).users) for name in builtin_names())
    return tuple(name for name, users in every if users is None or users.traces is None)


def observations(scenario: Scenario, n: Any) -> list[int]:
    """Return the scenario's observation counts with n added."""
    if type(n) is not int or not 1 <= n <= LARGEST_N:
        raise InputError(f"must be a whole number from 1 to {LARGEST_N}", value=n, place=N)
    if scenario.attack is None:
        raise scenario.missing("attack")
    return sorted({*scenario.attack.observations, n})


def usual_n(scenario: Scenario) -> int:
    """Return the observation count nearest to 90."""
    if scenario.attack is None:
        raise scenario.missing("attack")
    return min(scenario.attack.observations, key=lambda n: abs(n - USUAL_N))


def horizon(scenario: Scenario) -> int:
    """Return the largest observation count of a scenario."""
    if scenario.attack is None:
        raise scenario.missing("attack")
    return scenario.attack.observations[-1]


def threshold_of(scenario: Scenario) -> float:
    """Return the confidence at which users of a scenario count as exposed."""
    own = scenario.attack.threshold if scenario.attack else None
    return DEFAULT_THRESHOLD if own is None else own


def _with_mechanism(base: Scenario, kind: Any, epsilon: Any) -> Scenario:
    """Return the scenario with another mechanism or ε, as in `compare`."""
    if kind is None and epsilon is None:
        return base
    for value, what, place in ((kind, str, KIND), (epsilon, int | float, EPSILON)):
        if value is not None and (not isinstance(value, what) or isinstance(value, bool)):
            raise InputError("must be a text" if what is str else "must be a number", value=value, place=place)
    kind = base.mechanism.kind if kind is None else kind
    epsilon = (base.mechanism.epsilon or 1.0) if epsilon is None else epsilon
    from poolscope.workflows.compare import variants

    try:
        return next(variants(base, [kind], [float(epsilon)]))
    except OverflowError:
        raise InputError("must be a number", value=epsilon, place=EPSILON) from None


CHANGES = {
    "devices.reports_per_day": "{} per day",
    "devices.cap": "cap {}",
    "devices.rotate_after": "pseudonym rotates after {}",
    "devices.sampling_rate": "{} of events",
    "popularity.exponent": "exponent {}",
    LINK: "link {}",
    N: "n = {}",
    THRESHOLD: "exposed at {}",
}
"""How a changed number is written in one line."""

SHARES = ("devices.sampling_rate", THRESHOLD)
"""Numbers that are written as percentages."""


def setting_text(scenario: Scenario, changes: Mapping[str, Any]) -> str:
    """Return a setting in one line, for a comparison: its mechanism and its changes."""
    if not scenario.collections:
        return f"{scenario.name}: {', '.join(_facts(scenario, changes))}"
    texts = []
    for index, part in enumerate(scenario.parts):
        own = {_split(key)[1]: value for key, value in changes.items() if _split(key)[0] == index}
        texts.append(f"{part.name}: {', '.join(_facts(part, own))}")
    shared = {key: value for key, value in changes.items() if _split(key)[0] is None}
    texts += [", ".join([*_numbers(shared), *_other_users(shared)])] if shared else []
    return f"{scenario.name}: {'; '.join(texts)}"


def _facts(scenario: Scenario, changes: Mapping[str, Any]) -> list[str]:
    """Return the mechanism of a collection, and its changes."""
    from poolscope.metrics.text import number

    kind, epsilon = scenario.mechanism.kind, scenario.mechanism.epsilon
    facts = [kind if epsilon is None else f"{kind}, ε = {number(epsilon)}", *_numbers(changes)]
    facts += ["memoized"] * scenario.memoizes
    facts += ["other pools"] * ("universe.pools" in changes or "universe.size" in changes)
    return facts + _other_users(changes)


def _numbers(changes: Mapping[str, Any]) -> list[str]:
    """Return the changed numbers."""
    from poolscope.metrics.text import number

    known = ((key, words, changes.get(key)) for key, words in CHANGES.items())
    return [
        words.format(in_percent(value) if key in SHARES else number(value))
        for key, words, value in known
        if isinstance(value, int | float)
    ]


def _other_users(changes: Mapping[str, Any]) -> list[str]:
    return ["other users"] * any(key.startswith("users.") for key in changes)
