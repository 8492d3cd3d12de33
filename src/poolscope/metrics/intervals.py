r"""95% intervals of shares, bounded means, ratios and quantiles, which cover down to a single user and at 0 and 1.

Users who share an adversary's draw are not independent: how much wider that makes an interval.

An adversary who estimates the popularity draws other people's reports. Users play in groups, each against an estimate
of its own, so that the spread between groups shows what another draw would change. A *design effect* is the variance
of a metric over that of as many independent users. With IF the influence values, which sum to 0, and G groups,

.. math:: \text{effect} = \max\Big(1, \frac{G}{G - 1} \frac{\sum_g (\sum_{i \in g} \mathrm{IF}_i)^2}
          {\sum_i \mathrm{IF}_i^2}\Big) \Big(\frac{t_{G-1}}{z}\Big)^2

with t and z the 97.5% quantiles of Student's and the normal distribution: G groups alone say how large the spread is.

References
----------
E. L. Korn and B. I. Graubard. Confidence intervals for proportions with small expected number of positive counts
estimated from survey data. Survey Methodology 24, 1998.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray
from pydantic_core import CoreSchema, core_schema
from scipy import special

from poolscope.core.errors import InputError
from poolscope.core.files import json_safe
from poolscope.core.validation import NUMBER, real, rejection
from poolscope.game.columns import ESTIMATE

TAIL = 0.025
"""How often each end of an interval may be wrong."""

PSEUDO_SUCCESSES = PSEUDO_FAILURES = 2
"""The pseudo-users of the plus-four rule (Agresti and Coull 1998)."""

PLACES = np.linspace(-4, 4, 17)
"""Where a threshold may lie, in standard deviations of the number of users above it."""

HALVINGS = 20
"""Bisections of [0, 1]: the ends of a share above a threshold are wider by 1e-6 at most, never narrower."""

ROWS_AT_ONCE = 1 << 12
"""Shares whose ends are searched for at once."""


class Estimate(NamedTuple):
    """A number with its 95% interval.

    Examples
    --------
    >>> value, low, high = ps.metrics.confident(rows, 0.9)
    >>> low <= value <= high
    True
    """

    value: float
    low: float
    high: float

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> CoreSchema:
        """Read three numbers, and write them: an infinity is a text in JSON, NaN is null."""
        written = core_schema.plain_serializer_function_ser_schema(json_safe, when_used="json")
        return core_schema.no_info_plain_validator_function(cls._read, serialization=written)

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: Any) -> dict[str, Any]:
        return {"type": "array", "items": NUMBER, "minItems": 3, "maxItems": 3}

    @classmethod
    def _read(cls, found: Any) -> Estimate:
        if isinstance(found, Estimate):
            return found
        if not isinstance(found, tuple | list) or len(found) != 3:
            raise rejection("must be three numbers", value=found)
        return cls(*map(real, found))


def known_value(value: float) -> Estimate:
    """Return a number that is known."""
    return Estimate(value, value, value)


def clopper_pearson(
    hits: ArrayLike, trials: ArrayLike, tail: ArrayLike = TAIL
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    r"""Return exact bounds of a binomial share, each of which is wrong with probability ``tail`` at most.

    .. math:: I_{low}(k, n - k + 1) = \text{tail} = 1 - I_{high}(k + 1, n - k)

    with I the regularised incomplete beta function: the low end is a quantile of Beta(k, n - k + 1), the high end one
    of Beta(k + 1, n - k).

    Parameters
    ----------
    hits, trials : array_like
        The number k of successes among n users, not necessarily whole: effective numbers do as well.

    Returns
    -------
    low, high : ndarray
        Broadcast shape of all. Without users nothing is known: (0, 1).

    References
    ----------
    C. J. Clopper and E. S. Pearson. The use of confidence or fiducial limits illustrated in the case of the binomial.
    Biometrika 26, 1934.
    """
    k, n = np.broadcast_arrays(np.asarray(hits, dtype=np.float64), np.asarray(trials, dtype=np.float64))
    # where k is 0 or n a parameter would be 0: the bound is then known, any legal parameter will do
    low = np.where(k > 0, special.betaincinv(np.where(k > 0, k, 1.0), n - k + 1.0, tail), 0.0)
    high = np.where(k < n, special.betaincinv(k + 1.0, np.where(k < n, n - k, 1.0), 1.0 - np.asarray(tail)), 1.0)
    return low, high


def share_of(successes: int, users: int, design_effect: float = 1.0) -> Estimate:
    """Return the share of successes with its exact interval; NaN in (0, 1) when there are no users.

    With a design effect (`Clusters`) the interval is that of Korn and Graubard: of as many fewer users.
    """
    low, high = clopper_pearson(successes / design_effect, users / design_effect)
    return Estimate(successes / users if users else float("nan"), float(low), float(high))


def widen_interval(few: Estimate, found: Estimate, many: Estimate) -> Estimate:
    """Return what was found, between the ends of the least and the most that it may be."""
    return Estimate(found.value, min(few.low, found.low), max(many.high, found.high))


def precision_at_rank(
    correct: NDArray[np.bool_], n_guessed: NDArray[np.int64], design_effect: ArrayLike = 1.0
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    r"""Estimate the success rate of the most confident share q of the population from a ranked sample of users.

    Which users belong to that share depends on a threshold that the sample only estimates. The number M of the N users
    above the true threshold is Binomial(N, q), and given M their successes S_M are Binomial(M, success). So the ends
    are those of Clopper and Pearson averaged over M: the 2.5% quantile of a mixture of Beta(S_M, M - S_M + 1) and the
    97.5% quantile of one of Beta(S_M + 1, M - S_M). For many users the variance is

    .. math:: \frac{\theta (1 - \theta) + (1 - q) (\theta - r)^2}{q N}

    with theta the success above the threshold and r that at the threshold. For q = 1 it is ``share_of``.

    Parameters
    ----------
    correct : ndarray of bool, shape (users,)
        Successes from the most to the least confident user.
    n_guessed : ndarray of int, shape (shares,)
        How many users are guessed, q N, from 1 to N.
    design_effect : float or ndarray, shape (shares,)
        Design effect: the variance is larger by this factor than that of independent users (`Clusters`).

    Returns
    -------
    share, low, high : ndarray, shape (shares,)
    """
    users, hits = correct.size, np.concatenate([[0], np.cumsum(correct)])
    share, design_effect = (
        hits[n_guessed] / n_guessed,
        np.broadcast_to(np.asarray(design_effect, dtype=np.float64), n_guessed.shape),
    )
    low, high = clopper_pearson(hits[n_guessed] / design_effect, n_guessed / design_effect)
    part = np.flatnonzero(n_guessed < users)
    for start in range(0, part.size, ROWS_AT_ONCE):
        some = part[start : start + ROWS_AT_ONCE]
        mean, fewer = n_guessed[some, None], design_effect[some, None]
        above = np.rint(mean + np.sqrt(fewer * mean * (1 - mean / users)) * PLACES).clip(0, users).astype(np.int64)
        low[some], high[some] = _mixture_ends(hits[above] / fewer, above / fewer)
    return share, np.minimum(low, share), np.maximum(high, share)


def _mixture_ends(
    hits: NDArray[np.float64], trials: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the ends of Clopper and Pearson averaged over the last axis, whose points are the ``PLACES``."""
    weight = np.exp(-(PLACES**2) / 2)
    weight /= weight.sum()
    ends = []
    for more, level in ((0, TAIL), (1, 1 - TAIL)):
        a, b = hits + more, trials - hits + 1 - more
        # Beta(0, b) is the point 0 and Beta(a, 0) the point 1
        point = np.where(a == 0, 1.0, 0.0)
        spread = (a > 0) & (b > 0)
        a, b = np.where(a > 0, a, 1.0), np.where(b > 0, b, 1.0)
        low, high = np.zeros(len(hits)), np.ones(len(hits))
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            below = np.where(spread, special.betainc(a, b, middle[:, None]), point) @ weight < level
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        ends.append(high if more else low)
    return ends[0], ends[1]


