r"""Goodness-of-fit checks: could the mechanism have produced these reports?

Reports that are read with the wrong parameters give meaningless results. The users' objects are unknown, so that the
checks use statistics that do not depend on them:

- **set bits**: the mean number per report, compared with simulated reports of the mechanism;
- **hash functions**: all J are equally likely, so that the expected number of pairs of reports with the same function
  is N (N - 1) / 2 J;
- **counts**: the estimated counts of all objects sum to the number of reports, whatever the popularity: the mean number
  of objects that a report supports is :math:`\sum_z q^*(z) + (p^* - q^*)`. With the wrong hash functions or bit order,
  reports support all objects equally, and the sum is about 0;
- **rare objects**: no object has fewer supporting reports than expected from noise alone, N q*;
- **channels**: some popularity must explain the histogram (`ibu.lack_of_fit`). With few reports of a kind, the
  statistic exceeds a chi-square variable by a factor of up to `MIN_RATIO`.

The thresholds are such that all checks together raise a false alarm in at most a share `ERROR` of files. The
contribution of fixed hash functions to a sum is bounded by its worst case, a single object.

The checks assume independent reports. Memoized reports of one user are dependent, as one response is sent repeatedly.
For memoizing devices only the first report of each user is used, which has the distribution of a fresh report.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from poolscope.core.arrays import Floats, Integers, Keys
from poolscope.core.randomness import user_keys
from poolscope.mechanisms.protocols import Mechanism, Reports, is_frequency_oracle, report_count
from poolscope.mechanisms.rappor import Rappor
from poolscope.reports.findings import EPSILON, HASH_TABLE, OTHER_FUNCTIONS, Finding
from poolscope.reports.frequencies import channel_of
from poolscope.reports.ibu import lack_of_fit

#: Probability of a false alarm.
ERROR = 1e-4

#: Minimum number of reports for a variance estimate, maximum number that are checked, and number of simulated reports.
MIN_REPORTS, MAX_REPORTS, SIMULATED_REPORTS = 100, 1 << 17, 1 << 12

#: Maximum number of single scores (reports times objects) in total, and of scores or bits in one chunk.
MAX_SCORES, SCORES_PER_CHUNK = 1 << 22, 1 << 15

#: If counts sum to less than this share of the reports, reports carry no information on the objects.
MIN_SUM = 0.5

#: Tolerance for rounding errors of a mean.
ROUNDING = 1e-9

#: Factor by which the statistic exceeds a chi-square variable where two reports of a kind are expected, at most.
MIN_RATIO = 1.2

#: Maximum size of the matrix of a channel that is fitted.
MAX_FITTED_CELLS = 1 << 18

TESTS = 5


@dataclass(frozen=True)
class Moments:
    """Count, mean and variance of a sample; samples can be merged by addition."""

    count: int = 0
    mean: float = 0.0
    variance: float = 0.0

    @classmethod
    def of(cls, values: Floats) -> Moments:
        return cls(len(values), float(np.mean(values)), float(np.var(values)))

    def __add__(self, other: Moments) -> Moments:
        count = self.count + other.count
        if not count:
            return self
        share = other.count / count
        difference = other.mean - self.mean
        variance = (1 - share) * self.variance + share * other.variance + share * (1 - share) * difference**2
        return Moments(count, self.mean + share * difference, variance)

    @property
    def squared_error(self) -> float:
        """Variance of the mean."""
        return self.variance / max(1, self.count)


class MisfitCheck:
    """Check reports block by block against the mechanism.

    Parameters
    ----------
    false_alarm_rate : probability of a false alarm.
    """

    def __init__(self, mechanism: Mechanism, false_alarm_rate: float = ERROR) -> None:
        self._mechanism, self._countable = mechanism, is_frequency_oracle(mechanism)
        self._tail = false_alarm_rate / TESTS
        self._bits = next((name for name, c in mechanism.report_columns.items() if c.kind == "bits"), None)
        self._ones, self._supported = Moments(), Moments()
        self._sums: Floats | float = 0.0
        # a cohort belongs to a user, so that cohorts of reports are not independent
        hashed = mechanism.shared_column is not None and not isinstance(mechanism, Rappor)
        self._column = mechanism.shared_column if hashed else None
        self._uses = np.zeros(mechanism.report_columns[self._column].size if self._column else 0, dtype=np.int64)
        # chunks are limited by the width of a report, or by the number of its scores
        widths = [column.size for column in mechanism.report_columns.values() if column.kind in ("bits", "reals")]
        self._step = max(1, SCORES_PER_CHUNK // max(mechanism.universe, *widths, 1))
        channel = channel_of(mechanism)
        self._channel = channel if channel is not None and channel.matrix.size <= MAX_FITTED_CELLS else None
        self._seen: Integers | int = 0
        self.reports = 0

    @property
    def enough(self) -> bool:
        """Whether further reports would be ignored."""
        return self.reports >= MAX_REPORTS

    def add(self, reports: Reports) -> None:
        """Add a block, up to `MAX_REPORTS` reports in total."""
        left = MAX_REPORTS - self.reports
        if left <= 0 or not report_count(reports):
            return
        reports = {name: column[:left] for name, column in reports.items()}
        self.reports += report_count(reports)
        if self._bits:
            self._ones += Moments.of(_ones(reports[self._bits]))
        if self._column:
            self._uses += np.bincount(reports[self._column], minlength=len(self._uses))
        if self._channel is not None:
            self._seen = self._seen + self._channel.tally(reports)
        if is_frequency_oracle(self._mechanism):
            self._sums = self._sums + self._mechanism.score_sums(reports).astype(np.float64)
            self._add_support_sizes(reports)

    def _add_support_sizes(self, reports: Reports) -> None:
        """Add the number of supported objects of single reports, for its variance."""
        assert is_frequency_oracle(self._mechanism)
        rows = min(report_count(reports), MAX_SCORES // self._mechanism.universe - self._supported.count)
        for start in range(0, rows, self._step):
            chunk = {name: column[start : min(start + self._step, rows)] for name, column in reports.items()}
            self._supported += Moments.of(self._mechanism.scores(chunk).sum(axis=1, dtype=np.float64))

    def violation(self) -> str | None:
        """Return the first deviation with its likely cause, in one line; None without a deviation."""
        found = self.finding()
        return None if found is None else found.line

    def finding(self, *, counts: bool = True) -> Finding | None:
        """Return the first deviation with its likely cause; None without a deviation.

        Without `counts`, only what does not depend on which objects a report supports is checked.
        """
        checks = [self._channel_found] if counts else []
        if self.reports >= MIN_REPORTS:
            of_counts = [self._sum_found, self._rare_found] if counts else []
            checks = [self._bits_found, self._functions_found, *of_counts, *checks]
        return next((found for check in checks if (found := check())), None)

    def description(self) -> str:
        """Return the statistics that do not depend on the users' objects, in words; empty where there are none."""
        found = []
        if self._bits and self.reports:
            size = self._mechanism.report_columns[self._bits].size
            found.append(f"{100 * self._ones.mean / size:.4g}% of the bits are set")
        if is_frequency_oracle(self._mechanism) and self.reports:
            rates, size = self._mechanism.rates, self._mechanism.universe
            other = np.broadcast_to(rates.q_star, size)
            gap = np.broadcast_to(rates.p_star, size) - other
            share = (float(np.sum(self._sums)) / self.reports - other.sum()) / gap.mean()
            collisions = float(np.sum(np.broadcast_to(rates.collision_variance, size)))
            error = np.sqrt(self._supported.variance / self.reports + collisions) / gap.mean()
            said = f"the counts of all objects sum to {100 * share:.0f}% of the reports"
            found.append(f"{said} (standard error {100 * error:.0f}%)")
        return ", ".join(found)

    @property
    def hashed(self) -> bool:
        """Whether reports name a hash function or a seed."""
        return self._mechanism.shared_column is not None or "seed" in self._mechanism.report_columns

    def _bits_found(self) -> Finding | None:
        if self._bits is None:
            return None
        size = self._mechanism.report_columns[self._bits].size
        made = Moments()
        for reports in self._simulated():
            made += Moments.of(_ones(reports[self._bits]))
        error = self._deviations() * np.sqrt(self._ones.squared_error + made.squared_error)
        if abs(self._ones.mean - made.mean) <= error + _overlap(self._mechanism) + ROUNDING * size:
            return None
        shares = f"{100 * self._ones.mean / size:.4g}% of the bits are set, where the mechanism sets"
        value = f"{shares} {100 * made.mean / size:.4g}%"
        return Finding(EPSILON, value, "likely another epsilon or number of bits")

    def _simulated(self) -> Iterator[Reports]:
        """Yield simulated reports of all objects in turn, in chunks."""
        for start in range(0, SIMULATED_REPORTS, self._step):
            numbers = np.arange(start, min(start + self._step, SIMULATED_REPORTS))
            yield self._mechanism.report(numbers % self._mechanism.universe, user_keys(0, numbers))

    def _simulated_support(self) -> Moments:
        """Return the moments of the number of objects that simulated reports support."""
        assert is_frequency_oracle(self._mechanism)
        made = Moments()
        for reports in self._simulated():
            made += Moments.of(self._mechanism.scores(reports).sum(axis=1, dtype=np.float64))
            if made.count * self._mechanism.universe >= MAX_SCORES:
                break
        return made

    def _functions_found(self) -> Finding | None:
        functions, n = len(self._uses), self.reports
        if functions < 2:
            return None
        pairs = n * (n - 1) / 2 / functions
        alike = float(np.sum(self._uses * (self._uses - 1.0))) / 2
        # Poisson with many functions, chi-square with many reports: the larger of the two tail probabilities
        degrees = functions - 1
        squared = degrees + 2 * (alike - pairs) * functions / n
        if max(stats.poisson.sf(alike - 1, pairs), stats.chi2.sf(squared, degrees)) >= self._tail:
            return None
        used = int(np.count_nonzero(self._uses))
        value = f"hash functions are not equally frequent ({used:,} of {functions:,} in {n:,} reports)"
        return Finding(HASH_TABLE, value, "likely another number of functions, or the wrong column")

    def _sum_found(self) -> Finding | None:
        if not is_frequency_oracle(self._mechanism):
            return None
        rates, size = self._mechanism.rates, self._mechanism.universe
        other = np.broadcast_to(rates.q_star, size)
        gap = np.broadcast_to(rates.p_star, size) - other
        mean = float(np.sum(self._sums)) / self.reports
        collisions = float(np.sum(np.broadcast_to(rates.collision_variance, size)))

        def bounds(spread: float) -> tuple[float, float]:
            error = self._deviations() * np.sqrt(spread / self.reports + collisions) + ROUNDING * size
            return (mean - other.sum() - error) / gap.mean(), (mean - other.sum() + error) / gap.mean()

        def fits(low: float, high: float) -> bool:
            return bool(high >= gap.min() / gap.mean() and low <= gap.max() / gap.mean())

        # a small sample may lack rare reports that support all objects, so that its variance is too small
        low, high = bounds(self._supported.variance)
        if not fits(low, high):
            low, high = bounds(max(self._supported.variance, self._simulated_support().variance))
        if fits(low, high):
            return None
        found = f"the counts of all objects sum to {100 * max(0.0, (low + high) / 2):.0f}% of the reports"
        if high < MIN_SUM:
            return Finding(HASH_TABLE if self.hashed else EPSILON, found, OTHER_FUNCTIONS)
        return Finding(EPSILON, found, "likely another epsilon, or objects outside the universe")

    def _rare_found(self) -> Finding | None:
        if not is_frequency_oracle(self._mechanism):
            return None
        rates, size, n = self._mechanism.rates, self._mechanism.universe, self.reports
        spread = (
            self._mechanism.score_sum_variance(np.zeros(size), n)
            + np.broadcast_to(rates.collision_variance, size) * float(n) ** 2
        )
        below = (n * np.broadcast_to(rates.q_star, size) - self._sums) / np.sqrt(np.maximum(spread, ROUNDING))
        if below.max() <= stats.norm.isf(self._tail / size):
            return None
        some = int(np.sum(below > self._deviations()))
        value = f"{some:,} objects have fewer supporting reports than noise alone gives"
        return Finding(EPSILON, value, "likely a larger epsilon")

    def _channel_found(self) -> Finding | None:
        if self._channel is None:
            return None
        degrees = int(np.count_nonzero(self._channel.matrix.max(axis=0) > 0)) - 1
        squared = lack_of_fit(self._channel.matrix, np.asarray(self._seen))
        if squared <= MIN_RATIO * stats.chi2.isf(self._tail, max(1, degrees)):
            return None
        value = "no popularity explains the frequencies of the reports"
        return Finding(EPSILON, value, "likely another channel, or another numbering of the reports")

    def _deviations(self) -> float:
        return float(stats.norm.isf(self._tail / 2))


class FirstReports:
    """Select the first report of each user, batch by batch, up to `MAX_REPORTS`."""

    def __init__(self) -> None:
        self._known = np.empty(0, dtype=np.uint64)

    def of(self, users: Keys, reports: Reports) -> Reports:
        """Return the first reports of new users; empty once there are `MAX_REPORTS`."""
        rows = np.sort(np.unique(users, return_index=True)[1])
        rows = rows[~np.isin(users[rows], self._known)][: MAX_REPORTS - len(self._known)]
        self._known = np.append(self._known, users[rows])
        return {name: column[rows] for name, column in reports.items()}


def _ones(bits: NDArray[np.uint8]) -> Floats:
    """Return the number of set bits of each report."""
    ones: Floats = np.bitwise_count(bits).sum(axis=1, dtype=np.float64)
    return ones


def _overlap(mechanism: Mechanism) -> float:
    """Return the largest difference of two objects in the mean number of set bits, as hashes may coincide in a bit."""
    if not isinstance(mechanism, Rappor):
        return 0.0
    return (mechanism.hashes - 1) * (1.0 - mechanism.prob_1_to_0 - mechanism.prob_0_to_1)
