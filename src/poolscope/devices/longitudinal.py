r"""Mechanisms of two steps: a permanent one, whose answer a device keeps, and an instantaneous one, drawn anew.

A report by itself comes from both steps together. Its law is that of a plain mechanism, with the epsilon of one report;
what a device keeps is the answer of the permanent step, with an epsilon of its own, which no number of reports of one
kept answer can exceed. The papers call them :math:`\epsilon_1` and :math:`\epsilon_\infty`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from poolscope.core.errors import InputError
from poolscope.mechanisms.protocols import check_epsilon, derived, settle
from poolscope.mechanisms.pure import Sized
from poolscope.mechanisms.unary import Unary


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

    epsilon: float = derived()
    epsilon_perm: float = derived()
    epsilon_1: float = derived()
    epsilon_inst: float = derived()

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
        check_epsilon(self.kept_epsilon)
        asked = self.asked
        if asked is not None:
            check_epsilon(asked)
            if not asked <= self.most:
                rule = f"must be at most {self.most:.6g} for epsilon_perm {self.kept_epsilon:.6g}"
                raise InputError(rule, value=asked, place=given[0] if given else "epsilon")
        if given:
            spent = self.spent()
            if self.epsilon not in (None, spent):
                raise InputError("cannot be given with epsilon", place=given[0], remedy="give one of the two")
            settle(self, epsilon=spent)
        super().__post_init__()

    @property
    def asked(self) -> float | None:
        """Epsilon of one report that is to be solved for; None where the instantaneous step is given."""
        if self.epsilon_inst is not None:
            return None
        return self.epsilon if self.epsilon_1 is None else self.epsilon_1

    @property
    def kept_epsilon(self) -> float:
        """Epsilon of a kept answer."""
        if self.epsilon_perm is None:
            return 2.0 * (self.epsilon if self.epsilon_1 is None else self.epsilon_1)
        return self.epsilon_perm

    @property
    def most(self) -> float:
        """Epsilon of one report without noise in what the instantaneous step is free to choose."""
        return self.kept_epsilon

    @abstractmethod
    def spent(self) -> float:
        """Epsilon of one report, from the two steps."""

    @property
    @abstractmethod
    def kept_answers(self) -> int:
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
            return instantaneous_response(self.kept_epsilon, self.epsilon_1, 2)
        return instantaneous_response(self.kept_epsilon, self.epsilon, self.values)

    def spent(self) -> float:
        return response_twice(self.kept_epsilon, self.instantaneous_epsilon, self.values)

    @property
    def kept_answers(self) -> int:
        return self.values

    @property
    def permanent(self) -> tuple[float, float]:
        return response(self.kept_epsilon, self.values)

    @property
    def instantaneous(self) -> tuple[float, float]:
        return response(self.instantaneous_epsilon, self.values)


@dataclass(frozen=True, kw_only=True)
class TwoFlips(Longitudinal, Unary):
    r"""The one-hot vector with noise on each bit, and noise again on each bit of the answer.

    .. math:: p^* = p_1 p_2 + (1 - p_1) q_2, \qquad q^* = q_1 p_2 + (1 - q_1) q_2, \qquad
              e^\epsilon = \frac{p^* (1 - q^*)}{q^* (1 - p^*)}

    The count of the two-step papers, :math:`(C - N q_1 (p_2 - q_2) - N q_2) / ((p_1 - q_1) (p_2 - q_2))`, is the pure
    one with this p* and q*, and its variance is theirs.
    """

    def spent(self) -> float:
        if self.epsilon_1 is not None:
            return self.epsilon_1
        p, q = self.composed
        return math.log(p / (1.0 - p)) - math.log(q / (1.0 - q)) if q and p < 1.0 else math.inf

    @property
    def kept_answers(self) -> int:
        return self.universe

    @property
    def composed(self) -> tuple[float, float]:
        """p* and q* from the two steps."""
        (p1, q1), (p2, q2) = self.permanent, self.instantaneous
        return p1 * p2 + (1.0 - p1) * q2, q1 * p2 + (1.0 - q1) * q2


def response(epsilon: float, values: int) -> tuple[float, float]:
    """Randomized response: the probability of the truth, and of each other value."""
    truth = 1.0 / (1.0 + (values - 1) * math.exp(-epsilon))
    return truth, math.exp(-epsilon) * truth


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
