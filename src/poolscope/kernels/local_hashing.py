"""k-ary randomized response, and local hashing with one hash function for each seed."""

from __future__ import annotations

import numpy as np
from numba import njit

from poolscope.kernels.grouping import TILE, sum_positions
from poolscope.kernels.random import random_uint64, uniform

_S32 = np.uint64(32)
_ONE = np.uint64(1)


@njit(inline="always")
def _randomized_response(key, value, size, p):
    """Return the value with probability p, else one of the other `size` - 1 uniformly, from words 1 and 2 of the
    stream.
    """
    if uniform(key, 1) < p:
        return value
    other = np.int64(uniform(key, 2) * (size - 1))
    return other + 1 if other >= value else other


@njit(nogil=True, cache=True)
def randomized_response(objects, keys, size, p, out):
    """Draw k-ary randomized responses; p is the probability of the true value."""
    for r in range(objects.shape[0]):
        out[r] = _randomized_response(keys[r], objects[r], size, p)


@njit(inline="always")
def _hashed(seed, z, g):
    """Return floor(g * h / 2^32) for the upper 32 bits h of a z + b modulo 2^64, with a and b the first words of the
    seed.
    """
    mixed = random_uint64(seed, 0) * np.uint64(z) + random_uint64(seed, 1)
    return np.int64(((mixed >> _S32) * np.uint64(g)) >> _S32)


@njit(inline="always")
def _progression(seed, value, g):
    """Return step, start and end: object z has the value if start + z * step modulo 2^64 is below the end.

    The value's hashes h lie in ceil(value 2^32 / g) .. ceil((value + 1) 2^32 / g) - 1. The first is subtracted from the
    start, so that one unsigned comparison decides. Iterating over the objects costs an addition each.
    """
    parts, at = np.uint64(g), np.uint64(value)
    first = ((at << _S32) + parts - _ONE) // parts
    beyond = (((at + _ONE) << _S32) + parts - _ONE) // parts
    return random_uint64(seed, 0), random_uint64(seed, 1) - (first << _S32), (beyond - first) << _S32


@njit(nogil=True, cache=True)
def seeds(keys, shift, out):
    """Draw a seed for each report: the upper bits of the stream's first word."""
    for r in range(out.shape[0]):
        out[r] = random_uint64(keys[r], 0) >> shift


@njit(nogil=True, cache=True)
def hashed_values(seed, objects, g, out):
    """Compute out[r], the hash of object r under seed r."""
    for r in range(out.shape[0]):
        out[r] = _hashed(np.uint64(seed[r]), objects[r], g)


@njit(nogil=True, cache=True)
def hashed_support(seed, value, g, out):
    """Compute out[r, z]: whether the seed of report r hashes z to its value."""
    for r in range(out.shape[0]):
        step, at, end = _progression(np.uint64(seed[r]), value[r], g)
        for z in range(out.shape[1]):
            out[r, z] = at < end
            at += step


@njit(nogil=True, cache=True)
def hashed_counts(seed, value, g, out):
    """Add the number of reports whose seed hashes z to their value to out[z]."""
    for first in range(0, out.shape[0], TILE):
        part = out[first : first + TILE]
        for r in range(seed.shape[0]):
            step, at, end = _progression(np.uint64(seed[r]), value[r], g)
            at += step * np.uint64(first)
            for z in range(part.shape[0]):
                part[z] += at < end
                at += step


@njit(nogil=True, cache=True)
def hashed_mass(seed, value, g, universe, rows, out):
    """Compute out[r, c], the sum of the table's rows at the objects that the seed of report r hashes to its value."""
    for r in range(out.shape[0]):
        step, at, end = _progression(np.uint64(seed[r]), value[r], g)
        count = 0
        for z in range(universe):
            # written unconditionally and overwritten unless it counts: no branch to mispredict
            rows.positions[np.uint64(count)] = np.uint64(z)
            count += at < end
            at += step
        sum_positions(rows, count, out[r])
