"""PI-RAPPOR: lines over a finite field. The line (a, b) contains z if a z + b mod p is below k."""

from __future__ import annotations

import numpy as np
from numba import njit

from poolscope.kernels.grouping import TILE, sum_positions
from poolscope.kernels.random import uniform


@njit(nogil=True, cache=True)
def draw_lines(objects, keys, prime, size, p, a, b):
    """Draw a uniform line that contains the object with probability p, else a uniform one that does not."""
    for r in range(objects.shape[0]):
        slope = np.int64(uniform(keys[r], 0) * prime)
        if uniform(keys[r], 1) < p:
            value = np.int64(uniform(keys[r], 2) * size)
        else:
            value = size + np.int64(uniform(keys[r], 2) * (prime - size))
        a[r] = slope
        b[r] = (value - slope * objects[r] % prime + prime) % prime


@njit(nogil=True, cache=True)
def line_support(a, b, prime, size, out):
    """Compute out[r, z]: whether line r contains z."""
    for r in range(out.shape[0]):
        value = b[r]
        for z in range(out.shape[1]):
            out[r, z] = value < size
            value += a[r]
            if value >= prime:
                value -= prime


@njit(nogil=True, cache=True)
def line_counts(a, b, prime, size, out):
    """Add the number of lines that contain z to out[z]."""
    for first in range(0, out.shape[0], TILE):
        part = out[first : first + TILE]
        for r in range(a.shape[0]):
            step, value = a[r], (a[r] * first + b[r]) % prime
            for z in range(part.shape[0]):
                part[z] += value < size
                value += step
                value -= prime if value >= prime else 0


@njit(nogil=True, cache=True)
def line_mass(a, b, prime, size, universe, rows, out):
    """Compute out[r, c], the sum of the table's rows at the objects on line r."""
    for r in range(out.shape[0]):
        step, value, count = a[r], b[r], 0
        for z in range(universe):
            # written unconditionally and overwritten unless it counts: no branch to mispredict
            rows.positions[np.uint64(count)] = np.uint64(z)
            count += value < size
            value += step
            value -= prime if value >= prime else 0
        sum_positions(rows, count, out[r])
