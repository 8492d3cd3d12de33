"""Describe the controls of the explorer: one for each key of a setting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from poolscope.explore.settings import EPSILON, KIND, LARGEST_N, N, horizon, offered, usual_n
from poolscope.metrics.text import number
from poolscope.scenario.model import DensityTable, PriorTable
from poolscope.scenario.scenario import Scenario

MECHANISM_WORDS = {
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
}
"""How a changed number is written in one line."""


def controls(scenario: Scenario) -> list[dict[str, Any]]:
    """Return all controls; ``why`` explains a disabled one."""
    devices, largest = scenario.devices, max(horizon(scenario), usual_n(scenario), 180)
    return [
        _mechanisms(scenario),
        _slider(EPSILON, "ε per report", "Bounds what one report reveals: smaller is more private.")
        | {"value": scenario.mechanism.epsilon or 1.0, "least": 0.1, "most": 16, "log": True, "digits": 2},
        _slider(N, "Reports seen, n", "Number of a user's reports (events, with a cap or sampling) before the guess.")
        | {"value": usual_n(scenario), "least": 1, "most": min(largest, LARGEST_N), "whole": True},
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
    texts = {kind: f"{kind}: {MECHANISM_WORDS[kind]}" if kind in MECHANISM_WORDS else kind for kind in kinds}
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


def in_words(scenario: Scenario, changes: Mapping[str, Any]) -> str:
    """Return a setting in one line, for a comparison: its mechanism and its changes."""
    epsilon = scenario.mechanism.epsilon
    facts = [scenario.mechanism.kind if epsilon is None else f"{scenario.mechanism.kind}, ε = {number(epsilon)}"]
    for key, words in CHANGES.items():
        value = changes.get(key)
        if isinstance(value, int | float):
            facts.append(words.format(f"{100 * value:.3g}%" if key == "devices.sampling_rate" else number(value)))
    facts += ["memoized"] * scenario.memoizes
    facts += ["other pools"] * ("universe.pools" in changes or "universe.size" in changes)
    facts += ["other users"] * any(key.startswith("users.") for key in changes)
    return f"{scenario.name}: {', '.join(facts)}"