def bounded_mean(
    value: float, squares: float, users: int, *, scale: float = 1.0, design_effect: float = 1.0
) -> Estimate:
    r"""Return the interval of an average that lies in [0, 1], from its influence values.

    The variance of one user is taken over the users and the four pseudo-users of the
    plus-four rule (two who contribute 0 and two who contribute 1), and the interval is that of
    Clopper and Pearson for the number of users that would give a share the same standard error:

    .. math::
        V = \frac{\sum_i \mathrm{IF}_i^2 + 2 s \left(\tilde a^2 + (1-\tilde a)^2\right)}{N + 4},
        \qquad n_{\text{eff}} = N \, \tilde a (1 - \tilde a) / V .

    For many users this is the usual value +- 1.96 standard errors. The pseudo-users keep the
    interval open when all users agree, where the plain standard error is 0.

    Parameters
    ----------
    value : float
        The average a.
    squares : float
        Sum over users of the squared influence value (deviation of one user's contribution).
    users : int
        The number N of users, at least 1.
    scale : float
        The variance s of one user relative to that of a plain share, when all users succeed
        with the same probability: 1 for a mean, 2 for the AUC.
    design_effect : float
        Design effect: the variance is larger by this factor than that of independent users (`Clusters`).
    """
    pseudo = PSEUDO_SUCCESSES + PSEUDO_FAILURES
    a = (users * value + PSEUDO_SUCCESSES) / (users + pseudo)
    extra = scale * (PSEUDO_FAILURES * a**2 + PSEUDO_SUCCESSES * (1 - a) ** 2)
    variance = (squares + extra) / (users + pseudo)
    effective = users * a * (1 - a) / variance / design_effect
    low, high = clopper_pearson(value * effective, effective)
    return Estimate(value, float(low), float(high))


