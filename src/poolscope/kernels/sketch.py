"""The curator's sketch by its closed law: one row per hash function, independent given the row's total."""

import numpy as np
from numba import njit

from poolscope.kernels.binomial import binomial
from poolscope.kernels.random import bernoulli_words, trailing_zeros, uniform

_ONE, _ZERO, _ALL = np.uint64(1), np.uint64(0), np.uint64(0xFFFFFFFFFFFFFFFF)

# Below so many reports to a row, flipping every bit costs less than a binomial for every bucket.
FEW = 64


@njit(nogil=True, cache=True)
def _hits(buckets, popularity, cumulative, total, key, mass, out):
    """How many of the row's reports were made from an object in each bucket; returns the next free index."""
    m = out.shape[0]
    index = 0
    out[:] = 0
    if total < m:
        for _ in range(total):
            z = np.searchsorted(cumulative, uniform(key, index) * cumulative[-1], side="right")
            out[buckets[min(z, buckets.shape[0] - 1)]] += 1
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
    if left > 0:
        # rounding left a crumb of mass behind the last bucket
        out[m - 1] += left
    return index


@njit(nogil=True, cache=True)
def sketch_rows(
    buckets,
    totals,
    keys,
    flip,
    threshold,
    popularity,
    cumulative,
    mass,
    hits,
    ones,
    undecided,
    words,
    out,
):
    """Simulate the rows of a chunk of functions and add what the curator reads: out[z] += ones[bucket of z].

    A bucket's ones are Binomial(hits, 1 - flip) + Binomial(total - hits, flip).
    mass, hits and ones (m), undecided and words (ceil(m / 64)) are scratch.
    """
    m = hits.shape[0]
    for f in range(buckets.shape[0]):
        total = totals[f]
        if total == 0:
            continue
        index = _hits(buckets[f], popularity, cumulative, total, keys[f], mass, hits)
        if total < FEW:
            # one by one: the flips of all reports, then the hits count the other way round
            ones[:] = 0
            for _ in range(total):
                index = bernoulli_words(keys[f], index, threshold, undecided, words)
                for w in range(words.shape[0]):
                    rest = words[w]
                    while rest != _ZERO:
                        position = 64 * w + np.int64(trailing_zeros(rest))
                        if position < m:
                            ones[position] += 1
                        rest &= rest - _ONE
            for b in range(m):
                if hits[b] > 0:
                    flipped, index = binomial(hits[b], flip, keys[f], index)
                    kept, index = binomial(total - hits[b], flip, keys[f], index)
                    ones[b] = hits[b] - flipped + kept
        else:
            for b in range(m):
                flipped, index = binomial(hits[b], flip, keys[f], index)
                kept, index = binomial(total - hits[b], flip, keys[f], index)
                ones[b] = hits[b] - flipped + kept
        for z in range(buckets.shape[1]):
            out[z] += ones[buckets[f, z]]
