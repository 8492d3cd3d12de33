"""Likelihood of tuple reports, given the preferred pools of all attributes: an integral over a product of grids."""

from __future__ import annotations

import numpy as np
from numba import njit

from poolscope.kernels.compilation import inner

# A product below this is scaled up, long before it loses digits.
_SMALL = 1e-100


@njit(nogil=True, cache=True)
def tuple_evidence(first, offsets, sizes, pools, weights, last, last_pools, last_weights, out):
    """Compute out (n + 1, combinations): the likelihoods of the first t reports, scaled to a largest one of each row.

    A state of an attribute is a pool and a node of (gamma, delta), pool by pool. The likelihood of a report is the sum
    over attributes of a number for the state of each.

    first : (n, states) the numbers of all attributes but the last, side by side; attribute c has `sizes[c]` states from
    `offsets[c]`, and `pools[c]` pools. weights : (states,) of their nodes. last, last_pools, last_weights : the same of
    the last attribute; the nodes of a pool are a multiple of four. Combinations of pools have the last one fastest.
    """
    n, inner = last.shape
    segment = inner // last_pools
    scale, product, index = np.full(n + 1, -np.inf), np.empty(inner), np.zeros(sizes.shape[0], np.int64)
    out[:] = 0.0
    states = 1
    for c in range(sizes.shape[0]):
        states *= sizes[c]
    for _ in range(states):
        weight, combination = 1.0, 0
        for c in range(sizes.shape[0]):
            weight *= weights[offsets[c] + index[c]]
            combination = combination * pools[c] + index[c] * pools[c] // sizes[c]
        if weight > 0.0:
            for j in range(inner):
                product[j] = weight * last_weights[j]
            _integrate(first, offsets, index, last, last_pools, segment, combination * last_pools, product, scale, out)
        # the next state, the last attribute fastest
        for c in range(sizes.shape[0] - 1, -1, -1):
            index[c] += 1
            if index[c] < sizes[c]:
                break
            index[c] = 0
    for t in range(n + 1):
        top = 0.0
        for i in range(out.shape[1]):
            top = max(top, out[t, i])
        if top > 0.0:
            for i in range(out.shape[1]):
                out[t, i] /= top


@inner
def _integrate(first, offsets, index, last, last_pools, segment, column, product, scale, out):
    """Add the integral over the last attribute's nodes, for one state of the others, after every report."""
    n, shift = last.shape[0], 0.0
    for t in range(n + 1):
        others = 0.0
        if t > 0:
            for c in range(index.shape[0]):
                others += first[t - 1, offsets[c] + index[c]]
        if shift > scale[t]:
            factor = np.exp(scale[t] - shift)
            for i in range(out.shape[1]):
                out[t, i] *= factor
            scale[t] = shift
        factor, largest = np.exp(shift - scale[t]), 0.0
        for i in range(last_pools):
            begin = i * segment
            if t > 0:
                total = _advance(product[begin : begin + segment], others, last[t - 1, begin : begin + segment])
            else:
                total = _sum(product[begin : begin + segment])
            largest = max(largest, total)
            out[t, column + i] += factor * total
        if largest == 0.0:
            break
        if largest < _SMALL:
            shift += np.log(largest)
            for j in range(product.shape[0]):
                product[j] /= largest


@inner
def _advance(product, others, last):
    """Multiply products by the likelihoods of one report, and return their sum."""
    for j in range(product.shape[0]):
        product[j] *= others + last[j]
    return _sum(product)


@inner
def _sum(product):
    """Return the sum of products, in the same order on any machine: four sums side by side."""
    a = b = c = d = 0.0
    for j in range(0, product.shape[0], 4):
        a += product[j]
        b += product[j + 1]
        c += product[j + 2]
        d += product[j + 3]
    return (a + b) + (c + d)
