"""What reports reveal, in the measures of quantitative information flow: pure functions of the outcome table.

All take the rows of one adversary at one observation count n, a row per user, and give a 95% interval over the draw of
users. They measure the attack that was played, at the prior that the users have; ``bayes_security`` alone is over
all priors. Another attack may do better.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from poolscope.metrics.intervals import (
    TAIL,
    Estimate,
    clopper_pearson,
    clusters_of,
    effect_of_share,
    known_value,
    quantile,
    ratio,
    share_of_users,
)
from poolscope.metrics.precision import successes

SMALLEST_DOUBT = 2.0**-53
"""What is left of a doubt that rounding has swallowed."""

HALVES = 200
"""Ways to split the users into those who choose two pools and those who measure them."""

_STREAM = (0x6C65,)


def bayes_risk_ratio(rows: pl.DataFrame, prior: float) -> Estimate:
    """Error of the guess with reports over that of the guess without, which is right as often as ``prior`` says.

    Examples
    --------
    >>> round(ps.metrics.bayes_risk_ratio(rows, 1 / 3).value, 3)
    0.39
    """
    return security_of(_precision(rows), known_value(prior))


def security_of(precision: Estimate, prior: Estimate, correlation: float = 0.0) -> Estimate:
    r"""Return the Bayes security of a precision at the prior of the users.

    .. math:: \beta(\pi) = \frac{1 - \text{precision}}{1 - \text{prior}}

    1 is no leakage, 0 an attack that never errs; noise may push it above 1. What the reference calls the Bayes security
    of a channel is the least over all priors: ``bayes_security``.

    Parameters
    ----------
    prior : how often the best guess without reports is right; ``known_value`` where it is known.
    correlation : of the two being right about the same user.

    References
    ----------
    K. Chatzikokolakis, G. Cherubin, C. Palamidessi, C. Troncoso. Bayes security: a not so average metric. CSF 2023.
    """
    if prior.value >= 1:
        return Estimate(float("nan"), 0.0, 1.0)
    return ratio(_complement(precision), _complement(prior), correlation)


def _complement(share: Estimate) -> Estimate:
    return Estimate(1 - share.value, 1 - share.high, 1 - share.low)


def bayes_security(rows: pl.DataFrame, k: int, seed: int) -> Estimate:
    """Bayes security of the guess, the least over all priors of the k pools; ``seed`` splits the users into halves.

    Examples
    --------
    >>> round(ps.metrics.bayes_security(rows, k=3, seed=1).value, 3)
    0.391
    """
    groups, design_effect = clusters_of(rows), 1.0
    if groups is not None:
        pool, correct = rows["pool"].cast(pl.String).to_numpy(), successes(rows)
        own = [(groups[pool == name], correct[pool == name]) for name in np.unique(pool)]
        design_effect = max(effect_of_share(some.sums(right.astype(np.float64)), some.sizes) for some, right in own)
    return min_security_of(confusion_counts(rows), k, seed, design_effect)


def confusion_counts(rows: pl.DataFrame) -> Counter[tuple[str, str]]:
    """Return how many users of each pool were given each guess."""
    both = rows.select(pl.col("pool", "guess").cast(pl.String)).group_by("pool", "guess").len()
    return Counter({(pool, guess): users for pool, guess, users in both.iter_rows()})


def min_security_of(counts: Mapping[tuple[str, str], int], k: int, seed: int, design_effect: float = 1.0) -> Estimate:
    r"""Return the least Bayes security over all priors, from how many users of each pool were given each guess.

    For a channel C the least is reached where two secrets share the prior evenly, so it is one less the largest total
    variation between two rows. Here the secrets are the preferred pools and C[a, g] is how often a user of pool a is
    given the guess g:

    .. math:: \beta^* = \min_\pi \beta(\pi) = 1 - \max_{a, b} \tfrac12 \sum_g |C_{ag} - C_{bg}|
            = 1 - \max_{a, b, A} (\Pr[A | a] - \Pr[A | b])

    with A any set of guesses. It is that of the guess; the reports themselves may have less, never more.

    Noise alone sets rows apart, so the largest of all differences is too large.

    - Value: one half of the users chooses pair and set, the other half measures them, as a mean over many halves; or
      the security at an even prior of all pools, than which the least is never more, where that is smaller.
    - Low: the true pair and set show no more than the best that are seen, so the largest bound over all pairs, each
      with the set that is best for it, holds for them too. A pool that nobody prefers may leak anything: then 0.
    - High: any prior proves something if it was not chosen for what it shows. The even one has half of the error; the
      pairs, in which a guess of a separates a from b, share the other half (Bonferroni).

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
    even, even_high = _uniform_prior_security(np.diagonal(table) / design_effect, users / design_effect)
    least, most = 0.0, 0.0
    for a in range(len(pools)):
        others = np.flatnonzero(np.arange(len(pools)) != a)
        best = channel[a] > channel[others]
        chosen = (best * table[a]).sum(axis=1), users[a], (best * table[others]).sum(axis=1), users[others]
        apart = _difference(*(count / design_effect for count in chosen))
        most = max(most, apart[2].max())
        tail = TAIL / 2 / (len(pools) * (len(pools) - 1))
        guessed = table[a, a], users[a], table[others, a], users[others]
        named = _difference(*(count / design_effect for count in guessed), tail=tail)
        least = max(least, named[1].max())
    low, high = 1 - min(most, 1.0) if len(pools) == k else 0.0, min(1 - least, even_high)
    return Estimate(float(np.clip(min(1 - _held_out_total_variation(table, seed), even), low, high)), low, high)


