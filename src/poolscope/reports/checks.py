r"""Checks of whether reports are what a scenario says, fed with the first rows of a file.

Whether reports follow the popularity that an adversary assumes within its pools.

An adversary assumes the popularity within each pool, and nothing of how popular the pools are. So the reports are a
mixture of what the pools send, with unknown weights :math:`\pi`, and popularities :math:`\varphi_i^\beta` (scaled to
one) with exponent :math:`\beta = 1`. An exponent below 1 is a flatter popularity, 0 a uniform one, and a negative one
has the order reversed. Objects in another order, fake values and a smaller epsilon all look flatter, and a client
that is truthful too often looks steeper.

The test is a score test of :math:`\beta = 1`, for all pools together and for each of them. With
:math:`L_i(t)` the likelihood of report t from pool i and :math:`\dot L_i` its derivative by the exponent, which weighs
objects by :math:`\varphi_i(z) (\log \varphi_i(z) - \sum_w \varphi_i(w) \log \varphi_i(w))`, the score of a report is

.. math:: h(t) = \frac{\sum_i \pi_i \dot L_i(t)}{\sum_i \pi_i L_i(t)}
          \quad \text{less its projection on} \quad \frac{L_i(t) - L_0(t)}{\sum_j \pi_j L_j(t)}

at the most likely :math:`\pi`. Its mean is zero for reports of every pool, so that users may prefer whatever pool they
like. The variance is that of the sums of users: memoized responses, and tastes of users' own, make reports of a user
depend on each other. One Newton step estimates the exponent.

All checks of whether reports are what a scenario says they are, fed block by block with the first rows of a file.
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
from poolscope.reports.repeats import RepeatCheck, min_same

#: How far the exponent may be from 1 before it matters: a given popularity is never exactly that of the users.
MARGIN = 0.02

#: Users below which the variance between users is not known.
MIN_USERS = 20

#: Masses that are held.
MAX_CELLS = 1 << 22

#: Newton steps, the gain of log-likelihood below which they end, and halvings of a step.
MAX_STEPS, MIN_GAIN, HALVINGS = 50, 1e-4, 30

#: Below this share of its variance a score is rounding, or the pools explain it.
EXPLAINED = 1e-9

#: Below this exponent the objects are rather in another order than less contrasted.
ANOTHER_ORDER = 0.3


@dataclass(frozen=True, kw_only=True, eq=False)
class AssumedPopularity:
    """What an adversary assumes: its name, and the popularity of the objects within the pools of a universe."""

    adversary: str
    universe: Universe
    popularity: Floats

    def equals(self, other: AssumedPopularity) -> bool:
        """Whether both assume the same, whatever their names."""
        same = np.array_equal(self.universe.pool_of, other.universe.pool_of)
        return same and np.array_equal(self.popularity, other.popularity)


class PopularityCheck:
    """Collects reports block by block, and compares their popularity with the stated one.

    Parameters
    ----------
    error : probability of a false alarm.
    """

    def __init__(self, mechanism: Mechanism, stated: AssumedPopularity, error: float, max_rows: int) -> None:
        self._mechanism, self._stated, self._error = mechanism, stated, error
        sizes = np.bincount(stated.universe.pool_of + 1, minlength=stated.universe.k + 1)
        # the neutral pool may be empty
        self._pools = np.flatnonzero(sizes)
        self._views, self._step = _tilted(stated)
        self._tests = 1 + int(np.count_nonzero(self._step))
        self._max_rows = min(max_rows, MAX_CELLS // self._views.width)
        self._masses: list[Floats] = []
        self._rows = 0

    def add(self, reports: Reports) -> None:
        """Add a block, up to as many reports as are looked at; nothing where the stated popularity is uniform."""
        some = {name: column[: self._max_rows - self._rows] for name, column in reports.items()}
        if self._tests > 1 and report_count(some):
            self._masses.append(self._mechanism.mass(some, self._views))
            self._rows += report_count(some)

    def found(self, users: Integers) -> str | None:
        """What deviates, in one line; `users` (reports,) numbers the user of each report from 0."""
        if not self._rows:
            return None
        mass = np.concatenate(self._masses)
        likelihood_offset, likelihood_scale = self._mechanism.likelihood_offset, self._mechanism.likelihood_scale
        likelihood = likelihood_offset + likelihood_scale * mass[:, 0::2][:, self._pools]
        # the pools without a step have no alternative
        steps = np.where(self._step > 0, self._step, np.inf)
        tilt = (likelihood_scale * (mass[:, 1::2] - mass[:, 0::2]) / steps)[:, self._pools]
        possible = likelihood.max(axis=1) > 0
        likelihood, tilt, users = likelihood[possible], tilt[possible], users[: self._rows][possible]
        count = len(np.unique(users))
        if count < MIN_USERS:
            return None
        # a likelihood is known up to a factor of the report
        scale = likelihood.max(axis=1, keepdims=True)
        exponent, error = exponents(likelihood / scale, tilt / scale, users)
        deviations = stats.t.isf(self._error / 2 / self._tests, count - 1)
        with np.errstate(invalid="ignore"):
            far = np.abs(exponent - 1.0) > MARGIN + deviations * error
        if not far.any():
            return None
        names = np.array(["neutral", *self._stated.universe.pool_names])[self._pools]
        # the first is that of all pools together
        most = int(np.nanargmax(np.where(far, np.abs(exponent - 1.0) / error, np.nan)))
        return self._message(float(exponent[most]), [str(name) for name in names[far[1:]]])

    def _message(self, exponent: float, pools: Sequence[str]) -> str:
        where = f"pool{'s' * (len(pools) != 1)} {', '.join(pools)}" if pools else "pools"
        found = (
            f"within {where} the reports do not follow the popularity of adversary {self._stated.adversary} "
            f"(they fit its power {exponent:.2g})"
        )
        if exponent > 1:
            return f"{found}: likely a larger epsilon, a client that is truthful too often, or a steeper popularity"
        if exponent < ANOTHER_ORDER:
            return f"{found}: likely another order of objects, hash table columns or popularities, or numbers from 1"
        return f"{found}: likely a smaller epsilon, fake values among the reports, or a flatter popularity"


def exponents(likelihood: Floats, tilt: Floats, users: Integers) -> tuple[Floats, Floats]:
    """The exponent of the popularity and its standard error, of all pools together and of each: (pools + 1,) each.

    Parameters
    ----------
    likelihood, tilt : (reports, pools), the second the derivative of the first by the pool's exponent.
    users : (reports,) the user of each, from 0; reports of one may depend on each other.
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
        known = np.where(information > EXPLAINED * total, information, np.nan)
        return 1.0 + sums.sum(axis=0) / known, np.sqrt(spread) / known


