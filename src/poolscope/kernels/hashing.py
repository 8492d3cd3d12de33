"""Polynomials of degree two over the field of the Mersenne prime 2^31 - 1."""

import numpy as np
from numba import njit

_P = np.uint64((1 << 31) - 1)
_SHIFT = np.uint64(31)


@njit(nogil=True, cache=True)
def polynomial_buckets(coefficients, point, square, m, out):
    """out[f, z] = floor(m * (a x^2 + b x + c mod p) / 2^31) for coefficients[f] = (a, b, c), x = point[z].

    The squares are given, so the sum of products stays below 2^63 and needs one reduction. All of point, square and
    coefficients are uint32: a product of two of them is one vector instruction.
    """
    wide = np.uint32(m)
    for f in range(coefficients.shape[0]):
        a, b, c = coefficients[f, 0], coefficients[f, 1], coefficients[f, 2]
        for z in range(point.shape[0]):
            v = np.uint64(a) * np.uint64(square[z]) + np.uint64(b) * np.uint64(point[z]) + np.uint64(c)
            v = (v & _P) + (v >> _SHIFT)
            v = (v & _P) + (v >> _SHIFT)
            v = v - _P if v >= _P else v
            out[f, z] = np.uint32((np.uint64(np.uint32(v)) * np.uint64(wide)) >> _SHIFT)
