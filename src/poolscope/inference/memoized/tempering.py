"""The posterior of the pools by sampled tables of permanent responses, where there are too many to add up.

Each chain runs at several temperatures (`kernels.table_chains`). It starts from a table and a behavior of its own,
drawn from the prior, so that chains differ more at the start than later. A pilot of a few chains says how many sweeps
others need to agree to `TOLERANCE`. They get `MIN_SWEEPS` at least, and what `MAX_WORK` allows at most; only they
count. The error is what they differ by: it is large where they have not converged in that time.

References
----------
C. J. Geyer. Markov chain Monte Carlo maximum likelihood. Computing Science and Statistics 23, 1991.
A. Gelman, D. B. Rubin. Inference from iterative simulation using multiple sequences. Statistical Science 7, 1992.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from poolscope.core.arrays import Floats
from poolscope.core.randomness import children, generator
from poolscope.inference.adversary import Adversary
from poolscope.inference.memoized.chains import between
from poolscope.inference.memoized.sampler import Found
from poolscope.inference.memoized.tables import Tables, axes
from poolscope.kernels.memoized_table_chains import Chain, Problem, Scratch, run

#: Inverse temperatures of a chain.
LEVELS = 0.02 ** (np.arange(6) / 5.0)

#: Chains that count, those of the pilot and its sweeps.
CHAINS, PILOT_CHAINS, PILOT_SWEEPS = 12, 4, 16

#: Pairs of slots that a sweep redraws, at most and as a share of all slots.
MAX_PAIRS, PAIR_SHARE = 32, 1.5

#: A slot without weight is redrawn this often, relative to the slot with the most.
SLOWEST = 0.01

#: The standard error that is asked for, sweeps at least and at most, and of all sweeps the share that does not count.
TOLERANCE, MIN_SWEEPS, MAX_SWEEPS, BURN_IN = 0.005, 32, 1024, 1 / 3

#: Logarithms and exponentials of a user at most, a fifth of a second, and as how many the rest of a pair counts.
MAX_WORK, PAIR_WORK = 6.0e7, 60

#: The relative error that lines of nodes may leave an integral with, as a power of e.
LINE_ERROR = -8.0


class TableSampler:
    """Chains over the tables of one user."""

    def __init__(self, tables: Tables, adversary: Adversary) -> None:
        k, n = adversary.k, int(tables.counts.sum())
        interest, polarization = axes(adversary.belief, k, adversary.universe.neutral_size > 0, n, LINE_ERROR)
        with np.errstate(divide="ignore"):
            for axis in (interest, polarization):
                axis[2] = np.log(axis[2])
            log_prior = np.log(adversary.belief.pool_prior(k))
        mass, log_law = _two_at_least(tables)
        self.problem = Problem(
            mass=mass,
            log_law=log_law,
            counts=tables.counts.astype(np.float64),
            base=tables.base,
            fixed=tables.base.any(axis=1),
            rate=np.array(tables.rate),
            interest=interest,
            polarization=polarization,
            log_prior=log_prior,
            # a slot of much weight decides more, but all must move
            cumulative=np.cumsum(_pace(mass)),
            levels=LEVELS,
        )
        responses, lines = len(tables.counts), max(interest.shape[1], k * polarization.shape[1])
        x, y = np.empty((2, max(lines, 4 * (responses + 1))))
        words = x.view(np.int64), y.view(np.int64)
        self.scratch = Scratch(x, words[0], y, words[1], np.empty(lines), np.empty(k + 1), np.empty(k))
        self.pairs = int(np.clip(PAIR_SHARE * len(mass), 1, MAX_PAIRS))
        #: Logarithms and exponentials of a sweep.
        pair, behavior = 7 * (responses + 1) + PAIR_WORK, responses * (interest.shape[1] + lines)
        self.work = len(LEVELS) * (self.pairs * pair + behavior)

    def start(self, key: np.uint64) -> Chain:
        """A chain with a table and a behavior from the prior; a response that is sent without noise has a slot."""
        problem, rng = self.problem, generator(key)
        (slots, wide), levels = problem.log_law.shape, len(LEVELS)
        noise = rng.gumbel(size=(slots, wide))
        table = np.argmax(problem.log_law + noise, axis=1)
        if problem.rate[0] == 0:
            open_ = np.flatnonzero(~problem.fixed)
            cost = -(problem.log_law[:, open_] + noise[:, open_]).T
            response, slot = linear_sum_assignment(np.where(np.isfinite(cost), cost, 1e6))
            table[slot] = open_[response]
        nodes = problem.interest.shape[1], problem.polarization.shape[1]
        behavior = [rng.integers(high, size=levels) for high in (len(problem.log_prior), *nodes)]
        responses, sections = problem.base.shape
        return Chain(
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
        """(chains, k) mean posteriors of independent chains."""
        burn_in, out = int(np.ceil(BURN_IN * sweeps / (1 - BURN_IN))), np.zeros((chains, len(self.problem.log_prior)))
        for own, mean in zip(children(key, np.arange(chains)), out, strict=True):
            chain, at = self.start(own), 0
            for count in (burn_in, sweeps):
                mean[:] = 0.0
                at = run(self.problem, chain, self.scratch, own, at, count, self.pairs, mean)
            mean /= sweeps
        return out

    def posterior(self, key: np.uint64, chains: int, sweeps: int) -> Found:
        """The mean over chains, and its error.

        What fewer than one sampled table in all says is not seen, however well chains agree: the error is no smaller.
        """
        mean, error = between(self.means(key, chains, sweeps))
        return Found(mean, np.hypot(error, 1.0 / (chains * sweeps)))


def tempered_posterior(tables: Tables, adversary: Adversary, key: np.uint64) -> Found:
    """Posterior of the pools and its standard error."""
    sampler, (pilot, own) = TableSampler(tables, adversary), children(key, np.arange(2))
    error = sampler.posterior(pilot, PILOT_CHAINS, PILOT_SWEEPS).error.max()
    needed = PILOT_SWEEPS * (error / TOLERANCE) ** 2 * PILOT_CHAINS / CHAINS
    most = np.clip((1 - BURN_IN) * MAX_WORK / sampler.work / CHAINS, MIN_SWEEPS, MAX_SWEEPS)
    return sampler.posterior(own, CHAINS, int(np.clip(np.ceil(needed), MIN_SWEEPS, most)))


def _two_at_least(tables: Tables) -> tuple[Floats, Floats]:
    """Mass and law of the slots; where there are fewer than two, slots without mass that nobody reports."""
    missing = max(0, 2 - len(tables.mass))
    law = np.full((missing, tables.log_law.shape[1]), -np.inf)
    law[:, -1] = 0.0
    mass = np.vstack([tables.mass, np.zeros((missing, tables.mass.shape[1]))])
    return mass, np.vstack([tables.log_law, law])


def _pace(mass: Floats) -> Floats:
    """(slots,) how often a slot is redrawn."""
    root = np.sqrt(mass.max(axis=1))
    pace: Floats = root + max(SLOWEST * root.max(), 1e-300)
    return pace