def pool_weights(likelihood: Floats) -> tuple[Floats, Floats]:
    """The weights of the pools (pools,), summing to one, under which reports are most likely, and what is orthogonal.

    Weights may be negative as long as every report has a positive probability: the maximum then is where the gradient
    is zero. Also (reports, pools - 1): the derivatives of the log-likelihoods by the weights.
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


def _tilted(stated: AssumedPopularity) -> tuple[PoolWeights, Floats]:
    """Views of each pool's popularity and of one a step of the exponent on; (pools + 1,) the steps, 0 where uniform.

    The step is as long as the popularity stays positive: some mechanisms know no negative masses.
    """
    universe, section = stated.universe, stated.universe.pool_of + 1
    share = within_pools(universe, stated.popularity, empty="uniform")
    logs = np.log(share, out=np.zeros_like(share), where=share > 0)
    tilt = logs - np.bincount(section, weights=share * logs)[section]
    tilt[share <= 0] = 0.0
    lowest = np.zeros(universe.k + 1)
    np.minimum.at(lowest, section, tilt)
    # rounding is no contrast
    step = np.divide(-1.0, lowest, out=np.zeros_like(lowest), where=lowest < -1e-9)
    columns = np.stack([2 * section, 2 * section + 1]).astype(np.uint32)
    weights = np.stack([share, share * np.maximum(1.0 + step[section] * tilt, 0.0)])
    return PoolWeights(columns, weights, 2 * (universe.k + 1)), step


def _solved(matrix: Floats, right: Floats) -> Floats:
    """The shortest solution: pools that reports do not tell apart leave it open."""
    return np.asarray(np.linalg.lstsq(matrix, right, rcond=1e-10)[0], dtype=np.float64)


class ReportChecks:
    """Looks at the first reports of a file, and lists what contradicts the scenario.

    Parameters
    ----------
    device : what is assumed to have sent the reports.
    stated : the popularities that adversaries assume.
    error : probability of a false alarm of each of the checks.
    """

    def __init__(self, device: Device, stated: Sequence[AssumedPopularity] = (), error: float = ERROR) -> None:
        self._memoized = device.memoizes
        self._misfit, self._firsts = MisfitCheck(device.mechanism, error), FirstReports()
        least = max((_least(each) for each in stated), default=0.0)
        self._repeats = RepeatCheck(device, least, error)
        self._popularities = [PopularityCheck(device.mechanism, each, error, MAX_REPORTS) for each in stated]
        self._users: list[Keys] = []
        self._rows = 0

    @property
    def enough(self) -> bool:
        """Whether more reports would be left out."""
        return self._misfit.enough and self._rows >= MAX_REPORTS

    def add(self, users: pl.Series, reports: Reports) -> None:
        """Look at a block: who sent each report, and the reports."""
        # the reports of a user who memoizes depend on each other, the first ones of users do not
        marks = users.hash().to_numpy()  # names may be long
        self._misfit.add(self._firsts.of(marks, reports) if self._memoized else reports)
        some = {name: column[: MAX_REPORTS - self._rows] for name, column in reports.items()}
        if not report_count(some):
            return
        self._users.append(marks[: report_count(some)])
        self._rows += report_count(some)
        self._repeats.add(some)
        for popularity in self._popularities:
            popularity.add(some)

    def found(self) -> list[str]:
        """What contradicts the scenario, each in one line; nothing where all is as it says."""
        if not self._rows:
            return []
        users = self._numbered()
        repeats = self._repeats.found(users)
        # the misfit of fresh reports is that of independent ones
        misfit = None if repeats and not self._memoized else self._misfit.found()
        found = [repeats, misfit, *(check.found(users) for check in self._popularities)]
        return [line for line in found if line]

    def _numbered(self) -> Integers:
        """(reports,) the user of each, from 0."""
        numbers: Integers = np.unique(np.concatenate(self._users), return_inverse=True)[1]
        return numbers


def _least(stated: AssumedPopularity) -> float:
    within = within_pools(stated.universe, stated.popularity, empty="uniform")
    return min_same(within, stated.universe.pool_of + 1)
