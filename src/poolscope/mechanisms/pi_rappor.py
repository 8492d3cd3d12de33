"""Pairwise independent RAPPOR: the bits of optimized unary encoding as the values of a line over a finite field."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arrays import Floats, Keys, Objects
from poolscope.core.errors import InputError
from poolscope.kernels import unary as kernels
from poolscope.mechanisms.hashing import check_range
from poolscope.mechanisms.protocols import PoolWeights, ReportColumn, Reports, check_objects, flip_probability
from poolscope.mechanisms.pure import Sized, uniform_base_measure
from poolscope.mechanisms.sketch import packed_layout

#: Beyond it products of two values of the field do not fit into 64 bits.
LARGEST_PRIME = (1 << 31) - 1


@dataclass(frozen=True, kw_only=True)
class PIRappor(Sized):
    r"""PI-RAPPOR, pairwise independent RAPPOR.

    A report of z is (a, b), a line over the field of p elements, p a prime no smaller than the universe: it *has* an
    object y if a y + b mod p is below k. With probability p* it is uniform over the p k lines that have z, else over
    the p (p - k) that have not. For any two objects the values of a uniform line are independent and uniform, so that
    other objects are had by k/p of the lines, whatever the report was made from. It supports the objects that it has;
    there are k lines to p - k, and the likelihood ratio is e^epsilon for

    .. math:: p^* = \frac{k e^\epsilon}{k e^\epsilon + p - k}, \qquad q^* = \frac kp, \qquad
              k = \Bigl[\frac{p}{e^\epsilon + 1}\Bigr], \qquad
              \mathrm{Var}_0 = N \frac{q^*(1-q^*)}{(p^*-q^*)^2} \approx N \frac{4 e^\epsilon}{(e^\epsilon - 1)^2}

    The rounding makes p* differ from the published 1/2 instead of epsilon from what was asked. The variance is that of
    optimized unary encoding, with reports of two numbers for universes of any size. (Published is also a form over
    extensions of small fields, for epsilons whose e^epsilon + 1 is a prime power; here p is a prime.)

    Parameters
    ----------
    prime : p; 2^31 - 1 where it is left out.

    References
    ----------
    V. Feldman, K. Talwar. Lossless compression of efficient private local randomizers. ICML 2021.

    Examples
    --------
    >>> sorted(ps.mechanisms.PIRappor(universe=30, epsilon=1.0).obfuscate(np.array([3, 4]), rng))
    ['a', 'b']
    """

    prime: int = LARGEST_PRIME

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (max(3, self.universe) <= self.prime <= LARGEST_PRIME and is_prime(self.prime)):
            rule = f"must be a prime from {max(3, self.universe)} to {LARGEST_PRIME}"
            raise InputError(rule, value=self.prime, place="prime")

    @property
    def report_columns(self) -> dict[str, ReportColumn]:
        return {"a": ReportColumn("integer", self.prime), "b": ReportColumn("integer", self.prime)}

    @property
    def had(self) -> int:
        """k: values of a line at the objects that it has are 0..k-1."""
        return max(1, round(self.prime * flip_probability(self.epsilon)))

    @property
    def p_star(self) -> float:
        return self.had / (self.had + math.exp(-self.epsilon) * (self.prime - self.had))

    @property
    def q_star(self) -> float:
        return self.had / self.prime

    @property
    def support_prob_no_collision(self) -> float:
        return self.q_star

    def report(self, objects: Objects, keys: Keys) -> Reports:
        check_objects(objects, self.universe)
        a, b = np.empty(len(objects), dtype=np.int64), np.empty(len(objects), dtype=np.int64)
        kernels.draw(objects, keys, self.prime, self.had, self.p_star, a, b)
        return {"a": a, "b": b}

    def log_base_measure(self, reports: Reports) -> Floats:
        return uniform_base_measure(reports, self.p_star, self.prime * self.had)

    def support(self, reports: Reports) -> NDArray[np.bool_]:
        a, b = self._lines(reports)
        out = np.empty((len(a), self.universe), dtype=np.bool_)
        kernels.support(a, b, self.prime, self.had, out)
        return out

    def support_counts(self, reports: Reports) -> NDArray[np.int64]:
        out = np.zeros(self.universe, dtype=np.int64)
        kernels.counts(*self._lines(reports), self.prime, self.had, out)
        return out

    def mass(self, reports: Reports, views: PoolWeights) -> Floats:
        a, b = self._lines(reports)
        out = np.empty((len(a), views.width))
        kernels.mass(a, b, self.prime, self.had, self.universe, packed_layout(views).rows(), out)
        return out

    def _lines(self, reports: Reports) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        a, b = (np.asarray(reports[name], dtype=np.int64) for name in ("a", "b"))
        for name, column in (("a", a), ("b", b)):
            check_range(name, column, self.prime)
        return a, b


def is_prime(number: int) -> bool:
    """By trial division, of numbers below 2^31."""
    return number > 1 and all(number % divisor for divisor in range(2, math.isqrt(number) + 1))
