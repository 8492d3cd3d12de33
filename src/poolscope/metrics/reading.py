"""Records as JSON and as rows, read back: the kind of each field says what must stand there.

An estimate is three numbers beside each other, ``auc_pn``, ``auc_pn_low`` and ``auc_pn_high``; infinity is a text, and
what is not known is null.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from math import inf, nan
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Self, TypeVar, get_args, get_origin, get_type_hints

from poolscope.core.errors import InputError, located
from poolscope.core.files import plain
from poolscope.metrics.intervals import Estimate
from poolscope.metrics.tables import Records

ENDS = ("", "_low", "_high")
"""What the names of the three numbers of an estimate end in."""

_INFINITIES = {"inf": inf, "-inf": -inf}

SEED = "seed"
"""The only whole number that may be nothing or less."""

Kind = TypeVar("Kind")
Readers = Mapping[Any, Callable[[Any], Any]]


def record_from(
    kind: type[Kind], flat: Any, unknown: Collection[str] | None = None, readers: Readers = MappingProxyType({})
) -> Kind:
    """The record of a kind that a file keeps; an ``InputError`` names a field that is missing or of another kind.

    Parameters
    ----------
    unknown : the numbers that may be null, which are NaN then; None: all of them.
    readers : by kind, what reads a field of a kind that is not known here.
    """
    hints = get_type_hints(kind)
    values: dict[str, Any] = {}
    if not isinstance(flat, dict):
        raise InputError("must be an object", value=flat)
    for entry in fields(kind):  # type: ignore[arg-type]
        name, (own, optional) = entry.name, _kind(hints[entry.name])
        if optional and flat.get(name) is None and f"{name}_low" not in flat:
            values[name] = None
        elif own is Estimate:
            values[name] = Estimate(*(_number(flat.get(part := f"{name}{end}"), part, unknown) for end in ENDS))
        elif name in flat or entry.default is MISSING:
            values[name] = _value(own, flat.get(name), name, unknown, readers)
    return kind(**values)


def _kind(hint: Any) -> tuple[Any, bool]:
    """What a field is, and whether it may be nothing."""
    if not isinstance(hint, UnionType):
        return hint, False
    (own,) = (one for one in get_args(hint) if one is not NoneType)
    return own, True


def _value(kind: Any, value: Any, name: str, unknown: Collection[str] | None, readers: Readers) -> Any:
    """A value of a field that is no estimate."""
    if kind in readers:
        return readers[kind](value)
    if is_dataclass(kind):
        with located(place=name):
            return record_from(kind, value, unknown, readers)  # type: ignore[arg-type]
    if kind is Estimate:
        if not isinstance(value, list) or len(value) != len(ENDS):
            raise InputError("must be three numbers", value=value, place=name)
        return Estimate(*(_number(one, name, unknown) for one in value))
    many = get_origin(kind)
    if many in (tuple, Records):
        if not isinstance(value, list):
            raise InputError("must be a list", value=value, place=name)
        own = get_args(kind)[0]
        return many(_value(own, one, f"{name}.{place}", unknown, readers) for place, one in enumerate(value))
    if many is Mapping:
        if not isinstance(value, dict):
            raise InputError("must be an object", value=value, place=name)
        own = get_args(kind)[1]
        return {key: _value(own, one, f"{name}.{key}", unknown, readers) for key, one in value.items()}
    if kind in (str, bool):
        if not isinstance(value, kind):
            raise InputError("must be a text" if kind is str else "must be true or false", value=value, place=name)
        return value
    number = _number(value, name, unknown)
    if kind is int and (not isinstance(number, int) or (number < 1 and name != SEED)):
        raise InputError("must be a whole number of at least 1", value=number, place=name)
    return number


def _number(value: Any, name: str, unknown: Collection[str] | None) -> float:
    if value is None and (unknown is None or name in unknown):
        return nan
    if isinstance(value, str) and value in _INFINITIES:
        return _INFINITIES[value]
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InputError("must be a number", value=value, place=name)
    return value


UNKNOWN = ("bayes_risk_ratio", "bayes_security", "precision_at_threshold")
"""Fields whose value may be null: nobody errs without reports, all prefer one pool, nobody is sure."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """Numbers and texts, some of the numbers with intervals."""

    def flat(self) -> dict[str, Any]:
        """The record as one row: an estimate is three numbers, ``auc_pn``, ``auc_pn_low`` and ``auc_pn_high``.

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
