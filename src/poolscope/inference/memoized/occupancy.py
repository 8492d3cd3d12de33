r"""The occupancy approximation: the likelihood of any number of groups of reports, if each group is one object.

Let objects be drawn a Poisson number of times, which changes the likelihood by a constant. Object z is not seen with
probability :math:`e^{-n\Phi(z)}`, or is group g with weight :math:`\Pr[r_g | z] (n\Phi(z))^{c_g} e^{-n\Phi(z)}`. The
approximation takes the groups as points of a Poisson process, instead of at most one for each object:

.. math:: e^{-\sum_z (1 - e^{-n\Phi(z)})} \prod_g \sum_z \Pr[r_g | z] \, \Phi(z)^{c_g} e^{-n\Phi(z)} .

It keeps how often an object should occur, and drops that two groups cannot be one object.

The likelihood is integrated over relevant interest and polarization on a grid. At a node a group is one factor that
depends on no other group. Clusterings of the same reports share most of their groups, and so these factors.

References
----------
L. Le Cam. An approximation theorem for the Poisson binomial distribution. Pacific J. Math. 10, 1960.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arrays import Floats, Integers
from poolscope.inference.adversary import Adversary
from poolscope.inference.quadrature import fixed_rule
from poolscope.kernels.memoized_occupancy import TILE, bin_moments, group_factors, log_product
from poolscope.population.popularity import within_pools
from poolscope.population.priors import Density

#: Width of the intervals of rates n p(z | pool) in which objects are summed together, to second order. The relative
#: error of an object is at most BIN^3 / 6 = 2e-4, and mostly far smaller. Below BIN, intervals double: many objects lie
#: there, and the unseen ones are one sum.
BIN = 0.1

#: Nodes of an axis, increased until the posterior changes by less than MAX_CHANGE. The remaining error is far smaller,
#: as the error of a Gauss rule falls faster than exponentially.
NODES, MAX_CHANGE = (12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024), 1e-3

#: Largest number of nodes of an axis at which a grid is cached: some megabytes.
MAX_CACHED_NODES = 32


class RateBins(NamedTuple):
    """Objects binned by section, the neutral one first, and by rate.

    order : (universe,) objects ordered by bin.
    first : (bins + 1,) first entry of each bin.
    gap : (universe,) mean rate of the bin minus the rate of the object.
    mean : (bins,) rates.
    single : (bins,) whether all objects of the bin have one rate, so that its higher moments are zero.
    column : (bins + 1,) first moment of each bin: a single bin has one, others have three.
    sections : (k + 2,) first moment of each section.
    """

    order: Integers
    first: Integers
    gap: Floats
    mean: Floats
    single: NDArray[np.bool_]
    column: Integers
    sections: Integers


class OccupancyGrid(NamedTuple):
    """Nodes of relevant interest and polarization, and what is independent of the reports at each.

    log_weights : (3, nodes) of the neutral, the preferred and the other pools, over the largest of them.
    basis : (2, columns, nodes) maps moments to masses, in the preferred pool and in others; the neutral pool is the
        same in both.
    log_base : (k, nodes) log of node weight, prior, probability of the unseen objects, and largest weight to the n.
    """

    log_weights: Floats
    basis: Floats
    log_base: Floats


class Occupancy:
    """The occupancy model of an adversary, for n reports."""

    def __init__(self, adversary: Adversary, n: int) -> None:
        self.adversary, self.n = adversary, n
        self.within = within_pools(adversary.universe, adversary.popularity, empty="uniform")
        self.bins = _bins(n * self.within, adversary.universe.pool_of + 1, adversary.k + 1)
        self._grids: dict[int, OccupancyGrid] = {}
        belief = adversary.belief
        enough = max(fixed_rule(x, n).shape[1] for x in (belief.interest, belief.polarization))
        #: Nodes of an axis to try; the last number is enough for any reports.
        self.ladder = (*(size for size in NODES if size < enough), enough)

    def moments(self, weights: Floats, order: Integers | None = None) -> Floats:
        """Return (groups, columns) moments of the weights (groups, universe) Pr[r_g | z] p(z | pool)^c of objects.

        order : (universe,) index of each object of `bins.order` in the weights, if they are in another order.
        """
        out, bins = np.empty((len(weights), self.bins.column[-1])), self.bins
        bin_moments(weights, bins.order if order is None else order, bins.first, bins.gap, bins.single, out)
        return out

    def factors(self, moments: Floats, counts: Integers, grid: OccupancyGrid) -> Floats:
        """Return (groups, k, nodes) factors of the likelihood, of groups with these numbers of reports."""
        sizes, kind = np.unique(counts, return_inverse=True)
        powers = np.exp(grid.log_weights[:, None] * sizes[:, None])
        out = np.empty((len(counts), self.adversary.k, grid.log_base.shape[1]))
        # not by BLAS: its threads would compete with those of the game
        group_factors(moments, grid.basis, self.bins.sections, kind, powers, np.empty((4, TILE)), out)
        return out

    def scores(self, factors: Floats, rows: Integers, grid: OccupancyGrid) -> Floats:
        """Return log scores (k,) of the groups whose factors are in these rows."""
        logs = grid.log_base.copy()
        log_product(factors.reshape(len(factors), -1), rows, np.empty(logs.size), logs.reshape(-1))
        top = logs.max(axis=1)
        # scipy's logsumexp takes ten times as long for so few numbers
        with np.errstate(invalid="ignore", divide="ignore"):
            found: Floats = top + np.log(np.exp(logs - top[:, None]).sum(axis=1))
        return np.where(np.isneginf(top), top, found)

    def converged(self, moments: Floats, counts: Integers) -> tuple[OccupancyGrid, Floats, Floats]:
        """Return a grid that is fine enough for these groups, and their factors and log scores on it."""
        rows, before = np.arange(len(counts)), None
        for nodes in self.ladder:
            grid = self.grid(nodes)
            factors = self.factors(moments, counts, grid)
            scores = self.scores(factors, rows, grid)
            posterior = normalized(scores, self.adversary)
            if before is not None and np.abs(posterior - before).max() < MAX_CHANGE:
                break
            before = posterior
        return grid, factors, scores

    def grid(self, nodes: int) -> OccupancyGrid:
        """Return the grid with this many nodes on each axis."""
        if nodes > MAX_CACHED_NODES:
            return self._grid(nodes)
        if nodes not in self._grids:
            self._grids[nodes] = self._grid(nodes)
        return self._grids[nodes]

    def _grid(self, nodes: int) -> OccupancyGrid:
        k, belief, bins = self.adversary.k, self.adversary.belief, self.bins
        g, not_g, weight_g = _rule(belief.interest, nodes)
        u, not_u, weight_u = _rule(belief.polarization, nodes)
        own = np.outer(g, 1.0 / k + (1.0 - 1.0 / k) * u).ravel()
        other = np.outer(g, (1.0 - 1.0 / k) * not_u / (k - 1)).ravel()
        weights = np.stack([np.repeat(not_g, len(u)), own, other])
        # relative to the largest weight, so that powers do not underflow
        top = weights.max(axis=0)
        basis = np.empty((2, bins.column[-1], len(top)))
        pools = np.searchsorted(bins.column, bins.sections[1])
        for out, weight in zip(basis, (own, other), strict=True):
            for some, at in ((slice(0, pools), weights[0]), (slice(pools, None), weight)):
                seen = np.exp(-bins.mean[some, None] * at)
                start = bins.column[:-1][some]
                out[start] = seen
                wide = ~bins.single[some]
                out[start[wide] + 1] = seen[wide] * at
                out[start[wide] + 2] = seen[wide] * at**2
        # unseen objects: those of the preferred pool at its weight, those of other pools at theirs
        ones = self.moments(np.ones((1, len(bins.order))))[0]
        ends = zip(bins.sections[:-1], bins.sections[1:], strict=True)
        unseen = np.stack([np.einsum("c,scq->sq", ones[a:b], basis[:, a:b]) for a, b in ends], axis=1)
        log_base = unseen[0, 1:] - unseen[1, 1:] + unseen[1].sum(axis=0) - len(bins.order)
        with np.errstate(divide="ignore"):
            log_base += np.log(np.outer(weight_g, weight_u).ravel()) + self.n * np.log(top)
            log_base += np.log(belief.pool_prior(k))[:, None]
            return OccupancyGrid(np.log(weights / top), basis, log_base)


@lru_cache(maxsize=8)
def occupancy_of(adversary: Adversary, n: int) -> Occupancy:
    """Return the occupancy model, cached: many users send the same number of reports."""
    return Occupancy(adversary, n)


def normalized(log_scores: Floats, adversary: Adversary) -> Floats:
    """Return the posterior from log scores; the prior where the model excludes the reports."""
    if np.all(np.isneginf(log_scores)):
        return adversary.belief.pool_prior(adversary.k)
    odds = np.exp(log_scores - log_scores.max())
    posterior: Floats = odds / odds.sum()
    return posterior


def _bins(rates: Floats, section: Integers, sections: int) -> RateBins:
    """Bin objects by section and rate."""
    share = np.maximum(rates / BIN, 1e-300)
    # index of each rate's interval: equal widths from BIN on, doubling widths below
    interval = np.floor(np.where(share >= 1.0, share, np.log2(share)))
    order = np.lexsort([rates, section])
    change = np.diff(interval[order], prepend=np.inf).astype(bool) | np.diff(section[order], prepend=-1).astype(bool)
    first = np.append(np.flatnonzero(change), len(rates))
    size = np.diff(first)
    mean = np.add.reduceat(rates[order], first[:-1]) / size
    gap = np.repeat(mean, size) - rates[order]
    single = np.maximum.reduceat(np.abs(gap), first[:-1]) == 0.0
    column = np.append(0, np.cumsum(np.where(single, 1, 3)))
    begins = np.searchsorted(section[order][first[:-1]], np.arange(sections + 1))
    return RateBins(order, first, gap, mean, single, column, column[begins])


@lru_cache(maxsize=64)
def _rule(density: Density, nodes: int) -> tuple[Floats, Floats, Floats]:
    """Return the Gauss rule of a density, cached."""
    return density.rule(nodes)
