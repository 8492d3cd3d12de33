r"""Fit the population: Beta distributions of relevant interest and polarization by maximum marginal likelihood.

A user's data x have the likelihood

.. math:: \sum_i w_i \int\int \Pr[x \mid \gamma, \delta, i] \, p(\gamma) \, p(\delta) \, d\gamma \, d\delta

with w the weights of the preferred pools. On a fixed grid of cells, evenly spaced in the angle arccos(1 - 2x), the
likelihood of each cell is computed once; only the prior masses of the cells change with the parameters. Beta densities
may be infinite at an end, their masses never are. Intervals are by profile likelihood: a parameter is inside while the
best other parameters leave the log likelihood within `DROP` of its maximum.

References
----------
S. A. Murphy, A. W. van der Vaart. On profile likelihood. J. Amer. Statist. Assoc. 95, 2000.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import optimize, special, stats

from poolscope.core.arrays import Floats, Integers

#: Drop of the log likelihood at the ends of a 95% interval.
DROP = float(stats.chi2.ppf(0.95, 1)) / 2.0

#: Bounds of a parameter: the logit of a mean, and the log of a concentration a + b. Beyond, users are practically all
#: alike, or have all or nothing; an interval that reaches a bound has no end.
BOUNDS = ((-12.0, 12.0), (math.log(0.02), math.log(1e3)))

#: Starting points: logit of the mean and log of the concentration.
STARTS = ((0.0, math.log(2.0)), (-2.5, math.log(3.0)))

#: First step from the maximum to the end of an interval.
FIRST_STEP = 0.05

#: Step of the derivatives of the masses.
STEP = 1e-4

#: Cells of an axis: of counts, whose two axes separate, and of reports.
COUNT_CELLS, REPORT_CELLS = 400, 40

#: Cells at each end of an axis whose mass is computed exactly.
END_CELLS = 8

#: Steps of the weights of the pools, and the change of the log likelihood that ends them.
MAX_EM, EM_TOLERANCE = 200, 1e-7

#: Alternations of weights and parameters.
MAX_ROUNDS = 20

#: Reports multiplied before a logarithm is taken; factors are scaled to at most 1.
PRODUCT = 16

_SMALL = 1e-300


class FittedBeta(NamedTuple):
    """A fitted Beta distribution: its mean and its concentration a + b, each with a 95% interval."""

    mean: tuple[float, float, float]
    concentration: tuple[float, float, float]


class PopulationFit(NamedTuple):
    """Fitted distributions, None where the data say nothing of one; weights of the pools; the log likelihood."""

    interest: FittedBeta | None
    polarization: FittedBeta | None
    pools: Floats
    log_likelihood: float


def beta_parameters(mean: float, concentration: float) -> tuple[float, float]:
    """Return a and b."""
    return mean * concentration, (1.0 - mean) * concentration


@lru_cache(maxsize=8)
def cells(count: int) -> tuple[Floats, Floats]:
    """Return the middles and the edges of cells of (0, 1), evenly spaced in the angle."""
    angles = np.linspace(0.0, np.pi, 2 * count + 1)
    points = (1.0 - np.cos(angles)) / 2.0
    return points[1::2], points[::2]


def _masses(edges: Floats, logit: float, log_concentration: float) -> Floats:
    """Return the masses of the cells: by the density at their middles, and exactly at the ends, as it may diverge."""
    a, b = beta_parameters(float(special.expit(logit)), math.exp(log_concentration))
    middles = cells(len(edges) - 1)[0]
    width = np.pi / (len(edges) - 1)
    # in the angle the density is x^(a - 1/2) (1 - x)^(b - 1/2) / B(a, b)
    logs = (a - 0.5) * np.log(middles) + (b - 0.5) * np.log1p(-middles) - special.betaln(a, b)
    masses: Floats = width * np.exp(logs)
    masses[:END_CELLS] = np.diff(special.betainc(a, b, edges[: END_CELLS + 1]))
    # 1 - x from the other end, which has its digits
    masses[-END_CELLS:] = np.diff(special.betainc(b, a, edges[: END_CELLS + 1]))[::-1]
    masses /= masses.sum()
    return masses


def _with_derivatives(edges: Floats | None, parameters: Floats) -> tuple[Floats, list[Floats]]:
    """Return the masses of the cells, and their derivatives by both parameters; one cell where there is no axis."""
    if edges is None:
        return np.ones(1), []
    found = []
    for i in range(2):
        ends = [parameters + sign * STEP * np.eye(2)[i] for sign in (1.0, -1.0)]
        high, low = (_masses(edges, *end) for end in ends)
        found.append((high - low) / (2.0 * STEP))
    return _masses(edges, *parameters), found


@dataclass(frozen=True, kw_only=True, eq=False)
class MarginalLikelihood:
    """The likelihood of users on a grid of interest and polarization.

    Parameters
    ----------
    table : (rows, pools, interest cells, polarization cells), each row scaled to a maximum of 1.
    users : (rows,) how many users have these data.
    log_scale : log of the scales of all users together.
    interest, polarization : edges of the cells; None where the axis has one cell.
    """

    table: Floats
    users: Floats
    log_scale: float
    interest: Floats | None
    polarization: Floats | None

    @property
    def size(self) -> int:
        """Number of parameters."""
        return 2 * ((self.interest is not None) + (self.polarization is not None))

    def evidence(self, parameters: Floats) -> Floats:
        """Return (rows, pools, 1 + parameters) the marginal likelihood of each pool, and its derivatives."""
        own = parameters[:2], parameters[-2:]
        (g, by_g), (u, by_u) = (
            _with_derivatives(edges, part) for edges, part in zip((self.interest, self.polarization), own, strict=True)
        )
        weights = [np.outer(g, u), *(np.outer(one, u) for one in by_g), *(np.outer(g, one) for one in by_u)]
        rows, pools = self.table.shape[:2]
        stacked = np.stack([weight.ravel() for weight in weights], axis=1)
        found = self.table.reshape(rows * pools, -1) @ stacked
        return found.reshape(rows, pools, -1).astype(np.float64)

    def value(self, parameters: Floats, pools: Floats) -> tuple[float, Floats]:
        """Return the log likelihood and its gradient."""
        mixed = np.einsum("rkp,k->rp", self.evidence(parameters), pools)
        level = np.maximum(mixed[:, 0], _SMALL)
        return float(self.users @ np.log(level)) + self.log_scale, self.users @ (mixed[:, 1:] / level[:, None])

    def best(self, start: Floats, pools: Floats, fixed: tuple[int, float] | None = None) -> tuple[Floats, float]:
        """Return the parameters of the largest likelihood and its logarithm; one parameter may be fixed."""
        bounds = list(BOUNDS) * (self.size // 2)
        if fixed is not None:
            bounds[fixed[0]] = (fixed[1], fixed[1])

        def negative(parameters: Floats) -> tuple[float, Floats]:
            value, gradient = self.value(parameters, pools)
            return -value, -gradient

        begin = np.clip(start, *np.array(bounds).T)
        found = optimize.minimize(negative, begin, jac=True, method="L-BFGS-B", bounds=bounds)
        return found.x, -float(found.fun)

    def weights(self, parameters: Floats, pools: Floats) -> Floats:
        """Return the weights of the pools by expectation maximization, for these parameters."""
        evidence = self.evidence(parameters)[:, :, 0]
        before = -math.inf
        for _ in range(MAX_EM):
            joint = evidence * pools
            total = np.maximum(joint.sum(axis=1), _SMALL)
            value = float(self.users @ np.log(total))
            if value - before < EM_TOLERANCE:
                break
            before = value
            pools = self.users @ (joint / total[:, None])
            pools = pools / pools.sum()
        return pools

    def maximum(self) -> tuple[Floats, Floats, float]:
        """Return the best parameters and weights of the pools, and the log likelihood."""
        pools = np.full(self.table.shape[1], 1.0 / self.table.shape[1])
        starts = [np.tile(start, self.size // 2) for start in STARTS]
        parameters, value = max((self.best(start, pools) for start in starts), key=lambda found: found[1])
        for _ in range(MAX_ROUNDS if len(pools) > 1 else 0):
            pools = self.weights(parameters, pools)
            parameters, now = self.best(parameters, pools)
            if now - value < EM_TOLERANCE * max(1.0, abs(now)) ** 0.5:
                break
            value = now
        return parameters, pools, self.value(parameters, pools)[0]

    def interval(self, i: int, parameters: Floats, pools: Floats, value: float) -> tuple[float, float]:
        """Return the 95% profile-likelihood interval of one parameter."""
        low, high = (self._end(i, sign, parameters, pools, value) for sign in (-1.0, 1.0))
        return low, high

    def _end(self, i: int, sign: float, parameters: Floats, pools: Floats, value: float) -> float:
        bound, start = BOUNDS[i % 2][sign > 0], parameters
        known = {float(parameters[i]): DROP}

        def excess(at: float) -> float:
            nonlocal start
            if at not in known:
                start, found = self.best(start, pools, (i, at))
                known[at] = found - value + DROP
            return known[at]

        inside, step = float(parameters[i]), FIRST_STEP
        while True:
            outside = inside + sign * step
            outside = min(outside, bound) if sign > 0 else max(outside, bound)
            if excess(outside) < 0:
                # values are known at both ends, so that another start of the search cannot change their signs
                return float(optimize.brentq(excess, inside, outside, xtol=1e-3, rtol=1e-3))
            if outside == bound:
                return bound
            inside, step = outside, 2.0 * step


def fit_counts(counts: Integers, *, neutral: bool = True) -> PopulationFit:
    """Fit the population to counts of events of users.

    Given a user's interest and polarization, the number of events in pools and their split are independent: each
    distribution has its own likelihood.

    Parameters
    ----------
    counts : (users, 1 + pools) events outside all pools, then in each pool.
    neutral : whether the universe has objects outside all pools; otherwise the interest is 1.
    """
    inside = counts[:, 1:].sum(axis=1)
    k = counts.shape[1] - 1
    interest: FittedBeta | None = None
    total = 0.0
    if neutral:
        pairs, users = np.unique(np.column_stack([inside, counts[:, 0]]), axis=0, return_counts=True)
        x, edges = cells(COUNT_CELLS)
        logs = pairs[:, :1] * np.log(x) + pairs[:, 1:] * np.log1p(-x)
        table, scale = _scaled(logs[:, None, :, None], users)
        own = MarginalLikelihood(
            table=table, users=users.astype(np.float64), log_scale=scale, interest=edges, polarization=None
        )
        (interest,), _, total = _fitted(own)
    some = counts[inside > 0, 1:]
    if not len(some):
        return PopulationFit(interest, None, np.full(k, 1.0 / k), total)
    splits, users = np.unique(some, axis=0, return_counts=True)
    x, edges = cells(COUNT_CELLS)
    delta, rest = 1.0 / k + (1.0 - 1.0 / k) * x, (1.0 - 1.0 / k) * (1.0 - x) / (k - 1)
    others = splits.sum(axis=1, keepdims=True) - splits
    logs = splits[:, :, None] * np.log(delta) + others[:, :, None] * np.log(rest)
    table, scale = _scaled(logs[:, :, None, :], users)
    own = MarginalLikelihood(
        table=table, users=users.astype(np.float64), log_scale=scale, interest=None, polarization=edges
    )
    polarization, pools, value = _fitted(own)
    return PopulationFit(interest, polarization[0], pools, total + value)


def fit_reports(likelihood: Floats, lengths: Integers, *, neutral: bool = True) -> PopulationFit:
    """Fit the population to reports that are independent given the objects.

    Parameters
    ----------
    likelihood : (reports, 1 + pools) likelihood of each report under the neutral pool and the pools, users in order.
    lengths : (users,) reports of each user.
    neutral : whether the universe has objects outside all pools; otherwise the interest is 1.
    """
    g, g_edges = cells(REPORT_CELLS) if neutral else (np.ones(1), None)
    u, u_edges = cells(REPORT_CELLS)
    k = likelihood.shape[1] - 1
    delta = 1.0 / k + (1.0 - 1.0 / k) * u
    # coefficients of the own pool, the mean of the others, and the neutral pool
    grid = np.stack([np.outer(g, delta), np.outer(g, 1.0 - delta), np.outer(1.0 - g, np.ones_like(u))]).reshape(3, -1)
    logs = np.empty((len(lengths), k, grid.shape[1]))
    log_scale, begin = 0.0, 0
    for row, length in enumerate(lengths):
        own = likelihood[begin : begin + length]
        begin += length
        largest = own.max(axis=1, keepdims=True)
        own = own / largest
        mean_of_others = (own[:, 1:].sum(axis=1, keepdims=True) - own[:, 1:]) / (k - 1)
        parts = np.stack([own[:, 1:], mean_of_others, np.broadcast_to(own[:, :1], (length, k))], axis=2)
        value = np.zeros((k, grid.shape[1]))
        for start in range(0, length, PRODUCT):
            product = np.multiply.reduce(parts[start : start + PRODUCT] @ grid, axis=0)
            value += np.log(np.maximum(product, _SMALL))
        log_scale += float(np.log(largest).sum())
        logs[row] = value
    users = np.ones(len(lengths))
    shape = len(lengths), k, len(g), len(u)
    table, scale = _scaled(logs.reshape(shape), users)
    every = MarginalLikelihood(
        table=table, users=users, log_scale=scale + log_scale, interest=g_edges, polarization=u_edges
    )
    fitted, pools, total = _fitted(every)
    return PopulationFit(fitted[0] if neutral else None, fitted[-1], pools, total)


def _fitted(own: MarginalLikelihood) -> tuple[list[FittedBeta], Floats, float]:
    """Return the fitted distributions of the axes, the weights of the pools, and the log likelihood."""
    parameters, pools, value = own.maximum()
    ends = [own.interval(i, parameters, pools, value) for i in range(own.size)]
    found = []
    for axis in range(own.size // 2):
        means, spreads = ends[2 * axis : 2 * axis + 2]
        logit, log_concentration = parameters[2 * axis : 2 * axis + 2]
        low, high = (_open_end(end, 0, special.expit, 1.0) for end in means)
        least, most = (_open_end(end, 1, math.exp, math.inf) for end in spreads)
        found.append(FittedBeta((float(special.expit(logit)), low, high), (math.exp(log_concentration), least, most)))
    return found, pools, value


def _open_end(end: float, kind: int, transform: Callable[[float], float], limit: float) -> float:
    """Return an end of an interval; one at a bound is the limit of the parameter."""
    low, high = BOUNDS[kind]
    return 0.0 if end == low else limit if end == high else float(transform(end))


def _scaled(logs: Floats, users: Floats | Integers) -> tuple[Floats, float]:
    """Return likelihoods with a maximum of 1 for each row, and the log of the scales of all users."""
    top = logs.max(axis=(1, 2, 3), keepdims=True)
    return np.exp(logs - top), float(users @ top[:, 0, 0, 0])
