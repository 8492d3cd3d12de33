"""Groups of reports: sums over the objects that they can be, and products over groups at the nodes of a grid."""

from __future__ import annotations

import numpy as np
from numba import njit

# A running product below this goes into the logarithm, so that the next factor finds room.
_SMALL = 1e-100

# Nodes that are summed at once: what they are multiplied by stays in the second cache for all groups.
TILE = 64


@njit(nogil=True, cache=True)
def injective_sums(weights, out):
    """For every set of groups, the sum over injective maps to the objects of the product of their weights.

    weights (groups, objects), out (2^groups,), indexed by the set's bits. Objects are taken in one by one, each for at
    most one group; from the largest set down, so that an object is not used twice. Every term is non-negative.
    """
    groups, objects = weights.shape
    out[:] = 0.0
    out[0] = 1.0
    for z in range(objects):
        for some in range(out.shape[0] - 1, 0, -1):
            total = out[some]
            for g in range(groups):
                if some >> g & 1:
                    total += weights[g, z] * out[some ^ (1 << g)]
            out[some] = total


@njit(nogil=True, cache=True)
def bin_moments(weights, order, first, off, single, out):
    """out (groups, columns): the sums of weight, weight off and weight off^2 / 2 over the objects of each bin.

    weights (groups, objects); order (objects,): the objects by bin; first (bins + 1,) where each bin begins in it; off
    (objects,) how far the mean of the bin is above the object. Of a `single` bin the first is all.
    """
    for g in range(weights.shape[0]):
        row, column = weights[g], 0
        for b in range(single.shape[0]):
            none, once, twice = 0.0, 0.0, 0.0
            for i in range(first[b], first[b + 1]):
                weight, gap = row[order[i]], off[i]
                none += weight
                once += weight * gap
                twice += weight * gap * gap
            out[g, column] = none
            column += 1
            if not single[b]:
                out[g, column] = once
                out[g, column + 1] = 0.5 * twice
                column += 2


@njit(inline="always")
def _mass(moments, basis, low, high, at, count, out):
    """out[:count]: the moments low to high by the basis, at so many nodes from `at` on."""
    out[:] = 0.0
    for c in range(low, high - 3, 4):
        a, b, d, e = moments[c], moments[c + 1], moments[c + 2], moments[c + 3]
        one, two = basis[c, at : at + count], basis[c + 1, at : at + count]
        three, four = basis[c + 2, at : at + count], basis[c + 3, at : at + count]
        for q in range(count):
            out[q] += (a * one[q] + b * two[q]) + (d * three[q] + e * four[q])
    for c in range(high - (high - low) % 4, high):
        a, one = moments[c], basis[c, at : at + count]
        for q in range(count):
            out[q] += a * one[q]


@njit(nogil=True, cache=True)
def group_factors(moments, basis, sections, kind, powers, workspace, out):
    """What each group multiplies the likelihood by, if a pool is the preferred one: out (groups, k, nodes).

    The mass of a section at a node is the sum over its objects of their weight times e^(-rate node), the objects of a
    bin taken together: with y = (mean - rate) node, e^y is taken for 1 + y + y^2 / 2. moments (groups, columns);
    basis (2, columns, nodes) of preferred and other pools; sections (k + 2,) where the columns of each begin; powers
    (3, kinds, nodes) are the weights of neutral, preferred and other pools to the power of a count, a group's being
    that of kind[group]. room (4, TILE) is scratch. A tile of the basis stays in a cache for all groups.
    """
    groups, k, nodes = out.shape
    for at in range(0, nodes, TILE):
        count = min(TILE, nodes - at)
        base, others, own, other = (
            workspace[0, :count],
            workspace[1, :count],
            workspace[2, :count],
            workspace[3, :count],
        )
        for g in range(groups):
            row, of = moments[g], kind[g]
            p1, p2 = powers[1, of, at : at + count], powers[2, of, at : at + count]
            _mass(row, basis[0], sections[0], sections[1], at, count, base)
            p0 = powers[0, of, at : at + count]
            for q in range(count):
                base[q] *= p0[q]
            others[:] = 0.0
            for i in range(k):
                _mass(row, basis[0], sections[i + 1], sections[i + 2], at, count, own)
                _mass(row, basis[1], sections[i + 1], sections[i + 2], at, count, other)
                factor = out[g, i, at : at + count]
                # a pool's own part, and of the others those before it; those after it are still to come
                for q in range(count):
                    factor[q] = base[q] + own[q] * p1[q] + others[q]
                for q in range(count):
                    other[q] *= p2[q]
                    others[q] += other[q]
                for j in range(i):
                    before = out[g, j, at : at + count]
                    for q in range(count):
                        before[q] += other[q]


@njit(nogil=True, cache=True)
def log_product(factors, rows, workspace, out):
    """Adds the logarithm of the product of some rows of factors (groups, nodes) to out (nodes,); room is as long."""
    workspace[:] = 1.0
    for r in rows:
        row, small = factors[r], 0
        for q in range(out.shape[0]):
            workspace[q] *= row[q]
            small += workspace[q] < _SMALL
        if small > 0:
            for q in range(out.shape[0]):
                if workspace[q] < _SMALL:
                    out[q] += np.log(workspace[q])
                    workspace[q] = 1.0
    for q in range(out.shape[0]):
        out[q] += np.log(workspace[q])
