"""Summation with histogram encoding (SHE): the one-hot vector of the object with Laplace noise on every entry."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from poolscope.core.arrays import Floats, Integers, Keys, Map, Objects
from poolscope.core.errors import InputError
from poolscope.kernels import histogram as kernels
from poolscope.mechanisms.protocols import PoolWeights, ReportColumn, Reports, check_finite_epsilon, check_objects
from poolscope.mechanisms.pure import Likelihood, ScoreOracle, draw_object_counts

#: Below this epsilon, sums of simulated noise overflow 64-bit integers.
MIN_EPSILON = 1e-6

#: Fractional bits of the grid, relative to max(1, scale of the noise).
GRID_BITS = 20

#: Bound on entries in units of the noise scale: e^-1024 underflows.
MAX_SCALES = 1024.0

#: Numbers in one chunk of reports.
NUMBERS_AT_ONCE = 1 << 20


@dataclass(frozen=True, kw_only=True)
class SHE(ScoreOracle, Likelihood):
    r"""Summation with histogram encoding.

    A report of z is d real numbers: the one-hot vector of z, with Laplace noise of scale 2/epsilon on every entry,
    which is ε-private as two one-hot vectors differ by two in all. Of the density of report y only entry z
    depends on z:

    .. math:: \Pr[y | z] \propto e^{-\frac\epsilon2 (|y_z - 1| - |y_z|)}
              \propto e^{\epsilon \min(\max(y_z, 0), 1)}

    An entry above 1, or below 0, carries no more information than 1, or 0. The curator sums the entries. The score of
    an object is its entry, with mean 1 for the true object and 0 for the others, and

    .. math:: \mathrm{Var} = \frac{8 N}{\epsilon^2}

    for every object. (The sum uses less information than the likelihood; `the` sends less and estimates better.)

    **Noise on a grid.** Textbook implementations add a floating-point Laplace variable to 0 and to 1. The last bits of
    the sum reveal which it was, so such reports have no finite ε; `check` detects the violation. Here the noise
    is a multiple k of `step`, a power of two, with Pr[k] proportional to ``e^(-epsilon step |k| / 2)``, drawn
    independently of the entry. Its likelihood ratios are exactly those above, and its variance is 8/epsilon^2 to one
    part in 10^8. Reports of textbook implementations can be read too: attack and estimate ignore their last bits.
    (Entries are rounded to the grid before they are summed, so that sums do not depend on the order.)

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
            raise InputError(f"epsilon must be at least {MIN_EPSILON:g} for she", value=self.epsilon, place="epsilon")

    @property
    def report_columns(self) -> dict[str, ReportColumn]:
        return {"reals": ReportColumn("reals", self.universe)}

    @property
    def scale(self) -> float:
        """Scale of the Laplace noise."""
        return 2.0 / self.epsilon

    @property
    def step(self) -> float:
        """Spacing of the grid: a power of two that divides 1."""
        return 2.0 ** min(math.floor(math.log2(max(self.scale, 1.0))) - GRID_BITS, 0)

    @property
    def own_mean(self) -> float:
        return 1.0

    @property
    def other_mean(self) -> float:
        return 0.0

    def score_sum_variance(self, counts: Floats, reports: float) -> Floats:
        return np.full(self.universe, 2.0 * reports * self.scale**2)

    def report(self, objects: Objects, keys: Keys) -> Reports:
        check_objects(objects, self.universe)
        reals = np.empty((len(objects), self.universe))
        kernels.noisy_one_hot(objects, keys, self.step / self.scale, self.step, reals)
        return {"reals": reals}

    def log_likelihood(self, reports: Reports) -> Floats:
        """Return ε times each entry, clipped to [0, 1]."""
        return self.epsilon * np.clip(self._entries(reports), 0.0, 1.0)

    def log_base_measure(self, reports: Reports) -> Floats:
        r"""Return (reports,) the omitted constant: the log-probability of pure noise, minus ε/2.

        Noise of k steps has probability :math:`\frac{1 - r}{1 + r} r^{|k|}`, where r is :math:`e^{-\epsilon/2}` to the
        power of `step`. At the object's entry y, that changes by the factor
        :math:`e^{\epsilon \min(\max(y, 0), 1) - \epsilon/2}`.
        Entries of other implementations that lie between grid points are treated as if they were on the grid.
        """
        decay = 0.5 * self.epsilon * self.step
        atom = math.log(-math.expm1(-decay)) - math.log1p(math.exp(-decay))
        far = np.abs(self._entries(reports)).sum(axis=1)
        measure: Floats = self.universe * atom - 0.5 * self.epsilon * (far + 1.0)
        return measure

    def sent_masses(self, objects: Objects, keys: Keys, pool_weights: PoolWeights, rows: Integers, out: Floats) -> None:
        at_once = max(1, NUMBERS_AT_ONCE // self.universe)
        for start in range(0, len(objects), at_once):
            chunk = slice(start, start + at_once)
            super().sent_masses(objects[chunk], keys[chunk], pool_weights, rows[chunk], out)

    def scores(self, reports: Reports) -> Floats:
        """Return the entries rounded to the grid, so that sums are exact."""
        bound = MAX_SCALES * max(self.scale, 1.0)
        return np.rint(np.clip(self._entries(reports), -bound, bound) / self.step) * self.step

    def simulate_counts(self, popularity: Floats, count: int, key: np.uint64, threads: Map = map) -> Floats:
        """Draw from the closed form.

        The noise of one report is the difference of two geometric variables, hence that of all reports is the
        difference of two negative binomial variables.
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
