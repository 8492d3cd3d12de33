r"""Users who share an adversary's draw are not independent: how much wider that makes an interval.

An adversary who estimates the popularity draws other people's reports. Users play in groups, each against an estimate
of its own, so that the spread between groups shows what another draw would change. A *design effect* is the variance
of a metric over that of as many independent users. With IF the influence values, which sum to 0, and G groups,

.. math:: \text{effect} = \max\Big(1, \frac{G}{G - 1} \frac{\sum_g (\sum_{i \in g} \mathrm{IF}_i)^2}
          {\sum_i \mathrm{IF}_i^2}\Big) \Big(\frac{t_{G-1}}{z}\Big)^2

with t and z the 97.5 % quantiles of Student's and the normal distribution: G groups alone say how large the spread is.

References
----------
E. L. Korn and B. I. Graubard. Confidence intervals for proportions with small expected number of positive counts
estimated from survey data. Survey Methodology 24, 1998.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray
from scipy import special

from poolscope.game.outcomes import ESTIMATE
from poolscope.metrics.intervals import TAIL, Estimate, share_of


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

    def effect(self, influence: NDArray[np.float64]) -> float:
        """Design effect of a metric with these influence values, (users,)."""
        return effect_of(self.sums(influence), float(influence @ influence))


def clusters_of(rows: pl.DataFrame) -> Clusters | None:
    """The groups of the users of one adversary; None where users are independent, or all share one draw."""
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
    """Design effect of a share, from the successes and the users of each group, (groups,)."""
    return float(effects_of_shares(np.asarray(hits)[:, None], np.asarray(users))[0])


def effects_of_shares(hits: NDArray[np.number], users: NDArray[np.number]) -> NDArray[np.float64]:
    """The same of several shares of the same users, (groups, shares) -> (shares,)."""
    hits, users = hits[users > 0], users[users > 0].astype(np.float64)
    total = users.sum()
    share = hits.sum(axis=0) / max(total, 1.0)
    sums = hits - share * users[:, None]
    return np.array([effect_of(own, square) for own, square in zip(sums.T, total * share * (1 - share), strict=True)])


def share_of_users(chosen: NDArray[np.bool_], groups: Clusters | None) -> Estimate:
    """Share of users who are chosen, (users,), with its interval."""
    effect = 1.0
    if groups is not None:
        effect = effect_of_share(groups.sums(chosen.astype(np.float64)), groups.sizes)
    return share_of(int(chosen.sum()), chosen.size, effect)


def group_count(rows: pl.DataFrame) -> int:
    """How many estimates the adversary of these rows has at least; 1 where users are independent."""
    known = ESTIMATE in rows.columns and not rows[ESTIMATE].null_count()
    return int(rows[ESTIMATE].max()) + 1 if known and rows.height else 1  # type: ignore[arg-type]


@lru_cache(maxsize=64)
def _student(freedom: int) -> float:
    """(t / z)^2 of the 97.5 % quantiles."""
    return float((special.stdtrit(freedom, 1 - TAIL) / special.ndtri(1 - TAIL)) ** 2)
