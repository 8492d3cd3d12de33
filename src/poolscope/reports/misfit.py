r"""Do reports look as if the mechanism had made them? Whoever reads them with another's parameters learns nonsense.

Nobody knows what the users picked, so only what does not hang on it is looked at:

- **set bits**: how many a report has, beside reports of the mechanism's own;
- **hash functions**: each of the J should be as likely, so that N (N - 1) / 2 J pairs of reports share one;
- **counts**: those of all objects sum up to the number of reports, whatever is popular: the mean number X of objects
  that a report supports is :math:`\sum_z q^*(z) + (p^* - q^*)`. Read with another hash function or bit order, reports
  support no object more than another, and the sum is about 0;
- **rare objects**: no object is supported less often than by noise alone, N q*;
- **a channel's reports**: some popularity must explain how often each was sent (`ibu.lack_of_fit`). Of few reports
  of a kind the chi-square number is larger by up to `MIN_RATIO`.

A bound is as many standard errors away that all of them together raise a false alarm in one of `1 / ERROR` files at
most. What hash functions that were drawn once for all add to a sum is bounded by its worst case, a single object.

All of this is about reports that are independent. Where devices keep their answers, the reports of a user are not: one
answer comes again and again. The first report of each user is as if drawn anew, and only these are looked at.
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
from poolscope.reports.frequencies import channel_of
from poolscope.reports.ibu import lack_of_fit

#: How often reports that are as they should be may be called otherwise.
ERROR = 1e-4

#: Reports that are looked at, as many at least as tell their own spread, and those that are made for comparison.
MIN_REPORTS, MAX_REPORTS, MADE = 100, 1 << 17, 1 << 12

#: Scores (of an object by a report) that are looked at one by one, in all; these or bits at once.
CELLS, AT_ONCE = 1 << 22, 1 << 15

#: Counts that sum up to less than this part of the reports tell of no object at all.
NOTHING = 0.5

#: Rounding of a mean.
ROUNDING = 1e-9

#: By how much a chi-square number exceeds its degrees, as a part, where two reports of a kind are expected, at most.
MIN_RATIO = 1.2

#: Cells of a channel that are fitted.
FITTED = 1 << 18

TESTS = 5

OTHER_FUNCTIONS = "likely another hash table, seed, order of bits or order of objects"


@dataclass(frozen=True)
class Moments:
    """Number, mean and variance of some numbers."""

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
        part = other.count / count
        apart = other.mean - self.mean
        variance = (1 - part) * self.variance + part * other.variance + part * (1 - part) * apart**2
        return Moments(count, self.mean + part * apart, variance)

    @property
    def squared_error(self) -> float:
        """Variance of the mean."""
        return self.variance / max(1, self.count)


class MisfitCheck:
    """Looks at reports block after block, and says what is odd about them.

    Parameters
    ----------
    error : how often it may be wrong about reports that are as they should be.
    """

    def __init__(self, mechanism: Mechanism, error: float = ERROR) -> None:
        self._mechanism, self._countable = mechanism, is_frequency_oracle(mechanism)
        self._tail = error / TESTS
        self._bits = next((name for name, c in mechanism.report_columns.items() if c.kind == "bits"), None)
        self._ones, self._supported = Moments(), Moments()
        self._sums: Floats | float = 0.0
        # cohorts are a user's, not a report's
        hashed = mechanism.shared_column is not None and not isinstance(mechanism, Rappor)
        self._column = mechanism.shared_column if hashed else None
        self._uses = np.zeros(mechanism.report_columns[self._column].size if self._column else 0, dtype=np.int64)
        # a report is as wide as its columns, or as what it says of all objects
        widths = [column.size for column in mechanism.report_columns.values() if column.kind in ("bits", "reals")]
        self._step = max(1, AT_ONCE // max(mechanism.universe, *widths, 1))
        channel = channel_of(mechanism)
        self._channel = channel if channel is not None and channel.matrix.size <= FITTED else None
        self._seen: Integers | int = 0
        self.reports = 0

    @property
    def enough(self) -> bool:
        """Whether more reports would be left out."""
        return self.reports >= MAX_REPORTS

    def add(self, reports: Reports) -> None:
        """Look at a block, up to as many reports in all as are enough."""
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
            self._look(reports)

    def _look(self, reports: Reports) -> None:
        """How many objects single reports support, for its spread: of the first ones, few at a time."""
        assert is_frequency_oracle(self._mechanism)
        rows = min(report_count(reports), CELLS // self._mechanism.universe - self._supported.count)
        for start in range(0, rows, self._step):
            few = {name: column[start : min(start + self._step, rows)] for name, column in reports.items()}
            self._supported += Moments.of(self._mechanism.scores(few).sum(axis=1, dtype=np.float64))

    def found(self) -> str | None:
        """What is odd, with the likeliest cause, in one line; None where nothing is."""
        looks = [self._channel_found]
        if self.reports >= MIN_REPORTS:
            looks = [self._bits_found, self._functions_found, self._sum_found, self._rare_found, *looks]
        return next((said for look in looks if (said := look())), None)

    def _bits_found(self) -> str | None:
        if self._bits is None:
            return None
        size = self._mechanism.report_columns[self._bits].size
        made = Moments()
        for reports in self._made():
            made += Moments.of(_ones(reports[self._bits]))
        error = self._deviations() * np.sqrt(self._ones.squared_error + made.squared_error)
        if abs(self._ones.mean - made.mean) <= error + _overlap(self._mechanism) + ROUNDING * size:
            return None
        shares = f"{100 * self._ones.mean / size:.4g} % of the bits are set, where the mechanism sets"
        return f"{shares} {100 * made.mean / size:.4g} %: likely another epsilon or number of bits"

    def _made(self) -> Iterator[Reports]:
        """Reports of the mechanism's own, some at a time, of all objects alike."""
        for start in range(0, MADE, self._step):
            some = np.arange(start, min(start + self._step, MADE))
            yield self._mechanism.report(some % self._mechanism.universe, user_keys(0, some))

    def _made_supported(self) -> Moments:
        """How many objects such reports support."""
        assert is_frequency_oracle(self._mechanism)
        made = Moments()
        for reports in self._made():
            made += Moments.of(self._mechanism.scores(reports).sum(axis=1, dtype=np.float64))
            if made.count * self._mechanism.universe >= CELLS:
                break
        return made

    def _functions_found(self) -> str | None:
        functions, n = len(self._uses), self.reports
        if functions < 2:
            return None
        pairs = n * (n - 1) / 2 / functions
        alike = float(np.sum(self._uses * (self._uses - 1.0))) / 2
        # Poisson where functions are many, chi-squared where reports are: the heavier tail of the two
        degrees = functions - 1
        squared = degrees + 2 * (alike - pairs) * functions / n
        if max(stats.poisson.sf(alike - 1, pairs), stats.chi2.sf(squared, degrees)) >= self._tail:
            return None
        used = int(np.count_nonzero(self._uses))
        return (
            f"hash functions are not used alike ({used:,} of {functions:,} in {n:,} reports): likely another number of "
            "functions, or a column that is not theirs"
        )

    def _sum_found(self) -> str | None:
        if not is_frequency_oracle(self._mechanism):
            return None
        rates, size = self._mechanism.rates, self._mechanism.universe
        other = np.broadcast_to(rates.other, size)
        gap = np.broadcast_to(rates.own, size) - other
        mean = float(np.sum(self._sums)) / self.reports
        collisions = float(np.sum(np.broadcast_to(rates.variance, size)))

        def bounds(spread: float) -> tuple[float, float]:
            error = self._deviations() * np.sqrt(spread / self.reports + collisions) + ROUNDING * size
            return (mean - other.sum() - error) / gap.mean(), (mean - other.sum() + error) / gap.mean()

        def fits(low: float, high: float) -> bool:
            return bool(high >= gap.min() / gap.mean() and low <= gap.max() / gap.mean())

        # few reports may lack the rare ones that support all objects, and then spread too little
        low, high = bounds(self._supported.variance)
        if not fits(low, high):
            low, high = bounds(max(self._supported.variance, self._made_supported().variance))
        if fits(low, high):
            return None
        found = f"the counts of all objects sum up to {100 * max(0.0, (low + high) / 2):.0f} % of the reports"
        if high < NOTHING:
            return f"{found}: {OTHER_FUNCTIONS}"
        return f"{found}: likely another epsilon, or objects that the universe lacks"

    def _rare_found(self) -> str | None:
        if not is_frequency_oracle(self._mechanism):
            return None
        rates, size, n = self._mechanism.rates, self._mechanism.universe, self.reports
        spread = self._mechanism.noise(np.zeros(size), n) + np.broadcast_to(rates.variance, size) * float(n) ** 2
        below = (n * np.broadcast_to(rates.other, size) - self._sums) / np.sqrt(np.maximum(spread, ROUNDING))
        if below.max() <= stats.norm.isf(self._tail / size):
            return None
        some = int(np.sum(below > self._deviations()))
        return f"{some:,} objects are found less often than noise alone makes: likely a larger epsilon"

    def _channel_found(self) -> str | None:
        if self._channel is None:
            return None
        degrees = int(np.count_nonzero(self._channel.matrix.max(axis=0) > 0)) - 1
        squared = lack_of_fit(self._channel.matrix, np.asarray(self._seen))
        if squared <= MIN_RATIO * stats.chi2.isf(self._tail, max(1, degrees)):
            return None
        odd = "no popularity explains how often each report was sent"
        return f"{odd}: likely another channel, or reports numbered otherwise"

    def _deviations(self) -> float:
        return float(stats.norm.isf(self._tail / 2))


class FirstReports:
    """Of users' reports the first of each, batch after batch, as many as are looked at."""

    def __init__(self) -> None:
        self._met = np.empty(0, dtype=np.uint64)

    def of(self, users: Keys, reports: Reports) -> Reports:
        """The reports of users who were not met before; none where enough were."""
        rows = np.sort(np.unique(users, return_index=True)[1])
        rows = rows[~np.isin(users[rows], self._met)][: MAX_REPORTS - len(self._met)]
        self._met = np.append(self._met, users[rows])
        return {name: column[rows] for name, column in reports.items()}


def _ones(bits: NDArray[np.uint8]) -> Floats:
    """How many bits of each report are set."""
    ones: Floats = np.bitwise_count(bits).sum(axis=1, dtype=np.float64)
    return ones


def _overlap(mechanism: Mechanism) -> float:
    """By how many set bits the reports of two objects may differ in the mean: hashes of one may meet in a bit."""
    if not isinstance(mechanism, Rappor):
        return 0.0
    return (mechanism.hashes - 1) * (1.0 - mechanism.dropped - mechanism.raised)
