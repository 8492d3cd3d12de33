"""A run in numbers: one record per adversary and observation count."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from poolscope.core.arguments import checked
from poolscope.core.errors import InputError, did_you_mean
from poolscope.game.columns import CONFIDENCE_MCSE, ESTIMATE, EXPOSED, EXPOSED_AT_THRESHOLD, exposed_columns
from poolscope.inference.thresholds import DEFAULT_THRESHOLD, at_levels
from poolscope.metrics.bounds import mean_success_bound
from poolscope.metrics.calibration import brier, ece, ece_null_p95
from poolscope.metrics.exposure import (
    MCSE_SUFFIXES,
    confidence_mcse,
    confident,
    exposed_by,
    first_exposed,
    mcse_columns,
    precision_at_threshold,
    reports_until,
)
from poolscope.metrics.intervals import Estimate, effect_of_share, known_value, share_of, widen_interval
from poolscope.metrics.leakage import confusion_counts, leakage_of, min_security_of, security_of
from poolscope.metrics.models import Count, FlatRecord, Real, UnknownEstimate, result
from poolscope.metrics.precision import auc_of, by_user, precision_of, ranked
from poolscope.metrics.tables import Records

if TYPE_CHECKING:
    from poolscope.game.collections import AttributeGame
    from poolscope.game.game import Game

TOPS = {"precision_top1": 0.01, "precision_top5": 0.05, "precision_top10": 0.10, "precision_top20": 0.20}
"""Shares of most confident users on which precision is reported, by their fields."""

CONFIDENT = at_levels("confident")
"""Thresholds of confidence, and their fields; those of exposure are ``EXPOSED``."""

EXPOSING = {"reports_to_1pct": 0.01, "reports_to_5pct": 0.05, "reports_to_10pct": 0.10}
"""Shares of users whose exposure is reported as a number of reports, by their fields."""


@result
class Record(FlatRecord):
    """How well one adversary did after n reports of each user; estimates have 95% intervals.

    Parameters
    ----------
    adversary, n, users : who, after how many reports, on how many users.
    collection : with several collections, those whose reports count: "joint", a name, or "without" a name; n is then in
        days, as are the reports_to fields.
    baseline : 1/k, what a random guess has; majority : share of the most common preferred pool.
    auc_pn : area under the precision / null-rate curve.
    precision : on everyone (null rate 0); precision_top1 to precision_top20 : on the most confident share.
    success_bound : what `precision` can be at most for anyone who sees these reports; 1 where nothing bounds it.
    bayes_risk_ratio, min_entropy_leakage : what the reports reveal, at the prior of the users.
    bayes_security : the Bayes security at the prior where it is least.
    ece : mean gap of confidence and success; ece_null_p95 : the most that chance explains.
    brier : mean squared gap of confidence and success.
    confident_50, confident_90, confident_95 : share of users about whom the adversary is confident at n.
    exposed_50, exposed_90, exposed_95 : share of users exposed by n: about whom it has been confident by then.
    reports_to_1pct, reports_to_5pct, reports_to_10pct : reports until 1%, 5%, 10% of the users are
        exposed at confidence `exposed_at`, in the whole run; infinite where they never are.
    threshold : tau, where one was given; confident_at_threshold, precision_at_threshold : share of users about whom the
        adversary is that confident, and how often it is right about them; exposed : share of users exposed by
        n at it.
    confidence_mcse, confidence_mcse_max : where an adversary of the game samples, the standard error that this
        leaves a confidence with, in the mean over users and at most. The intervals of confident, exposed
        and reports_to fields include it.

    Examples
    --------
    >>> record = ps.summarize(outcomes, game, seed=1)[1]
    >>> record.adversary, record.n, record.users
    ('strong', 40, 200)
    >>> list(record.as_json())[:6]
    ['adversary', 'n', 'users', 'baseline', 'majority', 'auc_pn']
    """

    adversary: str
    collection: str | None = None
    n: Count
    users: Count
    baseline: Real
    majority: Real
    auc_pn: Estimate
    precision: Estimate
    precision_top1: Estimate
    precision_top5: Estimate
    precision_top10: Estimate
    precision_top20: Estimate
    success_bound: Real
    bayes_risk_ratio: UnknownEstimate
    bayes_security: UnknownEstimate
    min_entropy_leakage: Estimate
    ece: Estimate
    ece_null_p95: Real
    brier: Estimate
    confident_50: Estimate
    confident_90: Estimate
    confident_95: Estimate
    exposed_50: Estimate
    exposed_90: Estimate
    exposed_95: Estimate
    exposed_at: Real
    reports_to_1pct: Estimate
    reports_to_5pct: Estimate
    reports_to_10pct: Estimate
    threshold: Real | None = None
    confident_at_threshold: Estimate | None = None
    precision_at_threshold: UnknownEstimate | None = None
    exposed: Estimate | None = None
    confidence_mcse: Real | None = None
    confidence_mcse_max: Real | None = None

    @property
    def confident_at(self) -> float:
        """The confidence of `confident`: the threshold that was asked for, or 0.9."""
        return DEFAULT_THRESHOLD if self.threshold is None else self.threshold

    @property
    def confident(self) -> Estimate:
        """Share of users about whom the adversary is confident at n, at `confident_at`."""
        return self.confident_90 if self.confident_at_threshold is None else self.confident_at_threshold

    @property
    def exposed_share(self) -> Estimate:
        """Share of users exposed by n at `exposed_at`."""
        return self.exposed_90 if self.exposed is None else self.exposed

    @property
    def skewed(self) -> bool:
        """Whether one pool is preferred by more users than chance explains."""
        return is_skewed(self.baseline, self.majority, self.users)


def is_skewed(baseline: float, majority: float, users: int) -> bool:
    """Return whether the most common pool is preferred by more users than chance explains.

    Among evenly preferred pools one is always the most common; four standard errors are more.
    """
    skewed: bool = majority - baseline > 4 * (baseline * (1 - baseline) / users) ** 0.5
    return skewed


def prior_success(baseline: float, most: int, users: int, known: float | None = None) -> Estimate:
    """Return how often the best guess without any report is right: the most common pool where there is one, else any.

    Where it is not `known` it is estimated from the users. If they do not clearly prefer one pool (`is_skewed`), they
    may still do so, by as much as the most common one allows.
    """
    if known is not None:
        return known_value(known)
    seen = share_of(most, users)
    return seen if is_skewed(baseline, seen.value, users) else Estimate(baseline, baseline, max(baseline, seen.high))


@checked
def summarize(outcomes: pl.DataFrame, game: Game, seed: int = 0, threshold: float | None = None) -> Records[Record]:
    """Return all metrics of a game that was played.

    Parameters
    ----------
    outcomes : DataFrame
        The outcome table.
    game : Game
        What was played: it knows what each adversary has.
    seed : int
        Orders ties and draws the calibration's replicas. It need not be the seed of the users.
    threshold : float, optional
        tau: a confidence of your own from which the adversary counts as confident; the game's where absent.

    Returns
    -------
    Records
        One per adversary and n, in order of appearance.

    Examples
    --------
    >>> records = ps.summarize(outcomes, game, seed=1)
    >>> [(record.adversary, record.n, round(record.auc_pn.value, 2)) for record in records]
    [('strong', 10, 0.76), ('strong', 40, 0.89), ('non-private', 10, 0.92), ('non-private', 40, 0.98)]
    """
    if threshold is not None and not 0 <= threshold <= 1:
        raise InputError("threshold must be from 0 to 1", value=threshold)
    check_outcomes(outcomes, game)
    records, threshold = [], game.threshold if threshold is None else threshold
    for rows in outcomes.partition_by("adversary", "n", maintain_order=True):
        adversary, n = str(rows["adversary"][0]), int(rows["n"][0])
        # Sums in one order: the rows of the table may come in any, the last digit may not.
        records.append(record_of(by_user(rows), AttackCounts.of(rows, n), adversary, n, game, seed, threshold))
    return Records(records)


def check_outcomes(outcomes: pl.DataFrame, game: Game) -> None:
    """Refuse a table that is not of this game: columns that lack, adversaries that it does not have."""
    needed = ("adversary", "n", "confidence", *counted_columns(game.threshold))
    for name in needed:
        if name not in outcomes.columns:
            remedy = "take what poolscope.play returns" if name in needed[:5] else "play the game with this threshold"
            raise InputError(f"outcomes must have a column {name!r}", value=outcomes.columns, remedy=remedy)
    for adversary in outcomes["adversary"].cast(pl.String).unique(maintain_order=True).to_list():
        if adversary not in game.pool_counts:
            remedy = did_you_mean(str(adversary), game.pool_counts)
            raise InputError("outcomes must be of the game's adversaries", value=adversary, remedy=remedy)
    if not outcomes["n"].dtype.is_integer():
        raise InputError("n of outcomes must be integers", value=str(outcomes["n"].dtype))
    confidence = outcomes["confidence"]
    if not (confidence.dtype.is_numeric() and confidence.is_between(0, 1).fill_null(False).all()):
        raise InputError("confidence of outcomes must be numbers from 0 to 1", value=str(confidence.dtype))


def counted_columns(threshold: float | None) -> tuple[str, ...]:
    """Return the columns of the outcome table of a game that are counted, and need not be held."""
    return ("pool", "guess", *exposed_columns(threshold))


@dataclass
class AttackCounts:
    """What of an attack can be counted part by part.

    Parameters
    ----------
    confusion_counts : users by pool and guess.
    exposed : users exposed by n, by the column that says so.
    firsts : users by the report that exposed them, at the game's threshold, else at 0.9; infinity for those who never
        were. Three times: as it is, and with posteriors more and less by their Monte Carlo standard error.
    groups : the same of the users who met each estimate of the popularity; empty where users are independent.
    """

    confusion_counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    exposed: Counter[str] = field(default_factory=Counter)
    firsts: dict[str, Counter[float]] = field(default_factory=lambda: {end: Counter() for end in MCSE_SUFFIXES})
    groups: dict[int, AttackCounts] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: pl.DataFrame, n: int) -> AttackCounts:
        """Return some rows after n reports, from their `counted_columns`."""
        if ESTIMATE in rows.columns and not rows[ESTIMATE].null_count():
            every = cls()
            for (estimate,), some in rows.partition_by(ESTIMATE, include_key=False, as_dict=True).items():
                every.groups[int(estimate)] = cls.of(some, n)
                every._count(every.groups[int(estimate)])
            return every
        columns = [name for name in (*EXPOSED.values(), EXPOSED_AT_THRESHOLD) if name in rows.columns]
        own = EXPOSED_AT_THRESHOLD if EXPOSED_AT_THRESHOLD in columns else EXPOSED[DEFAULT_THRESHOLD]

        exposed = Counter(
            {
                name + end: int(exposed_by(rows, column, n).sum())
                for name in columns
                for end, column in mcse_columns(rows, name)
            }
        )
        firsts = {end: first_exposed(rows, column)[0] for end, column in mcse_columns(rows, own)}
        return cls(confusion_counts(rows), exposed, firsts)

    def __iadd__(self, other: AttackCounts) -> AttackCounts:
        self._count(other)
        for estimate, own in other.groups.items():
            self.groups.setdefault(estimate, AttackCounts())._count(own)
        return self

    def _count(self, other: AttackCounts) -> None:
        self.confusion_counts.update(other.confusion_counts)
        self.exposed.update(other.exposed)
        for end, firsts in other.firsts.items():
            self.firsts[end].update(firsts)

    @property
    def parts(self) -> list[AttackCounts]:
        """The users who met each estimate; all of them where they are independent."""
        return [self.groups[estimate] for estimate in sorted(self.groups)] or [self]

    def share_exposed(self, column: str) -> Estimate:
        """Return the share of the users exposed by n, as the column says."""
        users = [part.confusion_counts.total() for part in self.parts]
        effect = effect_of_share([part.exposed[column] for part in self.parts], users)
        return widen_interval(*(share_of(self.exposed[column + end], sum(users), effect) for end in MCSE_SUFFIXES))

    def reports_until(self, share: float) -> Estimate:
        """Return the number of reports until that share of the users is exposed."""
        return widen_interval(
            *(reports_until([part.firsts[end] for part in self.parts], share) for end in reversed(MCSE_SUFFIXES))
        )

    def min_security(self, k: int, seed: int) -> Estimate:
        """The least Bayes security; the widest design effect of how often a pool is guessed of its users holds."""
        pools = self.pools
        effect = max(
            effect_of_share(
                [one.confusion_counts[pool, pool] for one in self.parts], [one.pools[pool] for one in self.parts]
            )
            for pool in pools
        )
        return min_security_of(self.confusion_counts, k, seed, effect)

    @property
    def pools(self) -> Counter[str]:
        """Users of each pool."""
        users: Counter[str] = Counter()
        for (pool, _), some in self.confusion_counts.items():
            users[pool] += some
        return users

    @property
    def correlation(self) -> float:
        """Of the guess and the most common pool in being right about the same user; 0 where either never varies."""
        pools = self.pools
        common, most = max(pools.items(), key=lambda pool: (pool[1], pool[0]))
        users, right = (
            pools.total(),
            sum(some for (pool, guess), some in self.confusion_counts.items() if pool == guess),
        )
        spread = right * (users - right) * most * (users - most)
        return (users * self.confusion_counts[common, common] - right * most) / spread**0.5 if spread else 0.0


def _share_of(column: str) -> str:
    """Return the field of the share of users of whom a column says by how many reports they were exposed."""
    return "exposed" if column == EXPOSED_AT_THRESHOLD else column.replace("exposed_at", "exposed")


def record_of(
    rows: pl.DataFrame,
    counted: AttackCounts,
    adversary: str,
    n: int,
    game: Game | AttributeGame,
    seed: int,
    threshold: float | None = None,
) -> Record:
    """Return all metrics of one adversary at one n, from its rows in order of the users.

    The rows need no more than ``confidence`` and ``correct``, and the error of the first where it has one: there may be
    millions.
    """
    correct, _, groups = ranked(rows, seed)
    k, known = game.pool_counts[adversary], game.prior_success(adversary)
    users, baseline = rows.height, 1 / k
    most = max(counted.pools.values())
    precision, together = precision_of(correct, 1.0, groups), counted.correlation
    prior = prior_success(baseline, most, users, known)
    estimates = {name: precision_of(correct, top, groups) for name, top in TOPS.items()}
    estimates |= {name: confident(rows, level) for level, name in CONFIDENT.items()}
    # a threshold that nobody played with is one of confidences, not of who was exposed
    columns = exposed_columns(threshold if threshold == game.threshold else None)
    estimates |= {_share_of(name): counted.share_exposed(name) for name in columns}
    estimates |= {name: counted.reports_until(share) for name, share in EXPOSING.items()}
    chance = confidence_mcse(rows) if CONFIDENCE_MCSE in rows.columns else None
    return Record(
        adversary=adversary,
        collection=None,
        n=n,
        users=users,
        baseline=baseline,
        majority=most / users,
        auc_pn=auc_of(correct, groups),
        precision=precision,
        # where no prior is stated, the best that anyone can know of these users is how many prefer each pool
        success_bound=mean_success_bound(
            game.epsilon(adversary),
            *game.policy.linkable_count_distribution(n),
            most / users if known is None else known,
        ),
        bayes_risk_ratio=security_of(precision, prior, together),
        bayes_security=counted.min_security(k, seed),
        min_entropy_leakage=leakage_of(precision, prior, together),
        ece=ece(rows, seed),
        ece_null_p95=ece_null_p95(rows, seed),
        brier=brier(rows),
        exposed_at=DEFAULT_THRESHOLD if game.threshold is None else game.threshold,
        threshold=threshold,
        confident_at_threshold=None if threshold is None else confident(rows, threshold),
        precision_at_threshold=None if threshold is None else precision_at_threshold(rows, threshold),
        confidence_mcse=None if chance is None else float(chance.mean()),
        confidence_mcse_max=None if chance is None else float(chance.max()),
        **estimates,
    )
