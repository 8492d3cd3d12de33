r"""A digest of a whole file in bounded memory: its users, how many reports each sent, and what was delivered twice.

Users are sampled by the hash of their names: where they are too many, those with the smaller half of the hashes are
kept, again and again (Wegman's adaptive sampling). All rows of a sampled user are seen, and the sample does not depend
on how the file is split.

**Identical users.** Let c bound the probability that two reports of different users are equal. Two users whose reports
are equal one by one, with d distinct ones among them, have that in common with probability at most :math:`c^d`: d
distinct reports are d independent responses, memoized or not. Users with enough distinct reports that a false alarm is
unlikely in all pairs together are compared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arrays import Integers, Keys
from poolscope.mechanisms.protocols import Reports
from poolscope.reports.repeats import EqualReports, grouped, hashed

#: Bits for the number of a row within its chunk.
CHUNK_BITS = 40


class Limits(NamedTuple):
    """Users whose reports are counted, and rows that are compared, at most."""

    users: int
    rows: int

    @classmethod
    def within(cls, max_bytes: int) -> Limits:
        """Return the limits of an inspection that may hold `max_bytes` bytes."""
        return cls(max(SMALL.users, max_bytes >> 8), max(SMALL.rows, max_bytes >> 12))


#: The limits of an attack, whose results do not depend on the memory that it may hold.
SMALL = Limits(1 << 15, 1 << 14)


@dataclass(frozen=True, kw_only=True, eq=False)
class UserSample:
    """Users with their numbers of reports: those whose hash has its first `halvings` bits 0."""

    halvings: int = 0
    hashes: Keys = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    counts: Integers = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def plus(self, other: UserSample, limit: int) -> UserSample:
        """Return both together, with at most `limit` users."""
        hashes, which = np.unique(np.concatenate([self.hashes, other.hashes]), return_inverse=True)
        sums = np.bincount(which, weights=np.concatenate([self.counts, other.counts]), minlength=len(hashes))
        halvings = max(self.halvings, other.halvings)
        return UserSample(halvings=halvings, hashes=hashes, counts=sums.astype(np.int64)).bounded(limit)

    def bounded(self, limit: int) -> UserSample:
        """Return the sample with at most `limit` users."""
        halvings = _halvings(self.hashes, self.halvings, limit)
        kept = _within(self.hashes, halvings)
        return UserSample(halvings=halvings, hashes=self.hashes[kept], counts=self.counts[kept])


@dataclass(frozen=True, kw_only=True, eq=False)
class RowSample:
    """All rows of some users: the hash of the user, the hash of the report, and a number that orders the rows."""

    halvings: int = 0
    order: Integers = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    users: Keys = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    reports: Keys = field(default_factory=lambda: np.empty(0, dtype=np.uint64))

    def plus(self, other: RowSample, limit: int) -> RowSample:
        """Return both together, with at most `limit` rows."""
        users = np.concatenate([self.users, other.users])
        halvings = _halvings(users, max(self.halvings, other.halvings), limit)
        kept = _within(users, halvings)
        order, reports = (
            np.concatenate([getattr(self, name), getattr(other, name)])[kept] for name in ("order", "reports")
        )
        return RowSample(halvings=halvings, order=order, users=users[kept], reports=reports)

    def in_order(self) -> tuple[Keys, Keys]:
        """Return users and reports in the order of the file."""
        order = np.argsort(self.order, kind="stable")
        return self.users[order], self.reports[order]


@dataclass(frozen=True, kw_only=True, eq=False)
class FileDigest:
    """The digest of some chunks of a file; digests are added in any order.

    Parameters
    ----------
    rows : how many there are; users, sample : see `UserSample` and `RowSample`.
    """

    limits: Limits = SMALL
    rows: int = 0
    users: UserSample = field(default_factory=UserSample)
    sample: RowSample = field(default_factory=RowSample)

    @classmethod
    def of(cls, hashes: Keys, reports: Reports, chunk: int = 0, limits: Limits = SMALL) -> FileDigest:
        """Return the digest of a chunk: (rows,) hashes of the users' names, the reports, and the chunk's number."""
        names, counts = np.unique(hashes, return_counts=True)
        halvings = _halvings(hashes, 0, limits.rows)
        kept = _within(hashes, halvings)
        order = (chunk << CHUNK_BITS) + np.flatnonzero(kept)
        some = reports if kept.all() else {name: column[kept] for name, column in reports.items()}
        return cls(
            limits=limits,
            rows=len(hashes),
            users=UserSample(hashes=names, counts=counts).bounded(limits.users),
            sample=RowSample(halvings=halvings, order=order, users=hashes[kept], reports=hashed(some)),
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the digest as arrays."""
        users, sample = self.users, self.sample
        return {
            "numbers": np.array([*self.limits, self.rows, users.halvings, sample.halvings]),
            "user_hashes": users.hashes,
            "user_counts": users.counts,
            "row_order": sample.order,
            "row_users": sample.users,
            "row_reports": sample.reports,
        }

    @classmethod
    def from_arrays(cls, found: Mapping[str, NDArray[Any]]) -> FileDigest:
        """Return the digest that `arrays` describes."""
        *limits, rows, users, sample = found["numbers"].tolist()
        return cls(
            limits=Limits(*limits),
            rows=rows,
            users=UserSample(halvings=users, hashes=found["user_hashes"], counts=found["user_counts"]),
            sample=RowSample(
                halvings=sample, order=found["row_order"], users=found["row_users"], reports=found["row_reports"]
            ),
        )

    def __add__(self, other: FileDigest) -> FileDigest:
        # an empty digest has no limits of its own
        limits = other.limits if not self.rows else self.limits
        return FileDigest(
            limits=limits,
            rows=self.rows + other.rows,
            users=self.users.plus(other.users, limits.users),
            sample=self.sample.plus(other.sample, limits.rows),
        )

    @property
    def n_users(self) -> int:
        """The number of users; an estimate where `is_sampled`."""
        return len(self.users.hashes) << self.users.halvings

    @property
    def is_sampled(self) -> bool:
        """Whether users are more than can be counted, so that their number is an estimate."""
        return self.users.halvings > 0

    @property
    def compares_all(self) -> bool:
        """Whether all rows are compared with each other, rather than those of a sample of users."""
        return self.sample.halvings == 0

    def equal_reports(self) -> EqualReports:
        """Return the equal reports of each user of the sample."""
        users, reports = self.sample.in_order()
        numbers: Integers = np.unique(users, return_inverse=True)[1]
        return grouped(numbers, reports)

    def identical_users(self, equal_pair_bound: float, false_alarm_rate: float) -> int:
        """Return how many users of the sample have exactly the reports of another one, beyond coincidence."""
        if not len(self.sample.users) or equal_pair_bound >= 1:
            return 0
        users, reports = self.sample.in_order()
        order = np.argsort(users, kind="stable")
        users, reports = users[order], reports[order]
        starts = np.flatnonzero(np.concatenate([[True], users[1:] != users[:-1]]))
        lengths = np.diff(np.append(starts, len(users)))
        owners = np.repeat(np.arange(len(starts)), lengths)
        pairs = np.unique(np.stack([owners.astype(np.uint64), reports]), axis=1)[0]
        distinct = np.bincount(pairs.astype(np.int64), minlength=len(starts))
        needed = math.log(max(1, math.comb(len(starts), 2)) / false_alarm_rate) / -math.log(equal_pair_bound)
        # position and report together, summed: equal for equal sequences
        position = np.arange(len(users)) - np.repeat(starts, lengths)
        mixed = (reports ^ (reports >> np.uint64(29))) * (2 * position.astype(np.uint64) + np.uint64(1))
        mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
        signatures = np.add.reduceat(mixed, starts)[distinct >= needed]
        _, counts = np.unique(signatures, return_counts=True)
        return int(counts[counts > 1].sum())


def _within(hashes: Keys, halvings: int) -> NDArray[np.bool_]:
    """Return which hashes have their first bits 0."""
    return np.ones(len(hashes), dtype=bool) if not halvings else hashes >> np.uint64(64 - halvings) == 0


def _halvings(hashes: Keys, least: int, limit: int) -> int:
    """Return how many first bits must be 0 such that at most `limit` hashes are left."""
    halvings = least
    while np.count_nonzero(_within(hashes, halvings)) > limit:
        # all rows of one user stay together
        if halvings == 63:
            break
        halvings += 1
    return halvings
