r"""Noisy bit vectors of memoized responses: chains over the objects behind the reports.

Chains over the objects behind a user's reports: where they begin, and the behavior that they draw.

The posterior of the pools where a user has many sets of reports: chains say which reports belong together.

Given which do, a set is one object, and what remains is the occupancy of groups of reports (`occupancy`), in which
objects and behavior are summed out; the posterior is its mean over the groupings of the chains (Rao and Blackwell).
With many sets the chains take long to find which pools these lie in, all of which must move at once, but not which
reports are one set's.

The posterior of the pools from noisy bit vectors of kept answers, by chains over the objects behind them.

The likelihood of the objects :math:`z_1 .. z_n` of a user's reports is

.. math:: \prod_t \Phi(z_t) \prod_s \Pr[\text{reports in slot } s \,|\, s] ,

the kept answers being summed out. A chain (`kernels.memoized_chain`) draws slots and behavior in turn; given how many
of the reports lie in each section, the integral over relevant interest and polarization is closed, and so is the
posterior of the pools: its mean over the chain is the attack's (Rao and Blackwell). Behavior is drawn from the nodes
of a Gauss rule that is exact for n reports, which changes nothing of that.

Several chains with different starts first go on for `PILOT` rounds: how far they disagree says how many rounds others
need to agree to `TOLERANCE`, of which these get `MAX_ROUNDS` at most. Only the others count: the error that is stated,
what they disagree by, is then neither one that was waited for until it was small, nor that of chains that a trial found
to agree, by chance maybe, and that have not gone far since. Where a user has many sets of reports, the chains do not
agree in any time; then they say which reports belong together, and no more (`by_groupings`).

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
from poolscope.devices.protocols import Bits, Evidence
from poolscope.inference.adversary import Adversary
from poolscope.inference.memoized.occupancy import Grid, normalized, occupancy_of
from poolscope.inference.memoized.state import Slots, empty_sets, slots_of, units_of
from poolscope.inference.quadrature import fixed_rule
from poolscope.kernels import memoized_chain as kernels
from poolscope.kernels.memoized_moves import Belief, ChainState, Workspace, weigh
from poolscope.kernels.memoized_state import NEVER, Sets, Units, weigh_sets
from poolscope.population.priors import Density

#: Splits and merges to a round, and other preferred pools that are tried.
PAIRS, JUMPS = 8, 2

#: By how much, as a logarithm, every other chain favors sets that are there when reports are dealt.
FAVOUR = 10.0


class Chain(NamedTuple):
    """One chain: the sets of reports and their slots, and the behavior."""

    units: Units
    belief: Belief
    sets: Sets
    place: ChainState
    workspace: Workspace

    def go(self, rounds: int, jumps: int = JUMPS) -> Floats:
        """So many rounds; the sum (k,) over them of the pools' posterior, given how many reports lie in each."""
        out = np.zeros(len(self.belief.log_prior))
        kernels.sweep(*self, rounds, PAIRS, jumps, out)
        return out

    @property
    def groups(self) -> Integers:
        """The numbers of the sets there are."""
        found: Integers = np.flatnonzero(self.sets.size[: len(self.units.count)] > 0)
        return found


def init_chains(units: Units, belief: Belief, key: np.uint64, count: int) -> list[Chain]:
    """So many chains, which differ at the start by more than they will later: what they then disagree by says how far
    they have come.

    Each deals the reports one after the other, the largest units first, to a set that is there or to one of its own.
    That makes too many sets, as the first reports of an object have none to join; every other chain favors sets that
    are there.
    """
    workspace, order = _workspace(units, belief), np.argsort(-units.count, kind="stable")
    chains = []
    for i, own in enumerate(children(key, np.arange(count))):
        chain = Chain(units, belief, empty_sets(units), _place(own, belief), workspace)
        sets, place, k = chain.sets, chain.place, len(belief.log_prior)
        place.weight[:] = np.array([0.5, *np.full(k, 0.5 / k)])
        weigh(belief, place.weight, place.log_weight)
        workspace.order[:] = order
        kernels.start(units, sets, place, workspace, FAVOUR if i % 2 else 0.0)
        kernels.gibbs_behavior(units, sets, belief, place, workspace)
        chains.append(chain)
    return chains


def between(means: Floats) -> tuple[Floats, Floats]:
    """The mean (k,) over chains (chains, k), and its standard error."""
    return means.mean(axis=0), means.std(axis=0, ddof=1) / np.sqrt(len(means))


