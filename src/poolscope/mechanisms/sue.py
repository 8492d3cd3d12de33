"""Symmetric unary encoding: the one-hot vector with every bit flipped on its own."""

from __future__ import annotations

from dataclasses import dataclass

from poolscope.mechanisms.role import lie
from poolscope.mechanisms.unary import Unary


@dataclass(frozen=True, kw_only=True)
class SUE(Unary):
    r"""Basic one-time RAPPOR, or symmetric unary encoding.

    A report of z is v, the one-hot vector of z in {0,1}^d with each bit flipped with probability xi = 1 / (1 +
    e^(epsilon/2)). It supports the objects with v[z] = 1: two one-hot vectors differ in two bits, so the likelihood
    ratio is ((1-xi)/xi)^2 = e^epsilon. It is Count Mean Sketch without hashing (`cms-no-hash`), without its column
    for the hash function.

    .. math:: p^* = 1 - \xi, \qquad q^* = \xi, \qquad
              \mathrm{Var}_0 = N \frac{e^{\epsilon/2}}{(e^{\epsilon/2} - 1)^2}

    with Var_0 the variance of the count of an object that nobody has.

    References
    ----------
    U. Erlingsson, V. Pihur, A. Korolova. RAPPOR: randomized aggregatable privacy-preserving ordinal response. CCS 2014.

    Examples
    --------
    >>> sue = ps.mechanisms.SUE(universe=30, epsilon=2.0)
    >>> round(sue.p_star, 3), round(sue.q_star, 3)
    (0.731, 0.269)
    """

    @property
    def p_star(self) -> float:
        return 1.0 - lie(self.epsilon / 2.0)

    @property
    def q_star(self) -> float:
        return lie(self.epsilon / 2.0)
