"""Subset selection: a random subset of fixed size that contains the object with high probability."""

from __future__ import annotations

import math
from dataclasses import dataclass

from poolscope.core.arrays import Floats, Keys, Objects
from poolscope.core.errors import InputError
from poolscope.kernels import unary as kernels
from poolscope.mechanisms.protocols import Reports, derived_field, flip_probability, set_frozen
from poolscope.mechanisms.pure import uniform_base_measure
from poolscope.mechanisms.unary import ObjectBits, Words, as_fixed_point


@dataclass(frozen=True, kw_only=True)
class SubsetSelection(ObjectBits):
    r"""Subset selection.

    A report of z is a subset of k of the d objects: with probability p* it is z and a uniform subset of k-1 of the
    others, else a uniform subset of k of the others. It supports the objects in it. There are C(d-1, k-1) subsets with
    z and C(d-1, k) without, so that p* / C(d-1, k-1) over (1-p*) / C(d-1, k) is the likelihood ratio e^epsilon for

    .. math:: p^* = \frac{k e^\epsilon}{k e^\epsilon + d - k}, \qquad
              q^* = p^* \frac{k - 1}{d - 1} + (1 - p^*) \frac{k}{d - 1}

    The default k is the one of floor and ceiling of d / (e^epsilon + 1), at least 1, for which the variance of the
    count of a rare object, N q*(1-q*) / (p*-q*)^2, is smaller; with k = 1 it is k-ary randomized response. Reports are
    written as bits, one for each object.

    References
    ----------
    M. Ye, A. Barg. Optimal schemes for discrete distribution estimation under locally differential privacy. IEEE
    Transactions on Information Theory 64, 2018.
    S. Wang et al. Mutual information optimally local private discrete distribution estimation. 2016.

    Examples
    --------
    >>> ps.mechanisms.SubsetSelection(universe=30, epsilon=1.0).k
    8
    """

    k: int = derived_field()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.universe < 2:
            raise InputError("a universe must have at least 2 objects for ss", value=self.universe)
        if self.k is None:
            set_frozen(self, k=best_size(self.universe, self.epsilon))
        if not 1 <= self.k < self.universe:
            raise InputError(f"must be 1 to {self.universe - 1} for {self.universe} objects", value=self.k, place="k")

    @property
    def p_star(self) -> float:
        return self.k / (self.k + math.exp(-self.epsilon) * (self.universe - self.k))

    @property
    def q_star(self) -> float:
        return (self.k - self.p_star) / (self.universe - 1)

    def log_base_measure(self, reports: Reports) -> Floats:
        return uniform_base_measure(reports, self.p_star, math.comb(self.universe - 1, self.k - 1))

    def draw(self, objects: Objects, keys: Keys, out: Words) -> None:
        # start two standard deviations below the target size: adding random elements is faster than removing them
        start = max(0.0, self.k - 2.0 * math.sqrt(self.k)) / self.universe
        kernels.choose_subsets(objects, keys, self.universe, self.k, self.p_star, as_fixed_point(start), out)


def best_size(universe: int, epsilon: float) -> int:
    """Return the subset size with the smallest variance."""

    def variance(k: int) -> float:
        mechanism = SubsetSelection(universe=universe, epsilon=epsilon, k=k)
        p, q = mechanism.p_star, mechanism.q_star
        return q * (1.0 - q) / (p - q) ** 2

    lower = math.floor(universe * flip_probability(epsilon))
    return min({max(1, lower), min(universe - 1, lower + 1)}, key=variance)
