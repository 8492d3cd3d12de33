"""Subset selection: a random subset of fixed size that is likely to hold the object."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from poolscope.base.arrays import Keys, Objects
from poolscope.base.errors import InputError
from poolscope.kernels import unary as kernels
from poolscope.mechanisms.bits import threshold
from poolscope.mechanisms.role import check_epsilon, lie
from poolscope.mechanisms.unary import ObjectBits, Words


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
    """

    k: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size < 2:
            raise InputError("a universe must have at least 2 objects for ss", value=self.size)
        if not 1 <= self.k < self.size:
            raise InputError(f"must be 1 to {self.size - 1} for {self.size} objects", value=self.k, place="k")

    @property
    def p_star(self) -> float:
        return self.k / (self.k + math.exp(-self.epsilon) * (self.size - self.k))

    @property
    def q_star(self) -> float:
        return (self.k - self.p_star) / (self.size - 1)

    def draw(self, objects: Objects, keys: Keys, out: Words) -> None:
        # fewer than wanted, by two standard deviations: what is added at random is drawn faster than what is removed
        start = max(0.0, self.k - 2.0 * math.sqrt(self.k)) / self.size
        undecided = np.empty(out.shape[1], dtype=np.uint64)
        kernels.choose_subsets(objects, keys, self.size, self.k, self.p_star, threshold(start), undecided, out)


def best_size(universe: int, epsilon: float) -> int:
    """The size of least variance."""

    def variance(k: int) -> float:
        mechanism = SubsetSelection(epsilon=epsilon, size=universe, k=k)
        p, q = mechanism.p_star, mechanism.q_star
        return q * (1.0 - q) / (p - q) ** 2

    at = math.floor(universe * lie(epsilon))
    return min({max(1, at), min(universe - 1, at + 1)}, key=variance)


def ss(*, universe: int, epsilon: float, k: int | None = None) -> SubsetSelection:
    """Subset selection with subsets of the given size, or else of the best one."""
    check_epsilon(epsilon)
    return SubsetSelection(epsilon=epsilon, size=universe, k=best_size(universe, epsilon) if k is None else k)
