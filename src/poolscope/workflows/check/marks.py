"""Marks that objects leave in reports, learned without a stated law: what joins columns, and values sent before.

A hash or a cohort decides where in a report an object shows. One column alone then tells nothing of it; which bit an
object sets *under each hash* is learned from a first look, and the event is that the report has the object's bit there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arrays import Floats
from poolscope.mechanisms.protocols import Reports, report_count
from poolscope.workflows.check.events import ANY, BitColumn, Name, Seen, Truths, fingerprints, integers, numbered

Signs = NDArray[np.int8]

#: What a report says of an object's mark: it is there, it is not, it could not be.
SHOWN, HIDDEN, UNKNOWN = 1, 0, -1

#: Distinct values of a column that a mark may be.
MAX_VALUES = 1024
#: Bits of reports that are unpacked at once.
CELLS_AT_ONCE = 1 << 22
#: Reports of the average under a key that a mark's rate is compared with, besides those of other objects.
PRIOR_REPORTS = 8.0
#: Shares of the keys, the clearest marks first, that are events of their own.
CLEAREST = (0.5, 0.125)


class Mark(Protocol):
    """Something that reports show of each of some objects."""

    def of(self, reports: Reports) -> Signs:
        """(reports, objects) SHOWN, HIDDEN or UNKNOWN."""
        ...

    def only(self, positions: Sequence[int]) -> Self:
        """The marks of these objects alone."""
        ...

    def words(self, name: str, sign: int) -> str: ...


@dataclass(frozen=True, kw_only=True)
class Marked:
    """The mark of one object is shown or hidden and, where `other` is not negative, that of another is hidden.

    objects : whose marks they are; one, other : (events,) positions among them; sign : (events,) SHOWN or HIDDEN.
    """

    mark: Mark
    objects: tuple[int, ...]
    one: NDArray[np.int64]
    other: NDArray[np.int64]
    sign: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.one)

    def holds(self, seen: Seen) -> Truths:
        marks = self.mark.of(seen.reports)
        happened: Truths = (marks[:, self.one] == self.sign) & ((self.other < 0) | (marks[:, self.other] == HIDDEN))
        return happened

    def only(self, event: int) -> Self:
        one, other = int(self.one[event]), int(self.other[event])
        kept = [one] if other < 0 else [one, other]
        return replace(
            self,
            mark=self.mark.only(kept),
            objects=tuple(self.objects[p] for p in kept),
            one=integers([0]),
            other=integers([len(kept) - 1 or -1]),
            sign=self.sign[event : event + 1],
        )

    def pairs(self) -> NDArray[np.int64]:
        objects = np.array(self.objects)
        one, other = objects[self.one], np.where(self.other < 0, ANY, objects[self.other])
        # what an object does not show is likelier from others
        hidden = (self.sign == HIDDEN)[:, None]
        return np.where(hidden, np.column_stack([other, one]), np.column_stack([one, other]))

    def words(self, event: int, name: Name = numbered) -> str:
        first = self.mark.words(name(self.objects[self.one[event]]), int(self.sign[event]))
        if self.other[event] < 0:
            return first
        return f"{first}, and {self.mark.words(name(self.objects[self.other[event]]), HIDDEN)}"


def marked(mark: Mark, objects: Sequence[int], singly: bool) -> Marked:
    """All events of a mark: of pairs and, where `singly`, of each object alone, shown or hidden."""
    count = len(objects)
    one, other = np.nonzero(~np.eye(count, dtype=bool))
    sign = np.full(len(one), SHOWN)
    if singly:
        alone = np.arange(count)
        one, other = np.concatenate([one, alone, alone]), np.concatenate([other, np.full(2 * count, -1)])
        sign = np.concatenate([sign, np.full(count, SHOWN), np.full(count, HIDDEN)])
    return Marked(mark=mark, objects=tuple(objects), one=one, other=other, sign=sign)


@dataclass(frozen=True, kw_only=True)
class Given:
    """The object sent the same in a first look.

    column : which of the report's columns is meant; None is all of it.
    prints : what each object sent, as rising fingerprints.
    """

    column: str | None
    prints: tuple[NDArray[np.uint64], ...]

    def of(self, reports: Reports) -> Signs:
        found = _prints(reports, self.column)
        signs = np.empty((len(found), len(self.prints)), dtype=np.int8)
        for position, known in enumerate(self.prints):
            signs[:, position] = np.where(known[_places(known, found)] == found, SHOWN, HIDDEN)
        return signs

    def only(self, positions: Sequence[int]) -> Self:
        return replace(self, prints=tuple(self.prints[p] for p in positions))

    def words(self, name: str, sign: int) -> str:
        what = "the report" if self.column is None else self.column
        return f"{what} is {'one' if sign == SHOWN else 'none'} that {name} sent in a first look"


def given(looks: Sequence[Reports], objects: Sequence[int], column: str | None) -> Iterator[Marked]:
    """Events of what was sent before, where anything is ever sent twice."""
    prints = tuple(np.unique(_prints(look, column)) for look in looks)
    if len(np.unique(np.concatenate(prints))) < sum(report_count(look) for look in looks):
        yield marked(Given(column=column, prints=prints), objects, singly=False)


@dataclass(frozen=True, kw_only=True)
class Target:
    """The column that a mark is in: bits, or one of some values."""

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
        """(reports, size) which of the bits are set, or which of the values it is."""
        if self.bits is not None:
            return self.bits.matrix(column)
        marks: NDArray[np.uint8] = (column[:, None] == self.values).astype(np.uint8)
        return marks

    def at(self, column: NDArray[Any], bit_index: NDArray[np.int64]) -> Truths:
        """(reports, objects) whether the bits at these places are set, or the value is that one."""
        if self.bits is None:
            assert self.values is not None
            held: Truths = column[:, None] == self.values[bit_index]
            return held
        if self.bits.one is not None:
            set_there: Truths = np.take_along_axis(column, bit_index, axis=1) == self.bits.one
            return set_there
        octets = np.take_along_axis(column, bit_index >> 3, axis=1)
        return (octets >> (bit_index & 7).astype(np.uint8) & 1).astype(bool)

    def words(self, name: str, sign: int, keys: str) -> str:
        under = f"under this {keys}"
        if self.bits is not None:
            return f"the bit of {self.column} that {name} sets most {under} is {sign}"
        return f"{self.column} is {'' if sign == SHOWN else 'not '}what {name} sends most {under}"


@dataclass(frozen=True, kw_only=True)
class Keyed:
    """The report has, in the target, what the object has there most often under the report's key.

    keys : the columns that the key is made of; prints : (keys,) the known ones, as rising fingerprints.
    event_index : (objects, keys) where in the target each object's mark is; -1 where that is not known.
    """

    keys: tuple[str, ...]
    target: Target
    prints: NDArray[np.uint64]
    bit_index: NDArray[np.int64]

    def of(self, reports: Reports) -> Signs:
        found = fingerprints({name: reports[name] for name in self.keys})
        at = _places(self.prints, found)
        bit_index = np.where((self.prints[at] == found)[:, None], self.bit_index[:, at].T, -1)
        shown = self.target.at(reports[self.target.column], np.maximum(bit_index, 0))
        return np.where(bit_index < 0, UNKNOWN, shown).astype(np.int8)

    def only(self, positions: Sequence[int]) -> Self:
        return replace(self, bit_index=self.bit_index[list(positions)])

    def words(self, name: str, sign: int) -> str:
        return self.target.words(name, sign, " and ".join(self.keys))


def keyed(looks: Sequence[Reports], objects: Sequence[int], keys: tuple[str, ...], target: Target) -> Iterator[Marked]:
    """Events of the marks that objects leave under each key: under all of them, and where they are clearest."""
    found = [fingerprints({name: look[name] for name in keys}) for look in looks]
    prints = np.unique(np.concatenate(found))
    bit_index, *clear = _marks(looks, [np.searchsorted(prints, f) for f in found], len(prints), target)
    for known in [clear[0] > 0, *(_most(values, share) for values in clear for share in CLEAREST)]:
        mark = Keyed(keys=keys, target=target, prints=prints, bit_index=np.where(known, bit_index, -1))
        yield marked(mark, objects, singly=True)


def _most(values: Floats, share: float) -> Truths:
    """(objects, keys) whether a value is among so large a share of its row's largest, and positive."""
    rank = np.argsort(np.argsort(-values, axis=1, kind="stable"), axis=1, kind="stable")
    top: Truths = (rank < share * values.shape[1]) & (values > 0)
    return top


