"""Polynomials of degree two over the field of the Mersenne prime 2^31 - 1."""

import numpy as np
from numba import njit

_P = np.uint64((1 << 31) - 1)
_SHIFT = np.uint64(31)

#: Objects whose values go on side by side: more than one vector of them, so that no step waits for the one before it.
LANES = 64


@njit(inline="always")
def _reduced(v):
    """v modulo p, for v below 2^63."""
    v = (v & _P) + (v >> _SHIFT)
    v = (v & _P) + (v >> _SHIFT)
    return np.uint32(v - _P if v >= _P else v)


@njit(inline="always")
def _sum(v, w):
    """v + w modulo p: what is below p is the smaller of the two, as a difference below zero wraps around."""
    total = np.uint32(v + w)
    return min(total, np.uint32(total - np.uint32(_P)))


@njit(inline="always")
def _bucket(v, m):
    return np.uint32((np.uint64(v) * np.uint64(m)) >> _SHIFT)


@njit(nogil=True, cache=True)
def polynomial_buckets(coefficients, m, lanes, out):
    """out[f, z] = floor(m * (a z^2 + b z + c mod p) / 2^31) for coefficients[f] = (a, b, c).

    Values LANES objects apart differ by slopes, and these by one number: two sums a value instead of two products and a
    remainder. lanes (2, LANES) uint32 is scratch for values and slopes.
    """
    value, slope, wide = lanes[0], lanes[1], np.uint32(m)
    objects = out.shape[1]
    whole = objects // LANES * LANES
    for f in range(coefficients.shape[0]):
        a, b, c = np.uint64(coefficients[f, 0]), np.uint64(coefficients[f, 1]), np.uint64(coefficients[f, 2])
        for i in range(LANES):
            x = np.uint64(i)
            value[i] = _reduced(a * (x * x) + b * x + c)
            slope[i] = _reduced(a * (np.uint64(2 * LANES) * x + np.uint64(LANES * LANES)) + b * np.uint64(LANES))
        bend = _reduced(a * np.uint64(2 * LANES * LANES))
        row = out[f]
        for first in range(0, whole, LANES):
            for i in range(LANES):
                row[first + i] = _bucket(value[i], wide)
                value[i] = _sum(value[i], slope[i])
                slope[i] = _sum(slope[i], bend)
        for i in range(objects - whole):
            row[whole + i] = _bucket(value[i], wide)
