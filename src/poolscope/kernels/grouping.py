"""Reports by hash function: which one a report has, whose reports they are, and the masses of its buckets."""

import numpy as np
from numba import njit

from poolscope.kernels.random import uniform
from poolscope.kernels.vector import add_two


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
def bucket_masses(buckets, runs, weights, neutral, table):
    """table[b, c]: weight of the objects of column c in bucket b; runs and weights as `Views` has them.

    The first columns are the views' neutral pools. They hold most objects of a large universe and are summed apart, in
    `neutral` (m, views), which a cache holds that does not hold the table.
    """
    table[:] = 0.0
    neutral[:] = 0.0
    for r in range(runs.shape[0]):
        view, begin, end, column, together = runs[r]
        into = neutral if column == view else table
        if together == 2:
            for z in range(begin, end):
                add_two(into, buckets[z], column, weights, z, view)
        else:
            for z in range(begin, end):
                into[buckets[z], column] += weights[z, view]
    views = neutral.shape[1]
    for b in range(neutral.shape[0]):
        for view in range(0, views - 1, 2):
            add_two(table, b, view, neutral, b, view)
        if views % 2:
            table[b, views - 1] = neutral[b, views - 1]
