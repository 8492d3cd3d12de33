"""Count Mean Sketch: noise, the popularity mass of a report's support, and the curator's sketch.

The sketch can also be sampled from its exact distribution: rows of hash functions are independent given their totals.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from poolscope.kernels.compilation import inner
from poolscope.kernels.grouping import MassRows, bucket_masses, set_positions, sum_set_bits
from poolscope.kernels.random import bernoulli_words, binomial, pick, uniform

#: Reports whose sums are written together, so that cache misses overlap.
BATCH = 32


class MassWorkspace(NamedTuple):
    """Scratch for one report, for the masses of one hash function's buckets, and for the sums of a batch of reports."""

    rows: MassRows  # m of them
    words: NDArray[np.uint64]  # (ceil(m / 64),)
    sums: NDArray[np.float64]  # (BATCH, width)


def mass_workspace(m: int, rows: MassRows, width: int) -> MassWorkspace:
    """Allocate scratch arrays for the masses of reports."""
    return MassWorkspace(
        rows=rows,
        words=np.empty(-(-m // 64), dtype=np.uint64),
        sums=np.empty((BATCH, width)),
    )


_ONE, _ALL = np.uint64(1), np.uint64(0xFFFFFFFFFFFFFFFF)


@njit(inline="always")
def _obfuscate(key, bucket, m, threshold, words):
    """Write the noisy one-hot vector of `bucket` to words: m bits, each flipped with probability threshold / 2^64."""
    bernoulli_words(key, 1, threshold, words)
    spare = 64 * words.shape[0] - m
    words[words.shape[0] - 1] &= _ALL >> np.uint64(spare)
    words[bucket >> np.uint32(6)] ^= _ONE << np.uint64(bucket & np.uint32(63))


@njit(nogil=True, cache=True)
def sent_masses(starts, order, buckets, objects, keys, m, threshold, runs, weights, workspace, rows_of_reports, out):
    """Obfuscate each object and sum the masses of the report's support, without storing the report.

    Function f of the chunk has reports order[starts[f]:starts[f + 1]] and hashes object z to buckets[f, z]. The sums of
    report r go to out[rows_of_reports[r]], (any, width).
    """
    for f in range(buckets.shape[0]):
        bucket_masses(buckets[f], runs, weights, workspace.rows.table)
        for first in range(starts[f], starts[f + 1], BATCH):
            some = order[first : min(first + BATCH, starts[f + 1])]
            for i in range(some.shape[0]):
                own = buckets[f, objects[some[i]]]
                _obfuscate(keys[some[i]], own, m, threshold, workspace.words)
                sum_set_bits(workspace.words, workspace.rows, workspace.sums[i])
            for i in range(some.shape[0]):
                row = rows_of_reports[some[i]]
                for c in range(out.shape[1]):  # an explicit loop: assigning a row takes seconds to compile
                    out[row, c] = workspace.sums[i, c]


@njit(nogil=True, cache=True)
def obfuscate(bucket, keys, m, threshold, out):
    """Write the reports that `sent_masses` draws, of objects in these buckets, to out (reports, words)."""
    for r in range(keys.shape[0]):
        _obfuscate(keys[r], bucket[r], m, threshold, out[r])


@njit(nogil=True, cache=True)
def support_mass(starts, order, buckets, words, runs, weights, workspace, out):
    """Compute the masses of `sent_masses` for given reports, each in its own row."""
    for f in range(buckets.shape[0]):
        bucket_masses(buckets[f], runs, weights, workspace.rows.table)
        for i in range(starts[f], starts[f + 1]):
            sum_set_bits(words[order[i]], workspace.rows, out[order[i]])


@njit(nogil=True, cache=True)
def supports(starts, order, buckets, words, positions, row, out):
    """Add the number of reports that support object z to out[z].

    Each row of the sketch is read as soon as it is complete. Scratch: positions (`positions_buffer`), row (m,).
    """
    for f in range(buckets.shape[0]):
        row[:] = 0
        for i in range(starts[f], starts[f + 1]):
            for p in range(set_positions(words[order[i]], positions)):
                row[positions[p]] += 1
        for z in range(buckets.shape[1]):
            out[z] += row[buckets[f, z]]


# Reports per bucket up to which drawing their objects is cheaper than a binomial for every bucket.
MAX_DRAWN_PER_BUCKET = 24


class SketchWorkspace(NamedTuple):
    """Scratch for one row of the sketch."""

    mass: NDArray[np.float64]  # (m,)
    uniforms: NDArray[np.float64]  # (2, m)
    hits: NDArray[np.int64]  # (m,)
    ones: NDArray[np.int64]  # (m,)


def sketch_workspace(m: int) -> SketchWorkspace:
    """Allocate scratch arrays for one row of the sketch."""
    return SketchWorkspace(np.empty(m), np.empty((2, m)), *np.empty((2, m), dtype=np.int64))


@inner
def _hits(buckets, popularity, keep, alias, total, key, mass, out):
    """Sample the number of the row's reports with an object in each bucket; return the next free index."""
    m = out.shape[0]
    index = np.int64(0)  # a literal 0 has another type, for which `binomial` would be compiled again
    out[:] = 0
    if total < MAX_DRAWN_PER_BUCKET * m:
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
    # rounding can leave mass beyond the last bucket
    out[m - 1] += left
    return index


@njit(nogil=True, cache=True)
def _uniforms(key, index, out):
    """Write consecutive uniform numbers of a stream to out: generated ahead, they vectorize."""
    for i in range(out.shape[0]):
        out[i] = uniform(key, index + i)


@njit(nogil=True, cache=True)
def _ones(hits, total, flip, min_misses, starts, keep, alias, hit_keep, hit_alias, key, index, uniforms, out):
    """Sample a row's ones: out[b] is Binomial(total - hits[b], flip) + Binomial(hits[b], 1 - flip).

    Row r of keep and alias draws Binomial(min_misses + r, flip) minus starts[r]. With H the last row of hit_keep, row h
    draws Binomial(H - h, flip) + Binomial(h, 1 - flip). A bucket with h <= H hits needs one row of each: the first
    draws the other total - H reports. Buckets with more hits, or all if there are no tables, draw binomials from the
    stream.
    """
    max_hits = hit_keep.shape[0] - 1
    if max_hits >= 0:
        row = np.uint64(total - max_hits - min_misses)  # unsigned: saves a check of the sign at every bucket
        start = starts[row]
        for b in range(out.shape[0]):
            out[b] = start + np.int64(pick(keep, alias, row, uniforms[0, b]))
    if max_hits > 0:
        for b in range(out.shape[0]):
            out[b] += np.int64(pick(hit_keep, hit_alias, np.uint64(min(hits[b], max_hits)), uniforms[1, b]))
    for b in range(out.shape[0]):
        if hits[b] > max_hits:
            flipped, index = binomial(total - hits[b], flip, key, index)
            retained, index = binomial(hits[b], 1.0 - flip, key, index)
            out[b] = flipped + retained


@njit(nogil=True, cache=True)
def sketch_rows(buckets, totals, keys, flips, popularity, keep, alias, miss_tables, hit_tables, workspace, out):
    """Sample the sketch rows of a chunk of functions and add what the curator reads: out[e, z] += ones[bucket of z].

    A bucket's ones are Binomial(hits, 1 - flip) + Binomial(total - hits, flip): the hits that are not flipped, and the
    others that are. All `flips` share the hits and the words of the stream, so that each gets what it would alone.
    `miss_tables` and `hit_tables` are tuples of tables, as `_ones` takes them.
    """
    hits, ones, uniforms = workspace.hits, workspace.ones, workspace.uniforms
    m = hits.shape[0]
    for f in range(buckets.shape[0]):
        total, key = totals[f], keys[f]
        drawn = _hits(buckets[f], popularity, keep, alias, total, key, workspace.mass, hits)
        _uniforms(key, drawn, uniforms[0])
        _uniforms(key, drawn + m, uniforms[1])
        for e in range(flips.shape[0]):
            _ones(hits, total, flips[e], *miss_tables[e], *hit_tables[e], key, drawn + 2 * m, uniforms, ones)
            for z in range(buckets.shape[1]):
                out[e, z] += ones[buckets[f, z]]
