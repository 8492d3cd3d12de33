"""Scenarios with one report for several collections, small enough for tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

import poolscope as ps

EMOJI: dict[str, Any] = {
    "name": "emoji",
    "universe": {"size": 8, "pools": {"left": 2, "right": 3}},
    "popularity": {"kind": "zipf", "exponent": 1.0},
    "link": 0.8,
}
DOMAIN: dict[str, Any] = {
    "name": "domain",
    "universe": {"size": 5, "pools": {"right": 2, "left": 2}},
    "popularity": {"kind": "zipf", "exponent": 0.5},
}
WORD: dict[str, Any] = {
    "name": "word",
    "universe": {"size": 4, "pools": {"left": 2, "right": 2}},
    "popularity": {"kind": "uniform"},
    "link": [[0.6, 0.4], [0.3, 0.7]],
}


def scenario(
    kind: str, *collections: dict[str, Any], options: dict[str, Any] | None = None, **tables: Any
) -> ps.Scenario:
    """Return a scenario of this kind over these collections, emoji and domain by default."""
    made = {
        "title": "Tuples",
        "attribute": {"name": "leaning", "values": ["left", "right"]},
        "multidimensional": {"kind": kind, "epsilon": 3.0, **(options or {})},
        "collection": list(collections or (EMOJI, DOMAIN)),
        "users": {"count": 60},
        "adversary": [{"name": "strong", "popularity": "true"}],
        "attack": {"observations": [3, 8]},
    }
    return ps.Scenario.from_dict({**made, **tables}, name="tuples")


#: Options of each kind, of which some need more than an epsilon.
OPTIONS: dict[str, dict[str, Any]] = {
    "spl": {},
    "smp": {"randomizer": "oue"},
    "rs+fd": {},
    "rs+rfd": {"priors": "popularity", "randomizer": "sue"},
}


def written(path, reports, names=None):
    """Write reports as a table: bits as bytes in Parquet and as set positions in CSV."""
    columns = {"user": [f"u{i % 50}" for i in range(len(next(iter(reports.values()))))]}
    for name, column in reports.items():
        if column.ndim == 1:
            columns[name] = column if not names or name not in names else [names[name][z] for z in column]
        elif path.suffix == ".csv":
            bits = np.unpackbits(column, axis=1, bitorder="little")
            columns[name] = [" ".join(map(str, np.flatnonzero(row))) for row in bits]
        else:
            columns[name] = [row.tobytes() for row in column]
    frame = pl.DataFrame(columns)
    frame.write_csv(path) if path.suffix == ".csv" else frame.write_parquet(path)
    return path
