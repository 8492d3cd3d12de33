"""Thresholded histogram encoding: the positions at which a noisy one-hot vector exceeds a threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from poolscope.core.errors import InputError
from poolscope.mechanisms.role import check_finite_epsilon, derived, settle
from poolscope.mechanisms.unary import Unary

#: Where the best threshold lies; at 1/2 the two errors of a bit are alike, beyond 1 the own bit is lost too often.
LOWEST, HIGHEST = 0.5, 1.0


@dataclass(frozen=True, kw_only=True)
class THE(Unary):
    r"""Thresholded histogram encoding.

    To each entry of the one-hot vector of z in {0,1}^d Laplace noise of scale 2/epsilon is added, which alone is
    epsilon-private, as two one-hot vectors differ by two in all. The report is the set of positions above the threshold
    theta in [1/2, 1]; as bits, they are independent with

    .. math:: p^* = 1 - \tfrac12 e^{\epsilon(\theta - 1)/2}, \qquad q^* = \tfrac12 e^{-\epsilon\theta/2}

    It supports the objects whose position is in the set. Sending only the set throws information away: the likelihood
    ratio p*(1-q*) / (q*(1-p*)) is below e^epsilon, and the attack uses the true one (`ratio`).

    The default threshold minimises the variance of the count of a rare object, N q*(1-q*) / (p*-q*)^2, numerically. As
    epsilon grows it approaches 1, and p* approaches 2/3, not 1: epsilon must be finite.

    References
    ----------
    T. Wang, J. Blocki, N. Li, S. Jha. Locally differentially private protocols for frequency estimation. USENIX
    Security 2017.

    Examples
    --------
    >>> round(ps.mechanisms.THE(universe=30, epsilon=2.0).threshold, 3)
    0.71
    """

    threshold: float = derived()

    def __post_init__(self) -> None:
        check_finite_epsilon(self.epsilon)
        if self.threshold is None:
            settle(self, threshold=best_threshold(self.epsilon))
        if not LOWEST <= self.threshold <= HIGHEST:
            raise InputError(f"must be {LOWEST:g} to {HIGHEST:g}", value=self.threshold, place="threshold")

    @property
    def p_star(self) -> float:
        return 1.0 - 0.5 * math.exp(self.epsilon * (self.threshold - 1.0) / 2.0)

    @property
    def q_star(self) -> float:
        return 0.5 * math.exp(-self.epsilon * self.threshold / 2.0)

    @property
    def ratio(self) -> float:
        """Likelihood of an object in the support over that of one outside, at most e^epsilon."""
        p, q = self.p_star, self.q_star
        return p * (1.0 - q) / (q * (1.0 - p))

    @property
    def floor(self) -> float:
        return 1.0 / self.ratio

    @property
    def slope(self) -> float:
        return 1.0 - self.floor


def log_variance(threshold: float, epsilon: float) -> float:
    """log(q*(1-q*) / (p*-q*)^2), the variance of a rare object's count for one report."""
    log_q = -epsilon * threshold / 2.0 - math.log(2.0)
    gap = 1.0 - 0.5 * math.exp(epsilon * (threshold - 1.0) / 2.0) - math.exp(log_q)
    return log_q + math.log1p(-math.exp(log_q)) - 2.0 * math.log(gap)


def best_threshold(epsilon: float) -> float:
    """The threshold of least variance, by golden sections: the variance falls, then rises."""
    golden = (math.sqrt(5.0) - 1.0) / 2.0
    low, high = LOWEST, HIGHEST
    for _ in range(80):
        left, right = high - golden * (high - low), low + golden * (high - low)
        if log_variance(left, epsilon) < log_variance(right, epsilon):
            high = right
        else:
            low = left
    return float(np.clip((low + high) / 2.0, LOWEST, HIGHEST))
