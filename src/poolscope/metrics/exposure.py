"""How many users the adversary is confident about: pure functions of the outcome table, each with a 95% interval.

Two ideas. The adversary is *confident* about a user *at n* if its confidence after n reports reaches a threshold. A
user is *exposed by n* if that was so at some time up to n reports: the confidence may have fallen since. All take the
rows of one adversary at one observation count n, a row per user. Where an adversary samples, a user whose confidence is
within its standard error of the threshold is counted for the upper end of an interval and not for the lower.
"""

from __future__ import annotations

from collections import Counter
from math import inf, isfinite

import numpy as np
import polars as pl
from numpy.typing import NDArray

from poolscope.game.columns import CONFIDENCE_MCSE, ESTIMATE, EXPOSED, EXPOSED_AT_THRESHOLD, MINUS_MCSE, PLUS_MCSE
from poolscope.metrics.intervals import (
    Estimate,
    clopper_pearson,
    clusters_of,
    effect_of_share,
    effects_of_shares,
    group_count,
    quantile,
    share_of_users,
    widen_interval,
)
from poolscope.metrics.precision import successes

MCSE_SUFFIXES = (MINUS_MCSE, "", PLUS_MCSE)
"""Ends of the columns that say when users were exposed: if chance in the attack hides it, as it is, if it shows it."""

Firsts = list[Counter[float]]
"""Users by the report that exposed them, of each group of users (`Clusters`)."""


def confident(rows: pl.DataFrame, threshold: float) -> Estimate:
    """Return the share of users about whom the adversary is confident at n: 1 less the null rate of that threshold.

    Examples
    --------
    >>> ps.metrics.confident(rows, 0.9).value
    0.32
    """
    confidence, error, groups = rows["confidence"].to_numpy(), confidence_mcse(rows), clusters_of(rows)
    shares = (share_of_users(x >= threshold, groups) for x in (confidence - error, confidence, confidence + error))
    return widen_interval(*shares)


def confidence_mcse(rows: pl.DataFrame) -> NDArray[np.float64]:
    """(users,) the standard error that chance in the attack leaves each confidence with."""
    return rows[CONFIDENCE_MCSE].to_numpy() if CONFIDENCE_MCSE in rows.columns else np.zeros(rows.height)


def precision_at_threshold(rows: pl.DataFrame, threshold: float) -> Estimate:
    """Return the precision on users about whom the adversary is confident at n; NaN in (0, 1) when there are none.

    Examples
    --------
    >>> round(ps.metrics.precision_at_threshold(rows, 0.9).value, 3)
    0.953
    """
    chosen, groups = rows["confidence"].to_numpy() >= threshold, clusters_of(rows)
    return share_of_users(successes(rows)[chosen], groups and groups[chosen])


def exposed(rows: pl.DataFrame, threshold: float, n: int) -> Estimate:
    """Return the share of users exposed by n, for a threshold of ``EXPOSED`` and any n up to that of the rows.

    Examples
    --------
    >>> ps.metrics.exposed(rows, 0.9, 40).value >= ps.metrics.confident(rows, 0.9).value
    True
    """
    groups = clusters_of(rows)
    late, found, early = (
        share_of_users(exposed_by(rows, name, n), groups) for _, name in mcse_columns(rows, EXPOSED[threshold])
    )
    return widen_interval(late, found, early)


def mcse_columns(rows: pl.DataFrame, column: str) -> list[tuple[str, str]]:
    """Return each of `MCSE_SUFFIXES` with its column of exposure; all the same where the attack does not sample."""
    return [(end, column + end if column + end in rows.columns else column) for end in MCSE_SUFFIXES]


def exposed_by(rows: pl.DataFrame, column: str, n: int) -> NDArray[np.bool_]:
    """(users,) who is exposed by n, from the column that has the report that exposed them."""
    # NaN, which is at most nothing, where the column is null; a comparison in polars takes twenty times as long
    return np.asarray(rows[column].to_numpy() <= n)


def reports_to_exposure(rows: pl.DataFrame, threshold: float = 0.9, share: float = 0.5) -> Estimate:
    """Return the number of reports until that share (`share`) of the users is exposed; infinite where it never is.

    Examples
    --------
    >>> ps.metrics.reports_to_exposure(rows, threshold=0.5).value
    5.0
    """
    early, found, late = (
        reports_until(first_exposed(rows, name), share) for _, name in reversed(mcse_columns(rows, EXPOSED[threshold]))
    )
    return widen_interval(early, found, late)


