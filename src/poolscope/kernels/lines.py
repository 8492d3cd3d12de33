"""Lines over a finite field: z is had by the line (a, b) if a z + b mod p is below k."""

import numpy as np
from numba import njit

from poolscope.kernels.random import uniform
from poolscope.kernels.response import TILE
from poolscope.kernels.rows import sum_positions


@njit(nogil=True, cache=True)
def draw(objects, keys, prime, had, kept, a, b):
    """A uniform line that has the object, with probability `kept`; else a uniform one that has not."""
    for r in range(objects.shape[0]):
        slope = np.int64(uniform(keys[r], 0) * prime)
        if uniform(keys[r], 1) < kept:
            value = np.int64(uniform(keys[r], 2) * had)
        else:
            value = had + np.int64(uniform(keys[r], 2) * (prime - had))
        a[r] = slope
        b[r] = (value - slope * objects[r] % prime + prime) % prime


@njit(nogil=True, cache=True)
def support(a, b, prime, had, out):
    """out[r, z] = whether line r has z."""
    for r in range(out.shape[0]):
        value = b[r]
        for z in range(out.shape[1]):
            out[r, z] = value < had
            value += a[r]
            if value >= prime:
                value -= prime


@njit(nogil=True, cache=True)
def counts(a, b, prime, had, out):
    """out[z] += number of lines that have z."""
    for first in range(0, out.shape[0], TILE):
        part = out[first : first + TILE]
        for r in range(a.shape[0]):
            step, value = a[r], (a[r] * first + b[r]) % prime
            for z in range(part.shape[0]):
                part[z] += value < had
                value += step
                value -= prime if value >= prime else 0


@njit(nogil=True, cache=True)
def mass(a, b, prime, had, universe, rows, out):
    """out[r, c] = sum of the table's rows at the objects that line r has."""
    for r in range(out.shape[0]):
        step, value, count = a[r], b[r], 0
        for z in range(universe):
            # written always, kept if it counts: there is no branch to mispredict
            rows.positions[np.uint64(count)] = np.uint64(z)
            count += value < had
            value += step
            value -= prime if value >= prime else 0
        sum_positions(rows, count, out[r])
