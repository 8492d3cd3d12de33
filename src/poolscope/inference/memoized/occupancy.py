r"""What any number of groups of reports says about the preferred pool, if each group is one object.

Let objects be drawn a Poisson number of times, which changes the likelihood by a constant: object z is not seen with
probability :math:`e^{-n\Phi(z)}`, or is group g with weight :math:`\Pr[r_g | z] (n\Phi(z))^{c_g} e^{-n\Phi(z)}`. Taking
the groups for points of a Poisson process instead of at most one for each object gives

.. math:: e^{-\sum_z (1 - e^{-n\Phi(z)})} \prod_g \sum_z \Pr[r_g | z] \, \Phi(z)^{c_g} e^{-n\Phi(z)} .

That an object must come as often as it is popular remains, that it is taken already does not.

It is integrated over relevant interest and polarization on a grid. At a node a group is one factor, which no other
group has a part in: groupings of the same reports share most of their groups, and so the factors of these.

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

#: Objects whose rates n p(z | pool) lie in one interval of this width are summed together, to the second order: each
#: is off by a factor of BIN^3 / 6 at most, which is 2e-4, and mostly by far less. Below BIN an interval ends where it
#: is twice its beginning, as there objects are many, and what is not seen of all of them is one sum.
BIN = 0.1

#: Nodes of an axis that the occupancy is integrated with, one after the other until the posterior moves by less than
#: MOVED: the error that is left is far smaller, as a rule's error falls faster than exponentially.
NODES, MOVED = (12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024), 1e-3

#: Nodes of an axis up to which a grid is kept for the next user: some megabytes.
KEPT = 32


class Bins(NamedTuple):
    """The objects by section, the neutral one first, and by rate.

    order : (universe,) objects, those of a bin together.
    first : (bins + 1,) where a bin begins in it.
    off : (universe,) how far the mean rate of the bin is above that of the object.
    mean : (bins,) rates.
    single : (bins,) whether all objects of the bin have one rate, so that its moments but the first are nothing.
    column : (bins + 1,) where the moments of a bin begin, one of a single bin and three of others.
    sections : (k + 2,) where the moments of a section begin.
    """

    order: Integers
    first: Integers
    off: Floats
    mean: Floats
    single: NDArray[np.bool_]
    column: Integers
    sections: Integers


class Grid(NamedTuple):
    """Nodes of relevant interest and polarization, and what does not hang on the reports at each.

    log_weights : (3, nodes) of the neutral, the preferred and the other pools, over that of the largest.
    basis : (2, columns, nodes) by which moments are masses, in the preferred pool and in others; the neutral pool's
        are the same in both.
    log_base : (k, nodes) weight of the node, prior, what is not seen, and the largest weight for all reports.
    """

    log_weights: Floats
    basis: Floats
    log_base: Floats


class Occupancy:
    """An adversary who meets n reports: what groups of them say."""

    def __init__(self, adversary: Adversary, n: int) -> None:
        self.adversary, self.n = adversary, n
        self.within = within_pools(adversary.universe, adversary.popularity, empty="uniform")
        self.bins = _bins(n * self.within, adversary.universe.pool_of + 1, adversary.k + 1)
        self._grids: dict[int, Grid] = {}
        belief = adversary.belief
        enough = max(fixed_rule(x, n).shape[1] for x in (belief.interest, belief.polarization))
        #: Nodes of an axis to try, the last of which are enough for any reports.
        self.ladder = (*(size for size in NODES if size < enough), enough)

    def moments(self, weights: Floats, order: Integers | None = None) -> Floats:
        """(groups, columns) all that is needed of weights (groups, universe) Pr[r_g | z] p(z | pool)^c of objects.

        order : (universe,) where the objects of `bins.order` stand, if not by their number.
        """
        out, bins = np.empty((len(weights), self.bins.column[-1])), self.bins
        bin_moments(weights, bins.order if order is None else order, bins.first, bins.off, bins.single, out)
        return out

    def factors(self, moments: Floats, counts: Integers, grid: Grid) -> Floats:
        """(groups, k, nodes) what each group of so many reports multiplies the likelihood by."""
        sizes, kind = np.unique(counts, return_inverse=True)
        powers = np.exp(grid.log_weights[:, None] * sizes[:, None])
        out = np.empty((len(counts), self.adversary.k, grid.log_base.shape[1]))
        # not by BLAS, whose threads and those of a game would wait for each other
        group_factors(moments, grid.basis, self.bins.sections, kind, powers, np.empty((4, TILE)), out)
        return out

    def scores(self, factors: Floats, rows: Integers, grid: Grid) -> Floats:
        """Log scores (k,) of groups whose factors stand in these rows."""
        logs = grid.log_base.copy()
        log_product(factors.reshape(len(factors), -1), rows, np.empty(logs.size), logs.reshape(-1))
        top = logs.max(axis=1)
        # as scipy's, which takes ten times as long for so few; of nothing but zeros that is -inf
        with np.errstate(invalid="ignore", divide="ignore"):
            found: Floats = top + np.log(np.exp(logs - top[:, None]).sum(axis=1))
        return np.where(np.isneginf(top), top, found)

    def settled(self, moments: Floats, counts: Integers) -> tuple[Grid, Floats, Floats]:
        """A grid that is fine enough for these groups, and their factors and log scores on it."""
        rows, before = np.arange(len(counts)), None
        for nodes in self.ladder:
            grid = self.grid(nodes)
            factors = self.factors(moments, counts, grid)
            scores = self.scores(factors, rows, grid)
            posterior = normalized(scores, self.adversary)
            if before is not None and np.abs(posterior - before).max() < MOVED:
                break
            before = posterior
        return grid, factors, scores

    def grid(self, nodes: int) -> Grid:
        """Of so many nodes on each axis."""
        if nodes > KEPT:
            return self._grid(nodes)
        if nodes not in self._grids:
            self._grids[nodes] = self._grid(nodes)
        return self._grids[nodes]

    def _grid(self, nodes: int) -> Grid:
        k, belief, bins = self.adversary.k, self.adversary.belief, self.bins
        g, not_g, weight_g = _rule(belief.interest, nodes)
        u, not_u, weight_u = _rule(belief.polarization, nodes)
        own = np.outer(g, 1.0 / k + (1.0 - 1.0 / k) * u).ravel()
        other = np.outer(g, (1.0 - 1.0 / k) * not_u / (k - 1)).ravel()
        weights = np.stack([np.repeat(not_g, len(u)), own, other])
        # powers are taken of the share in the largest weight, which is at least a third or so
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
        # what is not seen of all objects: the preferred pool's by its own weight, the others' by theirs
        ones = self.moments(np.ones((1, len(bins.order))))[0]
        ends = zip(bins.sections[:-1], bins.sections[1:], strict=True)
        unseen = np.stack([np.einsum("c,scq->sq", ones[a:b], basis[:, a:b]) for a, b in ends], axis=1)
        log_base = unseen[0, 1:] - unseen[1, 1:] + unseen[1].sum(axis=0) - len(bins.order)
        with np.errstate(divide="ignore"):
            log_base += np.log(np.outer(weight_g, weight_u).ravel()) + self.n * np.log(top)
            log_base += np.log(belief.pool_prior(k))[:, None]
            return Grid(np.log(weights / top), basis, log_base)


@lru_cache(maxsize=8)
def occupancy_of(adversary: Adversary, n: int) -> Occupancy:
    """Kept, as many users send as many reports."""
    return Occupancy(adversary, n)


def normalized(log_scores: Floats, adversary: Adversary) -> Floats:
    """Posterior from log scores; reports that the model excludes leave the prior."""
    if np.all(np.isneginf(log_scores)):
        return adversary.belief.pool_prior(adversary.k)
    odds = np.exp(log_scores - log_scores.max())
    posterior: Floats = odds / odds.sum()
    return posterior


def _bins(rates: Floats, section: Integers, sections: int) -> Bins:
    share = np.maximum(rates / BIN, 1e-300)
    # the interval of each rate, as a number: whole ones from 1 on, below powers of two
    interval = np.floor(np.where(share >= 1.0, share, np.log2(share)))
    order = np.lexsort([rates, section])
    change = np.diff(interval[order], prepend=np.inf).astype(bool) | np.diff(section[order], prepend=-1).astype(bool)
    first = np.append(np.flatnonzero(change), len(rates))
    size = np.diff(first)
    mean = np.add.reduceat(rates[order], first[:-1]) / size
    off = np.repeat(mean, size) - rates[order]
    single = np.maximum.reduceat(np.abs(off), first[:-1]) == 0.0
    column = np.append(0, np.cumsum(np.where(single, 1, 3)))
    begins = np.searchsorted(section[order][first[:-1]], np.arange(sections + 1))
    return Bins(order, first, off, mean, single, column, column[begins])


@lru_cache(maxsize=64)
def _rule(density: Density, nodes: int) -> tuple[Floats, Floats, Floats]:
    return density.rule(nodes)
