"""Count Mean Sketch: noise, the popularity mass of a report's support, and the curator's sketch."""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from poolscope.kernels.random import bernoulli_words, trailing_zeros, uniform
from poolscope.kernels.vector import LANES, sum_rows


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


_ONE, _ZERO, _ALL = np.uint64(1), np.uint64(0), np.uint64(0xFFFFFFFFFFFFFFFF)


@njit(nogil=True, cache=True)
def choose_functions(keys, functions, out):
    """The hash function of each report: the first word of its stream."""
    for i in range(keys.shape[0]):
        out[i] = np.int64(uniform(keys[i], 0) * functions)


@njit(nogil=True, cache=True)
def group(function, starts, order):
    """Counting sort: reports of function f are order[starts[f]:starts[f + 1]], in their own order."""
    starts[:] = 0
    for i in range(function.shape[0]):
        starts[function[i] + 1] += 1
    for f in range(1, starts.shape[0]):
        starts[f] += starts[f - 1]
    for i in range(function.shape[0]):
        f = function[i]
        order[starts[f]] = i
        starts[f] += 1
    for f in range(starts.shape[0] - 1, 0, -1):
        starts[f] = starts[f - 1]
    starts[0] = 0


@njit(inline="always")
def _obfuscate(key, bucket, m, threshold, undecided, words):
    """The obfuscated one-hot vector of `bucket`: m bits in words, each flipped with probability threshold / 2^64."""
    bernoulli_words(key, 1, threshold, undecided, words)
    spare = 64 * words.shape[0] - m
    words[words.shape[0] - 1] &= _ALL >> np.uint64(spare)
    words[bucket >> np.uint32(6)] ^= _ONE << np.uint64(bucket & np.uint32(63))


@njit(inline="always")
def set_positions(words, positions):
    """Write the positions of the set bits; return how many. Unsigned: a signed index would be checked for its sign."""
    count = 0
    for w in range(words.shape[0]):
        rest = words[w]
        first = np.uint64(64 * w)
        while rest != _ZERO:
            positions[count] = first + trailing_zeros(rest)
            count += 1
            rest &= rest - _ONE
    return count


@njit(nogil=True, cache=True)
def bucket_masses(buckets, runs, weights, neutral, table):
    """table[b, c]: weight of the objects of column c in bucket b; buckets unsigned, runs as `Views` has them.

    The first columns are the views' neutral pools. They hold most objects of a large universe and are summed apart, in
    `neutral` (views, m), which the first cache holds where it does not hold the table.
    """
    table[:] = 0.0
    neutral[:] = 0.0
    for r in range(runs.shape[0]):
        view, begin, end, column = runs[r, 0], runs[r, 1], runs[r, 2], runs[r, 3]
        some, weight = buckets[begin:end], weights[view, begin:end]
        if column == view:
            here = neutral[view]
            for z in range(some.shape[0]):
                here[some[z]] += weight[z]
        else:
            for z in range(some.shape[0]):
                table[some[z], column] += weight[z]
    for view in range(neutral.shape[0]):
        for b in range(table.shape[0]):
            table[b, view] = neutral[view, b]


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
