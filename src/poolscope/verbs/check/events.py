"""Events by which two objects could be told apart: families of them, learnt from a first look at some reports.

An event is anything that a report may or may not satisfy; whatever is chosen here is tested on other reports, so a bad
choice costs power and never truth. Events come from the stated law (which objects a report favours) and, because the
law need not be what is sampled, from the columns themselves: values, thresholds, bits, whole reports.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from poolscope.base.arrays import Floats
from poolscope.mechanisms.role import Mechanism, ReportColumn, Reports, report_count
from poolscope.verbs.check.law import likelihoods, states_law

Truths = NDArray[np.bool_]

#: Distinct values, or whole reports, that are events one by one.
MOST_VALUES = 1024
#: Bits, and parts of wide columns, whose rates differ most between objects.
MOST_BITS = 32
#: Cuts through a column of many values.
CUTS = 15
#: Quantiles at which the stated likelihood ratio is cut.
LEVELS = (0.0, 0.5, 0.9, 1.0)
#: Rounding of a likelihood ratio.
SLACK = 1e-9


@dataclass(frozen=True, kw_only=True)
class Seen:
    """Reports, and what the mechanism states of them."""

    mechanism: Mechanism
    reports: Reports

    def log_likelihood(self, objects: Sequence[int]) -> Floats:
        """(reports, objects) the stated one, up to a constant of the report; -inf for what is impossible."""
        with np.errstate(divide="ignore"):
            return np.log(likelihoods(self.mechanism, self.reports, objects))


class Family(Protocol):
    """Events of one kind."""

    def __len__(self) -> int: ...

    def holds(self, seen: Seen) -> Truths:
        """(reports, events) which of the events each report satisfies."""
        ...

    def only(self, event: int) -> Self:
        """The family with this event alone."""
        ...

    def words(self, event: int) -> str:
        """What the event is, to be read after "the event that"."""
        ...


@dataclass(frozen=True, kw_only=True)
class Likelier:
    """The stated law makes the report so many times likelier from one object than from another.

    objects : the tried ones; one, other : (events,) positions among them; cut : (events,) log of the ratio.
    """

    objects: tuple[int, ...]
    one: NDArray[np.int64]
    other: NDArray[np.int64]
    cut: Floats

    def __len__(self) -> int:
        return len(self.one)

    def holds(self, seen: Seen) -> Truths:
        log = seen.log_likelihood(self.objects)
        return difference(log[:, self.one], log[:, self.other]) >= self.cut - SLACK

    def only(self, event: int) -> Self:
        objects = self.objects[self.one[event]], self.objects[self.other[event]]
        cut = self.cut[event : event + 1]
        return replace(self, objects=objects, one=_integers([0]), other=_integers([1]), cut=cut)

    def words(self, event: int) -> str:
        one, other = self.objects[self.one[event]], self.objects[self.other[event]]
        if not np.isfinite(self.cut[event]):
            return f"the stated law lets object {one} cause the report and object {other} never"
        times = np.exp(min(float(self.cut[event]), 700.0))
        return f"the stated law makes the report {times:,.3g} times likelier from object {one} than from object {other}"


@dataclass(frozen=True, kw_only=True)
class Equals:
    """A column has one of the values."""

    column: str
    values: NDArray

    def __len__(self) -> int:
        return len(self.values)

    def holds(self, seen: Seen) -> Truths:
        return part_of(seen.reports, self.column)[:, None] == self.values

    def only(self, event: int) -> Self:
        return replace(self, values=self.values[event : event + 1])

    def words(self, event: int) -> str:
        return f"{self.column} is {self.values[event]}"


@dataclass(frozen=True, kw_only=True)
class Beyond:
    """A column is at or above a cut, or below it."""

    column: str
    cuts: NDArray
    above: Truths

    def __len__(self) -> int:
        return len(self.cuts)

    def holds(self, seen: Seen) -> Truths:
        return (part_of(seen.reports, self.column)[:, None] >= self.cuts) == self.above

    def only(self, event: int) -> Self:
        return replace(self, cuts=self.cuts[event : event + 1], above=self.above[event : event + 1])

    def words(self, event: int) -> str:
        return f"{self.column} is {'at least' if self.above[event] else 'below'} {self.cuts[event]:g}"


@dataclass(frozen=True, kw_only=True)
class Bits:
    """A bit has a value and, where `unset` is not negative, another bit is 0."""

    column: str
    bit: NDArray[np.int64]
    value: Truths
    unset: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.bit)

    def holds(self, seen: Seen) -> Truths:
        column = seen.reports[self.column]
        first = bits_at(column, self.bit) == self.value
        return first & ((self.unset < 0) | ~bits_at(column, np.maximum(self.unset, 0)))

    def only(self, event: int) -> Self:
        part = slice(event, event + 1)
        return replace(self, bit=self.bit[part], value=self.value[part], unset=self.unset[part])

    def words(self, event: int) -> str:
        first = f"bit {self.bit[event]} of {self.column} is {int(self.value[event])}"
        return first if self.unset[event] < 0 else f"{first} and bit {self.unset[event]} is 0"


@dataclass(frozen=True, kw_only=True)
class Among:
    """The whole report is one of some.

    prints : (reports,) fingerprints, rising; chosen : (events, reports) which of them each event holds;
    shown : (reports,) how each is written.
    """

    prints: NDArray[np.uint64]
    chosen: Truths
    shown: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.chosen)

    def holds(self, seen: Seen) -> Truths:
        found = fingerprints(seen.reports)
        place = np.minimum(np.searchsorted(self.prints, found), len(self.prints) - 1)
        return self.chosen[:, place].T & (self.prints[place] == found)[:, None]

    def only(self, event: int) -> Self:
        return replace(self, chosen=self.chosen[event : event + 1])

    def words(self, event: int) -> str:
        (members,) = np.nonzero(self.chosen[event])
        first = self.shown[members[0]]
        return f"the report is {first}" if len(members) == 1 else f"the report is one of {len(members)}, as {first}"


def learn(looks: Sequence[Seen], objects: Sequence[int], columns: Mapping[str, ReportColumn]) -> Iterator[Family]:
    """Families of events worth trying, from reports of each tried object."""
    pairs = np.array([(a, b) for a in range(len(objects)) for b in range(len(objects)) if a != b]).reshape(-1, 2)
    if states_law(looks[0].mechanism) and len(pairs):
        yield _likelier(looks, tuple(objects), pairs)
    for name in looks[0].reports:
        declared = columns.get(name)
        yield from _of_column(name, declared, [look.reports[name] for look in looks], pairs)
    yield from _whole(looks, pairs)


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
    return Likelier(objects=objects, one=_integers(one), other=_integers(other), cut=np.array(cut, dtype=np.float64))


def _of_column(
    name: str, declared: ReportColumn | None, looks: Sequence[NDArray], pairs: NDArray[np.int64]
) -> Iterator[Family]:
    """Events of one column: of its bits, of its parts where it is wide, of its values."""
    if looks[0].ndim == 2 and looks[0].dtype == np.uint8:
        yield from _bits(name, 8 * looks[0].shape[1] if declared is None else declared.size, looks, pairs)
    elif looks[0].ndim == 2:
        means = np.array([look.mean(axis=0) for look in looks])
        for part in np.argsort(np.ptp(means, axis=0))[::-1][:MOST_BITS]:
            yield from _values(f"{name}[{part}]", [look[:, part] for look in looks])
    elif looks[0].ndim == 1:
        yield from _values(name, looks)


def _values(name: str, looks: Sequence[NDArray]) -> Iterator[Family]:
    values = np.unique(np.concatenate(looks))
    if len(values) <= MOST_VALUES:
        yield Equals(column=name, values=values)
    elif np.issubdtype(values.dtype, np.number):
        pooled = np.sort(np.concatenate(looks))
        cuts = np.unique(pooled[np.linspace(0, len(pooled) - 1, CUTS + 2).astype(int)[1:-1]])
        both = np.repeat([True, False], len(cuts))
        yield Beyond(column=name, cuts=np.tile(cuts, 2), above=both)


def _bits(name: str, size: int, looks: Sequence[NDArray], pairs: NDArray[np.int64]) -> Iterator[Family]:
    rates = np.array([bit_rates(look, size) for look in looks])
    most = np.argsort(np.ptp(rates, axis=0))[::-1][:MOST_BITS]
    gaps = rates[pairs[:, 0]] - rates[pairs[:, 1]] if len(pairs) else np.empty((0, size))
    bit = [*most, *most, *gaps.argmax(axis=1)]
    unset = [*np.full(2 * len(most), -1), *gaps.argmin(axis=1)]
    value = np.ones(len(bit), dtype=bool)
    value[len(most) : 2 * len(most)] = False
    yield Bits(column=name, bit=_integers(bit), value=value, unset=_integers(unset))


def _whole(looks: Sequence[Seen], pairs: NDArray[np.int64]) -> Iterator[Family]:
    """Sets of whole reports, the most telling first, where the reports are few."""
    if len(np.unique(fingerprints(looks[0].reports))) > MOST_VALUES:
        return
    found = [fingerprints(look.reports) for look in looks]
    prints, first = np.unique(np.concatenate(found), return_index=True)
    if len(prints) > MOST_VALUES or not len(pairs):
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


def difference(one: Floats, other: Floats) -> Floats:
    """one - other of logarithms; 0 where both are impossible."""
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(one - other, nan=0.0, posinf=np.inf, neginf=-np.inf)


def part_of(reports: Reports, name: str) -> NDArray:
    """A column, or one part of a wide one: "values[3]"."""
    if name in reports:
        return reports[name]
    column, part = name[:-1].rsplit("[", 1)
    return reports[column][:, int(part)]


def bits_at(packed: NDArray[np.uint8], bits: NDArray[np.int64]) -> Truths:
    """(reports, bits) some bits of packed ones, least significant first."""
    return (packed[:, bits >> 3] >> (bits & 7).astype(np.uint8) & 1).astype(bool)


def bit_rates(packed: NDArray[np.uint8], size: int) -> Floats:
    """(size,) share of the reports in which each bit is set."""
    ones = np.zeros(size, dtype=np.int64)
    at_once = max(1, (1 << 24) // size)
    for start in range(0, len(packed), at_once):
        part = np.unpackbits(packed[start : start + at_once], axis=1, bitorder="little", count=size)
        ones += part.sum(axis=0, dtype=np.int64)
    return ones / max(1, len(packed))


def fingerprints(reports: Reports) -> NDArray[np.uint64]:
    """(reports,) 64 bits that are equal for equal reports, and by no accident for others."""
    out = np.zeros(report_count(reports), dtype=np.uint64)
    for column in reports.values():
        for word in _words(np.ascontiguousarray(column).reshape(len(out), -1)).T:
            out = (out ^ word) * np.uint64(0x9E3779B97F4A7C15)
            out ^= out >> np.uint64(29)
    return out


def _words(column: NDArray) -> NDArray[np.uint64]:
    """(reports, words) the column's content in 64-bit words."""
    if column.dtype == np.uint8:
        return np.pad(column, ((0, 0), (0, -column.shape[1] % 8))).view(np.uint64)
    if column.dtype.kind == "f":
        return column.astype(np.float64).view(np.uint64)
    return column.astype(np.int64).view(np.uint64)


def _written(value: NDArray | np.generic) -> str:
    return " ".join(map(str, np.atleast_1d(value)))


def _integers(values: Sequence[int]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)
