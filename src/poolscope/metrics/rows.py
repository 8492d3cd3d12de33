"""A record as a row of a file, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import inf, nan
from typing import Any, Self, get_args, get_type_hints

from poolscope.base.errors import InputError
from poolscope.base.json import plain
from poolscope.metrics.intervals import Estimate

_ENDS = ("", "_low", "_high")

_INFINITIES = {"inf": inf, "-inf": -inf}


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
                row |= {f"{entry.name}{end}": part for end, part in zip(_ENDS, value, strict=True)}
            elif value is not None or entry.default is not None:
                row[entry.name] = value
        return row

    def as_json(self) -> dict[str, Any]:
        """The row for a file: infinity is the text "inf", and what is not known, as a share of nobody, is null."""
        return {name: plain(value) for name, value in self.flat().items()}

    @classmethod
    def from_json(cls, flat: Mapping[str, Any]) -> Self:
        """The record that ``as_json`` wrote; an ``InputError`` names a field that is missing or of another kind."""
        kinds = get_type_hints(cls)
        values: dict[str, Any] = {}
        for entry in fields(cls):
            kind = kinds[entry.name]
            if entry.default is None and flat.get(entry.name) is None and f"{entry.name}_low" not in flat:
                continue
            if Estimate in (kind, *get_args(kind)):
                values[entry.name] = Estimate(*(_number(flat, f"{entry.name}{end}") for end in _ENDS))
            elif kind is str:
                values[entry.name] = _text(flat, entry.name)
            else:
                values[entry.name] = _whole(flat, entry.name) if kind is int else _number(flat, entry.name)
        return cls(**values)


UNKNOWN = ("bayes_security", "bayes_security_least", "precision_when_sure")
"""Fields whose value may be null: nobody errs without reports, all prefer one pool, nobody is sure."""


def _number(flat: Mapping[str, Any], name: str) -> float:
    value = flat.get(name)
    if value is None and name in UNKNOWN:
        return nan
    if isinstance(value, str) and value in _INFINITIES:
        return _INFINITIES[value]
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InputError("must be a number", value=value, place=name)
    return value


def _whole(flat: Mapping[str, Any], name: str) -> int:
    value = _number(flat, name)
    if not isinstance(value, int) or value < 1:
        raise InputError("must be a whole number of at least 1", value=value, place=name)
    return value


def _text(flat: Mapping[str, Any], name: str) -> str:
    value = flat.get(name)
    if not isinstance(value, str):
        raise InputError("must be a text", value=value, place=name)
    return value
