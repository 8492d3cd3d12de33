"""Count Mean Sketch: noise, the popularity mass of a report's support, and the curator's sketch."""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from poolscope.kernels.grouping import bucket_masses
from poolscope.kernels.random import bernoulli_words
from poolscope.kernels.vector import LANES, sum_rows
from poolscope.kernels.words import set_positions


class Scratch(NamedTuple):
    """Room for one report and for the masses of one function's buckets."""

    neutral: NDArray[np.float64]  # (views, m)
    table: NDArray[np.float64]  # (m, width rounded up to LANES)
    undecided: NDArray[np.uint64]  # (ceil(m / 64),)
    words: NDArray[np.uint64]  # (ceil(m / 64),)
    positions: NDArray[np.uint64]  # (64 words,)
    sums: NDArray[np.float64]  # (columns of table,)


def scratch(m: int, views: int, width: int) -> Scratch:
    """Fresh room."""
    words, wide = -(-m // 64), -(-width // LANES) * LANES
    return Scratch(
        neutral=np.empty((views, m)),
        table=np.empty((m, wide)),
        undecided=np.empty(words, dtype=np.uint64),
        words=np.empty(words, dtype=np.uint64),
        positions=np.empty(64 * words, dtype=np.uint64),
        sums=np.empty(wide),
    )


_ONE, _ALL = np.uint64(1), np.uint64(0xFFFFFFFFFFFFFFFF)


@njit(inline="always")
def _obfuscate(key, bucket, m, threshold, undecided, words):
    """The obfuscated one-hot vector of `bucket`: m bits in words, each flipped with probability threshold / 2^64."""
    bernoulli_words(key, 1, threshold, undecided, words)
    spare = 64 * words.shape[0] - m
    words[words.shape[0] - 1] &= _ALL >> np.uint64(spare)
    words[bucket >> np.uint32(6)] ^= _ONE << np.uint64(bucket & np.uint32(63))


@njit(inline="always")
def _support_mass(words, room, out):
    """out[c] = sum of table[p, c] over the set bits p."""
    count = np.int64(set_positions(words, room.positions))
    sum_rows(room.table.reshape(-1), room.positions, count, np.int64(room.sums.shape[0]), room.sums)
    for c in range(out.shape[0]):
        out[c] = room.sums[c]


@njit(nogil=True, cache=True)
def play(starts, order, buckets, objects, keys, m, threshold, runs, weights, room, out):
    """Obfuscate each object and sum the masses of the report's support, without keeping the report.

    Function f of the chunk has reports order[starts[f]:starts[f + 1]] and hashes object z to buckets[f, z];
    out (reports, width).
    """
    for f in range(buckets.shape[0]):
        bucket_masses(buckets[f], runs, weights, room.neutral, room.table)
        for i in range(starts[f], starts[f + 1]):
            r = order[i]
            _obfuscate(keys[r], buckets[f, objects[r]], m, threshold, room.undecided, room.words)
            _support_mass(room.words, room, out[r])


@njit(nogil=True, cache=True)
def obfuscate(bucket, keys, m, threshold, undecided, out):
    """The reports that `play` does not keep, of objects in these buckets: out (reports, words)."""
    for r in range(keys.shape[0]):
        _obfuscate(keys[r], bucket[r], m, threshold, undecided, out[r])


@njit(nogil=True, cache=True)
def support_mass(starts, order, buckets, words, runs, weights, room, out):
    """As `play`, for reports that are given."""
    for f in range(buckets.shape[0]):
        bucket_masses(buckets[f], runs, weights, room.neutral, room.table)
        for i in range(starts[f], starts[f + 1]):
            r = order[i]
            _support_mass(words[r], room, out[r])


@njit(nogil=True, cache=True)
def sketch(starts, order, words, positions, out):
    """out[f, b] += number of reports of function f whose bit b is set."""
    for f in range(starts.shape[0] - 1):
        for i in range(starts[f], starts[f + 1]):
            count = set_positions(words[order[i]], positions)
            for p in range(count):
                out[f, positions[p]] += 1


@njit(nogil=True, cache=True)
def read_sketch(buckets, sketch, out):
    """out[z] += sketch[f, buckets[f, z]] over the functions of the chunk."""
    for f in range(buckets.shape[0]):
        for z in range(buckets.shape[1]):
            out[z] += sketch[f, buckets[f, z]]
