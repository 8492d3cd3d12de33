r"""Posterior of the pools from noisy bit vectors of memoized responses, by chains over the objects behind the reports.

The likelihood of the objects :math:`z_1 .. z_n` of a user's reports, with the permanent responses summed out, is

.. math:: \prod_t \Phi(z_t) \prod_s \Pr[\text{reports in slot } s \,|\, s] .

A chain (`kernels.memoized_chain`) samples slots and behavior in turn. Given the number of reports in each section, the
integral over relevant interest and polarization is closed, and so is the posterior of the pools. The attack averages
this posterior over the chain (Rao-Blackwellization). Behavior is sampled on the nodes of a Gauss rule that is exact for
n reports, which leaves the posterior exact.

Several chains with different starts first run a pilot of `PILOT_LENGTH` sweeps. The variance between them says how many
sweeps other chains need to reach `TOLERANCE`; these run at most `MAX_SWEEPS`. Only the other chains count. Their
standard error is thus biased neither by stopping once it is small, nor by a pilot that agrees by luck.

With many clusters the chains mix slowly over the pools, in which all clusters must move at once, but quickly over the
clustering itself. Then chains only sample the clustering (`estimate_by_clusterings`). Given it, a cluster is one
object, and the occupancy model (`occupancy`) sums out objects and behavior. The posterior is the mean over the sampled
clusterings.

References
----------
S. Jain, R. M. Neal. A split-merge Markov chain Monte Carlo procedure for the Dirichlet process mixture model. JCGS 13,
2004.
D. B. Dahl. Sequentially-allocated merge-split sampler for conjugate and nonconjugate Dirichlet process mixture models.
2005.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from poolscope.core.arrays import Floats, Integers
from poolscope.core.randomness import children
from poolscope.devices.protocols import NoisyBits, ReportLikelihood
from poolscope.inference.adversary import Adversary
from poolscope.inference.memoized.occupancy import OccupancyGrid, normalized, occupancy_of
from poolscope.inference.memoized.state import SlotClasses, empty_clusters, items_of, slots_of
from poolscope.inference.quadrature import fixed_rule
from poolscope.kernels import memoized_chain as kernels
from poolscope.kernels.memoized_moves import BehaviorPrior, ChainState, Workspace, gibbs_behavior, update_class_weights
from poolscope.kernels.memoized_state import LOG_ZERO, Items, ReportClusters, cluster_weights
from poolscope.population.priors import Density

#: Proposals per sweep: splits and merges, and other preferred pools.
PAIRS, JUMPS = 8, 2

#: Log weight by which every other chain favors existing clusters at its start.
LOG_FAVOR = 10.0


class ClusterChain(NamedTuple):
    """One chain: clusters of reports with their slots, and the behavior."""

    items: Items
    belief: BehaviorPrior
    clusters: ReportClusters
    state: ChainState
    workspace: Workspace

    def run(self, sweeps: int, jumps: int = JUMPS) -> Floats:
        """Run some sweeps and return the sum (k,) of the pools' posteriors, each given the reports in each section."""
        out = np.zeros(len(self.belief.log_prior))
        kernels.sweep(*self, sweeps, PAIRS, jumps, out)
        return out

    @property
    def active(self) -> Integers:
        """Return the indices of the clusters that have reports."""
        found: Integers = np.flatnonzero(self.clusters.size[: len(self.items.n_reports)] > 0)
        return found


def init_chains(items: Items, belief: BehaviorPrior, key: np.uint64, count: int) -> list[ClusterChain]:
    """Return independent chains with overdispersed starts, so that their disagreement measures convergence.

    Each chain assigns the reports one after the other to an existing cluster or to a new one. That makes too many
    clusters, as the first reports of an object have none to join. Every other chain favors existing clusters.
    """
    workspace, order = _workspace(items, belief), np.argsort(-items.n_reports, kind="stable")
    chains = []
    for i, own in enumerate(children(key, np.arange(count))):
        chain = ClusterChain(items, belief, empty_clusters(items), _chain_state(own, belief), workspace)
        clusters, state, k = chain.clusters, chain.state, len(belief.log_prior)
        state.weight[:] = np.array([0.5, *np.full(k, 0.5 / k)])
        update_class_weights(belief, state.weight, state.log_weight)
        workspace.order[:] = order
        kernels.init_chain(items, clusters, state, workspace, LOG_FAVOR if i % 2 else 0.0)
        gibbs_behavior(items, clusters, belief, state, workspace)
        chains.append(chain)
    return chains


