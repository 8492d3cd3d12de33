"""Longitudinal randomized response: the kept answer is one of the objects, and so is the report."""

from __future__ import annotations

from dataclasses import dataclass

from poolscope.mechanisms.grr import GRR
from poolscope.mechanisms.longitudinal import TwoResponses


@dataclass(frozen=True, kw_only=True)
class LGRR(TwoResponses, GRR):
    r"""L-GRR: k-ary randomized response, kept for each object, and k-ary randomized response on the kept answer.

    A report by itself is `grr` with the same epsilon. With p1, q1 of the permanent and p2, q2 of the instantaneous step

    .. math:: p^* = p_1 p_2 + (1 - p_1) q_2, \qquad q^* = q_1 p_2 + (1 - q_1) q_2, \qquad
              \mathrm{Var}_0 = N \frac{q^* (1 - q^*)}{(p_1 - q_1)^2 (p_2 - q_2)^2}

    The published estimator and its variance are these. The published epsilon of one report is log((p1 p2 + q1 q2) / (p1
    q2 + q1 p2)), which leaves out the ways in which both steps lie and is too large for more than two objects.

    References
    ----------
    H. H. Arcolezi, J.-F. Couchot, B. Al Bouna, X. Xiao. Improving the utility of locally differentially private
    protocols for longitudinal and multidimensional frequency estimates. Digital Communications and Networks, 2022.

    Examples
    --------
    >>> made = ps.mechanisms.LGRR(universe=30, epsilon_infinity=2.0, epsilon_first=1.0)
    >>> round(made.epsilon, 3), type(ps.mechanisms.device_of(made)).__name__
    (0.405, 'KeptResponse')
    """

    @property
    def values(self) -> int:
        return self.universe
