"""Confidence thresholds at which an adversary counts as confident.

The adversary is confident about a user at n if its largest posterior reaches the threshold after n reports. A user is
exposed by n if that was so after any number of reports up to n. A scenario may add a threshold of its own.
"""

from __future__ import annotations

LEVELS = (0.5, 0.9, 0.95)

DEFAULT_THRESHOLD = 0.9
"""The threshold of results where no other is requested; one of `LEVELS`."""


def with_threshold(threshold: float | None) -> tuple[float, ...]:
    """Return all thresholds of a run in increasing order, with the requested one."""
    return tuple(sorted({*LEVELS, *(() if threshold is None else (threshold,))}))


def at_levels(word: str) -> dict[float, str]:
    """Return a name for each threshold, such as ``exposed_90``."""
    return {threshold: f"{word}_{100 * threshold:.0f}" for threshold in LEVELS}


def in_percent(threshold: float) -> str:
    """Return a threshold with all its digits: 97.5%."""
    return f"{100 * threshold:g}%"


def at_least(threshold: float) -> str:
    """Return the column header of the users for whom the confidence reaches this level."""
    return f"confidence ≥ {in_percent(threshold)}"
