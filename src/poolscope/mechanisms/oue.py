"""Optimised unary encoding: zeros are kept as well as the privacy allows, at the cost of the one."""

from __future__ import annotations

from dataclasses import dataclass

from poolscope.mechanisms.role import check_finite_epsilon, lie
from poolscope.mechanisms.unary import Unary


@dataclass(frozen=True, kw_only=True)
class OUE(Unary):
    r"""Optimised unary encoding.

    A report of z is v in {0,1}^d: v[z] is one with probability 1/2, every other bit with probability 1 / (e^epsilon +
    1), all independent. It supports the objects with v[z] = 1; the odds of the two bits give the likelihood ratio
    p*(1-q*) / (q*(1-p*)) = e^epsilon. Of all p* and q* with these odds, p* = 1/2 makes the variance of the count of a
    rare object, N q*(1-q*) / (p*-q*)^2, the smallest.

    .. math:: p^* = \frac12, \qquad q^* = \frac{1}{e^\epsilon + 1}, \qquad
              \mathrm{Var}_0 = N \frac{4 e^\epsilon}{(e^\epsilon - 1)^2}

    Without noise half of the reports would still be empty: epsilon must be finite.

    References
    ----------
    T. Wang, J. Blocki, N. Li, S. Jha. Locally differentially private protocols for frequency estimation. USENIX
    Security 2017.

    Examples
    --------
    >>> oue = ps.mechanisms.OUE(universe=30, epsilon=1.0)
    >>> oue.p_star, round(oue.q_star, 3)
    (0.5, 0.269)
    """

    def __post_init__(self) -> None:
        check_finite_epsilon(self.epsilon)

    @property
    def p_star(self) -> float:
        return 0.5

    @property
    def q_star(self) -> float:
        return lie(self.epsilon)
