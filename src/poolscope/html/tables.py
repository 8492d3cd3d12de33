"""Format numbers, tables and cards of an HTML report."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from poolscope.core.counting import MIN_USERS
from poolscope.inference.thresholds import in_percent
from poolscope.metrics.intervals import Estimate
from poolscope.metrics.leakage import SMALLEST_DOUBT
from poolscope.metrics.records import TOPS, Record
from poolscope.metrics.text import number, percent


class Column(NamedTuple):
    """A column: a field of the records, its header and the group header above, and how its values are formatted.

    `text` is for sentences, which are aligned to the left and wrapped.
    """

    field: str
    group: str
    head: str
    form: Callable[[Any], str]
    text: bool = False


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
    """Return the records as blocks of rows.

    Parameters
    ----------
    label : accessible name of the table.
    block, row : the field that groups rows and the field that identifies a row, each with its header.
    form : how the row's field is formatted.
    best : a field that marks rows with a star.
    """
    groups = groupby(columns, key=lambda column: column.group)
    return {
        "label": label,
        "heads": (block[1], row[1]),
        "groups": [{"text": text, "span": len(list(some))} for text, some in groups],
        "columns": [column.head for column in columns],
        "texts": [column.text for column in columns],
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
    """Return an interval, as "0.62–0.81"; an empty text where both ends are equal."""
    low, high = form(estimate.low), form(estimate.high)
    if low == high:
        return ""
    dash = " – " if "-" in low + high or high[0] in ">≥" else "–"
    # what is not reached has no upper end
    return f"≥ {low}" if high == "–" else f"{low}{dash}{high}".replace("-", "−")


def decimal(value: float, positions: int = 3) -> str:
    """Return a number with three decimals by default; a dash where it is unknown."""
    if math.isinf(value):
        return number(value)
    return "–" if math.isnan(value) else f"{value:.{positions}f}"


def share(value: float) -> str:
    """Return a share as a percentage without its sign."""
    return "–" if math.isnan(value) else f"{100 * value:.1f}"


def large_percent(value: float) -> str:
    """Return a share as a short percentage, for large type."""
    return percent(value).replace("less than ", "< ").replace("more than ", "> ")


def large_share(value: float, users: int) -> str:
    """Return a share of users: a percentage, or a count of fewer than 20 users."""
    return large_percent(value) if users >= MIN_USERS else f"{round(value * users)} of {users}"


def count(value: float) -> str:
    """Return a number of reports; a dash where it is not reached."""
    return "–" if math.isinf(value) else f"{value:.0f}"


def bits(value: float) -> str:
    """Return bits with two decimals."""
    return "–" if not math.isfinite(value) else f"{value:.2f}"


def log_odds(value: float) -> str:
    """Return log odds; beyond double precision they are a lower bound."""
    if math.isinf(value):
        return number(value)
    return f"≥ {value:.1f}" if value >= -math.log(SMALLEST_DOUBT) else f"{value:.1f}"


def error(value: float | None) -> str:
    """Return an error in scientific notation; a dash where there is no estimate."""
    return "–" if value is None or math.isnan(value) else f"{value:.2e}"


def three_digits(value: float | None) -> str:
    """Return a number to three digits; a dash where it is unknown."""
    return "–" if value is None else f"{value:.3g}"


def rounded(value: float | str | None) -> str:
    """Return a number with two decimals, more where it is small and none where it is large; texts unchanged."""
    if value is None or isinstance(value, str):
        return value or "–"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) >= 0.1 or value == 0 else f"{value:.3g}"


TOO_FEW_USERS = "count (fewer than 20)"


class Card(NamedTuple):
    """A large value, its label, and a note in small type."""

    value: str
    label: str
    note: str


def cards(record: Record) -> Iterator[Card]:
    """Yield the success on all users and on the most confident 10%, and the share of exposed users.

    Shares of fewer than 20 users are counts.
    """
    top = max(1, round(TOPS["precision_top10"] * record.users))
    exposed = f"exposed (confidence ≥ {in_percent(record.exposed_at)} at least once)"
    yield _card(record.precision, record.users, "of all users guessed correctly", "users guessed correctly")
    yield _card(
        record.precision_top10,
        top,
        "of the most confident 10% guessed correctly",
        "guesses correct in the most confident 10%",
    )
    yield _card(record.exposed_share, record.users, f"of users {exposed}", f"users {exposed}")


def _card(found: Estimate, users: int, label: str, counting: str) -> Card:
    few, ends = users < MIN_USERS, interval(found, share)
    note = TOO_FEW_USERS if few else f"{ends}%" if ends else ""
    return Card(large_share(found.value, users), counting if few else label, note)
