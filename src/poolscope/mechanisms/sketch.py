"""Sketches: mechanisms whose reports name a public hash function.

Reports are grouped by function. Rows of a table hold what objects add for each view: masses, and counts in the bits of
one word. The curator's sketch is drawn from its closed distribution, so that 10^9 reports cost as much as the cells of
the sketch: given how many reports fall on each (function, bucket), the set bits of a cell are Binomial(hits, 1 - xi) +
Binomial(rest, xi), independently. This is exact, not an approximation.
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
from poolscope.kernels.grouping import Places, Rows, empty_rows
from poolscope.kernels.random import lay_alias, tabulate
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
from poolscope.mechanisms.protocols import PoolWeights, Rates, ReportColumn, check_epsilon, set_frozen
from poolscope.mechanisms.pure import MechanismDefaults, Pure


class CellMoments(NamedTuple):
    r"""The law of what reports add to the cells (function, bucket) of a sketch, given the report's function.

    A report adds `base` to a cell in the mean, and `gain` more where the reported object y has the cell. Let t(z) be
    what it adds to the cells of z, each less `base`; then, with J the number of cells that objects have in common,

    .. math:: \mathrm E[t(z)] &= \text{gain} \, J(z, y) \\
              \mathrm E[t(z) t(w)] &= \text{variance} \, J(z, w) + \text{own} \, J(z, w, y)
                                     + \text{hit} \, J(z, y) J(w, y)
    """

    base: float
    gain: float
    variance: float
    own: float
    hit: float


@dataclass(frozen=True, kw_only=True)
class HashedMechanism(MechanismDefaults):
    """Reports whose shared column is the number of a function of `family`, drawn uniformly.

    Parameters
    ----------
    m : buckets of a function.
    hashes : how many functions.
    hash_table : a deployment's own functions, integers 0..m-1 (functions, universe); three-wise independent functions
        are computed on demand where absent. It is kept as the `TableFamily` that has checked it.
    seed : of the computed functions.
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
        """The functions by which reports are grouped."""
        return self.functions(self.hashes)

    def functions(self, count: int | None) -> HashFamily:
        """So many functions, or those of the table."""
        found = hashing.family(
            universe=self.universe, m=self.m, hashes=count, hash_table=self.hash_table, seed=self.seed
        )
        if self.hash_table is not None:
            # the same mechanism with another epsilon need not check it again
            set_frozen(self, hash_table=found)
        return found

    @property
    def shared(self) -> ReportColumn:
        """What the shared column holds."""
        return ReportColumn("integer", self.family.size)

    def shared_by(self, keys: Keys) -> Integers:
        return choose_functions(self.family, keys)

    def grouped(self, function: NDArray[np.integer]) -> Iterator[tuple[Buckets, Integers, Integers]]:
        """Reports by their functions (`by_function`), which are those of the shared column."""
        return by_function(self.family, function, self.shared_column)

    def positions(self, functions: NDArray[np.int64]) -> Buckets:
        """(functions, cells, universe) the buckets of every object under each function; m where there is none."""
        found = self.family.buckets(functions)
        return found.reshape(len(functions), -1, self.universe)


