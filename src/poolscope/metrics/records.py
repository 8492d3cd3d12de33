"""A run in numbers, one record per adversary and n, and in plain words."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import polars as pl

from poolscope.base.errors import InputError
from poolscope.game.columns import NON_PRIVATE, REACHED
from poolscope.metrics.calibration import brier, calibration_error, calibration_limit
from poolscope.metrics.intervals import Estimate, share_of
from poolscope.metrics.leakage import leakage_of, security_of
from poolscope.metrics.precision import (
    auc_of,
    by_user,
    null_rate,
    precision_at,
    precision_of,
    ranked,
    reached_by,
)

TOPS = {"top1": 0.01, "top5": 0.05, "top10": 0.10, "top20": 0.20}
"""Shares of most confident users on which the precision is reported."""

ESTIMATES = (
    "auc",
    "precision",
    *(f"precision_{name}" for name in TOPS),
    "calibration_error",
    "brier",
    *REACHED.values(),
)
"""Fields of a record that come with an interval, in fields _low and _high."""

COUNTED = ("pool", *REACHED.values())
"""Columns of the outcome table that are counted, and need not be held."""

_HEADLINE_N = 90
_NEAR = (60, 120)
_LEVELS = (0.99, 0.95, 0.90)


def summarise(
    outcomes: pl.DataFrame, k: int | Mapping[str, int], seed: int, threshold: float | None = None
) -> list[dict[str, Any]]:
    """All metrics of a run.

    Parameters
    ----------
    outcomes : DataFrame
        The outcome table.
    k : int or mapping
        Number of pools, or that of each adversary.
    seed : int
        The run's seed: orders ties and draws the calibration's replicas.
    threshold : float, optional
        tau: below this confidence the adversary makes no guess; the records then hold the null rate
        and the precision at it as well.

    Returns
    -------
    list of dict
        One per adversary and n, in order of appearance: adversary, n, users, baseline (1/k),
        majority (share of the most common preferred pool), calibration_error_limit, all of
        ``ESTIMATES``, and bayes_security and min_entropy_leakage with their intervals. What was reached
        is counted up to that n.
    """
    records = []
    for rows in outcomes.partition_by("adversary", "n", maintain_order=True):
        adversary, n = str(rows["adversary"][0]), int(rows["n"][0])
        pools = k if isinstance(k, int) else k[adversary]
        # Sums in one order: the rows of the table may come in any, the last digit may not.
        records.append(record_of(by_user(rows), Counted.of(rows, n), adversary, n, pools, seed, threshold))
    return records


@dataclasses.dataclass
class Counted:
    """What of an attack can be counted part by part: users of each pool, and who had reached each confidence."""

    pools: Counter[str] = dataclasses.field(default_factory=Counter)
    reached: Counter[float] = dataclasses.field(default_factory=Counter)

    @classmethod
    def of(cls, rows: pl.DataFrame, n: int) -> Counted:
        """Some rows after n reports, from their `COUNTED` columns."""
        pools = dict(rows["pool"].cast(pl.String).value_counts().iter_rows())
        return cls(Counter(pools), Counter({level: reached_by(rows, level, n) for level in REACHED}))

    def __iadd__(self, other: Counted) -> Counted:
        self.pools.update(other.pools)
        self.reached.update(other.reached)
        return self


def record_of(
    rows: pl.DataFrame,
    counted: Counted,
    adversary: str,
    n: int,
    k: int,
    seed: int,
    threshold: float | None = None,
) -> dict[str, Any]:
    """All metrics of one adversary at one n, from its rows in order of the users.

    The rows need no more than ``confidence`` and ``correct``: there may be millions.
    """
    correct, _ = ranked(rows, seed)
    record: dict[str, Any] = {
        "adversary": adversary,
        "n": n,
        "users": rows.height,
        "baseline": 1 / k,
        "majority": max(counted.pools.values()) / rows.height,
        **_fields("auc", auc_of(correct)),
        **_fields("precision", precision_of(correct, 1.0)),
    }
    record |= _fields("bayes_security", security_of(precision_of(correct, 1.0), prior_guess(record)))
    record |= _fields("min_entropy_leakage", leakage_of(precision_of(correct, 1.0), prior_guess(record)))
    for name, top in TOPS.items():
        record |= _fields(f"precision_{name}", precision_of(correct, top))
    record |= _fields("calibration_error", calibration_error(rows, seed))
    record["calibration_error_limit"] = calibration_limit(rows, seed)
    record |= _fields("brier", brier(rows))
    for level, column in REACHED.items():
        record |= _fields(column, share_of(counted.reached[level], rows.height))
    if threshold is not None:
        record |= {"threshold": threshold, **_fields("null_rate", null_rate(rows, threshold))}
        record |= _fields("precision_at_threshold", precision_at(rows, threshold))
    return record


def _fields(name: str, estimate: Estimate) -> dict[str, float | None]:
    """A value and its interval; what is not a number, as a share of nobody, is None: JSON knows no NaN."""
    ends = zip(("", "_low", "_high"), estimate, strict=True)
    return {f"{name}{end}": value if isfinite(value) else None for end, value in ends}


def headline(results: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The record that a run is told by: the best attack on private reports at n near 90.

    Where no n lies between 60 and 120 it is the largest n. The non-private game counts only
    when there is nothing else.
    """
    if not results:
        raise InputError("must not be empty", place="results")
    private = [r for r in results if r["adversary"] != NON_PRIVATE] or list(results)
    counts = {r["n"] for r in private}
    near = [n for n in counts if _NEAR[0] <= n <= _NEAR[1]]
    n = min(near, key=lambda n: (abs(n - _HEADLINE_N), n)) if near else max(counts)
    return max((r for r in private if r["n"] == n), key=lambda r: r["auc"])


