"""The Bloom filters of RAPPOR: which bits objects have in each cohort, and how many they share."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from poolscope.core.arrays import Floats
from poolscope.core.errors import InputError
from poolscope.mechanisms.grouping import BUCKETS_AT_ONCE
from poolscope.mechanisms.hashing import PAIRS_LOOKED_AT, Buckets, HashFamily


@dataclass(frozen=True, kw_only=True)
class BloomFilters:
    """The bits of every object in each cohort, from `hashes` functions a cohort: those of the first cohort come first.

    As a family of functions it has one for each cohort, whose buckets are (cohorts, hashes, universe): each bit of an
    object once, m where a function repeats an earlier one.
    """

    functions: HashFamily
    hashes: int

    def __post_init__(self) -> None:
        if self.hashes < 1 or self.functions.size % self.hashes:
            rule = f"must divide the {self.functions.size} hash functions into cohorts"
            raise InputError(rule, value=self.hashes, place="hashes")

    @property
    def size(self) -> int:
        return self.functions.size // self.hashes

    @property
    def m(self) -> int:
        return self.functions.m

    @property
    def universe(self) -> int:
        return self.functions.universe

    def buckets(self, functions: NDArray[np.int64]) -> Buckets:
        rows = (functions[:, None] * self.hashes + np.arange(self.hashes)).ravel()
        found = self.functions.buckets(rows).reshape(len(functions), self.hashes, self.universe)
        for i in range(self.hashes - 1, 0, -1):
            again = (found[:, :i] == found[:, i : i + 1]).any(axis=1)
            found[:, i][again] = self.m
        return found

    def distinct(self) -> list[float]:
        """Probability of each number of distinct values of h uniform draws of m."""
        shares = [1.0]
        for _ in range(self.hashes):
            old, new = [*shares, 0.0], [0.0, *shares]
            shares = [
                a * d / self.m + b * (self.m - d + 1) / self.m for d, (a, b) in enumerate(zip(old, new, strict=True))
            ]
        return shares

    def crossing(self, d: int, shared: float, alone: float) -> float:
        """Mean of shared^J alone^(d - J): J of an object's d bits are those of another, all of whose are uniform."""
        m = self.m
        return sum(
            share * math.comb(d, j) * math.comb(m - d, e - j) / math.comb(m, e) * shared**j * alone ** (d - j)
            for e, share in enumerate(self.distinct())
            for j in range(min(d, e) + 1)
            if share
        )

    def bit_shares(self) -> Floats:
        """(hashes + 1, universe) the share of the cohorts in which each object has so many bits."""
        out = np.zeros((self.hashes + 1, self.universe))
        for found in self._in_parts():
            for d in range(self.hashes + 1):
                out[d] += ((found < self.m).sum(axis=1) == d).sum(axis=0)
        return out / self.size

    def crossed(self, shared: float, alone: float) -> tuple[Floats, Floats]:
        """(universe,) mean and variance over other objects of shared^J alone^(D - J), the mean over these functions.

        Cohorts are taken for independent in the variance. In a large universe some objects speak for all.
        """
        most = max(2, int(PAIRS_LOOKED_AT * self.m / (self.size * self.universe * self.hashes**2)))
        some = np.linspace(0, self.universe - 1, min(self.universe, most)).astype(int)
        mean, variance = np.zeros(len(some)), np.zeros(len(some))
        powers = shared ** np.arange(self.hashes + 1.0), alone ** np.arange(self.hashes + 1.0)
        for positions in itertools.chain.from_iterable(self._in_parts()):
            bits = bit_matrix(positions[None], self.m)
            held = np.asarray(bits.sum(axis=1)).ravel().astype(int)[some]
            common = (bits[some] @ bits.T).tocoo()
            apart = common.col != some[common.row]
            row, j = common.row[apart], common.data[apart].astype(int)
            own = powers[1][held]
            value = powers[0][j] * powers[1][held[row] - j]
            others = max(1, self.universe - 1)
            first = own + np.bincount(row, value - own[row], len(some)) / others
            second = own**2 + np.bincount(row, value**2 - own[row] ** 2, len(some)) / others
            mean += first
            variance += np.maximum(second - first**2, 0.0)
        mean, variance = mean / self.size, variance / self.size**2
        if len(some) < self.universe:
            return np.full(self.universe, mean.mean()), np.full(self.universe, variance.mean() + mean.var())
        return mean, variance

    def _in_parts(self) -> Iterator[Buckets]:
        """The buckets of all cohorts, some at a time."""
        at_once = max(1, BUCKETS_AT_ONCE // (self.universe * self.hashes))
        for begin in range(0, self.size, at_once):
            yield self.buckets(np.arange(begin, min(begin + at_once, self.size)))


def bit_matrix(positions: Buckets, m: int) -> sparse.csr_array:
    """(functions * universe, functions * m) which cells each object has under each function; others' are not there.

    positions (functions, cells, universe), m where there is no cell.
    """
    functions, _, universe = positions.shape
    f, _, z = np.nonzero(positions < m)
    column = f * m + positions[positions < m]
    shape = functions * universe, functions * m
    return sparse.csr_array((np.ones(len(z)), (f * universe + z, column)), shape=shape)
