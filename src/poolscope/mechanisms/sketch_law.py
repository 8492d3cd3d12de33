"""The closed laws of sketches, so that 10^9 reports cost what the cells of a sketch cost: Count Mean Sketch's.

Given how many of the reports fall on each (function, bucket), the set bits of a cell are Binomial(hits, 1 - xi) +
Binomial(rest, xi), independently. The law is exact, not an approximation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from poolscope.core.arrays import Floats, Integers, Keys, Map
from poolscope.core.randomness import children, generator
from poolscope.kernels import cms as kernels
from poolscope.kernels.random import lay_alias, tabulate
from poolscope.mechanisms.hashing import Buckets, HashFamily

#: Buckets held at once by one chunk: functions times objects.
BUCKETS_AT_ONCE = 1 << 21

#: Hits of a bucket up to which its ones are looked up; with fewer than so many to a bucket, only those of buckets
#: without any are.
MOST_HITS, FEWEST_HITS = 255, 0.05

#: Entries of the tables of one flip at most: with more, every binomial number is drawn.
MOST_ENTRIES = 1 << 22


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
    law = np.asarray(flips, dtype=np.float64), popularity, keep, alias, rests, near

    def rows(buckets: Buckets, totals: Integers, keys: Keys, out: Integers) -> None:
        kernels.sketch_rows(buckets, totals, keys, *law, kernels.sketch_scratch(family.m), out)

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
    return int(min(most, MOST_HITS, totals.min()))


def ones_tables(first: int, last: int, most: int, flip: float) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Tables for the kernels (`_ones`): of Binomial(n, flip) for n from first to last, and by hits up to `most`.

    Without rows where nothing flips, or where they would be too large.
    """
    width = int(min(last, 20 * np.sqrt(last * flip * (1.0 - flip)) + 40)) + 1
    rows, near = last - first + 1, most + 1
    if flip <= 0 or rows * width > MOST_ENTRIES:
        rows, near = 0, 0
    starts = np.empty(rows, dtype=np.int64)
    keep, alias = np.empty((rows, width)), np.empty((rows, width, 2), dtype=np.uint32)
    if rows:
        tabulate(first, flip, np.empty(width), np.empty(width, dtype=np.int64), starts, keep, alias)
    close = np.empty((near, most + 1)), np.empty((near, most + 1, 2), dtype=np.uint32)
    for hits in range(near):
        law = np.convolve(_binomial(most - hits, flip), _binomial(hits, 1.0 - flip))
        lay_alias(law, np.empty(most + 1, dtype=np.int64), close[0][hits], close[1][hits])
    return (first, starts, keep, alias), close


def _binomial(n: int, p: float) -> Floats:
    """(n + 1,) the probabilities of Binomial(n, p)."""
    k = np.arange(n + 1)
    law: Floats = special.binom(n, k) * p**k * (1.0 - p) ** (n - k)
    return law
