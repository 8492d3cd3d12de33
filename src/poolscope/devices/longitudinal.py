r"""L-GRR, L-SUE, L-OUE, L-OSUE, L-SOUE: a permanent step, whose answer a device keeps, and an instantaneous one, anew.

A report by itself comes from both steps together. Its law is that of a plain mechanism, with the epsilon of one report;
what a device keeps is the answer of the permanent step, with an epsilon of its own, which no number of reports of one
kept answer can exceed. The papers call them :math:`\epsilon_1` and :math:`\epsilon_\infty`.
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
from poolscope.mechanisms.pure import Sized
from poolscope.mechanisms.unary import Unary, optimized, symmetric

Round = Callable[[float], tuple[float, float]]


@dataclass(frozen=True, kw_only=True)
class Longitudinal(Sized):
    """A pure mechanism that is the composition of a permanent and an instantaneous step.

    Parameters
    ----------
    epsilon : what one report reveals, by both steps; the instantaneous one is solved for. Or else
    epsilon_1 : the same as the papers reckon it. Where values are more than two their equation leaves out that both
        steps may lie and meet, so that a report reveals less: `epsilon` is then what follows.
    epsilon_inst : or the epsilon of the instantaneous step by itself.
    epsilon_perm : of a kept answer; twice that of one report where it is left out.
    """

    epsilon: float = derived_field()
    epsilon_perm: float = derived_field()
    epsilon_1: float = derived_field()
    epsilon_inst: float = derived_field()

    #: A device keeps answers of such a mechanism unless it is told not to.
    kept: ClassVar[bool] = True

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
        asked = self.asked
        if asked is not None:
            check_epsilon(asked)
            if not asked <= self.most:
                rule = f"must be at most {self.most:.6g} for epsilon_perm {self.permanent_epsilon:.6g}"
                raise InputError(rule, value=asked, place=given[0] if given else "epsilon")
        if given:
            spent = self.spent()
            if self.epsilon not in (None, spent):
                raise InputError("cannot be given with epsilon", place=given[0], remedy="give one of the two")
            set_frozen(self, epsilon=spent)
        super().__post_init__()

    @property
    def asked(self) -> float | None:
        """Epsilon of one report that is to be solved for; None where the instantaneous step is given."""
        if self.epsilon_inst is not None:
            return None
        return self.epsilon if self.epsilon_1 is None else self.epsilon_1

    @property
    def permanent_epsilon(self) -> float:
        """Epsilon of a kept answer."""
        if self.epsilon_perm is None:
            return 2.0 * (self.epsilon if self.epsilon_1 is None else self.epsilon_1)
        return self.epsilon_perm

    @property
    def most(self) -> float:
        """Epsilon of one report without noise in what the instantaneous step is free to choose."""
        return self.permanent_epsilon

    @abstractmethod
    def spent(self) -> float:
        """Epsilon of one report, from the two steps."""

    @property
    @abstractmethod
    def memoized_responses(self) -> int:
        """Answers that a device keeps at most."""

    @property
    @abstractmethod
    def permanent(self) -> tuple[float, float]:
        """p1 and q1, of the permanent step."""

    @property
    @abstractmethod
    def instantaneous(self) -> tuple[float, float]:
        """p2 and q2, of the instantaneous step."""


@dataclass(frozen=True, kw_only=True)
class TwoResponses(Longitudinal):
    r"""Randomized response among some values, and again on its answer.

    With :math:`a = e^{\epsilon_\infty}` and :math:`c` the odds of the two steps among g values, a report has the odds

    .. math:: e^\epsilon = \frac{a c + g - 1}{a + c + g - 2}, \qquad \text{hence} \qquad
              c = \frac{a e^\epsilon - 1 + (e^\epsilon - 1)(g - 2)}{a - e^\epsilon} ,

    and is randomized response among g values with this epsilon. The papers have :math:`c = (a e^{\epsilon_1} - 1) / (a
    - e^{\epsilon_1})`, which is the same for g = 2 and noisier for more values.
    """

    @property
    @abstractmethod
    def values(self) -> int:
        """g, how many values there are."""

    @property
    def instantaneous_epsilon(self) -> float:
        """Epsilon of the instantaneous step by itself."""
        if self.epsilon_inst is not None:
            return self.epsilon_inst
        if self.epsilon_1 is not None:
            return instantaneous_response(self.permanent_epsilon, self.epsilon_1, 2)
        return instantaneous_response(self.permanent_epsilon, self.epsilon, self.values)

    def spent(self) -> float:
        return response_twice(self.permanent_epsilon, self.instantaneous_epsilon, self.values)

    @property
    def memoized_responses(self) -> int:
        return self.values

    @property
    def permanent(self) -> tuple[float, float]:
        return randomized_response(self.permanent_epsilon, self.values)

    @property
    def instantaneous(self) -> tuple[float, float]:
        return randomized_response(self.instantaneous_epsilon, self.values)


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
    (0.405, 'MemoizedResponse')
    """

    @property
    def values(self) -> int:
        return self.universe