def belief_of(adversary: Adversary, slots: Slots, n: int) -> Belief:
    """What the adversary believes of behavior, on nodes that are exact for n reports."""
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


def _place(key: np.uint64, belief: Belief) -> ChainState:
    k, classes = len(belief.log_prior), len(belief.blend)
    return ChainState(
        key=key,
        at=np.zeros(4, dtype=np.int64),
        weight=np.empty(k + 1),
        log_weight=np.empty(classes),
        counts=np.zeros(k + 1, dtype=np.int64),
        posterior=np.empty(k),
    )


def _workspace(units: Units, belief: Belief) -> Workspace:
    n, (classes, sections), slots = len(units.count), belief.blend.shape, len(units.class_of)
    return Workspace(
        chances=np.empty(n),
        phi=np.empty(n),
        order=np.empty(n, dtype=np.int64),
        side=np.empty(n, dtype=np.int64),
        among=np.empty(3, dtype=np.int64),
        taken=np.zeros(slots, dtype=bool),
        nodes=np.empty(max(belief.interest.shape[1], belief.polarization.shape[1], sections)),
        mix=np.empty(classes),
        weight=np.empty(sections),
        log_weight=np.empty(classes),
    )


#: Sets of reports above which chains do not agree on the pools; of LARGE or more reports each, in the mean, above SOME.
MANY, SOME, LARGE = 30, 20, 3

#: Chains that say whether they agree, and chains if they do not.
PILOT_CHAINS, CHAINS = 4, 8

#: Rounds until the grouping of a trial is taken, until one that counts, and from one to the next.
TRIAL, FIRST, APART = 4, 6, 4

#: Groupings of a chain at most, which are fewer where reports and objects are many: so many times both, at least LEAST.
#: That bounds the time of a user.
MAX_GROUPINGS, WORK, MIN_GROUPINGS = 16, 1.5e6, 3

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
    _, error = groupings.of(init_chains(units, belief, trial, PILOT_CHAINS), 1, TRIAL)
    needed = (error.max() / enough) ** 2
    chains = init_chains(units, belief, own, PILOT_CHAINS if needed <= 1 else CHAINS)
    most = np.clip(WORK / len(units.class_of) / units.count.sum(), MIN_GROUPINGS, MAX_GROUPINGS)
    count = int(np.clip(np.ceil(needed * PILOT_CHAINS / len(chains)), 1, most))
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
        return normalized(self.occupancy.scores(self.factors, rows, self.grid), self.adversary)

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


#: Chains of a user, rounds until they are far from their start, and rounds that say how many there must be.
N_CHAINS, BURN, PILOT = 8, 8, 16

#: The standard error that is asked for, of the pool that chains agree on least, and the rounds that count.
TOLERANCE, MIN_ROUNDS, MAX_ROUNDS = 0.02, 32, 256


class Found(NamedTuple):
    """posterior (..., k) of the pools, and the standard error (..., k) that the chains leave it with."""

    posterior: Floats
    error: Floats


def memoized_posterior(evidence: Evidence, adversary: Adversary, key: np.uint64) -> Found:
    """Posterior of the pools from the reports of one user, which are bit vectors."""
    assert isinstance(evidence.distribution, Bits)
    slots = slots_of(evidence.slots, adversary)
    units = units_of(evidence.distribution, slots)
    n = len(units.count)
    belief, objects = belief_of(adversary, slots, n), len(slots.order) == len(evidence.slots)
    # from a key of its own: the same reports must not be attacked one way with one key and the other with another
    if objects and are_many(len(init_chains(units, belief, np.uint64(0), 1)[0].groups), n):
        return Found(*by_groupings(units, belief, slots.order, adversary, key, TOLERANCE))
    return estimate_by_chains(units, belief, key)


def estimate_by_chains(units: Units, belief: Belief, key: np.uint64) -> Found:
    """The mean over chains, for as long as a trial of others says that they need, or that there is time for."""
    trial, own = children(key, np.arange(2))

    def run_chains(key: np.uint64, rounds: int) -> tuple[Floats, Floats]:
        means = []
        for chain in init_chains(units, belief, key, N_CHAINS):
            chain.go(BURN)
            means.append(chain.go(rounds) / rounds)
        return between(np.stack(means))

    _, error = run_chains(trial, PILOT)
    needed = PILOT * (error.max() / TOLERANCE) ** 2
    return Found(*run_chains(own, int(np.clip(np.ceil(needed), MIN_ROUNDS, MAX_ROUNDS))))
