"""Local hashing with XXH32 of an object's number as text, as other libraries do it.

XXH32 has a path of its own for texts below 16 bytes, and a number of an object is one.

References
----------
Y. Collet. xxHash fast digest algorithm, specification 0.1.1.
"""

import numpy as np
from numba import njit

from poolscope.kernels.response import TILE
from poolscope.kernels.rows import sum_positions

_P1, _P2, _P3, _P4, _P5 = (np.uint64(p) for p in (2654435761, 2246822519, 3266489917, 668265263, 374761393))
_MASK, _32 = np.uint64(0xFFFFFFFF), np.uint64(32)
_8, _13, _15, _16, _24 = (np.uint64(s) for s in (8, 13, 15, 16, 24))


@njit(inline="always")
def _turned(x, by):
    """The lower 32 bits of x, turned left."""
    x &= _MASK
    return ((x << np.uint64(by)) | (x >> (_32 - np.uint64(by)))) & _MASK


@njit(inline="always")
def _digest(seed, text, length):
    """XXH32 of the first `length` bytes, below 16; of a longer seed the lower 32 bits count."""
    acc = (seed + _P5 + np.uint64(length)) & _MASK
    at = 0
    while at + 4 <= length:
        lane = (
            np.uint64(text[at])
            | np.uint64(text[at + 1]) << _8
            | np.uint64(text[at + 2]) << _16
            | np.uint64(text[at + 3]) << _24
        )
        acc = (_turned(acc + lane * _P3, 17) * _P4) & _MASK
        at += 4
    while at < length:
        acc = (_turned(acc + np.uint64(text[at]) * _P5, 11) * _P1) & _MASK
        at += 1
    acc = ((acc ^ (acc >> _15)) * _P2) & _MASK
    acc = ((acc ^ (acc >> _13)) * _P3) & _MASK
    return acc ^ (acc >> _16)


@njit(inline="always")
def _hashed(seed, z, texts, lengths, g):
    return np.int64(_digest(np.uint64(seed), texts[z], lengths[z]) % np.uint64(g))


@njit(nogil=True, cache=True)
def values(seed, objects, texts, lengths, g, out):
    """out[r] = the hash of object r under seed r."""
    for r in range(out.shape[0]):
        out[r] = _hashed(seed[r], objects[r], texts, lengths, g)


@njit(nogil=True, cache=True)
def support(seed, value, texts, lengths, g, out):
    """out[r, z] = whether the seed of report r hashes z to its value."""
    for r in range(out.shape[0]):
        for z in range(out.shape[1]):
            out[r, z] = _hashed(seed[r], z, texts, lengths, g) == value[r]


@njit(nogil=True, cache=True)
def counts(seed, value, texts, lengths, g, out):
    """out[z] += number of reports whose seed hashes z to their value."""
    for first in range(0, out.shape[0], TILE):
        last = min(first + TILE, out.shape[0])
        for r in range(seed.shape[0]):
            for z in range(first, last):
                out[z] += _hashed(seed[r], z, texts, lengths, g) == value[r]


@njit(nogil=True, cache=True)
def mass(seed, value, texts, lengths, g, rows, out):
    """out[r, c] = sum of the table's rows at the objects that the seed of report r hashes to its value."""
    for r in range(out.shape[0]):
        count = 0
        for z in range(texts.shape[0]):
            # written always, kept if it counts: there is no branch to mispredict
            rows.positions[np.uint64(count)] = np.uint64(z)
            count += _hashed(seed[r], z, texts, lengths, g) == value[r]
        sum_positions(rows, count, out[r])
