"""Hadamard Count Mean Sketch, the Walsh-Hadamard transform, and Hadamard response.

The curator's sketch can also be sampled from its exact distribution, a few hash functions at a time.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from poolscope.kernels.grouping import bucket_masses
from poolscope.kernels.random import binomial, uniform


@njit(inline="always")
def hadamard_entry(row, column):
    """Return H[row, column] of the +1/-1 Hadamard matrix: the parity of the bits that both have set."""
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
    """Draw reports (coordinate, bit) of objects in these buckets: the transformed entry, flipped with probability
    `flip`.
    """
    for r in range(keys.shape[0]):
        l = np.int64(uniform(keys[r], 1) * m)
        b = hadamard_entry(l, np.int64(bucket[r]))
        coordinate[r] = l
        bit[r] = -b if uniform(keys[r], 2) < flip else b


@njit(nogil=True, cache=True)
def support_mass(starts, order, buckets, coordinate, bit, runs, weights, table, out):
    """Compute the mass of the support, (sum of weights + bit * transformed masses at the coordinate) / 2, for each
    column.
    """
    width, masses = out.shape[1], table.masses
    for f in range(buckets.shape[0]):
        bucket_masses(buckets[f], runs, weights, table)
        transform(masses)
        for i in range(starts[f], starts[f + 1]):
            r = order[i]
            for c in range(width):
                # row 0 of the matrix is all ones: the sum of the weights; rounding must not make a mass negative
                mass = 0.5 * (masses[0, c] + bit[r] * masses[coordinate[r], c])
                out[r, c] = max(mass, 0.0)


@njit(nogil=True, cache=True)
def sketch(starts, order, coordinate, bit, out):
    """Add the bits of function f's reports at coordinate l to out[l, f]."""
    for f in range(starts.shape[0] - 1):
        for i in range(starts[f], starts[f + 1]):
            r = order[i]
            out[coordinate[r], f] += bit[r]


# Functions transformed together: their entries fill one or two vector registers.
TOGETHER = 8

# Reports per coordinate up to which drawing them one by one is cheaper than two binomials for every coordinate.
MAX_DRAWN_PER_COORDINATE = 4


@njit(nogil=True, cache=True)
def _bits(total, key, flip, mass, out):
    """Sample the sum of the bits of a function's reports at each coordinate; mass is the transformed popularity of its
    buckets.

    A report's coordinate is uniform and independent of its object: at coordinate l its entry is one with probability (1
    + mass[l]) / 2, before the flip.
    """
    m = mass.shape[0]
    index = np.int64(0)
    out[:] = 0
    if total < MAX_DRAWN_PER_COORDINATE * m:
        for _ in range(total):
            l = np.int64(uniform(key, index) * m)
            one = 0.5 + (0.5 - flip) * mass[l]
            out[l] += 1 if uniform(key, index + 1) < one else -1
            index += 2
        return
    left = total
    for l in range(m):
        here, index = binomial(left, 1.0 / (m - l), key, index)
        ones, index = binomial(here, 0.5 + (0.5 - flip) * mass[l], key, index)
        out[l] = 2 * ones - here
        left -= here


@njit(nogil=True, cache=True)
def sketch_rows(buckets, totals, keys, flip, popularity, mass, bits, out):
    """Add the number of reports that agree with z to out[z], given the number of reports of each function.

    buckets (functions, universe); mass and bits (m, TOGETHER) are scratch.
    """
    functions, universe = buckets.shape
    for first in range(0, functions, TOGETHER):
        some = min(TOGETHER, functions - first)
        mass[:] = 0.0
        for i in range(some):
            for z in range(universe):
                mass[buckets[first + i, z], i] += popularity[z]
        transform(mass)
        for i in range(some):
            _bits(totals[first + i], keys[first + i], flip, mass[:, i], bits[:, i])
        transform(bits)
        for i in range(some):
            for z in range(universe):
                out[z] += (totals[first + i] + bits[buckets[first + i, z], i]) // 2


@njit(nogil=True, cache=True)
def respond_hadamard(objects, keys, blocks, order, p_plus, p_minus, out):
    """Draw a uniform column in which the object's row has +1, in its block of the matrix; -1 with probability p_minus.

    p_plus is the probability of +1; with the remaining probability, the response is a uniform column of another block.
    """
    for r in range(objects.shape[0]):
        block, row = objects[r] // (order - 1), objects[r] % (order - 1) + 1
        column = np.int64(uniform(keys[r], 1) * order)
        u = uniform(keys[r], 2)
        if blocks > 1 and u >= p_plus + p_minus:
            other = np.int64(uniform(keys[r], 3) * (blocks - 1))
            block = other + 1 if other >= block else other
        elif hadamard_entry(row, column) != (1 if u < p_plus else -1):
            # flipping the lowest bit of the row negates the entry: a bijection between columns of the two signs
            column ^= row & -row
        out[r] = block * order + column


@njit(nogil=True, cache=True)
def hadamard_mass(value, table, out):
    """Compute out[r, c] = (sum of column c + its transform at the value) / 2, in the block of the value.

    table (order, blocks, width) is transformed.
    """
    order = table.shape[0]
    for r in range(out.shape[0]):
        block, column = value[r] // order, value[r] % order
        for c in range(out.shape[1]):
            # column 0 of the matrix is all ones: the sum; rounding must not make a mass negative
            out[r, c] = max(0.5 * (table[0, block, c] + table[column, block, c]), 0.0)
