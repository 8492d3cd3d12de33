"""What several collections of one person reveal together, and what each adds: records with 95% intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from poolscope.core.arrays import Floats
from poolscope.game.collections import JOINT, WITHOUT, Collection, JointGame
from poolscope.game.columns import LOG_ODDS, NON_PRIVATE
from poolscope.metrics.bounds import CumulativeEpsilon, epsilon_of
from poolscope.metrics.composition import mean_composed_bound
from poolscope.metrics.exposure import exposed_by, mcse_columns
from poolscope.metrics.intervals import TAIL, Clusters, Estimate, clusters_of, share_of_users, widen_interval
from poolscope.metrics.models import Count, FlatRecord, Real, Result, UnknownEstimate, result
from poolscope.metrics.text import percent


@result
class CollectionRecord(Result):
    """A collection of a run: its mechanism, its epsilon over time, and its link to the attribute.

    link : Pr[preferred pool | value], a row for each value; pools : the columns.

    Examples
    --------
    >>> scenario = ps.load_scenario("apple-collections").replace({"attack.observations": [3]})
    >>> summary = ps.audit(scenario, "run", users=20, seed=1, html=False)
    >>> [(one.name, one.mechanism, one.epsilon.day) for one in summary.collections.collections]
    [('emojis', 'cms', 4.0), ('domains', 'cms', 8.0)]
    """

    name: str
    mechanism: str
    epsilon: CumulativeEpsilon
    pools: list[str]
    link: list[list[float]]


@result
class Contribution(FlatRecord):
    """What one collection adds to the others: its leave-one-out difference, after n days.

    log_odds : mean over users of the log-odds of the true value, jointly minus without the collection, in nats.
    exposes : share of the users exposed jointly by n whom this collection exposes alone.

    Examples
    --------
    >>> scenario = ps.load_scenario("apple-collections").replace({"attack.observations": [3]})
    >>> summary = ps.audit(scenario, "run", users=20, seed=1, html=False)
    >>> first = summary.collections.contributions[0]
    >>> first.adversary, first.collection, first.log_odds.low <= first.log_odds.value <= first.log_odds.high
    ('weak', 'emojis', True)
    """

    adversary: str
    n: Count
    collection: str
    users: Count
    log_odds: Estimate
    exposes: UnknownEstimate


@result
class JointExposure(FlatRecord):
    """Who is exposed by all collections together and by no single one, after n days.

    exposed : share of users exposed jointly; only_jointly : share of these whom no single collection exposes;
    singly : share of users whom at least one collection exposes alone.

    Examples
    --------
    >>> scenario = ps.load_scenario("apple-collections").replace({"attack.observations": [3]})
    >>> summary = ps.audit(scenario, "run", users=20, seed=1, html=False)
    >>> [(one.adversary, one.n, one.exposed_at) for one in summary.collections.exposures]
    [('weak', 3, 0.9), ('strong', 3, 0.9), ('non-private', 3, 0.9)]
    """

    adversary: str
    n: Count
    users: Count
    exposed_at: Real
    exposed: Estimate
    singly: Estimate
    only_jointly: UnknownEstimate


@result
class CollectionsSummary(Result):
    """The collections of a run, and what each adds to the others.

    epsilon_day, epsilon_year : sums over all collections; None where a collection memoizes, as its epsilons do not add.

    Examples
    --------
    >>> scenario = ps.load_scenario("apple-collections").replace({"attack.observations": [3]})
    >>> summary = ps.audit(scenario, "run", users=20, seed=1, html=False)
    >>> summary.collections.attribute, summary.collections.epsilon_day, summary.collections.epsilon_year
    ('leaning', 12.0, 4380.0)
    """

    attribute: str
    collections: tuple[CollectionRecord, ...]
    epsilon_day: Real | None = None
    epsilon_year: Real | None = None
    contributions: tuple[Contribution, ...]
    exposures: tuple[JointExposure, ...]


def collection_record(collection: Collection, kind: str) -> CollectionRecord:
    """Return the record of a collection."""
    return CollectionRecord(
        name=collection.name,
        mechanism=kind,
        epsilon=epsilon_of(collection.game),
        pools=list(collection.game.universe.pool_names),
        link=collection.link.tolist(),
    )


def total_epsilon(records: Sequence[CollectionRecord], period: str) -> float | None:
    """Return the sum over collections of the epsilon per "day" or "year"; None where one is not known."""
    spent = [getattr(record.epsilon, period) for record in records]
    return None if any(epsilon is None for epsilon in spent) else float(sum(spent))


def success_bound_of(game: JointGame, used: NDArray[np.bool_], adversary: str, day: int) -> float:
    """Return the bound for any adversary on the reports of some collections by the end of a day."""
    chosen = [collection for collection, counts in zip(game.collections, used, strict=True) if counts]
    epsilons = [collection.game.epsilon(adversary) for collection in chosen]
    events = [int(collection.events(np.array([day]))[0]) for collection in chosen]
    sent = [c.game.policy.linkable_count_distribution(n) for c, n in zip(chosen, events, strict=True)]
    return mean_composed_bound(epsilons, sent, float(game.prior.max()))


def mean_of(values: Floats, groups: Clusters | None) -> Estimate:
    """Return a mean that nothing bounds, with the interval of Student's t; groups widen it (`Clusters`)."""
    from scipy import special

    users, mean = len(values), float(values.mean())
    if users < 2:
        return Estimate(mean, -np.inf, np.inf)
    influence = values - mean
    effect = groups.design_effect(influence) if groups else 1.0
    margin = float(special.stdtrit(users - 1, 1 - TAIL)) * float(np.sqrt(effect * influence.var(ddof=1) / users))
    return Estimate(mean, mean - margin, mean + margin)


