r"""What groups of identical reports say about the preferred pool, where no two objects share an answer.

Reports fall into groups g, each the answer that was kept for one object, sent c_g times. Different groups are different
objects, for one object has one answer; so the likelihood is a sum over injective maps from groups to objects,

.. math:: \sum_{\sigma \text{ injective}} \prod_g \Pr[r_g | \sigma(g)] \, \Phi(\sigma(g))^{c_g} ,

a permanent. Two ways to score the pools by it, the integral over relevant interest and polarization included:

`exact_scores` takes the sum as it is. Within a pool it does not depend on the behaviour, so it is taken for every set
of groups and every pool once, and only the number of reports in each pool meets the integral. Time is exponential in
the number of groups.

`occupancy_scores` is for any number of groups. Let objects be drawn a Poisson number of times, which changes the
likelihood by a constant: object z is not seen with probability :math:`e^{-n\Phi(z)}`, or is group g with weight
:math:`\Pr[r_g | z] (n\Phi(z))^{c_g} e^{-n\Phi(z)}`. Taking the groups for points of a Poisson process instead of at
most one for each object gives

.. math:: e^{-\sum_z (1 - e^{-n\Phi(z)})} \prod_g \sum_z \Pr[r_g | z] \, \Phi(z)^{c_g} e^{-n\Phi(z)} .

That an object must come as often as it is popular remains, that it is taken already does not.

References
----------
L. Le Cam. An approximation theorem for the Poisson binomial distribution. Pacific J. Math. 10, 1960.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.special import logsumexp

from poolscope.attack.adversary import Adversary
from poolscope.attack.quadrature import fixed_rule
from poolscope.base.arrays import Floats, Integers
from poolscope.base.errors import InputError
from poolscope.kernels.memory import TILE, bin_moments, injective_sums, log_products, unseen_masses
from poolscope.world.densities import Density
from poolscope.world.popularity import within_pools

#: Objects whose rates n p(z | pool) lie in one interval of this width are summed together, to the second order: each
#: is off by a factor of BIN^3 / 6 at most, which is 2e-4, and mostly by far less. Below BIN an interval ends where it
#: is twice its beginning, as there objects are many, and what is not seen of all of them is one sum.
BIN = 0.1

#: Nodes of an axis that the occupancy is integrated with, one after the other until the posterior moves by less than
#: MOVED: the error that is left is far smaller, as a rule's error falls faster than exponentially.
NODES, MOVED = (12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024), 1e-3


def normalised(log_scores: Floats, adversary: Adversary) -> Floats:
    """Posterior from log scores; reports that the model excludes leave the prior."""
    if np.all(np.isneginf(log_scores)):
        return adversary.belief.pool_prior(adversary.k)
    posterior: Floats = np.exp(log_scores - logsumexp(log_scores))
    return posterior


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
    masses, scale = _masses(log_likelihood, counts, adversary)
    belief, n, before = adversary.belief, int(counts.sum()), None
    enough = max(_enough(belief.interest, n), _enough(belief.polarization, n))
    for nodes in (*(size for size in NODES if size < enough), enough):
        scores = _grid_scores(masses, counts, adversary, nodes) + scale
        posterior = normalised(scores, adversary)
        if before is not None and np.abs(posterior - before).max() < MOVED:
            break
        before = posterior
    return scores


@lru_cache(maxsize=64)
def _enough(density: Density, n: int) -> int:
    """Nodes of an axis that integrate a polynomial of degree n (`quadrature`)."""
    nodes: int = fixed_rule(density, n).shape[1]
    return nodes


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
    mixed: Floats = logsumexp(logs + np.log(weight), axis=1)[which.ravel()]
    return mixed


# On a grid


#: A section's masses (groups + 1, nodes) by the weight of the section, in the last row what is not seen of its objects.
Masses = Callable[[Floats], Floats]


def _masses(log_likelihood: Floats, counts: Integers, adversary: Adversary) -> tuple[list[Masses], float]:
    """The masses of each section, the neutral one first, and the log of what was taken out."""
    weights, scale = _scaled(log_likelihood, counts, adversary)
    weights = np.vstack([weights, np.ones((1, weights.shape[1]))])
    rates = counts.sum() * within_pools(adversary.universe, adversary.popularity, empty="uniform")
    section = adversary.universe.pool_of + 1
    return [_binned(weights, rates, np.flatnonzero(section == j)) for j in range(adversary.k + 1)], scale


def _binned(weights: Floats, rates: Floats, objects: Integers) -> Masses:
    """The masses of some objects, from the weights (groups, universe) and rates (universe,) of all."""
    order = objects[np.argsort(rates[objects], kind="stable")]
    rates = rates[order]
    first = np.append(np.flatnonzero(np.diff(_bins(rates), prepend=np.inf)), len(rates))
    size = np.diff(first)
    mean = np.add.reduceat(rates, first[:-1]) / size if len(rates) else rates
    off = np.repeat(mean, size) - rates
    moments, single = np.empty((len(size), 3, len(weights))), off[first[:-1]] == 0.0
    bin_moments(weights, order, first, off, moments)

    def masses(weight: Floats) -> Floats:
        out = np.empty((len(weights), len(weight)))
        # not by BLAS, whose threads and those of a game would wait for each other
        unseen_masses(moments, mean, single, weight, np.empty((3, TILE)), out)
        return out

    return masses


def _bins(rates: Floats) -> Floats:
    """The interval of each rate, as a number: whole ones from 1 on, below powers of two."""
    share = np.maximum(rates / BIN, 1e-300)
    found: Floats = np.floor(np.where(share >= 1.0, share, np.log2(share)))
    return found


def _grid_scores(masses: list[Masses], counts: Integers, adversary: Adversary, nodes: int) -> Floats:
    """Integral of the product over groups; an object of probability Phi has the factor e^(-n Phi)."""
    k, belief, sections = adversary.k, adversary.belief, adversary.universe.pool_of + 1
    g, not_g, weight_g = _rule(belief.interest, nodes)
    u, not_u, weight_u = _rule(belief.polarization, nodes)
    own = np.outer(g, 1.0 / k + (1.0 - 1.0 / k) * u).ravel()
    other = np.outer(g, (1.0 - 1.0 / k) * not_u / (k - 1)).ravel()
    neutral = np.repeat(not_g, len(u))
    # powers are taken of the share in the largest weight, which is at least a third or so
    top = np.maximum(np.maximum(own, other), neutral)
    sizes, kind = np.unique(counts, return_inverse=True)
    powers = np.stack([(weight / top) ** sizes[:, None] for weight in (neutral, own, other)])
    mass = np.stack([[of_pool(weight) for of_pool in masses[1:]] for weight in (own, other)])
    mass_0 = np.repeat(masses[0](not_g), len(u), axis=-1)
    logs = np.empty((k, len(top)))
    log_products(mass_0[:-1], mass[0, :, :-1], mass[1, :, :-1], kind, powers, np.empty((2, len(top))), logs)
    # the preferred pool's objects are seen by its own weight, the others' by theirs
    unseen, unseen_0 = mass[:, :, -1], mass_0[-1]
    logs += unseen_0 + unseen[1].sum(axis=0) + unseen[0] - unseen[1] - len(sections)
    with np.errstate(divide="ignore"):
        log_base = np.log(np.outer(weight_g, weight_u).ravel()) + counts.sum() * np.log(top)
        scores: Floats = logsumexp(logs + log_base, axis=1) + np.log(belief.pool_prior(k))
        return scores


@lru_cache(maxsize=64)
def _rule(density: Density, nodes: int) -> tuple[Floats, Floats, Floats]:
    return density.rule(nodes)
