"""The posterior of the pools where a user has many sets of reports: chains say which reports belong together.

Given which do, a set is one object, and what remains is the occupancy of groups of reports (`occupancy`), in which
objects and behaviour are summed out; the posterior is its mean over the groupings of the chains (Rao and Blackwell).
With many sets the chains take long to find which pools these lie in, all of which must move at once, but not which
reports are one set's.
"""

from __future__ import annotations

import numpy as np

from poolscope.core.arrays import Floats, Integers
from poolscope.core.randomness import children
from poolscope.inference.adversary import Adversary
from poolscope.inference.memoized.chains import Chain, begun, between
from poolscope.inference.memoized.occupancy import Grid, normalised, occupancy_of
from poolscope.kernels.memoized_moves import Belief
from poolscope.kernels.memoized_state import Units, weigh_sets

#: Sets of reports above which chains do not agree on the pools; of LARGE or more reports each, in the mean, above SOME.
MANY, SOME, LARGE = 30, 20, 3

#: Chains that say whether they agree, and chains if they do not.
FEW, CHAINS = 4, 8

#: Rounds until the grouping of a trial is taken, until one that counts, and from one to the next.
TRIAL, FIRST, APART = 4, 6, 4

#: Groupings of a chain at most, which are fewer where reports and objects are many: so many times both, at least LEAST.
#: That bounds the time of a user.
MOST, WORK, LEAST = 16, 1.5e6, 3

#: The least number that others may be divided by.
TINY = np.finfo(np.float64).tiny

#: Numbers that are kept of the factors of groups: 32 MB.
ROOM = 1 << 22


def are_many(sets: int, reports: int) -> bool:
    """Whether so many sets of so many reports are left to groupings: where sets are large, few of them hold chains."""
    return sets > MANY or (sets > SOME and reports >= LARGE * sets)


def by_groupings(
    units: Units, belief: Belief, order: Integers, adversary: Adversary, key: np.uint64, enough: float
) -> tuple[Floats, Floats]:
    """Posterior (k,) and its standard error, from as many groupings as a trial of a few chains says that are needed.

    order : (objects,) the objects as units have them; enough : the standard error that is asked for. Other chains than
    those of the trial count: a trial in which all agree by chance would else be told again as a small error.
    """
    trial, own = children(key, np.arange(2))
    groupings = Groupings(units, order, adversary)
    _, error = groupings.of(begun(units, belief, trial, FEW), 1, TRIAL)
    needed = (error.max() / enough) ** 2
    chains = begun(units, belief, own, FEW if needed <= 1 else CHAINS)
    most = np.clip(WORK / len(units.class_of) / units.count.sum(), LEAST, MOST)
    count = int(np.clip(np.ceil(needed * FEW / len(chains)), 1, most))
    for chain in chains:
        # chains that disagree are longer on their way: what counts begins the later, the more of it there is
        chain.go(FIRST + APART * (count - 2), jumps=0)
    return groupings.of(chains, count, APART)


class Groupings:
    """The posteriors of groupings of a user's reports; the factors of groups that came before are known."""

    def __init__(self, units: Units, order: Integers, adversary: Adversary) -> None:
        self.units, self.adversary = units, adversary
        self.occupancy = occupancy_of(adversary, int(units.count.sum()))
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        self.order: Integers = place[self.occupancy.bins.order]
        self.grid: Grid | None = None
        self.rows: dict[int, int] = {}
        self.factors = np.empty((0, adversary.k, 0))

    def of(self, chains: list[Chain], groupings: int, rounds: int) -> tuple[Floats, Floats]:
        """The mean over chains and its error, of so many groupings of each, so many rounds apart."""
        means = np.zeros((len(chains), self.adversary.k))
        for chain, mean in zip(chains, means, strict=True):
            for _ in range(groupings):
                # of as many sets hardly ever all those of a pool are dealt anew
                chain.go(rounds, jumps=0)
                mean += self.posterior(chain) / groupings
        return between(means)

    def posterior(self, chain: Chain) -> Floats:
        """The posterior (k,) of the pools, given the sets of a chain."""
        # in an order that does not hang on the chain's, so that the last digit does not either
        groups = chain.groups[np.argsort(chain.sets.mark[chain.groups])]
        marks = chain.sets.mark[groups].tolist()
        if self.grid is None:
            self._settle(chain, groups)
        assert self.grid is not None
        new = np.array([mark not in self.rows for mark in marks])
        if len(self.rows) + new.sum() > len(self.factors):
            # too many to be kept: from the beginning
            self.rows.clear()
            new[:] = True
        if new.any():
            self._learn(chain, groups[new])
        rows = np.array([self.rows[mark] for mark in marks])
        return normalised(self.occupancy.scores(self.factors, rows, self.grid), self.adversary)

    def _settle(self, chain: Chain, groups: Integers) -> None:
        """The grid that the first grouping needs is that of all."""
        self.grid, found, _ = self.occupancy.settled(self._moments(chain, groups), chain.sets.total[groups])
        k, nodes = self.grid.log_base.shape
        self.factors = np.empty((max(len(self.units.count), ROOM // (k * nodes)), k, nodes))
        self._keep(chain, groups, found)

    def _learn(self, chain: Chain, groups: Integers) -> None:
        assert self.grid is not None
        moments = self._moments(chain, groups)
        self._keep(chain, groups, self.occupancy.factors(moments, chain.sets.total[groups], self.grid))

    def _keep(self, chain: Chain, groups: Integers, found: Floats) -> None:
        """By their marks; over the largest of each group, as products of many must not get too small."""
        first = len(self.rows)
        self.factors[first : first + len(groups)] = found / np.maximum(found.max(axis=(1, 2), keepdims=True), TINY)
        self.rows.update(zip(chain.sets.mark[groups].tolist(), range(first, first + len(groups)), strict=True))

    def _moments(self, chain: Chain, groups: Integers) -> Floats:
        weights = np.empty((len(groups), len(self.order)))
        weigh_sets(self.units, chain.sets, groups, np.empty(len(self.units.top_share)), weights)
        return self.occupancy.moments(weights, self.order)
