"""From pool likelihoods to the posterior of eq. (score_estimate), after every report, in one pass."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poolscope.behaviour import Behaviour
from poolscope.errors import InputError
from poolscope.kernels import posterior as kernels
from poolscope.quadrature import Axis, axis

Floats = NDArray[np.float64]


def posterior(
    likelihood: ArrayLike,
    *,
    belief: Behaviour | None = None,
    lengths: ArrayLike | None = None,
    floor: float = 0.0,
    slope: float = 1.0,
) -> Floats:
    r"""Probability that each pool is the preferred one, after every report.

    .. math:: \\int\\int \\prod_t (\\gamma\\delta L_{t,i} + \\gamma(1-\\delta) \\overline{L_{t,j \\ne i}}
              + (1-\\gamma) L_{t,0}) \\, p(\\gamma)\\, p(\\delta)\\, d\\delta\\, d\\gamma

    Parameters
    ----------
    likelihood : (users, n, k + 1) or (n, k + 1)
        ``likelihood[..., 0]`` is Pr[report | neutral pool], then the pools, each up to a factor common to the row.
    belief : the adversary's priors; uniform where absent.
    lengths : (users,) how many of the n reports each user has; all where absent.
    floor, slope : the likelihood used is floor + slope * likelihood; pure mechanisms pass the popularity mass of a
        report's support.

    Returns
    -------
    (users, n + 1, k) or (n + 1, k): row 0 is the prior. Rows beyond a user's length repeat the last one. From a report
    on that is impossible under the whole model (all its likelihoods are zero) the rows are NaN.
    """
    table = np.asarray(likelihood, dtype=np.float64)
    single = table.ndim == 2
    if single:
        table = table[None]
    if table.ndim != 3 or table.shape[2] < 3:
        raise InputError(
            "likelihood must be (users, n, 1 + pools) with two pools or more", value=np.shape(likelihood)
        )
    if np.any(np.isnan(table)) or np.any(table < 0) or np.any(np.isinf(table)):
        raise InputError("likelihoods must be finite and not negative")
    users, n, columns = table.shape
    counts = np.full(users, n) if lengths is None else np.asarray(lengths)
    if counts.shape != (users,) or np.any(counts < 0) or np.any(counts > n):
        raise InputError(f"lengths must be one for each user, between 0 and {n}")
    belief = belief or Behaviour()
    out = np.empty((users, n + 1, columns - 1))
    fill_posterior(
        table,
        counts.astype(np.int64),
        floor,
        slope,
        axis(belief.interest, n),
        axis(belief.polarization, n),
        belief.pool_prior(columns - 1),
        out,
    )
    for user in np.flatnonzero(counts < n):
        out[user, counts[user] + 1 :] = out[user, counts[user]]
    return out[0] if single else out


def fill_posterior(
    likelihood: Floats,
    lengths: NDArray[np.int64],
    floor: float,
    slope: float,
    interest: Axis,
    polarization: Axis,
    pool_prior: Floats,
    out: Floats,
) -> None:
    """`posterior` without its checks, for blocks of users: fills out (users, n + 1, k) up to each user's length."""
    users, n, columns = likelihood.shape
    k = columns - 1
    nodes = _largest(interest) * _largest(polarization)
    kernels.posteriors(
        likelihood,
        lengths,
        floor,
        slope,
        pool_prior,
        interest.capacities,
        interest.degrees,
        interest.offsets,
        interest.rules,
        polarization.capacities,
        polarization.degrees,
        polarization.offsets,
        polarization.rules,
        np.empty((n + kernels.LANE, k + 2)),
        np.empty((kernels.SPAN, 2), dtype=np.int64),
        np.empty((4, nodes)),
        np.empty((kernels.LANE, nodes)),
        np.empty((k, nodes)),
        np.empty((k, nodes), dtype=np.uint64),
        np.empty((k, nodes)),
        np.empty(kernels.LANE),
        np.empty(k, dtype=np.uint64),
        np.empty((n, k)),
        np.empty((n, k), dtype=np.uint64),
        out,
    )


def _largest(ladder: Axis) -> int:
    return int(np.diff(ladder.offsets).max())
