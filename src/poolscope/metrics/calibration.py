"""Does the attack know how often it is right? Confidence against success, a bin at a time.

Bins are equally wide over [0, 1]. Within a bin the number of successes is taken as binomial:
the confidences of one bin differ by less than its width, so the binomial variance is too large
by at most a twelfth of the squared width.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from poolscope.core.errors import InputError
from poolscope.metrics.intervals import Estimate, bounded_mean, clopper_pearson, clusters_of, effect_of_share
from poolscope.metrics.precision import successes

ERROR_BINS = 15
"""Bins of the expected calibration error (the customary number)."""

REPLICAS = 1000
"""Crowds drawn for every quantile of the expected calibration error."""

SCALES = 17
"""Points at which the interval of the expected calibration error is tried."""

_STREAM = (0x6361,)


class ConfidenceBins(NamedTuple):
    """Users gathered by confidence; empty bins are left out. All of shape (bins,)."""

    users: NDArray[np.int64]
    confidence: NDArray[np.float64]
    hits: NDArray[np.int64]

    @property
    def success(self) -> NDArray[np.float64]:
        """Success rate of each bin."""
        return self.hits / self.users

    @property
    def weight(self) -> NDArray[np.float64]:
        """Share of the users in each bin."""
        shares: NDArray[np.float64] = self.users / self.users.sum()
        return shares

    def error(self, success: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the calibration error of success rates, shape (..., bins) -> (...)."""
        return np.abs(success - self.confidence) @ self.weight


def gather(rows: pl.DataFrame, bins: int) -> ConfidenceBins:
    """Return the mean confidence and success rate of the users in each of ``bins`` equal bins."""
    if rows.is_empty():
        raise InputError("must have at least one user", place="outcomes")
    if bins < 1:
        raise InputError("must be at least 1", value=bins, place="bins")
    confidence, index = rows["confidence"].to_numpy(), _bins(rows, bins)
    users = np.bincount(index, minlength=bins)
    filled = users > 0
    total = np.bincount(index, weights=confidence, minlength=bins)[filled]
    hits = np.bincount(index[successes(rows)], minlength=bins)[filled]
    users = users[filled]
    return ConfidenceBins(users, np.minimum(total / users, 1.0), hits)


def _bins(rows: pl.DataFrame, bins: int) -> NDArray[np.int64]:
    """(users,) the bin of each confidence."""
    index: NDArray[np.int64] = np.minimum((rows["confidence"].to_numpy() * bins).astype(np.int64), bins - 1)
    return index


def calibration(rows: pl.DataFrame, bins: int = 20) -> pl.DataFrame:
    """Return the success rate against confidence.

    Returns
    -------
    DataFrame
        confidence (mean of the bin), success, low, high, users; a row for every bin
        that has users, by rising confidence.

    Examples
    --------
    >>> ps.metrics.calibration(rows, bins=5).columns
    ['confidence', 'success', 'low', 'high', 'users']
    """
    binned, groups, design_effect = gather(rows, bins), clusters_of(rows), np.ones(1)
    if groups is not None:
        index, correct = _bins(rows, bins), successes(rows).astype(np.float64)
        own = [(groups[index == one], correct[index == one]) for one in np.unique(index)]
        design_effect = np.array([effect_of_share(some.sums(right), some.sizes) for some, right in own])
    low, high = clopper_pearson(binned.hits / design_effect, binned.users / design_effect)
    return pl.DataFrame(
        {
            "confidence": binned.confidence,
            "success": binned.success,
            "low": low,
            "high": high,
            "users": binned.users,
        }
    )


