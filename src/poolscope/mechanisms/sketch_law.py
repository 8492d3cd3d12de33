"""The closed law of Count Mean Sketch's aggregate, so that 10^9 reports cost what the sketch's cells cost.

Given how many of the reports fall on each (function, bucket), the set bits of a cell are Binomial(hits, 1 - xi) +
Binomial(rest, xi), independently. The law is exact, not an approximation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poolscope.base.arrays import Map
from poolscope.base.randomness import children
from poolscope.kernels import sketch as kernels
from poolscope.kernels.alias import lay_alias
from poolscope.kernels.binomial import tabulate
from poolscope.mechanisms.hashing import HashFamily

#: Buckets held at once by one chunk: functions times objects.
BUCKETS_AT_ONCE = 1 << 21

#: Hits of a bucket up to which flips are looked up.
MOST_HITS = 255


def sketch_counts(
    family: HashFamily,
    flips: Sequence[float],
    popularity: NDArray[np.float64],
    count: int,
    key: np.uint64,
    run: Map = map,
) -> NDArray[np.int64]:
    """(flips, universe) how many of `count` simulated reports support each object, if bits flip with each probability.

    The objects and the functions are drawn once for all of them.
    """
    rng = np.random.default_rng(np.random.SeedSequence(int(key)))
    totals = rng.multinomial(count, np.full(family.size, 1.0 / family.size)).astype(np.int64)
    popularity = np.asarray(popularity, dtype=np.float64) / np.sum(popularity)
    keep, alias = np.empty((1, family.universe)), np.empty((1, family.universe), dtype=np.uint32)
    lay_alias(popularity, np.empty(family.universe, dtype=np.int64), keep[0], alias[0])
    largest = int(totals.max())
    # rests are the row's total but for some hits, and totals differ by a few deviations
    fewest = largest - int(min(largest, 12 * np.sqrt(largest) + 64))
    many = kernels.listed([_binomial_tables(fewest, largest, flip) for flip in flips])
    few = kernels.listed([_binomial_tables(0, min(largest, MOST_HITS), flip) for flip in flips])
    used = np.flatnonzero(totals)
    at_once = max(1, BUCKETS_AT_ONCE // family.universe)

    def part(begin: int) -> NDArray[np.int64]:
        chunk = used[begin : begin + at_once]
        out = np.zeros((len(flips), family.universe), dtype=np.int64)
        kernels.sketch_rows(
            family.buckets(chunk),
            totals[chunk],
            children(key, chunk),
            np.asarray(flips, dtype=np.float64),
            popularity,
            keep,
            alias,
            many,
            few,
            kernels.scratch(family.m),
            out,
        )
        return out

    return sum(run(part, range(0, len(used), at_once)), np.zeros((len(flips), family.universe), dtype=np.int64))


def _binomial_tables(first: int, last: int, flip: float) -> tuple[int, NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Tables of Binomial(n, flip) for n from first to last; none where nothing flips."""
    width = int(min(last, 20 * np.sqrt(last * flip * (1.0 - flip)) + 40)) + 1
    rows = last - first + 1 if flip > 0 else 0
    starts = np.empty(rows, dtype=np.int64)
    keep, alias = np.empty((rows, width)), np.empty((rows, width), dtype=np.uint32)
    if rows:
        tabulate(first, flip, starts, keep, alias)
    return first, starts, keep, alias
