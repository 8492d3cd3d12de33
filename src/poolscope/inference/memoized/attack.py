r"""The attack on devices that memoize responses, by adversaries who know of it and by others.

**Identical reports.** Where a report is its memoized response, reports fall into groups g, each the response to one
object, sent c_g times. Where no two objects share a response, different groups are different objects. The likelihood is
then a sum over injective maps from groups to objects, a permanent:

.. math:: \sum_{\sigma \text{ injective}} \prod_g \Pr[r_g | \sigma(g)] \, \Phi(\sigma(g))^{c_g} .

There are two ways to score the pools by it, both with the integral over relevant interest and polarization.

`exact_scores` computes the sum. Within a pool it is independent of the behavior, so that it is computed once for every
set of groups and every pool. Only the number of reports in each pool enters the integral. Time is exponential in the
number of groups.

`occupancy_scores` is an approximation for any number of groups (`occupancy`).

**Shared responses and noisy reports.** `tables` and `response_map_samplers` handle responses that slots share, and
`chains` handles noisy bit vectors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from scipy.special import logsumexp

from poolscope.core.arrays import Floats, Integers, Keys, Tick
from poolscope.core.errors import InputError
from poolscope.core.executors import Local
from poolscope.devices.policy import ReportedEvents
from poolscope.devices.protocols import IdenticalReports, MemoizingDevice, NoisyBits, ReportLikelihood
from poolscope.inference.adversary import Adversary
from poolscope.inference.independent import BlockPosteriors, lengths_of, posterior_of_independent_reports
from poolscope.inference.memoized.chains import PosteriorEstimate, memoized_posterior
from poolscope.inference.memoized.occupancy import normalized, occupancy_of
from poolscope.inference.memoized.response_map_samplers import allocated_posterior, tempered_posterior
from poolscope.inference.memoized.tables import ResponseCounts, exact_response_sum, response_counts
from poolscope.inference.posterior import not_a_number
from poolscope.inference.quadrature import fixed_rule
from poolscope.kernels.memoized_occupancy import injective_sums
from poolscope.mechanisms.protocols import Reports, report_count
from poolscope.population.popularity import within_pools


def exact_scores(log_likelihood: Floats, counts: Integers, adversary: Adversary) -> Floats:
    """Return log scores (k,) by the sum over all injective maps, for at most a dozen groups."""
    counts, k = _checked(log_likelihood, counts, adversary), adversary.k
    if len(counts) > 12:
        raise InputError("the exact sum is for at most 12 groups of reports", value=len(counts))
    weights, scale = _scaled(log_likelihood, counts, adversary)
    section = adversary.universe.pool_of + 1
    sums = np.empty((k + 1, 1 << len(counts)))
    for j in range(k + 1):
        injective_sums(np.ascontiguousarray(weights[:, section == j]), sums[j])
    neutral, own, rest = _three_way_splits(len(counts))
    size = _sizes(counts)
    held = _log_integrals(size[neutral], size[own], size[rest], adversary)
    out = np.empty(k)
    with np.errstate(divide="ignore"):
        for i in range(k):
            others = _union_sums([sums[j + 1] for j in range(k) if j != i])
            terms = np.log(sums[0][neutral]) + np.log(sums[i + 1][own]) + np.log(others[rest])
            out[i] = logsumexp(terms + held)
        return out + scale + np.log(adversary.belief.pool_prior(k))


def occupancy_scores(log_likelihood: Floats, counts: Integers, adversary: Adversary) -> Floats:
    """Return log scores (k,) by the occupancy approximation, on finer and finer grids until they converge."""
    counts = _checked(log_likelihood, counts, adversary)
    weights, scale = _scaled(log_likelihood, counts, adversary)
    occupancy = occupancy_of(adversary, int(counts.sum()))
    return occupancy.converged(occupancy.moments(weights), counts)[2] + scale


def _checked(log_likelihood: Floats, counts: Integers, adversary: Adversary) -> Integers:
    """Validate the shapes, and return the counts as integers."""
    counts = np.asarray(counts, dtype=np.int64)
    expected = len(counts), adversary.universe.size
    if counts.ndim != 1 or np.shape(log_likelihood) != expected or np.any(counts < 1):
        raise InputError("log_likelihood must be (groups, universe), counts at least 1", value=np.shape(log_likelihood))
    return counts


def _scaled(log_likelihood: Floats, counts: Integers, adversary: Adversary) -> tuple[Floats, float]:
    """Return Pr[report | z] p(z | pool)^c of each group, the largest scaled to one, and the log of the scale."""
    within = within_pools(adversary.universe, adversary.popularity, empty="uniform")
    with np.errstate(divide="ignore"):
        logs = log_likelihood + counts[:, None] * np.log(within)
    top = logs.max(axis=1, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0.0)
    return np.exp(logs - top), float(top.sum())


@lru_cache(maxsize=16)
def _three_way_splits(groups: int) -> tuple[Integers, Integers, Integers]:
    """Return all ways to split the groups into three sets, as bit masks."""
    sets = np.zeros((3, 1), dtype=np.int64)
    for g in range(groups):
        sets = np.concatenate([sets | (np.eye(3, dtype=np.int64)[:, [i]] << g) for i in range(3)], axis=1)
    return sets[0], sets[1], sets[2]


@lru_cache(maxsize=16)
def _disjoint_pairs(groups: int) -> tuple[Integers, Integers]:
    """Return all pairs of disjoint sets of groups."""
    left, right, _ = _three_way_splits(groups)
    return left, right


def _union_sums(sums: list[Floats]) -> Floats:
    """Return the sums over a union of pools: a set of groups is split between them in every way."""
    left, right = _disjoint_pairs(len(sums[0]).bit_length() - 1)
    total = sums[0]
    for more in sums[1:]:
        split = total[left] * more[right]
        total = np.bincount(left | right, weights=split, minlength=len(total)).astype(np.float64)
    return total


def _sizes(counts: Integers) -> Integers:
    """Return the reports of every set of groups."""
    out = np.zeros(1, dtype=np.int64)
    for count in counts:
        out = np.concatenate([out, out + count])
    return out


def _log_integrals(neutral: Integers, own: Integers, rest: Integers, adversary: Adversary) -> Floats:
    """Return log E[(1-gamma)^neutral (gamma delta)^own (gamma (1-delta)/(k-1))^rest], where the three add up to n."""
    k, n = adversary.k, int(neutral[0] + own[0] + rest[0])
    g, not_g, weight = fixed_rule(adversary.belief.interest, n)[:3]
    u, not_u, weight_u = fixed_rule(adversary.belief.polarization, n)[:3]
    delta, other = 1.0 / k + (1.0 - 1.0 / k) * u, (1.0 - 1.0 / k) * not_u / (k - 1)
    return _log_moments(n - neutral, neutral, g, not_g, weight) + _log_moments(own, rest, delta, other, weight_u)


def _log_moments(a: Integers, b: Integers, x: Floats, y: Floats, weight: Floats) -> Floats:
    """Return log E[x^a y^b]; many exponents coincide."""
    pairs, which = np.unique(np.stack([a, b], axis=1), axis=0, return_inverse=True)
    logs = pairs @ np.log(np.stack([x, y]))
    some = weight > 0
    mixed: Floats = logsumexp(logs[:, some] + np.log(weight[some]), axis=1)[which.ravel()]
    return mixed


#: Users that a thread processes at a time, where reports are independent to the adversary. Otherwise one at a time, as
#: sampling takes a tenth of a second or more, and few users may meet an estimate of the popularity.
CHUNK = 8

#: Groups of identical reports up to which the sum is exact: 3^10 terms per pool, a tenth of a second.
EXACT = 10

#: Groups times objects above which sampling maps takes too long.
CELLS = 100_000

#: Largest `ResponseCounts.expected_collisions` up to which responses count as
#: unshared. The stated error is at least that number, unless it is negligible.
SHARED, NEGLIGIBLE = 0.01, 1e-6


@dataclass(frozen=True, eq=False)
class MemoizedReportsAttack:
    """Group reports by memoized response for adversaries who know of memoization; else treat reports as independent."""

    device: MemoizingDevice

    #: Blocks are small, as a user takes long: an interrupted run loses its unfinished blocks.
    max_users: ClassVar[int] = 512
    precomputed_share: ClassVar[float] = 0.0

    def posterior(
        self, reports: Reports, adversary: Adversary, lengths: Integers | None, observations: Sequence[int] | None
    ) -> Floats:
        if not adversary.knows_memoization:
            return posterior_of_independent_reports(self.device.mechanism, reports, adversary, lengths, observations)
        return memoized_posterior_by_user(self.device, reports, adversary, lengths, observations).posterior

    def posteriors(
        self,
        sent: ReportedEvents,
        keys: Keys,
        adversaries: Sequence[Adversary],
        observations: Sequence[int],
        engine: Local,
        tick: Tick,
    ) -> list[BlockPosteriors]:
        """Return what each adversary infers from the reports of a block of devices.

        Reports are generated for the requested users, and again for the next adversary: that is cheap beside the
        attack. An adversary who knows of memoization attacks at the observation counts, and its posterior stays until
        the next count. It uses the reports of all pseudonyms together, as memoized responses link them.
        """

        def each(adversary: Adversary) -> BlockPosteriors:
            def compute(rows: slice) -> tuple[Floats, None]:
                mine = sent[rows]
                reports, after_each = mine.reports(self.device, keys[rows]), range(mine.objects.shape[1] + 1)
                mechanism = self.device.mechanism
                return posterior_of_independent_reports(
                    mechanism, reports, adversary, mine.lengths, after_each, sent.rotate_after
                ), None

            return BlockPosteriors(compute, CHUNK, sent.rotate_after)

        def grouped(adversary: Adversary) -> BlockPosteriors:
            def compute(rows: slice) -> PosteriorEstimate:
                mine = sent[rows]
                reports, (users, n) = mine.reports(self.device, keys[rows]), mine.objects.shape
                posterior, error = np.zeros((2, users, n + 1, adversary.k))
                posterior[:] = adversary.belief.pool_prior(adversary.k)
                starts, counts = np.cumsum(mine.lengths) - mine.lengths, mine.counts(observations)
                for user, (start, size) in enumerate(zip(starts, mine.lengths, strict=True)):
                    own = {name: np.asarray(column)[start : start + size] for name, column in reports.items()}
                    found = memoized_posterior_by_user(self.device, own, adversary, None, counts[user].tolist())
                    for row, count in enumerate(counts[user]):
                        posterior[user, count:] = found.posterior[0, row]
                        error[user, count:] = found.error[0, row]
                return PosteriorEstimate(posterior, error)

            return BlockPosteriors(compute, 1, sampled=True)

        return [(grouped if adversary.knows_memoization else each)(adversary) for adversary in adversaries]


def memoized_posterior_by_user(
    device: MemoizingDevice,
    reports: Reports,
    adversary: Adversary,
    lengths: Integers | None,
    observations: Sequence[int] | None,
) -> PosteriorEstimate:
    """Return posteriors (users, rows, k) by grouping reports by memoized response; see `attack.posterior`."""
    if adversary.belief.none:
        remedy = "give the adversary no prior.none, or knows_memoization = false"
        raise InputError("memoized reports must be attacked without the hypothesis none", remedy=remedy)
    sizes = lengths_of(lengths, report_count(reports))
    counts = np.arange(sizes.max(initial=0) + 1) if observations is None else np.asarray(observations, dtype=np.int64)
    posterior, error = np.empty((2, len(sizes), len(counts), adversary.k))
    for user, (start, size) in enumerate(zip(np.cumsum(sizes) - sizes, sizes, strict=True)):
        used = np.minimum(counts, size)
        # chains restart for each count, while the likelihood of the reports is computed once
        longest = int(used.max(initial=0))
        own = {name: np.asarray(column)[start : start + longest] for name, column in reports.items()}
        evidence = device.likelihood(own) if longest > 0 else None
        for count in np.unique(used):
            found = _exact(adversary.belief.pool_prior(adversary.k))
            if evidence is not None and count > 0:
                first = {name: column[:count] for name, column in own.items()}
                if count == 1:
                    # the likelihood of a single report is the same with and without memoization
                    found = _exact(
                        posterior_of_independent_reports(device.mechanism, first, adversary, None, [1])[0, 0]
                    )
                else:
                    found = _estimate(evidence.first(int(count)), adversary, _key(first))
                if np.isnan(found.posterior).any():
                    raise not_a_number(f"the posterior of a user after {count} reports of memoized responses")
            posterior[user, used == count], error[user, used == count] = found
    return PosteriorEstimate(posterior, error)


def user_posterior(device: MemoizingDevice, reports: Reports, adversary: Adversary) -> PosteriorEstimate:
    """Return the posterior of one user after all reports.

    The key of the random numbers is a hash of the reports, so that the same reports always give the same posterior.
    """
    return PosteriorEstimate(
        *(x[0, 0] for x in memoized_posterior_by_user(device, reports, adversary, None, [report_count(reports)]))
    )


def _estimate(evidence: ReportLikelihood, adversary: Adversary, key: np.uint64) -> PosteriorEstimate:
    """Choose the method by the output space and the sizes; docs/results/memoization-study.md compares the methods."""
    if isinstance(evidence.distribution, NoisyBits):
        return memoized_posterior(evidence, adversary, key)
    tables = response_counts(evidence, adversary)
    if not tables.is_feasible:
        return _exact(adversary.belief.pool_prior(adversary.k))
    scores = exact_response_sum(tables, adversary)
    if scores is not None:
        return _exact(scores / scores.sum())
    expected_collisions = tables.expected_collisions
    if expected_collisions > SHARED:
        return tempered_posterior(tables, adversary, key)
    posterior, error = _estimate_by_groups(evidence, tables, adversary, key)
    return PosteriorEstimate(
        posterior, np.hypot(error, expected_collisions if expected_collisions > NEGLIGIBLE else 0.0)
    )


def _estimate_by_groups(
    evidence: ReportLikelihood, tables: ResponseCounts, adversary: Adversary, key: np.uint64
) -> PosteriorEstimate:
    """Return the posterior where no two slots share a response: exact, sampled, or by the occupancy approximation."""
    distribution = evidence.distribution
    assert isinstance(distribution, IdenticalReports)
    groups, slots = distribution.log_response_prob.shape
    if slots == len(evidence.slots) and (groups <= EXACT or groups * slots > CELLS):
        scores = exact_scores if groups <= EXACT else occupancy_scores
        return _exact(
            normalized(scores(distribution.log_response_prob, np.bincount(distribution.response), adversary), adversary)
        )
    return allocated_posterior(tables, adversary, key)


def _exact(posterior: Floats) -> PosteriorEstimate:
    """Return an estimate without a sampling error."""
    return PosteriorEstimate(posterior, np.zeros(len(posterior)))


def _key(reports: Reports) -> np.uint64:
    """Return a hash of the reports."""
    digest = hashlib.blake2b(digest_size=8)
    for name in sorted(reports):
        column = np.asarray(reports[name])
        digest.update(np.ascontiguousarray(column.astype(np.int64) if column.ndim == 1 else column).tobytes())
    return np.uint64(int.from_bytes(digest.digest(), "little"))