def first_exposed(rows: pl.DataFrame, column: str) -> Firsts:
    """How many users each report exposed, as the column says; infinity has those who never were. One for each group."""
    groups = clusters_of(rows)
    parts = [rows] if groups is None else [rows.filter(groups.of == group) for group in range(groups.count)]
    return [
        Counter({inf if first is None else float(first): users for first, users in part[column].value_counts().rows()})
        for part in parts
    ]


def reports_until(firsts: Firsts, share: float) -> Estimate:
    """Return the number of reports until that share of the users is exposed, from ``first_exposed``."""
    every: Counter[float] = Counter()
    for group in firsts:
        every.update(group)
    value = quantile(list(every), share, list(every.values())).value
    hits = [sum(users for first, users in group.items() if first <= value) for group in firsts]
    effect = effect_of_share(hits, [group.total() for group in firsts]) if isfinite(value) else 1.0
    value, low, high = quantile(list(every), share, list(every.values()), effect)
    return Estimate(value, max(low, 0.0), high)


def exposure(rows: pl.DataFrame, horizon: int, threshold: float | None = None) -> pl.DataFrame:
    """Return the share of users ``exposed`` by every number of reports, at every threshold.

    Parameters
    ----------
    rows : DataFrame
        Outcomes of one adversary at any one n; what exposed a user is a fact of the whole run.
    horizon : int
        The largest number of reports of the run.
    threshold : float, optional
        The game's own, where it has one.

    Returns
    -------
    DataFrame
        n (0 to horizon, for each threshold in turn), threshold, share, low, high, users (of whom it is a share).

    Examples
    --------
    >>> ps.metrics.exposure(rows, horizon=40).columns
    ['n', 'threshold', 'share', 'low', 'high', 'users']
    """
    return exposure_shares(exposure_counts(rows, horizon, threshold, group_count(rows)), threshold)


def exposure_columns(threshold: float | None) -> dict[float, str]:
    """Return the thresholds of a run in increasing order, the game's own among them, and the column of each."""
    own = {} if threshold is None else {threshold: EXPOSED_AT_THRESHOLD}
    return dict(sorted((own | EXPOSED).items()))


def exposure_counts(
    rows: pl.DataFrame, horizon: int, threshold: float | None = None, groups: int = 1
) -> NDArray[np.int64]:
    """Return users whom each report exposes, (thresholds, 3, groups, horizon + 2): those of parts of a table add up.

    Three times: if chance in the attack hides them, as it is, and if it shows them. The last cell counts all others.
    """
    own = rows[ESTIMATE].to_numpy().astype(np.int64) if groups > 1 else np.zeros(rows.height, dtype=np.int64)

    def each(column: str) -> NDArray[np.int64]:
        first = np.minimum(rows[column].fill_null(horizon + 1).to_numpy(), horizon + 1)
        return np.bincount(own * (horizon + 2) + first, minlength=groups * (horizon + 2)).reshape(groups, -1)

    return np.stack(
        [[each(name) for _, name in mcse_columns(rows, column)] for column in exposure_columns(threshold).values()]
    )


def exposure_shares(counts: NDArray[np.int64], threshold: float | None = None) -> pl.DataFrame:
    """Return the table of an ``exposure`` from its counts."""
    after, users = np.arange(counts.shape[3] - 1), int(counts[0, 0].sum())
    parts = []
    for level, new in zip(exposure_columns(threshold), counts, strict=True):
        by_group = np.cumsum(new, axis=2)[1, :, :-1]
        late, found, early = np.cumsum(new.sum(axis=1), axis=1)[:, :-1]
        effect = effects_of_shares(by_group, new[1].sum(axis=1))
        low = clopper_pearson(late / effect, users / effect)[0]
        high = clopper_pearson(early / effect, users / effect)[1]
        parts.append(
            pl.DataFrame(
                {
                    "n": after,
                    "threshold": np.full(after.size, level),
                    "share": found / users,
                    "low": low,
                    "high": high,
                    "users": np.full(after.size, users),
                }
            )
        )
    return pl.concat(parts)


def exposure_by_adversary(outcomes: pl.DataFrame, horizon: int, threshold: float | None = None) -> pl.DataFrame:
    """``exposure`` of every adversary, with column adversary.

    What exposed a user is on every row of the user, so one n is enough.

    Examples
    --------
    >>> ps.metrics.exposure_by_adversary(outcomes, horizon=40)["adversary"].unique().sort().to_list()
    ['non-private', 'strong']
    """
    parts = outcomes.partition_by("adversary", maintain_order=True)
    return pl.concat(
        exposure(rows.filter(pl.col("n") == rows["n"][0]), horizon, threshold).with_columns(
            pl.lit(str(rows["adversary"][0])).alias("adversary")
        )
        for rows in parts
    )
