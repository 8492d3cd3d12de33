"""Families of events that may distinguish two objects.

An event is any property that a report has or lacks. Whatever is chosen is tested on other reports, so that a bad choice
costs power and never validity. Events come from the stated likelihoods (which object a report favors). Because the
stated distribution need not be the sampled one, they also come from the columns: values, thresholds, bits, whole
reports.

A *signature* is what reports show of one object. A hash or a cohort decides which entry of a report depends on the
object, so that one column alone shows nothing. The entry that an object sets most often *under each hash* is learned
from a first sample, and the event is that the report has the object's entry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arrays import Floats
from poolscope.mechanisms.protocols import Reports
from poolscope.workflows.check.distribution import (
    ReportSample,
)
from poolscope.workflows.check.sampling import (
    BitColumn,
    ColumnFeature,
    bit_identical,
    fingerprints,
)

Mask = NDArray[np.bool_]

#: Returns the label of an object.
ObjectName = Callable[[int], str]

#: Placeholders for any object and for no bit.
ANY = NONE = -1
#: Rounding of a likelihood ratio.
SLACK = 1e-9


def object_label(object_number: int) -> str:
    """Return the label of an object without a name."""
    return f"object {object_number}"


class EventFamily(Protocol):
    """Events of one kind."""

    def __len__(self) -> int: ...

    def holds(self, seen: ReportSample) -> Mask:
        """Return the events that each report satisfies, (reports, events)."""
        ...

    def only(self, event: int) -> Self:
        """Return the family with this event alone."""
        ...

    def pairs(self) -> NDArray[np.int64]:
        """Return the two objects that each event is about, (events, 2), the likelier first; ANY for any object."""
        ...

    def describe(self, event: int, name: ObjectName = object_label) -> str:
        """Describe the event, as a clause that follows "the event that"."""
        ...


@dataclass(frozen=True, kw_only=True)
class LikelihoodRatioEvents:
    """The stated likelihood of the report is a given number of times larger from one object than from another.

    objects : the tested ones; one, other : (events,) positions among them; cut : (events,) log of the ratio.
    """

    objects: tuple[int, ...]
    one: NDArray[np.int64]
    other: NDArray[np.int64]
    cut: Floats

    def __len__(self) -> int:
        return len(self.one)

    def holds(self, seen: ReportSample) -> Mask:
        log = seen.log_likelihood(self.objects)
        return difference(log[:, self.one], log[:, self.other]) >= self.cut - SLACK

    def only(self, event: int) -> Self:
        objects = self.objects[self.one[event]], self.objects[self.other[event]]
        cut = self.cut[event : event + 1]
        return replace(self, objects=objects, one=integers([0]), other=integers([1]), cut=cut)

    def pairs(self) -> NDArray[np.int64]:
        objects = np.array(self.objects)
        return np.column_stack([objects[self.one], objects[self.other]])

    def describe(self, event: int, name: ObjectName = object_label) -> str:
        one, other = name(self.objects[self.one[event]]), name(self.objects[self.other[event]])
        if not np.isfinite(self.cut[event]):
            return f"by the stated distribution, {one} can cause the report and {other} cannot"
        times = np.exp(min(float(self.cut[event]), 700.0))
        return f"the stated distribution makes the report {times:,.3g} times likelier from {one} than from {other}"


@dataclass(frozen=True, kw_only=True)
class ValueEvents:
    """A column feature equals one of the values; `objects` says that values are objects."""

    feature: ColumnFeature
    values: NDArray[Any]
    objects: bool = False

    def __len__(self) -> int:
        return len(self.values)

    def holds(self, seen: ReportSample) -> Mask:
        satisfied: Mask = bit_identical(self.feature.of(seen.reports))[:, None] == bit_identical(self.values)
        return satisfied

    def only(self, event: int) -> Self:
        return replace(self, values=self.values[event : event + 1])

    def pairs(self) -> NDArray[np.int64]:
        return any_pair(len(self))

    def describe(self, event: int, name: ObjectName = object_label) -> str:
        value = self.values[event]
        return f"{self.feature} is {name(int(value)) if self.objects else value}"


@dataclass(frozen=True, kw_only=True)
class ThresholdEvents:
    """A column feature is at or above a threshold, or below it."""

    feature: ColumnFeature
    cuts: NDArray[Any]
    above: Mask

    def __len__(self) -> int:
        return len(self.cuts)

    def holds(self, seen: ReportSample) -> Mask:
        satisfied: Mask = (self.feature.of(seen.reports)[:, None] >= self.cuts) == self.above
        return satisfied

    def only(self, event: int) -> Self:
        return replace(self, cuts=self.cuts[event : event + 1], above=self.above[event : event + 1])

    def pairs(self) -> NDArray[np.int64]:
        return any_pair(len(self))

    def describe(self, event: int, name: ObjectName = object_label) -> str:
        return self.feature.describe(float(self.cuts[event]), bool(self.above[event]))


@dataclass(frozen=True, kw_only=True)
class BitEvents:
    """Some bits are set and others are not.

    ones, zeros : (events, bits) which bits; NONE pads rows with fewer bits.
    """

    column: BitColumn
    ones: NDArray[np.int64]
    zeros: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ones)

    def holds(self, seen: ReportSample) -> Mask:
        column = seen.reports[self.column.column]
        satisfied = np.ones((len(column), len(self)), dtype=bool)
        for bits, wanted in ((self.ones, True), (self.zeros, False)):
            for chosen in bits.T:
                (there,) = np.nonzero(chosen != NONE)
                satisfied[:, there] &= self.column.at(column, chosen[there]) == wanted
        return satisfied

    def only(self, event: int) -> Self:
        part = slice(event, event + 1)
        return replace(self, ones=self.ones[part], zeros=self.zeros[part])

    def pairs(self) -> NDArray[np.int64]:
        return any_pair(len(self))

    def describe(self, event: int, name: ObjectName = object_label) -> str:
        parts: list[str] = []
        for chosen, value in ((self.ones[event], 1), (self.zeros[event], 0)):
            bits = chosen[chosen != NONE]
            if len(bits):
                noun, verb = ("bit", "is") if len(bits) == 1 else ("bits", "are")
                of = "" if parts else f" of {self.column.column}"
                parts.append(f"{noun} {', '.join(map(str, bits))}{of} {verb} {value}")
        return " and ".join(parts)


@dataclass(frozen=True, kw_only=True)
class ReportSetEvents:
    """The whole report belongs to a set of reports.

    prints : (reports,) fingerprints, increasing; chosen : (events, reports) the members of each set;
    written : (reports,) how each is written.
    """

    prints: NDArray[np.uint64]
    chosen: Mask
    written: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.chosen)

    def holds(self, seen: ReportSample) -> Mask:
        found = fingerprints(seen.reports)
        position = np.minimum(np.searchsorted(self.prints, found), len(self.prints) - 1)
        satisfied: Mask = self.chosen[:, position].T & (self.prints[position] == found)[:, None]
        return satisfied

    def only(self, event: int) -> Self:
        return replace(self, chosen=self.chosen[event : event + 1])

    def pairs(self) -> NDArray[np.int64]:
        return any_pair(len(self))

    def describe(self, event: int, name: ObjectName = object_label) -> str:
        (members,) = np.nonzero(self.chosen[event])
        first = self.written[members[0]]
        return f"the report is {first}" if len(members) == 1 else f"the report is one of {len(members)}, as {first}"


SignatureStates = NDArray[np.int8]

#: States of a signature in a report; unknown where the key of the report was never seen.
PRESENT, ABSENT, UNKNOWN = 1, 0, -1


class ObjectIndicator(Protocol):
    """What reports show of each of some objects."""

    def of(self, reports: Reports) -> SignatureStates:
        """Return PRESENT, ABSENT or UNKNOWN for each report and object, (reports, objects)."""
        ...

    def only(self, positions: Sequence[int]) -> Self:
        """Return the signatures of these objects alone."""
        ...

    def describe(self, name: str, sign: int) -> str: ...


@dataclass(frozen=True, kw_only=True)
class SignatureEvents:
    """The signature of one object is present or absent and, where `other` is not negative, that of another is absent.

    objects : whose signatures; one, other : (events,) positions among them; sign : (events,) PRESENT or ABSENT.
    """

    signature: ObjectIndicator
    objects: tuple[int, ...]
    one: NDArray[np.int64]
    other: NDArray[np.int64]
    sign: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.one)

    def holds(self, seen: ReportSample) -> Mask:
        states = self.signature.of(seen.reports)
        satisfied: Mask = (states[:, self.one] == self.sign) & ((self.other < 0) | (states[:, self.other] == ABSENT))
        return satisfied

    def only(self, event: int) -> Self:
        one, other = int(self.one[event]), int(self.other[event])
        positions = [one] if other < 0 else [one, other]
        return replace(
            self,
            signature=self.signature.only(positions),
            objects=tuple(self.objects[p] for p in positions),
            one=integers([0]),
            other=integers([len(positions) - 1 or -1]),
            sign=self.sign[event : event + 1],
        )

    def pairs(self) -> NDArray[np.int64]:
        objects = np.array(self.objects)
        one, other = objects[self.one], np.where(self.other < 0, ANY, objects[self.other])
        # an absent signature is likelier from other objects
        hidden = (self.sign == ABSENT)[:, None]
        return np.where(hidden, np.column_stack([other, one]), np.column_stack([one, other]))

    def describe(self, event: int, name: ObjectName = object_label) -> str:
        first = self.signature.describe(name(self.objects[self.one[event]]), int(self.sign[event]))
        if self.other[event] < 0:
            return first
        return f"{first}, and {self.signature.describe(name(self.objects[self.other[event]]), ABSENT)}"


def signature_events(signature: ObjectIndicator, objects: Sequence[int], with_single_objects: bool) -> SignatureEvents:
    """Return the events of all pairs and, where `with_single_objects`, of each object alone, present or absent."""
    count = len(objects)
    one, other = np.nonzero(~np.eye(count, dtype=bool))
    sign = np.full(len(one), PRESENT)
    if with_single_objects:
        alone = np.arange(count)
        one, other = np.concatenate([one, alone, alone]), np.concatenate([other, np.full(2 * count, -1)])
        sign = np.concatenate([sign, np.full(count, PRESENT), np.full(count, ABSENT)])
    return SignatureEvents(signature=signature, objects=tuple(objects), one=one, other=other, sign=sign)


@dataclass(frozen=True, kw_only=True)
class SentBefore:
    """The object sent the same report in the first sample.

    column : the column that is compared; None is the whole report.
    prints : what each object sent, as increasing fingerprints.
    """

    column: str | None
    prints: tuple[NDArray[np.uint64], ...]

    def of(self, reports: Reports) -> SignatureStates:
        found = _fingerprints_of(reports, self.column)
        signs = np.empty((len(found), len(self.prints)), dtype=np.int8)
        for position, known in enumerate(self.prints):
            signs[:, position] = np.where(known[_nearest_known(known, found)] == found, PRESENT, ABSENT)
        return signs

    def only(self, positions: Sequence[int]) -> Self:
        return replace(self, prints=tuple(self.prints[p] for p in positions))

    def describe(self, name: str, sign: int) -> str:
        what = "the report" if self.column is None else self.column
        return f"{what} is {'one' if sign == PRESENT else 'none'} that {name} sent in the first sample"


@dataclass(frozen=True, kw_only=True)
class SignatureColumn:
    """The column that holds a signature: bits, or one of a few values."""

    column: str
    bits: BitColumn | None = None
    values: NDArray[Any] | None = None

    @property
    def size(self) -> int:
        if self.bits is not None:
            return self.bits.size
        assert self.values is not None
        return len(self.values)

    def matrix(self, column: NDArray[Any]) -> NDArray[np.uint8]:
        """Return which bits are set, or which value it is, (reports, size)."""
        if self.bits is not None:
            return self.bits.matrix(column)
        entries: NDArray[np.uint8] = (column[:, None] == self.values).astype(np.uint8)
        return entries

    def at(self, column: NDArray[Any], bit_index: NDArray[np.int64]) -> Mask:
        """Return whether the entries at these indices are set, (reports, objects)."""
        if self.bits is None:
            assert self.values is not None
            held: Mask = column[:, None] == self.values[bit_index]
            return held
        if self.bits.one is not None:
            set_there: Mask = np.take_along_axis(column, bit_index, axis=1) == self.bits.one
            return set_there
        octets = np.take_along_axis(column, bit_index >> 3, axis=1)
        return (octets >> (bit_index & 7).astype(np.uint8) & 1).astype(bool)

    def describe(self, name: str, sign: int, keys: str) -> str:
        under = f"under this {keys}"
        if self.bits is not None:
            return f"the bit of {self.column} that {name} sets most often {under} is {sign}"
        return f"{self.column} is {'' if sign == PRESENT else 'not '}what {name} sends most often {under}"


@dataclass(frozen=True, kw_only=True)
class KeyedSignature:
    """The report has the entry that the object has most often under the report's key.

    keys : the columns that make the key; prints : (keys,) the known keys, as increasing fingerprints.
    bit_index : (objects, keys) the entry of each object; -1 where it is unknown.
    """

    keys: tuple[str, ...]
    target: SignatureColumn
    prints: NDArray[np.uint64]
    bit_index: NDArray[np.int64]

    def of(self, reports: Reports) -> SignatureStates:
        found = fingerprints({name: reports[name] for name in self.keys})
        at = _nearest_known(self.prints, found)
        bit_index = np.where((self.prints[at] == found)[:, None], self.bit_index[:, at].T, -1)
        shown = self.target.at(reports[self.target.column], np.maximum(bit_index, 0))
        return np.where(bit_index < 0, UNKNOWN, shown).astype(np.int8)

    def only(self, positions: Sequence[int]) -> Self:
        return replace(self, bit_index=self.bit_index[list(positions)])

    def describe(self, name: str, sign: int) -> str:
        return self.target.describe(name, sign, " and ".join(self.keys))


def _fingerprints_of(reports: Reports, column: str | None) -> NDArray[np.uint64]:
    return fingerprints(reports if column is None else {column: reports[column]})


def _nearest_known(known: NDArray[np.uint64], found: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the position in `known` at which each value would be."""
    return np.minimum(np.searchsorted(known, found), len(known) - 1)


def difference(one: Floats, other: Floats) -> Floats:
    """Return one - other for logarithms; 0 where both are impossible."""
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(one - other, nan=0.0, posinf=np.inf, neginf=-np.inf)


def any_pair(events: int) -> NDArray[np.int64]:
    """Return pairs for events that are about no particular object, (events, 2)."""
    return np.full((events, 2), ANY, dtype=np.int64)


def integers(values: Sequence[int]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)
