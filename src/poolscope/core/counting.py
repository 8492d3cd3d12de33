"""Format counts with their nouns."""

from __future__ import annotations

MIN_USERS = 20
"""Number of users below which shares are shown as counts instead of percentages, and curves are not drawn."""


def counted(count: int, noun: str) -> str:
    """Return a count with its noun in the singular or plural: 1 user, 2,000 users."""
    return f"{count:,} {noun}{'s' * (count != 1)}"
