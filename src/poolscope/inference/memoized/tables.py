r"""Memoized responses from a small output space: the posterior of the pools by tables of responses.

A device draws one permanent response :math:`a_s` for each slot s. Given the *table* of all of them and the behavior,
reports are independent, and the objects behind them sum out:

.. math:: \Pr[\text{reports}] = E_a \prod_y \Big(\alpha + \beta \sum_{s: a_s = y} \Phi(s)\Big)^{c_y} ,

with c_y reports of response y, and :math:`\alpha = 0, \beta = 1` where a report is the response itself. With
instantaneous randomized response they are q and p - q. All responses that were never reported are one response here.

For few slots, `exact_response_sum` enumerates all tables (`kernels.memoized_tables`) on a grid of relevant interest and
polarization, with no error but that of the grid. For many slots, tables are sampled. Where two slots rarely share a
response, maps from responses to slots are sampled instead (`response_map_samplers`).
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np
import scipy
from scipy.special import gammaln

from poolscope.core.arrays import Floats, Integers
from poolscope.devices.protocols import IdenticalReports, NoisyValues, ReportLikelihood
from poolscope.inference.adversary import Adversary
from poolscope.kernels.memoized_tables import TILE, sum_tables
from poolscope.population.behavior import Behavior
from poolscope.population.popularity import within_pools
from poolscope.population.priors import Density

#: Probabilities of "any other response" below this are rounding errors.
ROUNDING = 1e-13

#: Multiply-adds up to which all tables are enumerated: a third of a second.
SUM_WORK = 1e9

#: Cost of listing a pair of sets of slots, in multiply-adds; the limit bounds the memory of the list too.
PAIR_WORK = 300

#: Reports up to which products stay in the range of a double.
SUM_REPORTS = 1500

#: Log of the relative error that the grid may leave in an integral.
GRID_ERROR = -10.0


class ResponseCounts(NamedTuple):
    """The reports of one user, as the sums and samplers over tables of permanent responses need them.

    mass : (slots, k + 1) popularity of a slot within each section, of slots with more than one possible response.
    log_response_prob : (slots, responses + 1) log Pr[response | slot] of the reported responses, "any other" last.
    counts : (responses,) reports of each.
    base : (responses, k + 1) mass of slots with one possible response.
    alpha_beta : alpha and beta.
    """

    mass: Floats
    log_response_prob: Floats
    counts: Integers
    base: Floats
    alpha_beta: tuple[float, float]

    @property
    def is_feasible(self) -> bool:
        """Whether the reports are possible: a response that is sent without noise needs a slot of its own."""
        if self.alpha_beta[0] > 0:
            return True
        held = np.isfinite(self.log_response_prob[:, :-1])[:, ~self.base.any(axis=1)]
        if held.all():
            return bool(held.shape[1] <= held.shape[0])
        matched = scipy.sparse.csgraph.maximum_bipartite_matching(scipy.sparse.csr_array(held), perm_type="row")
        return bool((matched >= 0).all())

    @property
    def expected_collisions(self) -> float:
        """An upper bound on the expected number of further slots that have sent a reported response.

        A slot has sent a report with probability at most n times its largest weight. The bound is infinite where
        reports are noisy: then any slot may have sent any of them.
        """
        if self.alpha_beta[0] > 0 or self.base.any():
            return np.inf
        sent = np.minimum(1.0, self.counts.sum() * self.mass.max(axis=1, initial=0.0))
        return float(sent @ np.exp(self.log_response_prob[:, :-1]).sum(axis=1))


class BehaviorGrid(NamedTuple):
    """Nodes of relevant interest and polarization.

    weights : (k, k + 1, nodes) weight of each section, by preferred pool; the neutral section is first.
    prior : (k, nodes) weights of the nodes, times the prior of the pool.
    """

    weights: Floats
    prior: Floats


class SlotLattice(NamedTuple):
    """Sets of slots, by the number of slots of each class.

    digits : (points, classes) these numbers.
    first, lower : (points + 1,) and (pairs,) the points below each point, itself included.
    """

    digits: Integers
    first: Integers
    lower: Integers


def response_counts(evidence: ReportLikelihood, adversary: Adversary) -> ResponseCounts:
    """Return the tables of a device whose reports are responses, or randomized response on them."""
    distribution, within = (
        evidence.distribution,
        within_pools(adversary.universe, adversary.popularity, empty="uniform"),
    )
    sections, slots = adversary.k + 1, int(evidence.slots.max()) + 1
    cells = evidence.slots * sections + adversary.universe.pool_of + 1
    mass = np.bincount(cells, weights=within, minlength=slots * sections).reshape(slots, sections)
    if isinstance(distribution, NoisyValues):
        log_response_prob, counts, alpha_beta = _of_values(distribution)
    else:
        assert isinstance(distribution, IdenticalReports)
        counts, alpha_beta = np.bincount(distribution.response), (0.0, 1.0)
        rest = 1.0 - np.exp(distribution.log_response_prob).sum(axis=0)
        log_response_prob = np.vstack([distribution.log_response_prob, _log(np.where(rest < ROUNDING, 0.0, rest))]).T
    present, choices = mass.any(axis=1), np.isfinite(log_response_prob).sum(axis=1)
    base = np.zeros((len(counts), sections))
    fixed = present & (choices == 1)
    only = log_response_prob[fixed].argmax(axis=1)
    np.add.at(base, only[only < len(counts)], mass[fixed][only < len(counts)])
    free = present & (choices > 1)
    return ResponseCounts(mass[free], log_response_prob[free], counts.astype(np.int64), base, alpha_beta)


def _of_values(distribution: NoisyValues) -> tuple[Floats, Integers, tuple[float, float]]:
    """Return log response probabilities, counts and rates where reports are randomized response on values."""
    (p, q), (sent, other) = distribution.permanent, distribution.instantaneous
    seen, counts = np.unique(distribution.value, return_counts=True)
    rest = (distribution.n_values - len(seen)) * q + np.where(np.isin(distribution.slot_value, seen), 0.0, p - q)
    probability = np.hstack([np.where(distribution.slot_value[:, None] == seen, p, q), rest[:, None]])
    return _log(probability), counts, (other, sent - other)


def exact_response_sum(tables: ResponseCounts, adversary: Adversary) -> Floats | None:
    """Return scores (k,) of the pools by the sum over all tables; None where that is too slow, or overflows."""
    k, n = adversary.k, int(tables.counts.sum())
    classes, members = np.unique(np.hstack([tables.mass, tables.log_response_prob]), axis=0, return_counts=True)
    mass, log_response_prob = classes[:, : k + 1], classes[:, k + 1 :]
    pairs = prod((m + 1) * (m + 2) / 2 for m in members.tolist())
    grid = grid_of(adversary, n)
    if pairs * (PAIR_WORK + len(tables.counts) * grid.prior.size) > SUM_WORK or n > SUM_REPORTS:
        return None
    lattice = _lattice(tuple(members.tolist()))
    # in increasing order: the last response is summed for one set only
    order = np.argsort(tables.counts)
    counts = tables.counts[order]
    distribution = _set_probabilities(lattice.digits, log_response_prob)
    distribution[:-1] = distribution[:-1][order]
    out = np.zeros(k)
    sum_tables(
        lattice.first,
        lattice.lower,
        np.ascontiguousarray(lattice.digits @ mass),
        distribution,
        counts,
        n / counts,
        np.ascontiguousarray(tables.base[order]),
        np.array(tables.alpha_beta),
        grid.weights,
        grid.prior,
        np.empty((4, len(lattice.digits), TILE)),
        out,
    )
    return out if np.isfinite(out).all() and out.sum() > np.finfo(np.float64).tiny / ROUNDING else None


def _set_probabilities(digits: Integers, log_response_prob: Floats) -> Floats:
    """Return (responses + 1, points) Pr[all slots of a set have the response] over factorials.

    Each response is scaled to a largest probability of one: the factor is common to all tables.
    """
    finite = np.isfinite(log_response_prob)
    logs = digits @ np.where(finite, log_response_prob, 0.0) - gammaln(digits + 1.0).sum(axis=1, keepdims=True)
    top = log_response_prob[:, :-1].max(axis=0, initial=-np.inf)
    logs[:, :-1] -= np.where(np.isfinite(top), top, 0.0)
    distributions: Floats = np.where(digits @ ~finite, 0.0, np.exp(logs))
    return np.ascontiguousarray(distributions.T)


@lru_cache(maxsize=4)
def _lattice(members: tuple[int, ...]) -> SlotLattice:
    """Return the lattice of classes with these numbers of slots."""
    digits, above, below = np.zeros((1, 0), dtype=np.int64), np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    for m in members:
        high, low = np.tril_indices(m + 1)
        above, below = ((x[:, None] * (m + 1) + more).ravel() for x, more in ((above, high), (below, low)))
        digits = np.hstack([np.repeat(digits, m + 1, axis=0), np.tile(np.arange(m + 1), len(digits))[:, None]])
    order = np.lexsort((below, above))
    first = np.searchsorted(above[order], np.arange(len(digits) + 1))
    return SlotLattice(digits, first.astype(np.int64), below[order])


def grid_of(adversary: Adversary, n: int) -> BehaviorGrid:
    """Return a grid that resolves n reports."""
    return _grid(adversary.belief, adversary.k, adversary.universe.neutral_size > 0, n)


@lru_cache(maxsize=32)
def _grid(belief: Behavior, k: int, neutral: bool, n: int) -> BehaviorGrid:
    interest, polarization = axes(belief, k, neutral, n, GRID_ERROR)
    prior = np.outer(belief.pool_prior(k), np.outer(interest[2], polarization[2]).ravel())
    return BehaviorGrid(pool_weights(interest, polarization, k), prior)


def pool_weights(interest: Floats, polarization: Floats, k: int) -> Floats:
    """Return (k, k + 1, nodes) weights of the sections by preferred pool, at all nodes of two `axes`."""
    own, other = (np.outer(interest[0], polarization[row]).ravel() for row in (0, 1))
    weights = np.empty((k, k + 1, len(own)))
    weights[:] = other
    weights[:, 0] = np.repeat(interest[1], polarization.shape[1])
    weights[np.arange(k), np.arange(1, k + 1)] = own
    return weights


def axes(belief: Behavior, k: int, neutral: bool, n: int, log_error: float) -> tuple[Floats, Floats]:
    """Return (3, nodes) gamma, 1 - gamma, weight; and (3, nodes) delta, (1 - delta)/(k - 1), weight.

    Without neutral objects the relevant interest is one, whatever its prior.
    """
    x, rest, weight = _rule(belief.polarization, n, log_error)
    delta = np.stack([1.0 / k + (1.0 - 1.0 / k) * x, (1.0 - 1.0 / k) * rest / (k - 1), weight])
    return np.stack(_rule(belief.interest, n, log_error)) if neutral else np.array([[1.0], [0.0], [1.0]]), delta


def _rule(density: Density, n: int, log_error: float) -> tuple[Floats, Floats, Floats]:
    """Return a rule that is exact for degree n, or has that error on the sharpest such polynomial (`quadrature`)."""
    exact, sharpness = (n + 2) // 2, n + 2.0 * density.sharpness
    return density.rule(int(min(exact, max(4.0, np.ceil(np.sqrt(-0.5 * log_error * sharpness))))))


def _log(x: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        logs: Floats = np.log(np.maximum(x, 0.0))
    return logs
