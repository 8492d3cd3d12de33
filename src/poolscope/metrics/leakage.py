"""What reports gave away, in the measures of quantitative information flow: pure functions of the outcome table.

All take the rows of one adversary at one observation count n, a row per user, and give a 95 % interval over the draw of
users. They measure the attack that was played, at the prior that the users have; ``bayes_security_least`` alone is over
all priors. Another attack may do better.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from poolscope.metrics.intervals import TAIL, Estimate, clopper_pearson, exactly, quantile, ratio, share_of
from poolscope.metrics.precision import successes

SMALLEST_DOUBT = 2.0**-53
"""What is left of a doubt that rounding has swallowed."""


def bayes_security(rows: pl.DataFrame, prior: float) -> Estimate:
    """Error of the guess with reports over that of the guess without, which is right as often as ``prior`` says."""
    return security_of(_precision(rows), exactly(prior))


def security_of(precision: Estimate, prior: Estimate, correlation: float = 0.0) -> Estimate:
    r"""Bayes security of a precision at the prior of the users.

    .. math:: \beta(\pi) = \frac{1 - \text{precision}}{1 - \text{prior}}

    1 is no leakage, 0 an attack that never errs; noise may push it above 1. What the reference calls the Bayes security
    of a channel is the least over all priors: ``bayes_security_least``.

    Parameters
    ----------
    prior : how often the best guess without reports is right; ``exactly`` where it is known.
    correlation : of the two being right about the same user.

    References
    ----------
    K. Chatzikokolakis, G. Cherubin, C. Palamidessi, C. Troncoso. Bayes security: a not so average metric. CSF 2023.
    """
    if prior.value >= 1:
        return Estimate(float("nan"), 0.0, 1.0)
    return ratio(_rest(precision), _rest(prior), correlation)


def _rest(share: Estimate) -> Estimate:
    return Estimate(1 - share.value, 1 - share.high, 1 - share.low)


def bayes_security_least(rows: pl.DataFrame, k: int) -> Estimate:
    """Bayes security of the guess, the least over all priors of the k pools."""
    return least_security_of(answers(rows), k)


def answers(rows: pl.DataFrame) -> Counter[tuple[str, str]]:
    """How many users of each pool were given each guess."""
    both = rows.select(pl.col("pool", "guess").cast(pl.String)).group_by("pool", "guess").len()
    return Counter({(pool, guess): users for pool, guess, users in both.iter_rows()})


def least_security_of(counts: Mapping[tuple[str, str], int], k: int) -> Estimate:
    r"""The least Bayes security over all priors, from how many users of each pool were given each guess.

    For a channel C the least is reached where two secrets share the prior evenly, so it is one less the largest total
    variation between two rows. Here the secrets are the preferred pools and C[a, g] is how often a user of pool a is
    given the guess g:

    .. math:: \beta^* = \min_\pi \beta(\pi) = 1 - \max_{a, b} \tfrac12 \sum_g |C_{ag} - C_{bg}|
            = 1 - \max_{a, b, A} (\Pr[A | a] - \Pr[A | b])

    with A any set of guesses. It is that of the guess; the reports themselves may have less, never more.

    Noise alone sets the rows apart, so the value lies below the truth where there are few users; the ends hold all the
    same. Low: no pair and set shows more than the best that are seen, so the largest bound over all pairs, each with
    the set that is best for it, holds for the true ones too. High: any pair and set proves something if it was not
    chosen for what it shows; that the guess is a tells a from b, for all pairs at once, which share the error
    (Bonferroni). A pool that nobody prefers may leak anything: the low end is then 0.

    References
    ----------
    K. Chatzikokolakis, G. Cherubin, C. Palamidessi, C. Troncoso. Bayes security: a not so average metric. CSF 2023.
    """
    pools = sorted({pool for pool, _ in counts})
    if len(pools) < 2:
        return Estimate(float("nan"), 0.0, 1.0)
    names = pools + sorted({guess for _, guess in counts} - set(pools))
    table = np.array([[counts.get((pool, guess), 0) for guess in names] for pool in pools])
    users = table.sum(axis=1)
    channel = table / users[:, None]
    value, least, most = 0.0, 0.0, 0.0
    for a in range(len(pools)):
        others = np.flatnonzero(np.arange(len(pools)) != a)
        best = channel[a] > channel[others]
        apart = _difference((best * table[a]).sum(axis=1), users[a], (best * table[others]).sum(axis=1), users[others])
        value, most = max(value, apart[0].max()), max(most, apart[2].max())
        error = TAIL / (len(pools) * (len(pools) - 1))
        named = _difference(table[a, a], users[a], table[others, a], users[others], error)
        least = max(least, named[1].max())
    return Estimate(1 - value, 1 - min(most, 1.0) if len(pools) == k else 0.0, 1 - least)


def _difference(
    hits: ArrayLike, users: ArrayLike, other_hits: ArrayLike, other_users: ArrayLike, error: float = TAIL
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """One share less another of other users, with the ends that their exact intervals give it.

    References
    ----------
    R. G. Newcombe. Interval estimation for the difference between independent proportions. Statistics in Medicine 17,
    1998, method 10.
    """
    share, other = np.divide(hits, users), np.divide(other_hits, other_users)
    (low, high), (other_low, other_high) = (
        clopper_pearson(hits, users, error),
        clopper_pearson(other_hits, other_users, error),
    )
    value = share - other
    return (
        value,
        value - np.hypot(share - low, other_high - other),
        value + np.hypot(high - share, other - other_low),
    )


def min_entropy_leakage(rows: pl.DataFrame, prior: float) -> Estimate:
    """Bits by which the reports make the guess better; ``prior`` is how often the guess without them is right."""
    return leakage_of(_precision(rows), exactly(prior))


def leakage_of(precision: Estimate, prior: Estimate, correlation: float = 0.0) -> Estimate:
    r"""Min-entropy leakage of a precision, in bits.

    .. math:: \log_2 \frac{\text{precision}}{\text{prior}}

    At most log2 k for k pools; below 0 where the attack is worse than the guess without reports, -inf where it is
    never right.

    References
    ----------
    G. Smith. On the foundations of quantitative information flow. FoSSaCS 2009.
    """
    with np.errstate(divide="ignore"):
        return Estimate(*(float(np.log2(part)) for part in ratio(precision, prior, correlation)))


def evidence(rows: pl.DataFrame, prior: Mapping[str, float], level: float = 0.99) -> Estimate:
    r"""What the reports added to the log odds of the true pool, as a quantile over users.

    .. math:: \log \frac{\Pr[\text{truth} | \text{reports}]}{1 - \Pr[\text{truth} | \text{reports}]}
              - \log \frac{\Pr[\text{truth}]}{1 - \Pr[\text{truth}]}

    Under n reports of epsilon each it cannot exceed n epsilon (composition). A posterior that rounds to 1 counts as
    1 - 2^-53, the largest number below.

    Parameters
    ----------
    prior : the adversary's prior of each pool, by name.
    level : 0.99 is the user who is told more about than 99 % of the others.
    """
    truth = np.array([prior[pool] for pool in rows["pool"].cast(pl.String)])
    posterior = rows["posterior_true"].to_numpy()
    with np.errstate(divide="ignore"):
        gained = np.log(posterior / np.maximum(1 - posterior, SMALLEST_DOUBT)) - np.log(truth / (1 - truth))
    return quantile(gained, level)


def _precision(rows: pl.DataFrame) -> Estimate:
    return share_of(int(successes(rows).sum()), rows.height)
