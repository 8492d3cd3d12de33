"""SpotMe: for each location the truth, or else a coin."""

from __future__ import annotations

import math
from dataclasses import dataclass

from poolscope.core.errors import InputError
from poolscope.mechanisms.role import check_epsilon, derived, settle
from poolscope.mechanisms.unary import Unary


@dataclass(frozen=True, kw_only=True)
class SpotMe(Unary):
    r"""Randomized response for each location on its own.

    A report of z has a bit for each location. With probability 1 - lambda (`coin`) a bit is the truth, one for z and
    zero for the others; with probability lambda it is a coin that says one with probability y (`yes`). Hence

    .. math:: p^* = 1 - \lambda (1 - y), \qquad q^* = \lambda y, \qquad
              e^\epsilon = \frac{p^* (1 - q^*)}{q^* (1 - p^*)}

    It supports the locations with a one. For a given epsilon, the odds are a quadratic equation for lambda,
    (e^epsilon - 1) y (1-y) lambda^2 + lambda - 1 = 0, with the root

    .. math:: \lambda = \frac{2}{1 + \sqrt{1 + 4 (e^\epsilon - 1) y (1-y)}}

    Either epsilon is given or lambda. A fair coin, the default, is symmetric unary encoding (`sue`); a rarer yes keeps
    reports short.

    As published, a phone that does not tell the truth always says yes (y = 1): the true location is among the reported
    ones always, and what is not reported is ruled out. Then p* = 1 and q* = lambda, and epsilon is infinite, however
    many erroneous locations are reported beside; ``SpotMe(universe=..., coin=0.5, yes=1)`` is that mechanism. A finite
    epsilon needs a coin that sometimes says no.

    References
    ----------
    D. Quercia, I. Leontiadis, L. McNamara, C. Mascolo, J. Crowcroft. SpotME if you can: randomized responses for
    location obfuscation on mobile phones. ICDCS 2011, 363-372.

    Examples
    --------
    >>> round(ps.mechanisms.SpotMe(universe=30, epsilon=2.0).epsilon, 3)
    2.0
    """

    epsilon: float = derived()
    coin: float = derived()
    yes: float = 0.5

    def __post_init__(self) -> None:
        stated = self.coin is not None
        if not stated:
            settle(self, coin=coin_for(self.epsilon, self.yes))
        if not 0.0 <= self.coin < 1.0:
            raise InputError("must be from 0 to below 1", value=self.coin, place="coin")
        if not 0.0 < self.yes <= 1.0:
            raise InputError("must be above 0, and at most 1", value=self.yes, place="yes")
        dropped = self.coin * (1.0 - self.yes)
        odds = dropped * self.q_star
        spent = math.log((1.0 - dropped) * (1.0 - self.q_star) / odds) if odds else math.inf
        if stated and self.epsilon not in (None, spent):
            raise InputError("cannot be given with epsilon", place="coin", remedy="give one of the two")
        settle(self, epsilon=spent)

    @property
    def p_star(self) -> float:
        return 1.0 - self.coin * (1.0 - self.yes)

    @property
    def q_star(self) -> float:
        return self.coin * self.yes


def coin_for(epsilon: float | None, yes: float) -> float:
    """lambda, the probability of a coin, for which the mechanism spends epsilon."""
    if epsilon is None:
        raise InputError("is missing", place="epsilon", remedy="or give coin")
    check_epsilon(epsilon)
    if not 0.0 < yes < 1.0:
        raise InputError("must lie between 0 and 1 for an epsilon", value=yes, place="yes", remedy="give coin, or less")
    far = math.exp(-epsilon)
    root = math.sqrt(far - 4.0 * math.expm1(-epsilon) * yes * (1.0 - yes))
    return 2.0 * math.sqrt(far) / (math.sqrt(far) + root)
