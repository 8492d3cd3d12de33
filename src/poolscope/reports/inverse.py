r"""The estimate through a channel: least squares on how often each report was seen.

With M the channel's matrix, h the histogram of the reports and c the true counts,

.. math:: \mathrm E[h] = M^T c, \qquad \hat c = W h, \quad W = (M \Lambda^{-1} M^T)^{-1} M \Lambda^{-1}

is unbiased for every diagonal Lambda, since W M^T = 1, and has the least variance of all linear estimates if Lambda is
the expected histogram. (The covariance of h is diag(M^T c) - M^T diag(c) M; its second part lies in the span of the
regressors and changes nothing.) The first estimate takes a uniform popularity for Lambda, the second the first
estimate. In both the counts add up to the number of reports. Since E[h] = M^T c, the variances are estimated from h:

.. math:: \mathrm{Var}\,\hat c(z) = \sum_y W(z, y)^2 \, \mathrm E[h(y)] - c(z)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arrays import Floats, Integers
from poolscope.mechanisms.channel import Channel
from poolscope.population.popularity import project_to_simplex
from poolscope.reports.frequencies import REGRESSION, Frequencies, Tallied, check_reports
from poolscope.reports.regression import inverted

#: Share of the uniform popularity in the second weights, so that no report has the weight of an impossible one.
UNIFORM_SHARE = 0.1


@dataclass(frozen=True, eq=False)
class Through(Tallied[Channel]):
    """What the estimators of a channel share; its tally is how often each report was seen."""

    @cached_property
    def matrix(self) -> Floats:
        """(objects, reports) without the reports that nobody sends."""
        return self.mechanism.matrix[:, self.possible]

    @cached_property
    def possible(self) -> NDArray[np.bool_]:
        """(reports,) whether anybody sends it."""
        possible: NDArray[np.bool_] = self.mechanism.matrix.max(axis=0) > 0
        return possible


@dataclass(frozen=True, eq=False)
class Inverse(Through):
    """The estimator of a channel that has an inverse."""

    @cached_property
    def first(self) -> Floats | None:
        """W for a uniform popularity; None where objects cannot be told apart."""
        return self.weights(np.full(self.mechanism.universe, 1.0 / self.mechanism.universe))

    def weights(self, popularity: Floats) -> Floats | None:
        """W, the linear estimate that is best at this popularity."""
        scaled = self.matrix / (popularity @ self.matrix)
        inverse = inverted(scaled @ self.matrix.T)
        return None if inverse is None else inverse @ scaled

    def second(self, popularity: Floats) -> Floats:
        """W at a popularity that is but estimated."""
        found = self.weights((1.0 - UNIFORM_SHARE) * popularity + UNIFORM_SHARE / len(popularity))
        assert self.first is not None
        return self.first if found is None else found

    def estimate(self, counted: Integers, reports: int) -> Frequencies:
        check_reports(reports)
        assert self.first is not None
        seen = counted[self.possible]
        weights = self.second(project_to_simplex(self.first @ seen / reports))
        counts = weights @ seen
        errors = np.sqrt(np.maximum(weights**2 @ seen - counts, 0.0))
        return Frequencies(reports=reports, counts=counts, errors=errors, method=REGRESSION)

    def expected(self, counts: Floats) -> Floats:
        weights = self.second(counts / np.sum(counts))
        return weights**2 @ (counts @ self.matrix) - counts
