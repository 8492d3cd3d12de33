r"""Consistency checks of the first reports of a file with the scenario: mechanism, memoization and popularity.

The popularity check tests whether reports follow the popularity that an adversary assumes within its pools.

An adversary assumes the popularity within each pool, but not the popularity of the pools. The reports are a mixture of
the reports of the pools, with unknown weights :math:`\pi`, and popularities :math:`\varphi_i^\beta` (normalized) with
exponent :math:`\beta = 1`. An exponent below 1 is a flatter popularity, 0 a uniform one, and a negative one reverses
the order. Objects in another order, fake values and a smaller ε all look flatter. A client that sends the true
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
from poolscope.reports.findings import (
    BIT_ORDER,
    DUPLICATES,
    EPSILON,
    HASH_TABLE,
    MEMOIZATION,
    POPULARITY,
    Check,
    Finding,
)
from poolscope.reports.misfit import ERROR, MAX_REPORTS, MIN_REPORTS, FirstReports, MisfitCheck
from poolscope.reports.mixture import pool_weights, solved
from poolscope.reports.readings import ReadingCheck
from poolscope.reports.repeats import RepeatCheck, min_collision

#: Deviation of the exponent from 1 that is tolerated: a given popularity is never exactly that of the users.
MARGIN = 0.02

#: Minimum number of users for an estimate of the variance between users.
MIN_USERS = 20

#: Masses that are held in memory.
MAX_CELLS = 1 << 22

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
        """Return the deviation in one line, or None; `users` as of `check`."""
        found = self.check(users)
        return found.line if found.status == "fail" else None

    def check(self, users: Integers) -> Check:
        """Return the check; `users` (reports,) numbers the user of each report from 0."""
        skipped = f"adversary {self._assumed.adversary}: not tested:"
        if self._tests == 1:
            return Check(check=POPULARITY, status="skip", value=f"{skipped} uniform within pools has no alternative")
        if not self._rows:
            return Check(check=POPULARITY, status="skip", value=f"{skipped} no reports")
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
            return Check(check=POPULARITY, status="skip", value=f"{skipped} needs reports of {MIN_USERS} users")
        # likelihoods are known up to a factor of each report
        scale = likelihood.max(axis=1, keepdims=True)
        exponent, error = exponents(likelihood / scale, tilt / scale, users)
        deviations = stats.t.isf(self._false_alarm_rate / 2 / self._tests, count - 1)
        with np.errstate(invalid="ignore"):
            far = np.abs(exponent - 1.0) > MARGIN + deviations * error
        if not far.any():
            value = f"reports fit the power {exponent[0]:.3g} of the popularity of adversary {self._assumed.adversary}"
            value += f" (standard error {error[0]:.2g})" if np.isfinite(error[0]) else ""
            return Check(check=POPULARITY, status="pass", value=value)
        names = np.array(["neutral", *self._assumed.universe.pool_names])[self._pools]
        # index 0 is that of all pools together
        strongest = int(np.nanargmax(np.where(far, np.abs(exponent - 1.0) / error, np.nan)))
        return Check.failed(self._finding(float(exponent[strongest]), [str(name) for name in names[far[1:]]]))

    def _finding(self, exponent: float, pools: Sequence[str]) -> Finding:
        where = f"pool{'s' * (len(pools) != 1)} {', '.join(pools)}" if pools else "pools"
        value = (
            f"within {where} the reports do not follow the popularity of adversary {self._assumed.adversary} "
            f"(they fit its power {exponent:.2g})"
        )
        if exponent > 1:
            cause = "likely a larger epsilon, a client that is truthful too often, or a steeper popularity"
        elif exponent < REORDERED_EXPONENT:
            cause = "likely another order of objects, hash table columns or popularities, or numbers from 1"
        else:
            cause = "likely a smaller epsilon, fake values among the reports, or a flatter popularity"
        return Finding(POPULARITY, value, cause)


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
    scores -= nuisance @ solved(nuisance.T @ nuisance, nuisance.T @ scores)
    information = np.sum(scores**2, axis=0)
    sums = np.stack([np.bincount(users, weights=column) for column in scores.T], axis=1)
    sums = sums[np.bincount(users) > 0]
    spread = len(sums) / (len(sums) - 1) * np.sum((sums - sums.mean(axis=0)) ** 2, axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        known = np.where(information > MIN_RESIDUAL * total, information, np.nan)
        return 1.0 + sums.sum(axis=0) / known, np.sqrt(spread) / known


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
        self._readings = ReadingCheck(device.mechanism, _pool_weights_of(device.mechanism, assumed), false_alarm_rate)
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
        self._readings.add(first)
        for popularity in self._popularities:
            popularity.add(first)

    def violations(self) -> list[str]:
        """Return the deviations from the scenario, one line each."""
        return [check.line for check in self.checks() if check.status == "fail"]

    def checks(self) -> list[Check]:
        """Return every check in the order of the table; a check that another one makes meaningless is skipped."""
        if not self._rows:
            return []
        users = self._numbered()
        repeats = self._repeats.finding(users)
        readings = {check.check: check for check in self._readings.checks(users)}
        misread = next((check for check in readings.values() if check.status == "fail"), None)
        # the misfit checks assume independent reports; another reading explains what counts would show
        dependent = repeats is not None and not self._memoized
        misfit = None if dependent else self._misfit.finding(counts=misread is None)
        found = [*self._repeat_checks(repeats, users), self._epsilon(dependent, misfit), *readings.values()]
        if misfit is not None and misfit.check == HASH_TABLE:
            found = [check for check in found if check.check != HASH_TABLE] + [Check.failed(misfit)]
        if misread is None:
            return [*found, *(check.check(users) for check in self._popularities)]
        why = f"not tested: the {misread.check} does not fit"
        later = [HASH_TABLE] if misread.check == BIT_ORDER and HASH_TABLE in readings else []
        names = [*later, *([POPULARITY] if self._popularities else [])]
        skipped = [Check(check=name, status="skip", value=why) for name in names]
        return [*(check for check in found if check.check not in later), *skipped]

    def _repeat_checks(self, found: Finding | None, users: Integers) -> list[Check]:
        """Return the checks of duplicate rows and of memoization, which the same finding may fail."""
        duplicates = Check(check=DUPLICATES, status="pass", value="no sign of rows that were delivered twice")
        if not self._repeats.comparable:
            value = "not tested: instantaneous noise hides which responses are equal"
            memoization = Check(check=MEMOIZATION, status="skip", value=value)
        elif self._rows == len(np.unique(users)):
            value = "not tested: no user has two reports"
            memoization = Check(check=MEMOIZATION, status="skip", value=value)
        else:
            memoization = Check(check=MEMOIZATION, status="pass", value=self._repeats.description(users))
        if found is None:
            return [duplicates, memoization]
        if found.check == MEMOIZATION:
            return [duplicates, Check.failed(found)]
        why = "not tested: rows were delivered twice"
        return [Check.failed(found), Check(check=MEMOIZATION, status="skip", value=why)]

    def _epsilon(self, dependent: bool, found: Finding | None) -> Check:
        if dependent:
            value = "not tested: reports of a user are not independent"
            return Check(check=EPSILON, status="skip", value=value)
        if found is not None and found.check == EPSILON:
            return Check.failed(found)
        if self._misfit.reports < MIN_REPORTS or not self._misfit.description():
            value = f"not tested: needs {MIN_REPORTS} reports of a mechanism that counts objects"
            return Check(check=EPSILON, status="skip", value=value)
        return Check(check=EPSILON, status="pass", value=self._misfit.description())

    def _numbered(self) -> Integers:
        """Return (reports,) the user of each report, from 0."""
        numbers: Integers = np.unique(np.concatenate(self._users), return_inverse=True)[1]
        return numbers


def _pool_weights_of(mechanism: Mechanism, assumed: Sequence[AssumedPopularity]) -> PoolWeights:
    """Return the popularity within pools of the first adversary; uniform over all objects where none is assumed."""
    if not assumed:
        return PoolWeights(
            np.zeros((1, mechanism.universe), dtype=np.uint32),
            np.full((1, mechanism.universe), 1.0 / mechanism.universe),
            1,
        )
    universe = assumed[0].universe
    columns = (universe.pool_of + 1).astype(np.uint32)[None]
    return PoolWeights(columns, within_pools(universe, assumed[0].popularity, empty="uniform")[None], universe.k + 1)


def _min_collision_of(assumed: AssumedPopularity) -> float:
    within = within_pools(assumed.universe, assumed.popularity, empty="uniform")
    return min_collision(within, assumed.universe.pool_of + 1)