@dataclass(frozen=True, kw_only=True)
class Sketch(HashedMechanism, Pure):
    r"""A pure mechanism on the bucket of the object, whose bit is flipped with probability xi.

    .. math:: p^* = 1 - \xi, \qquad q^* = p^* s + e (1 - s)

    where s is the share of the functions under which two objects meet (1/m, or that of a given table), and e how often
    a report supports an object that it does not meet (`support_prob_no_collision`): a mechanism states xi and e.
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
        """The sketch of some objects alone, numbered in this order: what supports them is found without the others."""
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
    def rates(self) -> Rates:
        collisions = self.family.collisions
        return Rates(
            self.p_star, self.q_star, (self.p_star - self.support_prob_no_collision) ** 2 * collisions.variance
        )


#: Bits of a word for the counts of all columns, each of which can hold its column's size.
WORD = 64


@dataclass(frozen=True, eq=False)
class PoolWeightLayout:
    """Where rows hold the columns of `views`.

    places: of each column, for the kernels. columns: masses to a row, beginning with the neutral pools of the views
    that have masses. weights (universe, such views): those of an object side by side. words (universe,): what an object
    adds to the counts; None where nothing is counted. column_of (such views, universe): its columns.
    """

    columns_at: Places
    columns: int
    weights: Floats
    column_of: NDArray[np.int64]
    words: NDArray[np.uint64] | None

    @cached_property
    def runs(self) -> NDArray[np.int64]:
        """(runs, 6) begin and end of neighboring objects that add to the same columns; the first view and its column,
        and how many views: two where all objects add to the next column of the next view; and the word that they add.
        """
        found: list[NDArray[np.int64]] = []
        view, count = 0, len(self.column_of)
        word = np.zeros(len(self.weights), np.int64) if self.words is None else self.words.view(np.int64)
        while view < count or not found:
            column = self.column_of[view] if count else np.zeros_like(word)
            beside = self.column_of[view + 1 : view + 2]
            together = min(count, 1 + (len(beside) and not word.any() and np.array_equal(column + 1, beside[0])))
            changes = (np.diff(column) != 0) | (np.diff(word) != 0)
            begin = np.concatenate([[0], np.flatnonzero(changes) + 1])
            own = np.full_like(begin, view), column[begin], np.full_like(begin, together), word[begin]
            found.append(np.stack([begin, np.append(begin[1:], len(word)), *own], axis=1))
            view, word = view + max(1, together), np.zeros_like(word)
        return np.concatenate(found)

    def empty(self, rows: int) -> Rows:
        """So many rows to be filled."""
        return empty_rows(rows, self.columns + (self.words is not None), self.columns_at)

    def rows(self) -> Rows:
        """A row for each object."""
        rows = self.empty(len(self.weights))
        table, objects = rows.table, np.arange(len(self.weights))
        table.masses[:] = 0.0
        for columns, weights in zip(self.column_of, self.weights.T, strict=True):
            table.masses[objects, columns] += weights
        if self.words is not None:
            table.words[:, -1] = self.words
        return rows


def packed_layout(views: PoolWeights) -> PoolWeightLayout:
    """The views to which all objects of a column weigh the same are counted, as far as a word holds them."""
    sizes = _sizes(views)
    counted, left = np.zeros(len(sizes), dtype=bool), WORD
    for view, size in enumerate(sizes):
        alone = not np.any((size > 0) & (np.delete(sizes, view, axis=0) > 0))
        bits = sum(int(count).bit_length() for count in size)
        if alone and bits <= left and _level(views, view):
            counted[view], left = True, left - bits
    return _layout(views, counted)


def plain_layout(views: PoolWeights) -> PoolWeightLayout:
    """Every view has masses."""
    return _layout(views, np.zeros(len(views.columns), dtype=bool))


def _sizes(views: PoolWeights) -> NDArray[np.int64]:
    """(views, width) the objects of each column."""
    return np.stack([np.bincount(columns, minlength=views.width) for columns in views.columns])


def _level(views: PoolWeights, view: int) -> bool:
    """Whether all objects of a column weigh the same."""
    columns, weights = views.columns[view], views.weights[view]
    first = np.zeros(views.width)
    first[columns] = weights
    return bool(np.all(weights == first[columns]))


def _layout(views: PoolWeights, counted: NDArray[np.bool_]) -> PoolWeightLayout:
    size = _sizes(views)[counted].sum(axis=0)
    bits = np.array([int(count).bit_length() for count in size])
    shift = (np.cumsum(bits) - bits).astype(np.uint64)
    weight = np.zeros(views.width)
    for columns, weights in zip(views.columns[counted], views.weights[counted], strict=True):
        weight[columns] = weights
    held = np.concatenate([np.flatnonzero(~counted), np.arange(len(counted), views.width)[size[len(counted) :] == 0]])
    column = np.full(views.width, -1)
    column[held] = np.arange(len(held))
    words = None
    if counted.any():
        words = np.bitwise_or.reduce(np.uint64(1) << shift[views.columns[counted]], axis=0)
    mask = (np.uint64(1) << bits.astype(np.uint64)) - np.uint64(1)
    return PoolWeightLayout(
        columns_at=Places(column, weight, shift, mask),
        columns=len(held),
        weights=np.ascontiguousarray(views.weights[~counted].T),
        column_of=column[views.columns[~counted]],
        words=words,
    )


#: Buckets held at once by one chunk: functions times objects.
BUCKETS_AT_ONCE = 1 << 21

#: Hits of a bucket up to which its ones are looked up; with fewer than so many to a bucket, only those of buckets
#: without any are.
MAX_HITS, FEWEST_HITS = 255, 0.05

#: Entries of the tables of one flip at most: with more, every binomial number is drawn.
MAX_ENTRIES = 1 << 22


def sketch_counts(
    family: HashFamily,
    flips: Sequence[float],
    popularity: NDArray[np.float64],
    count: int,
    key: np.uint64,
    threads: Map = map,
) -> NDArray[np.int64]:
    """(flips, universe) how many of `count` simulated reports support each object, if bits flip with each probability.

    The objects and the functions are drawn once for all of them.
    """
    totals = function_totals(family, count, key)
    popularity = np.asarray(popularity, dtype=np.float64) / np.sum(popularity)
    keep, alias = np.empty((1, family.universe)), np.empty((1, family.universe, 2), dtype=np.uint32)
    lay_alias(popularity, np.empty(family.universe, dtype=np.int64), keep[0], alias[0])
    most = _looked_up(totals, family.m)
    # tuples: a list of numba's would be compiled anew in every process
    tables = [ones_tables(int(totals.min()) - most, int(totals.max()) - most, most, flip) for flip in flips]
    rests, near = tuple(rest for rest, _ in tables), tuple(close for _, close in tables)
    distribution = np.asarray(flips, dtype=np.float64), popularity, keep, alias, rests, near

    def rows(buckets: Buckets, totals: Integers, keys: Keys, out: Integers) -> None:
        kernels.sketch_rows(buckets, totals, keys, *distribution, kernels.sketch_scratch(family.m), out)

    return over_functions(family, totals, key, rows, (len(flips), family.universe), threads)


def function_totals(family: HashFamily, count: int, key: np.uint64) -> Integers:
    """(functions,) how many of so many reports each function has."""
    return generator(key).multinomial(count, np.full(family.size, 1.0 / family.size)).astype(np.int64)


def over_functions(
    family: HashFamily,
    totals: Integers,
    key: np.uint64,
    rows: Callable[[Buckets, Integers, Keys, Integers], None],
    shape: tuple[int, ...],
    threads: Map = map,
) -> Integers:
    """The sum over the functions that have reports of what `rows` adds to an array of this shape.

    It gets some functions at a time: their buckets (functions, universe), totals and keys, and the array.
    """
    used = np.flatnonzero(totals)
    at_once = max(1, BUCKETS_AT_ONCE // family.universe)

    def part(begin: int) -> Integers:
        chunk, out = used[begin : begin + at_once], np.zeros(shape, dtype=np.int64)
        rows(family.buckets(chunk), totals[chunk], children(key, chunk), out)
        return out

    return sum(threads(part, range(0, len(used), at_once)), np.zeros(shape, dtype=np.int64))


def _looked_up(totals: Integers, m: int) -> int:
    """Hits up to which a bucket's ones are looked up: those of most buckets, and no more than a function has."""
    mean = totals.mean() / m
    most = 5.0 * mean + 32.0 if mean > FEWEST_HITS else 0.0
    return int(min(most, MAX_HITS, totals.min()))


