"""Forward recursion over preferred pools that may change, at the nodes of a grid of (gamma, delta)."""

import math

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def filtered(likelihood, prior, gamma, delta, weight, rate, returns, out, changed, log_evidence):
    """Compute the posterior of the current pool after every report of one user.

    Parameters
    ----------
    likelihood : (n, k + 1) of each report under the neutral pool and each pool, up to a factor of the report.
    prior : (k,) of the first preferred pool.
    gamma, delta, weight : (nodes,) the grid.
    rate : probability of a change between two reports, to each other pool equally likely.
    returns : whether pools may change more than once.
    out : (n + 1, k) posterior of the current pool.
    changed : (n + 1,) posterior probability that it has changed.
    log_evidence : (n + 1,) log probability of the reports so far, up to the factors.

    Rows are NaN from an impossible report on.
    """
    n, k = likelihood.shape[0], likelihood.shape[1] - 1
    nodes = gamma.shape[0]
    first, later = np.empty((nodes, k)), np.zeros((nodes, k))
    factor = np.empty(k)
    total = 0.0
    for a in range(nodes):
        for i in range(k):
            first[a, i] = weight[a] * prior[i]
            total += first[a, i]
    # element by element: assigning an array compiles the text of an error about shapes, three times this kernel
    for i in range(k):
        out[0, i] = prior[i]
    changed[0], log_evidence[0] = 0.0, 0.0
    stay, leave = 1.0 - rate, rate / (k - 1)
    for t in range(n):
        all_pools, scale = 0.0, 1.0 / total
        for i in range(k):
            all_pools += likelihood[t, i + 1]
        out[t + 1] = 0.0
        has_changed = 0.0
        for a in range(nodes):
            other = gamma[a] * (1.0 - delta[a]) / (k - 1)
            base = other * all_pools + (1.0 - gamma[a]) * likelihood[t, 0]
            slope = gamma[a] * delta[a] - other
            sum_first, sum_later = 0.0, 0.0
            for i in range(k):
                sum_first += first[a, i]
                sum_later += later[a, i]
            for i in range(k):
                factor[i] = scale * (base + slope * likelihood[t, i + 1])
            for i in range(k):
                x, y = first[a, i], later[a, i]
                if t > 0:
                    y = (stay * y + leave * (sum_later - y) if returns else y) + leave * (sum_first - x)
                    x *= stay
                x *= factor[i]
                y *= factor[i]
                first[a, i], later[a, i] = x, y
                out[t + 1, i] += x + y
                has_changed += y
        total = 0.0
        for i in range(k):
            total += out[t + 1, i]
        if not total > 0.0:
            out[t + 1 :] = np.nan
            changed[t + 1 :] = np.nan
            log_evidence[t + 1 :] = -np.inf
            return
        for i in range(k):
            out[t + 1, i] /= total
        changed[t + 1] = has_changed / total
        log_evidence[t + 1] = log_evidence[t] + math.log(total)
