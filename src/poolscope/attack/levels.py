"""From which confidence on an adversary is sure of a user: at n if it is so after n reports.

A user is exposed by n if the adversary has been sure at some time up to n. A scenario may add a threshold of its own.
"""

from __future__ import annotations

LEVELS = (0.5, 0.9, 0.95)


def at_levels(word: str) -> dict[float, str]:
    """A name for each level, as ``exposed_90``."""
    return {level: f"{word}_{100 * level:.0f}" for level in LEVELS}


def sure(level: float) -> str:
    """How a table heads the users of whom the adversary is sure with this confidence."""
    return f"sure, {100 * level:g} %"
