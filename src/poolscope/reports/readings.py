r"""Other readings of the same reports: would they fit better with another bit order, or another hash table?

Two readings of a report are compared by their likelihoods under the assumed popularity within pools, each with the
maximum-likelihood weights of the pools. With :math:`d_t` the difference in log-likelihood of report t, the declared
reading has a positive mean if it is the correct one (its Kullback-Leibler divergence from the other reading). The sum
over users is compared with its standard error between users (Vuong's test), as the reports of a user may be dependent.

- **bit order**: the bits within each byte are reversed;
- **hash table**: the hash functions (or seeds) are permuted among the reports, as with the table of another deployment.
  The table does not fit where it gains less than half of what simulated reports gain.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from poolscope.core.arrays import Floats, Integers
from poolscope.core.randomness import user_keys
from poolscope.mechanisms.protocols import Mechanism, PoolWeights, Reports, report_count
from poolscope.reports.findings import BIT_ORDER, HASH_TABLE, OTHER_FUNCTIONS, Check
from poolscope.reports.mixture import pool_weights

#: Reports that are read twice at most, and the minimum number of users for a variance between users.
MAX_ROWS, MIN_USERS = 1 << 15, 20

#: Likelihoods held in memory, and hash values computed for one reading.
MAX_CELLS, MAX_HASHES = 1 << 22, 1 << 26

#: Share of the expected gain over permuted functions below which the hash table does not fit.
MIN_SHARE = 0.5

#: The byte with the bits of each byte in reverse.
REVERSED: NDArray[np.uint8] = np.packbits(np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)[:, ::-1])


class Gain(NamedTuple):
    """The mean gain in log-likelihood of a report by the declared reading over another one, and its standard error."""

    mean: float
    error: float
    users: int

    def limit(self, false_alarm_rate: float) -> float:
        """Return the half-width of the interval that misses the mean on one side with this probability."""
        return float(stats.t.isf(false_alarm_rate, self.users - 1)) * self.error


class ReadingCheck:
    """Collect reports block by block, and compare the declared reading with others.

    Parameters
    ----------
    weights : the assumed popularity within pools, as one view; false_alarm_rate : probability of a false alarm.
    """

    def __init__(self, mechanism: Mechanism, weights: PoolWeights, false_alarm_rate: float) -> None:
        self._mechanism, self._weights, self._false_alarm_rate = mechanism, weights, false_alarm_rate
        # a pool without objects, such as the neutral one, sends no reports
        totals = np.bincount(weights.columns.ravel(), weights.weights.ravel(), minlength=weights.width)
        self._pools = np.flatnonzero(totals)
        self._max_rows = min(MAX_ROWS, MAX_CELLS // weights.width, max(1 << 10, MAX_HASHES // mechanism.universe))
        self._blocks: list[Reports] = []
        self._rows = 0
        columns = mechanism.report_columns
        self._bits = [name for name, column in columns.items() if column.kind == "bits"]
        self._function = mechanism.shared_column or ("seed" if "seed" in columns else None)

    def add(self, reports: Reports) -> None:
        """Add a block, up to `MAX_ROWS` reports in total."""
        first = {name: column[: self._max_rows - self._rows].copy() for name, column in reports.items()}
        if (self._bits or self._function) and report_count(first):
            self._blocks.append(first)
            self._rows += report_count(first)

    def checks(self, users: Integers) -> list[Check]:
        """Return the check of each other reading; `users` (reports,) numbers the user of each report from 0."""
        if not self._rows:
            return []
        reports = {name: np.concatenate([block[name] for block in self._blocks]) for name in self._blocks[0]}
        users, declared = users[: self._rows], self._log_likelihoods(reports)
        found = list[Check]()
        if self._bits:
            found.append(self._bit_order(reports, declared, users))
        if self._function:
            found.append(self._hash_table(reports, declared, users))
        return found

    def _bit_order(self, reports: Reports, declared: Floats, users: Integers) -> Check:
        if any(self._mechanism.report_columns[name].size % 8 for name in self._bits):
            value = "the number of bits is not a multiple of 8: another order sets bits that are refused"
            return Check(check=BIT_ORDER, status="pass", value=value)
        other = dict(reports) | {name: REVERSED[reports[name]] for name in self._bits}
        gain = _gain(declared, self._log_likelihoods(other), users)
        remedy = "reverse the bits of each byte: bit 0 is the least significant"
        return self._compared(BIT_ORDER, gain, "reversed bits within bytes", remedy)

    def _hash_table(self, reports: Reports, declared: Floats, users: Integers) -> Check:
        assert self._function is not None
        column = reports[self._function]
        # the same order in every run: a check has no seed
        permuted = column[np.random.default_rng(len(column)).permutation(len(column))]
        gain = _gain(declared, self._log_likelihoods(dict(reports) | {self._function: permuted}), users)
        remedy = "use the table and seed of the deployment"
        found = self._compared(HASH_TABLE, gain, "permuted hash functions", remedy)
        if gain is None or found.status != "skip":
            return found
        expected = self._expected_gain(reports, users)
        limit = gain.limit(self._false_alarm_rate)
        if gain.mean + limit >= MIN_SHARE * (expected.mean - expected.limit(self._false_alarm_rate)):
            return found
        value = f"no better than permuted hash functions ({gain.mean:+.3g} a report, expected {expected.mean:+.3g})"
        return Check(check=HASH_TABLE, status="fail", value=value, remedy=f"{OTHER_FUNCTIONS}; {remedy}")

    def _expected_gain(self, reports: Reports, users: Integers) -> Gain:
        """Return the gain over permuted functions of simulated reports, with the weights of the pools of these."""
        assert self._function is not None
        weights = np.zeros(self._weights.width)
        weights[self._pools] = np.maximum(self._fitted_weights(reports), 0.0)
        share = weights[self._weights.columns[0]] * self._weights.weights[0]
        rng = np.random.default_rng(len(users))
        objects = rng.choice(len(share), size=len(users), p=share / share.sum())
        made = dict(self._mechanism.report(objects, user_keys(0, np.arange(len(users)))))
        other = made | {self._function: made[self._function][rng.permutation(len(users))]}
        found = _gain(self._log_likelihoods(made), self._log_likelihoods(other), users)
        assert found is not None
        return found

    def _compared(self, check: str, gain: Gain | None, other: str, remedy: str) -> Check:
        if gain is None:
            value = f"not tested: needs reports of {MIN_USERS} users"
            return Check(check=check, status="skip", value=value)
        found = f"the declared reading gains {gain.mean:+.3g} in log-likelihood a report over {other}"
        limit = gain.limit(self._false_alarm_rate)
        if gain.mean + limit < 0:
            value = f"{other} fit better: {-gain.mean:+.3g} in log-likelihood a report"
            return Check(check=check, status="fail", value=value, remedy=remedy)
        if gain.mean - limit > 0:
            return Check(check=check, status="pass", value=found)
        return Check(check=check, status="skip", value=f"not tested: these reports cannot tell it from {other}")

    def _likelihoods(self, reports: Reports) -> Floats:
        """Return (reports, pools) likelihoods, up to a constant that all readings of a report share."""
        mechanism = self._mechanism
        likelihood = mechanism.likelihood_offset + mechanism.likelihood_scale * mechanism.mass(reports, self._weights)
        return likelihood[:, self._pools]

    def _fitted_weights(self, reports: Reports) -> Floats:
        """Return (pools,) the maximum-likelihood weights of the pools; uniform where all are negative."""
        likelihood = self._likelihoods(reports)
        scale = likelihood.max(axis=1, keepdims=True)
        fitted = pool_weights((likelihood / scale)[scale[:, 0] > 0])[0]
        return fitted if fitted.max() > 0 else np.ones(len(fitted))

    def _log_likelihoods(self, reports: Reports) -> Floats:
        """Return (reports,) log-likelihoods with fitted weights of the pools."""
        likelihood = self._likelihoods(reports)
        scale = likelihood.max(axis=1, keepdims=True)
        possible = scale[:, 0] > 0
        out: Floats = np.full(len(likelihood), -np.inf)
        if possible.any():
            scaled = likelihood[possible] / scale[possible]
            out[possible] = np.log(scaled @ pool_weights(scaled)[0]) + np.log(scale[possible, 0])
        return out


def _gain(declared: Floats, alternative: Floats, users: Integers) -> Gain | None:
    """Return the gain by the declared reading; None with too few users."""
    possible = np.isfinite(declared) & np.isfinite(alternative)
    difference = np.where(possible, declared - np.where(possible, alternative, 0.0), 0.0)
    sums = np.bincount(users, weights=difference)[np.bincount(users) > 0]
    if len(sums) < MIN_USERS:
        return None
    error = np.sqrt(len(sums) / (len(sums) - 1) * np.sum((sums - sums.mean()) ** 2)) / len(difference)
    return Gain(float(difference.mean()), float(error), len(sums))