def ratio(one: Estimate, other: Estimate, correlation: float = 0.0) -> Estimate:
    r"""Return one positive estimate over another, from the intervals of both.

    The ends are where the difference one - ratio * other is as far from 0 as the two intervals allow, each taken for
    standard errors on the side that matters:

    .. math:: (x - L y)^2 = (x - x_{low})^2 + L^2 (y_{high} - y)^2 - 2 \rho L (x - x_{low}) (y_{high} - y)

    If the other is known (``known_value``), the ends are those of the one divided by it.

    References
    ----------
    A. Donner and G. Y. Zou. Closed-form confidence intervals for functions of the normal mean and standard deviation.
    Statistical Methods in Medical Research 21, 2012.
    """
    (x, x_low, x_high), (y, y_low, y_high) = one, other
    centre, product = x * y - correlation * (x - x_low) * (y_high - y), x_low * (2 * x - x_low)
    root = math.sqrt(max(centre**2 - product * y_high * (2 * y - y_high), 0.0))
    low = product / (centre + root) if product > 0 else 0.0
    centre, square = x * y - correlation * (x_high - x) * (y - y_low), y_low * (2 * y - y_low)
    root = math.sqrt(max(centre**2 - square * x_high * (2 * x - x_high), 0.0))
    high = (centre + root) / square if square > 0 else math.inf
    return Estimate(x / y, min(low, x / y), max(high, x / y))


def quantile(values: ArrayLike, level: float, counts: ArrayLike | None = None, design_effect: float = 1.0) -> Estimate:
    """A quantile, the least value that the share ``level`` does not exceed, and the order statistics that bound it.

    The number of values below the true quantile is binomial: its 2.5% and 97.5% quantiles count the ends off. An end
    that would lie beyond all values is infinite: this many users do not bound it. Infinite values are legal. With
    `counts` there are that many of each value. With a design effect (`Clusters`) the ranks are those of as many fewer
    users (Woodruff 1952).
    """
    x = np.asarray(values, dtype=np.float64)
    order = np.argsort(x, kind="stable")
    up_to = np.cumsum(np.ones(x.size, dtype=np.int64) if counts is None else np.asarray(counts)[order])
    if not x.size or not up_to[-1]:
        raise InputError("must have at least one user", place="outcomes")
    x, size = x[order], int(up_to[-1])

    def at(rank: int) -> float:
        """Return the value of that rank, from 0."""
        return float(x[np.searchsorted(up_to, rank, side="right")])

    value = at(int(np.clip(np.ceil(level * size - 1e-9), 1, size)) - 1)
    fewer = max(1, math.floor(size / design_effect))
    below, above = (_binomial_quantile(part, fewer, level) for part in (TAIL, 1 - TAIL))
    first, last = math.floor(below * size / fewer), math.ceil(above * size / fewer)
    low = at(first - 1) if first > 0 else -math.inf
    high = at(last) if last < size else math.inf
    return Estimate(value, min(low, value), max(high, value))


