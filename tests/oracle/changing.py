"""Posteriors where the preferred pool may change, from the definition: a sum over all paths of pools.

Slow and independent of the package: plain loops, and a Gauss rule on each axis, exact for at most 15 reports.
"""

from itertools import pairwise, product

import numpy as np


def joint(likelihood, rate, returns, prior=None, nodes=8):
    """Probability of the reports and of each path (i_1, ..., i_n) of pools, for uniform gamma and delta."""
    n, k = len(likelihood), len(likelihood[0]) - 1
    prior = [1 / k] * k if prior is None else prior
    x, w = np.polynomial.legendre.leggauss(nodes)
    out = {}
    for path in product(range(k), repeat=n):
        chance, moves = prior[path[0]], 0
        for a, b in pairwise(path):
            if moves and not returns:
                chance *= a == b
            else:
                chance *= 1 - rate if a == b else rate / (k - 1)
            moves += a != b
        total = 0.0
        for gamma, w_g in zip((x + 1) / 2, w / 2, strict=True):
            for delta, w_d in zip(1 / k + (1 - 1 / k) * (x + 1) / 2, w / 2, strict=True):
                product_ = w_g * w_d
                for row, i in zip(likelihood, path, strict=True):
                    others = [row[j + 1] for j in range(k) if j != i]
                    product_ *= (
                        gamma * delta * row[i + 1] + gamma * (1 - delta) * sum(others) / (k - 1) + (1 - gamma) * row[0]
                    )
                total += product_
        out[path] = chance * total
    return out


def history(likelihood, rate, returns, prior=None):
    """Return the posterior of the pool at every report given all (n, k), that of a change, and of the first change."""
    found = joint(likelihood, rate, returns, prior)
    n, k = len(likelihood), len(likelihood[0]) - 1
    total = sum(found.values())
    pool, changed, first = np.zeros((n, k)), 0.0, np.zeros(n)
    for path, mass in found.items():
        for t, i in enumerate(path):
            pool[t, i] += mass / total
        moves = [t for t in range(1, n) if path[t] != path[t - 1]]
        if moves:
            changed += mass / total
            first[moves[0]] += mass / total
    return pool, changed, first, total
