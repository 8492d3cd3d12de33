"""The curator's sketch by its closed law: one row per hash function, independent given the row's total."""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from poolscope.kernels.alias import pick
from poolscope.kernels.binomial import binomial
from poolscope.kernels.random import uniform

# Up to so many reports to a bucket, drawing their objects costs less than a binomial for every bucket.
MANY = 24


class Scratch(NamedTuple):
    """Room for one row of the sketch."""

    mass: NDArray[np.float64]  # (m,)
    hits: NDArray[np.int64]  # (m,)
    rests: NDArray[np.int64]  # (m,)
    ones: NDArray[np.int64]  # (m,)
    flipped: NDArray[np.int64]  # (m,)


def scratch(m: int) -> Scratch:
    """Fresh room."""
    return Scratch(np.empty(m), *np.empty((4, m), dtype=np.int64))


@njit(nogil=True, cache=True)
def _hits(buckets, popularity, keep, alias, total, key, mass, out):
    """How many of the row's reports were made from an object in each bucket; returns the next free index."""
    m = out.shape[0]
    index = 0
    out[:] = 0
    if total < MANY * m:
        for _ in range(total):
            out[buckets[pick(keep, alias, 0, uniform(key, index))]] += 1
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


@njit(nogil=True, cache=True)
def _look_up(counts, first, starts, keep, alias, key, index, out):
    """out[b] is Binomial(counts[b], p) by the tables, from word index + b of the stream; -1 where they do not reach."""
    for b in range(counts.shape[0]):
        row = counts[b] - first
        if 0 <= row < starts.shape[0]:
            out[b] = starts[row] + np.int64(pick(keep, alias, row, uniform(key, index + b)))
        else:
            out[b] = -1


@njit(nogil=True, cache=True)
def _draw_missing(counts, p, key, index, out):
    """Binomial(counts[b], p) where `_look_up` found none; returns the next free index."""
    for b in range(counts.shape[0]):
        if out[b] < 0:
            out[b], index = binomial(counts[b], p, key, index)
    return index


@njit(nogil=True, cache=True)
def sketch_rows(buckets, totals, keys, flips, popularity, keep, alias, many, few, room, out):
    """Simulate the rows of a chunk of functions and add what the curator reads: out[e, z] += ones[bucket of z].

    A bucket's ones are Binomial(hits, 1 - flip) + Binomial(total - hits, flip): of the hits, those not flipped; of the
    rest, those flipped. For each of `flips` the same hits, and the same words of the stream: what one alone would
    have. `many` and `few` are tuples of tables of Binomial(n, flip) for most buckets' rests and hits (first n, then as
    `tabulate` fills them).
    """
    hits, rests, ones, flipped = room.hits, room.rests, room.ones, room.flipped
    m = hits.shape[0]
    for f in range(buckets.shape[0]):
        total, key = totals[f], keys[f]
        drawn = _hits(buckets[f], popularity, keep, alias, total, key, room.mass, hits)
        for b in range(m):
            rests[b] = total - hits[b]
        for e in range(flips.shape[0]):
            _look_up(rests, *many[e], key, drawn, ones)
            index = _draw_missing(rests, flips[e], key, drawn + m, ones)
            _look_up(hits, *few[e], key, index, flipped)
            _draw_missing(hits, flips[e], key, index + m, flipped)
            for b in range(m):
                ones[b] += hits[b] - flipped[b]
            for z in range(buckets.shape[1]):
                out[e, z] += ones[buckets[f, z]]
