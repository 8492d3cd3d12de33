"""Memoized devices by the sum over tables of permanent responses, in floating point: a slow oracle for many reports.

Written from the definition alone. A device draws one permanent response for each slot. Given all of them, the *table*,
reports are independent, so that counts of reports say everything.
"""

from itertools import product

import numpy as np


def section_weights(k, gamma, delta):
    """(pools, nodes, k + 1) the weight of each section if a pool is the preferred one; the neutral section is first."""
    out = np.empty((k, len(gamma), k + 1))
    out[:, :, 0] = 1 - gamma
    out[:, :, 1:] = (gamma * (1 - delta) / (k - 1))[:, None]
    for i in range(k):
        out[i, :, i + 1] = gamma * delta
    return out


def uniform_grid(k, nodes):
    """gamma, delta and weights of a product rule for uniform priors."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    gamma, u = np.meshgrid((x + 1) / 2, (x + 1) / 2, indexing="ij")
    return gamma.ravel(), 1 / k + (1 - 1 / k) * u.ravel(), np.outer(w, w).ravel() / 4


def table_posterior(mass, response, emission, counts, grid=None, prior=None):
    """Posterior (k,) of the pools.

    mass : (slots, k + 1) popularity of each slot within each section.
    response : (slots, responses) Pr[permanent response | slot].
    emission : (responses, reports) Pr[report | permanent response].
    counts : (reports,) how often each report was sent.
    grid : nodes of gamma and delta with their weights; uniform priors where absent. prior : (k,) of the pools.
    """
    slots, k = len(mass), mass.shape[1] - 1
    gamma, delta, weight = uniform_grid(k, 40) if grid is None else grid
    rates = section_weights(k, gamma, delta) @ mass.T
    scores, seen = [], np.flatnonzero(counts)
    for table in product(range(response.shape[1]), repeat=slots):
        drawn = np.prod(response[np.arange(slots), table])
        if drawn == 0:
            continue
        chance = rates @ emission[list(table)][:, seen]
        with np.errstate(divide="ignore"):
            logs = (np.log(chance) * counts[seen]).sum(axis=2) + np.log(weight) + np.log(drawn)
        scores.append(np.logaddexp.reduce(logs, axis=1))
    total = np.logaddexp.reduce(scores, axis=0) + np.log(np.full(k, 1 / k) if prior is None else prior)
    return np.exp(total - np.logaddexp.reduce(total))
