r"""The posterior of the pools from noisy bit vectors of kept answers, by chains over the objects behind them.

The likelihood of the objects :math:`z_1 .. z_n` of a user's reports is

.. math:: \prod_t \Phi(z_t) \prod_s \Pr[\text{reports in slot } s \,|\, s] ,

the kept answers being summed out. A chain (`kernels.kept_chain`) draws slots and behaviour in turn; given how many of
the reports lie in each section, the integral over relevant interest and polarization is closed, and so is the posterior
of the pools: its mean over the chain is the attack's (Rao and Blackwell). Behaviour is drawn from the nodes of a Gauss
rule that is exact for n reports, which changes nothing of that.

Several chains with different starts first go on for `TRIAL` rounds: how far they disagree says how many rounds others
need to agree to `ENOUGH`, of which these get `MOST` at most. Only the others count: the error that is stated, what they
disagree by, is then neither one that was waited for until it was small, nor that of chains that a trial found to agree,
by chance maybe, and that have not gone far since. Where a user has many sets of reports, the
chains do not agree in any time; then they say which reports belong together, and no more (`groupings`).

References
----------
S. Jain, R. M. Neal. A split-merge Markov chain Monte Carlo procedure for the Dirichlet process mixture model. JCGS 13,
2004.
D. B. Dahl. Sequentially-allocated merge-split sampler for conjugate and nonconjugate Dirichlet process mixture models.
2005.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from poolscope.core.arrays import Floats
from poolscope.core.randomness import children
from poolscope.inference.adversary import Adversary
from poolscope.inference.memoized.chains import begun, belief_of, between
from poolscope.inference.memoized.groupings import are_many, by_groupings
from poolscope.inference.memoized.slots import slots_of
from poolscope.inference.memoized.units import units_of
from poolscope.kernels.memoized_moves import Belief
from poolscope.kernels.memoized_state import Units
from poolscope.mechanisms.devices import Bits, Evidence

#: Chains of a user, rounds until they are far from their start, and rounds that say how many there must be.
CHAINS, BURN, TRIAL = 8, 8, 16

#: The standard error that is asked for, of the pool that chains agree on least, and the rounds that count.
ENOUGH, LEAST, MOST = 0.02, 32, 256


class Found(NamedTuple):
    """posterior (..., k) of the pools, and the standard error (..., k) that the chains leave it with."""

    posterior: Floats
    error: Floats


def kept_posterior(evidence: Evidence, adversary: Adversary, key: np.uint64) -> Found:
    """Posterior of the pools from the reports of one user, which are bit vectors."""
    assert isinstance(evidence.law, Bits)
    slots = slots_of(evidence.slots, adversary)
    units = units_of(evidence.law, slots)
    n = len(units.count)
    belief, objects = belief_of(adversary, slots, n), len(slots.order) == len(evidence.slots)
    # from a key of its own: the same reports must not be attacked one way with one key and the other with another
    if objects and are_many(len(begun(units, belief, np.uint64(0), 1)[0].groups), n):
        return Found(*by_groupings(units, belief, slots.order, adversary, key, ENOUGH))
    return agreed(units, belief, key)


def agreed(units: Units, belief: Belief, key: np.uint64) -> Found:
    """The mean over chains, for as long as a trial of others says that they need, or that there is time for."""
    trial, own = children(key, np.arange(2))

    def gone(key: np.uint64, rounds: int) -> tuple[Floats, Floats]:
        means = []
        for chain in begun(units, belief, key, CHAINS):
            chain.go(BURN)
            means.append(chain.go(rounds) / rounds)
        return between(np.stack(means))

    _, error = gone(trial, TRIAL)
    needed = TRIAL * (error.max() / ENOUGH) ** 2
    return Found(*gone(own, int(np.clip(np.ceil(needed), LEAST, MOST))))
