"""Intervals by resampling users: of any metric (``bootstrap``), and of the difference of two attacks (``difference``).

Both attacks of a difference saw the same users, so that a resample takes the same users of each: what users share
cancels, and the interval is narrower than that of two separate runs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Literal

import numpy as np
import polars as pl
import scipy  # loads a submodule when it is first used: stats alone takes half a second
from numpy.typing import NDArray

from poolscope.core.arguments import checked
from poolscope.core.errors import InputError, check_count, did_you_mean
from poolscope.game.columns import EXPOSED
from poolscope.inference.thresholds import at_levels
from poolscope.metrics.calibration import ERROR_BINS, brier, gather
from poolscope.metrics.exposure import exposed_by
from poolscope.metrics.intervals import TAIL, Clusters, Estimate, clusters_of
from poolscope.metrics.precision import auc_of, precision_of, ranked, successes

Metric = Callable[[pl.DataFrame], float | Estimate]
"""What takes the rows of one adversary at one n and returns a number, or an estimate whose value counts."""

RESAMPLES = 999
"""How many samples of the users are drawn."""

MAX_BCA_USERS = 2000
"""Users up to which intervals are bias-corrected and accelerated; percentiles for more."""

_STREAM = (0x626F,)


def _exposed(column: str, rows: pl.DataFrame) -> float:
    return float(exposed_by(rows, column, int(rows["n"][0])).mean())


def _confident(level: float, rows: pl.DataFrame) -> float:
    return float((rows["confidence"].to_numpy() >= level).mean())


def _precision(top: float, rows: pl.DataFrame) -> float:
    return precision_of(ranked(rows, 0).correct, top).value


def _calibration_error(rows: pl.DataFrame) -> float:
    binned = gather(rows, ERROR_BINS)
    return float(binned.error(binned.success))


METRICS: dict[str, Metric] = {
    "auc_pn": lambda rows: auc_of(ranked(rows, 0).correct).value,
    "precision": lambda rows: float(successes(rows).mean()),
    "precision_top1": partial(_precision, 0.01),
    "precision_top5": partial(_precision, 0.05),
    "precision_top10": partial(_precision, 0.10),
    "precision_top20": partial(_precision, 0.20),
    "brier": lambda rows: brier(rows).value,
    "ece": _calibration_error,
    **{name: partial(_confident, level) for level, name in at_levels("confident").items()},
    **{name.replace("exposed_at", "exposed"): partial(_exposed, name) for name in EXPOSED.values()},
}
"""Fields of a record that can be named instead of a function; all are shares."""


@checked
def bootstrap(rows: pl.DataFrame, metric: str | Metric, *, seed: int = 0, resamples: int = RESAMPLES) -> Estimate:
    """Return a metric of one adversary at one n, with a 95% bootstrap interval over users.

    Users who share an estimate of the popularity are resampled together. Where nothing varies between resamples the
    interval has no width: prefer the metric's own function where there is one.

    Parameters
    ----------
    rows : DataFrame
        Outcomes of one adversary at one n (`select`).
    metric : str or callable
        A field of a record, as "auc_pn", or a function of such rows that returns a number.
    seed : int
        Seed of the resamples.
    resamples : int
        Number of resamples.

    Examples
    --------
    >>> found = ps.metrics.bootstrap(rows, lambda some: some["confidence"].median(), seed=1)
    >>> found.low <= found.value <= found.high
    True
    """
    _check_rows(rows, "rows")
    function = _metric_of(metric)

    def statistic(users: NDArray[np.int64]) -> float:
        return _value(function, rows[users])

    return _interval(statistic, rows.height, clusters_of(rows), seed, resamples)


@checked
def difference(
    a: pl.DataFrame,
    b: pl.DataFrame,
    metric: str | Metric = "auc_pn",
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Estimate:
    """Return a metric of attack `a` minus that of attack `b` on the same users, with a paired 95% interval.

    Parameters
    ----------
    a, b : DataFrame
        Outcomes of one adversary at one n each (`select`), of the same users: two adversaries, two numbers of
        reports, or two games that were played with the same seed.
    metric : str or callable
        A field of a record, as "auc_pn", or a function of such rows that returns a number.
    seed : int
        Seed of the resamples.
    resamples : int
        Number of resamples.

    Returns
    -------
    Estimate
        The difference. If no resample of a named metric differs, the ends are those of a difference that this many
        users could have missed.

    Examples
    --------
    >>> early, late = ps.metrics.select(outcomes, "strong", 10), ps.metrics.select(outcomes, "strong", 40)
    >>> gain = ps.metrics.difference(late, early, "auc_pn", seed=1, resamples=200)
    >>> gain.low > 0
    True
    """
    for name, rows in (("a", a), ("b", b)):
        _check_rows(rows, name)
    if a["user"].n_unique() < a.height or set(a["user"]) != set(b["user"]) or a.height != b.height:
        remedy = "play both games with the same seed and number of users, and take one adversary at one n of each"
        raise InputError("a and b must be of the same users, each once", remedy=remedy)
    a, b, function = a.sort("user"), b.sort("user"), _metric_of(metric)

    def statistic(users: NDArray[np.int64]) -> float:
        return _value(function, a[users]) - _value(function, b[users])

    groups = clusters_of(a) or clusters_of(b)
    found = _interval(statistic, a.height, groups, seed, resamples)
    if isinstance(metric, str) and found.low == found.high:
        unseen = 1 - TAIL ** (1 / a.height)
        return Estimate(found.value, max(-1.0, found.value - unseen), min(1.0, found.value + unseen))
    return found


def _check_rows(rows: pl.DataFrame, place: str) -> None:
    """Refuse what is not the rows of one adversary at one n."""
    if rows.is_empty():
        raise InputError("must have at least one user", place=place)
    for name in ("user", "adversary", "n", "confidence"):
        if name not in rows.columns:
            raise InputError(f"must have a column {name!r}", place=place, remedy="take what poolscope.play returns")
    attacks = rows.select("adversary", "n").unique()
    if attacks.height > 1:
        remedy = "take one of them with metrics.select"
        raise InputError("must be of one adversary at one n", value=attacks.height, place=place, remedy=remedy)


def _metric_of(metric: str | Metric) -> Metric:
    if not isinstance(metric, str):
        return metric
    if metric not in METRICS:
        remedy = did_you_mean(metric, METRICS)
        raise InputError("must be a field of a record or a function", value=metric, place="metric", remedy=remedy)
    return METRICS[metric]


def _value(function: Metric, rows: pl.DataFrame) -> float:
    found = function(rows)
    value = found.value if isinstance(found, Estimate) else found
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise InputError("a metric must return a number", value=value, place="metric")
    return float(value)


def _interval(
    statistic: Callable[[NDArray[np.int64]], float], users: int, groups: Clusters | None, seed: int, resamples: int
) -> Estimate:
    """Return a statistic of all users with its interval: BCa, or Student's over groups of users."""
    check_count("resamples", resamples)
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=_STREAM))
    everyone = np.arange(users)
    value = statistic(everyone)
    if groups is not None:
        members = [np.flatnonzero(groups.of == group) for group in range(groups.count)]
        drawn = rng.integers(groups.count, size=(resamples, groups.count))
        found = np.array([statistic(np.concatenate([members[group] for group in some])) for some in drawn])
        # a resample of G groups varies less than G groups do, by this factor
        error = float(found.std()) * np.sqrt(groups.count / (groups.count - 1))
        reach = error * float(scipy.stats.t.ppf(1 - TAIL, groups.count - 1))
        return Estimate(value, float(value - reach), float(value + reach))
    if users == 1:
        return Estimate(value, value, value)
    # each user left out in turn gives BCa its acceleration, which hardly matters for many
    method: Literal["BCa", "percentile"] = "BCa" if users <= MAX_BCA_USERS else "percentile"
    with warnings.catch_warnings():
        # where nothing varies the ends are NaN
        warnings.simplefilter("ignore", scipy.stats.DegenerateDataWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        low, high = scipy.stats.bootstrap(
            (everyone,), statistic, n_resamples=resamples, vectorized=False, method=method, random_state=rng
        ).confidence_interval
    if np.isnan(low) or np.isnan(high):
        return Estimate(value, value, value)
    return Estimate(value, min(float(low), value), max(float(high), value))
