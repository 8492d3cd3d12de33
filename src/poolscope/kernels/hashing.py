"""Hash objects and names: polynomials for sketches, XXH32 for local hashing, FNV-1a for names.

Polynomials have degree two over the field of the Mersenne prime 2^31 - 1.

Local hashing uses XXH32 of an object's number as decimal text, as other libraries do. XXH32 has a separate path for
texts below 16 bytes, which is all that is needed.

Names are hashed to 64 bits by FNV-1a over their bytes, and then mixed, as the upper bits of FNV alone hardly vary.

References
----------
Y. Collet. xxHash fast digest algorithm, specification 0.1.1.
G. Fowler, L. C. Noll, K.-P. Vo, D. Eastlake. The FNV non-cryptographic hash algorithm. RFC 9923.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from poolscope.kernels.grouping import TILE, sum_positions
from poolscope.kernels.random import random_uint64

_P = np.uint64((1 << 31) - 1)
_SHIFT = np.uint64(31)

#: Independent sequences of values: more than one vector register, so that additions overlap.
LANES = 64


@njit(inline="always")
def _reduced(v):
    """Return v modulo p, for v below 2^63."""
    v = (v & _P) + (v >> _SHIFT)
    v = (v & _P) + (v >> _SHIFT)
    return np.uint32(v - _P if v >= _P else v)


@njit(inline="always")
def _sum(v, w):
    """Return v + w modulo p; a negative difference wraps around, so that the smaller of the two is the result."""
    total = np.uint32(v + w)
    return min(total, np.uint32(total - np.uint32(_P)))


@njit(inline="always")
def _bucket(v, m):
    """Return floor(m * v / 2^31)."""
    return np.uint32((np.uint64(v) * np.uint64(m)) >> _SHIFT)


@njit(nogil=True, cache=True)
def polynomial_buckets(coefficients, m, lanes, out):
    """Compute out[f, z] = floor(m * (a z^2 + b z + c mod p) / 2^31) for coefficients[f] = (a, b, c).

    Values LANES objects apart differ by first differences, and these by a constant: two additions per value instead of
    two products and a remainder. lanes (2, LANES) uint32 is scratch for values and differences.
    """
    value, difference, wide = lanes[0], lanes[1], np.uint32(m)
    objects = out.shape[1]
    whole = objects // LANES * LANES
    for f in range(coefficients.shape[0]):
        a, b, c = np.uint64(coefficients[f, 0]), np.uint64(coefficients[f, 1]), np.uint64(coefficients[f, 2])
        for i in range(LANES):
            x = np.uint64(i)
            value[i] = _reduced(a * (x * x) + b * x + c)
            difference[i] = _reduced(a * (np.uint64(2 * LANES) * x + np.uint64(LANES * LANES)) + b * np.uint64(LANES))
        second_difference = _reduced(a * np.uint64(2 * LANES * LANES))
        row = out[f]
        for first in range(0, whole, LANES):
            for i in range(LANES):
                row[first + i] = _bucket(value[i], wide)
                value[i] = _sum(value[i], difference[i])
                difference[i] = _sum(difference[i], second_difference)
        for i in range(objects - whole):
            row[whole + i] = _bucket(value[i], wide)


_P1, _P2, _P3, _P4, _P5 = (np.uint64(p) for p in (2654435761, 2246822519, 3266489917, 668265263, 374761393))
_MASK, _32 = np.uint64(0xFFFFFFFF), np.uint64(32)
_8, _13, _15, _16, _24 = (np.uint64(s) for s in (8, 13, 15, 16, 24))


@njit(inline="always")
def _rotated(x, by):
    """Return the lower 32 bits of x, rotated left."""
    x &= _MASK
    return ((x << np.uint64(by)) | (x >> (_32 - np.uint64(by)))) & _MASK


@njit(inline="always")
def _digest(seed, text, length):
    """Return XXH32 of the first `length` bytes, below 16; only the lower 32 bits of the seed count."""
    acc = (seed + _P5 + np.uint64(length)) & _MASK
    at = 0
    while at + 4 <= length:
        lane = (
            np.uint64(text[at])
            | np.uint64(text[at + 1]) << _8
            | np.uint64(text[at + 2]) << _16
            | np.uint64(text[at + 3]) << _24
        )
        acc = (_rotated(acc + lane * _P3, 17) * _P4) & _MASK
        at += 4
    while at < length:
        acc = (_rotated(acc + np.uint64(text[at]) * _P5, 11) * _P1) & _MASK
        at += 1
    acc = ((acc ^ (acc >> _15)) * _P2) & _MASK
    acc = ((acc ^ (acc >> _13)) * _P3) & _MASK
    return acc ^ (acc >> _16)


@njit(inline="always")
def _hashed(seed, z, texts, lengths, g):
    """Return the hash of object z under a seed, 0..g-1."""
    return np.int64(_digest(np.uint64(seed), texts[z], lengths[z]) % np.uint64(g))


@njit(nogil=True, cache=True)
def values(seed, objects, texts, lengths, g, out):
    """Compute out[r], the hash of object r under seed r."""
    for r in range(out.shape[0]):
        out[r] = _hashed(seed[r], objects[r], texts, lengths, g)


@njit(nogil=True, cache=True)
def support(seed, value, texts, lengths, g, out):
    """Compute out[r, z]: whether the seed of report r hashes z to its value."""
    for r in range(out.shape[0]):
        for z in range(out.shape[1]):
            out[r, z] = _hashed(seed[r], z, texts, lengths, g) == value[r]


@njit(nogil=True, cache=True)
def counts(seed, value, texts, lengths, g, out):
    """Add the number of reports whose seed hashes z to their value to out[z]."""
    for first in range(0, out.shape[0], TILE):
        last = min(first + TILE, out.shape[0])
        for r in range(seed.shape[0]):
            for z in range(first, last):
                out[z] += _hashed(seed[r], z, texts, lengths, g) == value[r]


@njit(nogil=True, cache=True)
def mass(seed, value, texts, lengths, g, rows, out):
    """Compute out[r, c], the sum of the table's rows at the objects that the seed of report r hashes to its value."""
    for r in range(out.shape[0]):
        count = 0
        for z in range(texts.shape[0]):
            # written unconditionally and overwritten unless it counts: no branch to mispredict
            rows.positions[np.uint64(count)] = np.uint64(z)
            count += _hashed(seed[r], z, texts, lengths, g) == value[r]
        sum_positions(rows, count, out[r])


_OFFSET = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)


@njit(nogil=True, cache=True)
def hash_names(letters, ends, out):
    """Compute out[i], the hash of the bytes letters[ends[i - 1] : ends[i]]."""
    begin = 0
    for i in range(out.shape[0]):
        found = _OFFSET
        for at in range(begin, ends[i]):
            found = (found ^ np.uint64(letters[at])) * _PRIME
        out[i] = random_uint64(found, 0)
        begin = ends[i]
