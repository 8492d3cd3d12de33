"""Describe the controls of a scenario: what can be set, in which range, and why something cannot."""

from __future__ import annotations

import inspect
from typing import Any

from poolscope.explore.settings import EPSILON, KIND, LARGEST_N, LINK, THRESHOLD, N, horizon, threshold_of, usual_n
from poolscope.scenario.scenario import Scenario
from poolscope.scenario.tables import DensityTable, PriorTable


def offered(scenario: Scenario) -> dict[str, bool]:
    """Return the mechanisms whose parameters a scenario has, and whether each takes an ε."""
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


def controls(scenario: Scenario) -> list[dict[str, Any]]:
    """Return all controls of a scenario of a single collection; ``why`` explains a disabled one."""
    largest = longest(scenario)
    n, threshold = _attack(
        scenario, "Reports seen, n", "Number of a user's reports (events, with a cap or sampling) before the guess."
    )
    rate = _limit("devices.reports_per_day", "Reports per day", "Converts reports to days, and ε to ε per year.")
    rate |= {"value": scenario.devices.reports_per_day, "usual": 1, "least": 0.1, "most": 100, "log": True, "digits": 2}
    mechanism, epsilon, *devices = _deployment(scenario, largest)
    return [mechanism, epsilon, n, threshold, rate, *devices, *_population(scenario), *_behavior(scenario)]


def collection_controls(scenario: Scenario) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the controls of all collections together, and the name and controls of each one."""
    largest, groups = longest(scenario), []
    for index, (part, own) in enumerate(zip(scenario.parts, scenario.collections, strict=True)):
        most = max(1, LARGEST_N // horizon(scenario))
        rate = _slider("devices.reports_per_day", "Reports per day", "Events of a device on each day.")
        value = part.devices.reports_per_day or 1
        rate |= {"value": value, "least": 0.1, "most": max(most, value), "log": True, "digits": 2}
        mechanism, epsilon, cap, *devices = _deployment(part, round(largest * max(1, value)))
        first = [mechanism, epsilon, rate, cap, _link(scenario, own.link)]
        further = [one | {"further": True} for one in (*devices, *_population(part))]
        prefixed = [one | {"key": f"collection[{index}].{one['key']}"} for one in (*first, *further)]
        groups.append({"name": own.name, "controls": prefixed})
    return [*_attack(scenario, "Days, n", "Number of days of reports before the guess."), *_behavior(scenario)], groups


def longest(scenario: Scenario) -> int:
    """Return the largest n of the slider."""
    return max(horizon(scenario), usual_n(scenario), 180)


def _attack(scenario: Scenario, label: str, words: str) -> list[dict[str, Any]]:
    """Return the controls of the guess: after how many reports or days, and how confident it must be."""
    return [
        _slider(N, label, words)
        | {"value": usual_n(scenario), "least": 1, "most": min(longest(scenario), LARGEST_N), "whole": True},
        _slider(THRESHOLD, "Exposed at confidence", "A user is exposed once the adversary has been this confident.")
        | {"value": threshold_of(scenario), "least": 0.5, "most": 0.999, "digits": 2},
    ]


def _deployment(scenario: Scenario, largest: int) -> list[dict[str, Any]]:
    """Return the controls of mechanism and devices; the number of reports is at most `largest`."""
    devices = scenario.devices
    return [
        _mechanisms(scenario),
        _slider(EPSILON, "ε per report", "Bounds what one report reveals: smaller is more private.")
        | {"value": scenario.mechanism.epsilon or 1.0, "least": 0.1, "most": 16, "log": True, "digits": 2},
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
    ]


def _population(scenario: Scenario) -> list[dict[str, Any]]:
    return [_pools(scenario), _exponent(scenario)]


def _behavior(scenario: Scenario) -> list[dict[str, Any]]:
    return [
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


def _link(scenario: Scenario, link: Any) -> dict[str, Any]:
    """Return the control of a link; only that of a number can be set."""
    assert scenario.attribute is not None
    name, k = scenario.attribute.name, len(scenario.attribute.values)
    words = f"Probability that the preferred pool is that of the person's {name}: 1/{k} is independent of it."
    found = _slider(LINK, "Link", words) | {"least": 0, "most": 1, "digits": 2}
    if link is None or isinstance(link, int | float):
        return found | {"value": 1 if link is None else link}
    return found | {"value": 1, "why": "This collection gives its link as a matrix."}


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
