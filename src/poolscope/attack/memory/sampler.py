r"""The posterior of the pools from reports of kept answers, by chains over the objects behind them.

The likelihood of the objects :math:`z_1 .. z_n` of a user's reports is

.. math:: \prod_t \Phi(z_t) \prod_s \Pr[\text{reports in slot } s \,|\, s] ,

the kept answers being summed out. A chain (`kernels.kept_chain`) draws slots and behaviour in turn; given how many of
the reports lie in each section, the integral over relevant interest and polarization is closed, and so is the posterior
of the pools: its mean over the chain is the attack's (Rao and Blackwell). Behaviour is drawn from the nodes of a Gauss
rule that is exact for n reports, which changes nothing of that.

Several chains, each with draws of its own from the start, first go on for `TRIAL` rounds: how far they disagree says
how many more they need to agree to `ENOUGH`, of which they get `MOST` at most. Only these count, so that the error that
is stated, what they disagree by in the end, is not one that was waited for until it was small.

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

from poolscope.attack.adversary import Adversary
from poolscope.attack.memory.slots import Slots, slots_of
from poolscope.attack.memory.units import empty_sets, units_of
from poolscope.attack.quadrature import fixed_rule
from poolscope.base.arrays import Floats
from poolscope.base.randomness import children
from poolscope.kernels import kept_chain as kernels
from poolscope.kernels.kept_deals import weigh
from poolscope.kernels.kept_draws import Belief, Place, Room
from poolscope.kernels.kept_sets import NEVER, Sets, Units
from poolscope.mechanisms.kept import Evidence, Identical
from poolscope.world.densities import Density

#: Chains of a user, rounds until they are far from their start, and rounds that say how many more there must be.
CHAINS, BURN, TRIAL = 8, 8, 16

#: The standard error that is asked for, of the pool that chains agree on least, and the rounds that count at most.
ENOUGH, MOST = 0.02, 256

#: Splits and merges to a round, and other preferred pools that are tried.
PAIRS, JUMPS = 8, 2


class Found(NamedTuple):
    """posterior (..., k) of the pools, and the standard error (..., k) that the chains leave it with."""

    posterior: Floats
    error: Floats


def kept_posterior(evidence: Evidence, adversary: Adversary, key: np.uint64) -> Found:
    """Posterior of the pools from the reports of one user; reports that the model excludes leave the prior."""
    prior, law = adversary.belief.pool_prior(adversary.k), evidence.law
    slots = slots_of(evidence.slots, adversary)
    units = units_of(law, slots)
    n = int(units.count.sum())
    if n == 0 or (isinstance(law, Identical) and _excluded(law)):
        return Found(prior, np.zeros(len(prior)))
    return agreed(units, belief_of(adversary, slots, n), key)


def _excluded(law: Identical) -> bool:
    answers, slots = law.log_law.shape
    return answers > slots or bool(np.isneginf(law.log_law.max(axis=1)).any())


def agreed(units: Units, belief: Belief, key: np.uint64) -> Found:
    """The mean over the chains, for as long as a trial says that they need, or that there is time for."""
    k, classes = len(belief.log_prior), len(belief.blend)
    room = _room(units, belief)
    order = np.argsort(-units.count, kind="stable")
    chains: list[tuple[Sets, Place]] = []
    for own in children(key, np.arange(CHAINS)):
        sets, place = empty_sets(units), _place(own, k, classes)
        place.weight[:] = np.array([0.5, *np.full(k, 0.5 / k)])
        weigh(belief, place.weight, place.log_weight)
        room.order[:] = order
        kernels.start(units, sets, place, room)
        kernels.behave(units, sets, belief, place, room)
        kernels.sweep(units, sets, belief, place, room, BURN, PAIRS, JUMPS, np.zeros(k))
        chains.append((sets, place))

    def gone(rounds: int) -> Found:
        sums = np.zeros((CHAINS, k))
        for (sets, place), total in zip(chains, sums, strict=True):
            kernels.sweep(units, sets, belief, place, room, rounds, PAIRS, JUMPS, total)
        means: Floats = sums / rounds
        return Found(means.mean(axis=0), means.std(axis=0, ddof=1) / np.sqrt(CHAINS))

    needed = TRIAL * (gone(TRIAL).error.max() / ENOUGH) ** 2
    return gone(int(np.clip(np.ceil(needed), TRIAL, MOST)))


def belief_of(adversary: Adversary, slots: Slots, n: int) -> Belief:
    """What the adversary believes of behaviour, on nodes that are exact for n reports."""
    k, belief = adversary.k, adversary.belief
    with np.errstate(divide="ignore"):
        log_prior = np.log(belief.pool_prior(k))
    return Belief(
        log_prior=log_prior,
        interest=_axis(belief.interest, n, 1),
        polarization=_axis(belief.polarization, n, k),
        integral=_integrals(belief.polarization, n, k),
        blend=slots.blend,
        only=slots.only,
        class_at=slots.class_at,
    )


@lru_cache(maxsize=64)
def _axis(density: Density, n: int, k: int) -> Floats:
    """(3, nodes) log x, log y, log weight: of gamma and 1 - gamma (k = 1), or of delta and (1 - delta) / (k - 1)."""
    x, y, weight = fixed_rule(density, n)[:3]
    if k > 1:
        x, y = 1.0 / k + (1.0 - 1.0 / k) * x, (1.0 - 1.0 / k) * y / (k - 1)
    with np.errstate(divide="ignore"):
        logs: Floats = np.maximum(np.log(np.stack([x, y, weight])), NEVER)
    return logs


@lru_cache(maxsize=64)
def _integrals(density: Density, n: int, k: int) -> Floats:
    """(n + 1, n + 1) log of the mean of delta^own ((1 - delta)/(k - 1))^rest, as far as own + rest <= n."""
    log_x, log_y, log_weight = _axis(density, n, k)
    out = np.full((n + 1, n + 1), -np.inf)
    for own in range(n + 1):
        rest = np.arange(n + 1 - own)[:, None]
        out[own, : n + 1 - own] = logsumexp(own * log_x + rest * log_y + log_weight, axis=1)
    return out


def _place(key: np.uint64, k: int, classes: int) -> Place:
    return Place(
        key=key,
        at=np.zeros(4, dtype=np.int64),
        weight=np.empty(k + 1),
        log_weight=np.empty(classes),
        counts=np.zeros(k + 1, dtype=np.int64),
        posterior=np.empty(k),
    )


def _room(units: Units, belief: Belief) -> Room:
    n, (classes, sections), slots = len(units.count), belief.blend.shape, len(units.class_of)
    tables = n + 3 if units.joins else 1
    return Room(
        chances=np.empty(n + 1),
        order=np.empty(n, dtype=np.int64),
        side=np.empty(n, dtype=np.int64),
        among=np.empty(3, dtype=np.int64),
        taken=np.zeros(slots, dtype=bool),
        tables=np.empty((tables, slots)),
        totals=np.empty((tables, classes)),
        nodes=np.empty(max(belief.interest.shape[1], belief.polarization.shape[1], sections)),
        mix=np.empty(classes),
        weight=np.empty(sections),
        log_weight=np.empty(classes),
    )
