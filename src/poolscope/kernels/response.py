"""Randomized response on values, on hashed values and on the rows of a Hadamard matrix."""

import numpy as np
from numba import njit

from poolscope.kernels.hadamard import hadamard_entry
from poolscope.kernels.random import uniform, word
from poolscope.kernels.rows import sum_positions

_S32 = np.uint64(32)
_ONE = np.uint64(1)

#: Objects whose counts stay in the first cache while all reports pass.
TILE = 2048


@njit(inline="always")
def _respond(key, value, size, kept):
    """The value with probability `kept`, else one of the other `size` - 1, from the words 1 and 2 of the stream."""
    if uniform(key, 1) < kept:
        return value
    other = np.int64(uniform(key, 2) * (size - 1))
    return other + 1 if other >= value else other


@njit(nogil=True, cache=True)
def respond(objects, keys, size, kept, out):
    """k-ary randomized response."""
    for r in range(objects.shape[0]):
        out[r] = _respond(keys[r], objects[r], size, kept)


@njit(inline="always")
def _hashed(seed, z, g):
    """floor(g * h / 2^32) for the upper 32 bits h of a z + b modulo 2^64, with a and b the first words of the seed."""
    mixed = word(seed, 0) * np.uint64(z) + word(seed, 1)
    return np.int64(((mixed >> _S32) * np.uint64(g)) >> _S32)


@njit(inline="always")
def _progression(seed, value, g):
    """Step, start and end: object z has the value if start + z * step modulo 2^64 is below the end.

    The value's hashes h lie from ceil(value 2^32 / g) to before ceil((value + 1) 2^32 / g); the first is subtracted
    from the start, so that one unsigned comparison decides. Going through the objects costs an addition each.
    """
    parts, at = np.uint64(g), np.uint64(value)
    first = ((at << _S32) + parts - _ONE) // parts
    beyond = (((at + _ONE) << _S32) + parts - _ONE) // parts
    return word(seed, 0), word(seed, 1) - (first << _S32), (beyond - first) << _S32


@njit(nogil=True, cache=True)
def respond_hashed(objects, keys, g, kept, shift, seed, value):
    """A seed, the upper bits of the stream's first word, and randomized response on the object's hash under it."""
    for r in range(objects.shape[0]):
        own = word(keys[r], 0) >> shift
        seed[r] = own
        value[r] = _respond(keys[r], _hashed(own, objects[r], g), g, kept)


@njit(nogil=True, cache=True)
def hashed_support(seed, value, g, out):
    """out[r, z] = whether the seed of report r hashes z to its value."""
    for r in range(out.shape[0]):
        step, at, end = _progression(np.uint64(seed[r]), value[r], g)
        for z in range(out.shape[1]):
            out[r, z] = at < end
            at += step


@njit(nogil=True, cache=True)
def hashed_counts(seed, value, g, out):
    """out[z] += number of reports whose seed hashes z to their value."""
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
    """out[r, c] = sum of the table's rows at the objects that the seed of report r hashes to its value."""
    for r in range(out.shape[0]):
        step, at, end = _progression(np.uint64(seed[r]), value[r], g)
        count = 0
        for z in range(universe):
            # written always, kept if it counts: there is no branch to mispredict
            rows.positions[np.uint64(count)] = np.uint64(z)
            count += at < end
            at += step
        sum_positions(rows, count, out[r])


@njit(nogil=True, cache=True)
def respond_hadamard(objects, keys, order, kept, out):
    """A uniform column of the Hadamard matrix in which row z + 1 has the entry 1, or -1 if not `kept`."""
    for r in range(objects.shape[0]):
        row = objects[r] + 1
        column = np.int64(uniform(keys[r], 1) * order)
        wanted = 1 if uniform(keys[r], 2) < kept else -1
        if hadamard_entry(row, column) != wanted:
            # the lowest bit of the row turns every entry round: columns of one sign go to those of the other
            column ^= row & -row
        out[r] = column


@njit(nogil=True, cache=True)
def hadamard_mass(value, table, out):
    """out[r, c] = (sum of column c + its transform at the value) / 2; the table is transformed."""
    for r in range(out.shape[0]):
        for c in range(out.shape[1]):
            # column 0 of the matrix is all ones: the sum. Rounding must not make a mass negative.
            out[r, c] = max(0.5 * (table[0, c] + table[value[r], c]), 0.0)
