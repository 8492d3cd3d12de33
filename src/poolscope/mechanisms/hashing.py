"""Families of hash functions from objects to buckets 0..m-1, and reports grouped by function.

A family maps all objects to buckets under each of its functions. Rows are computed on demand, so that 65,536 functions
on 250,000 objects need no table. Reports are grouped by function, so that each row is computed once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arrays import Integers, Keys
from poolscope.core.errors import InputError
from poolscope.core.randomness import children
from poolscope.kernels import grouping as grouping_kernels
from poolscope.kernels import hashing as kernels

PRIME = (1 << 31) - 1

#: Maximum number of buckets: computed functions are then uniform to a relative 2%, and to less with fewer buckets.
MAX_BUCKETS = 1 << 24

#: Comparisons (functions times pairs of objects) in the variance of collision rates of a given table.
MAX_COMPARISONS = 1 << 26

Buckets = NDArray[np.uint32]


class Collisions(NamedTuple):
    """The collision rate of two objects, as a share of the functions: mean and variance over pairs of objects."""

    share: float
    variance: float


class FunctionFamily(Protocol):
    """Functions 0..size-1 of objects 0..universe-1."""

    @property
    def size(self) -> int: ...

    @property
    def universe(self) -> int: ...

    def buckets(self, functions: NDArray[np.int64]) -> Buckets:
        """Return (functions, universe) the bucket of every object under each of these functions."""
        ...


class HashFamily(FunctionFamily, Protocol):
    """Functions to buckets 0..m-1."""

    @property
    def m(self) -> int: ...

    @property
    def collisions(self) -> Collisions:
        """Collision rate of two objects: over the draw of the functions, or over the pairs of a given table."""
        ...

    def bucket_of(self, functions: NDArray[np.int64], objects: NDArray[np.int64]) -> Buckets:
        """Return (functions,) the bucket of objects[i] under functions[i]."""
        ...


@dataclass(frozen=True, kw_only=True)
class PolynomialFamily:
    r"""Three-wise independent functions, computed on demand.

    .. math:: h(x) = \lfloor m \, ((a x^2 + b x + c) \bmod p) / 2^{31} \rfloor, \quad p = 2^{31} - 1

    with a, b, c uniform in 0..p-1. Proof: for distinct x1, x2, x3 in the field the map (a, b, c) -> (f(x1), f(x2),
    f(x3)) is linear with the Vandermonde matrix of x1, x2, x3, which is invertible; so as (a, b, c) runs over all p^3
    triples, the values run over all p^3 triples once: uniform, and independent three by three. Cutting the values
    into m intervals keeps the independence; each bucket gets p/m of the p values to within one or two, so it is
    uniform to a relative 2m/p (1e-6 for m = 1024). The tests go through a small field exhaustively.

    Coefficients derive from `seed`: the functions belong to the deployment, not to a run.
    """

    universe: int
    m: int
    size: int
    seed: int = 0

    def __post_init__(self) -> None:
        check_buckets(self.m)
        if self.size < 1:
            raise InputError("hashes must be at least 1", value=self.size)
        if not 1 <= self.universe < PRIME:
            raise InputError(f"a universe must have 1 to {PRIME - 1} objects", value=self.universe)

    @property
    def collisions(self) -> Collisions:
        """Two objects collide under each function with probability 1/m, independently."""
        share = 1.0 / self.m
        return Collisions(share, share * (1.0 - share) / self.size)

    def coefficients(self, functions: NDArray[np.int64]) -> NDArray[np.uint32]:
        """Return (functions, 3) coefficients in 0..p-1: 64 random bits modulo p, uniform to 2^-33."""
        keys = children(self.seed, 3 * functions[:, None] + np.arange(3))
        return (keys % np.uint64(PRIME)).astype(np.uint32)

    def buckets(self, functions: NDArray[np.int64]) -> Buckets:
        out, lanes = np.empty((len(functions), self.universe), np.uint32), np.empty((2, kernels.LANES), np.uint32)
        kernels.polynomial_buckets(self.coefficients(functions), self.m, lanes, out)
        return out

    def bucket_of(self, functions: NDArray[np.int64], objects: NDArray[np.int64]) -> Buckets:
        a, b, c = self.coefficients(functions).T.astype(np.uint64)
        x, p = objects.astype(np.uint64), np.uint64(PRIME)
        # all terms are below 2^63, so that nothing overflows
        value = (a * (x * x % p) + b * x + c) % p
        buckets: Buckets = (value * np.uint64(self.m) >> np.uint64(31)).astype(np.uint32)
        return buckets


@dataclass(frozen=True, kw_only=True, eq=False)
class TableFamily:
    """A deployment's own functions: an integer table (functions, objects) with values 0..m-1."""

    table: NDArray[np.integer]
    m: int

    def __post_init__(self) -> None:
        check_buckets(self.m)
        table = np.asarray(self.table)
        if table.ndim != 2 or 0 in table.shape:
            raise InputError("a hash table must have the shape (hashes, objects)", value=table.shape)
        if not np.issubdtype(table.dtype, np.integer):
            raise InputError("a hash table must hold integers", value=str(table.dtype))
        if table.min() < 0 or table.max() >= self.m:
            row, column = np.argwhere((table < 0) | (table >= self.m))[0]
            raise InputError(
                f"hash values must be 0..{self.m - 1} (m = {self.m})",
                place=f"row {row} column {column}",
                value=int(table[row, column]),
            )

    @property
    def size(self) -> int:
        return len(self.table)

    @property
    def universe(self) -> int:
        return int(self.table.shape[1])

    @cached_property
    def collisions(self) -> Collisions:
        """Exact mean over all pairs; variance over pairs of a sample of objects with all others."""
        size, universe = self.table.shape
        if universe < 2:
            return Collisions(0.0, 0.0)
        bucket_sizes = (np.bincount(row, minlength=self.m) for row in self.table)
        share = sum(int(np.sum(n * (n - 1))) for n in bucket_sizes) / (size * universe * (universe - 1))
        sample = np.linspace(0, universe - 1, min(universe, max(2, MAX_COMPARISONS // self.table.size))).astype(int)
        met = np.array([(self.table == self.table[:, z, None]).mean(axis=0) for z in sample])
        others = np.arange(universe) != sample[:, None]
        return Collisions(share, float(np.mean((met[others] - share) ** 2)))

    def buckets(self, functions: NDArray[np.int64]) -> Buckets:
        return np.ascontiguousarray(self.table[functions], dtype=np.uint32)

    def bucket_of(self, functions: NDArray[np.int64], objects: NDArray[np.int64]) -> Buckets:
        return self.table[functions, objects].astype(np.uint32)


@dataclass(frozen=True, kw_only=True)
class Bijection:
    """One function without collisions: the bucket of object z is z."""

    universe: int

    @property
    def m(self) -> int:
        return self.universe

    @property
    def size(self) -> int:
        return 1

    @property
    def collisions(self) -> Collisions:
        return Collisions(0.0, 0.0)

    def buckets(self, functions: NDArray[np.int64]) -> Buckets:
        return np.tile(np.arange(self.universe, dtype=np.uint32), (len(functions), 1))

    def bucket_of(self, functions: NDArray[np.int64], objects: NDArray[np.int64]) -> Buckets:
        return objects.astype(np.uint32)


@dataclass(frozen=True, kw_only=True)
class RestrictedFamily:
    """The functions of a family on some of its objects, in the given order."""

    family: HashFamily
    objects: NDArray[np.int64]

    @property
    def m(self) -> int:
        return self.family.m

    @property
    def size(self) -> int:
        return self.family.size

    @property
    def universe(self) -> int:
        return len(self.objects)

    @property
    def collisions(self) -> Collisions:
        return self.family.collisions

    def buckets(self, functions: NDArray[np.int64]) -> Buckets:
        function, known = np.repeat(functions, len(self.objects)), np.tile(self.objects, len(functions))
        return self.family.bucket_of(function, known).reshape(len(functions), len(self.objects))

    def bucket_of(self, functions: NDArray[np.int64], objects: NDArray[np.int64]) -> Buckets:
        return self.family.bucket_of(functions, self.objects[objects])


def check_buckets(m: int) -> None:
    """Check the number of buckets: at least 2, and few enough to be uniform."""
    if m < 2:
        raise InputError("m must be at least 2", value=m)
    if m > MAX_BUCKETS:
        raise InputError(f"m must be at most {MAX_BUCKETS}", value=m)


def family(
    *, universe: int, m: int, hashes: int | None, hash_table: NDArray[np.integer] | TableFamily | None, seed: int
) -> HashFamily:
    """Return the functions of a scenario: `hashes` computed ones, or those of a given table."""
    if hash_table is None:
        if hashes is None:
            raise InputError("is missing", place="hashes", remedy="or give a hash_table")
        return PolynomialFamily(universe=universe, m=m, size=hashes, seed=seed)
    given = hash_table.table if isinstance(hash_table, TableFamily) else hash_table
    if np.ndim(given) != 2:
        raise InputError("a hash table must have the shape (hashes, objects)", value=np.shape(given))
    if hashes is not None and hashes != len(given):
        raise InputError(f"must be the {len(given)} rows of the hash table", value=hashes, place="hashes")
    known = hash_table if isinstance(hash_table, TableFamily) and hash_table.m == m else None
    table = known or TableFamily(table=given, m=m)
    if table.universe != universe:
        raise InputError(
            f"must have a column for each of {universe} objects",
            value=table.table.shape,
            place="hash_table",
        )
    return table


#: Buckets in one chunk of functions: functions times objects.
BUCKETS_PER_CHUNK = 1 << 20


def choose_functions(family: FunctionFamily, keys: Keys) -> Integers:
    """Draw the hash function of each report uniformly, from the first random word of its key."""
    out = np.empty(len(keys), dtype=np.int64)
    grouping_kernels.choose_functions(keys, family.size, out)
    return out


def check_range(column: str, values: NDArray[np.integer], size: int) -> None:
    """Check that values are in 0..size-1, as kernels use them as unchecked indices."""
    if len(values) and (values.min() < 0 or values.max() >= size):
        bad = values[(values < 0) | (values >= size)][0]
        raise InputError(f"{column} must be 0..{size - 1}", value=int(bad))


def sort_by_function(function: NDArray[np.integer], size: int, column: str) -> tuple[Integers, Integers]:
    """Return starts (size + 1,) and order (reports,): reports of function f are order[starts[f]:starts[f + 1]]."""
    check_range(column, function, size)
    starts, order = np.empty(size + 1, dtype=np.int64), np.empty(len(function), dtype=np.int64)
    grouping_kernels.group(np.asarray(function, dtype=np.int64), starts, order)
    return starts, order


def by_function(
    family: FunctionFamily, function: NDArray[np.integer], column: str
) -> Iterator[tuple[Buckets, Integers, Integers]]:
    """Group reports by their hash functions, in chunks of functions.

    `function` (reports,) is the report column of this name.

    Yields buckets (functions, universe), starts (functions + 1,) and order (reports,): the reports of function f of the
    chunk are order[starts[f]:starts[f + 1]].
    """
    starts, order = sort_by_function(function, family.size, column)
    used = np.flatnonzero(np.diff(starts))
    at_once = max(1, BUCKETS_PER_CHUNK // family.universe)
    for begin in range(0, len(used), at_once):
        chunk = used[begin : begin + at_once]
        # the functions in between have no reports, so a chunk's reports are contiguous
        yield family.buckets(chunk), np.append(starts[chunk], starts[chunk[-1] + 1]), order
