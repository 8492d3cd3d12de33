"""Sketches: mechanisms whose reports name a public hash function.

Reports are grouped by function. A table has a row per bucket or object with the pool weights of all views: masses, and
counts packed into the bits of one word. The curator's sketch is drawn from its closed form, so that the cost of 10^9
reports is that of the cells of the sketch. Given the number of reports in each (function, bucket), the set bits of a
cell are Binomial(hits, 1 - xi) + Binomial(rest, xi), independently. This is exact.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import special

from poolscope.core.arrays import Floats, Integers, Keys, Map
from poolscope.core.randomness import children, generator
from poolscope.kernels import cms as kernels
from poolscope.kernels.grouping import ColumnLayout, MassRows, empty_rows
from poolscope.kernels.random import binomial_alias_tables, build_alias_table
from poolscope.mechanisms import hashing
from poolscope.mechanisms.hashing import (
    Buckets,
    FunctionFamily,
    HashFamily,
    RestrictedFamily,
    TableFamily,
    by_function,
    choose_functions,
)
from poolscope.mechanisms.protocols import PoolWeights, ReportColumn, SupportProbabilities, check_epsilon, set_frozen
from poolscope.mechanisms.pure import MechanismDefaults, Pure


class CellMoments(NamedTuple):
    r"""First and second moments of what a report adds to the cells (function, bucket) of a sketch.

    Given its function, a report adds `mean_other` to a cell in expectation, and `mean_gain` more where the reported
    object y has the cell. Let t(z) be the sum over the cells of z, minus `mean_other` for each. With J the number of
    common cells,

    .. math:: \mathrm E[t(z)] &= \text{mean\_gain} \, J(z, y) \\
              \mathrm E[t(z) t(w)] &= \text{variance} \, J(z, w) + \text{var\_gain} \, J(z, w, y)
                                     + \text{joint\_gain} \, J(z, y) J(w, y)
    """

    mean_other: float
    mean_gain: float
    variance: float
    var_gain: float
    joint_gain: float


@dataclass(frozen=True, kw_only=True)
class HashedMechanism(MechanismDefaults):
    """A mechanism whose reports name a public hash function, drawn uniformly from `family`.

    Parameters
    ----------
    m : number of buckets.
    hashes : number of functions.
    hash_table : the functions of a deployment, integers 0..m-1 (functions, universe); stored as a `TableFamily`.
        Default: three-wise independent functions, computed on demand.
    seed : seed of the computed functions.
    """

    universe: int
    epsilon: float
    m: int
    hashes: int | None = None
    hash_table: NDArray[np.integer] | TableFamily | None = field(default=None, repr=False, compare=False)
    seed: int = 0
    family: FunctionFamily = field(init=False, repr=False)

    shared_column = "hash"

    def __post_init__(self) -> None:
        set_frozen(self, family=self.make_family())

    def make_family(self) -> FunctionFamily:
        """Return the functions by which reports are grouped."""
        return self.functions(self.hashes)

    def functions(self, count: int | None) -> HashFamily:
        """Return `count` computed functions, or those of the table."""
        found = hashing.family(
            universe=self.universe, m=self.m, hashes=count, hash_table=self.hash_table, seed=self.seed
        )
        if self.hash_table is not None:
            # checked once: `with_epsilon` passes the checked table on
            set_frozen(self, hash_table=found)
        return found

    @property
    def shared(self) -> ReportColumn:
        """Description of the shared column."""
        return ReportColumn("integer", self.family.size)

    def shared_by(self, keys: Keys) -> Integers:
        return choose_functions(self.family, keys)

    def grouped(self, function: NDArray[np.integer]) -> Iterator[tuple[Buckets, Integers, Integers]]:
        """Group reports by their functions (`by_function`)."""
        return by_function(self.family, function, self.shared_column)

    def positions(self, functions: NDArray[np.int64]) -> Buckets:
        """Return (functions, cells, universe) the buckets of every object under each function; m for none."""
        found = self.family.buckets(functions)
        return found.reshape(len(functions), -1, self.universe)


@dataclass(frozen=True, kw_only=True)
class Sketch(HashedMechanism, Pure):
    r"""A pure mechanism on the bucket of the object; a bit is flipped with probability xi.

    .. math:: p^* = 1 - \xi, \qquad q^* = p^* s + e (1 - s)

    where s is the collision rate of two objects (1/m, or that of a given table), and e the probability that a report
    supports an object of another bucket (`support_prob_no_collision`). A subclass defines xi and e.
    """

    family: HashFamily = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_epsilon(self.epsilon)

    @property
    @abstractmethod
    def flip(self) -> float:
        """xi, the probability that a bit is flipped."""

    @property
    @abstractmethod
    def support_prob_no_collision(self) -> float:
        """Probability that a report supports an object of another bucket than the reported one's."""

    def restricted(self, objects: Sequence[int]) -> Self:
        """Return the sketch restricted to some objects, renumbered in this order."""
        part = copy(self)
        chosen = np.array(objects, dtype=np.int64)
        set_frozen(part, universe=len(chosen), family=RestrictedFamily(family=self.family, objects=chosen))
        return part

    @property
    def p_star(self) -> float:
        return 1.0 - self.flip

    @property
    def q_star(self) -> float:
        share = self.family.collisions.share
        return self.p_star * share + self.support_prob_no_collision * (1.0 - share)

    @property
    def rates(self) -> SupportProbabilities:
        collisions = self.family.collisions
        return SupportProbabilities(
            self.p_star, self.q_star, (self.p_star - self.support_prob_no_collision) ** 2 * collisions.variance
        )


