r"""What groups of identical reports say about the preferred pool, where no two objects share an answer.

Reports fall into groups g, each the answer that was kept for one object, sent c_g times. Different groups are different
objects, for one object has one answer; so the likelihood is a sum over injective maps from groups to objects,

.. math:: \sum_{\sigma \text{ injective}} \prod_g \Pr[r_g | \sigma(g)] \, \Phi(\sigma(g))^{c_g} ,

a permanent. Two ways to score the pools by it, the integral over relevant interest and polarization included:

`exact_scores` takes the sum as it is. Within a pool it does not depend on the behaviour, so it is taken for every set
of groups and every pool once, and only the number of reports in each pool meets the integral. Time is exponential in
the number of groups.

`occupancy_scores` is for any number of groups (`occupancy`).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import logsumexp

from poolscope.core.arrays import Floats, Integers
from poolscope.core.errors import InputError
from poolscope.inference.adversary import Adversary
from poolscope.inference.memoized.occupancy import occupancy_of
from poolscope.inference.quadrature import fixed_rule
from poolscope.kernels.memoized_occupancy import injective_sums
from poolscope.population.popularity import within_pools


def exact_scores(log_likelihood: Floats, counts: Integers, adversary: Adversary) -> Floats:
    """Log scores (k,) by the sum over all injective maps, for at most a dozen groups."""
    counts, k = _checked(log_likelihood, counts, adversary), adversary.k
    if len(counts) > 12:
        raise InputError("the exact sum is for at most 12 groups of reports", value=len(counts))
    weights, scale = _scaled(log_likelihood, counts, adversary)
    section = adversary.universe.pool_of + 1
    sums = np.empty((k + 1, 1 << len(counts)))
    for j in range(k + 1):
        injective_sums(np.ascontiguousarray(weights[:, section == j]), sums[j])
    neutral, own, rest = _three_sets(len(counts))
    size = _sizes(counts)
    held = _log_integrals(size[neutral], size[own], size[rest], adversary)
    out = np.empty(k)
    with np.errstate(divide="ignore"):
        for i in range(k):
            others = _together([sums[j + 1] for j in range(k) if j != i])
            terms = np.log(sums[0][neutral]) + np.log(sums[i + 1][own]) + np.log(others[rest])
            out[i] = logsumexp(terms + held)
        return out + scale + np.log(adversary.belief.pool_prior(k))


def occupancy_scores(log_likelihood: Floats, counts: Integers, adversary: Adversary) -> Floats:
    """Log scores (k,) with the groups as points of a Poisson process, on finer and finer grids until they stand."""
    counts = _checked(log_likelihood, counts, adversary)
    weights, scale = _scaled(log_likelihood, counts, adversary)
    occupancy = occupancy_of(adversary, int(counts.sum()))
    return occupancy.settled(occupancy.moments(weights), counts)[2] + scale


def _checked(log_likelihood: Floats, counts: Integers, adversary: Adversary) -> Integers:
    counts = np.asarray(counts, dtype=np.int64)
    expected = len(counts), adversary.universe.size
    if counts.ndim != 1 or np.shape(log_likelihood) != expected or np.any(counts < 1):
        raise InputError("log_likelihood must be (groups, universe), counts at least 1", value=np.shape(log_likelihood))
    return counts


def _scaled(log_likelihood: Floats, counts: Integers, adversary: Adversary) -> tuple[Floats, float]:
    """Pr[report | z] p(z | pool)^c of each group, the largest scaled to one, and the log of what was taken out."""
    within = within_pools(adversary.universe, adversary.popularity, empty="uniform")
    with np.errstate(divide="ignore"):
        logs = log_likelihood + counts[:, None] * np.log(within)
    top = logs.max(axis=1, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0.0)
    return np.exp(logs - top), float(top.sum())


# Exact


@lru_cache(maxsize=16)
def _three_sets(groups: int) -> tuple[Integers, Integers, Integers]:
    """All ways to put each group into one of three sets, as the sets' bits."""
    sets = np.zeros((3, 1), dtype=np.int64)
    for g in range(groups):
        sets = np.concatenate([sets | (np.eye(3, dtype=np.int64)[:, [i]] << g) for i in range(3)], axis=1)
    return sets[0], sets[1], sets[2]


@lru_cache(maxsize=16)
def _two_sets(groups: int) -> tuple[Integers, Integers]:
    """All pairs of disjoint sets of groups."""
    left, right, _ = _three_sets(groups)
    return left, right


def _together(sums: list[Floats]) -> Floats:
    """The sums over a union of pools: a set of groups is split between them in every way."""
    left, right = _two_sets(len(sums[0]).bit_length() - 1)
    total = sums[0]
    for more in sums[1:]:
        split = total[left] * more[right]
        total = np.bincount(left | right, weights=split, minlength=len(total)).astype(np.float64)
    return total


def _sizes(counts: Integers) -> Integers:
    """Reports of every set of groups."""
    out = np.zeros(1, dtype=np.int64)
    for count in counts:
        out = np.concatenate([out, out + count])
    return out


def _log_integrals(neutral: Integers, own: Integers, rest: Integers, adversary: Adversary) -> Floats:
    """Log of E[(1-gamma)^neutral (gamma delta)^own (gamma (1-delta)/(k-1))^rest], for reports that add up to n each."""
    k, n = adversary.k, int(neutral[0] + own[0] + rest[0])
    g, not_g, weight = fixed_rule(adversary.belief.interest, n)[:3]
    u, not_u, weight_u = fixed_rule(adversary.belief.polarization, n)[:3]
    delta, other = 1.0 / k + (1.0 - 1.0 / k) * u, (1.0 - 1.0 / k) * not_u / (k - 1)
    return _log_moments(n - neutral, neutral, g, not_g, weight) + _log_moments(own, rest, delta, other, weight_u)


def _log_moments(a: Integers, b: Integers, x: Floats, y: Floats, weight: Floats) -> Floats:
    """Log of the mean of x^a y^b; many exponents are the same."""
    pairs, which = np.unique(np.stack([a, b], axis=1), axis=0, return_inverse=True)
    logs = pairs @ np.log(np.stack([x, y]))
    some = weight > 0
    mixed: Floats = logsumexp(logs[:, some] + np.log(weight[some]), axis=1)[which.ravel()]
    return mixed
