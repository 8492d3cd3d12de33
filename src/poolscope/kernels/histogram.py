"""Noisy one-hot vectors of histogram encoding."""

from __future__ import annotations

import numpy as np
from numba import njit

from poolscope.kernels.random import uniform

#: Half of the spacing of uniform numbers: added to one, it is never zero and its logarithm is finite.
_HALF = 5.551115123125783e-17


@njit(inline="always")
def _two_sided(u, rate, both):
    """Return the integer k at the quantile u of the two-sided geometric distribution, Pr[k] proportional to e^(-rate
    |k|).

    For m >= 0, Pr[k <= -m] = Pr[k >= m] = e^(-rate m) / (1 + e^-rate); `both` is 1 + e^-rate.
    """
    if u * both < 1.0:
        return -np.floor(-np.log(u * both) / rate)
    return np.floor(-np.log((1.0 - u) * both) / rate)


@njit(nogil=True, cache=True)
def noisy_one_hot(objects, keys, rate, step, out):
    """Compute out[r, i] = [i is object r] + step * noise.

    The sum has no negative zero, which would reveal what it is a sum of.
    """
    both = 1.0 + np.exp(-rate)
    for r in range(out.shape[0]):
        for i in range(out.shape[1]):
            noise = _two_sided(uniform(keys[r], i) + _HALF, rate, both) * step
            out[r, i] = (1.0 if i == objects[r] else 0.0) + noise
