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
def unseen_masses(weights, within, node, draws, unseen, mass, seen):
    """mass[g, q]: sum over objects of their weight times e^(-draws within node); seen[q]: of one less that.

    weights (objects, groups), within (objects,), node (nodes,); unseen (TILE,) is scratch.
    """
    objects, groups = weights.shape
    mass[:] = 0.0
    seen[:] = 0.0
    for first in range(0, node.shape[0], TILE):
        some, total = node[first : first + TILE], seen[first : first + TILE]
        for z in range(objects):
            rate = -draws * within[z]
            for q in range(some.shape[0]):
                unseen[q] = np.exp(rate * some[q])
                total[q] += 1.0 - unseen[q]
            for g in range(groups):
                weight, row = weights[z, g], mass[g, first : first + TILE]
                for q in range(row.shape[0]):
                    row[q] += weight * unseen[q]


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
