"""The curator's sketch of Hadamard Count Mean Sketch by its closed law, a few hash functions at a time."""

import numpy as np
from numba import njit

from poolscope.kernels.binomial import binomial
from poolscope.kernels.hadamard import transform
from poolscope.kernels.random import uniform

# Functions that are transformed together: their entries fill a vector register or two.
TOGETHER = 8

# Up to so many reports to a coordinate, drawing them one by one costs less than two binomials for every coordinate.
FEW = 4


@njit(nogil=True, cache=True)
def _bits(total, key, flip, mass, out):
    """Sum of the bits of a function's reports at each coordinate; mass is the transform of its buckets' popularity.

    A report's coordinate is uniform and its object drawn on its own: at coordinate l its entry is one with probability
    (1 + mass[l]) / 2, before the flip.
    """
    m = mass.shape[0]
    index = np.int64(0)
    out[:] = 0
    if total < FEW * m:
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
    """out[z] += reports of the chunk's functions that agree with z, given how many reports each function has.

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
