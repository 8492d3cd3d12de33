"""What can be read off a column of reports: its values, and how a floating-point number is built.

Noise that is added to a number in floating point leaves traces in the number's last bits: 1 + noise is a multiple of
2^-53 where noise alone is not, so the last bits may tell 0 from 1 however large the noise is.

References
----------
I. Mironov. On significance of the least significant bits for differential privacy. CCS 2012.

Events by which two objects could be told apart: families of them, learned from a first look at some reports.

An event is anything that a report may or may not satisfy; whatever is chosen here is tested on other reports, so a bad
choice costs power and never truth. Events come from the stated law (which objects a report favors) and, because the
law need not be what is sampled, from the columns themselves: values, thresholds, bits, whole reports.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arrays import Floats
from poolscope.mechanisms.protocols import Mechanism, Reports, report_count
from poolscope.workflows.check.distribution import likelihoods

#: What stands for the last bit of a number that has none: zero, infinity, not a number.
NO_BIT = 4096


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A number of each report: a column, or a part of a wide one, and what is read off it.

    kind : "value", the number itself; "grid", the largest power of two that it is a multiple of, as an exponent;
        "zeros", how many of its mantissa's last bits are 0.
    """

    column: str
    part: int | None = None
    kind: Literal["value", "grid", "zeros"] = "value"

    def __str__(self) -> str:
        return self.column if self.part is None else f"{self.column}[{self.part}]"

    def of(self, reports: Reports) -> NDArray[Any]:
        """(reports,) what is read."""
        column = reports[self.column]
        return self.read(column if self.part is None else column[:, self.part])

    def read(self, values: NDArray[Any]) -> NDArray[Any]:
        """(reports,) what is read, from the values of the column or part."""
        if self.kind == "value":
            return values
        exponent, zeros = last_bit(values)
        return exponent if self.kind == "grid" else zeros

    def words(self, cut: float, above: bool) -> str:
        """That what is read is at least the cut, or below it."""
        if self.kind == "grid":
            return f"{self} is {'a' if above else 'no'} multiple of 2^{cut:.0f}"
        if self.kind == "zeros":
            return f"the last {cut:.0f} bits of {self} are {'' if above else 'not '}all 0"
        return f"{self} is {'at least' if above else 'below'} {cut:g}"


@dataclass(frozen=True, kw_only=True)
class BitColumn:
    """A column of bits, packed into bytes (least significant first) or an entry each.

    one : the entry that stands for a set bit; None where bits are packed.
    """

    column: str
    size: int
    one: Any = None

    def at(self, column: NDArray[Any], bits: NDArray[np.int64]) -> NDArray[np.bool_]:
        """(reports, bits) whether some of the bits are set."""
        if self.one is not None:
            chosen: NDArray[np.bool_] = column[:, bits] == self.one
            return chosen
        return (column[:, bits >> 3] >> (bits & 7).astype(np.uint8) & 1).astype(bool)

    def matrix(self, column: NDArray[Any]) -> NDArray[np.uint8]:
        """(reports, size) the bits as numbers."""
        if self.one is not None:
            bits: NDArray[np.uint8] = (column == self.one).astype(np.uint8)
            return bits
        return np.unpackbits(column, axis=1, bitorder="little", count=self.size)

    def ones(self, column: NDArray[Any]) -> NDArray[np.int64]:
        """(reports,) how many bits are set."""
        set_bits = np.bitwise_count(column) if self.one is None else column == self.one
        count: NDArray[np.int64] = set_bits.sum(axis=1, dtype=np.int64)
        return count


def bit_column(name: str, looks: Sequence[NDArray[Any]], declared: int | None) -> BitColumn | None:
    """The column as bits, where it is one of bits: declared ones, bytes, or entries of which there are two kinds."""
    if looks[0].ndim != 2:
        return None
    if declared is not None:
        return BitColumn(column=name, size=declared)
    if looks[0].dtype == np.uint8 and any(np.any(look > 1) for look in looks):
        return BitColumn(column=name, size=8 * looks[0].shape[1])
    values = np.unique(np.concatenate([np.unique(look) for look in looks]))
    return BitColumn(column=name, size=looks[0].shape[1], one=values[1]) if len(values) == 2 else None


