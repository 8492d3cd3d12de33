"""Pairwise independent RAPPOR: the bits of optimized unary encoding as the values of a line over a finite field."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arrays import Floats, Keys, Objects
from poolscope.core.errors import InputError
from poolscope.kernels import pi_rappor as kernels
from poolscope.mechanisms.hashing import check_range
from poolscope.mechanisms.protocols import PoolWeights, ReportColumn, Reports, check_objects, flip_probability
from poolscope.mechanisms.pure import BasicPureMechanism, uniform_base_measure
from poolscope.mechanisms.sketch import packed_layout

#: Above this prime, products of two field elements overflow 64 bits.
MAX_PRIME = (1 << 31) - 1


@dataclass(frozen=True, kw_only=True)
class PIRappor(BasicPureMechanism):
    r"""PI-RAPPOR, pairwise independent RAPPOR.

    A report of z is (a, b), a line over the field of p elements, p a prime no smaller than the universe. It supports
    the objects y with a y + b mod p below k. With probability p* it is uniform over the p k lines that support z, else
    over the p (p - k) that do not. For any two objects the values of a uniform line are independent and uniform, so
    that k/p of the lines support any other object. The likelihood ratio is e^epsilon for

    .. math:: p^* = \frac{k e^\epsilon}{k e^\epsilon + p - k}, \qquad q^* = \frac kp, \qquad
              k = \Bigl[\frac{p}{e^\epsilon + 1}\Bigr], \qquad
              \mathrm{Var}_0 = N \frac{q^*(1-q^*)}{(p^*-q^*)^2} \approx N \frac{4 e^\epsilon}{(e^\epsilon - 1)^2}

    Rounding k makes p* differ slightly from the published 1/2; ε is exact. The variance is that of optimized
    unary encoding, with reports of two numbers for universes of any size. (The publication also has a form over
    extensions of small fields, where e^epsilon + 1 is a prime power; here p is a prime.)

    Parameters
    ----------
    prime : p; default 2^31 - 1.

    References
    ----------
    V. Feldman, K. Talwar. Lossless compression of efficient private local randomizers. ICML 2021.

    Examples
    --------
    >>> sorted(ps.mechanisms.PIRappor(universe=30, epsilon=1.0).obfuscate(np.array([3, 4]), rng))
    ['a', 'b']
    """

    prime: int = MAX_PRIME

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (max(3, self.universe) <= self.prime <= MAX_PRIME and is_prime(self.prime)):
            rule = f"must be a prime from {max(3, self.universe)} to {MAX_PRIME}"
            raise InputError(rule, value=self.prime, place="prime")

    @property
    def report_columns(self) -> dict[str, ReportColumn]:
        return {"a": ReportColumn("integer", self.prime), "b": ReportColumn("integer", self.prime)}

    @property
    def support_values(self) -> int:
        """k: a line supports the objects at which its value is below k."""
        return max(1, round(self.prime * flip_probability(self.epsilon)))

    @property
    def p_star(self) -> float:
        k = self.support_values
        return k / (k + math.exp(-self.epsilon) * (self.prime - k))

    @property
    def q_star(self) -> float:
        return self.support_values / self.prime

    @property
    def support_prob_no_collision(self) -> float:
        return self.q_star

    def report(self, objects: Objects, keys: Keys) -> Reports:
        check_objects(objects, self.universe)
        a, b = np.empty(len(objects), dtype=np.int64), np.empty(len(objects), dtype=np.int64)
        kernels.draw_lines(objects, keys, self.prime, self.support_values, self.p_star, a, b)
        return {"a": a, "b": b}

    def log_base_measure(self, reports: Reports) -> Floats:
        return uniform_base_measure(reports, self.p_star, self.prime * self.support_values)

    def support(self, reports: Reports) -> NDArray[np.bool_]:
        a, b = self._lines(reports)
        out = np.empty((len(a), self.universe), dtype=np.bool_)
        kernels.line_support(a, b, self.prime, self.support_values, out)
        return out

    def support_counts(self, reports: Reports) -> NDArray[np.int64]:
        out = np.zeros(self.universe, dtype=np.int64)
        kernels.line_counts(*self._lines(reports), self.prime, self.support_values, out)
        return out

    def mass(self, reports: Reports, pool_weights: PoolWeights) -> Floats:
        a, b = self._lines(reports)
        out = np.empty((len(a), pool_weights.width))
        kernels.line_mass(a, b, self.prime, self.support_values, self.universe, packed_layout(pool_weights).rows(), out)
        return out

    def _lines(self, reports: Reports) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        a, b = (np.asarray(reports[name], dtype=np.int64) for name in ("a", "b"))
        for name, column in (("a", a), ("b", b)):
            check_range(name, column, self.prime)
        return a, b


def is_prime(number: int) -> bool:
    """Return whether a number below 2^31 is prime, by trial division."""
    return number > 1 and all(number % divisor for divisor in range(2, math.isqrt(number) + 1))
