"""The non-private attack: the adversary sees the objects themselves."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arrays import Floats, Integers, Objects
from poolscope.devices.policy import ReportedEvents
from poolscope.inference.independent import BlockPosteriors, posterior_by_pseudonym, users_per_chunk
from poolscope.inference.posterior import posteriors
from poolscope.inference.quadrature import axis, fixed_rule, point_axis
from poolscope.kernels import decision as kernels
from poolscope.population.behavior import Behavior
from poolscope.population.priors import UNIFORM
from poolscope.population.universe import Universe

#: Rows of the table of integrals that are in memory at a time; changes no bit.
ROWS = 128


def non_private_posterior(universe: Universe, traces: Objects, belief: Behavior | None = None) -> Floats:
    """Return the posterior (users, n + 1, hypotheses) of an adversary who sees the objects; by default with uniform
    priors.

    Popularity and relevant interest are common factors of all pools and cancel (footnote on the non-private scenario).
    The priors of the polarization and of the pools remain.
    """
    belief = belief or Behavior()
    if belief.polarization != UNIFORM:
        out = _by_quadrature(universe, traces, belief)
    else:
        out = _by_counts(universe, traces)
        if belief.pools is not None:
            out *= belief.pool_prior(universe.k)
            with np.errstate(invalid="ignore"):  # the only possible pool may be one that the prior excludes
                out /= out.sum(axis=2, keepdims=True)
    return _with_none(out, universe, traces, belief) if belief.none else out


def _with_none(out: Floats, universe: Universe, traces: Objects, belief: Behavior) -> Floats:
    """Add the hypothesis that no pool is preferred, which any object of a pool excludes.

    Neutral objects alone have the probability E[(1 - gamma)^n] if a pool is preferred, and one if none is.
    """
    users, n = traces.shape
    rule = fixed_rule(belief.interest, n, 1)
    if_preferred = np.array([rule[2] @ (1.0 - rule[0]) ** t for t in range(n + 1)]) / rule[2].sum()
    neutral = np.ones((users, n + 1), dtype=bool)
    neutral[:, 1:] = np.logical_and.accumulate(universe.pool_of[traces] < 0, axis=1)
    none = np.where(neutral, belief.none / (belief.none + (1.0 - belief.none) * if_preferred), 0.0)[:, :, None]
    return np.concatenate([out * (1.0 - none), none], axis=2)


def _by_counts(universe: Universe, traces: Objects) -> Floats:
    """Return the posterior under uniform priors.

    The integral over the polarization depends on the number of objects of the preferred pool among those of any pool:
    one table of integrals is for all users.
    """
    users, n = traces.shape
    events, k = np.ascontiguousarray(traces), universe.k
    out = np.empty((users, n + 1, k))
    out[:, 0] = 1.0 / k
    n_processed, counts = np.zeros(users, dtype=np.int64), np.zeros((users, k + 1), dtype=np.int64)
    for first in range(1, n + 1, ROWS):
        mantissa, exponent = _integrals(k, first, min(ROWS, n + 1 - first))
        kernels.non_private_posteriors(events, universe.pool_of, first, mantissa, exponent, n_processed, counts, out)
    return out


def _by_quadrature(universe: Universe, traces: Objects, belief: Behavior) -> Floats:
    """Return the posterior under any prior of the polarization: an object is possible in its own pool alone.

    A neutral object has the same likelihood under every pool, so that the relevant interest can be fixed at one.
    """
    users, n = traces.shape
    pool = universe.pool_of[traces][..., None]
    likelihood = np.where(pool < 0, 1.0, np.arange(-1, universe.k) == pool)
    axes = point_axis(), axis(belief.polarization, n)
    return posteriors(likelihood, np.full(users, n), 0.0, 1.0, *axes, belief.pool_prior(universe.k))


@lru_cache(maxsize=8)
def _integrals(k: int, first: int, rows: int) -> tuple[Floats, NDArray[np.int32]]:
    """Return rows of the table of integrals, cached."""
    mantissa, exponent = np.empty((rows, first + rows)), np.empty((rows, first + rows), dtype=np.int32)
    kernels.polarization_integrals(first, k, mantissa, exponent)
    return mantissa, exponent


def non_private_posteriors(universe: Universe, sent: ReportedEvents, belief: Behavior) -> BlockPosteriors:
    """Return the posteriors of a block of users, from the objects that their devices would report."""

    def attack(objects: Objects, lengths: Integers) -> Floats:
        return non_private_posterior(universe, objects, belief)

    def compute(rows: slice) -> tuple[Floats, None]:
        return posterior_by_pseudonym(attack, sent.objects[rows], sent.lengths[rows], sent.rotate_after), None

    return BlockPosteriors(compute, users_per_chunk(sent.objects.shape[1], universe.k), sent.rotate_after)