def ones_tables(first: int, last: int, most: int, flip: float) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Tables for the kernels (`_ones`): of Binomial(n, flip) for n from first to last, and by hits up to `most`.

    Without rows where nothing flips, or where they would be too large.
    """
    width = int(min(last, 20 * np.sqrt(last * flip * (1.0 - flip)) + 40)) + 1
    rows, near = last - first + 1, most + 1
    if flip <= 0 or rows * width > MAX_ENTRIES:
        rows, near = 0, 0
    starts = np.empty(rows, dtype=np.int64)
    keep, alias = np.empty((rows, width)), np.empty((rows, width, 2), dtype=np.uint32)
    if rows:
        tabulate(first, flip, np.empty(width), np.empty(width, dtype=np.int64), starts, keep, alias)
    close = np.empty((near, most + 1)), np.empty((near, most + 1, 2), dtype=np.uint32)
    for hits in range(near):
        distribution = np.convolve(_binomial(most - hits, flip), _binomial(hits, 1.0 - flip))
        lay_alias(distribution, np.empty(most + 1, dtype=np.int64), close[0][hits], close[1][hits])
    return (first, starts, keep, alias), close


def _binomial(n: int, p: float) -> Floats:
    """(n + 1,) the probabilities of Binomial(n, p)."""
    k = np.arange(n + 1)
    distribution: Floats = special.binom(n, k) * p**k * (1.0 - p) ** (n - k)
    return distribution