def mean_and_mcse(means: Floats) -> tuple[Floats, Floats]:
    """Return the mean (k,) over chains (chains, k), and its Monte Carlo standard error."""
    return means.mean(axis=0), means.std(axis=0, ddof=1) / np.sqrt(len(means))


def belief_of(adversary: Adversary, slots: SlotClasses, n: int) -> BehaviorPrior:
    """Return the adversary's priors of behavior, on nodes that are exact for n reports."""
    k, belief = adversary.k, adversary.belief
    with np.errstate(divide="ignore"):
        log_prior = np.log(belief.pool_prior(k))
    return BehaviorPrior(
        log_prior=log_prior,
        interest=_axis(belief.interest, n, 1),
        polarization=_axis(belief.polarization, n, k),
        integral=_integrals(belief.polarization, n, k),
        class_mix=slots.class_mix,
        only_section=slots.only_section,
        class_of_section=slots.class_of_section,
    )


@lru_cache(maxsize=64)
def _axis(density: Density, n: int, k: int) -> Floats:
    """Return (3, nodes) log x, log y, log weight.

    x and y are gamma and 1 - gamma for k = 1, else delta and (1 - delta)/(k - 1).
    """
    x, y, weight = fixed_rule(density, n)[:3]
    if k > 1:
        x, y = 1.0 / k + (1.0 - 1.0 / k) * x, (1.0 - 1.0 / k) * y / (k - 1)
    with np.errstate(divide="ignore"):
        logs: Floats = np.maximum(np.log(np.stack([x, y, weight])), LOG_ZERO)
    return logs


@lru_cache(maxsize=64)
def _integrals(density: Density, n: int, k: int) -> Floats:
    """Return (n + 1, n + 1) log E[delta^own ((1 - delta)/(k - 1))^rest], where own + rest <= n."""
    log_x, log_y, log_weight = _axis(density, n, k)
    out = np.full((n + 1, n + 1), -np.inf)
    for own in range(n + 1):
        rest = np.arange(n + 1 - own)[:, None]
        out[own, : n + 1 - own] = logsumexp(own * log_x + rest * log_y + log_weight, axis=1)
    return out


def _chain_state(key: np.uint64, belief: BehaviorPrior) -> ChainState:
    k, classes = len(belief.log_prior), len(belief.class_mix)
    return ChainState(
        key=key,
        indices=np.zeros(4, dtype=np.int64),
        weight=np.empty(k + 1),
        log_weight=np.empty(classes),
        counts=np.zeros(k + 1, dtype=np.int64),
        posterior=np.empty(k),
    )


def _workspace(items: Items, belief: BehaviorPrior) -> Workspace:
    n, (classes, sections), slots = len(items.n_reports), belief.class_mix.shape, len(items.class_of)
    return Workspace(
        cumulative=np.empty(n),
        phi=np.empty(n),
        order=np.empty(n, dtype=np.int64),
        target=np.empty(n, dtype=np.int64),
        classes=np.empty(3, dtype=np.int64),
        taken=np.zeros(slots, dtype=bool),
        nodes=np.empty(max(belief.interest.shape[1], belief.polarization.shape[1], sections)),
        mix=np.empty(classes),
        weight=np.empty(sections),
        log_weight=np.empty(classes),
    )


#: Clusters above which chains mix too slowly over the pools: MANY_CLUSTERS, or SOME_CLUSTERS with a mean size of
#: LARGE_CLUSTER.
MANY_CLUSTERS, SOME_CLUSTERS, LARGE_CLUSTER = 30, 20, 3

#: Chains of the pilot, and chains that count where the pilot disagrees.
PILOT_CHAINS, CHAINS = 4, 8

