"""The posterior of eq. (score_estimate) from pool likelihoods, after every report."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from poolscope.core.arguments import as_counts, as_floats, checked
from poolscope.core.arrays import Floats
from poolscope.core.errors import InputError, PoolscopeError
from poolscope.inference.quadrature import GaussRules, axis, fixed_rule
from poolscope.kernels import adaptive_quadrature as kernels
from poolscope.kernels.compilation import BackgroundCompile
from poolscope.kernels.quadrature_grid import marginals, node_workspace
from poolscope.population.behavior import Behavior
from poolscope.population.priors import Density

#: Compiled in the background, as it takes longest.
COMPILED = BackgroundCompile(
    kernels.posteriors,
    "import numpy; from poolscope.inference.posterior import posterior_of_likelihood as p; p(numpy.ones((1, 1, 3)))",
)


#: Largest likelihood: sums over pools do not overflow. A factor common to a report can be divided out.
LARGEST = 1e300


@checked
def posterior_of_likelihood(
    likelihood: ArrayLike,
    *,
    belief: Behavior | None = None,
    lengths: ArrayLike | None = None,
    likelihood_offset: float = 0.0,
    likelihood_scale: float = 1.0,
) -> Floats:
    r"""Return the probability that each pool is the preferred one, after every report.

    .. math:: \int\int \prod_t (\gamma\delta L_{t,i} + \gamma(1-\delta) \overline{L_{t,j \ne i}}
              + (1-\gamma) L_{t,0}) \, p(\gamma)\, p(\delta)\, d\delta\, d\gamma

    Parameters
    ----------
    likelihood : (users, n, k + 1) or (n, k + 1)
        ``likelihood[..., 0]`` is Pr[report | neutral pool], then the pools, each up to a factor common to the row.
    belief : the adversary's priors; uniform where absent.
    lengths : (users,) how many of the n reports each user has; all where absent.
    likelihood_offset, likelihood_scale : the likelihood used is likelihood_offset + likelihood_scale * likelihood; pure
        mechanisms pass the popularity mass of a report's support.

    Returns
    -------
    (users, n + 1, k) or (n + 1, k): row 0 is the prior. Rows beyond a user's length repeat the last one. Rows are NaN
    from a report on that is impossible under the model, as all its likelihoods are zero. A belief that a user may
    prefer no pool adds a last column, the posterior of that hypothesis, under which every object is neutral.

    Examples
    --------
    >>> likelihood = [[1.0, 3.0, 1.0], [1.0, 3.0, 1.0]]
    >>> ps.posterior_of_likelihood(likelihood).round(3)
    array([[0.5  , 0.5  ],
           [0.583, 0.417],
           [0.67 , 0.33 ]])
    """
    table, counts, single = _checked(likelihood, lengths, likelihood_offset, likelihood_scale)
    _, n, columns = table.shape
    belief = belief or Behavior()
    axes = axis(belief.interest, n), axis(belief.polarization, n)
    out = posteriors(
        table, counts, likelihood_offset, likelihood_scale, *axes, belief.pool_prior(columns - 1), belief.none
    )
    return out[0] if single else out


def _checked(
    likelihood: ArrayLike, lengths: ArrayLike | None, likelihood_offset: float, likelihood_scale: float
) -> tuple[Floats, NDArray[np.int64], bool]:
    """Return the likelihoods as (users, n, k + 1), the users' lengths, and whether a single user was given."""
    table = as_floats("likelihoods", likelihood)
    single = table.ndim == 2
    if single:
        table = table[None]
    if table.ndim != 3 or table.shape[2] < 3:
        raise InputError(
            "likelihood must be (users, n, 1 + pools) with two pools or more",
            value=np.shape(likelihood),
        )
    if np.any(np.isnan(table)) or np.any(table < 0) or np.any(table > LARGEST):
        raise InputError(f"likelihoods must be finite and not negative, at most {LARGEST:g}")
    if not (
        0 <= likelihood_offset <= LARGEST
        and 0 <= likelihood_scale <= LARGEST
        and likelihood_offset + likelihood_scale * table.max(initial=0.0) <= LARGEST
    ):
        raise InputError(
            f"likelihood_offset + likelihood_scale * likelihood must be from 0 to {LARGEST:g}",
            value=(likelihood_offset, likelihood_scale),
        )
    users, n, _ = table.shape
    counts = np.full(users, n) if lengths is None else as_counts("lengths", lengths)
    if counts.shape != (users,) or np.any(counts > n):
        raise InputError(f"lengths must be one for each user, between 0 and {n}")
    return table, counts, single


def posteriors(
    likelihood: Floats,
    lengths: NDArray[np.int64],
    likelihood_offset: float,
    likelihood_scale: float,
    interest: GaussRules,
    polarization: GaussRules,
    pool_prior: Floats,
    no_pool_prior: float = 0.0,
) -> Floats:
    """Compute `posterior_of_likelihood` without checks, for blocks of users, on axes that are common to all of them."""
    users, n, columns = likelihood.shape
    out = np.empty((users, n + 1, columns - 1))
    log_bayes = np.empty((users if no_pool_prior else 0, n + 1))
    COMPILED.wait()
    workspace, axes = node_workspace(n, columns - 1), (interest, polarization)
    lost, reports = kernels.posteriors(
        *_in_memory(likelihood),
        # a kernel is compiled again for each layout of its arguments
        np.ascontiguousarray(lengths),
        likelihood_offset,
        likelihood_scale,
        pool_prior,
        *axes,
        workspace,
        out,
        log_bayes,
    )
    if lost >= 0:
        raise not_a_number(f"the posterior of user {lost} of a block after {reports} reports")
    if no_pool_prior:
        # Bayes factors of preferring some pool against none
        of_none = special.expit(np.log(no_pool_prior) - np.log1p(-no_pool_prior) - log_bayes)
        out = np.concatenate([out * (1.0 - of_none[:, :, None]), of_none[:, :, None]], axis=2)
    for user in np.flatnonzero(lengths < n):
        out[user, lengths[user] + 1 :] = out[user, lengths[user]]
    return out