def in_plain_words(results: Sequence[Mapping[str, Any]], descriptions: Mapping[str, str] | None = None) -> str:
    """One or two sentences that say what a run found, for someone who knows no metric.

    The largest group of users of which the adversary is surely right nearly always (lower end
    of the interval at 99, else 95, else 90 %), then the success on everyone against a guess
    without any report.

    Parameters
    ----------
    results : sequence of mappings
        From ``summarise``.
    descriptions : mapping, optional
        What each adversary knows, as "an adversary who knows what is popular".
    """
    record = headline(results)
    name = record["adversary"]
    phrase = (descriptions or {}).get(name)
    who = f"{phrase} ({name})" if phrase else f"the {name} adversary"
    opening = f"After {record['n']:,} report{'s' * (record['n'] != 1)}, {who}"
    group = _sure_group(record)
    if group is None:
        return f"{opening} names the preferred pool of every user and {_on_everyone(record)}."
    share, field = group
    crowd = "every user" if share == 1 else f"{percent(share)} of the users"
    first = f"{opening} names the preferred pool of {crowd} and {_how_often(record[field])}."
    if share == 1:
        return first
    return f"{first} Naming a pool for every user, the same adversary {_on_everyone(record)}."


def _sure_group(record: Mapping[str, Any]) -> tuple[float, str] | None:
    """Largest share of users with surely high precision, and the field that says so."""
    groups = [(1.0, "precision")]
    groups += [(top, f"precision_{name}") for name, top in reversed(TOPS.items())]
    for level in _LEVELS:
        for share, field in groups:
            if record[f"{field}_low"] >= level:
                return share, field
    return None


def _how_often(precision: float) -> str:
    return "is right every time" if precision == 1 else f"is right {percent(precision)} of the time"


def _on_everyone(record: Mapping[str, Any]) -> str:
    """Success on all users beside the better of the two guesses that need no report."""
    blind, chance = "guessing at random", record["baseline"]
    if is_skewed(record):
        blind, chance = "always naming the most common pool", record["majority"]
    success = f"is right for {percent(record['precision'])} of them"
    if record["precision_low"] > chance:
        return f"{success}, where {blind} is right for {percent(chance)}"
    return f"{success}, no better than {blind} ({percent(chance)})"


def is_skewed(record: Mapping[str, Any]) -> bool:
    """Whether one pool is preferred by more users than chance explains.

    Among evenly preferred pools one is always the most common; four standard errors are more.
    """
    even = record["baseline"]
    return record["majority"] - even > 4 * (even * (1 - even) / record["users"]) ** 0.5


def prior_guess(record: Mapping[str, Any]) -> float:
    """How often the best guess without any report is right: the most common pool where there is one, else any."""
    return record["majority"] if is_skewed(record) else record["baseline"]


def percent(share: float) -> str:
    """A share as a reader says it: whole, with a decimal near 0 and 1, never rounded to them."""
    value = 100 * share
    if 0 < value < 0.1:
        return "less than 0.1 %"
    if 99.9 < value < 100:
        return "more than 99.9 %"
    decimals = 0 if 1 <= value <= 99 or value in (0, 100) else 1
    return f"{value:.{decimals}f} %"
