r"""The attack on devices that memoize, by adversaries who know of it and by others.

What groups of identical reports say about the preferred pool, where no two objects share an answer.

Reports fall into groups g, each the answer that was kept for one object, sent c_g times. Different groups are different
objects, for one object has one answer; so the likelihood is a sum over injective maps from groups to objects,

.. math:: \sum_{\sigma \text{ injective}} \prod_g \Pr[r_g | \sigma(g)] \, \Phi(\sigma(g))^{c_g} ,

a permanent. Two ways to score the pools by it, the integral over relevant interest and polarization included:

`exact_scores` takes the sum as it is. Within a pool it does not depend on the behavior, so it is taken for every set
of groups and every pool once, and only the number of reports in each pool meets the integral. Time is exponential in
the number of groups.

`occupancy_scores` is for any number of groups (`occupancy`).

The attack on devices that keep their answers, by adversaries who know of it and by others.
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
from poolscope.devices.policy import ReportBatch
from poolscope.devices.protocols import Bits, Evidence, Identical, MemoizingDevice
from poolscope.inference.adversary import Adversary
from poolscope.inference.independent import Posteriors, lengths_of, posterior_of_each
from poolscope.inference.memoized.chains import Found, memoized_posterior
from poolscope.inference.memoized.occupancy import normalized, occupancy_of
from poolscope.inference.memoized.table_samplers import allocated_posterior, tempered_posterior
from poolscope.inference.memoized.tables import Tables, table_sum, tables_of
from poolscope.inference.posterior import not_a_number
from poolscope.inference.quadrature import fixed_rule
from poolscope.kernels.memoized_occupancy import injective_sums
from poolscope.mechanisms.protocols import Reports, report_count
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


#: Users whose posteriors are worked out at once, by each thread: one takes a tenth of a second and more.
CHUNK = 8

#: Groups of identical reports up to which all that they can be is summed: 3^10 terms a pool, a tenth of a second.
EXACT = 10

#: Groups times objects above which there is no time to sample what the groups can be.
CELLS = 100_000

#: Where fewer further slots than this are expected to have sent a reported response, none is taken to have. The stated
#: error is that expected number at least, unless it is negligible.
SHARED, NEGLIGIBLE = 0.01, 1e-6


@dataclass(frozen=True, eq=False)
class MemoizedReportsAttack:
    """Whoever knows of the memory groups reports by their answer; to others every report stands alone."""

    device: MemoizingDevice

    #: A user takes long: more to a block would be lost with it.
    max_users: ClassVar[int] = 512
    prepared: ClassVar[float] = 0.0

    def posterior(
        self, reports: Reports, adversary: Adversary, lengths: Integers | None, observations: Sequence[int] | None
    ) -> Floats:
        if not adversary.knows_memoization:
            return posterior_of_each(self.device.mechanism, reports, adversary, lengths, observations)
        return grouped_posterior(self.device, reports, adversary, lengths, observations).posterior

    def posteriors(
        self,
        sent: ReportBatch,
        keys: Keys,
        adversaries: Sequence[Adversary],
        observations: Sequence[int],
        engine: Local,
        tick: Tick,
    ) -> list[Posteriors]:
        """Reports are made for the users asked for, and again for the next adversary: that costs little beside the
        attack. Whoever knows of the memory attacks at the observation counts, and thinks of it until the next; it
        takes the reports of all pseudonyms together, as the answers that are kept link them."""

        def each(adversary: Adversary) -> Posteriors:
            def some(rows: slice) -> tuple[Floats, None]:
                mine = sent[rows]
                reports, after_each = mine.reports(self.device, keys[rows]), range(mine.objects.shape[1] + 1)
                mechanism = self.device.mechanism
                return posterior_of_each(
                    mechanism, reports, adversary, mine.lengths, after_each, sent.rotate_after
                ), None

            return Posteriors(some, CHUNK, sent.rotate_after)

        def grouped(adversary: Adversary) -> Posteriors:
            def some(rows: slice) -> Found:
                mine = sent[rows]
                reports, (users, n) = mine.reports(self.device, keys[rows]), mine.objects.shape
                posterior, error = np.zeros((2, users, n + 1, adversary.k))
                posterior[:] = adversary.belief.pool_prior(adversary.k)
                starts, counts = np.cumsum(mine.lengths) - mine.lengths, mine.counts(observations)
                for user, (start, size) in enumerate(zip(starts, mine.lengths, strict=True)):
                    own = {name: np.asarray(column)[start : start + size] for name, column in reports.items()}
                    found = grouped_posterior(self.device, own, adversary, None, counts[user].tolist())
                    for row, count in enumerate(counts[user]):
                        posterior[user, count:] = found.posterior[0, row]
                        error[user, count:] = found.error[0, row]
                return Found(posterior, error)

            return Posteriors(some, CHUNK, sampled=True)

        return [(grouped if adversary.knows_memoization else each)(adversary) for adversary in adversaries]


def grouped_posterior(
    device: MemoizingDevice,
    reports: Reports,
    adversary: Adversary,
    lengths: Integers | None,
    observations: Sequence[int] | None,
) -> Found:
    """Posteriors (users, rows, k) from the answers that each user's reports come from, see `attack.posterior`."""
    if adversary.belief.none:
        remedy = "give the adversary no prior.none, or knows_memoization = false"
        raise InputError("memoized reports must be attacked without the hypothesis none", remedy=remedy)
    sizes = lengths_of(lengths, report_count(reports))
    counts = np.arange(sizes.max(initial=0) + 1) if observations is None else np.asarray(observations, dtype=np.int64)
    posterior, error = np.empty((2, len(sizes), len(counts), adversary.k))
    for user, (start, size) in enumerate(zip(np.cumsum(sizes) - sizes, sizes, strict=True)):
        used = np.minimum(counts, size)
        # chains begin anew for each count, but what reports say of objects is the same
        most = int(used.max(initial=0))
        own = {name: np.asarray(column)[start : start + most] for name, column in reports.items()}
        evidence = device.evidence(own) if most > 0 else None
        for count in np.unique(used):
            found = _without_chance(adversary.belief.pool_prior(adversary.k))
            if evidence is not None and count > 0:
                first = {name: column[:count] for name, column in own.items()}
                if count == 1:
                    # one report says the same whether or not its response is memoized
                    found = _without_chance(posterior_of_each(device.mechanism, first, adversary, None, [1])[0, 0])
                else:
                    found = _found(evidence.first(int(count)), adversary, _key(first))
                if np.isnan(found.posterior).any():
                    raise not_a_number(f"the posterior of a user after {count} reports of memoized responses")
            posterior[user, used == count], error[user, used == count] = found
    return Found(posterior, error)