#: Sweeps before a clustering of the pilot, before the first that counts, and between two of them.
PILOT_SWEEPS, FIRST_SWEEPS, SWEEPS_APART = 4, 6, 4

#: Clusterings of a chain: at most MAX_CLUSTERINGS and WORK / (reports * objects), at least MIN_CLUSTERINGS. This bounds
#: the time of a user.
MAX_CLUSTERINGS, WORK, MIN_CLUSTERINGS = 16, 1.5e6, 3

#: Smallest divisor.
TINY = np.finfo(np.float64).tiny

#: Cached factors of clusters: 32 MB.
MAX_CACHED = 1 << 22


def has_many_clusters(clusters: int, reports: int) -> bool:
    """Return whether chains should sample clusterings only.

    Large clusters slow the mixing already where there are fewer of them.
    """
    return clusters > MANY_CLUSTERS or (clusters > SOME_CLUSTERS and reports >= LARGE_CLUSTER * clusters)


def estimate_by_clusterings(
    items: Items, belief: BehaviorPrior, order: Integers, adversary: Adversary, key: np.uint64, tolerance: float
) -> tuple[Floats, Floats]:
    """Return the posterior (k,) and its standard error, averaged over sampled clusterings.

    A pilot of a few chains determines how many are needed. Other chains than those of the pilot count: a pilot that
    agrees by luck would else state a standard error that is too small.

    Parameters
    ----------
    order : (objects,) the objects as `items` orders them.
    tolerance : the target standard error.
    """
    pilot, own = children(key, np.arange(2))
    clusterings = ClusteringPosteriors(items, order, adversary)
    _, error = clusterings.estimate(init_chains(items, belief, pilot, PILOT_CHAINS), 1, PILOT_SWEEPS)
    needed = (error.max() / tolerance) ** 2
    chains = init_chains(items, belief, own, PILOT_CHAINS if needed <= 1 else CHAINS)
    limit = np.clip(WORK / len(items.class_of) / items.n_reports.sum(), MIN_CLUSTERINGS, MAX_CLUSTERINGS)
    count = int(np.clip(np.ceil(needed * PILOT_CHAINS / len(chains)), 1, limit))
    for chain in chains:
        # chains that disagree converge slowly: the more clusterings count, the longer the burn-in
        chain.run(FIRST_SWEEPS + SWEEPS_APART * (count - 2), jumps=0)
    return clusterings.estimate(chains, count, SWEEPS_APART)