def ece(rows: pl.DataFrame, seed: int = 0, bins: int = ERROR_BINS) -> Estimate:
    r"""Return the expected calibration error: the mean gap between confidence and success rate.

    .. math:: \mathrm{ECE} = \sum_b \frac{n_b}{N} |\text{success}_b - \text{confidence}_b|

    Noise alone makes it positive, so a plain bootstrap would sit above the truth. The interval
    inverts a test instead: the gaps d_b that were seen are scaled to s d_b; for each s new
    samples of users are drawn with the success rates confidence_b + s d_b; the interval holds the errors
    of all s for which the error that was seen lies between the 2.5% and 97.5% quantiles of
    theirs. Its low end is 0 exactly when a calibrated attack (s = 0) could show such an error.
    It is widened where needed to hold the value itself, which noise may have pushed out, and
    the largest gap over all users together that their successes allow: the error is never
    less than that gap, and a handful of users who are all right prove little.

    Examples
    --------
    >>> ps.metrics.ece(rows, seed=1).value < ps.metrics.ece_null_p95(rows, seed=1)
    True
    """
    binned = gather(rows, bins)
    seen, gap = float(binned.error(binned.success)), binned.success - binned.confidence
    design_effect = _design_effect(rows, bins, gap)
    widest = max(seen, _pooled_gap(binned, design_effect))
    if seen == 0:
        return Estimate(seen, 0.0, widest)
    # Past the value by four times what noise can add to it.
    noise = np.sqrt(design_effect * binned.confidence * (1 - binned.confidence) / binned.users)
    scales = np.linspace(0, 1 + 4 * float(noise @ binned.weight) / seen, SCALES)
    chance = np.clip(binned.confidence + scales[:, None] * gap, 0, 1)
    below, above = np.quantile(_replicas(binned, chance, seed, design_effect), (0.025, 0.975), axis=1)
    error = binned.error(chance)
    # Both quantiles rise with the scale but for the noise of the replicas.
    low = np.interp(seen, np.maximum.accumulate(above), error)
    high = np.interp(seen, np.maximum.accumulate(below), error)
    return Estimate(seen, min(float(low), seen), max(float(high), widest))


def ece_null_p95(rows: pl.DataFrame, seed: int = 0, bins: int = ERROR_BINS, level: float = 0.95) -> float:
    """Quantile of the error that a perfectly calibrated attack shows on as many users; at 95% where no level is given.

    A ``ece`` below the limit is no sign of miscalibration.

    Examples
    --------
    >>> round(ps.metrics.ece_null_p95(rows, seed=1), 3)
    0.097
    """
    binned = gather(rows, bins)
    return float(np.quantile(_replicas(binned, binned.confidence[None], seed), level))


def _design_effect(rows: pl.DataFrame, bins: int, gap: NDArray[np.float64]) -> float:
    """Return the design effect of the calibration error, whose influence values are the signed gaps of the users."""
    groups = clusters_of(rows)
    if groups is None:
        return 1.0
    sign = np.sign(gap)[np.unique(_bins(rows, bins), return_inverse=True)[1]]
    influence = sign * (successes(rows) - rows["confidence"].to_numpy())
    return groups.design_effect(influence - influence.mean())


def _pooled_gap(binned: ConfidenceBins, design_effect: float) -> float:
    """Return the largest plausible gap between mean confidence and success rate over all users."""
    low, high = clopper_pearson(binned.hits.sum() / design_effect, binned.users.sum() / design_effect)
    confidence = float(binned.confidence @ binned.weight)
    return max(float(high) - confidence, confidence - float(low))


def _replicas(
    binned: ConfidenceBins, chance: NDArray[np.float64], seed: int, design_effect: float = 1.0
) -> NDArray[np.float64]:
    """Errors of samples drawn with given success rates, (..., bins) -> (..., REPLICAS); of fewer users by an effect."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=_STREAM))
    size = (*chance.shape[:-1], REPLICAS, chance.shape[-1])
    users = np.maximum(1, np.rint(binned.users / design_effect).astype(np.int64))
    hits = rng.binomial(users, chance[..., None, :], size=size)
    return binned.error(hits / users)


def brier(rows: pl.DataFrame) -> Estimate:
    """Return the Brier score of the guess: the mean squared gap between confidence and success (0 or 1).

    Examples
    --------
    >>> round(ps.metrics.brier(rows).value, 3)
    0.157
    """
    if rows.is_empty():
        raise InputError("must have at least one user", place="outcomes")
    loss = (rows["confidence"].to_numpy() - successes(rows)) ** 2
    value = float(loss.mean())
    groups, influence = clusters_of(rows), loss - value
    design_effect = 1.0 if groups is None else groups.design_effect(influence)
    return bounded_mean(value, float(np.square(influence).sum()), loss.size, design_effect=design_effect)
