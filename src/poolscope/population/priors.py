"""Densities on (0, 1): distributions and priors of relevant interest and polarization.

Each density has its own Gauss rules, so that the attack integrates polynomials against it exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

import numpy as np
from scipy import linalg, special

from poolscope.core.arguments import as_floats, check_integer, is_number
from poolscope.core.arrays import Floats
from poolscope.core.errors import InputError
from poolscope.kernels.quadrature_grid import recurrence

__all__ = ["Beta", "Density", "FunctionDensity", "StepDensity"]


def __dir__() -> list[str]:
    return __all__


#: Range of the parameters of a Beta distribution. Outside, the distribution is practically a point mass: its standard
#: deviation is below 1e-9, or all but a millionth of its mass is at an end. Inside, products of nodes do not underflow.
MIN_PARAMETER, MAX_PARAMETER = 1e-6, 1e18

#: Maximum number of points at which a function is sampled.
MAX_POINTS = 1 << 16

#: Exponent of two above which polynomial values are rescaled.
RESCALE_EXPONENT = 300

#: Deviation of the sum of a rule's weights from 1 above which they are considered lost to rounding.
WEIGHT_TOLERANCE = 1e-8

#: Parameters above which quantiles of a Beta distribution use an expansion about the normal distribution; the relative
#: error of the expansion is below the reciprocal of this value.
NORMAL_PARAMETER = 1e10


class Density(Protocol):
    """A density on (0, 1) that the attack can integrate against; hashable, as its rules are cached.

    Examples
    --------
    >>> nodes, _, weights = ps.priors.Beta(a=2.0, b=5.0).rule(8)
    >>> round(float(nodes @ weights), 3)
    0.286
    """

    def __hash__(self) -> int: ...

    def rule(self, nodes: int) -> tuple[Floats, Floats, Floats]:
        """Return the Gauss rule of this density: nodes x, complements 1 - x, and weights that sum to 1."""
        ...

    @property
    def sharpness(self) -> float:
        """Number of maximally informative reports that the density is equivalent to; determines the number of nodes."""
        ...

    def quantile(self, probability: Floats) -> Floats:
        """Return the quantile function, which turns uniform numbers into draws."""
        ...


@dataclass(frozen=True, kw_only=True)
class Beta:
    """Beta(a, b) on (0, 1); Beta(1, 1) is uniform.

    Parameters
    ----------
    a, b : from 1e-6 to 1e18; the posterior is exact in this range.

    Examples
    --------
    >>> ps.priors.Beta(a=2.0, b=2.0).quantile(np.array([0.5])).round(3)
    array([0.5])
    """

    a: float = 1.0
    b: float = 1.0

    def __post_init__(self) -> None:
        for name, value in (("a", self.a), ("b", self.b)):
            if not (is_number(value) and MIN_PARAMETER <= value <= MAX_PARAMETER):
                rule = f"Beta parameter {name} must be a number from {MIN_PARAMETER:g} to {MAX_PARAMETER:g}"
                raise InputError(rule, value=value)

    @property
    def sharpness(self) -> float:
        return max(self.a - 1.0, 0.0) + max(self.b - 1.0, 0.0)

    def rule(self, nodes: int) -> tuple[Floats, Floats, Floats]:
        if self.a == self.b == 1.0:
            x, w = np.polynomial.legendre.leggauss(nodes)
            return (1.0 + x) / 2.0, (1.0 - x) / 2.0, w / w.sum()
        return _beta_rule(self.a, self.b, nodes)

    def quantile(self, probability: Floats) -> Floats:
        if self.a == self.b == 1.0:
            return probability
        if min(self.a, self.b) < NORMAL_PARAMETER:
            return np.asarray(special.betaincinv(self.a, self.b, probability))
        total = self.a + self.b
        mean, rest = self.a / total, self.b / total
        deviation = np.sqrt(mean * rest / (total + 1.0))
        skewness = 2.0 * (rest - mean) * np.sqrt(total + 1.0) / ((total + 2.0) * np.sqrt(mean * rest))
        # Cornish-Fisher expansion; beyond 40 standard deviations probabilities underflow
        z = np.clip(special.ndtri(probability), -40.0, 40.0)
        return np.asarray(mean + deviation * (z + skewness * (z**2 - 1.0) / 6.0))


UNIFORM = Beta()


def _beta_rule(a: float, b: float, nodes: int) -> tuple[Floats, Floats, Floats]:
    """Return the Gauss rule of Beta(a, b): nodes below 1/2 from the expansion at 0, the others from that at 1.

    Both x and 1 - x then have small relative errors, also where all mass is near an end.
    """
    x, weight = _beta_side(a, b, nodes)
    complement, other_weight = (side[::-1] for side in _beta_side(b, a, nodes))
    near = x <= 0.5
    weight = np.where(near, weight, other_weight)
    return np.where(near, x, 1.0 - complement), np.where(near, 1.0 - x, complement), weight / weight.sum()


def _beta_side(a: float, b: float, nodes: int) -> tuple[Floats, Floats]:
    """Return nodes and weights of the rule, with small relative errors of nodes near 0.

    The square root of a Beta variable, with a random sign, has orthogonal polynomials with the recurrence
    y p_i = z_(i+1) p_(i+1) + z_i p_(i-1), without a diagonal. The squares of z are products of the canonical moments of
    the distribution, which are quotients of positive numbers: nothing cancels, and no Gamma function overflows.

    References
    ----------
    H. Dette, W. J. Studden. The Theory of Canonical Moments. Wiley, 1997, sections 1.3 and 2.3.
    """
    i = np.arange(nodes, dtype=np.float64)
    odd, even = a + b + 2.0 * i, a + b + 2.0 * i + 1.0
    moments = np.stack([(a + i) / odd, (i + 1.0) / even], axis=1).ravel()
    rest = np.stack([(b + i) / odd, (a + b + i) / even], axis=1).ravel()
    off_diagonal = np.sqrt(moments * np.concatenate([[1.0], rest[:-1]]))[:-1]
    diagonal = np.zeros(2 * nodes)
    y = linalg.eigvalsh_tridiagonal(diagonal, off_diagonal)[nodes:]
    return y**2, _christoffel(y, diagonal[1:], off_diagonal, step=2)


def _christoffel(points: Floats, diagonal: Floats, off_diagonal: Floats, step: int = 1) -> Floats:
    """Return Gauss weights up to a common factor: 1 / the sum of squares of every `step`-th orthonormal polynomial.

    Their relative errors are small where those of eigenvectors are not. Far from all mass the polynomials overflow, so
    that powers of two are factored out; weights below the smallest double are 0.
    """
    before, here = np.zeros_like(points), np.ones_like(points)
    total, power = here.copy(), np.zeros(points.shape, dtype=np.int64)
    for i in range(len(off_diagonal)):
        lower = off_diagonal[i - 1] * before if i else 0.0
        before, here = here, ((points - diagonal[i]) * here - lower) / off_diagonal[i]
        if (i + 1) % step == 0:
            total = total + here**2
        large = np.abs(here) > 2.0**RESCALE_EXPONENT
        if large.any():
            factor = np.where(large, 2.0**-RESCALE_EXPONENT, 1.0)
            before, here, total = before * factor, here * factor, total * factor**2
            power = power + RESCALE_EXPONENT * large
    weights: Floats = np.ldexp(1.0 / total, -2 * (power - power.min()))
    return weights


@dataclass(frozen=True)
class FunctionDensity:
    """A density given as a function on (0, 1), not necessarily normalized.

    The function is sampled once on a fine Gauss-Legendre grid. The rules are the Gauss rules of that discrete measure
    (Stieltjes procedure), hence exact for polynomials of degree below twice the number of nodes.

    References
    ----------
    W. Gautschi. Orthogonal Polynomials: Computation and Approximation. Oxford, 2004, section 2.2.

    Examples
    --------
    >>> rising = ps.priors.FunctionDensity(lambda x: 2.0 * x)
    >>> nodes, _, weights = rising.rule(16)
    >>> round(float(nodes @ weights), 3)
    0.667
    """

    function: Callable[[Floats], Floats]
    resolution: int = 2048
    _measure: tuple[Floats, Floats] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InputError("a density must be a function of an array of points", value=self.function)
        check_integer("resolution", self.resolution, 1, MAX_POINTS)
        x, w = _fine_grid(self.resolution)
        values = as_floats("the values of a density", self.function(x))
        if values.shape != x.shape:
            raise InputError("a density must return one value for each point", value=values.shape)
        if not np.all(np.isfinite(values)) or np.any(values < 0) or not np.any(values > 0):
            raise InputError("a density must be finite, non-negative and not zero everywhere")
        mass = w * values
        keep = mass > 0
        object.__setattr__(self, "_measure", (x[keep], mass[keep] / mass.sum()))

    @property
    def sharpness(self) -> float:
        """a + b - 2 of the Beta(a, b) with the same mean and variance."""
        x, mass = self._measure
        mean = float(x @ mass)
        variance = max(float(((x - mean) ** 2) @ mass), 1e-12)
        return max(mean * (1.0 - mean) / variance - 3.0, 0.0)

    def rule(self, nodes: int) -> tuple[Floats, Floats, Floats]:
        return gauss_rule(*self._measure, nodes)

    def quantile(self, probability: Floats) -> Floats:
        x, mass = self._measure
        cumulative = np.concatenate([[0.0], np.cumsum(mass)])
        edges = np.concatenate([[0.0], (x[1:] + x[:-1]) / 2.0, [1.0]])
        quantiles: Floats = np.interp(probability, cumulative, edges)
        return quantiles


@lru_cache(maxsize=4)
def _fine_grid(points: int) -> tuple[Floats, Floats]:
    """Return points and weights of a Gauss-Legendre rule on (0, 1), by SciPy's method for many points."""
    x, w = special.roots_legendre(points)
    return (1.0 + x) / 2.0, w / 2.0


