"""From which confidence on an adversary is sure of a user: at n if it is so after n reports.

A user is exposed by n if the adversary has been sure at some time up to n. A scenario may add a threshold of its own.
"""

from __future__ import annotations

LEVELS = (0.5, 0.9, 0.95)

DEFAULT_THRESHOLD = 0.9
"""The confidence at which results are told where no other was asked for; one of `LEVELS`."""


def with_threshold(threshold: float | None) -> tuple[float, ...]:
    """All levels of a run, the one that was asked for among them, in increasing order."""
    return tuple(sorted({*LEVELS, *(() if threshold is None else (threshold,))}))


def at_levels(word: str) -> dict[float, str]:
    """A name for each level, as ``exposed_90``."""
    return {level: f"{word}_{100 * level:.0f}" for level in LEVELS}


def in_percent(level: float) -> str:
    """A confidence that was asked for, with all its digits: 97.5%."""
    return f"{100 * level:g}%"


def at_least(level: float) -> str:
    """Return the column header of the users for whom the confidence reaches this level."""
    return f"confidence ≥ {in_percent(level)}"
