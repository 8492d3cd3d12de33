"""Binomial numbers from keyed streams, exact for any n.

References
----------
W. Hörmann. The generation of binomial random variates. J. Stat. Comput. Simul. 46, 1993 (algorithm BTRS).
"""

import math

import numpy as np
from numba import njit

from poolscope.kernels.alias import lay_alias
from poolscope.kernels.random import uniform

_TAIL = np.array(
    [
        0.0810614667953272,
        0.0413406959554092,
        0.0276779256849983,
        0.0207906721037650,
        0.0166446911898211,
        0.0138761288230707,
        0.0118967099458917,
        0.0104112652619720,
        0.00925546218271273,
        0.00833056343336287,
    ]
)


@njit(nogil=True, cache=True)
def _stirling_tail(k):
    """log k! minus Stirling's formula for it."""
    if k <= 9:
        return _TAIL[int(k)]
    square = (k + 1.0) * (k + 1.0)
    return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1.0)


@njit(nogil=True, cache=True)
def _walk(n, p, u):
    """Inversion for n p < 10: walk up the probabilities until they exceed u."""
    ratio = p / (1.0 - p)
    probability = math.exp(n * math.log1p(-p))
    x = 0
    while u > probability and x < n:
        u -= probability
        x += 1
        probability *= ratio * (n + 1 - x) / x
    return x


@njit(nogil=True, cache=True)
def _reject(n, p, key, index):
    """Transformed rejection with squeeze for n p >= 10 and p <= 1/2."""
    spread = math.sqrt(n * p * (1.0 - p))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    c = n * p + 0.5
    squeeze = 0.92 - 4.2 / b
    alpha = (2.83 + 5.1 / b) * spread
    odds = p / (1.0 - p)
    mode = math.floor((n + 1) * p)
    while True:
        u = uniform(key, index) - 0.5
        v = 1.0 - uniform(key, index + 1)
        index += 2
        us = 0.5 - abs(u)
        if us <= 0.0:
            continue
        k = math.floor((2.0 * a / us + b) * u + c)
        if us >= 0.07 and v <= squeeze:
            return np.int64(k), index
        if k < 0 or k > n:
            continue
        v = math.log(v * alpha / (a / (us * us) + b))
        bound = (
            (mode + 0.5) * math.log((mode + 1.0) / (odds * (n - mode + 1.0)))
            + (n + 1.0) * math.log((n - mode + 1.0) / (n - k + 1.0))
            + (k + 0.5) * math.log(odds * (n - k + 1.0) / (k + 1.0))
            + _stirling_tail(mode)
            + _stirling_tail(n - mode)
            - _stirling_tail(k)
            - _stirling_tail(n - k)
        )
        if v <= bound:
            return np.int64(k), index


@njit(nogil=True, cache=True)
def binomial(n, p, key, index):
    """A Binomial(n, p) number and the next free index of the stream."""
    if n <= 0 or p <= 0.0:
        return np.int64(0), index
    if p >= 1.0:
        return np.int64(n), index
    if p > 0.5:
        failures, index = binomial_half(n, 1.0 - p, key, index)
        return n - failures, index
    return binomial_half(n, p, key, index)


@njit(nogil=True, cache=True)
def binomial_half(n, p, key, index):
    """`binomial` for 0 < p <= 1/2."""
    if n * p < 10.0:
        return np.int64(_walk(n, p, uniform(key, index))), index + 1
    return _reject(n, p, key, index)


@njit(nogil=True, cache=True)
def tabulate(first, p, probabilities, stack, starts, keep, alias):
    """Alias tables of Binomial(first + r, p) for every row r of `keep`.

    Column z of row r is the value starts[r] + z; what is left out on either side is below the resolution of a uniform
    number. probabilities and stack (int64) are room for one row.
    """
    rows, width = keep.shape
    for r in range(rows):
        n = first + r
        begin = max(0, math.floor(n * p) - width // 2)
        log_first = (
            math.lgamma(n + 1.0)
            - math.lgamma(begin + 1.0)
            - math.lgamma(n - begin + 1.0)
            + begin * math.log(p)
            + (n - begin) * math.log1p(-p)
        )
        probability = math.exp(log_first)
        for i in range(width):
            probabilities[i] = probability
            k = begin + i
            probability *= (n - k) / (k + 1.0) * p / (1.0 - p) if k < n else 0.0
        lay_alias(probabilities, stack, keep[r], alias[r])
        starts[r] = begin