#: Bits of the word that holds the packed counts of all columns.
WORD_BITS = 64


@dataclass(frozen=True, eq=False)
class PoolWeightLayout:
    """How table rows store the pool weights of all views: as masses, or as packed counts.

    Parameters
    ----------
    columns_at : position of each column in a row, for the kernels.
    columns : number of masses in a row, the neutral pools first.
    weights : (universe, views with masses) the weights of each object.
    column_of : (views with masses, universe) the column of each object.
    words : (universe,) the packed counts of each object; None where no view is counted.
    """

    columns_at: ColumnLayout
    columns: int
    weights: Floats
    column_of: NDArray[np.int64]
    words: NDArray[np.uint64] | None

    @cached_property
    def runs(self) -> NDArray[np.int64]:
        """Runs of consecutive objects that add to the same columns, (runs, 6).

        Columns: first object, end (exclusive), first view, its column, number of views, packed counts. Two views are
        handled together where the second uses the next column for all objects.
        """
        found: list[NDArray[np.int64]] = []
        view, count = 0, len(self.column_of)
        word = np.zeros(len(self.weights), np.int64) if self.words is None else self.words.view(np.int64)
        while view < count or not found:
            column = self.column_of[view] if count else np.zeros_like(word)
            following = self.column_of[view + 1 : view + 2]
            together = min(count, 1 + (len(following) and not word.any() and np.array_equal(column + 1, following[0])))
            changes = (np.diff(column) != 0) | (np.diff(word) != 0)
            begin = np.concatenate([[0], np.flatnonzero(changes) + 1])
            own = np.full_like(begin, view), column[begin], np.full_like(begin, together), word[begin]
            found.append(np.stack([begin, np.append(begin[1:], len(word)), *own], axis=1))
            view, word = view + max(1, together), np.zeros_like(word)
        return np.concatenate(found)

    def empty(self, rows: int) -> MassRows:
        """Return uninitialized rows."""
        return empty_rows(rows, self.columns + (self.words is not None), self.columns_at)

    def rows(self) -> MassRows:
        """Return a row for each object."""
        rows = self.empty(len(self.weights))
        table, objects = rows.table, np.arange(len(self.weights))
        table.masses[:] = 0.0
        for columns, weights in zip(self.column_of, self.weights.T, strict=True):
            table.masses[objects, columns] += weights
        if self.words is not None:
            table.words[:, -1] = self.words
        return rows


