"""How counts are written: a number and its noun, in the singular where there is one."""

from __future__ import annotations

MIN_USERS = 20
"""Users below which a share is given as a count, not as a percentage, and a point of a curve is noise."""


def counted(count: int, noun: str) -> str:
    """A count with its noun, which takes an s unless there is exactly one: 1 user, 2,000 users."""
    return f"{count:,} {noun}{'s' * (count != 1)}"
