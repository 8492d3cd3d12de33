"""The controls of the page: one for each key of a setting, in plain words, as a scenario has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from poolscope.explore.settings import EPSILON, KIND, LARGEST_N, N, horizon, offered, usual_n
from poolscope.metrics.text import number
from poolscope.scenario.model import DensityTable, PriorTable
from poolscope.scenario.scenario import Scenario

MECHANISM_WORDS = {
    "cms": "a hashed, noisy vector of bits (Apple)",
    "cms-no-hash": "the same without hashing",
    "hcms": "one noisy bit of a sketch (Apple)",
    "identity": "no mechanism: the object itself",
    "grr": "the object, or any other",
    "sue": "a noisy bit for each object",
    "oue": "a noisy bit for each object, tuned",
    "she": "a noisy number for each object",
    "the": "noisy numbers, cut at a threshold",
    "spotme": "fair coins on some of the bits",
    "blh": "a noisy hash of one bit",
    "olh": "a noisy hash of few values",
    "ss": "a set that likely has the object",
    "hr": "a noisy row of a Hadamard matrix",
    "rappor": "a Bloom filter, noised twice (Chrome)",
    "pi-rappor": "a random line that likely meets the object",
    "l-grr": "a kept answer, noised again",
    "l-sue": "kept bits, noised again",
    "l-osue": "kept bits, noised again, tuned",
    "l-oue": "kept bits, noised again, tuned",
    "l-soue": "kept bits, noised again, tuned",
    "loloha": "a kept noisy hash, noised again",
    "dbitflip": "kept bits of a few buckets (Microsoft)",
}
"""What a device sends, in few words; a mechanism that is not here goes by its name alone."""

MAX_POOLS = 24
"""Pools whose sizes can be set one by one."""

CHANGES = {
    "devices.reports_per_day": "{} a day",
    "devices.cap": "cap {}",
    "devices.rotate_after": "new name after {}",
    "devices.sampling_rate": "{} of events",
    "popularity.exponent": "exponent {}",
    N: "n = {}",
}
"""How a changed number is told in a line."""


def controls(scenario: Scenario) -> list[dict[str, Any]]:
    """All controls; ``why`` says why one cannot be moved."""
    devices, largest = scenario.devices, max(horizon(scenario), usual_n(scenario), 180)
    return [
        _mechanisms(scenario),
        _slider(EPSILON, "Epsilon of a report", "How much one report may reveal: smaller is more private.")
        | {"value": scenario.mechanism.epsilon or 1.0, "least": 0.1, "most": 16, "log": True, "digits": 2},
        _slider(N, "Reports that are seen", "After how many reports of a user the adversary must guess.")
        | {"value": usual_n(scenario), "least": 1, "most": min(largest, LARGEST_N), "whole": True},
        _limit("devices.reports_per_day", "Reports a day", "Turns reports into days, and epsilon into a year's.")
        | {"value": devices.reports_per_day, "usual": 1, "least": 0.1, "most": 100, "log": True, "digits": 2},
        _limit("devices.cap", "Cap", "After so many reports a device sends no more.")
        | {"value": devices.cap, "usual": 30, "least": 1, "most": largest, "whole": True, "log": True},
        _limit(
            "devices.rotate_after", "New name after", "So many reports share a pseudonym; those of two are not linked."
        )
        | {"value": devices.rotate_after, "usual": 7, "least": 1, "most": largest, "whole": True, "log": True},
        _slider("devices.sampling_rate", "Share that is reported", "Each event is reported with this probability.")
        | {"value": devices.sampling_rate, "least": 0.01, "most": 1, "log": True, "digits": 2},
        {
            "key": "devices.memoize",
            "label": "Answers are kept",
            "words": "A device blurs an object once and sends the same report ever after. Takes longer to play.",
            "form": "check",
            "value": scenario.memoizes,
        },
        _pools(scenario),
        _exponent(scenario),
        _curve(scenario, "interest", "Interest in the pools", "How often users pick from some pool, not beside them."),
        _curve(scenario, "polarization", "Loyalty to one pool", "How much they keep to the pool that they prefer."),
    ]


def _mechanisms(scenario: Scenario) -> dict[str, Any]:
    kinds = offered(scenario)
    texts = {kind: f"{kind}: {MECHANISM_WORDS[kind]}" if kind in MECHANISM_WORDS else kind for kind in kinds}
    return {
        "key": KIND,
        "label": "Mechanism",
        "words": "What a device does to an object before it leaves.",
        "form": "choice",
        "value": scenario.mechanism.kind,
        "options": [{"value": kind, "text": text} for kind, text in texts.items()],
        "with_epsilon": [kind for kind, has in kinds.items() if has],
    }


def _slider(key: str, label: str, words: str) -> dict[str, Any]:
    return {"key": key, "label": label, "words": words, "form": "slider"}


def _limit(key: str, label: str, words: str) -> dict[str, Any]:
    """A slider that can be off."""
    return _slider(key, label, words) | {"optional": True}


def _pools(scenario: Scenario) -> dict[str, Any]:
    table = scenario.universe_table
    found = {
        "key": "universe.pools",
        "label": "Objects in each pool",
        "words": "How many objects each pool has; the rest of the universe is neutral.",
        "form": "sizes",
        "value": dict(table.pools or {}),
        "size": table.size,
    }
    if table.pools is None:
        return found | {"why": "The objects of this scenario are named, and their pools with them."}
    if len(table.pools) > MAX_POOLS:
        return found | {"value": {}, "why": f"This scenario has {len(table.pools)} pools, too many to list."}
    return found


def _exponent(scenario: Scenario) -> dict[str, Any]:
    table = scenario.popularity_table
    words = "Zipf's exponent: at 0 all objects are alike, at 2 few are picked and most hardly ever."
    found = _slider("popularity.exponent", "How uneven popularity is", words) | {"least": 0, "most": 3, "digits": 2}
    if table is None or table.kind != "zipf":
        return found | {"value": 1, "why": "The popularity of this scenario has no exponent."}
    return found | {"value": table.exponent}


def _curve(scenario: Scenario, field: str, label: str, words: str) -> dict[str, Any]:
    users = scenario.users
    found = {"key": f"users.behavior.{field}", "label": label, "words": words, "form": "curve", "value": [1, 1]}
    if users is not None and users.traces is not None:
        return found | {"why": "The users of this scenario are recorded."}
    given = getattr((users and users.behavior) or PriorTable(), field)
    if isinstance(given, DensityTable) and given.beta is not None:
        return found | {"value": list(given.beta)}
    if isinstance(given, DensityTable):
        return found | {"why": "The behavior of this scenario is given as a table."}
    return found


def in_words(scenario: Scenario, changes: Mapping[str, Any]) -> str:
    """A setting in one line, for a comparison: its mechanism, and what was changed."""
    epsilon = scenario.mechanism.epsilon
    facts = [scenario.mechanism.kind if epsilon is None else f"{scenario.mechanism.kind}, ε = {number(epsilon)}"]
    for key, words in CHANGES.items():
        value = changes.get(key)
        if isinstance(value, int | float):
            facts.append(words.format(f"{100 * value:.3g}\u202f%" if key == "devices.sampling_rate" else number(value)))
    facts += ["answers kept"] * scenario.memoizes
    facts += ["other pools"] * ("universe.pools" in changes or "universe.size" in changes)
    facts += ["other users"] * any(key.startswith("users.") for key in changes)
    return f"{scenario.name}: {', '.join(facts)}"
