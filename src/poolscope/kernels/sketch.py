"""The curator's sketch by its closed law: one row per hash function, independent given the row's total."""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from poolscope.kernels.binomial import binomial, invert
from poolscope.kernels.random import bernoulli_words, trailing_zeros, uniform

_ONE, _ZERO = np.uint64(1), np.uint64(0)

# Below so many reports to a row, flipping every bit costs less than a binomial for every bucket.
FEW = 64

# Up to so many reports to a bucket, drawing their objects costs less than a binomial for every bucket.
MANY = 6


class Scratch(NamedTuple):
    """Room for one row of the sketch."""

    mass: NDArray[np.float64]  # (m,)
    hits: NDArray[np.int64]  # (m,)
    ones: NDArray[np.int64]  # (m,)
    undecided: NDArray[np.uint64]  # (ceil(m / 64),)
    words: NDArray[np.uint64]  # (ceil(m / 64),)


def scratch(m: int) -> Scratch:
    """Fresh room."""
    words = -(-m // 64)
    return Scratch(
        np.empty(m),
        np.empty(m, dtype=np.int64),
        np.empty(m, dtype=np.int64),
        np.empty(words, dtype=np.uint64),
        np.empty(words, dtype=np.uint64),
    )


@njit(nogil=True, cache=True)
def _hits(buckets, popularity, cumulative, guide, total, key, mass, out):
    """How many of the row's reports were made from an object in each bucket; returns the next free index."""
    m = out.shape[0]
    index = 0
    out[:] = 0
    if total < MANY * m:
        for _ in range(total):
            out[buckets[invert(cumulative, guide, uniform(key, index))]] += 1
            index += 1
        return index
    mass[:] = 0.0
    for z in range(buckets.shape[0]):
        mass[buckets[z]] += popularity[z]
    left, left_mass = total, 1.0
    for b in range(m):
        if left == 0:
            break
        share = min(1.0, mass[b] / left_mass) if left_mass > 0.0 else 1.0
        out[b], index = binomial(left, share, key, index)
        left -= out[b]
        left_mass -= mass[b]
    # rounding can leave a crumb of mass behind the last bucket
    out[m - 1] += left
    return index


@njit(inline="always")
def _flips(key, index, threshold, total, undecided, words, ones):
    """Flip every bit of every report of a short row, one by one."""
    ones[:] = 0
    for _ in range(total):
        index = bernoulli_words(key, index, threshold, undecided, words)
        for w in range(words.shape[0]):
            rest = words[w]
            while rest != _ZERO:
                position = 64 * w + np.int64(trailing_zeros(rest))
                if position < ones.shape[0]:
                    ones[position] += 1
                rest &= rest - _ONE
    return index


@njit(nogil=True, cache=True)
def sketch_rows(buckets, totals, keys, flip, threshold, popularity, cumulative, guide, tables, room, out):
    """Simulate the rows of a chunk of functions and add what the curator reads: out[z] += ones[bucket of z].

    A bucket's ones are Binomial(hits, 1 - flip) + Binomial(total - hits, flip): of the hits, those not flipped; of the
    rest, those flipped. The second is looked up in `tables` where they reach (first n, then as `tabulate` fills them).
    """
    first, starts, cdfs, guides = tables
    hits, ones = room.hits, room.ones
    for f in range(buckets.shape[0]):
        total, key = totals[f], keys[f]
        index = _hits(buckets[f], popularity, cumulative, guide, total, key, room.mass, hits)
        short = total < FEW
        if short:
            index = _flips(key, index, threshold, total, room.undecided, room.words, ones)
        for b in range(hits.shape[0]):
            rest = total - hits[b]
            if hits[b] == 0 and short:
                continue
            row = rest - first
            if not short and 0 <= row < cdfs.shape[0]:
                ones[b] = starts[row] + invert(cdfs[row], guides[row], uniform(key, index))
                index += 1
            else:
                ones[b], index = binomial(rest, flip, key, index)
            if hits[b] > 0:
                flipped, index = binomial(hits[b], flip, key, index)
                ones[b] += hits[b] - flipped
        for z in range(buckets.shape[1]):
            out[z] += ones[buckets[f, z]]
