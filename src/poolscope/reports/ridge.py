r"""The estimate through a channel that cannot be inverted: what the reports do not tell apart is shared out evenly.

Let the popularity of d objects be drawn from a symmetric Dirichlet law, and c be the counts of N reports. Then c has
the mean N/d and a covariance s (1 - 1 1^T / d), and the histogram h of the reports, through the channel's matrix M, has
the mean Lambda 1 with Lambda = (N/d) diag(M^T 1). The linear estimate of least squared error is

.. math:: \hat c = \frac Nd + s\, (1 + t A)^{-1} M \Lambda^{-1} (h - \Lambda 1), \qquad A = M \Lambda^{-1} M^T,
          \quad t = s - \frac Nd

a ridge regression, which turns into the unbiased one where the channel has an inverse and reports are many.

It has no standard errors. Reports say nothing about what a channel does not tell apart: how far off an even share is
depends on the popularity alone. An error that is right in the mean over popularities is too small for most of them.

How uneven the popularity is, t, is read off the histogram: its chi-square against Lambda has the mean

.. math:: \mathrm E\,(h - \Lambda 1)^T \Lambda^{-1} (h - \Lambda 1) = R - 1 + t\,(\mathrm{tr}\,A - d / N)

for R possible reports. Where even that is not to be had, all rows of M being the same, every popularity is as likely as
every other: t = N (N - 1) / (d (d + 1)).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from poolscope.core.arrays import Floats, Integers
from poolscope.reports.frequencies import RIDGE, Frequencies, check_reports
from poolscope.reports.inverse import Through

#: Share of the largest possible tr A below which a channel counts as one that tells nothing apart.
NOTHING = 1e-9


@dataclass(frozen=True, eq=False)
class Ridge(Through):
    """The estimator of any channel."""

    def estimate(self, counted: Integers, reports: int) -> Frequencies:
        seen = counted[self.possible]
        check_reports(int(seen.sum()))
        counts = shrunk(self.matrix, seen, unevenness(self.matrix, seen))
        return Frequencies(reports=reports, counts=counts, errors=None, method=RIDGE)

    def expected(self, counts: Floats) -> None:
        return None


def shrunk(matrix: Floats, seen: Integers, t: float) -> Floats:
    """(objects,) counts from how often each report was seen, at an unevenness t."""
    d, count = len(matrix), float(seen.sum())
    even = count / d
    scaled = matrix / (even * matrix.sum(axis=0))
    counts: Floats = even + (t + even) * linalg.solve(np.eye(d) + t * scaled @ matrix.T, scaled @ seen - 1.0)
    return counts


def unevenness(matrix: Floats, seen: Integers) -> float:
    """t, by the chi-square of the histogram; between that of equal popularities and that of a single object."""
    d, count = len(matrix), float(seen.sum())
    expected = count / d * matrix.sum(axis=0)
    told = float(np.sum(matrix**2 / expected)) - d / count
    if told <= NOTHING * d / count:
        return count * (count - 1) / (d * (d + 1))
    excess = float(np.sum((seen - expected) ** 2 / expected)) - (len(seen) - 1)
    return float(np.clip(excess / told, 0.0, count * (count - 1) / d))