def last_bit(values: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Exponent of each number's last bit that is 1, and how many bits of its mantissa come after it."""
    numbers = np.asarray(values, dtype=np.float64)
    has = np.isfinite(numbers) & (numbers != 0)
    mantissa, exponent = np.frexp(np.where(has, numbers, 1.0))
    whole = np.abs(np.ldexp(mantissa, 53)).astype(np.int64)
    zeros = np.frexp((whole & -whole).astype(np.float64))[1].astype(np.int64) - 1
    return np.where(has, exponent - 53 + zeros, NO_BIT), np.where(has, zeros, NO_BIT)


def exactly(values: NDArray[Any]) -> NDArray[Any]:
    """Something that is equal for equal values alone: of floating-point numbers their bits, as -0.0 is not 0.0."""
    return np.asarray(values, dtype=np.float64).view(np.int64) if values.dtype.kind == "f" else values


Truths = NDArray[np.bool_]

#: What an object is called.
Name = Callable[[int], str]

#: Stands for any object, and for no bit.
ANY = NONE = -1

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


def numbered(object_number: int) -> str:
    """What an object is called that has no name."""
    return f"object {object_number}"


class Family(Protocol):
    """Events of one kind."""

    def __len__(self) -> int: ...

    def holds(self, seen: Seen) -> Truths:
        """(reports, events) which of the events each report satisfies."""
        ...

    def only(self, event: int) -> Self:
        """The family with this event alone."""
        ...

    def pairs(self) -> NDArray[np.int64]:
        """(events, 2) the numbers of the two objects that each event is about, the likelier first; ANY for any."""
        ...

    def words(self, event: int, name: Name = numbered) -> str:
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
        return replace(self, objects=objects, one=integers([0]), other=integers([1]), cut=cut)

    def pairs(self) -> NDArray[np.int64]:
        objects = np.array(self.objects)
        return np.column_stack([objects[self.one], objects[self.other]])

    def words(self, event: int, name: Name = numbered) -> str:
        one, other = name(self.objects[self.one[event]]), name(self.objects[self.other[event]])
        if not np.isfinite(self.cut[event]):
            return f"the stated law lets {one} cause the report and {other} never"
        times = np.exp(min(float(self.cut[event]), 700.0))
        return f"the stated law makes the report {times:,.3g} times likelier from {one} than from {other}"


@dataclass(frozen=True, kw_only=True)
class Equals:
    """A reading is one of the values; `objects` says that values are objects."""

    reading: Reading
    values: NDArray[Any]
    objects: bool = False

    def __len__(self) -> int:
        return len(self.values)

    def holds(self, seen: Seen) -> Truths:
        happened: Truths = exactly(self.reading.of(seen.reports))[:, None] == exactly(self.values)
        return happened

    def only(self, event: int) -> Self:
        return replace(self, values=self.values[event : event + 1])

    def pairs(self) -> NDArray[np.int64]:
        return about_any(len(self))

    def words(self, event: int, name: Name = numbered) -> str:
        value = self.values[event]
        return f"{self.reading} is {name(int(value)) if self.objects else value}"


@dataclass(frozen=True, kw_only=True)
class Beyond:
    """A reading is at or above a cut, or below it."""

    reading: Reading
    cuts: NDArray[Any]
    above: Truths

    def __len__(self) -> int:
        return len(self.cuts)

    def holds(self, seen: Seen) -> Truths:
        happened: Truths = (self.reading.of(seen.reports)[:, None] >= self.cuts) == self.above
        return happened

    def only(self, event: int) -> Self:
        return replace(self, cuts=self.cuts[event : event + 1], above=self.above[event : event + 1])

    def pairs(self) -> NDArray[np.int64]:
        return about_any(len(self))

    def words(self, event: int, name: Name = numbered) -> str:
        return self.reading.words(float(self.cuts[event]), bool(self.above[event]))


@dataclass(frozen=True, kw_only=True)
class Bits:
    """Some bits are set and others are not.

    ones, zeros : (events, most) which bits; NONE where there are fewer.
    """

    column: BitColumn
    ones: NDArray[np.int64]
    zeros: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ones)

    def holds(self, seen: Seen) -> Truths:
        column = seen.reports[self.column.column]
        happened = np.ones((len(column), len(self)), dtype=bool)
        for bits, wanted in ((self.ones, True), (self.zeros, False)):
            for chosen in bits.T:
                (there,) = np.nonzero(chosen != NONE)
                happened[:, there] &= self.column.at(column, chosen[there]) == wanted
        return happened

    def only(self, event: int) -> Self:
        part = slice(event, event + 1)
        return replace(self, ones=self.ones[part], zeros=self.zeros[part])

    def pairs(self) -> NDArray[np.int64]:
        return about_any(len(self))

    def words(self, event: int, name: Name = numbered) -> str:
        parts: list[str] = []
        for chosen, value in ((self.ones[event], 1), (self.zeros[event], 0)):
            bits = chosen[chosen != NONE]
            if len(bits):
                noun, verb = ("bit", "is") if len(bits) == 1 else ("bits", "are")
                of = "" if parts else f" of {self.column.column}"
                parts.append(f"{noun} {', '.join(map(str, bits))}{of} {verb} {value}")
        return " and ".join(parts)


