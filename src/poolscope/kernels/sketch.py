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
    uniforms: NDArray[np.float64]  # (2, m)
    hits: NDArray[np.int64]  # (m,)
    ones: NDArray[np.int64]  # (m,)


def scratch(m: int) -> Scratch:
    """Fresh room."""
    return Scratch(np.empty(m), np.empty((2, m)), *np.empty((2, m), dtype=np.int64))


@njit(nogil=True, cache=True)
def _hits(buckets, popularity, keep, alias, total, key, mass, out):
    """How many of the row's reports were made from an object in each bucket; returns the next free index."""
    m = out.shape[0]
    index = np.int64(0)  # a plain 0 is a type of its own, for which binomials would be compiled again
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
def _uniforms(key, index, out):
    """The numbers of a stream one after another, as vectors: looked up at once, each would be waited for."""
    for i in range(out.shape[0]):
        out[i] = uniform(key, index + i)


@njit(nogil=True, cache=True)
def _ones(hits, total, flip, fewest, starts, keep, alias, near, near_alias, key, index, uniforms, out):
    """A row's ones: out[b] is Binomial(total - hits[b], flip) + Binomial(hits[b], 1 - flip).

    Row r of keep and alias draws Binomial(fewest + r, flip) less starts[r]. With H the last row of near, row h draws
    Binomial(H - h, flip) + Binomial(h, 1 - flip): whatever hits h <= H a bucket has, one row of the first serves for
    the other total - H. Buckets with more, all if there are no tables, draw from the stream.
    """
    most = near.shape[0] - 1
    if most >= 0:
        row = np.uint64(total - most - fewest)  # unsigned: a signed one would be checked for its sign at every bucket
        start = starts[row]
        for b in range(out.shape[0]):
            out[b] = start + np.int64(pick(keep, alias, row, uniforms[0, b]))
    if most > 0:
        for b in range(out.shape[0]):
            out[b] += np.int64(pick(near, near_alias, np.uint64(min(hits[b], most)), uniforms[1, b]))
    for b in range(out.shape[0]):
        if hits[b] > most:
            flipped, index = binomial(total - hits[b], flip, key, index)
            kept, index = binomial(hits[b], 1.0 - flip, key, index)
            out[b] = flipped + kept


@njit(nogil=True, cache=True)
def sketch_rows(buckets, totals, keys, flips, popularity, keep, alias, rests, near, room, out):
    """Simulate the rows of a chunk of functions and add what the curator reads: out[e, z] += ones[bucket of z].

    A bucket's ones are Binomial(hits, 1 - flip) + Binomial(total - hits, flip): of the hits, those not flipped; of the
    rest, those flipped. For each of `flips` the same hits, and the same words of the stream: what one alone would
    have. `rests` and `near` are tuples of tables, as `_ones` takes them.
    """
    hits, ones, uniforms = room.hits, room.ones, room.uniforms
    m = hits.shape[0]
    for f in range(buckets.shape[0]):
        total, key = totals[f], keys[f]
        drawn = _hits(buckets[f], popularity, keep, alias, total, key, room.mass, hits)
        _uniforms(key, drawn, uniforms[0])
        _uniforms(key, drawn + m, uniforms[1])
        for e in range(flips.shape[0]):
            _ones(hits, total, flips[e], *rests[e], *near[e], key, drawn + 2 * m, uniforms, ones)
            for z in range(buckets.shape[1]):
                out[e, z] += ones[buckets[f, z]]
