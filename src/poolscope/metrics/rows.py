"""A record as a row of a file, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from poolscope.core.files import plain
from poolscope.metrics.intervals import Estimate
from poolscope.metrics.reading import ENDS, record_from

UNKNOWN = ("bayes_security", "bayes_security_least", "precision_when_sure")
"""Fields whose value may be null: nobody errs without reports, all prefer one pool, nobody is sure."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """Numbers and texts, some of the numbers with intervals."""

    def flat(self) -> dict[str, Any]:
        """The record as one row: an estimate is three numbers, ``auc``, ``auc_low`` and ``auc_high``.

        A field that has a default is left out where it has no value.
        """
        row: dict[str, Any] = {}
        for entry in fields(self):
            value = getattr(self, entry.name)
            if isinstance(value, Estimate):
                row |= {f"{entry.name}{end}": part for end, part in zip(ENDS, value, strict=True)}
            elif value is not None or entry.default is not None:
                row[entry.name] = value
        return row

    def as_json(self) -> dict[str, Any]:
        """The row for a file: infinity is the text "inf", and what is not known, as a share of nobody, is null."""
        return {name: plain(value) for name, value in self.flat().items()}

    @classmethod
    def from_json(cls, flat: Mapping[str, Any]) -> Self:
        """The record that ``as_json`` wrote; an ``InputError`` names a field that is missing or of another kind."""
        return record_from(cls, flat, UNKNOWN)
