"""Summation with histogram encoding: the one-hot vector of the object, and Laplace noise on every entry."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from poolscope.core.arrays import Floats, Integers, Keys, Map, Objects
from poolscope.core.errors import InputError
from poolscope.kernels import grouping as kernels
from poolscope.mechanisms.protocols import PoolWeights, ReportColumn, Reports, check_finite_epsilon, check_objects
from poolscope.mechanisms.pure import Likelihood, ScoreOracle, draw_object_counts

#: Below it the sums of simulated noise do not fit into 64 bits.
MIN_EPSILON = 1e-6

#: Bits after the point of what is larger, one or the scale of the noise.
GRID_BITS = 20

#: Scales of the noise beyond which no report lies: e^-1024 is no number.
MAX_SCALES = 1024.0

#: Numbers of reports that are drawn and read together.
NUMBERS_AT_ONCE = 1 << 20


@dataclass(frozen=True, kw_only=True)
class SHE(ScoreOracle, Likelihood):
    r"""Summation with histogram encoding.

    A report of z is d real numbers: the one-hot vector of z, with Laplace noise of scale 2/epsilon on every entry,
    which is epsilon-private as two one-hot vectors differ by two in all. Of the density of report y only entry z
    depends on z:

    .. math:: \Pr[y | z] \propto e^{-\frac\epsilon2 (|y_z - 1| - |y_z|)}
              \propto e^{\epsilon \min(\max(y_z, 0), 1)}

    An entry above 1, or below 0, tells no more than 1, or 0. The curator sums the entries: the score of an object is
    its entry, with the mean 1 for the own object and 0 for others, and

    .. math:: \mathrm{Var} = \frac{8 N}{\epsilon^2}

    for every object. (The sum wastes what the likelihood knows; `the` sends less and its counts are better.)

    **Noise on a grid.** The textbook adds a floating-point Laplace variable to 0 and to 1, and the last bits of the sum
    tell which it was: such reports have no finite epsilon, and `check` proves it. Here the noise is a multiple k of
    `step`, a power of two, with Pr[k] in proportion to ``e^(-epsilon step |k| / 2)``, drawn without regard to what it
    is added to. Its likelihood ratios are exactly those above, and its variance is 8/epsilon^2 to one part in 10^8.
    Reports of textbook implementations are read as well: attack and estimate do not look at their last bits. (Sums are
    over entries rounded to the grid, for then they are the same in any order.)

    References
    ----------
    T. Wang, J. Blocki, N. Li, S. Jha. Locally differentially private protocols for frequency estimation. USENIX
    Security 2017.
    I. Mironov. On significance of the least significant bits for differential privacy. CCS 2012.
    A. Ghosh, T. Roughgarden, M. Sundararajan. Universally utility-maximizing privacy mechanisms. STOC 2009.

    Examples
    --------
    >>> ps.mechanisms.SHE(universe=5, epsilon=1.0).obfuscate(np.array([2]), rng)["reals"].shape
    (1, 5)
    """

    universe: int
    epsilon: float

    def __post_init__(self) -> None:
        check_finite_epsilon(self.epsilon)
        if self.epsilon < MIN_EPSILON:
            raise InputError(f"epsilon must be at least {MIN_EPSILON:g} here", value=self.epsilon, place="epsilon")

    @property
    def report_columns(self) -> dict[str, ReportColumn]:
        return {"reals": ReportColumn("reals", self.universe)}

    @property
    def scale(self) -> float:
        """Of the Laplace noise."""
        return 2.0 / self.epsilon

    @property
    def step(self) -> float:
        """Distance of the grid's points: a power of two of which 1 is a multiple."""
        return 2.0 ** min(math.floor(math.log2(max(self.scale, 1.0))) - GRID_BITS, 0)

    @property
    def own_mean(self) -> float:
        return 1.0

    @property
    def other_mean(self) -> float:
        return 0.0

    def noise(self, counts: Floats, reports: float) -> Floats:
        return np.full(self.universe, 2.0 * reports * self.scale**2)

    def report(self, objects: Objects, keys: Keys) -> Reports:
        check_objects(objects, self.universe)
        reals = np.empty((len(objects), self.universe))
        kernels.noisy(objects, keys, self.step / self.scale, self.step, reals)
        return {"reals": reals}

    def log_likelihood(self, reports: Reports) -> Floats:
        """epsilon times each entry, kept within 0 and 1."""
        return self.epsilon * np.clip(self._entries(reports), 0.0, 1.0)

    def log_base_measure(self, reports: Reports) -> Floats:
        r"""(reports,) the probability of all noise, were no entry raised, and what the likelihood has more.

        Noise of k steps has probability :math:`\frac{1 - r}{1 + r} r^{|k|}`, r being :math:`e^{-\epsilon/2}` to the
        power of a step. The entry that is raised has :math:`e^{\epsilon \min(\max(y, 0), 1) - \epsilon/2}` times that.
        What lies between two points of the grid, in reports of other implementations, counts as if it were on one.
        """
        decay = 0.5 * self.epsilon * self.step
        atom = math.log(-math.expm1(-decay)) - math.log1p(math.exp(-decay))
        far = np.abs(self._entries(reports)).sum(axis=1)
        measure: Floats = self.universe * atom - 0.5 * self.epsilon * (far + 1.0)
        return measure

    def sent_masses(self, objects: Objects, keys: Keys, views: PoolWeights, positions: Integers, out: Floats) -> None:
        at_once = max(1, NUMBERS_AT_ONCE // self.universe)
        for start in range(0, len(objects), at_once):
            part = slice(start, start + at_once)
            super().sent_masses(objects[part], keys[part], views, positions[part], out)

    def scores(self, reports: Reports) -> Floats:
        """The entries, on the grid, so that sums are exact."""
        most = MAX_SCALES * max(self.scale, 1.0)
        return np.rint(np.clip(self._entries(reports), -most, most) / self.step) * self.step

    def simulate_counts(self, popularity: Floats, count: int, key: np.uint64, threads: Map = map) -> Floats:
        """By the closed law: the noise of a report is the difference of two geometric numbers, that of all reports the
        difference of two negative binomial ones.
        """
        rng, own = draw_object_counts(popularity, count, key)
        stop = -math.expm1(-self.step / self.scale)
        up, down = (rng.negative_binomial(count, stop, self.universe) if count else 0 for _ in range(2))
        return own + self.step * (up - down)

    def _entries(self, reports: Reports) -> Floats:
        reals = np.asarray(reports["reals"], dtype=np.float64)
        if reals.ndim != 2 or reals.shape[1] != self.universe:
            raise InputError(f"reals must be {self.universe} numbers, one for each object", value=reals.shape)
        return reals
