"""The Walsh-Hadamard transform and Hadamard Count Mean Sketch."""

import numpy as np
from numba import njit

from poolscope.kernels.grouping import bucket_masses
from poolscope.kernels.random import uniform


@njit(inline="always")
def hadamard_entry(row, column):
    """H[row, column] of the +1/-1 Hadamard matrix: minus one to the number of bits that both have set."""
    both = row & column
    both ^= both >> 32
    both ^= both >> 16
    both ^= both >> 8
    both ^= both >> 4
    both ^= both >> 2
    both ^= both >> 1
    return 1 - 2 * (both & 1)


@njit(nogil=True, cache=True)
def transform(table):
    """Multiply each column of table (m, columns) by the Hadamard matrix, in place, in m log m additions."""
    m, columns = table.shape
    half = 1
    while half < m:
        for start in range(0, m, 2 * half):
            for a in range(start, start + half):
                for c in range(columns):
                    x, y = table[a, c], table[a + half, c]
                    table[a, c] = x + y
                    table[a + half, c] = x - y
        half *= 2


@njit(nogil=True, cache=True)
def obfuscate(bucket, keys, m, flip, coordinate, bit):
    """Reports (coordinate, bit) of objects in these buckets: the transformed entry, flipped with probability `flip`."""
    for r in range(keys.shape[0]):
        l = np.int64(uniform(keys[r], 1) * m)
        b = hadamard_entry(l, np.int64(bucket[r]))
        coordinate[r] = l
        bit[r] = -b if uniform(keys[r], 2) < flip else b


@njit(nogil=True, cache=True)
def support_mass(starts, order, buckets, coordinate, bit, runs, weights, table, out):
    """Mass of the support: (sum of weights + bit * transformed masses at the coordinate) / 2, for each column."""
    width, masses = out.shape[1], table.masses
    for f in range(buckets.shape[0]):
        bucket_masses(buckets[f], runs, weights, table)
        transform(masses)
        for i in range(starts[f], starts[f + 1]):
            r = order[i]
            for c in range(width):
                # row 0 of the matrix is all ones: the sum of the weights. Rounding must not make a mass negative.
                mass = 0.5 * (masses[0, c] + bit[r] * masses[coordinate[r], c])
                out[r, c] = max(mass, 0.0)


@njit(nogil=True, cache=True)
def sketch(starts, order, coordinate, bit, out):
    """out[l, f] += the bits of function f's reports at coordinate l."""
    for f in range(starts.shape[0] - 1):
        for i in range(starts[f], starts[f + 1]):
            r = order[i]
            out[coordinate[r], f] += bit[r]
