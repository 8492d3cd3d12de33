r"""Frequency estimation through a channel: least squares, and ridge regression where the channel has no inverse.

**Least squares.** With M the channel's matrix, h the histogram of the reports and c the true counts,

.. math:: \mathrm E[h] = M^T c, \qquad \hat c = W h, \quad W = (M \Lambda^{-1} M^T)^{-1} M \Lambda^{-1}

is unbiased for every diagonal Lambda, since W M^T = 1. It has the smallest variance of all linear estimates if Lambda
is the expected histogram. (The covariance of h is diag(M^T c) - M^T diag(c) M; its second part lies in the span of the
regressors and has no effect.) The first estimate uses a uniform popularity in Lambda, the second the first estimate. In
both, the counts sum to the number of reports. Since E[h] = M^T c, the variances are estimated from h:

.. math:: \mathrm{Var}\,\hat c(z) = \sum_y W(z, y)^2 \, \mathrm E[h(y)] - c(z)

**Ridge.** Where objects are indistinguishable through the channel, their counts are estimated as equal.

Let the popularity of d objects be drawn from a symmetric Dirichlet distribution, and c be the counts of N reports. Then
c has the mean N/d and a covariance s (1 - 1 1^T / d), and the histogram h of the reports, through the channel's matrix
M, has the mean Lambda 1 with Lambda = (N/d) diag(M^T 1). The linear estimate with the smallest mean squared error is

.. math:: \hat c = \frac Nd + s\, (1 + t A)^{-1} M \Lambda^{-1} (h - \Lambda 1), \qquad A = M \Lambda^{-1} M^T,
          \quad t = s - \frac Nd

a ridge regression. It converges to the unbiased estimate where the channel has an inverse and reports are many.

It has no standard errors. For indistinguishable objects the error depends on the popularity alone, about which reports
are uninformative. A standard error averaged over popularities would be too small for most of them.

The unevenness t of the popularity is estimated from the histogram: its chi-square statistic against Lambda has the mean

.. math:: \mathrm E\,(h - \Lambda 1)^T \Lambda^{-1} (h - \Lambda 1) = R - 1 + t\,(\mathrm{tr}\,A - d / N)

for R possible reports. If all rows of M are equal, t cannot be estimated, and all popularities are taken as equally
likely: t = N (N - 1) / (d (d + 1)).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from poolscope.core.arrays import Floats, Integers
from poolscope.mechanisms.channel import Channel
from poolscope.population.popularity import project_to_simplex
from poolscope.reports.estimators import REGRESSION, RIDGE, Frequencies, TallyEstimator, check_reports, inverted

#: Share of the uniform popularity in the weights of the second estimate, so that no report has weight 0.
UNIFORM_SHARE = 0.1


@dataclass(frozen=True, eq=False)
class ChannelEstimator(TallyEstimator[Channel]):
    """Base class of the estimators of a channel; the tally is the histogram of the reports."""

    @cached_property
    def matrix(self) -> Floats:
        """(objects, reports) the matrix without impossible reports."""
        return self.mechanism.matrix[:, self.possible]

    @cached_property
    def possible(self) -> NDArray[np.bool_]:
        """(reports,) whether any object can send each report."""
        possible: NDArray[np.bool_] = self.mechanism.matrix.max(axis=0) > 0
        return possible


@dataclass(frozen=True, eq=False)
class LeastSquaresEstimator(ChannelEstimator):
    """The least-squares estimator of a channel that has an inverse."""

    @cached_property
    def initial_weights(self) -> Floats | None:
        """W for a uniform popularity; None where objects are indistinguishable."""
        return self.weights(np.full(self.mechanism.universe, 1.0 / self.mechanism.universe))

    def weights(self, popularity: Floats) -> Floats | None:
        """Return W, the best linear estimate at this popularity; None where there is no inverse."""
        scaled = self.matrix / (popularity @ self.matrix)
        inverse = inverted(scaled @ self.matrix.T)
        return None if inverse is None else inverse @ scaled

    def reweighted(self, popularity: Floats) -> Floats:
        """Return W at an estimated popularity."""
        found = self.weights((1.0 - UNIFORM_SHARE) * popularity + UNIFORM_SHARE / len(popularity))
        assert self.initial_weights is not None
        return self.initial_weights if found is None else found

    def estimate(self, counted: Integers, reports: int) -> Frequencies:
        check_reports(reports)
        assert self.initial_weights is not None
        seen = counted[self.possible]
        weights = self.reweighted(project_to_simplex(self.initial_weights @ seen / reports))
        counts = weights @ seen
        errors = np.sqrt(np.maximum(weights**2 @ seen - counts, 0.0))
        return Frequencies(reports=reports, counts=counts, errors=errors, method=REGRESSION)

    def variance(self, counts: Floats) -> Floats:
        weights = self.reweighted(counts / np.sum(counts))
        return weights**2 @ (counts @ self.matrix) - counts


#: Share of the largest possible tr A below which all objects count as indistinguishable.
MIN_INFORMATION = 1e-9


@dataclass(frozen=True, eq=False)
class RidgeEstimator(ChannelEstimator):
    """The ridge estimator, for any channel."""

    def estimate(self, counted: Integers, reports: int) -> Frequencies:
        seen = counted[self.possible]
        check_reports(int(seen.sum()))
        counts = ridge_counts(self.matrix, seen, prior_variance(self.matrix, seen))
        return Frequencies(reports=reports, counts=counts, errors=None, method=RIDGE)

    def variance(self, counts: Floats) -> None:
        return None


def ridge_counts(matrix: Floats, seen: Integers, t: float) -> Floats:
    """Return (objects,) the ridge estimate of the counts, at unevenness t."""
    d, count = len(matrix), float(seen.sum())
    even = count / d
    scaled = matrix / (even * matrix.sum(axis=0))
    counts: Floats = even + (t + even) * linalg.solve(np.eye(d) + t * scaled @ matrix.T, scaled @ seen - 1.0)
    return counts


def prior_variance(matrix: Floats, seen: Integers) -> float:
    """Return t from the chi-square statistic of the histogram, within the range of possible popularities."""
    d, count = len(matrix), float(seen.sum())
    expected = count / d * matrix.sum(axis=0)
    information = float(np.sum(matrix**2 / expected)) - d / count
    if information <= MIN_INFORMATION * d / count:
        return count * (count - 1) / (d * (d + 1))
    excess = float(np.sum((seen - expected) ** 2 / expected)) - (len(seen) - 1)
    return float(np.clip(excess / information, 0.0, count * (count - 1) / d))
