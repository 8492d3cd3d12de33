"""Reports by hash function: which one a report has, whose reports they are, and the masses of its buckets."""

import numpy as np
from numba import njit

from poolscope.kernels.random import uniform
from poolscope.kernels.vector import add_two

#: Objects of a run to a bucket from which on they are summed apart: two sums a bucket fit into the first cache, where
#: rows do not.
LONG = 4

_ONE, _TWO = np.uint64(1), np.uint64(2)


@njit(nogil=True, cache=True)
def choose_functions(keys, functions, out):
    """The hash function of each report: the first word of its stream."""
    for i in range(keys.shape[0]):
        out[i] = np.int64(uniform(keys[i], 0) * functions)


@njit(nogil=True, cache=True)
def group(function, starts, order):
    """Counting sort: reports of function f are order[starts[f]:starts[f + 1]], in their own order."""
    starts[:] = 0
    for i in range(function.shape[0]):
        starts[function[i] + 1] += 1
    for f in range(1, starts.shape[0]):
        starts[f] += starts[f - 1]
    for i in range(function.shape[0]):
        f = function[i]
        order[starts[f]] = i
        starts[f] += 1
    for f in range(starts.shape[0] - 1, 0, -1):
        starts[f] = starts[f - 1]
    starts[0] = 0


@njit(nogil=True, cache=True)
def bucket_masses(buckets, runs, weights, table):
    """Row b of the table: what the objects in bucket b add up to; runs and weights as `Layout` has them.

    Indices are unsigned: a signed one would be checked for its sign at every object.
    """
    table.masses[:] = 0.0
    flat, pitch = table.masses.ravel(), np.uint64(table.masses.shape[1])
    last = np.uint64(table.words.shape[1] - 1)
    for r in range(runs.shape[0]):
        begin, end, view, column, views, word = runs[r]
        objects, to, of, more = (
            range(np.uint64(begin), np.uint64(end)),
            np.uint64(column),
            np.uint64(view),
            np.uint64(word),
        )
        if views > 0 and end - begin > LONG * table.masses.shape[0]:
            _sum_pairs(buckets, objects, weights, of, views, table.pairs)
            _add_pairs(table, to, views, more)
        elif views == 2:
            for z in objects:
                add_two(flat, buckets[z] * pitch + to, weights[z, of], weights[z, of + _ONE])
        elif views == 1 and word == 0:
            for z in objects:
                table.masses[buckets[z], to] += weights[z, of]
        elif views == 1:
            for z in objects:
                table.masses[buckets[z], to] += weights[z, of]
                table.words[buckets[z], last] += more
        else:
            for z in objects:
                table.words[buckets[z], last] += more


@njit(nogil=True, cache=True)
def _sum_pairs(buckets, objects, weights, view, views, pairs):
    """Side by side for every bucket: the weights of these objects to one view, and to the next, or their number."""
    pairs[:] = 0.0
    if views == 2:
        for z in objects:
            add_two(pairs, _TWO * buckets[z], weights[z, view], weights[z, view + _ONE])
    else:
        for z in objects:
            add_two(pairs, _TWO * buckets[z], weights[z, view], 1.0)


@njit(nogil=True, cache=True)
def _add_pairs(table, column, views, word):
    """What `_sum_pairs` found, to the table."""
    for b in range(table.masses.shape[0]):
        table.masses[b, column] += table.pairs[2 * b]
        if views == 2:
            table.masses[b, column + _ONE] += table.pairs[2 * b + 1]
        else:
            table.words[b, table.words.shape[1] - 1] += word * np.uint64(table.pairs[2 * b + 1])
