r"""Frequency estimators: the protocol, the linear estimate, and least squares on the hash functions.

**Linear estimate.** From the support counts, corrected for the expected support of other objects:

.. math:: \hat c(z) = \frac{\sum_t [z \in \text{support}(t)] - N q^*}{p^* - q^*}

Given the true counts c, a report of y supports z with probability P(z, y), which is p* for y = z and has the mean q*
over other y. Where the hash functions are fixed, P(z, y) varies around q* with variance V, as the collision rate of two
objects varies: for J functions to m buckets, the rate has variance (1/m)(1 - 1/m) / J. By the law of total variance,
over functions and reports,

.. math:: \mathrm{Var}\,\hat c(z) = \frac{c(z)\,p^*(1-p^*) + (N-c(z))\,q^*(1-q^*) + V \sum_{y \ne z} c(y) (c(y) - 1)}
          {(p^*-q^*)^2}

The last sum grows with N^2, the others with N: with few functions, or very many reports, collisions dominate.

**Regression.** Least squares on the known hash functions separates objects that collide under some functions only.

A sketch has a cell for each function and bucket. An object has one cell under each function of a sketch, or several
bits in each cohort of RAPPOR. Let t(z) be the sum over all reports and over the cells of z of what the reports add,
minus the base (`CellMoments`), and G(z, y) the mean over the J functions of the number of common cells. Then

.. math:: \mathrm E[t] = \text{gain}\; G c, \qquad \hat c = G^{-1} t / \text{gain}

is unbiased given the functions if G has full rank, which requires at least as many cells as objects. These are the
normal equations of least squares on the cells with equal weights. Equal weights are nearly optimal, as noise dominates
the variance of all cells unless ε is large. For a sketch, t follows from the support counts, so that nothing else
has to be counted or simulated.

Its covariance is exact. With X_f the matrix of the cells of objects under function f and D = diag(c), from the second
moments of `CellMoments` and E[t] as above,

.. math:: \mathrm{Cov}\,\hat c = \frac{N v\, G^{-1} + G^{-1} \bigl[\frac1J \sum_f X_f K_f X_f^T \bigr] G^{-1}}
          {\text{gain}^2} - D, \qquad K_f = \text{own} \cdot \mathrm{diag}(X_f^T c) + \text{hit} \cdot X_f^T D X_f
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from poolscope.core.arrays import Floats, Integers, Map
from poolscope.core.errors import InputError
from poolscope.mechanisms.channel import Channel
from poolscope.mechanisms.hashing import Buckets, FunctionFamily
from poolscope.mechanisms.protocols import FrequencyOracle, Reports, SupportProbabilities
from poolscope.mechanisms.pure import sum_arrays
from poolscope.mechanisms.rappor import bit_matrix
from poolscope.mechanisms.sketch import CellMoments
from poolscope.population.popularity import project_to_simplex

#: The names of the estimation methods in scenarios and commands.
LINEAR, REGRESSION, RIDGE, IBU = METHODS = ("linear", "regression", "ridge", "ibu")


@dataclass(frozen=True, kw_only=True)
class Frequencies:
    """Estimated number of reports of each object, with standard errors, and the popularity derived from it.

    Linear estimates and regressions are unbiased, so that counts may be negative; `popularity` is their Euclidean
    projection onto the simplex.

    Parameters
    ----------
    reports : number of reports.
    counts : (universe,) estimated counts.
    errors : (universe,) standard errors of the counts of these reports, or None (`ridge`). As estimates of the
        distribution f that the objects were drawn from, counts have the additional variance N f (1 - f).
    method : name of the estimator.

    Examples
    --------
    >>> found = ps.frequencies(mechanism, mechanism.obfuscate(np.zeros(1000, dtype=np.int64), rng))
    >>> found.reports, found.method, found.counts.shape
    (1000, 'linear', (30,))
    >>> bool(abs(found.counts[0] - 1000) < 4 * found.errors[0])
    True
    """

    reports: int
    counts: Floats
    errors: Floats | None
    method: str = LINEAR

    @property
    def popularity(self) -> Floats:
        return project_to_simplex(self.counts / self.reports)


class Estimator(Protocol):
    """An estimator of frequencies. Statistics of chunks of reports can be combined in any order."""

    def count(self, reports: Reports) -> Any:
        """Return the sufficient statistics of some reports."""
        ...

    def join(self, counted: Iterable[Any]) -> Any:
        """Combine the statistics of several chunks."""
        ...

    def simulate(self, popularity: Floats, count: int, key: np.uint64, threads: Map = map) -> Any:
        """Simulate the statistics of `count` reports on objects drawn from the popularity."""
        ...

    def estimate(self, counted: Any, reports: int) -> Frequencies:
        """Return the estimate from the statistics of `reports` reports."""
        ...

    def variance(self, counts: Floats) -> Floats | None:
        """Return the variance of the estimate at these true counts; None where it has no closed form."""
        ...


Mechanism = TypeVar("Mechanism", Channel, FrequencyOracle)


@dataclass(frozen=True, eq=False)
class TallyEstimator(Generic[Mechanism]):
    """Base class of estimators whose statistics are the mechanism's tally of the reports."""

    mechanism: Mechanism

    def count(self, reports: Reports) -> Integers:
        return self.mechanism.tally(reports)

    def join(self, counted: Iterable[Integers]) -> Integers:
        return sum_arrays(counted)

    def simulate(self, popularity: Floats, count: int, key: np.uint64, threads: Map = map) -> Integers:
        return self.mechanism.simulate_tally(popularity, count, key, threads)