def packed_layout(pool_weights: PoolWeights) -> PoolWeightLayout:
    """Return a layout that counts the views with equal weights within each column, as far as a word holds them."""
    sizes = _sizes(pool_weights)
    counted, left = np.zeros(len(sizes), dtype=bool), WORD_BITS
    for view, size in enumerate(sizes):
        alone = not np.any((size > 0) & (np.delete(sizes, view, axis=0) > 0))
        bits = sum(int(count).bit_length() for count in size)
        if alone and bits <= left and _is_uniform(pool_weights, view):
            counted[view], left = True, left - bits
    return _layout(pool_weights, counted)


def plain_layout(pool_weights: PoolWeights) -> PoolWeightLayout:
    """Return a layout that stores every view as masses."""
    return _layout(pool_weights, np.zeros(len(pool_weights.columns), dtype=bool))


def _sizes(pool_weights: PoolWeights) -> NDArray[np.int64]:
    """Return (views, width) the number of objects of each column."""
    return np.stack([np.bincount(columns, minlength=pool_weights.width) for columns in pool_weights.columns])


def _is_uniform(pool_weights: PoolWeights, view: int) -> bool:
    """Return whether all objects of each column have the same weight."""
    columns, weights = pool_weights.columns[view], pool_weights.weights[view]
    first = np.zeros(pool_weights.width)
    first[columns] = weights
    return bool(np.all(weights == first[columns]))


def _layout(pool_weights: PoolWeights, counted: NDArray[np.bool_]) -> PoolWeightLayout:
    size = _sizes(pool_weights)[counted].sum(axis=0)
    bits = np.array([int(count).bit_length() for count in size])
    shift = (np.cumsum(bits) - bits).astype(np.uint64)
    weight = np.zeros(pool_weights.width)
    for columns, weights in zip(pool_weights.columns[counted], pool_weights.weights[counted], strict=True):
        weight[columns] = weights
    stored = np.concatenate(
        [np.flatnonzero(~counted), np.arange(len(counted), pool_weights.width)[size[len(counted) :] == 0]]
    )
    column = np.full(pool_weights.width, -1)
    column[stored] = np.arange(len(stored))
    words = None
    if counted.any():
        words = np.bitwise_or.reduce(np.uint64(1) << shift[pool_weights.columns[counted]], axis=0)
    mask = (np.uint64(1) << bits.astype(np.uint64)) - np.uint64(1)
    return PoolWeightLayout(
        columns_at=ColumnLayout(column, weight, shift, mask),
        columns=len(stored),
        weights=np.ascontiguousarray(pool_weights.weights[~counted].T),
        column_of=column[pool_weights.columns[~counted]],
        words=words,
    )


#: Buckets in one chunk of simulated functions: functions times objects.
BUCKETS_PER_CHUNK = 1 << 21

#: Hits of a bucket up to which its set bits come from a table. Below the mean of the second value, only buckets
#: without hits use a table.
MAX_HITS, MIN_MEAN_HITS = 255, 0.05

#: Largest size of the tables of one flip probability; above it, binomial variables are drawn directly.
MAX_ENTRIES = 1 << 22