def _binomial_quantile(part: float, trials: int, chance: float) -> int:
    """Return the least number of successes that is not exceeded with at least this probability."""
    near = math.ceil(special.bdtrik(part, trials, chance))
    least: int = near - 1 if near > 0 and special.bdtr(near - 1, trials, chance) >= part else near
    return least


@dataclass(frozen=True, eq=False)
class Clusters:
    """The group of each user, (users,), and the number of groups."""

    of: NDArray[np.int64]
    count: int

    def __getitem__(self, users: NDArray[Any] | slice) -> Clusters:
        return Clusters(self.of[users], self.count)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """(groups,) the users of each."""
        return np.bincount(self.of, minlength=self.count)

    def sums(self, influence: NDArray[np.float64]) -> NDArray[np.float64]:
        """(groups,) the sum of the influence values of each."""
        return np.bincount(self.of, influence, self.count).astype(np.float64)

    def design_effect(self, influence: NDArray[np.float64]) -> float:
        """Return the design effect of a metric with these influence values, (users,)."""
        return effect_of(self.sums(influence), float(influence @ influence))


def clusters_of(rows: pl.DataFrame) -> Clusters | None:
    """Return the groups of the users of one adversary; None where users are independent, or all share one draw."""
    if ESTIMATE not in rows.columns or rows[ESTIMATE].null_count():
        return None
    found, of = np.unique(rows[ESTIMATE].to_numpy(), return_inverse=True)
    return Clusters(of.astype(np.int64), len(found)) if len(found) > 1 else None


def effect_of(sums: NDArray[np.float64], squares: float) -> float:
    """Design effect from the sums of the influence values in each group, and the sum of their squares over users."""
    groups = len(sums)
    if groups < 2:
        return 1.0
    ratio = groups / (groups - 1) * float(sums @ sums) / squares if squares > 0 else 1.0
    return max(1.0, ratio) * _student(groups - 1)


def effect_of_share(hits: ArrayLike, users: ArrayLike) -> float:
    """Return the design effect of a share, from the successes and the users of each group, (groups,)."""
    return float(effects_of_shares(np.asarray(hits)[:, None], np.asarray(users))[0])


def effects_of_shares(hits: NDArray[np.number], users: NDArray[np.number]) -> NDArray[np.float64]:
    """Return the same of several shares of the same users, (groups, shares) -> (shares,)."""
    hits, users = hits[users > 0], users[users > 0].astype(np.float64)
    total = users.sum()
    share = hits.sum(axis=0) / max(float(total), 1.0)
    sums = hits - share * users[:, None]
    return np.array([effect_of(own, square) for own, square in zip(sums.T, total * share * (1 - share), strict=True)])


def share_of_users(chosen: NDArray[np.bool_], groups: Clusters | None) -> Estimate:
    """Return the share of users who are chosen, (users,), with its interval."""
    design_effect = 1.0
    if groups is not None:
        design_effect = effect_of_share(groups.sums(chosen.astype(np.float64)), groups.sizes)
    return share_of(int(chosen.sum()), chosen.size, design_effect)


def group_count(rows: pl.DataFrame) -> int:
    """Return how many estimates the adversary of these rows has at least; 1 where users are independent."""
    known = ESTIMATE in rows.columns and not rows[ESTIMATE].null_count()
    return int(rows[ESTIMATE].max()) + 1 if known and rows.height else 1  # type: ignore[arg-type]


@lru_cache(maxsize=64)
def _student(freedom: int) -> float:
    """(t / z)^2 of the 97.5% quantiles."""
    return float((special.stdtrit(freedom, 1 - TAIL) / special.ndtri(1 - TAIL)) ** 2)
