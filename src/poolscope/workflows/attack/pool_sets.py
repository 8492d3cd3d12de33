"""Cautions where several sets of pools are tried on the same reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from poolscope.core.errors import InputError, PoolscopeError
from poolscope.core.tables import scan_written
from poolscope.core.tables.writing import TABLES
from poolscope.workflows.attack.scoring import Scorer

#: Sets of pools at most, and tables beside the output that are looked at.
MAX_POOL_SETS, MAX_TABLES = 1_000_000, 100

#: Columns of a table of posteriors.
COLUMNS = {"user", "adversary", "n", "guess", "confidence"}

PREFIX = "posterior."


def check_pool_sets(pool_sets: int, scorer: Scorer | None = None) -> None:
    """Refuse a number of sets that is none, and a correction for adversaries who have no evidence for a set."""
    if not 1 <= pool_sets <= MAX_POOL_SETS:
        raise InputError(f"must be from 1 to {MAX_POOL_SETS:,}", value=pool_sets, place="pool_sets")
    if pool_sets > 1 and scorer is not None and scorer.memoization_aware:
        rule = "must be 1 where an adversary groups memoized reports, whose evidence for a set of pools is not known"
        raise InputError(rule, value=pool_sets, place="pool_sets", remedy="or set knows_memoization = false")


def correction_note(pool_sets: int) -> list[str]:
    """Return what the correction assumes, in one sentence; nothing for a single set of pools."""
    if pool_sets == 1:
        return []
    return [
        f"Confidences are corrected for {pool_sets:,} sets of pools on the same reports: each set is equally likely a "
        "priori to be the one that describes a user, who has no preference among the pools of the others."
    ]


def other_pools_beside(
    target: Path, pools: Sequence[str], head: Sequence[Mapping[str, Any]], pool_sets: int
) -> list[str]:
    """Caution where tables beside the output have posteriors of the same users for other pools.

    Tables are ordered by the hash of the user's name: the same first users are the same users. More tables than sets of
    pools that were stated are a choice that the confidence does not account for.
    """
    users = [str(row["user"]) for row in head]
    found = []
    tables = (path for path in sorted(target.parent.iterdir()) if path.suffix.lower() in TABLES and path.is_file())
    for path, _ in zip(tables, range(MAX_TABLES), strict=False):
        if path.name != target.name and _other_pools(path, pools, users):
            found.append(path.name)
    if len(found) < pool_sets:
        return []
    names = ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
    return [
        f"{names} beside the output: posteriors of the same users for other pools. If you choose among sets of pools, "
        f"state how many were tried: --pool-sets {len(found) + 1}."
    ]


def _other_pools(path: Path, pools: Sequence[str], users: Sequence[str]) -> bool:
    """Return whether a table has posteriors of these first users for other pools; False for any other table."""
    try:
        table = scan_written(path, ("user",))
        names = table.collect_schema().names()
        if not COLUMNS.issubset(names):
            return False
        own = [name.removeprefix(PREFIX) for name in names if name.startswith(PREFIX)]
        if not own or set(own) == set(pools):
            return False
        # rows of a user are adjacent; tables may have other numbers of rows for each
        first = list(dict.fromkeys(table.select("user").head(len(users)).collect()["user"].to_list()))
    except (PoolscopeError, OSError, ValueError, pl.exceptions.PolarsError):
        return False
    common = list(dict.fromkeys(users))[: len(first)]
    return bool(first) and first[: len(common)] == common