@dataclass(frozen=True, kw_only=True)
class Among:
    """The whole report is one of some.

    prints : (reports,) fingerprints, rising; chosen : (events, reports) which of them each event holds;
    written : (reports,) how each is written.
    """

    prints: NDArray[np.uint64]
    chosen: Truths
    written: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.chosen)

    def holds(self, seen: Seen) -> Truths:
        found = fingerprints(seen.reports)
        place = np.minimum(np.searchsorted(self.prints, found), len(self.prints) - 1)
        happened: Truths = self.chosen[:, place].T & (self.prints[place] == found)[:, None]
        return happened

    def only(self, event: int) -> Self:
        return replace(self, chosen=self.chosen[event : event + 1])

    def pairs(self) -> NDArray[np.int64]:
        return about_any(len(self))

    def words(self, event: int, name: Name = numbered) -> str:
        (members,) = np.nonzero(self.chosen[event])
        first = self.written[members[0]]
        return f"the report is {first}" if len(members) == 1 else f"the report is one of {len(members)}, as {first}"


def difference(one: Floats, other: Floats) -> Floats:
    """one - other of logarithms; 0 where both are impossible."""
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(one - other, nan=0.0, posinf=np.inf, neginf=-np.inf)


def about_any(events: int) -> NDArray[np.int64]:
    """(events, 2) no objects in particular."""
    return np.full((events, 2), ANY, dtype=np.int64)


def fingerprints(reports: Reports) -> NDArray[np.uint64]:
    """(reports,) 64 bits that are equal for equal reports, and by no accident for others."""
    out = np.zeros(report_count(reports), dtype=np.uint64)
    for column in reports.values():
        for word in _words(np.ascontiguousarray(column).reshape(len(out), -1)).T:
            out = (out ^ word) * np.uint64(0x9E3779B97F4A7C15)
            out ^= out >> np.uint64(29)
    return out


def _words(column: NDArray[Any]) -> NDArray[np.uint64]:
    """(reports, words) the column's content in 64-bit words."""
    if column.dtype == np.uint8:
        return np.pad(column, ((0, 0), (0, -column.shape[1] % 8))).view(np.uint64)
    if column.dtype.kind == "f":
        return column.astype(np.float64).view(np.uint64)
    return column.astype(np.int64).view(np.uint64)


def integers(values: Sequence[int]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)