def _marks(
    looks: Sequence[Reports], at: Sequence[NDArray[np.int64]], keys: int, target: Target
) -> tuple[NDArray[np.int64], Floats, Floats]:
    """(objects, keys) where each object's rate exceeds that of the others most, by how much, and how much more than at
    the next best place.
    """
    orders = [np.argsort(a, kind="stable") for a in at]
    ends = [np.searchsorted(a[order], np.arange(keys + 1)) for a, order in zip(at, orders, strict=True)]
    bit_index = np.zeros((len(looks), keys), dtype=np.int64)
    gaps, margins = np.zeros((2, len(looks), keys))
    reports = sum(map(len, at))
    step = max(1, int(CELLS_AT_ONCE * keys / (target.size * (reports + keys * len(looks)))))
    for start in range(0, keys, step):
        stop = min(start + step, keys)
        counts = np.zeros((len(looks), stop - start, target.size))
        trials = np.zeros((len(looks), stop - start))
        for p, look in enumerate(looks):
            rows = orders[p][ends[p][start] : ends[p][stop]]
            bits = target.matrix(look[target.column][rows])
            edges = ends[p][start : stop + 1] - ends[p][start]
            trials[p] = np.diff(edges)
            sums = np.concatenate([np.zeros((1, target.size)), np.cumsum(bits, axis=0, dtype=np.float64)])
            counts[p] = np.diff(sums[edges], axis=0)
        mean = counts.sum() / max(1.0, trials.sum()) / target.size
        others = (counts.sum(axis=0) - counts + PRIOR_REPORTS * mean) / (trials.sum(axis=0) - trials + PRIOR_REPORTS)[
            :, :, None
        ]
        rates = (counts + PRIOR_REPORTS * others) / (trials + PRIOR_REPORTS)[:, :, None]
        excess = rates - others
        second, best = np.moveaxis(np.partition(excess, target.size - 2, axis=2)[:, :, -2:], 2, 0)
        bit_index[:, start:stop] = excess.argmax(axis=2)
        gaps[:, start:stop], margins[:, start:stop] = best, best - second
    return bit_index, gaps, margins


def _prints(reports: Reports, column: str | None) -> NDArray[np.uint64]:
    return fingerprints(reports if column is None else {column: reports[column]})


def _places(known: NDArray[np.uint64], found: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Where each may be found among the known."""
    return np.minimum(np.searchsorted(known, found), len(known) - 1)
