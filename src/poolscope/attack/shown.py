"""The attack without a mechanism: the adversary sees the objects themselves."""

from __future__ import annotations

import numpy as np

from poolscope.attack.fresh import at_once
from poolscope.attack.posterior import fill_posterior
from poolscope.attack.quadrature import axis, point_axis
from poolscope.attack.role import Posteriors
from poolscope.base.arrays import Floats, Objects
from poolscope.kernels import shown as kernels
from poolscope.world.behaviour import Behaviour
from poolscope.world.densities import UNIFORM
from poolscope.world.universe import Universe


def non_private_posterior(universe: Universe, traces: Objects) -> Floats:
    """Posterior (users, n + 1, k) of an adversary who sees the objects themselves.

    Popularity and relevant interest are the same factor for every pool and cancel (footnote on the non-private
    scenario), so only the integral over the polarization is left.
    """
    users, n = traces.shape
    likelihood = np.empty((users, n, universe.k + 1))
    kernels.shown_pools(traces, universe.pool_of, likelihood)
    out, lengths = np.empty((users, n + 1, universe.k)), np.full(users, n, dtype=np.int64)
    prior = Behaviour().pool_prior(universe.k)
    fill_posterior(likelihood, lengths, 0.0, 1.0, point_axis(), axis(UNIFORM, n), prior, out)
    return out


def non_private_posteriors(universe: Universe, traces: Objects) -> Posteriors:
    """The same for a block of users."""
    return Posteriors(lambda rows: non_private_posterior(universe, traces[rows]), at_once(traces.shape[1], universe.k))
