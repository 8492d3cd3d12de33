r"""L-GRR, L-SUE, L-OUE, L-OSUE, L-SOUE: a memoized permanent round, and an instantaneous round for each report.

A single report comes from both rounds together. Its distribution is that of a one-round mechanism, with the ε of
one report. A device memoizes the response of the permanent round, whose ε bounds what any number of reports of
that response reveal. The papers call the two :math:`\epsilon_1` and :math:`\epsilon_\infty`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from poolscope.core.errors import InputError
from poolscope.mechanisms.grr import GRR, randomized_response
from poolscope.mechanisms.protocols import check_epsilon, check_finite_epsilon, derived_field, set_frozen
from poolscope.mechanisms.pure import BasicPureMechanism
from poolscope.mechanisms.unary import Unary, optimized, symmetric

Round = Callable[[float], tuple[float, float]]


@dataclass(frozen=True, kw_only=True)
class Longitudinal(BasicPureMechanism):
    """A pure mechanism that composes a permanent and an instantaneous round.

    Parameters
    ----------
    epsilon : of one report, by both rounds; the instantaneous round is solved for. Or else
    epsilon_1 : the same as the papers compute it. For more than two values their equation omits that both rounds may
        flip to the same value, so that a report reveals less: `epsilon` is then the exact value.
    epsilon_inst : or the ε of the instantaneous round alone.
    epsilon_perm : of a permanent response; twice that of one report by default.
    """

    epsilon: float = derived_field()
    epsilon_perm: float = derived_field()
    epsilon_1: float = derived_field()
    epsilon_inst: float = derived_field()

    #: Devices memoize responses of this mechanism unless `memoize` is false.
    memoize_by_default: ClassVar[bool] = True

    def __post_init__(self) -> None:
        given = [name for name in ("epsilon_1", "epsilon_inst") if getattr(self, name) is not None]
        for name in given:
            check_epsilon(getattr(self, name))
        if len(given) == 2 or (given == ["epsilon_inst"] and self.epsilon_perm is None):
            remedy = "give epsilon_perm and one of epsilon, epsilon_1, epsilon_inst"
            raise InputError("must go with epsilon_perm alone", place="epsilon_inst", remedy=remedy)
        if not given and self.epsilon is None:
            raise InputError("is missing", place="epsilon", remedy="or give epsilon_perm and epsilon_1")
        check_epsilon(self.permanent_epsilon)
        requested = self.requested_epsilon
        if requested is not None:
            check_epsilon(requested)
            if not requested <= self.max_epsilon:
                rule = f"must be at most {self.max_epsilon:.6g} for epsilon_perm {self.permanent_epsilon:.6g}"
                raise InputError(rule, value=requested, place=given[0] if given else "epsilon")
        if given:
            exact = self.report_epsilon()
            if self.epsilon not in (None, exact):
                raise InputError("cannot be given with epsilon", place=given[0], remedy="give one of the two")
            set_frozen(self, epsilon=exact)
        super().__post_init__()

    @property
    def requested_epsilon(self) -> float | None:
        """ε of one report to solve for; None where the instantaneous round is given."""
        if self.epsilon_inst is not None:
            return None
        return self.epsilon if self.epsilon_1 is None else self.epsilon_1

    @property
    def permanent_epsilon(self) -> float:
        """ε of a permanent response."""
        if self.epsilon_perm is None:
            return 2.0 * (self.epsilon if self.epsilon_1 is None else self.epsilon_1)
        return self.epsilon_perm

    @property
    def max_epsilon(self) -> float:
        """Largest ε of one report: the instantaneous round adds as little noise as it can."""
        return self.permanent_epsilon

    @abstractmethod
    def report_epsilon(self) -> float:
        """Return the ε of one report, from the two rounds."""

    @property
    @abstractmethod
    def max_memoized_responses(self) -> int:
        """Largest number of responses that a device memoizes."""

    @property
    @abstractmethod
    def permanent(self) -> tuple[float, float]:
        """p1 and q1, of the permanent round."""

    @property
    @abstractmethod
    def instantaneous(self) -> tuple[float, float]:
        """p2 and q2, of the instantaneous round."""


@dataclass(frozen=True, kw_only=True)
class TwoRoundResponse(Longitudinal):
    r"""Randomized response among g values, and randomized response on its result.

    With :math:`a = e^{\epsilon_\infty}` and :math:`c` the odds of the two rounds, a report has the odds

    .. math:: e^\epsilon = \frac{a c + g - 1}{a + c + g - 2}, \qquad \text{hence} \qquad
              c = \frac{a e^\epsilon - 1 + (e^\epsilon - 1)(g - 2)}{a - e^\epsilon} ,

    and is randomized response among g values with this ε. The papers have :math:`c = (a e^{\epsilon_1} - 1) / (a
    - e^{\epsilon_1})`, which is the same for g = 2 and noisier for more values.
    """

    @property
    @abstractmethod
    def values(self) -> int:
        """g, the number of values."""

    @property
    def instantaneous_epsilon(self) -> float:
        """ε of the instantaneous round alone."""
        if self.epsilon_inst is not None:
            return self.epsilon_inst
        if self.epsilon_1 is not None:
            return instantaneous_epsilon_for(self.permanent_epsilon, self.epsilon_1, 2)
        return instantaneous_epsilon_for(self.permanent_epsilon, self.epsilon, self.values)

    def report_epsilon(self) -> float:
        return two_round_epsilon(self.permanent_epsilon, self.instantaneous_epsilon, self.values)

    @property
    def max_memoized_responses(self) -> int:
        return self.values

    @property
    def permanent(self) -> tuple[float, float]:
        return randomized_response(self.permanent_epsilon, self.values)

    @property
    def instantaneous(self) -> tuple[float, float]:
        return randomized_response(self.instantaneous_epsilon, self.values)


@dataclass(frozen=True, kw_only=True)
class LGRR(TwoRoundResponse, GRR):
    r"""L-GRR: k-ary randomized response, memoized for each object, and k-ary randomized response on the result.

    A single report is `grr` with the same ε. With p1, q1 of the permanent and p2, q2 of the instantaneous round

    .. math:: p^* = p_1 p_2 + (1 - p_1) q_2, \qquad q^* = q_1 p_2 + (1 - q_1) q_2, \qquad
              \mathrm{Var}_0 = N \frac{q^* (1 - q^*)}{(p_1 - q_1)^2 (p_2 - q_2)^2}

    The published estimator and its variance are these. The published ε of one report is log((p1 p2 + q1 q2) / (p1
    q2 + q1 p2)), which omits that both rounds may flip, and is too large for more than two objects.

    References
    ----------
    H. H. Arcolezi, J.-F. Couchot, B. Al Bouna, X. Xiao. Improving the utility of locally differentially private
    protocols for longitudinal and multidimensional frequency estimates. Digital Communications and Networks, 2022.

    Examples
    --------
    >>> made = ps.mechanisms.LGRR(universe=30, epsilon_perm=2.0, epsilon_1=1.0)
    >>> round(made.epsilon, 3), type(ps.mechanisms.device_of(made)).__name__
    (0.405, 'MemoizedResponse')
    """

    @property
    def values(self) -> int:
        return self.universe


@dataclass(frozen=True, kw_only=True)
class TwoRoundUnary(Longitudinal, Unary):
    r"""Unary encoding with noise on each bit, and noise again on each bit of the result.

    .. math:: p^* = p_1 p_2 + (1 - p_1) q_2, \qquad q^* = q_1 p_2 + (1 - q_1) q_2, \qquad
              e^\epsilon = \frac{p^* (1 - q^*)}{q^* (1 - p^*)}

    The count of the papers, :math:`(C - N q_1 (p_2 - q_2) - N q_2) / ((p_1 - q_1) (p_2 - q_2))`, is the pure
    one with this p* and q*, and its variance is theirs.

    A symmetric instantaneous round flips ones and zeros with equal probability, p2 - q2 = (p* - q*) / (p1 - q1), so
    that a report has the distribution of the permanent round's mechanism. An optimized round retains a one with
    probability 1/2 and sets a zero with q2. The odds ratio of a report is a quadratic equation for q2, of which the
    smaller root is used; q2 = 0 gives the largest ε of a report. It drops half of the ones even at q2 = 0:
    ε must be finite.
    """

    #: p and q of the permanent and of the instantaneous round, by epsilon: `symmetric` or `optimized`.
    rounds: ClassVar[tuple[Round, Round]]

    def __post_init__(self) -> None:
        super().__post_init__()
        if optimized in self.rounds:
            check_finite_epsilon(self.epsilon)
        if self.rounds[1] is optimized:
            check_finite_epsilon(self.permanent_epsilon)

    def report_epsilon(self) -> float:
        if self.epsilon_1 is not None:
            return self.epsilon_1
        p, q = self.composed_p_q
        return math.log(p / (1.0 - p)) - math.log(q / (1.0 - q)) if q and p < 1.0 else math.inf

    @property
    def max_memoized_responses(self) -> int:
        return self.universe

    @property
    def max_epsilon(self) -> float:
        if self.rounds[1] is symmetric:
            return self.permanent_epsilon
        p, q = (0.5 * x for x in self.permanent)
        return math.log(p / (1.0 - p)) - math.log(q / (1.0 - q)) if q else math.inf

    @property
    def permanent(self) -> tuple[float, float]:
        return self.rounds[0](self.permanent_epsilon)

    @property
    def instantaneous(self) -> tuple[float, float]:
        if self.epsilon_inst is not None:
            return self.rounds[1](self.epsilon_inst)
        if self.rounds[1] is optimized:
            return 0.5, solve_q2(*self.permanent, self.epsilon)
        (p1, q1), (p, q) = self.permanent, self.one_probabilities
        gap = (p - q) / (p1 - q1)
        return 0.5 * (1.0 + gap), 0.5 * (1.0 - gap)

    @property
    def composed_p_q(self) -> tuple[float, float]:
        """p* and q* from the two rounds."""
        (p1, q1), (p2, q2) = self.permanent, self.instantaneous
        return p1 * p2 + (1.0 - p1) * q2, q1 * p2 + (1.0 - q1) * q2

    @property
    def one_probabilities(self) -> tuple[float, float]:
        return self.rounds[0](self.epsilon) if self.rounds[1] is symmetric else self.composed_p_q


@dataclass(frozen=True, kw_only=True)
class LSUE(TwoRoundUnary):
    r"""L-SUE, or basic RAPPOR: symmetric unary encoding, memoized for each object, and again on the memoized bits.

    A single report is `sue` with the same ε, and has its variance. With xi = 1 / (1 + e^(epsilon_perm/2)) the
    permanent round flips each bit with probability xi, the instantaneous one with f2,

    .. math:: f_2 = \frac12 \Bigl(1 - \frac{p^* - q^*}{1 - 2 \xi}\Bigr)

    References
    ----------
    U. Erlingsson, V. Pihur, A. Korolova. RAPPOR: randomized aggregatable privacy-preserving ordinal response. CCS 2014.
    H. H. Arcolezi et al. Improving the utility of locally differentially private protocols (see `LGRR`), 2022.

    Examples
    --------
    >>> made = ps.mechanisms.LSUE(universe=30, epsilon_perm=2.0, epsilon_1=1.0)
    >>> round(made.epsilon, 3), type(ps.mechanisms.device_of(made)).__name__
    (1.0, 'MemoizedFlips')
    """

    rounds = symmetric, symmetric


@dataclass(frozen=True, kw_only=True)
class LOSUE(TwoRoundUnary):
    r"""L-OSUE: optimized unary encoding, memoized for each object, and symmetric unary encoding on the memoized bits.

    A single report is `oue` with the same ε, and has its variance: p1 = 1/2 stays 1/2. With
    a = e^(epsilon_perm) and b = e^epsilon

    .. math:: p_2 = \frac{a b - 1}{(a - 1)(b + 1)}, \qquad q_2 = 1 - p_2

    References
    ----------
    H. H. Arcolezi et al. Improving the utility of locally differentially private protocols (see `LGRR`), 2022.

    Examples
    --------
    >>> made = ps.mechanisms.LOSUE(universe=30, epsilon_perm=2.0, epsilon_1=1.0)
    >>> round(made.epsilon, 3), type(ps.mechanisms.device_of(made)).__name__
    (1.0, 'MemoizedFlips')
    """

    rounds = optimized, symmetric


@dataclass(frozen=True, kw_only=True)
class LOUE(TwoRoundUnary):
    r"""L-OUE: optimized unary encoding, memoized for each object, and again on the memoized bits.

    .. math:: p_1 = p_2 = \frac12, \qquad q_1 = \frac{1}{e^{\epsilon_\infty} + 1}, \qquad
              \mathrm{Var}_0 = N \frac{q^* (1 - q^*)}{(p_1 - q_1)^2 (p_2 - q_2)^2}

    A report reveals log((2 e^(epsilon_perm) + 1) / 3) at most.

    References
    ----------
    H. H. Arcolezi et al. Improving the utility of locally differentially private protocols (see `LGRR`), 2022.

    Examples
    --------
    >>> made = ps.mechanisms.LOUE(universe=30, epsilon_perm=2.0, epsilon_1=1.0)
    >>> round(made.epsilon, 3), type(ps.mechanisms.device_of(made)).__name__
    (1.0, 'MemoizedFlips')
    """

    rounds = optimized, optimized


@dataclass(frozen=True, kw_only=True)
class LSOUE(TwoRoundUnary):
    r"""L-SOUE: symmetric unary encoding, memoized for each object, and optimized unary encoding on the memoized bits.

    With s = e^(epsilon_perm/2)

    .. math:: p_1 = \frac{s}{s + 1}, \qquad q_1 = \frac{1}{s + 1}, \qquad p_2 = \frac12, \qquad
              \mathrm{Var}_0 = N \frac{q^* (1 - q^*)}{(p_1 - q_1)^2 (p_2 - q_2)^2}

    A report reveals log(s (2 s + 1) / (s + 2)) at most.

    References
    ----------
    H. H. Arcolezi et al. Improving the utility of locally differentially private protocols (see `LGRR`), 2022.

    Examples
    --------
    >>> made = ps.mechanisms.LSOUE(universe=30, epsilon_perm=2.0, epsilon_1=1.0)
    >>> round(made.epsilon, 3), type(ps.mechanisms.device_of(made)).__name__
    (1.0, 'MemoizedFlips')
    """

    rounds = symmetric, optimized


def instantaneous_epsilon_for(permanent: float, epsilon: float, values: int) -> float:
    """Return the ε of the instantaneous response for which both rounds together have `epsilon`."""
    if epsilon == permanent:
        return math.inf
    far, beyond = math.exp(-permanent), (values - 2) * -math.expm1(-epsilon)
    return epsilon + math.log1p(far * (beyond - math.exp(-epsilon))) - math.log(-math.expm1(epsilon - permanent))


def two_round_epsilon(permanent: float, instantaneous: float, values: int) -> float:
    """Return the ε of both responses together."""
    if instantaneous == math.inf:
        return permanent
    with np.errstate(divide="ignore"):
        others, further = np.log([values - 1.0, values - 2.0])
    same = np.logaddexp(permanent + instantaneous, others)
    return float(same - np.logaddexp(np.logaddexp(permanent, instantaneous), further))


def solve_q2(p1: float, q1: float, epsilon: float) -> float:
    """Return q2 for which bits with p1, q1, sent with p2 = 1/2 and q2, have the odds ratio e^epsilon.

    With P = p1/2 + (1-p1) q2 and Q alike, P (1 - Q) = e^epsilon Q (1 - P) has a root in 0..1/2, the smaller one: the
    difference of the sides, over e^epsilon, is not negative at 0 and negative at 1/2.
    """
    far = math.exp(-epsilon)
    p, q, dp, dq = 0.5 * p1, 0.5 * q1, 1.0 - p1, 1.0 - q1
    square = dp * dq * (1.0 - far)
    linear = far * (dp * (1.0 - q) - p * dq) - (dq * (1.0 - p) - q * dp)
    constant = max(far * p * (1.0 - q) - q * (1.0 - p), 0.0)
    return 2.0 * constant / (-linear + math.sqrt(linear * linear - 4.0 * square * constant))
