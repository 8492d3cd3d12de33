"""Utility: errors of the frequency estimate, empirical and analytical."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poolscope.core.arrays import Floats, Map
from poolscope.core.randomness import children
from poolscope.mechanisms.protocols import Mechanism, has_likelihood, is_frequency_oracle
from poolscope.reports.estimators import Estimator, variance_of_linear
from poolscope.reports.frequencies import closed_estimator
from poolscope.reports.ibu import MAX_CELLS, IBUEstimator

#: Minimum number of errors that an empirical mean averages, and the maximum number of estimates drawn for it.
MIN_ERRORS, MAX_DRAWS = 2000, 20


@dataclass(frozen=True, kw_only=True)
class Utility:
    """Errors of the unbiased frequencies, averaged over objects.

    Parameters
    ----------
    mse, mae : mean squared and mean absolute error, empirical, on simulated reports.
    mse_analytical, mae_analytical : the analytical values; None where there is no closed form.
    """

    mse: float
    mae: float
    mse_analytical: float | None
    mae_analytical: float | None


def measure_utility(
    mechanism: Mechanism, popularity: Floats, reports: int, key: np.uint64, threads: Map = map
) -> Utility | None:
    """Return the errors of the estimate from `reports` reports on objects drawn from the popularity.

    A mechanism with likelihoods only, and a large output space, uses ibu if its likelihoods fit into memory. None for a
    mechanism without an estimate.
    """
    frequency_estimator = closed_estimator(mechanism)
    if frequency_estimator is None:
        if not has_likelihood(mechanism) or reports * mechanism.universe > MAX_CELLS:
            return None
        frequency_estimator = IBUEstimator(mechanism)
    frequency = np.asarray(popularity, dtype=np.float64) / np.sum(popularity)
    draws = int(np.clip(-(-MIN_ERRORS // len(frequency)), 1, MAX_DRAWS))
    errors = []
    for i in range(draws):
        counted = frequency_estimator.simulate(frequency, reports, np.uint64(children(key, i)), threads)
        errors.append(frequency_estimator.estimate(counted, reports).counts / reports - frequency)
    squared, absolute = expected_errors_of_estimator(frequency_estimator, mechanism, frequency, reports)
    return Utility(
        mse=float(np.mean(np.square(errors))),
        mae=float(np.mean(np.abs(errors))),
        mse_analytical=None if squared is None else float(squared.mean()),
        mae_analytical=None if absolute is None else float(absolute.mean()),
    )


def expected_errors_of_estimator(
    frequency_estimator: Estimator, mechanism: Mechanism, frequency: Floats, reports: int
) -> tuple[Floats, Floats] | tuple[None, None]:
    """Return the expected squared and absolute error of each frequency, (objects,) both; None without a closed form.

    Without collisions the support counts are binomial (`expected_errors`). With collisions, or by regression, the
    variance is that of the estimator plus that of the drawn objects, and the shape is the same. Through a channel the
    error is taken as normal.
    """
    if is_frequency_oracle(mechanism):
        own, other = mechanism.own_mean, mechanism.other_mean
        if not mechanism.binary_scores:
            return normal_errors(frequency, own - other, mechanism.score_sum_variance(frequency, 1), reports)
        binomial, absolute = expected_errors(frequency, own, other, reports)
        if not np.any(variance_of_linear(mechanism, reports * frequency)[1]):
            return binomial, absolute
    variance = frequency_estimator.variance(reports * frequency)
    if variance is None:
        return None, None
    squared = variance / reports**2 + frequency * (1.0 - frequency) / reports
    if is_frequency_oracle(mechanism):
        wider = np.divide(squared, binomial, out=np.ones_like(squared), where=binomial > 0)
        return squared, absolute * np.sqrt(wider)
    return squared, np.sqrt(2.0 / np.pi * squared)


def expected_errors(frequency: Floats, p: float, q: float, reports: int) -> tuple[Floats, Floats]:
    r"""Return the expected squared and absolute error of each frequency, (objects,) both.

    A report supports z with probability P = q + f(z)(p - q), so that the support count is binomial, and the frequency
    is the count over N (p - q), up to a constant:

    .. math:: \mathrm{MSE} = \frac{P (1-P)}{N (p-q)^2}, \qquad
              \mathrm{MAE} = \frac{2 \nu (1-P)}{N (p-q)} \Pr[X = \nu], \quad \nu = \lfloor N P \rfloor + 1

    for X the binomial variable (de Moivre). Collisions are not included.
    """
    # imported here, as it takes most of a second and a game does not need it
    from scipy import stats

    supported = q + frequency * (p - q)
    squared = supported * (1 - supported) / (reports * (p - q) ** 2)
    mode = np.floor(reports * supported) + 1
    absolute = 2 * mode * (1 - supported) * stats.binom.pmf(mode, reports, supported) / (reports * (p - q))
    return squared, absolute


def normal_errors(frequency: Floats, gap: float, noise: Floats, reports: int) -> tuple[Floats, Floats]:
    r"""Return the same errors for real-valued scores; `noise` is the variance of a score given the report's object.

    The object of a report adds the variance f(z)(1-f(z)) gap^2 to the score of z, where gap = own - other mean:

    .. math:: \mathrm{MSE} = \frac{1}{N} \Bigl(\frac{\text{noise}}{\text{gap}^2} + f (1-f)\Bigr), \qquad
              \mathrm{MAE} = \sqrt{2\,\mathrm{MSE} / \pi}

    the second by the central limit theorem.
    """
    squared = (noise / gap**2 + frequency * (1 - frequency)) / reports
    return squared, np.sqrt(2 * squared / np.pi)
