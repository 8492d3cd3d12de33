"""Groups of reports: sums over the objects that they can be, and products over groups at the nodes of a grid."""

import numpy as np
from numba import njit

# A running product below this goes into the logarithm, so that the next factor finds room.
_SMALL = 1e-100

# Nodes that are summed at once: their masses for a hundred groups stay in the first cache.
TILE = 32


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
def bin_moments(weights, order, first, off, out):
    """out (bins, 3, groups): the sums of weight, weight off and weight off^2 / 2 over the objects of each bin.

    weights (groups, objects); order (some,): the objects that count, by bin; first (bins + 1,) where each bin begins in
    it; off (some,) how far the mean of the bin is above the object.
    """
    for g in range(weights.shape[0]):
        row = weights[g]
        for b in range(out.shape[0]):
            none, once, twice = 0.0, 0.0, 0.0
            for i in range(first[b], first[b + 1]):
                weight, gap = row[order[i]], off[i]
                none += weight
                once += weight * gap
                twice += weight * gap * gap
            out[b, 0, g] = none
            out[b, 1, g] = once
            out[b, 2, g] = 0.5 * twice


@njit(nogil=True, cache=True)
def unseen_masses(moments, rates, single, node, room, mass):
    """mass[g, q]: sum over objects of their weight times e^(-rate node), the objects of a bin taken together.

    moments (bins, 3, groups) are the sums of weight, weight (mean - rate) and weight (mean - rate)^2 / 2 over the
    objects of each bin, rates (bins,) their means: with y = (mean - rate) node, e^y is taken for 1 + y + y^2 / 2. Of a
    `single` rate the first is all. node (nodes,); room (3, TILE) is scratch.
    """
    bins, _, groups = moments.shape
    mass[:] = 0.0
    for first in range(0, node.shape[0], TILE):
        some = node[first : first + TILE]
        none, once, twice = room[0], room[1], room[2]
        for b in range(bins):
            for q in range(some.shape[0]):
                none[q] = np.exp(-rates[b] * some[q])
                once[q] = none[q] * some[q]
                twice[q] = once[q] * some[q]
            for g in range(groups):
                a, row = moments[b, 0, g], mass[g, first : first + TILE]
                if single[b]:
                    for q in range(row.shape[0]):
                        row[q] += a * none[q]
                else:
                    c, d = moments[b, 1, g], moments[b, 2, g]
                    for q in range(row.shape[0]):
                        row[q] += a * none[q] + c * once[q] + d * twice[q]


@njit(nogil=True, cache=True, error_model="numpy")
def log_products(neutral, own, other, kind, powers, room, out):
    """Log of each pool's product over groups at every node: out (k, nodes).

    neutral (groups, nodes), own and other (k, groups, nodes) are masses; powers (3, kinds, nodes) are the weights of
    neutral, preferred and alternative pools to the power of a count, a group's being that of kind[group]. room
    (2, nodes) is scratch.
    """
    k, groups, nodes = own.shape
    product, factor = room[0], room[1]
    for i in range(k):
        logs = out[i]
        logs[:] = 0.0
        product[:] = 1.0
        for g in range(groups):
            p0, p1, p2 = powers[0, kind[g]], powers[1, kind[g]], powers[2, kind[g]]
            factor[:] = 0.0
            for j in range(k):
                if j != i:
                    for q in range(nodes):
                        factor[q] += other[j, g, q]
            for q in range(nodes):
                factor[q] = neutral[g, q] * p0[q] + own[i, g, q] * p1[q] + factor[q] * p2[q]
            for q in range(nodes):
                if product[q] < _SMALL:
                    logs[q] += np.log(product[q])
                    product[q] = 1.0
                product[q] *= factor[q]
        for q in range(nodes):
            logs[q] += np.log(product[q])
