"""How well the curator learns frequencies through a mechanism: measured, and in closed form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poolscope.core.arrays import Floats, Map
from poolscope.core.randomness import children
from poolscope.mechanisms.protocols import Mechanism, has_likelihood, is_frequency_oracle
from poolscope.reports.estimators import Estimator, variance_of_linear
from poolscope.reports.frequencies import closed_estimator
from poolscope.reports.ibu import MAX_CELLS, IBUEstimator

#: Errors that a measured mean is over at least, and the most estimates that are drawn for it.
FEWEST_ERRORS, MAX_DRAWS = 2000, 20


@dataclass(frozen=True, kw_only=True)
class Utility:
    """Errors of the unbiased frequencies, averaged over objects.

    Parameters
    ----------
    mse, mae : mean squared and mean absolute error, measured on simulated reports.
    mse_analytical, mae_analytical : the same in closed form; None where there is none.
    """

    mse: float
    mae: float
    mse_analytical: float | None
    mae_analytical: float | None


def measure_utility(
    mechanism: Mechanism, popularity: Floats, reports: int, key: np.uint64, threads: Map = map
) -> Utility | None:
    """Errors at so many reports on objects drawn from the popularity.

    None of a mechanism without an estimate: one that states its likelihoods alone, of many reports, has that of most
    likelihood, where these can be held.
    """
    learning = closed_estimator(mechanism)
    if learning is None:
        if not has_likelihood(mechanism) or reports * mechanism.universe > MAX_CELLS:
            return None
        learning = IBUEstimator(mechanism)
    frequency = np.asarray(popularity, dtype=np.float64) / np.sum(popularity)
    draws = int(np.clip(-(-FEWEST_ERRORS // len(frequency)), 1, MAX_DRAWS))
    errors = []
    for i in range(draws):
        counted = learning.simulate(frequency, reports, np.uint64(children(key, i)), threads)
        errors.append(learning.estimate(counted, reports).counts / reports - frequency)
    squared, absolute = expected_of(learning, mechanism, frequency, reports)
    return Utility(
        mse=float(np.mean(np.square(errors))),
        mae=float(np.mean(np.abs(errors))),
        mse_analytical=None if squared is None else float(squared.mean()),
        mae_analytical=None if absolute is None else float(absolute.mean()),
    )


def expected_rmse(mechanism: Mechanism, popularity: Floats, reports: int) -> float | None:
    """Root of the mean squared error over objects, in closed form: no report is made; None where there is none."""
    learning = closed_estimator(mechanism)
    if learning is None:
        return None
    frequency = np.asarray(popularity, dtype=np.float64) / np.sum(popularity)
    squared, _ = expected_of(learning, mechanism, frequency, reports)
    return None if squared is None else float(np.sqrt(squared.mean()))


def expected_of(
    learning: Estimator, mechanism: Mechanism, frequency: Floats, reports: int
) -> tuple[Floats, Floats] | tuple[None, None]:
    """Squared and absolute error of each frequency, (objects,) both; None where they have no closed form.

    Without collisions the law is binomial (`expected_errors`). With them, or by regression, it has the estimator's own
    variance and that of the drawn objects, and the same shape; a channel's is normal.
    """
    if is_frequency_oracle(mechanism):
        own, other = mechanism.own_mean, mechanism.other_mean
        if not mechanism.binary_scores:
            return normal_errors(frequency, own - other, mechanism.noise(frequency, 1), reports)
        binomial, absolute = expected_errors(frequency, own, other, reports)
        if not np.any(variance_of_linear(mechanism, reports * frequency)[1]):
            return binomial, absolute
    variance = learning.expected(reports * frequency)
    if variance is None:
        return None, None
    squared = variance / reports**2 + frequency * (1.0 - frequency) / reports
    if is_frequency_oracle(mechanism):
        wider = np.divide(squared, binomial, out=np.ones_like(squared), where=binomial > 0)
        return squared, absolute * np.sqrt(wider)
    return squared, np.sqrt(2.0 / np.pi * squared)


def expected_errors(frequency: Floats, p: float, q: float, reports: int) -> tuple[Floats, Floats]:
    r"""Squared and absolute error of each frequency, (objects,) both.

    A report supports z with probability P = q + f(z)(p - q), so the number that do is binomial, and the frequency is
    that number over N (p - q) but for a constant:

    .. math:: \mathrm{MSE} = \frac{P (1-P)}{N (p-q)^2}, \qquad
              \mathrm{MAE} = \frac{2 \nu (1-P)}{N (p-q)} \Pr[X = \nu], \quad \nu = \lfloor N P \rfloor + 1

    for X the binomial number (de Moivre). Collisions that last are not in it.
    """
    # where it is used: it takes most of a second to import, and whoever plays a game needs none of it
    from scipy import stats

    supported = q + frequency * (p - q)
    squared = supported * (1 - supported) / (reports * (p - q) ** 2)
    centre = np.floor(reports * supported) + 1
    absolute = 2 * centre * (1 - supported) * stats.binom.pmf(centre, reports, supported) / (reports * (p - q))
    return squared, absolute


def normal_errors(frequency: Floats, gap: float, noise: Floats, reports: int) -> tuple[Floats, Floats]:
    r"""The same where scores are not one or nothing, with `noise` the variance of a score given the report's object.

    The score of z also varies with the object, by f(z)(1-f(z)) (own - other)^2 for the gap between the means:

    .. math:: \mathrm{MSE} = \frac{1}{N} \Bigl(\frac{\text{noise}}{\text{gap}^2} + f (1-f)\Bigr), \qquad
              \mathrm{MAE} = \sqrt{2\,\mathrm{MSE} / \pi}

    the second by the central limit theorem.
    """
    squared = (noise / gap**2 + frequency * (1 - frequency)) / reports
    return squared, np.sqrt(2 * squared / np.pi)
