"""Count Mean Sketch: noise, the popularity mass of a report's support, and the curator's sketch."""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from poolscope.kernels.coins import bernoulli_words
from poolscope.kernels.grouping import bucket_masses
from poolscope.kernels.rows import Rows, sum_set_bits
from poolscope.kernels.words import set_positions

#: Reports whose sums are put in their places one after another: memory far away is waited for together.
TOGETHER = 32


class Scratch(NamedTuple):
    """Room for one report, for the masses of one function's buckets, and for the sums of some reports."""

    rows: Rows  # m of them
    words: NDArray[np.uint64]  # (ceil(m / 64),)
    sums: NDArray[np.float64]  # (TOGETHER, width)


def scratch(m: int, rows: Rows, width: int) -> Scratch:
    """Fresh room."""
    return Scratch(
        rows=rows,
        words=np.empty(-(-m // 64), dtype=np.uint64),
        sums=np.empty((TOGETHER, width)),
    )


_ONE, _ALL = np.uint64(1), np.uint64(0xFFFFFFFFFFFFFFFF)


@njit(inline="always")
def _obfuscate(key, bucket, m, threshold, words):
    """The obfuscated one-hot vector of `bucket`: m bits in words, each flipped with probability threshold / 2^64."""
    bernoulli_words(key, 1, threshold, words)
    spare = 64 * words.shape[0] - m
    words[words.shape[0] - 1] &= _ALL >> np.uint64(spare)
    words[bucket >> np.uint32(6)] ^= _ONE << np.uint64(bucket & np.uint32(63))


@njit(nogil=True, cache=True)
def sent_masses(starts, order, buckets, objects, keys, m, threshold, runs, weights, room, places, out):
    """Obfuscate each object and sum the masses of the report's support, without keeping the report.

    Function f of the chunk has reports order[starts[f]:starts[f + 1]] and hashes object z to buckets[f, z]; the sums of
    report r go to out[places[r]], (any, width).
    """
    for f in range(buckets.shape[0]):
        bucket_masses(buckets[f], runs, weights, room.rows.table)
        for first in range(starts[f], starts[f + 1], TOGETHER):
            some = order[first : min(first + TOGETHER, starts[f + 1])]
            for i in range(some.shape[0]):
                own = buckets[f, objects[some[i]]]
                _obfuscate(keys[some[i]], own, m, threshold, room.words)
                sum_set_bits(room.words, room.rows, room.sums[i])
            for i in range(some.shape[0]):
                place = places[some[i]]
                for c in range(out.shape[1]):  # by hand: a row at once takes seconds to compile
                    out[place, c] = room.sums[i, c]


@njit(nogil=True, cache=True)
def obfuscate(bucket, keys, m, threshold, out):
    """The reports that `sent_masses` does not keep, of objects in these buckets: out (reports, words)."""
    for r in range(keys.shape[0]):
        _obfuscate(keys[r], bucket[r], m, threshold, out[r])


@njit(nogil=True, cache=True)
def support_mass(starts, order, buckets, words, runs, weights, room, out):
    """As `sent_masses`, for reports that are given, each in its own place."""
    for f in range(buckets.shape[0]):
        bucket_masses(buckets[f], runs, weights, room.rows.table)
        for i in range(starts[f], starts[f + 1]):
            sum_set_bits(words[order[i]], room.rows, out[order[i]])


@njit(nogil=True, cache=True)
def supports(starts, order, buckets, words, positions, row, out):
    """out[z] += number of reports that support object z: the rows of the sketch, read one by one as they are done.

    positions is room (`positions_room`), row (m,) too.
    """
    for f in range(buckets.shape[0]):
        row[:] = 0
        for i in range(starts[f], starts[f + 1]):
            for p in range(set_positions(words[order[i]], positions)):
                row[positions[p]] += 1
        for z in range(buckets.shape[1]):
            out[z] += row[buckets[f, z]]
