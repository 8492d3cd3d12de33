r"""The iterative Bayesian update (IBU): the maximum-likelihood estimate of the popularity.

Reports are a mixture of the reports of all objects. Let l(t, z) be the likelihood of report
t from object z, up to a factor of t. Then

.. math:: \ell(f) = \sum_t \log \sum_z f(z) \, l(t, z), \qquad
          f'(z) = f(z) \, g(z), \quad g(z) = \frac1N \sum_t \frac{l(t, z)}{\sum_w f(w) \, l(t, w)}

f' is the mean over reports of the posterior of the object with f as prior. This is the EM algorithm, which never
decreases the likelihood. It starts at the uniform popularity. Two updates give a direction, and an extrapolated step is
taken where it does not decrease the likelihood (SQUAREM).

**Stopping rule.** The log-likelihood is concave, and N g its gradient, hence for every popularity

.. math:: \ell(f^*) - \ell(f) \le N (\max_z g(z) - 1)

The updates stop when this gap is below `GAP`, or after `MAX_UPDATES`. A deviation of one standard error in one object
costs 1/2.

Equal reports are weighted, not repeated. One likelihood is stored for each distinct report and object.

The standard errors ignore the bounds f >= 0: with the information matrix A at the counts c, the covariance is A^-1 -
diag(c), as in a regression; infinite where objects are indistinguishable.

References
----------
R. Agrawal, C. C. Aggarwal. On the design and quantification of privacy preserving data mining algorithms. PODS 2001.
R. Varadhan, C. Roland. Simple and globally convergent methods for accelerating the convergence of any EM algorithm.
Scandinavian Journal of Statistics 35, 2008.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from poolscope.core.arrays import Floats, Integers, Map
from poolscope.core.errors import InputError
from poolscope.mechanisms.channel import Channel
from poolscope.mechanisms.protocols import Mechanism, Reports, distinct, report_count, require_likelihood
from poolscope.mechanisms.pure import simulate_reports, tabulate_over_reports
from poolscope.reports.estimators import IBU, Frequencies, check_reports, inverted

#: Distance to the maximum of the log-likelihood at which updates stop, and the maximum number of updates.
GAP, MAX_UPDATES = 0.5, 2000

#: Maximum number of stored likelihoods: half a GiB.
MAX_CELLS = 1 << 26


class Repeated(NamedTuple):
    """Distinct reports, and the multiplicity of each."""

    reports: Reports
    times: Integers

    @classmethod
    def of(cls, reports: Reports, times: Integers) -> Repeated:
        """Merge equal reports and sum their multiplicities."""
        first, which = distinct(reports)
        summed = np.bincount(which, weights=times, minlength=len(first)).astype(np.int64)
        return cls({name: column[first] for name, column in reports.items()}, summed)


@dataclass(frozen=True, eq=False)
class IBUEstimator:
    """The IBU estimator, for any mechanism with likelihoods."""

    mechanism: Mechanism

    def count(self, reports: Reports) -> Repeated:
        return self._checked(Repeated.of(reports, np.ones(report_count(reports), dtype=np.int64)))

    def join(self, counted: Iterable[Repeated]) -> Repeated:
        parts = list(counted)
        reports = {name: np.concatenate([part.reports[name] for part in parts]) for name in parts[0].reports}
        return self._checked(Repeated.of(reports, np.concatenate([part.times for part in parts])))

    def simulate(self, popularity: Floats, count: int, key: np.uint64, threads: Map = map) -> Repeated:
        """Draw the histogram of a channel, or simulate single reports."""
        if isinstance(self.mechanism, Channel):
            times = self.mechanism.simulate_tally(popularity, count, key, threads)
            return Repeated({"report": np.flatnonzero(times)}, times[times > 0])
        return simulate_reports(self.mechanism, self.count, self.join, popularity, count, key, threads)

    def estimate(self, counted: Repeated, reports: int) -> Frequencies:
        check_reports(reports)
        likelihood = tabulate_over_reports(
            require_likelihood(self.mechanism).likelihood, counted.reports, self.mechanism.universe
        )
        possible = likelihood.max(axis=1) > 0
        likelihood, times = likelihood[possible], counted.times[possible].astype(np.float64)
        counts = reports * max_likely(likelihood, times)
        weighted = likelihood * (np.sqrt(times) / (likelihood @ counts))[:, None]
        inverse = inverted(weighted.T @ weighted)
        variance = np.full(len(counts), np.inf) if inverse is None else np.maximum(np.diag(inverse) - counts, 0.0)
        return Frequencies(reports=reports, counts=counts, errors=np.sqrt(variance), method=IBU)

    def variance(self, counts: Floats) -> None:
        return None

    def _checked(self, counted: Repeated) -> Repeated:
        cells = len(counted.times) * self.mechanism.universe
        if cells > MAX_CELLS:
            rule = f"ibu must have at most {MAX_CELLS} likelihoods (distinct reports times objects)"
            raise InputError(rule, value=cells, remedy="use fewer reports, or the method linear")
        return counted


def max_likely(likelihood: Floats, times: Floats, gap: float = GAP, updates: int = MAX_UPDATES) -> Floats:
    """Return the popularity (objects,) that maximizes sum_t times(t) log sum_z f(z) likelihood(t, z)."""
    count = times.sum()

    def mixed(f: Floats) -> tuple[Floats, float]:
        """Return g and the log-likelihood at a popularity."""
        mixture = likelihood @ f
        return likelihood.T @ (times / mixture) / count, float(times @ np.log(mixture))

    f = np.full(likelihood.shape[1], 1.0 / likelihood.shape[1])
    g, value = mixed(f)
    done = 1
    while count * (g.max() - 1.0) > gap and done < updates:
        once = f * g
        twice = once * mixed(once)[0]
        step = _extrapolated(f, once, twice)
        g, new = mixed(step)
        done += 2
        if new < value:
            step = twice
            g, new = mixed(step)
            done += 1
        f, value = step, new
    normalized: Floats = f / f.sum()
    return normalized


def _extrapolated(f: Floats, once: Floats, twice: Floats) -> Floats:
    """Return the SQUAREM extrapolation of two updates; every popularity stays positive."""
    step, bend = once - f, twice - 2.0 * once + f
    size = float(np.linalg.norm(bend))
    length = max(1.0, float(np.linalg.norm(step)) / size) if size > 0 else 1.0
    far = f + 2.0 * length * step + length**2 * bend
    far = np.where(far > 0.1 * twice, far, 0.1 * twice)
    mixture: Floats = far / far.sum()
    return mixture


def lack_of_fit(matrix: Floats, seen: Integers) -> float:
    r"""Return the likelihood-ratio statistic (G-test) of a histogram against a channel with any popularity.

    .. math:: 2 \sum_y h(y) \log \frac{h(y)}{N \sum_z f(z) M(z, y)}

    at the fitted popularity, minus twice the remaining gap of the fit. For many reports of the channel, it is bounded
    by a chi-square variable with one degree of freedom less than there are possible reports.
    """
    sent = seen > 0
    likelihood, times = matrix[:, sent].T, seen[sent].astype(np.float64)
    if np.any(likelihood.max(axis=1) <= 0):
        return float(np.inf)
    f, count = max_likely(likelihood, times), times.sum()
    mixture = likelihood @ f
    left = count * max(0.0, float((likelihood.T @ (times / mixture)).max()) / count - 1.0)
    return float(2.0 * (times @ np.log(times / (count * mixture)) - left))