def _uniform_prior_security(right: NDArray[np.float64], users: NDArray[np.float64]) -> tuple[float, float]:
    """Bayes security if all pools were preferred as often, from who is guessed rightly in each, and its high end."""
    share, (low, _) = right / users, clopper_pearson(right, users, TAIL / 2)
    value, error = 1 - share.mean(), np.linalg.norm(share - low) / users.size
    return float(value / (1 - 1 / users.size)), float((value + error) / (1 - 1 / users.size))


def _held_out_total_variation(table: NDArray[np.int64], seed: int) -> float:
    """Return how far apart the two pools are that half of the users (pools, guesses) choose, in the other half."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=_STREAM))
    one = rng.binomial(table, 0.5, size=(HALVES, *table.shape))
    chosen, measured = np.concatenate([one, table - one]), np.concatenate([table - one, one])
    empty = (chosen.sum(axis=2) == 0) | (measured.sum(axis=2) == 0)
    chosen, measured = (half / np.maximum(half.sum(axis=2, keepdims=True), 1) for half in (chosen, measured))
    each, best, shown = np.arange(len(chosen)), np.zeros(len(chosen)), np.zeros(len(chosen))
    for a in range(len(table)):
        gap = chosen[:, a, None] - chosen
        apart = np.where(empty | empty[:, a, None], 0.0, np.maximum(gap, 0).sum(axis=2))
        b = apart.argmax(axis=1)
        found = ((measured[:, a] - measured[each, b]) * (gap[each, b] > 0)).sum(axis=1)
        better = apart[each, b] > best
        best, shown = np.where(better, apart[each, b], best), np.where(better, found, shown)
    return float(shown.mean())


def _difference(
    hits: ArrayLike, users: ArrayLike, other_hits: ArrayLike, other_users: ArrayLike, *, tail: float = TAIL
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return one share less another of other users, with the ends that their exact intervals give it.

    References
    ----------
    R. G. Newcombe. Interval estimation for the difference between independent proportions. Statistics in Medicine 17,
    1998, method 10.
    """
    share, other = np.divide(hits, users), np.divide(other_hits, other_users)
    (low, high), (other_low, other_high) = (
        clopper_pearson(hits, users, tail),
        clopper_pearson(other_hits, other_users, tail),
    )
    value = share - other
    return (
        value,
        value - np.hypot(share - low, other_high - other),
        value + np.hypot(high - share, other - other_low),
    )


def min_entropy_leakage(rows: pl.DataFrame, prior: float) -> Estimate:
    """Bits by which the reports make the guess better; ``prior`` is how often the guess without them is right.

    Examples
    --------
    >>> round(ps.metrics.min_entropy_leakage(rows, 1 / 3).value, 3)
    1.151
    """
    return leakage_of(_precision(rows), known_value(prior))


def leakage_of(precision: Estimate, prior: Estimate, correlation: float = 0.0) -> Estimate:
    r"""Return the min-entropy leakage of a precision, in bits.

    .. math:: \log_2 \frac{\text{precision}}{\text{prior}}

    At most log2 k for k pools; below 0 where the attack is worse than the guess without reports, -inf where it is
    never right.

    References
    ----------
    G. Smith. On the foundations of quantitative information flow. FoSSaCS 2009.
    """
    with np.errstate(divide="ignore"):
        return Estimate(*(float(np.log2(part)) for part in ratio(precision, prior, correlation)))


def log_odds_gain(rows: pl.DataFrame, prior: Mapping[str, float], level: float = 0.99) -> Estimate:
    r"""Return what the reports added to the log odds of the true pool, as a quantile over users.

    .. math:: \log \frac{\Pr[\text{truth} | \text{reports}]}{1 - \Pr[\text{truth} | \text{reports}]}
              - \log \frac{\Pr[\text{truth}]}{1 - \Pr[\text{truth}]}

    Under n reports of ε each it cannot exceed n ε (composition). A posterior that rounds to 1 counts as
    1 - 2^-53, the largest number below.

    Parameters
    ----------
    prior : the adversary's prior of each pool, by name.
    level : 0.99 is the user about whom more is revealed than about 99% of the others.

    Examples
    --------
    >>> round(ps.metrics.log_odds_gain(rows, {"a": 1 / 3, "b": 1 / 3, "c": 1 / 3}).value, 2)
    10.02
    """
    # of users who prefer no pool there is a posterior only if that is a hypothesis
    rows = rows.filter(pl.col("pool").cast(pl.String).is_in(list(prior)))
    truth = np.array([prior[pool] for pool in rows["pool"].cast(pl.String)])
    posterior = rows["posterior_true"].to_numpy()
    with np.errstate(divide="ignore"):
        gained = np.log(posterior / np.maximum(1 - posterior, SMALLEST_DOUBT)) - np.log(truth / (1 - truth))
    groups, design_effect = clusters_of(rows), 1.0
    if groups is not None:
        below = (gained <= quantile(gained, level).value).astype(np.float64)
        design_effect = effect_of_share(groups.sums(below), groups.sizes)
    return quantile(gained, level, design_effect=design_effect)


def _precision(rows: pl.DataFrame) -> Estimate:
    return share_of_users(successes(rows), clusters_of(rows))