def check_reports(count: int) -> None:
    """Check that there is at least one report."""
    if count == 0:
        raise InputError("an estimate needs at least one report", value=0)


def unbiased(mechanism: FrequencyOracle, support: NDArray[np.integer], count: int) -> Frequencies:
    """Return the linear estimate, with standard errors at the estimated counts, clipped to 0..N."""
    check_reports(count)
    rates = mechanism.rates
    other: Floats = np.asarray(rates.q_star, dtype=np.float64)
    counts: Floats = (support - count * other) / (rates.p_star - other)
    c = np.clip(counts, 0.0, count)
    noise = _noise(mechanism, rates, c, count)
    variance = noise + _collisions(rates, c, count, _squares(rates, counts, noise, count))
    return Frequencies(reports=count, counts=counts, errors=np.sqrt(variance), method=LINEAR)


def variance_of_linear(mechanism: FrequencyOracle, counts: Floats) -> tuple[Floats, Floats]:
    """Return the two parts of the variance at known counts, (universe,) both: noise, and collisions."""
    rates, count = mechanism.rates, float(np.sum(counts))
    return _noise(mechanism, rates, counts, count), _collisions(rates, counts, count, float(np.sum(np.square(counts))))


def _noise(mechanism: FrequencyOracle, rates: SupportProbabilities, c: Floats, count: float) -> Floats:
    return mechanism.score_sum_variance(c, count) / (rates.p_star - rates.q_star) ** 2


def _collisions(rates: SupportProbabilities, c: Floats, count: float, squares: float) -> Floats:
    pairs = np.maximum(squares - c**2 - (count - c), 0.0)
    return rates.collision_variance * pairs / (rates.p_star - rates.q_star) ** 2


def _squares(rates: SupportProbabilities, counts: Floats, noise: Floats, count: int) -> float:
    """Estimate the sum of squared counts, corrected for the variance due to noise and collisions.

    The variance due to collisions is itself proportional to the sum. The result is clipped to the range between equal
    counts and a single object.
    """
    share = np.sum(np.broadcast_to(rates.collision_variance / (rates.p_star - rates.q_star) ** 2, counts.shape))
    found = float(np.sum(counts**2 - noise) / (1.0 + share))
    return float(np.clip(found, count**2 / len(counts), count**2))


#: Limits of a regression: number of objects, and operations (functions times pairs of objects).
MAX_OBJECTS, MAX_PAIRS = 4096, 1 << 30

#: Cells of sketches times objects in one chunk.
CELLS_PER_CHUNK = 1 << 22

#: Condition number above which a matrix counts as singular.
MAX_CONDITION = 1e8


