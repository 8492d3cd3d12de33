"""The posterior under Beta priors in closed form, with integers and 60 digits, for many reports at once.

With M the mean over pools, a report's factor for pool i is L0 (1-g) + g (M (1-u) + Li u). The product of n factors is a
polynomial in g, 1-g, u and 1-u, whose coefficients are integers where k L are: they do not depend on the prior. Moments
of a Beta distribution are quotients of rising factorials.
"""

import numpy as np
from mpmath import mp, mpf

DIGITS = 60


def coefficients(likelihood, counts):
    """{n: (k, n + 1, n + 1) integers}: of g^s (1-g)^(n-s) u^r (1-u)^(s-r) in each pool's product of n reports.

    likelihood : (reports, k + 1) integers, the neutral pool first.
    """
    k, found = len(likelihood[0]) - 1, {}
    table = np.ones((k, 1, 1), dtype=object)
    for n, row in enumerate(likelihood[: max(counts)], start=1):
        new = np.zeros((k, n + 1, n + 1), dtype=object)
        new[:, :-1, :-1] += k * int(row[0]) * table
        new[:, 1:, :-1] += int(sum(row[1:])) * table
        new[:, 1:, 1:] += k * np.array([int(value) for value in row[1:]], dtype=object)[:, None, None] * table
        table = found[n] = new
    return {n: found[n] for n in counts}


@mp.workdps(DIGITS)
def posterior(table, interest, polarization):
    """(k,) floats from the coefficients of n reports, with Beta(a, b) priors of g and u."""
    n = table.shape[1] - 1
    g, u = _rising(interest, n), _rising(polarization, n)
    scores = []
    for own in table:
        terms = []
        for s in range(n + 1):
            inner = mp.fsum(int(own[s, r]) * u[0][r] * u[1][s - r] for r in range(s + 1) if own[s, r])
            terms.append(g[0][s] * g[1][n - s] / g[2][n] * inner / u[2][s])
        scores.append(mp.fsum(terms))
    total = mp.fsum(scores)
    return np.array([float(score / total) for score in scores])


@mp.workdps(DIGITS)
def means(table, interest, polarization):
    """Posterior means of g and u over all pools: by the moments of one degree more."""
    n = table.shape[1] - 1
    g, u = _rising(interest, n + 1), _rising(polarization, n + 1)
    total = mean_g = mean_u = mpf(0)
    for own in table:
        for s in range(n + 1):
            for r in range(s + 1):
                if own[s, r]:
                    term = int(own[s, r]) * u[0][r] * u[1][s - r] / u[2][s] * g[0][s] * g[1][n - s] / g[2][n]
                    total += term
                    mean_g += term * (mpf(interest[0]) + s) / (mpf(interest[0]) + mpf(interest[1]) + n)
                    mean_u += term * (mpf(polarization[0]) + r) / (mpf(polarization[0]) + mpf(polarization[1]) + s)
    return float(mean_g / total), float(mean_u / total)


def _rising(parameters, n):
    """Rising factorials of a, b and a + b, up to n factors: E[x^i (1-x)^j] = (a)_i (b)_j / (a+b)_(i+j)."""
    a, b = (mpf(float(value)) for value in parameters)
    out = []
    for base in (a, b, a + b):
        values = [mpf(1)]
        for i in range(n):
            values.append(values[-1] * (base + i))
        out.append(values)
    return out
