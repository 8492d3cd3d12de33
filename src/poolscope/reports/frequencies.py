"""Frequency estimation from reports: choice of the estimator, simulation, and accumulation over blocks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from poolscope.core.arrays import Floats, Integers, Keys, Map, Objects
from poolscope.core.errors import InputError
from poolscope.core.executors import Engine
from poolscope.core.randomness import children, generator
from poolscope.mechanisms.channel import Channel, as_channel
from poolscope.mechanisms.checking import check_mechanism, checked_reports
from poolscope.mechanisms.protocols import (
    FrequencyOracle,
    Mechanism,
    Reports,
    has_likelihood,
    is_frequency_oracle,
    report_count,
    require_frequency_oracle,
)
from poolscope.mechanisms.pure import draw_object_counts, report_chunks
from poolscope.mechanisms.sketch import HashedMechanism
from poolscope.population.popularity import project_to_simplex
from poolscope.reports.channel import LeastSquaresEstimator, RidgeEstimator
from poolscope.reports.estimators import (
    IBU,
    LINEAR,
    METHODS,
    REGRESSION,
    RIDGE,
    Estimator,
    Frequencies,
    RegressionDesign,
    TallyEstimator,
    check_reports,
    unbiased,
    variance_of_linear,
)
from poolscope.reports.files import partition_reports, select_rows
from poolscope.reports.ibu import IBUEstimator

#: Minimum share of collisions in the variance of the linear estimate for which a regression is considered.
MIN_COLLISION_SHARE = 0.05

#: Number of reports above which further draws of the estimate use the normal approximation.
MANY_REPORTS = 5_000


def frequencies(mechanism: Mechanism, reports: Reports, method: str | None = None) -> Frequencies:
    """Estimate frequencies from reports.

    Parameters
    ----------
    method : "linear", from p* and q*; "regression", least squares on the known hash functions or through a channel;
        "ridge", through a channel without an inverse; "ibu", maximum likelihood by the iterative Bayesian update. By
        default: the linear estimate, or the regression where collisions matter and its error is smaller. Through a
        channel: the regression, or ibu where the channel has no inverse. A mechanism without p* and q* is treated as a
        channel if its output space is small; otherwise ibu is used.

    Examples
    --------
    >>> reports = mechanism.obfuscate(np.repeat([0, 1], [3000, 1000]), rng)
    >>> ps.frequencies(mechanism, reports).counts[:3].round(-2)
    array([3000., 1000.,    0.])
    """
    check_mechanism(mechanism)
    columns, found = checked_reports(mechanism, reports), estimator(mechanism, method)
    return found.estimate(found.count(columns), report_count(columns))


def simulate_frequencies(
    mechanism: Mechanism,
    popularity: Floats,
    count: int,
    key: np.uint64,
    threads: Map = map,
    method: str | None = None,
) -> Frequencies:
    """Simulate the estimate from `count` reports on objects drawn from the popularity."""
    found = estimator(mechanism, method)
    return found.estimate(found.simulate(popularity, count, key, threads), count)


def frequencies_of_objects(
    mechanism: Mechanism, objects: Objects, key: np.uint64, threads: Map = map, method: str | None = None
) -> Frequencies:
    """Simulate the estimate from one report on each of these objects, in chunks."""
    found = estimator(mechanism, method)

    def count_chunk(numbers: Integers) -> Any:
        return found.count(mechanism.report(objects[numbers], children(key, numbers)))

    return found.estimate(found.join(threads(count_chunk, report_chunks(len(objects)))), len(objects))


def redraw_popularity_estimates(
    mechanism: Mechanism,
    popularity: Floats,
    count: int,
    keys: Keys,
    threads: Map = map,
    method: str | None = None,
) -> list[Floats]:
    r"""Return estimated popularities from further draws of `count` reports, one for each key.

    Up to `MANY_REPORTS` reports are simulated as in `simulate_frequencies`. For more, the true counts are multinomial,
    and each estimate is normal around them with the estimator's variance. Covariances between the errors of two objects
    are omitted. Where they are equal for all pairs, as in the linear estimate of a symmetric mechanism, they only shift
    all counts, and the projection removes a common shift.
    """
    found = estimator(mechanism, method)
    if count <= MANY_REPORTS or found.variance(count * np.asarray(popularity) / np.sum(popularity)) is None:
        return [simulate_frequencies(mechanism, popularity, count, key, threads, method).popularity for key in keys]
    counts = (draw_object_counts(popularity, count, key) for key in keys)
    return [_noisy(found, own, rng) for rng, own in counts]


def redraw_popularity_estimates_of_objects(
    mechanism: Mechanism, objects: Objects, keys: Keys, threads: Map = map, method: str | None = None
) -> list[Floats]:
    """Return estimated popularities from further reports on the same objects, one for each key."""
    found, counts = estimator(mechanism, method), np.bincount(objects, minlength=mechanism.universe)
    if len(objects) <= MANY_REPORTS or found.variance(counts.astype(np.float64)) is None:
        return [frequencies_of_objects(mechanism, objects, key, threads, method).popularity for key in keys]
    return [_noisy(found, counts, generator(key)) for key in keys]


def _noisy(found: Estimator, counts: Integers, rng: np.random.Generator) -> Floats:
    variance = found.variance(counts.astype(np.float64))
    assert variance is not None
    noisy = counts + np.sqrt(variance) * rng.standard_normal(len(counts))
    return project_to_simplex(noisy / counts.sum())


def estimator(mechanism: Mechanism, method: str | None = None) -> Estimator:
    """Return the estimator of this name, or the default for the mechanism."""
    if method not in (None, *METHODS):
        raise InputError(f"must be one of {', '.join(METHODS)}", value=method, place="method")
    if method == IBU:
        return IBUEstimator(mechanism)
    return _suited(mechanism, channel_of(mechanism), method)


def closed_estimator(mechanism: Mechanism) -> Estimator | None:
    """Return the default estimator of a mechanism unless it is ibu, which stores all likelihoods; then None."""
    # once, as enumerating the output space is slow
    channel = channel_of(mechanism)
    return None if channel is None and not is_frequency_oracle(mechanism) else _suited(mechanism, channel, None)


def _suited(mechanism: Mechanism, channel: Channel | None, method: str | None) -> Estimator:
    if channel is not None:
        return _through(channel, method) or IBUEstimator(mechanism)
    if method == RIDGE:
        rule, remedy = "ridge requires a channel or a small output space", "use linear or ibu"
        raise InputError(rule, value=type(mechanism).__name__, place="method", remedy=remedy)
    if method is None and not is_frequency_oracle(mechanism) and has_likelihood(mechanism):
        return IBUEstimator(mechanism)
    counts = SupportEstimator(require_frequency_oracle(mechanism), method)
    if method == REGRESSION and (counts.design is None or counts.design.inverse is None):
        rule = "regression requires few hash functions, and enough buckets to distinguish all objects"
        raise InputError(rule, value=type(mechanism).__name__, place="method", remedy="use linear or ibu")
    return counts


def channel_of(mechanism: Mechanism) -> Channel | None:
    """Return the mechanism as a channel: itself, or if it has likelihoods only and a small output space; else None."""
    if isinstance(mechanism, Channel):
        return mechanism
    return as_channel(mechanism) if not is_frequency_oracle(mechanism) and has_likelihood(mechanism) else None


def _through(channel: Channel, method: str | None) -> Estimator | None:
    """Return the estimator through a channel; None where it has no inverse and no method is given."""
    if method == RIDGE:
        return RidgeEstimator(channel)
    if method == LINEAR:
        rule = "a channel requires regression, ridge or ibu"
        raise InputError(rule, value=method, place="method")
    inverse = LeastSquaresEstimator(channel)
    if method == REGRESSION and inverse.initial_weights is None:
        rule = "regression requires a channel that distinguishes all objects"
        raise InputError(rule, value=channel.matrix.shape, place="method", remedy="use ridge or ibu")
    return None if inverse.initial_weights is None else inverse


class FrequencyCounter:
    """Accumulate the statistics of an estimate over blocks of reports."""

    def __init__(self, mechanism: Mechanism, engine: Engine, method: str | None = None) -> None:
        self._mechanism, self._engine = mechanism, engine
        self._estimator = estimator(mechanism, method)
        self.counted: Any = None
        self.reports = 0

    def add(self, reports: Reports) -> None:
        """Add a block of reports."""
        rows = partition_reports(self._mechanism, reports, self._engine.threads)
        for counted in self._engine.map(lambda own: self._estimator.count(select_rows(reports, own)), rows):
            self.join(counted, 0)
        self.reports += report_count(reports)

    def join(self, counted: Any, reports: int) -> None:
        """Add statistics of `reports` reports that were counted elsewhere."""
        if counted is not None:
            self.counted = counted if self.counted is None else self._estimator.join([self.counted, counted])
        self.reports += reports

    def estimate(self) -> Frequencies:
        """Return the estimate from all reports added so far."""
        check_reports(self.reports)
        return self._estimator.estimate(self.counted, self.reports)


@dataclass(frozen=True, eq=False)
class SupportEstimator(TallyEstimator[FrequencyOracle]):
    """Linear estimate or regression from support counts, and from set bits where `tally` has them."""

    method: str | None = None

    @cached_property
    def design(self) -> RegressionDesign | None:
        """The design of a regression; None without hash functions, or where it is not feasible."""
        if not isinstance(self.mechanism, HashedMechanism):
            return None
        design = RegressionDesign(self.mechanism)  # type: ignore[arg-type]
        return design if design.affordable else None

    def estimate(self, counted: Integers, reports: int) -> Frequencies:
        if self.method == REGRESSION:
            assert self.design is not None
            return self.design.estimate(counted, reports)
        linear = unbiased(self.mechanism, counted[0], reports)
        if self.method == LINEAR or not self._prefers_regression(linear.popularity * reports):
            return linear
        assert self.design is not None
        regression = self.design.estimate(counted, reports)
        return min(linear, regression, key=_mean_squared)

    def variance(self, counts: Floats) -> Floats:
        noise, collisions = variance_of_linear(self.mechanism, counts)
        if self.method != REGRESSION and (self.method == LINEAR or not self._prefers_regression(counts)):
            return noise + collisions
        assert self.design is not None
        regression = self.design.variance(counts)
        return min(noise + collisions, regression, key=np.mean) if self.method is None else regression

    def _prefers_regression(self, counts: Floats) -> bool:
        """Return whether collisions matter at these counts, and a regression can resolve them."""
        noise, collisions = variance_of_linear(self.mechanism, counts)
        matters = np.mean(collisions) > MIN_COLLISION_SHARE * np.mean(noise + collisions)
        return bool(matters and self.design is not None and self.design.inverse is not None)


def _mean_squared(found: Frequencies) -> float:
    assert found.errors is not None
    return float(np.mean(found.errors**2))
