"""Walker's alias tables: a draw from any finite distribution costs one uniform number and no branch.

References
----------
M. D. Vose. A linear algorithm for generating random numbers with a given distribution. IEEE Transactions on Software
Engineering 17, 1991.
"""

import numpy as np
from numba import njit

_SIGN = np.uint64(63)


@njit(nogil=True, cache=True)
def lay_alias(weights, stack, keep, alias):
    """Fill keep and alias: column z, drawn uniformly, stands for alias[z, 1] = z with probability keep[z], else for
    alias[z, 0].

    weights need not add up to one; stack is room for as many integers: poor columns from the left, rich from the right.
    """
    size, total = weights.shape[0], 0.0
    for z in range(size):
        total += weights[z]
    scale = size / total
    poor, rich = 0, size
    for z in range(size):
        keep[z] = weights[z] * scale
        alias[z, 0] = alias[z, 1] = z
        if keep[z] < 1.0:
            stack[poor] = z
            poor += 1
        else:
            rich -= 1
            stack[rich] = z
    while poor > 0 and rich < size:
        poor -= 1
        z, donor = stack[poor], stack[rich]
        alias[z, 0] = donor
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

    The sign of a difference says where to look, so that no branch is guessed, which would be in vain half of the time;
    a slice of the tables would be counted in and out.
    """
    x = u * keep.shape[1]
    z = np.int64(x)
    at = np.uint64(z)
    kept = np.float64(x - np.float64(z) - keep[row, at]).view(np.uint64) >> _SIGN
    return alias[row, at, kept]