class ClusteringPosteriors:
    """Posteriors given a clustering of a user's reports, with a cache of the factors of clusters."""

    def __init__(self, items: Items, order: Integers, adversary: Adversary) -> None:
        self.items, self.adversary = items, adversary
        self.occupancy = occupancy_of(adversary, int(items.n_reports.sum()))
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        self.order: Integers = rank[self.occupancy.bins.order]
        self.grid: OccupancyGrid | None = None
        self.rows: dict[int, int] = {}
        self.factors = np.empty((0, adversary.k, 0))

    def estimate(self, chains: list[ClusterChain], count: int, sweeps: int) -> tuple[Floats, Floats]:
        """Return the mean over chains and its error, of `count` clusterings each, `sweeps` sweeps apart."""
        means = np.zeros((len(chains), self.adversary.k))
        for chain, mean in zip(chains, means, strict=True):
            for _ in range(count):
                # proposals of another pool are hardly ever accepted with this many clusters
                chain.run(sweeps, jumps=0)
                mean += self.posterior(chain) / count
        return mean_and_mcse(means)

    def posterior(self, chain: ClusterChain) -> Floats:
        """Return the posterior (k,) of the pools, given the clusters of a chain."""
        # in an order that is independent of the chain's, so that rounding is too
        groups = chain.active[np.argsort(chain.clusters.fingerprint[chain.active])]
        fingerprints = chain.clusters.fingerprint[groups].tolist()
        if self.grid is None:
            self._choose_grid(chain, groups)
        assert self.grid is not None
        new = np.array([fingerprint not in self.rows for fingerprint in fingerprints])
        if len(self.rows) + new.sum() > len(self.factors):
            # the cache is full: start over
            self.rows.clear()
            new[:] = True
        if new.any():
            self._compute(chain, groups[new])
        rows = np.array([self.rows[fingerprint] for fingerprint in fingerprints])
        return normalized(self.occupancy.scores(self.factors, rows, self.grid), self.adversary)

    def _choose_grid(self, chain: ClusterChain, groups: Integers) -> None:
        """Choose the grid that the first clustering needs, for all of them."""
        self.grid, found, _ = self.occupancy.converged(self._moments(chain, groups), chain.clusters.n_reports[groups])
        k, nodes = self.grid.log_base.shape
        self.factors = np.empty((max(len(self.items.n_reports), MAX_CACHED // (k * nodes)), k, nodes))
        self._store(chain, groups, found)

    def _compute(self, chain: ClusterChain, groups: Integers) -> None:
        """Compute and store the factors of new clusters."""
        assert self.grid is not None
        moments = self._moments(chain, groups)
        self._store(chain, groups, self.occupancy.factors(moments, chain.clusters.n_reports[groups], self.grid))

    def _store(self, chain: ClusterChain, groups: Integers, found: Floats) -> None:
        """Store factors by fingerprint, scaled to a maximum of one: products of many would underflow."""
        first = len(self.rows)
        self.factors[first : first + len(groups)] = found / np.maximum(found.max(axis=(1, 2), keepdims=True), TINY)
        self.rows.update(
            zip(chain.clusters.fingerprint[groups].tolist(), range(first, first + len(groups)), strict=True)
        )

    def _moments(self, chain: ClusterChain, groups: Integers) -> Floats:
        """Return the moments of clusters for the occupancy model."""
        weights = np.empty((len(groups), len(self.order)))
        cluster_weights(self.items, chain.clusters, groups, np.empty(len(self.items.max_log_share)), weights)
        return self.occupancy.moments(weights, self.order)


#: Chains of a user, their burn-in, and the sweeps of the pilot.
N_CHAINS, BURN_IN, PILOT_LENGTH = 8, 8, 16

#: Target standard error of the pool with the largest one, and bounds on the sweeps that count.
TOLERANCE, MIN_SWEEPS, MAX_SWEEPS = 0.02, 32, 256


class PosteriorEstimate(NamedTuple):
    """The posterior (..., k) of the pools, and its Monte Carlo standard error (..., k)."""

    posterior: Floats
    error: Floats


def memoized_posterior(evidence: ReportLikelihood, adversary: Adversary, key: np.uint64) -> PosteriorEstimate:
    """Return the posterior of the pools from the reports of one user, which are bit vectors."""
    assert isinstance(evidence.distribution, NoisyBits)
    slots = slots_of(evidence.slots, adversary)
    items = items_of(evidence.distribution, slots)
    n = len(items.n_reports)
    belief, objects = belief_of(adversary, slots, n), len(slots.order) == len(evidence.slots)
    # with a fixed key: the method must depend on the reports alone
    if objects and has_many_clusters(len(init_chains(items, belief, np.uint64(0), 1)[0].active), n):
        return PosteriorEstimate(*estimate_by_clusterings(items, belief, slots.order, adversary, key, TOLERANCE))
    return estimate_by_chains(items, belief, key)


def estimate_by_chains(items: Items, belief: BehaviorPrior, key: np.uint64) -> PosteriorEstimate:
    """Return the mean over chains, run for as long as a pilot of other chains requires, within limits."""
    pilot, own = children(key, np.arange(2))

    def run_chains(key: np.uint64, sweeps: int) -> tuple[Floats, Floats]:
        means = []
        for chain in init_chains(items, belief, key, N_CHAINS):
            chain.run(BURN_IN)
            means.append(chain.run(sweeps) / sweeps)
        return mean_and_mcse(np.stack(means))

    _, error = run_chains(pilot, PILOT_LENGTH)
    needed = PILOT_LENGTH * (error.max() / TOLERANCE) ** 2
    return PosteriorEstimate(*run_chains(own, int(np.clip(np.ceil(needed), MIN_SWEEPS, MAX_SWEEPS))))
