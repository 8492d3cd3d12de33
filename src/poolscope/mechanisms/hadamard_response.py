"""Hadamard response: a column of the Hadamard matrix, most likely one in which the object's row is 1."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arrays import Floats, Integers, Keys, Map, Objects
from poolscope.core.errors import InputError
from poolscope.core.randomness import generator
from poolscope.kernels import hadamard as kernels
from poolscope.kernels.hadamard import transform
from poolscope.mechanisms.protocols import (
    MAX_EPSILON,
    PoolWeights,
    ReportColumn,
    Reports,
    check_objects,
    derived_field,
    set_frozen,
)
from poolscope.mechanisms.pure import BasicPureMechanism, binomial_noise, uniform_base_measure

#: Up to this epsilon, the published mechanism has one block.
HIGH_PRIVACY = 1.0


@dataclass(frozen=True, kw_only=True)
class HadamardResponse(BasicPureMechanism):
    r"""Hadamard response, with a number of blocks that depends on ε.

    H is the +1/-1 Hadamard matrix of order b, a power of two: H[i, j] is minus one to the number of bits that i and j
    share. Each of B blocks has b columns and takes b-1 of the d objects, one after the other: object z is in block z
    div (b-1) and has row z mod (b-1) + 1, as row 0 is all ones and carries no information. Its support are the b/2
    columns of its block in which its row is 1. A report of z is a column. Each column of the support has e^epsilon
    times the probability of every other column, of any block, so that with u = 1 / (e^epsilon + 2B - 1)

    .. math:: p^* = e^\epsilon u, \qquad q = \tfrac12 (e^\epsilon + 1) u \text{ in the same block}, \qquad
              q = u \text{ in another}

    as two rows of a block agree in half of its columns, whatever the sign in one of them, and supports of different
    blocks are disjoint. q* is the mean over pairs of objects. With one block this is e^epsilon / (e^epsilon + 1) and
    1/2.

    A report outside the block of z carries no information about z and scores 1/2. A report in the support of z scores
    1, one elsewhere in the block 0. Every other object then has the mean 1/2, whatever its block, and

    .. math:: \mathrm{own} = \tfrac12 + \tfrac12 (e^\epsilon - 1) u, \qquad
              \mathrm{Var}_0 = N \frac{(e^\epsilon + 1) u F + 2u (1 - F)}{((e^\epsilon - 1) u)^2}

    with Var_0 the variance of the estimated count of an object that nobody has, F being the popularity of its block.
    With one block, scores are 1 inside the support and 0 outside.

    A report is one number below 2(d + B). One Walsh-Hadamard transform per block, of the masses or of the histogram,
    evaluates all reports.

    Parameters
    ----------
    blocks : B. The default is 1 up to epsilon = 1, above it 2^(ceil(log2 min(e^epsilon, 2d)) - 1), as published. Then b
        is the smallest power of two above d/B. Blocks without an object are dropped, as in the authors' code.

    References
    ----------
    J. Acharya, Z. Sun, H. Zhang. Hadamard response: estimating distributions privately, efficiently, and with little
    communication. AISTATS 2019.

    Examples
    --------
    >>> ps.mechanisms.HadamardResponse(universe=30, epsilon=2.0).blocks
    2
    """

    blocks: int = derived_field()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.blocks is None:
            set_frozen(self, blocks=published_blocks(self.epsilon, self.universe))
        if not 1 <= self.blocks <= 2 * self.universe:
            rule = f"must be 1 to {2 * self.universe}, twice the number of objects"
            raise InputError(rule, value=self.blocks, place="blocks")
        set_frozen(self, blocks=-(-self.universe // (self.order - 1)))

    @property
    def report_columns(self) -> dict[str, ReportColumn]:
        return {"value": ReportColumn("integer", self.blocks * self.order)}

    @property
    def order(self) -> int:
        """b, the order of the matrix: a row for each object of a block, and row 0, which is unused."""
        return 1 << (-(-self.universe // self.blocks)).bit_length()

    @property
    def prob_outside_support(self) -> float:
        """u, the probability of b/2 columns outside the support."""
        if self.epsilon >= MAX_EPSILON:
            return math.exp(-self.epsilon)
        return 1.0 / (2.0 * self.blocks - 1.0 + math.exp(self.epsilon))

    @property
    def p_star(self) -> float:
        return 1.0 - (2.0 * self.blocks - 1.0) * self.prob_outside_support

    @property
    def q_star(self) -> float:
        sizes = np.bincount(self._block_and_row()[0]).astype(np.float64)
        others = max(self.universe * (self.universe - 1.0), 1.0)
        outside = 1.0 - float(np.sum(sizes * (sizes - 1.0))) / others if self.blocks > 1 else 0.0
        return (1.0 - outside) * 0.5 * self.prob_same_block + outside * self.prob_outside_support

    @property
    def support_prob_no_collision(self) -> float:
        """Support probability of an object in another block, whose support is disjoint; with one block, in the same."""
        return 0.5 * self.prob_same_block if self.blocks == 1 else self.prob_outside_support

    @property
    def prob_same_block(self) -> float:
        """(e^epsilon + 1) u, the probability that a report is in the block of its object."""
        return 1.0 - 2.0 * (self.blocks - 1.0) * self.prob_outside_support

    @property
    def own_mean(self) -> float:
        return self.p_star + 0.5 * (1.0 - self.prob_same_block)

    @property
    def other_mean(self) -> float:
        return 0.5

    @property
    def binary_scores(self) -> bool:
        return self.blocks == 1

    def score_sum_variance(self, counts: Floats, reports: float) -> Floats:
        """Return the variance of binary scores with the same means, minus 1/4 per report outside the block."""
        block = self._block_and_row()[0]
        shares = np.bincount(block, weights=counts, minlength=self.blocks)
        within = reports * shares / max(shares.sum(), np.finfo(float).tiny) if self.blocks > 1 else np.array([reports])
        outside = within * (1.0 - self.prob_same_block) + (reports - within) * (1.0 - 2.0 * self.prob_outside_support)
        return binomial_noise(counts, reports, self.own_mean, self.other_mean) - 0.25 * outside[block]

    def report(self, objects: Objects, keys: Keys) -> Reports:
        check_objects(objects, self.universe)
        value = np.empty(len(objects), dtype=np.int32)
        kernels.respond_hadamard(objects, keys, self.blocks, self.order, self.p_star, self.prob_outside_support, value)
        return {"value": value}

    def log_base_measure(self, reports: Reports) -> Floats:
        return uniform_base_measure(reports, self.p_star, self.order // 2)

    def support(self, reports: Reports) -> NDArray[np.bool_]:
        within, agrees = self._compared(reports)
        return within & agrees

    def scores(self, reports: Reports) -> NDArray[Any]:
        within, agrees = self._compared(reports)
        return within & agrees if self.binary_scores else np.where(within, agrees, 0.5)

    def mass(self, reports: Reports, pool_weights: PoolWeights) -> Floats:
        table = np.zeros((self.order, self.blocks, pool_weights.width))
        block, row = self._block_and_row()
        table[row, block] = pool_weights.matrix()
        transform(table.reshape(self.order, -1))
        out = np.empty((len(reports["value"]), pool_weights.width))
        kernels.hadamard_mass(reports["value"], table, out)
        return out

    def support_counts(self, reports: Reports) -> Integers:
        within, agreement = self._agreement(self._histogram(reports))
        return (within + agreement) // 2

    def score_sums(self, reports: Reports) -> NDArray[Any]:
        return self._score_sums(self._histogram(reports))

    def simulate_counts(self, popularity: Floats, count: int, key: np.uint64, threads: Map = map) -> NDArray[Any]:
        r"""Draw from the closed form.

        With t = (e^epsilon - 1) / (e^epsilon + 1), columns y of a block have the probabilities

        .. math:: \propto 1 + t \Bigl(\sum_{z \in \mathrm{block}} f(z) H[r_z, y] - \sum_{\mathrm{others}} f(z)\Bigr)
        """
        frequency = np.asarray(popularity) / np.sum(popularity)
        table = np.zeros((self.order, self.blocks))
        block, row = self._block_and_row()
        table[row, block] = frequency
        transform(table)
        # row 0 is all ones, so that it holds the sum of each block
        outside = table[0].sum() - table[0]
        tilt = 2.0 * (1.0 - 1.0 / (1.0 + math.exp(min(self.epsilon, MAX_EPSILON)))) - 1.0
        # rounding could make a probability negative
        probability = np.maximum(1.0 + tilt * (table - outside), 0.0).T.ravel()
        return self._score_sums(generator(key).multinomial(count, probability / probability.sum()))

    def _block_and_row(self) -> tuple[Integers, Integers]:
        """Return (universe,) the block of each object, and its row in the block."""
        block, row = np.divmod(np.arange(self.universe), self.order - 1)
        return block, row + 1

    def _compared(self, reports: Reports) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return (reports, universe) whether each object is in the report's block, and whether its row is 1 there."""
        block, row = self._block_and_row()
        of, column = np.divmod(np.asarray(reports["value"], dtype=np.int64)[:, None], self.order)
        return of == block, np.bitwise_count(column & row) % 2 == 0

    def _histogram(self, reports: Reports) -> Integers:
        return np.bincount(reports["value"], minlength=self.blocks * self.order)

    def _agreement(self, histogram: NDArray[np.integer]) -> tuple[Integers, Integers]:
        """Return (universe,) the reports in the block of each object, and its agreements minus disagreements."""
        sums = np.ascontiguousarray(histogram.astype(np.int64).reshape(self.blocks, self.order).T)
        transform(sums)
        block, row = self._block_and_row()
        return sums[0, block], sums[row, block]

    def _score_sums(self, histogram: NDArray[np.integer]) -> NDArray[Any]:
        """Return (universe,) (reports + agreement) / 2; with one block, the support counts."""
        sums = histogram.sum() + self._agreement(histogram)[1]
        counts: NDArray[Any] = sums // 2 if self.binary_scores else sums / 2
        return counts


def published_blocks(epsilon: float, universe: int) -> int:
    """Return the published number of blocks: 1 for high privacy, else that of the general form."""
    if epsilon <= HIGH_PRIVACY:
        return 1
    return 1 << math.ceil(math.log2(min(math.exp(min(epsilon, MAX_EPSILON)), 2.0 * universe))) - 1