def not_a_number(what: str) -> PoolscopeError:
    """Return the error of an integral that failed; NaN is reserved for impossible reports."""
    return PoolscopeError(f"internal error: {what} is not a number; please report it with the scenario and the seed")


def _in_memory(likelihood: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """Return the memory of likelihoods (users, n, columns), and the strides of user, report and column.

    An adversary's columns need not be copied, and the kernel is compiled for one memory layout.
    """
    table = np.require(likelihood, np.float64, ["A", "W"])
    if min(table.strides) < 0 or not table.size:
        table = table.copy()
    steps = np.array(table.strides) // table.itemsize
    size = 1 + int(steps @ (np.array(table.shape) - 1)) if table.size else 0
    return np.lib.stride_tricks.as_strided(table, (size,), (table.itemsize,)), steps


@dataclass(frozen=True, kw_only=True)
class BehaviorPosterior:
    """What the attack learns about a user beyond the pool: posterior means and central 95% intervals.

    Each is an array (users,); delta is the polarization towards the preferred pool.

    Examples
    --------
    >>> learned = ps.behavior_posterior(np.tile([1.0, 3.0, 1.0], (20, 1)))
    >>> bool(learned.gamma_low < learned.gamma < learned.gamma_high)
    True
    """

    gamma: Floats
    gamma_low: Floats
    gamma_high: Floats
    delta: Floats
    delta_low: Floats
    delta_high: Floats


#: Nodes of an axis for its quantiles, as a multiple of what the integral needs.
FINE = 4


@checked
def behavior_posterior(
    likelihood: ArrayLike,
    *,
    belief: Behavior | None = None,
    lengths: ArrayLike | None = None,
    likelihood_offset: float = 0.0,
    likelihood_scale: float = 1.0,
) -> BehaviorPosterior:
    """Return the posterior of the relevant interest and of the polarization after all reports.

    Parameters are those of `posterior_of_likelihood`.

    The means are exact. The ends of the intervals come from the posterior at the nodes of a rule with `FINE` times the
    nodes that the integral needs; their error is about a thousandth of the interval's width.

    Examples
    --------
    >>> likelihood = np.tile([1.0, 3.0, 1.0], (20, 1))
    >>> learned = ps.behavior_posterior(likelihood)
    >>> learned.gamma.round(3), learned.delta.round(3)
    (array([0.93]), array([0.93]))
    """
    table, counts, _ = _checked(likelihood, lengths, likelihood_offset, likelihood_scale)
    belief = belief or Behavior()
    k = table.shape[2] - 1
    sides = {}
    for name, fine_g, fine_u in (("gamma", FINE, 1), ("delta", 1, FINE)):
        values = []
        for user, n in enumerate(counts):
            rule_g = fixed_rule(belief.interest, int(n), fine_g)
            rule_u = fixed_rule(belief.polarization, int(n), fine_u)
            masses = _marginals(table[user, :n], likelihood_offset, likelihood_scale, belief, rule_g, rule_u)
            rule, mass = (rule_g, masses[0]) if name == "gamma" else (rule_u, masses[1])
            density = belief.interest if name == "gamma" else belief.polarization
            values.append([rule[0] @ mass, *_quantiles(density, rule[2], mass)])
        sides[name] = np.array(values).reshape(-1, 3).T
    scale = (1.0 / k, 1.0 - 1.0 / k)
    delta = scale[0] + scale[1] * sides["delta"]
    gamma = sides["gamma"]
    return BehaviorPosterior(
        gamma=gamma[0],
        gamma_low=gamma[1],
        gamma_high=gamma[2],
        delta=delta[0],
        delta_low=delta[1],
        delta_high=delta[2],
    )


def _marginals(
    likelihood: Floats,
    likelihood_offset: float,
    likelihood_scale: float,
    belief: Behavior,
    rule_g: Floats,
    rule_u: Floats,
) -> tuple[Floats, Floats]:
    """Return the posterior masses at the nodes of each axis for one user."""
    n, columns = likelihood.shape
    k = columns - 1
    out = np.empty(rule_g.shape[1]), np.empty(rule_u.shape[1])
    workspace = node_workspace(n, k)
    memory, steps = _in_memory(likelihood[None])
    possible = marginals(
        memory, steps, n, likelihood_offset, likelihood_scale, belief.pool_prior(k), rule_g, rule_u, workspace, *out
    )
    if possible and not all(np.isfinite(part).all() for part in out):
        raise not_a_number("the posterior of relevant interest and polarization")
    return out


def _quantiles(density: Density, weight: Floats, mass: Floats) -> Floats:
    """Return the ends of the central 95% of a posterior that is given by its mass at the nodes of its prior's rule.

    A node represents the cell of the prior's quantiles that has its weight (Chebyshev, Markov, Stieltjes). Between the
    ends of the cells the distribution is interpolated monotonically.
    """
    if np.isnan(mass).any():
        return np.full(2, np.nan)
    edges = density.quantile(np.minimum(np.concatenate([[0.0], np.cumsum(weight)]) / weight.sum(), 1.0))
    cumulative = np.concatenate([[0.0], np.cumsum(mass)]) / mass.sum()
    rising = np.concatenate([np.diff(cumulative) > 1e-15, [True]])
    from scipy.interpolate import PchipInterpolator  # most of a second, which no audit needs

    return np.asarray(PchipInterpolator(cumulative[rising], edges[rising])((0.025, 0.975)))
