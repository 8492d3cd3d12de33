"""Walker's alias tables: a draw from any finite distribution costs one uniform number and no branch.

References
----------
M. D. Vose. A linear algorithm for generating random numbers with a given distribution. IEEE Transactions on Software
Engineering 17, 1991.
"""

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def lay_alias(weights, stack, keep, alias):
    """Fill keep and alias: column z, drawn uniformly, stands for z with probability keep[z] and else for alias[z].

    weights need not add up to one; stack is room for as many integers: poor columns from the left, rich from the right.
    """
    size = weights.shape[0]
    scale = size / weights.sum()
    poor, rich = 0, size
    for z in range(size):
        keep[z] = weights[z] * scale
        alias[z] = z
        if keep[z] < 1.0:
            stack[poor] = z
            poor += 1
        else:
            rich -= 1
            stack[rich] = z
    while poor > 0 and rich < size:
        poor -= 1
        z, donor = stack[poor], stack[rich]
        alias[z] = donor
        keep[donor] -= 1.0 - keep[z]
        if keep[donor] < 1.0:
            rich += 1
            stack[poor] = donor
            poor += 1
    # the poor that rounding leaves over are full
    for i in range(poor):
        keep[stack[i]] = 1.0


@njit(inline="always")
def pick(keep, alias, row, u):
    """The column that the uniform number u in [0, 1) draws from a row of tables.

    Both candidates are loaded, so that no branch is guessed; a slice of the tables would be counted in and out.
    """
    x = u * keep.shape[1]
    z = np.uint64(np.int64(x))
    other = np.uint64(alias[row, z])
    return z if x - np.float64(np.int64(z)) < keep[row, z] else other
