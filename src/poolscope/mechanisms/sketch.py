"""The closed law of Count Mean Sketch's aggregate, so that 10^9 reports cost what the sketch's cells cost.

Given how many of the reports fall on each (function, bucket), the set bits of a cell are Binomial(hits, 1 - xi) +
Binomial(rest, xi), independently. The law is exact, not an approximation.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from poolscope.hashing import HashFamily
from poolscope.kernels import sketch as kernels
from poolscope.mechanisms.base import Map
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
    threshold = np.uint64(int(flip * 2.0**64))
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
            np.empty(family.m),
            np.empty(family.m, dtype=np.int64),
            np.empty(family.m, dtype=np.int64),
            np.empty(-(-family.m // 64), dtype=np.uint64),
            np.empty(-(-family.m // 64), dtype=np.uint64),
            out,
        )
        return out

    total = np.zeros(family.universe, dtype=np.int64)
    for counts in run(part, range(0, len(used), at_once)):
        total += counts
    return total
