"""Families of events that are worth trying, from a first look at reports of each object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poolscope.base.arrays import Floats
from poolscope.mechanisms.role import ReportColumn, report_count
from poolscope.verbs.check.events import (
    SLACK,
    Among,
    Beyond,
    Bits,
    Equals,
    Family,
    Likelier,
    Seen,
    difference,
    fingerprints,
    integers,
)
from poolscope.verbs.check.law import states_law
from poolscope.verbs.check.marks import MOST_VALUES, Target, given, keyed
from poolscope.verbs.check.readings import Reading, exactly

#: Bits, cuts, and parts of wide columns, whose rates differ most between objects.
MOST_BITS = 32
#: Cuts through a column of many values.
CUTS = 15
#: Quantiles at which the stated likelihood ratio is cut.
LEVELS = (0.0, 0.5, 0.9, 1.0)
#: Ways to join columns.
MOST_JOINS = 8
#: Share of the reports that may have a key of their own, where a column is to be a key.
FRESH_KEYS = 0.9
#: Reports of an object under each key: as many show its mark, and fewer than these do not.
ENOUGH, FEWEST = 16, 1


def learn(looks: Sequence[Seen], objects: Sequence[int], columns: Mapping[str, ReportColumn]) -> Iterator[Family]:
    """Families of events worth trying, from reports of each tried object."""
    pairs = np.array([(a, b) for a in range(len(objects)) for b in range(len(objects)) if a != b]).reshape(-1, 2)
    if states_law(looks[0].mechanism) and len(pairs):
        yield _likelier(looks, tuple(objects), pairs)
    for name in looks[0].reports:
        declared = columns.get(name)
        yield from _of_column(name, declared, [look.reports[name] for look in looks], objects, pairs)
    yield from _whole(looks, objects, pairs)
    yield from learn_joined(looks, objects, columns)


def learn_joined(
    looks: Sequence[Seen], objects: Sequence[int], columns: Mapping[str, ReportColumn]
) -> Iterator[Family]:
    """Events that join a hash, a cohort or the like with another column, where there are reports enough of each."""
    reports = [look.reports for look in looks]
    for keys, target, count in _joins(looks, columns):
        if count * FEWEST * len(looks) <= sum(map(report_count, reports)):
            yield from keyed(reports, objects, keys, target)


def needs_more(looks: Sequence[Seen], columns: Mapping[str, ReportColumn]) -> bool:
    """Whether columns may be joined for which a look at so many reports is too short."""
    reports = sum(report_count(look.reports) for look in looks)
    return any(count * ENOUGH * len(looks) > reports for _, _, count in _joins(looks, columns))


def _joins(looks: Sequence[Seen], columns: Mapping[str, ReportColumn]) -> list[tuple[tuple[str, ...], Target, int]]:
    """Columns that make a key, the column in which something may hang from it, and how many keys there are."""
    first = looks[0].reports
    whole = [name for name, column in first.items() if column.ndim == 1 and column.dtype.kind in "iub"]
    targets = [t for name in first if (t := _target(name, looks, columns.get(name))) is not None]
    # bits first: a column that is a key itself is rarely what hangs from one
    targets.sort(key=lambda target: target.values is not None)
    joins: list[tuple[tuple[str, ...], Target, int]] = []
    for target in targets:
        others = tuple(name for name in whole if name != target.column)
        for keys in dict.fromkeys([others, *((name,) for name in others)] if others else []):
            found = np.concatenate([fingerprints({name: look.reports[name] for name in keys}) for look in looks])
            count = len(np.unique(found))
            if 1 < count < FRESH_KEYS * len(found) and len(joins) < MOST_JOINS:
                joins.append((keys, target, count))
    return joins


def _target(name: str, looks: Sequence[Seen], declared: ReportColumn | None) -> Target | None:
    """A column as something that may hang from a key: bits, or few values."""
    column = looks[0].reports[name]
    if column.ndim == 2 and column.dtype == np.uint8:
        return Target(column=name, size=8 * column.shape[1] if declared is None else declared.size, values=None)
    if column.ndim != 1 or column.dtype.kind not in "iub":
        return None
    values = np.unique(np.concatenate([look.reports[name] for look in looks]))
    return Target(column=name, size=len(values), values=values) if 1 < len(values) <= MOST_VALUES else None


def _likelier(looks: Sequence[Seen], objects: tuple[int, ...], pairs: NDArray[np.int64]) -> Likelier:
    one, other, cut = [], [], []
    logs = [look.log_likelihood(objects) for look in looks]
    for a, b in pairs:
        ratio = difference(logs[a][:, a], logs[a][:, b])
        favouring = np.sort(ratio[ratio > SLACK])
        if len(favouring):
            levels = [favouring[int(level * (len(favouring) - 1))] for level in LEVELS]
            for value in dict.fromkeys(round(float(level), 9) for level in levels):
                one.append(a)
                other.append(b)
                cut.append(value)
    return Likelier(objects=objects, one=integers(one), other=integers(other), cut=np.array(cut, dtype=np.float64))


def _of_column(
    name: str,
    declared: ReportColumn | None,
    looks: Sequence[NDArray[Any]],
    objects: Sequence[int],
    pairs: NDArray[np.int64],
) -> Iterator[Family]:
    """Events of one column: of its bits, of its parts where it is wide, of its values."""
    if looks[0].ndim == 2 and looks[0].dtype == np.uint8:
        yield from _bits(name, 8 * looks[0].shape[1] if declared is None else declared.size, looks, pairs)
    elif looks[0].ndim == 2:
        means = np.array([look.mean(axis=0) for look in looks])
        for part in np.argsort(np.ptp(means, axis=0))[::-1][:MOST_BITS]:
            yield from _values(Reading(column=name, part=int(part)), [look[:, part] for look in looks])
    elif looks[0].ndim == 1:
        yield from _values(Reading(column=name), looks)
        if len(np.unique(exactly(np.concatenate(looks)))) > MOST_VALUES and len(pairs):
            yield from given([{name: look} for look in looks], objects, name)


def _values(reading: Reading, looks: Sequence[NDArray[Any]]) -> Iterator[Family]:
    """Events of a number: each value where they are few, else those that come again, and cuts."""
    pooled = np.concatenate(looks)
    _, first, counts = np.unique(exactly(pooled), return_index=True, return_counts=True)
    values = pooled[first]
    if len(values) <= MOST_VALUES:
        yield Equals(reading=reading, values=values)
        return
    again = np.flatnonzero(counts > 1)
    if len(again):
        yield Equals(reading=reading, values=values[again[np.argsort(-counts[again], kind="stable")][:MOST_BITS]])
    if np.issubdtype(values.dtype, np.number):
        ordered = np.sort(pooled)
        yield _beyond(reading, np.unique(ordered[np.linspace(0, len(ordered) - 1, CUTS + 2).astype(int)[1:-1]]))
    if values.dtype.kind == "f":
        yield from _of_floats(reading, looks)


def _of_floats(reading: Reading, looks: Sequence[NDArray[Any]]) -> Iterator[Beyond]:
    """Events of how floating-point numbers are built: on which grid they are, how many of their last bits are 0."""
    for of in (replace(reading, kind="grid"), replace(reading, kind="zeros")):
        read = [of.read(look) for look in looks]
        cuts = np.unique(np.concatenate(read))[1:]
        if len(cuts):
            rates = np.array([[(values >= cut).mean() for cut in cuts] for values in read])
            yield _beyond(of, cuts[np.argsort(np.ptp(rates, axis=0), kind="stable")[::-1][:MOST_BITS]])


def _beyond(reading: Reading, cuts: NDArray[Any]) -> Beyond:
    return Beyond(reading=reading, cuts=np.tile(cuts, 2), above=np.repeat([True, False], len(cuts)))


def _bits(name: str, size: int, looks: Sequence[NDArray[Any]], pairs: NDArray[np.int64]) -> Iterator[Family]:
    rates = np.array([bit_rates(look, size) for look in looks])
    most = np.argsort(np.ptp(rates, axis=0))[::-1][:MOST_BITS]
    gaps = rates[pairs[:, 0]] - rates[pairs[:, 1]] if len(pairs) else np.empty((0, size))
    bit = [*most, *most, *gaps.argmax(axis=1)]
    unset = [*np.full(2 * len(most), -1), *gaps.argmin(axis=1)]
    value = np.ones(len(bit), dtype=bool)
    value[len(most) : 2 * len(most)] = False
    yield Bits(column=name, bit=integers(bit), value=value, unset=integers(unset))


def _whole(looks: Sequence[Seen], objects: Sequence[int], pairs: NDArray[np.int64]) -> Iterator[Family]:
    """Sets of whole reports: the most telling first, where the reports are few; else those sent before."""
    found = [fingerprints(look.reports) for look in looks]
    prints, first = np.unique(np.concatenate(found), return_index=True)
    if not len(pairs):
        return
    if len(prints) > MOST_VALUES:
        yield from given([look.reports for look in looks], objects, None)
        return
    counts = np.array([np.bincount(np.searchsorted(prints, f), minlength=len(prints)) for f in found])
    rates = (counts + 0.5) / (counts.sum(axis=1, keepdims=True) + 1.0)
    sizes = np.unique(np.geomspace(1, len(prints), 8).astype(int))[:-1]
    chosen = np.zeros((len(pairs) * len(sizes), len(prints)), dtype=bool)
    for row, (a, b) in enumerate(pairs):
        order = np.argsort(rates[b] / rates[a], kind="stable")
        for column, size in enumerate(sizes):
            chosen[row * len(sizes) + column, order[:size]] = True
    starts = np.cumsum([0, *(report_count(look.reports) for look in looks)])
    shown = []
    for i in first:
        look = int(np.searchsorted(starts, i, side="right")) - 1
        columns = looks[look].reports.items()
        shown.append(", ".join(f"{name} {_written(column[i - starts[look]])}" for name, column in columns))
    if len(chosen):
        yield Among(prints=prints, chosen=chosen, shown=tuple(shown))


def bit_rates(packed: NDArray[np.uint8], size: int) -> Floats:
    """(size,) share of the reports in which each bit is set."""
    ones = np.zeros(size, dtype=np.int64)
    at_once = max(1, (1 << 24) // size)
    for start in range(0, len(packed), at_once):
        part = np.unpackbits(packed[start : start + at_once], axis=1, bitorder="little", count=size)
        ones += part.sum(axis=0, dtype=np.int64)
    return ones / max(1, len(packed))


def _written(value: NDArray[Any] | np.generic) -> str:
    return " ".join(map(str, np.atleast_1d(value)))
