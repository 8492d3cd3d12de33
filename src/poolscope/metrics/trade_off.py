"""The trade-off between the two errors of a test: what n reports let anyone decide about two candidates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from scipy import special

from poolscope.core.arrays import Floats
from poolscope.core.errors import InputError
from poolscope.mechanisms.protocols import lie


@dataclass(frozen=True, eq=False)
class TradeOff:
    """A trade-off curve: the least false negative rate at each false positive rate.

    The curve joins its corners by straight lines, as a randomized test reaches the points between two corners.

    Parameters
    ----------
    fpr : (corners,) false positive rates, from 0 to 1.
    fnr : (corners,) the least false negative rate at each, from 1 to 0.

    Examples
    --------
    >>> curve = ps.metrics.trade_off(epsilon=1.0, n=2)
    >>> curve.fpr.round(3), curve.fnr.round(3)
    (array([0.   , 0.072, 0.466, 1.   ]), array([1.   , 0.466, 0.072, 0.   ]))
    >>> curve.table().columns
    ['fpr', 'fnr']
    """

    fpr: Floats
    fnr: Floats

    def fnr_at(self, fpr: float | Floats) -> Floats:
        """Least false negative rate at these false positive rates.

        Examples
        --------
        >>> float(ps.metrics.trade_off(epsilon=1.0, n=7).fnr_at(0.01).round(3))
        0.441
        """
        rates = np.asarray(fpr, dtype=np.float64)
        if not ((rates >= 0) & (rates <= 1)).all():
            raise InputError("fpr must be between 0 and 1", value=fpr)
        # of corners at the same rate the last is the lowest
        last = np.append(np.diff(self.fpr) > 0, True)
        found: Floats = np.interp(rates, self.fpr[last], self.fnr[last])
        return found

    @property
    def advantage(self) -> float:
        """Largest true positive rate minus false positive rate, which is the total variation distance."""
        return float((1 - self.fpr - self.fnr).max())

    def table(self) -> pl.DataFrame:
        """The corners as a table with the columns fpr and fnr."""
        return pl.DataFrame({"fpr": self.fpr, "fnr": self.fnr})


def trade_off(epsilon: float, n: int) -> TradeOff:
    r"""Trade-off curve of n epsilon-LDP reports about which of two candidates a user is.

    A false positive names the second candidate where the first is true, a false negative the first where the second
    is true. No test of n reports, each epsilon-LDP given those before it, has errors below the curve. Randomized
    response attains it: among n reports J ~ Binomial(n, 1 / (1 + e^epsilon)) are lies, so its corners are

    .. math:: \mathrm{FPR} = \Pr[J \ge j] , \qquad \mathrm{FNR} = \Pr[J \ge n + 1 - j] , \qquad j = n + 1, \dots, 0 .

    Parameters
    ----------
    epsilon : of one report, infinity included.

    References
    ----------
    P. Kairouz, S. Oh, P. Viswanath. The composition theorem for differential privacy. ICML 2015.

    J. Dong, A. Roth, W. Su. Gaussian differential privacy. Journal of the Royal Statistical Society B 84, 2022.

    Examples
    --------
    >>> round(ps.metrics.trade_off(epsilon=1.0, n=7).advantage, 3)
    0.821
    """
    check_reports(epsilon, n)
    j = np.arange(1, n + 1)
    tails = special.betainc(j, n - j + 1, lie(epsilon))
    corners: Floats = np.concatenate([[1.0], tails, [0.0]])
    return TradeOff(fpr=corners[::-1].copy(), fnr=corners)


def check_reports(epsilon: float, n: int) -> None:
    """epsilon and n are at least 0; infinite epsilon is legal."""
    if not epsilon >= 0:
        raise InputError("epsilon must be at least 0", value=epsilon)
    if n < 0:
        raise InputError("n must be at least 0", value=n)
