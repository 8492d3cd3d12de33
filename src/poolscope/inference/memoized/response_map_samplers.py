"""Samplers of tables of permanent responses, and of maps from groups of reports to slots.

`tempered_posterior` samples tables where there are too many to enumerate. Each chain runs at several temperatures
(`kernels.memoized_table_chains`). It starts from a table and a behavior drawn from the prior, so that chains are
overdispersed at the start. A pilot of a few chains determines how many sweeps other chains need to reach `TOLERANCE`.
These run at least `MIN_SWEEPS` and at most what `MAX_WORK` allows; only they count. The standard error is between
chains, so that it is large where they have not converged.

`allocated_posterior` is for identical reports that come from one slot each. Identical reports are a *group*. Where two
slots rarely share a response, different groups are different slots, and the likelihood is a sum over injective maps
from groups to slots. Sequential Monte Carlo samples maps (`kernels.memoized_tables`) at nodes of the behavior, which
are drawn in proportion to the occupancy approximation. A sample has an importance weight. Given its map, the posterior
of the pools is exact. Batches of samples are independent, and the standard error is between batches.

References
----------
C. J. Geyer. Markov chain Monte Carlo maximum likelihood. Computing Science and Statistics 23, 1991.
A. Gelman, D. B. Rubin. Inference from iterative simulation using multiple sequences. Statistical Science 7, 1992.
P. Del Moral, A. Doucet, A. Jasra. Sequential Monte Carlo samplers. Journal of the Royal Statistical Society B 68, 2006.
I. Beichl, F. Sullivan. Approximating the permanent via importance sampling with application to the dimer covering
problem. Journal of Computational Physics 149, 1999.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy

from poolscope.core.arrays import Floats, Integers
from poolscope.core.randomness import children, generator
from poolscope.inference.adversary import Adversary
from poolscope.inference.memoized.chains import PosteriorEstimate, mean_and_mcse
from poolscope.inference.memoized.tables import ROUNDING, ResponseCounts, axes, pool_weights
from poolscope.kernels.memoized_table_chains import TableProblem, TableWorkspace, TemperedChain, run
from poolscope.kernels.memoized_tables import Particles, allocate, occupancy_log_likelihood

#: Inverse temperatures of a chain, geometric from 1 to 0.02.
LEVELS = 0.02 ** (np.arange(6) / 5.0)

#: Chains that count, chains of the pilot, and sweeps of the pilot.
CHAINS, PILOT_CHAINS, PILOT_SWEEPS = 12, 4, 16

#: Pairs of slots that a sweep redraws: an upper bound, and as a share of all slots.
MAX_PAIRS, PAIR_SHARE = 32, 1.5

#: Redraw rate of a slot without weight, relative to the largest rate.
MIN_REDRAW_RATE = 0.01

#: Target standard error, bounds on the sweeps, and the share of sweeps that is burn-in.
TOLERANCE, MIN_SWEEPS, MAX_SWEEPS, BURN_IN = 0.005, 32, 1024, 1 / 3

#: Largest number of logarithms and exponentials per user (a fifth of a second), and the fixed cost of a pair in these.
MAX_WORK, PAIR_WORK = 6.0e7, 60

#: Log of the relative error that the nodes of one axis may leave in an integral.
LINE_ERROR = -8.0


class TableSampler:
    """Chains over the tables of one user."""

    def __init__(self, tables: ResponseCounts, adversary: Adversary) -> None:
        k, n = adversary.k, int(tables.counts.sum())
        interest, polarization = axes(adversary.belief, k, adversary.universe.neutral_size > 0, n, LINE_ERROR)
        with np.errstate(divide="ignore"):
            for axis in (interest, polarization):
                axis[2] = np.log(axis[2])
            log_prior = np.log(adversary.belief.pool_prior(k))
        mass, log_response_prob = _at_least_two_slots(tables)
        self.problem = TableProblem(
            mass=mass,
            log_response_prob=np.ascontiguousarray(log_response_prob),
            counts=tables.counts.astype(np.float64),
            forced_mass=tables.base,
            is_forced=np.any(tables.base, axis=1),
            offset_scale=np.array(tables.alpha_beta),
            interest=interest,
            polarization=polarization,
            log_prior=log_prior,
            # slots of large weight matter more, but all must move
            cumulative=np.cumsum(_redraw_rates(mass)),
            levels=LEVELS,
        )
        responses, lines = len(tables.counts), max(interest.shape[1], k * polarization.shape[1])
        self.workspace = _workspace(max(lines, 4 * (responses + 1)), lines, k)
        self.pairs = int(np.clip(PAIR_SHARE * len(mass), 1, MAX_PAIRS))
        #: Logarithms and exponentials of a sweep.
        pair, behavior = 7 * (responses + 1) + PAIR_WORK, responses * (interest.shape[1] + lines)
        self.work = len(LEVELS) * (self.pairs * pair + behavior)

    def start(self, key: np.uint64) -> TemperedChain:
        """Return a chain with a table and a behavior from the prior.

        Where reports have no noise, every reported response gets a slot.
        """
        problem, rng = self.problem, generator(key)
        (slots, wide), levels = problem.log_response_prob.shape, len(LEVELS)
        noise = rng.gumbel(size=(slots, wide))
        table = np.argmax(problem.log_response_prob + noise, axis=1)
        if problem.offset_scale[0] == 0:
            open_ = np.flatnonzero(~problem.is_forced)
            cost = -(problem.log_response_prob[:, open_] + noise[:, open_]).T
            response, slot = scipy.optimize.linear_sum_assignment(np.where(np.isfinite(cost), cost, 1e6))
            table[slot] = open_[response]
        nodes = problem.interest.shape[1], problem.polarization.shape[1]
        behavior = [rng.integers(high, size=levels) for high in (len(problem.log_prior), *nodes)]
        responses, sections = problem.forced_mass.shape
        return TemperedChain(
            table=np.tile(table, (levels, 1)),
            behavior=np.stack(behavior, axis=1),
            share=np.empty((levels, responses, sections)),
            holders=np.empty((levels, responses), dtype=np.int64),
            phi=np.empty((levels, slots)),
            weight=np.empty((levels, responses)),
            power=np.empty((levels, responses)),
            score=np.empty(levels),
        )

    def means(self, key: np.uint64, chains: int, sweeps: int) -> Floats:
        """Return (chains, k) mean posteriors of independent chains."""
        burn_in, out = int(np.ceil(BURN_IN * sweeps / (1 - BURN_IN))), np.zeros((chains, len(self.problem.log_prior)))
        for own, mean in zip(children(key, np.arange(chains)), out, strict=True):
            chain, at = self.start(own), 0
            for count in (burn_in, sweeps):
                mean[:] = 0.0
                at = run(self.problem, chain, self.workspace, own, at, count, self.pairs, mean)
            mean /= sweeps
        return out

    def posterior(self, key: np.uint64, chains: int, sweeps: int) -> PosteriorEstimate:
        """Return the mean over chains, and its standard error.

        The error is at least one over the number of sampled tables: rarer tables are not seen, however well chains
        agree.
        """
        mean, error = mean_and_mcse(self.means(key, chains, sweeps))
        return PosteriorEstimate(mean, np.hypot(error, 1.0 / (chains * sweeps)))


def tempered_posterior(tables: ResponseCounts, adversary: Adversary, key: np.uint64) -> PosteriorEstimate:
    """Return the posterior of the pools and its standard error, by parallel tempering over tables."""
    sampler, (pilot, own) = TableSampler(tables, adversary), children(key, np.arange(2))
    error = sampler.posterior(pilot, PILOT_CHAINS, PILOT_SWEEPS).error.max()
    needed = PILOT_SWEEPS * (error / TOLERANCE) ** 2 * PILOT_CHAINS / CHAINS
    most = np.clip((1 - BURN_IN) * MAX_WORK / sampler.work / CHAINS, MIN_SWEEPS, MAX_SWEEPS)
    return sampler.posterior(own, CHAINS, int(np.clip(np.ceil(needed), MIN_SWEEPS, most)))


def _workspace(width: int, lines: int, k: int) -> TableWorkspace:
    """Allocate scratch arrays: x and y of this width, a line of nodes, and one number per section and pool."""
    x, y = np.empty((2, width))
    return TableWorkspace(x, x.view(np.int64), y, y.view(np.int64), np.empty(lines), np.empty(k + 1), np.empty(k))


def _at_least_two_slots(tables: ResponseCounts) -> tuple[Floats, Floats]:
    """Return mass and log probabilities of the slots, padded to two slots; padding has no mass and no reports."""
    missing = max(0, 2 - len(tables.mass))
    distribution = np.full((missing, tables.log_response_prob.shape[1]), -np.inf)
    distribution[:, -1] = 0.0
    mass = np.vstack([tables.mass, np.zeros((missing, tables.mass.shape[1]))])
    return mass, np.vstack([tables.log_response_prob, distribution])


def _redraw_rates(mass: Floats) -> Floats:
    """Return (slots,) relative frequencies at which slots are redrawn."""
    root = np.sqrt(mass.max(axis=1))
    pace: Floats = root + max(MIN_REDRAW_RATE * root.max(), 1e-300)
    return pace


#: Independent batches, and particles at each node of the behavior.
BATCHES, PARTICLES = 12, 32

#: Bounds on the nodes of a batch, and on nodes * groups * slots: a fifth of a second.
MIN_NODES, MAX_NODES, ALLOCATION_MAX_WORK = 8, 160, 8.0e4

#: Power of the occupancy approximation by which nodes are proposed: below one, as the approximation may be wrong.
PROPOSAL_POWER = 0.7

#: Slots with a lower expected number of groups are merged: two groups hardly ever want one of them. Merging also needs
#: this many slots per group; with fewer, taken slots shift the demand to others.
MERGE_BELOW, SLOTS_TO_MERGE = 0.003, 4

#: Log of the relative error that the nodes may leave in an integral.
NODE_ERROR = -6.0


class _AllocationSlots(NamedTuple):
    """Slots to allocate groups to.

    mass : (slots, k + 1) popularity within each section.
    log_response_prob : (groups, slots) log Pr[response of the group | slot].
    load : (slots, k + 1) expected reports per unit of weight.
    single : (slots,) one where a slot takes one group at most.
    """

    mass: Floats
    log_response_prob: Floats
    load: Floats
    single: Floats


def allocated_posterior(tables: ResponseCounts, adversary: Adversary, key: np.uint64) -> PosteriorEstimate:
    """Return the posterior of the pools and its standard error, if no two slots share a response."""
    k, n = adversary.k, int(tables.counts.sum())
    order = np.argsort(-tables.counts, kind="stable")
    counts = tables.counts[order].astype(np.float64)
    interest, polarization = axes(adversary.belief, k, adversary.universe.neutral_size > 0, n, NODE_ERROR)
    weights = pool_weights(interest, polarization, k)
    with np.errstate(divide="ignore"):
        log_prior = np.log(adversary.belief.pool_prior(k))
        log_node = (log_prior[:, None] + np.log(np.outer(interest[2], polarization[2])).ravel()).ravel()
        interest[2], polarization[2] = np.log(interest[2]), np.log(polarization[2])
    # (pools * nodes, k + 1): a node includes the preferred pool
    weights = np.ascontiguousarray(weights.transpose(0, 2, 1)).reshape(len(log_node), k + 1)
    log_response_prob = np.ascontiguousarray(tables.log_response_prob[:, :-1].T[order])
    middle = np.full(k + 1, 0.5 / k)
    middle[0] = 0.5 if adversary.universe.neutral_size else 0.0
    slots = _merge_slots(tables.mass, log_response_prob, counts, middle)
    groups, count = slots.log_response_prob.shape
    log_phi, load = np.log(weights @ slots.mass.T), n * (weights @ slots.load.T)
    weight, workspace = np.empty((groups, count)), np.empty((5, count))
    free = np.empty((PARTICLES, count))
    particles = Particles(
        free,
        np.empty((PARTICLES, groups), dtype=np.int64),
        np.empty(PARTICLES),
        np.empty(PARTICLES, dtype=np.int64),
        workspace[0].view(np.int64),
    )
    wide, proposal = np.empty(2 * count), np.empty(len(log_node))
    # a kernel is compiled again for each layout of its arguments
    log_response_prob = np.ascontiguousarray(slots.log_response_prob)
    occupancy_log_likelihood(
        log_response_prob, counts, log_phi, load, slots.single, wide, wide.view(np.int64), weight, proposal
    )
    proposal = PROPOSAL_POWER * (proposal + log_node)
    proposal = np.exp(proposal - proposal.max())
    proposal /= proposal.sum()
    problem = TableProblem(
        mass=slots.mass,
        log_response_prob=log_response_prob,
        counts=counts,
        forced_mass=np.zeros((groups, k + 1)),
        is_forced=np.zeros(groups, dtype=bool),
        offset_scale=np.array([0.0, 1.0]),
        interest=interest,
        polarization=polarization,
        log_prior=log_prior,
        cumulative=np.ones(count),
        levels=np.ones(1),
    )
    lines = k * polarization.shape[1]
    scratch = _workspace(lines, lines, k)
    drawn = int(np.clip(ALLOCATION_MAX_WORK / (groups * count), MIN_NODES, MAX_NODES))
    log_weight, posterior = np.empty((BATCHES, drawn, PARTICLES)), np.empty((BATCHES, drawn, PARTICLES, k))
    for batch, own in enumerate(children(key, np.arange(BATCHES))):
        nodes = _systematic_sample(proposal, drawn, float(generator(own).random()))
        gamma = nodes % (len(log_node) // k) // polarization.shape[1]
        allocate(
            problem,
            scratch,
            slots.single,
            np.ascontiguousarray(log_phi[nodes]),
            gamma,
            own,
            weight,
            workspace,
            np.empty(groups),
            np.empty((groups, k + 1)),
            particles,
            log_weight[batch],
            posterior[batch],
        )
        log_weight[batch] += (log_node[nodes] - np.log(proposal[nodes]))[:, None]
    return weighted_mean(log_weight.reshape(BATCHES, -1), posterior.reshape(BATCHES, -1, k))


def weighted_mean(log_weight: Floats, posterior: Floats) -> PosteriorEstimate:
    """Return the mean (k,) of posteriors (batches, samples, k) by weights (batches, samples), and its standard error.

    The error is the largest of three: the jackknife over batches, the delta method for the weights, and one over the
    effective sample size, for what no sample has seen.
    """
    batches = len(log_weight)
    weight = np.exp(log_weight - log_weight.max())
    total = weight.sum()
    sums = np.einsum("bs,bsk->bk", weight, posterior)
    mean = sums.sum(axis=0) / total
    rest = total - weight.sum(axis=1)
    left = rest > ROUNDING * total
    without = (sums.sum(axis=0) - sums)[left] / rest[left][:, None]
    jackknife = (batches - 1) / batches * ((without - mean) ** 2).sum(axis=0)
    delta = np.einsum("bs,bsk->k", weight**2, (posterior - mean) ** 2) / total**2
    unseen = (weight**2).sum() / total**2
    return PosteriorEstimate(mean, np.sqrt(np.maximum(np.maximum(jackknife, delta), unseen**2)))


def _systematic_sample(probabilities: Floats, count: int, offset: float) -> Integers:
    """Return `count` indices by systematic sampling."""
    at = (np.arange(count) + offset) / count
    return np.minimum(np.searchsorted(np.cumsum(probabilities), at, side="right"), len(probabilities) - 1).astype(
        np.int64
    )


def _merge_slots(mass: Floats, log_response_prob: Floats, counts: Floats, section: Floats) -> _AllocationSlots:
    """Merge slots that hardly any group wants into one slot per section, which any number of groups may have.

    The likelihood of a merged slot is the sum over its members. Slots that lie in several sections stay single.
    """
    with np.errstate(divide="ignore"):
        logs = log_response_prob + counts[:, None] * np.log(mass @ section)
    demand = np.exp(logs - logs.max(axis=1, keepdims=True))
    wanted = (demand / demand.sum(axis=1, keepdims=True)).sum(axis=0)
    bulk = (wanted < MERGE_BELOW) & ((mass > 0).sum(axis=1) == 1) & (len(mass) >= SLOTS_TO_MERGE * len(counts))
    sections, share = mass.argmax(axis=1), mass.max(axis=1)
    single, parts = np.flatnonzero(~bulk), [np.flatnonzero(bulk & (sections == j)) for j in range(mass.shape[1])]
    parts = [part for part in parts if len(part)]
    unit = np.zeros((len(parts), mass.shape[1]))
    load, distributions = unit.copy(), []
    for row, part in enumerate(parts):
        unit[row, sections[part[0]]] = 1.0
        load[row, sections[part[0]]] = share[part].sum()
        distributions.append(
            np.logaddexp.reduce(log_response_prob[:, part] + counts[:, None] * np.log(share[part]), axis=1)
        )
    return _AllocationSlots(
        mass=np.vstack([mass[single], unit]),
        log_response_prob=np.hstack(
            [log_response_prob[:, single], np.array(distributions).T.reshape(len(counts), len(parts))]
        ),
        load=np.vstack([mass[single], load]),
        single=np.repeat([1.0, 0.0], [len(single), len(parts)]),
    )
