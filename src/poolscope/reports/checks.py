r"""Consistency checks of the first reports of a file with the scenario: mechanism, memoization and popularity.

The popularity check tests whether reports follow the popularity that an adversary assumes within its pools.

An adversary assumes the popularity within each pool, but not the popularity of the pools. The reports are a mixture of
the reports of the pools, with unknown weights :math:`\pi`, and popularities :math:`\varphi_i^\beta` (normalized) with
exponent :math:`\beta = 1`. An exponent below 1 is a flatter popularity, 0 a uniform one, and a negative one reverses
the order. Objects in another order, fake values and a smaller epsilon all look flatter. A client that sends the true
value too often looks steeper.

The test is a score test of :math:`\beta = 1`, for all pools together and for each of them. With
:math:`L_i(t)` the likelihood of report t from pool i and :math:`\dot L_i` its derivative by the exponent, which weighs
objects by :math:`\varphi_i(z) (\log \varphi_i(z) - \sum_w \varphi_i(w) \log \varphi_i(w))`, the score of a report is

.. math:: h(t) = \frac{\sum_i \pi_i \dot L_i(t)}{\sum_i \pi_i L_i(t)}
          \quad \text{less its projection on} \quad \frac{L_i(t) - L_0(t)}{\sum_j \pi_j L_j(t)}

at the maximum-likelihood :math:`\pi`. Its mean is 0 for reports of every pool, so that the preferences of users do not
matter. The variance is that of sums over users, as memoized responses and individual popularities make the reports of a
user dependent. One Newton step estimates the exponent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from scipy import stats

from poolscope.core.arrays import Floats, Integers, Keys
from poolscope.devices.protocols import Device
from poolscope.mechanisms.protocols import Mechanism, PoolWeights, Reports, report_count
from poolscope.population.popularity import within_pools
from poolscope.population.universe import Universe
from poolscope.reports.misfit import ERROR, MAX_REPORTS, FirstReports, MisfitCheck
from poolscope.reports.repeats import RepeatCheck, min_collision

#: Deviation of the exponent from 1 that is tolerated: a given popularity is never exactly that of the users.
MARGIN = 0.02

#: Minimum number of users for an estimate of the variance between users.
MIN_USERS = 20

#: Masses that are held in memory.
MAX_CELLS = 1 << 22

#: Maximum number of Newton steps, the gain in log-likelihood at which they stop, and halvings of a step.
MAX_STEPS, MIN_GAIN, HALVINGS = 50, 1e-4, 30

#: A score whose residual variance is below this share is rounding error, or explained by the pool weights.
MIN_RESIDUAL = 1e-9

#: Below this exponent, another order of the objects is more likely than a flatter popularity.
REORDERED_EXPONENT = 0.3


@dataclass(frozen=True, kw_only=True, eq=False)
class AssumedPopularity:
    """The popularity within pools that an adversary assumes."""

    adversary: str
    universe: Universe
    popularity: Floats

    def equals(self, other: AssumedPopularity) -> bool:
        """Return whether both assume the same pools and popularity, whatever their names."""
        same = np.array_equal(self.universe.pool_of, other.universe.pool_of)
        return same and np.array_equal(self.popularity, other.popularity)


class PopularityCheck:
    """Collect reports block by block, and compare their popularity with the assumed one.

    Parameters
    ----------
    false_alarm_rate : probability of a false alarm.
    """

    def __init__(
        self, mechanism: Mechanism, assumed: AssumedPopularity, false_alarm_rate: float, max_rows: int
    ) -> None:
        self._mechanism, self._assumed, self._false_alarm_rate = mechanism, assumed, false_alarm_rate
        sizes = np.bincount(assumed.universe.pool_of + 1, minlength=assumed.universe.k + 1)
        # the neutral pool may be empty
        self._pools = np.flatnonzero(sizes)
        self._views, self._step = _tilted(assumed)
        self._tests = 1 + int(np.count_nonzero(self._step))
        self._max_rows = min(max_rows, MAX_CELLS // self._views.width)
        self._masses: list[Floats] = []
        self._rows = 0

    def add(self, reports: Reports) -> None:
        """Add a block, up to `max_rows` reports in total; a uniform popularity is not tested."""
        first = {name: column[: self._max_rows - self._rows] for name, column in reports.items()}
        if self._tests > 1 and report_count(first):
            self._masses.append(self._mechanism.mass(first, self._views))
            self._rows += report_count(first)

    def violation(self, users: Integers) -> str | None:
        """Return the deviation in one line, or None; `users` (reports,) numbers the user of each report from 0."""
        if not self._rows:
            return None
        mass = np.concatenate(self._masses)
        likelihood_offset, likelihood_scale = self._mechanism.likelihood_offset, self._mechanism.likelihood_scale
        likelihood = likelihood_offset + likelihood_scale * mass[:, 0::2][:, self._pools]
        # pools with a uniform popularity have no alternative
        steps = np.where(self._step > 0, self._step, np.inf)
        tilt = (likelihood_scale * (mass[:, 1::2] - mass[:, 0::2]) / steps)[:, self._pools]
        possible = likelihood.max(axis=1) > 0
        likelihood, tilt, users = likelihood[possible], tilt[possible], users[: self._rows][possible]
        count = len(np.unique(users))
        if count < MIN_USERS:
            return None
        # likelihoods are known up to a factor of each report
        scale = likelihood.max(axis=1, keepdims=True)
        exponent, error = exponents(likelihood / scale, tilt / scale, users)
        deviations = stats.t.isf(self._false_alarm_rate / 2 / self._tests, count - 1)
        with np.errstate(invalid="ignore"):
            far = np.abs(exponent - 1.0) > MARGIN + deviations * error
        if not far.any():
            return None
        names = np.array(["neutral", *self._assumed.universe.pool_names])[self._pools]
        # index 0 is that of all pools together
        strongest = int(np.nanargmax(np.where(far, np.abs(exponent - 1.0) / error, np.nan)))
        return self._message(float(exponent[strongest]), [str(name) for name in names[far[1:]]])

    def _message(self, exponent: float, pools: Sequence[str]) -> str:
        where = f"pool{'s' * (len(pools) != 1)} {', '.join(pools)}" if pools else "pools"
        found = (
            f"within {where} the reports do not follow the popularity of adversary {self._assumed.adversary} "
            f"(they fit its power {exponent:.2g})"
        )
        if exponent > 1:
            return f"{found}: likely a larger epsilon, a client that is truthful too often, or a steeper popularity"
        if exponent < REORDERED_EXPONENT:
            return f"{found}: likely another order of objects, hash table columns or popularities, or numbers from 1"
        return f"{found}: likely a smaller epsilon, fake values among the reports, or a flatter popularity"


def exponents(likelihood: Floats, tilt: Floats, users: Integers) -> tuple[Floats, Floats]:
    """Estimate the exponent of the popularity and its standard error: (pools + 1,) both, all pools together first.

    Parameters
    ----------
    likelihood, tilt : (reports, pools), the likelihood and its derivative by the pool's exponent.
    users : (reports,) the user of each report, from 0; reports of one user may be dependent.
    """
    weights, nuisance = pool_weights(likelihood)
    shares = np.maximum(weights, 0.0)
    scores = tilt * shares / shares.sum() / (likelihood @ weights)[:, None]
    scores = np.column_stack([scores.sum(axis=1), scores])
    total = np.sum(scores**2, axis=0)
    scores -= nuisance @ _solved(nuisance.T @ nuisance, nuisance.T @ scores)
    information = np.sum(scores**2, axis=0)
    sums = np.stack([np.bincount(users, weights=column) for column in scores.T], axis=1)
    sums = sums[np.bincount(users) > 0]
    spread = len(sums) / (len(sums) - 1) * np.sum((sums - sums.mean(axis=0)) ** 2, axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        known = np.where(information > MIN_RESIDUAL * total, information, np.nan)
        return 1.0 + sums.sum(axis=0) / known, np.sqrt(spread) / known


def pool_weights(likelihood: Floats) -> tuple[Floats, Floats]:
    """Return the maximum-likelihood weights of the pools, and the derivatives of the log-likelihoods by the weights.

    The weights (pools,) sum to 1. They may be negative as long as every report has a positive probability, so that the
    gradient is 0 at the maximum. The derivatives are (reports, pools - 1).
    """
    pools = likelihood.shape[1]
    weights: Floats = np.full(pools, 1.0 / pools)
    apart = likelihood[:, 1:] - likelihood[:, :1]
    mixture: Floats = likelihood @ weights
    for _ in range(MAX_STEPS):
        derivatives = apart / mixture[:, None]
        gradient = derivatives.sum(axis=0)
        step = _solved(derivatives.T @ derivatives, gradient)
        gain = float(gradient @ step)
        if gain < MIN_GAIN:
            break
        change, value = apart @ step, float(np.sum(np.log(mixture)))
        for halving in range(HALVINGS):
            length = 0.5**halving
            moved = mixture + length * change
            if moved.min() > 0 and np.sum(np.log(moved)) >= value + MIN_GAIN * length * gain:
                weights = weights + length * np.concatenate([[-step.sum()], step])
                break
        else:
            break
        mixture = likelihood @ weights
    return weights, apart / mixture[:, None]


def _tilted(assumed: AssumedPopularity) -> tuple[PoolWeights, Floats]:
    """Return views of each pool's popularity and of the popularity one step along the exponent, and the steps.

    Steps are (pools + 1,), 0 where the popularity is uniform. A step is as long as the popularity stays positive, as
    some mechanisms do not accept negative weights.
    """
    universe, section = assumed.universe, assumed.universe.pool_of + 1
    share = within_pools(universe, assumed.popularity, empty="uniform")
    logs = np.log(share, out=np.zeros_like(share), where=share > 0)
    tilt = logs - np.bincount(section, weights=share * logs)[section]
    tilt[share <= 0] = 0.0
    lowest = np.zeros(universe.k + 1)
    np.minimum.at(lowest, section, tilt)
    # ignore differences due to rounding
    step = np.divide(-1.0, lowest, out=np.zeros_like(lowest), where=lowest < -1e-9)
    columns = np.stack([2 * section, 2 * section + 1]).astype(np.uint32)
    weights = np.stack([share, share * np.maximum(1.0 + step[section] * tilt, 0.0)])
    return PoolWeights(columns, weights, 2 * (universe.k + 1)), step


def _solved(matrix: Floats, right: Floats) -> Floats:
    """Return the minimum-norm solution, as indistinguishable pools make the matrix singular."""
    return np.asarray(np.linalg.lstsq(matrix, right, rcond=1e-10)[0], dtype=np.float64)


class ReportChecks:
    """Check the first reports of a file against the scenario.

    Parameters
    ----------
    device : the assumed device.
    assumed : the popularities that adversaries assume.
    false_alarm_rate : probability of a false alarm of each check.
    """

    def __init__(
        self, device: Device, assumed: Sequence[AssumedPopularity] = (), false_alarm_rate: float = ERROR
    ) -> None:
        self._memoized = device.memoizes
        self._misfit, self._first_reports = MisfitCheck(device.mechanism, false_alarm_rate), FirstReports()
        collision = max((_min_collision_of(each) for each in assumed), default=0.0)
        self._repeats = RepeatCheck(device, collision, false_alarm_rate)
        self._popularities = [
            PopularityCheck(device.mechanism, each, false_alarm_rate, MAX_REPORTS) for each in assumed
        ]
        self._users: list[Keys] = []
        self._rows = 0

    @property
    def enough(self) -> bool:
        """Whether further reports would be ignored."""
        return self._misfit.enough and self._rows >= MAX_REPORTS

    def add(self, users: pl.Series, reports: Reports) -> None:
        """Add a block: the user of each report, and the reports."""
        # memoized reports of one user are dependent; the first reports of different users are not
        hashes = users.hash().to_numpy()  # names may be long
        self._misfit.add(self._first_reports.of(hashes, reports) if self._memoized else reports)
        first = {name: column[: MAX_REPORTS - self._rows] for name, column in reports.items()}
        if not report_count(first):
            return
        self._users.append(hashes[: report_count(first)])
        self._rows += report_count(first)
        self._repeats.add(first)
        for popularity in self._popularities:
            popularity.add(first)

    def violations(self) -> list[str]:
        """Return the deviations from the scenario, one line each."""
        if not self._rows:
            return []
        users = self._numbered()
        repeats = self._repeats.violation(users)
        # the misfit checks assume independent reports
        misfit = None if repeats and not self._memoized else self._misfit.violation()
        found = [repeats, misfit, *(check.violation(users) for check in self._popularities)]
        return [line for line in found if line]

    def _numbered(self) -> Integers:
        """Return (reports,) the user of each report, from 0."""
        numbers: Integers = np.unique(np.concatenate(self._users), return_inverse=True)[1]
        return numbers


def _min_collision_of(assumed: AssumedPopularity) -> float:
    within = within_pools(assumed.universe, assumed.popularity, empty="uniform")
    return min_collision(within, assumed.universe.pool_of + 1)