def collections_text(about: CollectionsSummary) -> str:
    """Return the users exposed by all collections together, beside those whom a single one exposes."""
    private = [row for row in about.exposures if row.adversary != NON_PRIVATE] or list(about.exposures)
    last = max(row.n for row in private)
    row = max((row for row in private if row.n == last), key=lambda row: row.exposed.value)
    who = f"After {last:,} days, all collections together expose {percent(row.exposed.value)} of the users"
    text = f"{who} to the {row.adversary} adversary; single collections expose {percent(row.singly.value)}."
    if not row.exposed.value:
        return text
    return f"{text} No single collection exposes {percent(row.only_jointly.value)} of those exposed jointly."


def collection_columns(column: str, known: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of the outcomes from which contributions are computed."""
    ends = [name for _, name in mcse_columns(pl.DataFrame(schema=list(known)), column)]
    return tuple(dict.fromkeys([LOG_ODDS, *ends]))


def contributions_of(
    rows: Mapping[str, pl.DataFrame], adversary: str, n: int, column: str, threshold: float
) -> tuple[list[Contribution], JointExposure]:
    """Return what each collection adds, and who is exposed by all together only.

    rows : for each subset of the collections, its rows of one adversary after n days in order of the users.
    column : the first day of exposure at the threshold.
    """
    joint, groups = rows[JOINT], clusters_of(rows[JOINT])
    names = [name for name in rows if name != JOINT and not name.startswith(WITHOUT)]
    together = exposed_by(joint, column, n)
    alone = {name: exposed_by(rows[name], column, n) for name in names}
    anyone = np.logical_or.reduce(list(alone.values()))
    among = groups and groups[together]
    found = []
    for name in names:
        gain = joint[LOG_ODDS].to_numpy()
        if WITHOUT + name in rows:
            gain = gain - rows[WITHOUT + name][LOG_ODDS].to_numpy()
        found.append(
            Contribution(
                adversary=adversary,
                n=n,
                collection=name,
                users=joint.height,
                log_odds=mean_of(gain, groups),
                exposes=share_of_users(alone[name][together], among),
            )
        )
    exposed = widen_interval(
        *(share_of_users(exposed_by(joint, own, n), groups) for _, own in mcse_columns(joint, column))
    )
    return found, JointExposure(
        adversary=adversary,
        n=n,
        users=joint.height,
        exposed_at=threshold,
        exposed=exposed,
        singly=share_of_users(anyone, groups),
        only_jointly=share_of_users(~anyone[together], among),
    )