@dataclass(frozen=True, kw_only=True)
class TwoFlips(Longitudinal, Unary):
    r"""The one-hot vector with noise on each bit, and noise again on each bit of the answer.

    .. math:: p^* = p_1 p_2 + (1 - p_1) q_2, \qquad q^* = q_1 p_2 + (1 - q_1) q_2, \qquad
              e^\epsilon = \frac{p^* (1 - q^*)}{q^* (1 - p^*)}

    The count of the two-step papers, :math:`(C - N q_1 (p_2 - q_2) - N q_2) / ((p_1 - q_1) (p_2 - q_2))`, is the pure
    one with this p* and q*, and its variance is theirs.

    A symmetric instantaneous step flips a bit one way as often as the other, p2 - q2 = (p* - q*) / (p1 - q1), and
    leaves the report a plain one of the permanent step's kind. An optimized one keeps a one with probability 1/2 and
    raises zeros with q2. The odds of a report are a quadratic equation for q2, of which the smaller root is meant; q2 =
    0 has the largest epsilon that a report can have. Half of the kept ones would be lost without noise as well: epsilon
    must be finite.
    """

    #: p and q of the permanent and of the instantaneous step, by its epsilon: `symmetric` or `optimized`.
    rounds: ClassVar[tuple[Round, Round]]

    def __post_init__(self) -> None:
        super().__post_init__()
        if optimized in self.rounds:
            check_finite_epsilon(self.epsilon)
        if self.rounds[1] is optimized:
            check_finite_epsilon(self.permanent_epsilon)

    def spent(self) -> float:
        if self.epsilon_1 is not None:
            return self.epsilon_1
        p, q = self.composed
        return math.log(p / (1.0 - p)) - math.log(q / (1.0 - q)) if q and p < 1.0 else math.inf

    @property
    def memoized_responses(self) -> int:
        return self.universe

    @property
    def most(self) -> float:
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
            return 0.5, instantaneous_raised(*self.permanent, self.epsilon)
        (p1, q1), (p, q) = self.permanent, self.one_probabilities
        gap = (p - q) / (p1 - q1)
        return 0.5 * (1.0 + gap), 0.5 * (1.0 - gap)

    @property
    def composed(self) -> tuple[float, float]:
        """p* and q* from the two steps."""
        (p1, q1), (p2, q2) = self.permanent, self.instantaneous
        return p1 * p2 + (1.0 - p1) * q2, q1 * p2 + (1.0 - q1) * q2

    @property
    def one_probabilities(self) -> tuple[float, float]:
        return self.rounds[0](self.epsilon) if self.rounds[1] is symmetric else self.composed


@dataclass(frozen=True, kw_only=True)
class LSUE(TwoFlips):
    r"""L-SUE, or basic RAPPOR: symmetric unary encoding, kept for each object, and again on the kept bits.

    A report by itself is `sue` with the same epsilon, and has its variance. With xi = 1 / (1 + e^(epsilon_perm/2))
    the permanent step flips each bit with probability xi, the instantaneous one with f2,

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
class LOSUE(TwoFlips):
    r"""L-OSUE: optimized unary encoding, kept for each object, and symmetric unary encoding on the kept bits.

    A report by itself is `oue` with the same epsilon, and has its variance: p1 = 1/2 stays 1/2. With
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
class LOUE(TwoFlips):
    r"""L-OUE: optimized unary encoding, kept for each object, and again on the kept bits.

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
class LSOUE(TwoFlips):
    r"""L-SOUE: symmetric unary encoding, kept for each object, and optimized unary encoding on the kept bits.

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


def instantaneous_response(kept: float, epsilon: float, values: int) -> float:
    """Epsilon of the response on an answer of epsilon `kept` for which both together have `epsilon`."""
    if epsilon == kept:
        return math.inf
    far, beyond = math.exp(-kept), (values - 2) * -math.expm1(-epsilon)
    return epsilon + math.log1p(far * (beyond - math.exp(-epsilon))) - math.log(-math.expm1(epsilon - kept))


def response_twice(kept: float, instantaneous: float, values: int) -> float:
    """Epsilon of both responses together."""
    if instantaneous == math.inf:
        return kept
    with np.errstate(divide="ignore"):
        met, lies = np.log([values - 1.0, values - 2.0])
    return float(np.logaddexp(kept + instantaneous, met) - np.logaddexp(np.logaddexp(kept, instantaneous), lies))


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
