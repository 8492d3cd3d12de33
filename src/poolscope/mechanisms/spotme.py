"""SpotMe: for each location the truth, or else a coin."""

from __future__ import annotations

import math
from dataclasses import dataclass

from poolscope.errors import InputError
from poolscope.mechanisms.unary import Unary


@dataclass(frozen=True, kw_only=True)
class SpotMe(Unary):
    r"""Randomized response for each location on its own.

    A report of z has a bit for each location. With probability 1 - lambda a bit is the truth (one for z, zero for the
    others); with probability lambda it is a coin that says one with probability `yes`. Hence

    .. math:: p^* = 1 - \lambda (1 - y), \qquad q^* = \lambda y

    It supports the locations with a one. The odds p*(1-q*) / (q*(1-p*)) = e^epsilon are a quadratic equation for
    lambda, (e^epsilon - 1) y (1-y) lambda^2 + lambda - 1 = 0, with the root

    .. math:: \lambda = \frac{2}{1 + \sqrt{1 + 4 (e^\epsilon - 1) y (1-y)}}

    A fair coin, the default, is symmetric unary encoding (`sue`); a rarer yes keeps reports short.

    References
    ----------
    D. Quercia, I. Leontiadis, L. McNamara, C. Mascolo, J. Crowcroft. SpotME if you can: randomized responses for
    location obfuscation on mobile phones. ICDCS 2011.
    """

    yes: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.yes < 1.0:
            raise InputError("must lie between 0 and 1", value=self.yes, place="yes")

    @property
    def coin(self) -> float:
        """lambda, the probability that a bit is a coin and not the truth."""
        far = math.exp(-self.epsilon)
        root = math.sqrt(far - 4.0 * math.expm1(-self.epsilon) * self.yes * (1.0 - self.yes))
        return 2.0 * math.sqrt(far) / (math.sqrt(far) + root)

    @property
    def p_star(self) -> float:
        return 1.0 - self.coin * (1.0 - self.yes)

    @property
    def q_star(self) -> float:
        return self.coin * self.yes


def spotme(*, universe: int, epsilon: float, yes: float = 0.5) -> SpotMe:
    """SpotMe with a coin that says yes with the given probability."""
    return SpotMe(epsilon=epsilon, size=universe, yes=yes)