#: A cell below this share of the mean weight is integrated separately, as small rules are unreliable there; and
#: the maximum number of runs of cells with separate rules.
MIN_WEIGHT_SHARE, MAX_RUNS = 0.05, 4


@dataclass(frozen=True)
class StepDensity:
    """A piecewise constant density: one weight for each of equally wide cells of (0, 1].

    Weights need not be normalized, and some may be 0. The rules are the density's own Gauss rules, exact for
    polynomials of degree below twice the number of nodes; their moments come from Legendre rules in each cell. Where
    some weights are (almost) 0, each run of cells between them has its own rule.

    Examples
    --------
    >>> ps.priors.StepDensity(weights=(1.0, 3.0)).quantile(np.array([0.25])).round(3)
    array([0.5])
    """

    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        values = as_floats("a table of weights", self.weights)
        if values.ndim != 1 or not len(values):
            raise InputError("a table of weights must be a list of numbers", value=self.weights)
        if not np.all(np.isfinite(values)) or np.any(values < 0) or not np.any(values > 0):
            raise InputError("a table of weights must be finite, non-negative and not zero everywhere")
        object.__setattr__(self, "weights", tuple(float(value) for value in values))

    @property
    def sharpness(self) -> float:
        """0 where every run of cells has similar weights, so that the bound for uniform priors applies; else infinity.

        The error of a rule is small relative to the integrand's maximum. If the density is (almost) 0 there, it is not
        small relative to the integral. With too many runs only the exact rule is safe.
        """
        return 0.0 if len(_runs(self.weights)) <= MAX_RUNS else np.inf

    def rule(self, nodes: int) -> tuple[Floats, Floats, Floats]:
        return _step_rule(self.weights, nodes)

    def quantile(self, probability: Floats) -> Floats:
        cumulative = np.concatenate([[0.0], np.cumsum(self.weights)])
        edges = np.linspace(0.0, 1.0, len(cumulative))
        return np.interp(probability, cumulative / cumulative[-1], edges)