class Sketched(FrequencyOracle, Protocol):
    """A mechanism whose hash functions are known."""

    @property
    def m(self) -> int: ...

    @property
    def family(self) -> FunctionFamily: ...

    @property
    def cells(self) -> CellMoments: ...

    def positions(self, functions: NDArray[np.int64]) -> Buckets: ...


@dataclass(frozen=True, eq=False)
class RegressionDesign:
    """The design matrix of a regression on the known hash functions of a mechanism."""

    mechanism: Sketched

    @property
    def affordable(self) -> bool:
        """Whether a regression is feasible within seconds."""
        universe = self.mechanism.universe
        cells = self.mechanism.positions(np.zeros(1, dtype=np.int64)).shape[1]
        size = self.mechanism.family.size * cells
        small: bool = universe <= min(MAX_OBJECTS, size * self.mechanism.m) and size * universe**2 <= MAX_PAIRS
        return small

    def bits(self) -> Iterator[tuple[sparse.csr_array, Integers]]:
        """Yield chunks of functions: the sparse matrix of cells by (function, object), and the object of each row."""
        size, m, universe = self.mechanism.family.size, self.mechanism.m, self.mechanism.universe
        at_once = max(1, CELLS_PER_CHUNK // (m * universe))
        for begin in range(0, size, at_once):
            chunk = np.arange(begin, min(begin + at_once, size))
            yield bit_matrix(self.mechanism.positions(chunk), m), np.tile(np.arange(universe), len(chunk))

    @cached_property
    def inverse(self) -> Floats | None:
        """G^-1; None where G is singular."""
        universe = self.mechanism.universe
        overlap = np.zeros((universe, universe))
        for bits, _ in self.bits():
            own = _by_object(bits, universe)
            common = (own @ own.T).tocoo()
            # each pair occurs once in a product
            overlap[common.row, common.col] += common.data
        return inverted(overlap / self.mechanism.family.size)

    def estimate(self, tally: Integers, count: int) -> Frequencies:
        """Return the estimate from support counts (1, universe), or from the last two rows of RAPPOR's tally."""
        check_reports(count)
        assert self.inverse is not None
        cells = self.mechanism.cells
        over = tally[0] - cells.mean_other * count if len(tally) == 1 else tally[1] - cells.mean_other * tally[2]
        counts = self.inverse @ over / cells.mean_gain
        errors = np.sqrt(self.variance(count * project_to_simplex(counts / count)))
        return Frequencies(reports=count, counts=counts, errors=errors, method=REGRESSION)

    def variance(self, counts: Floats) -> Floats:
        """Return (universe,) the variances of the estimate at these true counts."""
        assert self.inverse is not None
        cells = self.mechanism.cells
        total = float(np.sum(counts)) * cells.variance * np.diag(self.inverse)
        if cells.var_gain or cells.joint_gain:
            for bits, objects in self.bits():
                read = _by_object(bits, self.mechanism.universe).T @ self.inverse
                middle = bits.T @ (bits * (cells.joint_gain * counts[objects])[:, None])
                if cells.var_gain:
                    middle = middle + sparse.diags_array(cells.var_gain * (bits.T @ counts[objects]))
                total = total + np.sum(read * (middle @ read), axis=0) / self.mechanism.family.size
        return np.maximum(total / cells.mean_gain**2 - counts, 0.0)


def _by_object(bits: sparse.csr_array, universe: int) -> sparse.csr_array:
    """Return (universe, cells) the cells of each object under all functions, which have no common cell."""
    coordinates = bits.tocoo()
    return sparse.csr_array(
        (coordinates.data, (coordinates.row % universe, coordinates.col)), (universe, bits.shape[1])
    )


def inverted(matrix: Floats) -> Floats | None:
    """Return the inverse of a positive semidefinite matrix; None where it is singular or ill-conditioned."""
    try:
        factor = linalg.cho_factor(matrix, lower=True)
    except linalg.LinAlgError:
        return None
    inverse = linalg.cho_solve(factor, np.eye(len(matrix)))
    condition = np.abs(matrix).sum(axis=0).max() * np.abs(inverse).sum(axis=0).max()
    return inverse if condition < MAX_CONDITION else None
