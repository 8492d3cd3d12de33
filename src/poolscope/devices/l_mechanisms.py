"""Longitudinal randomized response (L-GRR) and unary encodings (L-SUE, L-OUE, L-OSUE, L-SOUE): two rounds of noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

from poolscope.devices.longitudinal import TwoFlips, TwoResponses
from poolscope.mechanisms.grr import GRR
from poolscope.mechanisms.protocols import check_finite_epsilon, lie
from poolscope.mechanisms.unary import OUE, SUE


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
    >>> made = ps.mechanisms.LGRR(universe=30, epsilon_perm=2.0, epsilon_1=1.0)
    >>> round(made.epsilon, 3), type(ps.mechanisms.device_of(made)).__name__
    (0.405, 'KeptResponse')
    """

    @property
    def values(self) -> int:
        return self.universe


def symmetric(epsilon: float) -> tuple[float, float]:
    """p and q of `sue`."""
    flipped = lie(epsilon / 2.0)
    return 1.0 - flipped, flipped


def optimized(epsilon: float) -> tuple[float, float]:
    """p and q of `oue`."""
    return 0.5, lie(epsilon)


@dataclass(frozen=True, kw_only=True)
class SymmetricAgain(TwoFlips):
    r"""The instantaneous step flips a bit one way as often as the other: p2 - q2 = (p* - q*) / (p1 - q1)."""

    @property
    def instantaneous(self) -> tuple[float, float]:
        if self.epsilon_inst is not None:
            return symmetric(self.epsilon_inst)
        p1, q1 = self.permanent
        gap = (self.p_star - self.q_star) / (p1 - q1)
        return 0.5 * (1.0 + gap), 0.5 * (1.0 - gap)


