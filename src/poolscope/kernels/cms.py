"""Count Mean Sketch: noise, the popularity mass of a report's support, and the curator's sketch.

The sketch is also drawn from its closed distribution: one row per hash function, independent given the row's total.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from poolscope.kernels.grouping import Rows, bucket_masses, set_positions, sum_set_bits
from poolscope.kernels.random import bernoulli_words, binomial, pick, uniform

#: Reports whose sums are put in their places one after another: memory far away is waited for together.
TOGETHER = 32


class Scratch(NamedTuple):
    """Room for one report, for the masses of one function's buckets, and for the sums of some reports."""

    rows: Rows  # m of them
    words: NDArray[np.uint64]  # (ceil(m / 64),)
    sums: NDArray[np.float64]  # (TOGETHER, width)


def scratch(m: int, rows: Rows, width: int) -> Scratch:
    """Fresh room."""
    return Scratch(
        rows=rows,
        words=np.empty(-(-m // 64), dtype=np.uint64),
        sums=np.empty((TOGETHER, width)),
    )


_ONE, _ALL = np.uint64(1), np.uint64(0xFFFFFFFFFFFFFFFF)


@njit(inline="always")
def _obfuscate(key, bucket, m, threshold, words):
    """The obfuscated one-hot vector of `bucket`: m bits in words, each flipped with probability threshold / 2^64."""
    bernoulli_words(key, 1, threshold, words)
    spare = 64 * words.shape[0] - m
    words[words.shape[0] - 1] &= _ALL >> np.uint64(spare)
    words[bucket >> np.uint32(6)] ^= _ONE << np.uint64(bucket & np.uint32(63))


@njit(nogil=True, cache=True)
def sent_masses(starts, order, buckets, objects, keys, m, threshold, runs, weights, workspace, rows_of_reports, out):
    """Obfuscate each object and sum the masses of the report's support, without keeping the report.

    Function f of the chunk has reports order[starts[f]:starts[f + 1]] and hashes object z to buckets[f, z]; the sums of
    report r go to out[places[r]], (any, width).
    """
    for f in range(buckets.shape[0]):
        bucket_masses(buckets[f], runs, weights, workspace.rows.table)
        for first in range(starts[f], starts[f + 1], TOGETHER):
            some = order[first : min(first + TOGETHER, starts[f + 1])]
            for i in range(some.shape[0]):
                own = buckets[f, objects[some[i]]]
                _obfuscate(keys[some[i]], own, m, threshold, workspace.words)
                sum_set_bits(workspace.words, workspace.rows, workspace.sums[i])
            for i in range(some.shape[0]):
                place = rows_of_reports[some[i]]
                for c in range(out.shape[1]):  # by hand: a row at once takes seconds to compile
                    out[place, c] = workspace.sums[i, c]


@njit(nogil=True, cache=True)
def obfuscate(bucket, keys, m, threshold, out):
    """The reports that `sent_masses` does not keep, of objects in these buckets: out (reports, words)."""
    for r in range(keys.shape[0]):
        _obfuscate(keys[r], bucket[r], m, threshold, out[r])


@njit(nogil=True, cache=True)
def support_mass(starts, order, buckets, words, runs, weights, workspace, out):
    """As `sent_masses`, for reports that are given, each in its own place."""
    for f in range(buckets.shape[0]):
        bucket_masses(buckets[f], runs, weights, workspace.rows.table)
        for i in range(starts[f], starts[f + 1]):
            sum_set_bits(words[order[i]], workspace.rows, out[order[i]])


@njit(nogil=True, cache=True)
def supports(starts, order, buckets, words, positions, row, out):
    """out[z] += number of reports that support object z: the rows of the sketch, read one by one as they are done.

    positions is room (`positions_room`), row (m,) too.
    """
    for f in range(buckets.shape[0]):
        row[:] = 0
        for i in range(starts[f], starts[f + 1]):
            for p in range(set_positions(words[order[i]], positions)):
                row[positions[p]] += 1
        for z in range(buckets.shape[1]):
            out[z] += row[buckets[f, z]]


# Up to so many reports to a bucket, drawing their objects costs less than a binomial for every bucket.
MANY = 24


class SketchScratch(NamedTuple):
    """Room for one row of the sketch."""

    mass: NDArray[np.float64]  # (m,)
    uniforms: NDArray[np.float64]  # (2, m)
    hits: NDArray[np.int64]  # (m,)
    ones: NDArray[np.int64]  # (m,)


def sketch_scratch(m: int) -> SketchScratch:
    """Fresh room."""
    return SketchScratch(np.empty(m), np.empty((2, m)), *np.empty((2, m), dtype=np.int64))


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
def sketch_rows(buckets, totals, keys, flips, popularity, keep, alias, rests, near, workspace, out):
    """Simulate the rows of a chunk of functions and add what the curator reads: out[e, z] += ones[bucket of z].

    A bucket's ones are Binomial(hits, 1 - flip) + Binomial(total - hits, flip): of the hits, those not flipped; of the
    rest, those flipped. For each of `flips` the same hits, and the same words of the stream: what one alone would
    have. `rests` and `near` are tuples of tables, as `_ones` takes them.
    """
    hits, ones, uniforms = workspace.hits, workspace.ones, workspace.uniforms
    m = hits.shape[0]
    for f in range(buckets.shape[0]):
        total, key = totals[f], keys[f]
        drawn = _hits(buckets[f], popularity, keep, alias, total, key, workspace.mass, hits)
        _uniforms(key, drawn, uniforms[0])
        _uniforms(key, drawn + m, uniforms[1])
        for e in range(flips.shape[0]):
            _ones(hits, total, flips[e], *rests[e], *near[e], key, drawn + 2 * m, uniforms, ones)
            for z in range(buckets.shape[1]):
                out[e, z] += ones[buckets[f, z]]
