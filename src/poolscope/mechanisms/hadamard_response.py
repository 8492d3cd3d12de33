"""Hadamard response: a column of the Hadamard matrix in which the object's row is one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poolscope.base.arrays import Floats, Keys, Map, Objects
from poolscope.kernels import response as kernels
from poolscope.kernels.hadamard import transform
from poolscope.mechanisms.pure import Sized
from poolscope.mechanisms.role import ReportColumn, Reports, check_objects, lie
from poolscope.mechanisms.views import Views


@dataclass(frozen=True, kw_only=True)
class HadamardResponse(Sized):
    r"""Hadamard response in its form for high privacy, with one block.

    H is the +1/-1 Hadamard matrix of order K, the smallest power of two above the number d of objects: H[i, j] is minus
    one to the number of bits that i and j share. Object z has row z+1, as row 0 is all ones and tells nothing. A report
    of z is y: with probability p* a uniform column of the K/2 with H[z+1, y] = 1, else one of the K/2 with -1. It
    supports the objects with H[z+1, y] = 1, with the likelihood ratio p*/(1-p*) = e^epsilon. Two rows agree in half of
    the columns, whatever the sign in one of them, so

    .. math:: p^* = \frac{e^\epsilon}{e^\epsilon + 1}, \qquad q^* = \frac12, \qquad
              \mathrm{Var}_0 = N \Bigl(\frac{e^\epsilon + 1}{e^\epsilon - 1}\Bigr)^2

    with Var_0 the variance of the count of an object that nobody has. A report is one number below 2(d+1), and one
    Walsh-Hadamard transform, of the masses or of the reports' histogram, serves all reports. The forms with several
    blocks, for low privacy, support another object more or less often as it shares the block or not, so that there is
    no single q*; there `olh`, `ss` and `grr` serve.

    References
    ----------
    J. Acharya, Z. Sun, H. Zhang. Hadamard response: estimating distributions privately, efficiently, and with little
    communication. AISTATS 2019.
    """

    @property
    def report_columns(self) -> dict[str, ReportColumn]:
        return {"value": ReportColumn("integer", self.order)}

    @property
    def order(self) -> int:
        """K, the order of the matrix."""
        return 1 << self.universe.bit_length()

    @property
    def p_star(self) -> float:
        return 1.0 - lie(self.epsilon)

    @property
    def q_star(self) -> float:
        return 0.5

    def report(self, objects: Objects, keys: Keys) -> Reports:
        check_objects(objects, self.universe)
        value = np.empty(len(objects), dtype=np.int32)
        kernels.respond_hadamard(objects, keys, self.order, self.p_star, value)
        return {"value": value}

    def support(self, reports: Reports) -> NDArray[np.bool_]:
        shared = np.asarray(reports["value"], dtype=np.int64)[:, None] & np.arange(1, self.universe + 1)
        return np.bitwise_count(shared) % 2 == 0

    def mass(self, reports: Reports, views: Views) -> Floats:
        table = np.zeros((self.order, views.width))
        table[1 : self.universe + 1] = views.matrix()
        transform(table)
        out = np.empty((len(reports["value"]), views.width))
        kernels.hadamard_mass(reports["value"], table, out)
        return out

    def support_counts(self, reports: Reports) -> NDArray[np.int64]:
        return self._agreements(np.bincount(reports["value"], minlength=self.order))

    def simulate_counts(self, popularity: Floats, count: int, key: np.uint64, run: Map = map) -> NDArray[np.int64]:
        """By the closed law: of a column y the probability is (1 + (2 p* - 1) sum_z popularity(z) H[z+1, y]) / K."""
        rng = np.random.default_rng(np.random.SeedSequence(int(key)))
        table = np.zeros((self.order, 1))
        table[1 : self.universe + 1, 0] = np.asarray(popularity) / np.sum(popularity)
        transform(table)
        # rounding must not make a probability negative
        chance = np.maximum(1.0 + (2.0 * self.p_star - 1.0) * table[:, 0], 0.0)
        return self._agreements(rng.multinomial(count, chance / chance.sum()))

    def _agreements(self, histogram: NDArray[np.integer]) -> NDArray[np.int64]:
        """(universe,) reports in whose columns the object's row is one: (reports + transform of the histogram) / 2."""
        sums = histogram.astype(np.int64)[:, None]
        transform(sums)
        return (sums[0, 0] + sums[1 : self.universe + 1, 0]) // 2
