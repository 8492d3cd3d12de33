"""The table of numbers of a page: records in, what the template places out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from poolscope.metrics.intervals import Estimate


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
