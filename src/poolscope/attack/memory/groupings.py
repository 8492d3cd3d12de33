"""The posterior of the pools where a user has many sets of reports: chains say which reports belong together.

Given which do, a set is one object, and what remains is the occupancy of groups of reports (`scores`), in which objects
and behaviour are summed out; the posterior is its mean over the groupings of the chains (Rao and Blackwell). With many
sets the chains take long to find which pools these lie in, all of which must move at once, but not which reports are
one set's.
"""

from __future__ import annotations

import numpy as np

from poolscope.attack.adversary import Adversary
from poolscope.attack.memory.chains import Chain, begun, between
from poolscope.attack.memory.scores import normalised, occupancy_scores
from poolscope.base.arrays import Floats, Integers
from poolscope.kernels.kept_draws import Belief
from poolscope.kernels.kept_sets import Units, laws

#: Sets of reports above which chains do not agree on the pools.
MANY = 30

#: Chains that say whether they agree, and chains if they do not.
FEW, CHAINS = 4, 8

#: Rounds until the first grouping is taken, rounds from one to the next, and groupings of a chain at most.
FIRST, APART, MOST = 6, 4, 16


def by_groupings(
    units: Units, belief: Belief, order: Integers, adversary: Adversary, key: np.uint64, enough: float
) -> tuple[Floats, Floats]:
    """Posterior (k,) and its standard error, from as many groupings as one of a few chains says that are needed.

    order : (objects,) the objects as units have them; enough : the standard error that is asked for.
    """
    chains, known = begun(units, belief, key, CHAINS), dict[bytes, Floats]()

    def taken(some: list[Chain], groupings: int, rounds: int) -> tuple[Floats, Floats]:
        means = np.zeros((len(some), adversary.k))
        for chain, mean in zip(some, means, strict=True):
            for _ in range(groupings):
                chain.go(rounds)
                mean += _of_grouping(chain, order, adversary, known) / groupings
        return between(means)

    _, error = taken(chains[:FEW], 1, FIRST)
    needed = (error.max() / enough) ** 2
    if needed <= 1:
        return taken(chains[:FEW], 1, APART)
    groupings = int(np.clip(np.ceil(needed * FEW / CHAINS), 2, MOST))
    for chain in chains:
        # they are not yet far from their starts: as long as what counts
        chain.go(APART * groupings)
    return taken(chains, groupings, APART)


def _of_grouping(chain: Chain, order: Integers, adversary: Adversary, known: dict[bytes, Floats]) -> Floats:
    """The posterior of the pools, given the sets of a chain; those of groupings that came before are known."""
    marks = chain.sets.mark[chain.groups]
    name = np.sort(marks).tobytes()
    if name not in known:
        # in an order that does not hang on the chain's, so that the last digit does not either
        groups = chain.groups[np.argsort(marks)]
        found = np.empty((len(groups), len(order)))
        laws(chain.units, chain.sets, groups, found)
        log_likelihood = np.empty_like(found)
        log_likelihood[:, order] = found
        known[name] = normalised(occupancy_scores(log_likelihood, chain.sets.total[groups], adversary), adversary)
    return known[name]