def found_by(device: MemoizingDevice, reports: Reports, adversary: Adversary) -> Found:
    """What the reports of one user say.

    Chance hangs from the reports, so that it is the same wherever they are.
    """
    return Found(*(x[0, 0] for x in grouped_posterior(device, reports, adversary, None, [report_count(reports)])))


def _found(evidence: Evidence, adversary: Adversary, key: np.uint64) -> Found:
    """The law and the sizes of the device choose the method; see docs/memory.md for where each is the best."""
    if isinstance(evidence.distribution, Bits):
        return memoized_posterior(evidence, adversary, key)
    tables = tables_of(evidence, adversary)
    if not tables.possible:
        return _without_chance(adversary.belief.pool_prior(adversary.k))
    scores = table_sum(tables, adversary)
    if scores is not None:
        return _without_chance(scores / scores.sum())
    sharing = tables.sharing
    if sharing > SHARED:
        return tempered_posterior(tables, adversary, key)
    posterior, error = _of_groups(evidence, tables, adversary, key)
    return Found(posterior, np.hypot(error, sharing if sharing > NEGLIGIBLE else 0.0))


def _of_groups(evidence: Evidence, tables: Tables, adversary: Adversary, key: np.uint64) -> Found:
    """Where identical reports are one slot's: the sum over what they can be, samples of it, or the occupancy."""
    distribution = evidence.distribution
    assert isinstance(distribution, Identical)
    groups, slots = distribution.log_response_prob.shape
    if slots == len(evidence.slots) and (groups <= EXACT or groups * slots > CELLS):
        scores = exact_scores if groups <= EXACT else occupancy_scores
        return _without_chance(
            normalized(scores(distribution.log_response_prob, np.bincount(distribution.answer), adversary), adversary)
        )
    return allocated_posterior(tables, adversary, key)


def _without_chance(posterior: Floats) -> Found:
    return Found(posterior, np.zeros(len(posterior)))


def _key(reports: Reports) -> np.uint64:
    digest = hashlib.blake2b(digest_size=8)
    for name in sorted(reports):
        column = np.asarray(reports[name])
        digest.update(np.ascontiguousarray(column.astype(np.int64) if column.ndim == 1 else column).tobytes())
    return np.uint64(int.from_bytes(digest.digest(), "little"))
