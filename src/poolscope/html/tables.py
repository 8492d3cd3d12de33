"""Numbers of an HTML report: how they are written, the tables that hold them, and the cards at the top."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from poolscope.core.counting import MIN_USERS
from poolscope.html.render import tied
from poolscope.inference.levels import in_percent
from poolscope.metrics.intervals import Estimate
from poolscope.metrics.leakage import SMALLEST_DOUBT
from poolscope.metrics.records import TOPS, Record
from poolscope.metrics.text import number, percent


class Column(NamedTuple):
    """A column: a field of the records, its head and the one above, and how its numbers are written."""

    field: str
    group: str
    head: str
    form: Callable[[Any], str]


def table(
    label: str,
    records: Sequence[Any],
    columns: Sequence[Column],
    *,
    block: tuple[str, str],
    row: tuple[str, str],
    form: Callable[[Any], str] = str,
    best: str | None = None,
) -> dict[str, Any]:
    """The records in blocks of rows.

    Parameters
    ----------
    label : what the table holds, for those who do not see it.
    block, row : the field that the rows of a block share and the one that tells them apart, each with its head.
    form : how the row's field is written.
    best : a field that says which rows are marked with a star.
    """
    groups = groupby(columns, key=lambda column: column.group)
    return {
        "label": label,
        "heads": (block[1], row[1]),
        "groups": [{"text": text, "span": len(list(some))} for text, some in groups],
        "columns": [column.head for column in columns],
        "blocks": [
            {
                "head": head,
                "rows": [
                    {
                        "head": form(getattr(record, row[0])),
                        "best": best is not None and getattr(record, best),
                        "cells": [_cell(getattr(record, column.field), column.form) for column in columns],
                    }
                    for record in some
                ],
            }
            for head, some in groupby(records, key=lambda record: getattr(record, block[0]))
        ],
    }


def _cell(value: Any, form: Callable[[Any], str]) -> dict[str, str]:
    if isinstance(value, Estimate):
        return {"value": form(value.value), "interval": interval(value, form)}
    return {"value": form(value), "interval": ""}


def interval(estimate: Estimate, form: Callable[[Any], str]) -> str:
    """An interval as it stands below its value; nothing where it is a point."""
    low, high = form(estimate.low), form(estimate.high)
    if low == high:
        return ""
    dash = " – " if "-" in low + high else "–"
    return f"{low}{dash}{'∞' if high == '–' else high}".replace("-", "−")


def decimal(value: float, positions: int = 3) -> str:
    """A number around 1, to three decimals or so many; a dash where it is not known."""
    if math.isinf(value):
        return number(value)
    return "–" if math.isnan(value) else f"{value:.{positions}f}"


def share(value: float) -> str:
    """A share as the number before the percent sign."""
    return "–" if math.isnan(value) else f"{100 * value:.1f}"


def large_percent(value: float) -> str:
    """A share as it stands alone, in large letters, where there is no room for words."""
    return percent(value).replace("less than ", "<\u202f").replace("more than ", ">\u202f")


def large_share(value: float, users: int) -> str:
    """A share of some users as it stands alone: a percentage, or of fewer than 20 users a count."""
    return large_percent(value) if users >= MIN_USERS else f"{round(value * users)} of {users}"


def count(value: float) -> str:
    """A number of reports; a dash for never."""
    return "–" if math.isinf(value) else f"{value:.0f}"


def bits(value: float) -> str:
    """Bits, to two decimals."""
    return "–" if not math.isfinite(value) else f"{value:.2f}"


def log_odds(value: float) -> str:
    """Evidence; what double precision cannot tell from certainty is a lower bound."""
    if math.isinf(value):
        return number(value)
    return f"≥ {value:.1f}" if value >= -math.log(SMALLEST_DOUBT) else f"{value:.1f}"


def error(value: float | None) -> str:
    """An error, always with its power of ten; a dash where there is no estimate."""
    return "–" if value is None or math.isnan(value) else f"{value:.2e}"


def rounded(value: float | str | None) -> str:
    """Two decimals, more where the number is small, none where it is large; words as they are."""
    if value is None or isinstance(value, str):
        return value or "-"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) >= 0.1 or value == 0 else f"{value:.3g}"


TOO_FEW_USERS = "too few users for a percentage"


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
    note = TOO_FEW_USERS if few else f"{ends} %" if ends else ""
    return Card(tied(large_share(found.value, users)), tied(counting if few else label), tied(note))