def sketch_counts(
    family: HashFamily,
    flips: Sequence[float],
    popularity: NDArray[np.float64],
    count: int,
    key: np.uint64,
    threads: Map = map,
) -> NDArray[np.int64]:
    """Simulate (flips, universe) the support counts of `count` reports for each flip probability.

    Objects and functions are drawn once for all flip probabilities.
    """
    totals = function_totals(family, count, key)
    popularity = np.asarray(popularity, dtype=np.float64) / np.sum(popularity)
    keep, alias = np.empty((1, family.universe)), np.empty((1, family.universe, 2), dtype=np.uint32)
    build_alias_table(popularity, np.empty(family.universe, dtype=np.int64), keep[0], alias[0])
    table_hits = _table_hits(totals, family.m)
    # tuples, as kernels with reflected lists are not cached by Numba
    min_misses, max_misses = int(totals.min()) - table_hits, int(totals.max()) - table_hits
    tables = [ones_tables(min_misses, max_misses, table_hits, flip) for flip in flips]
    miss_tables, hit_tables = tuple(rest for rest, _ in tables), tuple(close for _, close in tables)
    distribution = np.asarray(flips, dtype=np.float64), popularity, keep, alias, miss_tables, hit_tables

    def rows(buckets: Buckets, totals: Integers, keys: Keys, out: Integers) -> None:
        kernels.sketch_rows(buckets, totals, keys, *distribution, kernels.sketch_workspace(family.m), out)

    return over_functions(family, totals, key, rows, (len(flips), family.universe), threads)


def function_totals(family: HashFamily, count: int, key: np.uint64) -> Integers:
    """Draw (functions,) the number of reports of each function."""
    return generator(key).multinomial(count, np.full(family.size, 1.0 / family.size)).astype(np.int64)


def over_functions(
    family: HashFamily,
    totals: Integers,
    key: np.uint64,
    rows: Callable[[Buckets, Integers, Keys, Integers], None],
    shape: tuple[int, ...],
    threads: Map = map,
) -> Integers:
    """Sum what `rows` adds to an array of this shape, over all functions with reports, in parallel chunks.

    `rows` receives a chunk of functions: buckets (functions, universe), totals, keys, and the array.
    """
    used = np.flatnonzero(totals)
    at_once = max(1, BUCKETS_PER_CHUNK // family.universe)

    def add_chunk(begin: int) -> Integers:
        chunk, out = used[begin : begin + at_once], np.zeros(shape, dtype=np.int64)
        rows(family.buckets(chunk), totals[chunk], children(key, chunk), out)
        return out

    return sum(threads(add_chunk, range(0, len(used), at_once)), np.zeros(shape, dtype=np.int64))


def _table_hits(totals: Integers, m: int) -> int:
    """Return the hits up to which set bits come from a table: enough for most buckets, at most a function's reports."""
    mean = totals.mean() / m
    wanted = 5.0 * mean + 32.0 if mean > MIN_MEAN_HITS else 0.0
    return int(min(wanted, MAX_HITS, float(totals.min())))


def ones_tables(first: int, last: int, max_hits: int, flip: float) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return alias tables of set bits: of Binomial(n, flip) for n from first to last, and by hits up to `max_hits`.

    The tables are empty where nothing flips, or where they would be too large.
    """
    width = int(min(last, 20 * np.sqrt(last * flip * (1.0 - flip)) + 40)) + 1
    rows, hit_rows = last - first + 1, max_hits + 1
    if flip <= 0 or rows * width > MAX_ENTRIES:
        rows, hit_rows = 0, 0
    starts = np.empty(rows, dtype=np.int64)
    keep, alias = np.empty((rows, width)), np.empty((rows, width, 2), dtype=np.uint32)
    if rows:
        binomial_alias_tables(first, flip, np.empty(width), np.empty(width, dtype=np.int64), starts, keep, alias)
    hit_tables = np.empty((hit_rows, max_hits + 1)), np.empty((hit_rows, max_hits + 1, 2), dtype=np.uint32)
    for hits in range(hit_rows):
        distribution = np.convolve(_binomial(max_hits - hits, flip), _binomial(hits, 1.0 - flip))
        build_alias_table(
            distribution, np.empty(max_hits + 1, dtype=np.int64), hit_tables[0][hits], hit_tables[1][hits]
        )
    return (first, starts, keep, alias), hit_tables


def _binomial(n: int, p: float) -> Floats:
    """Return (n + 1,) the probabilities of Binomial(n, p)."""
    k = np.arange(n + 1)
    distribution: Floats = special.binom(n, k) * p**k * (1.0 - p) ** (n - k)
    return distribution
