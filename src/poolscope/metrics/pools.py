"""How far an adversary got with the users of each preferred pool: an average hides who bears the exposure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl

from poolscope.game.columns import ESTIMATE, EXPOSED
from poolscope.metrics.exposure import MCSE_SUFFIXES, mcse_columns
from poolscope.metrics.intervals import Estimate, bounded_mean, effect_of, effect_of_share, share_of, widen_interval
from poolscope.metrics.models import Count, FlatRecord, Real, result
from poolscope.metrics.precision import successes

#: What posteriors are rounded to before they are added up.
GRAIN = 2.0**-36


@result
class PoolRecord(FlatRecord):
    """How well one adversary did after n reports of each user who prefers one pool; estimates have 95% intervals.

    Parameters
    ----------
    adversary, n, pool, users : who, after how many reports, on how many users who prefer which pool.
    precision : share of these users whom the adversary guesses correctly.
    posterior : mean posterior of their pool.
    exposed : share of these users exposed by n at confidence `exposed_at`, whichever pool the adversary named.

    Examples
    --------
    >>> worst = max(ps.metrics.per_pool(rows, 40), key=lambda record: record.exposed.value)
    >>> worst.adversary, worst.n, 0 <= worst.exposed.value <= 1
    ('strong', 40, True)
    """

    adversary: str
    n: Count
    pool: str
    users: Count
    precision: Estimate
    posterior: Estimate
    exposed_at: Real
    exposed: Estimate


def per_pool(rows: pl.DataFrame, n: int, threshold: float = 0.9) -> list[PoolRecord]:
    """Precision, posterior and exposure of the users of each pool, from the rows of one adversary at one n.

    Parameters
    ----------
    threshold : one of the confidences of ``EXPOSED``: 0.5, 0.9 or 0.95.

    Examples
    --------
    >>> [record.pool for record in ps.metrics.per_pool(rows, 40)]
    ['a', 'b', 'c']
    """
    sums = pool_sums(rows, n, EXPOSED[threshold])
    return pool_records([sums], str(rows["adversary"][0]), n, sums["pool"].unique(maintain_order=True), threshold)


def pool_sums(rows: pl.DataFrame, n: int, column: str) -> pl.DataFrame:
    """What the records of each pool are made of, by pool and estimate; those of parts of a table are concatenated.

    The column says which report exposed a user.
    """
    exposed = [(rows[name] <= n).fill_null(False).alias(f"exposed{end}") for end, name in mcse_columns(rows, column)]
    estimate = rows[ESTIMATE] if ESTIMATE in rows.columns else pl.repeat(None, rows.height, dtype=pl.Int16, eager=True)
    # whole multiples of a grain: their sums are the same in any order
    posterior = np.rint(rows["posterior_true"].to_numpy() / GRAIN)
    table = pl.DataFrame(
        [
            rows["pool"],
            estimate.alias(ESTIMATE),
            pl.Series("correct", successes(rows)),
            pl.Series("posterior", posterior.astype(np.int64)),
            pl.Series("squares", np.rint(posterior * posterior * GRAIN).astype(np.int64)),
            *exposed,
        ]
    )
    grouped = table.sort("pool").group_by("pool", ESTIMATE, maintain_order=True)
    return grouped.agg(pl.len().alias("users"), pl.exclude("pool", ESTIMATE).sum()).with_columns(
        pl.col("pool").cast(pl.String)
    )


def pool_records(
    sums: Iterable[pl.DataFrame], adversary: str, n: int, pools: Sequence[str] | pl.Series, exposed_at: float
) -> list[PoolRecord]:
    """Return the record of each of these pools that has users, from the `pool_sums` of all parts of a table."""
    every = pl.concat(sums).group_by("pool", ESTIMATE).sum().sort("pool", ESTIMATE)
    found = []
    for pool in pools:
        own = every.filter(pl.col("pool") == pool)
        if own.is_empty():
            continue
        users, correct = (own[name].to_numpy().astype(np.float64) for name in ("users", "correct"))
        posterior = own["posterior"].to_numpy() * GRAIN
        count, mean = int(users.sum()), float(posterior.sum() / users.sum())
        squares = max(0.0, float(own["squares"].to_numpy().sum()) * GRAIN - count * mean**2)
        effect = effect_of_share(own["exposed"].to_numpy(), users)
        exposed = (share_of(int(own[f"exposed{end}"].sum()), count, effect) for end in MCSE_SUFFIXES)
        found.append(
            PoolRecord(
                adversary=adversary,
                n=n,
                pool=pool,
                users=count,
                precision=share_of(int(correct.sum()), count, effect_of_share(correct, users)),
                posterior=bounded_mean(
                    mean, squares, count, design_effect=effect_of(posterior - mean * users, squares)
                ),
                exposed_at=exposed_at,
                exposed=widen_interval(*exposed),
            )
        )
    return found
