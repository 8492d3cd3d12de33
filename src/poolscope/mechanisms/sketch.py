"""The closed law of Count Mean Sketch's aggregate, so that 10^9 reports cost what the sketch's cells cost.

Given how many of the reports fall on each (function, bucket), the set bits of a cell are Binomial(hits, 1 - xi) +
Binomial(rest, xi), independently. The law is exact, not an approximation.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from poolscope.engines import Map
from poolscope.hashing import HashFamily
from poolscope.kernels import sketch as kernels
from poolscope.kernels.binomial import lay_guide, tabulate
from poolscope.randomness import children

#: Buckets held at once by one chunk: functions times objects.
BUCKETS_AT_ONCE = 1 << 21


def sketch_counts(
    family: HashFamily,
    flip: float,
    popularity: NDArray[np.float64],
    count: int,
    key: np.uint64,
    run: Map = map,
) -> NDArray[np.int64]:
    """(universe,) how many of `count` simulated reports support each object."""
    rng = np.random.default_rng(np.random.SeedSequence(int(key)))
    totals = rng.multinomial(count, np.full(family.size, 1.0 / family.size)).astype(np.int64)
    popularity = np.asarray(popularity, dtype=np.float64) / np.sum(popularity)
    cumulative = np.cumsum(popularity)
    cumulative /= cumulative[-1]
    guide = np.empty(4 * family.universe, dtype=np.int64)
    lay_guide(cumulative, guide)
    threshold = np.uint64(int(flip * 2.0**64))
    tables = _binomial_tables(int(totals.max()), flip)
    used = np.flatnonzero(totals)
    at_once = max(1, BUCKETS_AT_ONCE // family.universe)

    def part(begin: int) -> NDArray[np.int64]:
        chunk = used[begin : begin + at_once]
        out = np.zeros(family.universe, dtype=np.int64)
        kernels.sketch_rows(
            family.buckets(chunk),
            totals[chunk],
            children(key, chunk),
            flip,
            threshold,
            popularity,
            cumulative,
            guide,
            tables,
            kernels.scratch(family.m),
            out,
        )
        return out

    return sum(run(part, range(0, len(used), at_once)), np.zeros(family.universe, dtype=np.int64))


def _binomial_tables(largest: int, flip: float) -> tuple[int, NDArray, NDArray, NDArray]:
    """Tables of Binomial(n, flip) for the n that most buckets have: up to the largest total, down to 12 deviations."""
    reach = 0 if flip == 0 else int(min(largest, 12 * np.sqrt(largest) + 64))
    first = largest - reach
    width = int(min(largest, 20 * np.sqrt(largest * flip * (1.0 - flip)) + 40)) + 1
    rows = reach + 1 if reach else 0
    starts = np.empty(rows, dtype=np.int64)
    cumulative, guide = np.empty((rows, width)), np.empty((rows, 256), dtype=np.int64)
    if rows:
        tabulate(first, flip, starts, cumulative, guide)
    return first, starts, cumulative, guide