@dataclass(frozen=True, kw_only=True)
class OptimizedAgain(TwoFlips):
    r"""The instantaneous step keeps a one with probability 1/2 and raises zeros with q2.

    The odds of a report are a quadratic equation for q2, of which the smaller root is meant; q2 = 0 has the largest
    epsilon that a report can have. Half of the kept ones would be lost without noise as well: epsilon must be finite.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        check_finite_epsilon(self.epsilon)
        check_finite_epsilon(self.kept_epsilon)

    @property
    def p_star(self) -> float:
        return self.composed[0]

    @property
    def q_star(self) -> float:
        return self.composed[1]

    @property
    def most(self) -> float:
        p, q = (0.5 * x for x in self.permanent)
        return math.log(p / (1.0 - p)) - math.log(q / (1.0 - q)) if q else math.inf

    @property
    def instantaneous(self) -> tuple[float, float]:
        if self.epsilon_inst is not None:
            return optimized(self.epsilon_inst)
        return 0.5, instantaneous_raised(*self.permanent, self.epsilon)


@dataclass(frozen=True, kw_only=True)
class LSUE(SymmetricAgain, SUE):
    r"""L-SUE, or basic RAPPOR: symmetric unary encoding, kept for each object, and again on the kept bits.

    A report by itself is `sue` with the same epsilon, and has its variance. With xi = 1 / (1 + e^(epsilon_perm/2))
    the permanent step flips each bit with probability xi, the instantaneous one with f2,

    .. math:: f_2 = \frac12 \Bigl(1 - \frac{p^* - q^*}{1 - 2 \xi}\Bigr)

    References
    ----------
    U. Erlingsson, V. Pihur, A. Korolova. RAPPOR: randomized aggregatable privacy-preserving ordinal response. CCS 2014.
    H. H. Arcolezi et al. Improving the utility of locally differentially private protocols for longitudinal and
    multidimensional frequency estimates. Digital Communications and Networks, 2022.

    Examples
    --------
    >>> made = ps.mechanisms.LSUE(universe=30, epsilon_perm=2.0, epsilon_1=1.0)
    >>> round(made.epsilon, 3), type(ps.mechanisms.device_of(made)).__name__
    (1.0, 'KeptFlips')
    """

    @property
    def permanent(self) -> tuple[float, float]:
        return symmetric(self.kept_epsilon)


@dataclass(frozen=True, kw_only=True)
class LOSUE(SymmetricAgain, OUE):
    r"""L-OSUE: optimized unary encoding, kept for each object, and symmetric unary encoding on the kept bits.

    A report by itself is `oue` with the same epsilon, and has its variance: p1 = 1/2 stays 1/2. With
    a = e^(epsilon_perm) and b = e^epsilon

    .. math:: p_2 = \frac{a b - 1}{(a - 1)(b + 1)}, \qquad q_2 = 1 - p_2

    References
    ----------
    H. H. Arcolezi et al. Improving the utility of locally differentially private protocols for longitudinal and
    multidimensional frequency estimates. Digital Communications and Networks, 2022.

    Examples
    --------
    >>> made = ps.mechanisms.LOSUE(universe=30, epsilon_perm=2.0, epsilon_1=1.0)
    >>> round(made.epsilon, 3), type(ps.mechanisms.device_of(made)).__name__
    (1.0, 'KeptFlips')
    """

    @property
    def permanent(self) -> tuple[float, float]:
        return optimized(self.kept_epsilon)


@dataclass(frozen=True, kw_only=True)
class LOUE(OptimizedAgain):
    r"""L-OUE: optimized unary encoding, kept for each object, and again on the kept bits.

    .. math:: p_1 = p_2 = \frac12, \qquad q_1 = \frac{1}{e^{\epsilon_\infty} + 1}, \qquad
              \mathrm{Var}_0 = N \frac{q^* (1 - q^*)}{(p_1 - q_1)^2 (p_2 - q_2)^2}

    A report reveals log((2 e^(epsilon_perm) + 1) / 3) at most.

    References
    ----------
    H. H. Arcolezi et al. Improving the utility of locally differentially private protocols for longitudinal and
    multidimensional frequency estimates. Digital Communications and Networks, 2022.

    Examples
    --------
    >>> made = ps.mechanisms.LOUE(universe=30, epsilon_perm=2.0, epsilon_1=1.0)
    >>> round(made.epsilon, 3), type(ps.mechanisms.device_of(made)).__name__
    (1.0, 'KeptFlips')
    """

    @property
    def permanent(self) -> tuple[float, float]:
        return optimized(self.kept_epsilon)


@dataclass(frozen=True, kw_only=True)
class LSOUE(OptimizedAgain):
    r"""L-SOUE: symmetric unary encoding, kept for each object, and optimized unary encoding on the kept bits.

    With s = e^(epsilon_perm/2)

    .. math:: p_1 = \frac{s}{s + 1}, \qquad q_1 = \frac{1}{s + 1}, \qquad p_2 = \frac12, \qquad
              \mathrm{Var}_0 = N \frac{q^* (1 - q^*)}{(p_1 - q_1)^2 (p_2 - q_2)^2}

    A report reveals log(s (2 s + 1) / (s + 2)) at most.

    References
    ----------
    H. H. Arcolezi et al. Improving the utility of locally differentially private protocols for longitudinal and
    multidimensional frequency estimates. Digital Communications and Networks, 2022.

    Examples
    --------
    >>> made = ps.mechanisms.LSOUE(universe=30, epsilon_perm=2.0, epsilon_1=1.0)
    >>> round(made.epsilon, 3), type(ps.mechanisms.device_of(made)).__name__
    (1.0, 'KeptFlips')
    """

    @property
    def permanent(self) -> tuple[float, float]:
        return symmetric(self.kept_epsilon)


def instantaneous_raised(p1: float, q1: float, epsilon: float) -> float:
    r"""q2 for which bits of p1, q1, sent with p2 = 1/2 and q2, have the odds e^epsilon.

    With P = p1/2 + (1-p1) q2 and Q alike, P (1 - Q) = e^epsilon Q (1 - P) has a root in 0..1/2, the smaller one: the
    difference of the sides, over e^epsilon, is not negative at 0 and negative at 1/2.
    """
    far = math.exp(-epsilon)
    p, q, dp, dq = 0.5 * p1, 0.5 * q1, 1.0 - p1, 1.0 - q1
    square = dp * dq * (1.0 - far)
    linear = far * (dp * (1.0 - q) - p * dq) - (dq * (1.0 - p) - q * dp)
    constant = max(far * p * (1.0 - q) - q * (1.0 - p), 0.0)
    return 2.0 * constant / (-linear + math.sqrt(linear * linear - 4.0 * square * constant))
