"""Scenarios with several collections of one person, small enough for tests."""

from __future__ import annotations

from typing import Any

import poolscope as ps

EMOJIS: dict[str, Any] = {
    "name": "emojis",
    "universe": {"size": 30, "pools": {"left": 6, "right": 6}},
    "popularity": {"kind": "zipf", "exponent": 1.0},
    "mechanism": {"kind": "grr", "epsilon": 4.0},
    "devices": {"reports_per_day": 2},
    "link": 0.8,
}
DOMAINS: dict[str, Any] = {
    "name": "domains",
    "universe": {"size": 20, "pools": {"right": 5, "left": 4}},
    "popularity": {"kind": "uniform"},
    "mechanism": {"kind": "oue", "epsilon": 3.0},
}
WORDS: dict[str, Any] = {
    "name": "words",
    "universe": {"size": 16, "pools": {"formal": 4, "casual": 3, "slang": 3}},
    "popularity": {"kind": "uniform"},
    "mechanism": {"kind": "grr", "epsilon": 3.0},
    "devices": {"reports_per_day": 0.5},
    "link": [[0.6, 0.3, 0.1], [0.1, 0.3, 0.6]],
}


def scenario(*collections: dict[str, Any], **tables: Any) -> ps.Scenario:
    """Return a scenario with these collections, emojis and domains by default."""
    made = {
        "title": "Collections",
        "attribute": {"name": "leaning", "values": ["left", "right"]},
        "collection": list(collections or (EMOJIS, DOMAINS)),
        "users": {"count": 60},
        "adversary": [{"name": "strong", "popularity": "true"}],
        "attack": {"observations": [3, 10, 20]},
    }
    return ps.Scenario.from_dict({**made, **tables}, name="collections")
