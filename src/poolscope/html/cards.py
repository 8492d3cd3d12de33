"""The numbers to remember of an attack, as cards: a large value, what it is a share of, and its interval."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from poolscope.core.counting import MIN_USERS
from poolscope.html.html import tied
from poolscope.html.numbers import large_share, share
from poolscope.html.tables import interval
from poolscope.inference.adversary import in_percent
from poolscope.metrics.intervals import Estimate
from poolscope.metrics.records import TOPS, Record

FEW = "too few users for a percentage"


class Card(NamedTuple):
    """A large value, what it says, and what stands below in small letters."""

    value: str
    label: str
    note: str


def cards(record: Record) -> Iterator[Card]:
    """How many users are guessed rightly, of all and of the surest tenth, and how many are exposed.

    Shares of fewer than 20 users are counts.
    """
    surest = max(1, round(TOPS["precision_top10"] * record.users))
    exposed = f"users are exposed by then, at {in_percent(record.exposed_at)} confidence"
    yield _card(record.precision, record.users, "of all users are guessed rightly", "users are guessed rightly")
    yield _card(
        record.precision_top10,
        surest,
        "of the surest tenth of guesses are right",
        "guesses are right, of the tenth that it is surest of",
    )
    yield _card(record.exposed_share, record.users, f"of {exposed}", exposed)


def _card(found: Estimate, users: int, label: str, counting: str) -> Card:
    few, ends = users < MIN_USERS, interval(found, share)
    note = FEW if few else f"{ends} %" if ends else ""
    return Card(tied(large_share(found.value, users)), tied(counting if few else label), tied(note))
