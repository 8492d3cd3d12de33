"""Reports by hash function: which one a report has, whose reports they are, and the masses of its buckets."""

import numpy as np
from numba import njit

from poolscope.kernels.random import uniform


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
    """table[b, c]: weight of the objects of column c in bucket b; buckets unsigned, runs as `Views` has them.

    The first columns are the views' neutral pools. They hold most objects of a large universe and are summed apart, in
    `neutral` (views, m), which the first cache holds where it does not hold the table.
    """
    table[:] = 0.0
    neutral[:] = 0.0
    for r in range(runs.shape[0]):
        view, begin, end, column = runs[r, 0], runs[r, 1], runs[r, 2], runs[r, 3]
        some, weight = buckets[begin:end], weights[view, begin:end]
        if column == view:
            here = neutral[view]
            for z in range(some.shape[0]):
                here[some[z]] += weight[z]
        else:
            for z in range(some.shape[0]):
                table[some[z], column] += weight[z]
    for view in range(neutral.shape[0]):
        for b in range(table.shape[0]):
            table[b, view] = neutral[view, b]