def _runs(weights: tuple[float, ...]) -> list[list[int]]:
    """Return the cells with positive weight, in runs of adjacent cells with similar weights."""
    runs: list[list[int]] = []
    for cell in np.flatnonzero(weights).tolist():
        last = runs[-1] if runs else []
        values = [weights[c] for c in (*last, cell)]
        if last and last[-1] == cell - 1 and min(values) >= MIN_WEIGHT_SHARE * np.mean(values):
            last.append(cell)
        else:
            runs.append([cell])
    return runs


@lru_cache(maxsize=64)
def _step_rule(weights: tuple[float, ...], nodes: int) -> tuple[Floats, Floats, Floats]:
    runs = _runs(weights)
    parts = [
        _run_rule(weights, run, nodes)
        for run in (runs if len(runs) <= MAX_RUNS else [np.flatnonzero(weights).tolist()])
    ]
    x, mass = (np.concatenate(part) for part in zip(*parts, strict=True))
    return x, 1.0 - x, mass / mass.sum()


def _run_rule(weights: tuple[float, ...], run: list[int], nodes: int) -> tuple[Floats, Floats]:
    """Return nodes and masses of the Gauss rule for one run of cells."""
    cells = np.asarray(run)
    x, w = special.roots_legendre(nodes)
    points = (cells[:, None] + (1.0 + x) / 2.0) / len(weights)
    share = np.asarray(weights)[cells]
    if len(cells) == 1:
        return points[0], share[0] * w / 2.0
    own, _, mass = gauss_rule(points.ravel(), (share[:, None] * (w / 2.0)).ravel(), nodes)
    return own, share.sum() * mass


def gauss_rule(x: Floats, mass: Floats, nodes: int) -> tuple[Floats, Floats, Floats]:
    """Return the Gauss rule of a discrete measure on (0, 1), with at most as many nodes as points.

    It follows from the recurrence of the measure's orthogonal polynomials (`kernels.quadrature_grid`).
    """
    nodes = min(nodes, len(x))
    alpha, square = np.empty(nodes), np.empty(nodes)
    recurrence(x, mass, alpha, square)
    beta = np.sqrt(square)
    points = np.clip(linalg.eigvalsh_tridiagonal(alpha, beta[1:]), 0.0, 1.0)
    weights = _christoffel(points, alpha, beta[1:]) if beta[1:].all() else np.zeros(nodes)
    if not abs(weights.sum() - 1.0) < WEIGHT_TOLERANCE:
        # a spike between grid points leaves hardly more points than nodes: then the weights come from eigenvectors
        weights = linalg.eigh_tridiagonal(alpha, beta[1:])[1][0] ** 2
    return points, 1.0 - points, weights / weights.sum()
