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
def seeds(keys, shift, out):
    """A seed for each report: the upper bits of the stream's first word."""
    for r in range(out.shape[0]):
        out[r] = word(keys[r], 0) >> shift


@njit(nogil=True, cache=True)
def hashed_values(seed, objects, g, out):
    """out[r] = the hash of object r under seed r."""
    for r in range(out.shape[0]):
        out[r] = _hashed(np.uint64(seed[r]), objects[r], g)


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
def respond_hadamard(objects, keys, blocks, order, kept, turned, out):
    """A uniform column in which the object's row has 1, in its block of the matrix; -1 with probability `turned`.

    What is neither `kept` nor turned is a uniform column of another block.
    """
    for r in range(objects.shape[0]):
        block, row = objects[r] // (order - 1), objects[r] % (order - 1) + 1
        column = np.int64(uniform(keys[r], 1) * order)
        luck = uniform(keys[r], 2)
        if blocks > 1 and luck >= kept + turned:
            other = np.int64(uniform(keys[r], 3) * (blocks - 1))
            block = other + 1 if other >= block else other
        elif hadamard_entry(row, column) != (1 if luck < kept else -1):
            # the lowest bit of the row turns every entry round: columns of one sign go to those of the other
            column ^= row & -row
        out[r] = block * order + column


@njit(nogil=True, cache=True)
def hadamard_mass(value, table, out):
    """out[r, c] = (sum of column c + its transform at the value) / 2, in the block of the value.

    table (order, blocks, width) is transformed.
    """
    order = table.shape[0]
    for r in range(out.shape[0]):
        block, column = value[r] // order, value[r] % order
        for c in range(out.shape[1]):
            # column 0 of the matrix is all ones: the sum. Rounding must not make a mass negative.
            out[r, c] = max(0.5 * (table[0, block, c] + table[column, block, c]), 0.0)
