"""Hash objects and names: polynomials for sketches, XXH32 for local hashing, FNV-1a for names.

Polynomials of degree two over the field of the Mersenne prime 2^31 - 1.

Local hashing with XXH32 of an object's number as text, as other libraries do it.

XXH32 has a path of its own for texts below 16 bytes, and a number of an object is one.

References
----------
Y. Collet. xxHash fast digest algorithm, specification 0.1.1.

Names as 64 bits: FNV-1a over their bytes, then mixed, as the upper bits of FNV alone hardly differ.

References
----------
G. Fowler, L. C. Noll, K.-P. Vo, D. Eastlake. The FNV non-cryptographic hash algorithm. RFC 9923.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from poolscope.kernels.grouping import sum_positions
from poolscope.kernels.hadamard import TILE
from poolscope.kernels.random import word

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
    value, likelihood_scale, wide = lanes[0], lanes[1], np.uint32(m)
    objects = out.shape[1]
    whole = objects // LANES * LANES
    for f in range(coefficients.shape[0]):
        a, b, c = np.uint64(coefficients[f, 0]), np.uint64(coefficients[f, 1]), np.uint64(coefficients[f, 2])
        for i in range(LANES):
            x = np.uint64(i)
            value[i] = _reduced(a * (x * x) + b * x + c)
            likelihood_scale[i] = _reduced(
                a * (np.uint64(2 * LANES) * x + np.uint64(LANES * LANES)) + b * np.uint64(LANES)
            )
        bend = _reduced(a * np.uint64(2 * LANES * LANES))
        row = out[f]
        for first in range(0, whole, LANES):
            for i in range(LANES):
                row[first + i] = _bucket(value[i], wide)
                value[i] = _sum(value[i], likelihood_scale[i])
                likelihood_scale[i] = _sum(likelihood_scale[i], bend)
        for i in range(objects - whole):
            row[whole + i] = _bucket(value[i], wide)


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


_OFFSET = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)


@njit(nogil=True, cache=True)
def hash_names(letters, ends, out):
    """out[i] = the hash of the bytes letters[ends[i - 1] : ends[i]]."""
    begin = 0
    for i in range(out.shape[0]):
        found = _OFFSET
        for at in range(begin, ends[i]):
            found = (found ^ np.uint64(letters[at])) * _PRIME
        out[i] = word(found, 0)
        begin = ends[i]
