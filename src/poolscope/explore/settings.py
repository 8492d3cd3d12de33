"""Represent a setting of the explorer, a scenario with changes, and describe its controls.

What takes long to import is imported where it is used: the server listens before.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from poolscope.core.errors import InputError, did_you_mean
from poolscope.core.files import parse_json
from poolscope.inference.thresholds import DEFAULT_THRESHOLD, in_percent
from poolscope.scenario.scenario import Scenario, builtin_names, load_scenario
from poolscope.scenario.tables import DensityTable, PriorTable

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
            if key not in KEYS:
                raise InputError("unknown key", place=f"setting.changes.{key}", remedy=did_you_mean(key, KEYS))
        if type(seed) is not int:
            raise InputError("must be a whole number", value=seed, place="setting.seed")
        return cls(scenario=found["scenario"], changes=changes, seed=seed)


@dataclass(frozen=True)
class Scenarios:
    """The scenarios that settings may start from: the built-in ones, and one given as a file."""

    given: Scenario | None = None

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
        made = _with_mechanism(base, changes.pop(KIND, None), changes.pop(EPSILON, None))
        n = changes.pop(N, None)
        if n is not None:
            changes["attack.observations"] = observations(base, n)
        if changes.get("devices.memoize") is False:
            from poolscope.scenario.build import adversaries_without_memoization

            changes["devices.instantaneous"] = None
            changes["adversary"] = adversaries_without_memoization(made)
        # remove a default, which would be written otherwise
        if changes.get("devices.sampling_rate") == 1:
            changes["devices.sampling_rate"] = None
        return made.replace(changes)


@cache
def _alone() -> tuple[str, ...]:
    """Return the built-in scenarios of a single collection without recorded users."""
    every = ((name, load_scenario(name)) for name in builtin_names())
    single = ((name, found.users) for name, found in every if not found.collections)
    return tuple(name for name, users in single if users is None or users.traces is None)


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
    """Return the scenario with another mechanism or epsilon, as in `compare`."""
    if kind is None and epsilon is None:
        return base
    for value, what, place in ((kind, str, KIND), (epsilon, int | float, EPSILON)):
        if value is not None and (not isinstance(value, what) or isinstance(value, bool)):
            raise InputError("must be a text" if what is str else "must be a number", value=value, place=place)
    epsilon = epsilon or base.mechanism.epsilon or 1.0
    from poolscope.workflows.compare import variants

    return next(variants(base, [kind or base.mechanism.kind], [float(epsilon)]))


def offered(scenario: Scenario) -> dict[str, bool]:
    """Return the mechanisms whose parameters a scenario has, and whether each takes an epsilon."""
    from poolscope.devices.registry import MECHANISMS

    found = {}
    for kind, maker in MECHANISMS.items():
        known = inspect.signature(maker).parameters
        there = {"universe", "epsilon", *scenario.mechanism.parameters}
        lacking = [n for n, p in known.items() if p.default is inspect.Parameter.empty and n not in there]
        if not lacking or kind == scenario.mechanism.kind:
            found[kind] = "epsilon" in known
    return found


MECHANISM_DESCRIPTIONS = {
    "cms": "Count Mean Sketch (Apple)",
    "cms-no-hash": "Count Mean Sketch without hashing",
    "hcms": "Hadamard Count Mean Sketch (Apple)",
    "identity": "no mechanism: the object itself",
    "grr": "generalized randomized response",
    "sue": "symmetric unary encoding",
    "oue": "optimized unary encoding",
    "she": "summation with histogram encoding",
    "the": "thresholding with histogram encoding",
    "spotme": "SpotMe unary encoding",
    "blh": "binary local hashing",
    "olh": "optimized local hashing",
    "ss": "subset selection",
    "hr": "Hadamard response",
    "rappor": "RAPPOR: memoized Bloom filter (Chrome)",
    "pi-rappor": "PI-RAPPOR: random projective line",
    "l-grr": "memoized GRR, instantaneous GRR",
    "l-sue": "memoized SUE, instantaneous SUE",
    "l-osue": "memoized OUE, instantaneous SUE",
    "l-oue": "memoized OUE, instantaneous OUE",
    "l-soue": "memoized SUE, instantaneous OUE",
    "loloha": "memoized local hash, instantaneous GRR",
    "dbitflip": "memoized bits of a few buckets (Microsoft)",
}
"""Descriptions of mechanisms; one without an entry is listed by its name."""

MAX_POOLS = 24
"""Largest number of pools whose sizes can be set."""

CHANGES = {
    "devices.reports_per_day": "{} per day",
    "devices.cap": "cap {}",
    "devices.rotate_after": "pseudonym rotates after {}",
    "devices.sampling_rate": "{} of events",
    "popularity.exponent": "exponent {}",
    N: "n = {}",
    THRESHOLD: "exposed at {}",
}
"""How a changed number is written in one line."""

SHARES = ("devices.sampling_rate", THRESHOLD)
"""Numbers that are written as percentages."""


def controls(scenario: Scenario) -> list[dict[str, Any]]:
    """Return all controls; ``why`` explains a disabled one."""
    devices, largest = scenario.devices, max(horizon(scenario), usual_n(scenario), 180)
    return [
        _mechanisms(scenario),
        _slider(EPSILON, "ε per report", "Bounds what one report reveals: smaller is more private.")
        | {"value": scenario.mechanism.epsilon or 1.0, "least": 0.1, "most": 16, "log": True, "digits": 2},
        _slider(N, "Reports seen, n", "Number of a user's reports (events, with a cap or sampling) before the guess.")
        | {"value": usual_n(scenario), "least": 1, "most": min(largest, LARGEST_N), "whole": True},
        _slider(THRESHOLD, "Exposed at confidence", "A user is exposed once the adversary has been this confident.")
        | {"value": threshold_of(scenario), "least": 0.5, "most": 0.999, "digits": 2},
        _limit("devices.reports_per_day", "Reports per day", "Converts reports to days, and ε to ε per year.")
        | {"value": devices.reports_per_day, "usual": 1, "least": 0.1, "most": 100, "log": True, "digits": 2},
        _limit("devices.cap", "Cap", "Largest number of reports that a device ever sends.")
        | {"value": devices.cap, "usual": 30, "least": 1, "most": largest, "whole": True, "log": True},
        _limit(
            "devices.rotate_after", "Rotate after", "Reports per pseudonym; reports of two pseudonyms are not linked."
        )
        | {"value": devices.rotate_after, "usual": 7, "least": 1, "most": largest, "whole": True, "log": True},
        _slider("devices.sampling_rate", "Sampling rate", "Probability that a device reports an event.")
        | {"value": devices.sampling_rate, "least": 0.01, "most": 1, "log": True, "digits": 2},
        {
            "key": "devices.memoize",
            "label": "Memoization",
            "words": "A device randomizes each object once and repeats the response. Slower to simulate.",
            "form": "check",
            "value": scenario.memoizes,
        },
        _pools(scenario),
        _exponent(scenario),
        _curve(scenario, "interest", "Relevant interest γ", "How often users pick from any of the pools."),
        _curve(scenario, "polarization", "Polarization δ", "Share of these picks from the preferred pool."),
    ]


def _mechanisms(scenario: Scenario) -> dict[str, Any]:
    kinds = offered(scenario)
    texts = {
        kind: f"{kind}: {MECHANISM_DESCRIPTIONS[kind]}" if kind in MECHANISM_DESCRIPTIONS else kind for kind in kinds
    }
    return {
        "key": KIND,
        "label": "Mechanism",
        "words": "How a device randomizes an object before it sends a report.",
        "form": "choice",
        "value": scenario.mechanism.kind,
        "options": [{"value": kind, "text": text} for kind, text in texts.items()],
        "with_epsilon": [kind for kind, has in kinds.items() if has],
    }


def _slider(key: str, label: str, words: str) -> dict[str, Any]:
    return {"key": key, "label": label, "words": words, "form": "slider"}


def _limit(key: str, label: str, words: str) -> dict[str, Any]:
    """Return a slider that can be disabled."""
    return _slider(key, label, words) | {"optional": True}


def _pools(scenario: Scenario) -> dict[str, Any]:
    table = scenario.universe_table
    found = {
        "key": "universe.pools",
        "label": "Objects in each pool",
        "words": "Number of objects in each pool; the rest of the universe is neutral.",
        "form": "sizes",
        "value": dict(table.pools or {}),
        "size": table.size,
    }
    if table.pools is None:
        return found | {"why": "This scenario lists its objects and pools in a file."}
    if len(table.pools) > MAX_POOLS:
        return found | {"value": {}, "why": f"This scenario has {len(table.pools)} pools, too many to list."}
    return found


def _exponent(scenario: Scenario) -> dict[str, Any]:
    table = scenario.popularity_table
    words = "Zipf exponent: 0 is uniform; at 2, few objects dominate."
    found = _slider("popularity.exponent", "Popularity exponent", words) | {"least": 0, "most": 3, "digits": 2}
    if table is None or table.kind != "zipf":
        return found | {"value": 1, "why": "The popularity of this scenario has no exponent."}
    return found | {"value": table.exponent}


def _curve(scenario: Scenario, field: str, label: str, words: str) -> dict[str, Any]:
    users = scenario.users
    found = {"key": f"users.behavior.{field}", "label": label, "words": words, "form": "curve", "value": [1, 1]}
    if users is not None and users.traces is not None:
        return found | {"why": "This scenario has recorded users."}
    given = getattr((users and users.behavior) or PriorTable(), field)
    if isinstance(given, DensityTable) and given.beta is not None:
        return found | {"value": list(given.beta)}
    if isinstance(given, DensityTable):
        return found | {"why": "This scenario gives the behavior as a table."}
    return found


def setting_text(scenario: Scenario, changes: Mapping[str, Any]) -> str:
    """Return a setting in one line, for a comparison: its mechanism and its changes."""
    from poolscope.metrics.text import number

    epsilon = scenario.mechanism.epsilon
    facts = [scenario.mechanism.kind if epsilon is None else f"{scenario.mechanism.kind}, ε = {number(epsilon)}"]
    for key, words in CHANGES.items():
        value = changes.get(key)
        if isinstance(value, int | float):
            facts.append(words.format(in_percent(value) if key in SHARES else number(value)))
    facts += ["memoized"] * scenario.memoizes
    facts += ["other pools"] * ("universe.pools" in changes or "universe.size" in changes)
    facts += ["other users"] * any(key.startswith("users.") for key in changes)
    return f"{scenario.name}: {', '.join(facts)}"
