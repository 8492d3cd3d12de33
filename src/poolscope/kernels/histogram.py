"""One-hot vectors with noise on a grid."""

import numpy as np
from numba import njit

from poolscope.kernels.random import uniform

#: Half of the distance of two uniforms: added to one, it is never zero and its logarithm never infinite.
_HALF = 5.551115123125783e-17


@njit(inline="always")
def _two_sided(u, rate, both):
    """The integer k at the quantile u of the law with probabilities in proportion to e^(-rate |k|).

    At or below -m lies e^(-rate m) / (1 + e^-rate) for every m from 0 on, and as much at or above m; `both` is
    1 + e^-rate.
    """
    if u * both < 1.0:
        return -np.floor(-np.log(u * both) / rate)
    return np.floor(-np.log((1.0 - u) * both) / rate)


@njit(nogil=True, cache=True)
def noisy(objects, keys, rate, step, out):
    """out[r, i] = [i is object r] + step * noise; the sum has no sign of zero that would tell what it is a sum of."""
    both = 1.0 + np.exp(-rate)
    for r in range(out.shape[0]):
        for i in range(out.shape[1]):
            noise = _two_sided(uniform(keys[r], i) + _HALF, rate, both) * step
            out[r, i] = (1.0 if i == objects[r] else 0.0) + noise
