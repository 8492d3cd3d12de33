"""Count Mean Sketch: noise, the popularity mass of a report's support, and the curator's sketch."""

import numpy as np
from numba import njit

from poolscope.kernels.random import bernoulli_word, trailing_zeros, uniform

# Columns of popularity mass summed together, in registers.
STRIP = 8

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
def _obfuscate(key, bucket, m, threshold, words):
    """The obfuscated one-hot vector of `bucket`: m bits in words, each flipped with probability threshold / 2^64."""
    index = 1
    for w in range(words.shape[0]):
        words[w], index = bernoulli_word(key, index, threshold)
    spare = 64 * words.shape[0] - m
    words[words.shape[0] - 1] &= _ALL >> np.uint64(spare)
    words[bucket >> 6] ^= _ONE << np.uint64(bucket & 63)


@njit(inline="always")
def _positions(words, positions):
    """Write the positions of the set bits; return how many."""
    count = 0
    for w in range(words.shape[0]):
        rest = words[w]
        while rest != _ZERO:
            positions[count] = 64 * w + np.int64(trailing_zeros(rest))
            count += 1
            rest &= rest - _ONE
    return count


@njit(nogil=True, cache=True)
def _bucket_masses(buckets, columns, weights, table):
    """table[b, c]: weight of the objects of column c in bucket b."""
    table[:] = 0.0
    for view in range(columns.shape[0]):
        for z in range(buckets.shape[0]):
            table[buckets[z], columns[view, z]] += weights[view, z]


@njit(nogil=True, cache=True, fastmath={"contract"})
def _sum_rows(table, positions, count, out):
    """out[c] = sum of table[p, c] over the positions, a strip of columns at a time."""
    width = out.shape[0]
    for c in range(0, table.shape[1], STRIP):
        s0, s1, s2, s3, s4, s5, s6, s7 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for i in range(count):
            row = table[positions[i]]
            s0 += row[c]
            s1 += row[c + 1]
            s2 += row[c + 2]
            s3 += row[c + 3]
            s4 += row[c + 4]
            s5 += row[c + 5]
            s6 += row[c + 6]
            s7 += row[c + 7]
        sums = (s0, s1, s2, s3, s4, s5, s6, s7)
        for d in range(min(STRIP, width - c)):
            out[c + d] = sums[d]


@njit(nogil=True, cache=True)
def play(starts, order, buckets, objects, keys, m, threshold, columns, weights, table, words, positions, out):
    """Obfuscate each object and sum the masses of the report's support, without keeping the report.

    Function f of the chunk has reports order[starts[f]:starts[f + 1]] and hashes object z to buckets[f, z].
    table (m, width rounded up to STRIP), words (ceil(m / 64)), positions (64 words) are scratch; out (reports, width).
    """
    for f in range(buckets.shape[0]):
        if starts[f] == starts[f + 1]:
            continue
        _bucket_masses(buckets[f], columns, weights, table)
        for i in range(starts[f], starts[f + 1]):
            r = order[i]
            _obfuscate(keys[r], buckets[f, objects[r]], m, threshold, words)
            _sum_rows(table, positions, _positions(words, positions), out[r])


@njit(nogil=True, cache=True)
def obfuscate(starts, order, buckets, objects, keys, m, threshold, out):
    """The reports that `play` does not keep: out (reports, words)."""
    for f in range(buckets.shape[0]):
        for i in range(starts[f], starts[f + 1]):
            r = order[i]
            _obfuscate(keys[r], buckets[f, objects[r]], m, threshold, out[r])


@njit(nogil=True, cache=True)
def support_mass(starts, order, buckets, words, columns, weights, table, positions, out):
    """As `play`, for reports that are given."""
    for f in range(buckets.shape[0]):
        if starts[f] == starts[f + 1]:
            continue
        _bucket_masses(buckets[f], columns, weights, table)
        for i in range(starts[f], starts[f + 1]):
            r = order[i]
            _sum_rows(table, positions, _positions(words[r], positions), out[r])


@njit(nogil=True, cache=True)
def sketch(starts, order, words, positions, out):
    """out[f, b] += number of reports of function f whose bit b is set."""
    for f in range(starts.shape[0] - 1):
        for i in range(starts[f], starts[f + 1]):
            count = _positions(words[order[i]], positions)
            for p in range(count):
                out[f, positions[p]] += 1


@njit(nogil=True, cache=True)
def read_sketch(buckets, sketch, out):
    """out[z] += sketch[f, buckets[f, z]] over the functions of the chunk."""
    for f in range(buckets.shape[0]):
        for z in range(buckets.shape[1]):
            out[z] += sketch[f, buckets[f, z]]
