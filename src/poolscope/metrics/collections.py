"""What several collections of one person reveal together, and what each adds: records with 95% intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf

import numpy as np
import polars as pl
from numpy.typing import NDArray

from poolscope.core.arrays import Floats
from poolscope.devices.policy import ReportingPolicy
from poolscope.game.collections import JOINT, WITHOUT, Collection, JointGame
from poolscope.game.columns import LOG_ODDS, NON_PRIVATE
from poolscope.mechanisms.multidimensional import SMP, SPL, Multidimensional
from poolscope.metrics.bounds import CumulativeEpsilon, epsilon_of
from poolscope.metrics.composition import mean_composed_bound
from poolscope.metrics.exposure import exposed_by, mcse_columns
from poolscope.metrics.intervals import TAIL, Clusters, Estimate, clusters_of, share_of_users, widen_interval
from poolscope.metrics.models import Count, FlatRecord, Real, Result, UnknownEstimate, result
from poolscope.metrics.records import Record
from poolscope.metrics.text import percent


@result
class CollectionRecord(Result):
    """A collection of a run: its mechanism, its ε over time, and its link to the attribute.

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
    >>> weak = {"name": "weak", "popularity": "uniform"}
    >>> scenario = ps.load_scenario("apple-collections").replace({"adversary": [weak], "attack.observations": [3]})
    >>> summary = ps.audit(scenario, "run", users=20, seed=1, html=False)
    >>> [(one.adversary, one.n, one.exposed_at) for one in summary.collections.exposures]
    [('weak', 3, 0.9), ('non-private', 3, 0.9)]
    """

    adversary: str
    n: Count
    users: Count
    exposed_at: Real
    exposed: Estimate
    singly: Estimate
    only_jointly: UnknownEstimate


@result
class TupleEpsilon(Result):
    """The values of ε of a mechanism for several attributes.

    kind : "spl", "smp", "rs+fd" or "rs+rfd"; attributes : their number.
    epsilon : holds for whole tuples, exactly; claimed_epsilon : what the literature states.
    single_attribute_epsilon : exact for two tuples that differ in one attribute.

    Examples
    --------
    >>> rsfd = ps.mechanisms.RSFD.claiming({"a": 8, "b": 5, "c": 4}, claimed_epsilon=2.0)
    >>> found = ps.check(rsfd, samples=1000, seed=1).multidimensional
    >>> round(found.epsilon, 3), round(found.claimed_epsilon, 3), round(found.single_attribute_epsilon, 3)
    (3.004, 2.0, 2.238)
    """

    kind: str
    attributes: Count
    epsilon: Real
    claimed_epsilon: Real
    single_attribute_epsilon: Real


@result
class SampledAttribute(FlatRecord):
    """How often an adversary guesses which attribute of a report was sampled, by the end of day n.

    correct : mean over users of the share of their reports; baseline : 1/d, without reports.

    Examples
    --------
    >>> scenario = ps.load_scenario("apple-collections").replace({"attack.observations": [3]})
    >>> ps.audit(scenario, "run", users=20, seed=1, html=False).collections.sampled_attributes
    ()
    """

    adversary: str
    n: Count
    users: Count
    correct: Estimate
    baseline: Real


@result
class CollectionsSummary(Result):
    """The collections of a run, and what each adds to the others.

    multidimensional : the values of ε of whole tuples where all collections are sent in one report, else None.
    sampled_attributes : guesses of the sampled attribute, where reports hide it.
    epsilon_day, epsilon_year : sums over all collections; None where a collection memoizes, as those do not add up.
    cautions : which adversaries assume another link than the true one and are overconfident, in sentences.

    Examples
    --------
    >>> scenario = ps.load_scenario("apple-collections").replace({"attack.observations": [3]})
    >>> summary = ps.audit(scenario, "run", users=20, seed=1, html=False)
    >>> summary.collections.attribute, summary.collections.epsilon_day, summary.collections.epsilon_year
    ('leaning', 12.0, 4380.0)
    """

    attribute: str
    collections: tuple[CollectionRecord, ...]
    multidimensional: TupleEpsilon | None = None
    sampled_attributes: tuple[SampledAttribute, ...] = ()
    epsilon_day: Real | None = None
    epsilon_year: Real | None = None
    contributions: tuple[Contribution, ...]
    exposures: tuple[JointExposure, ...]
    cautions: tuple[str, ...] = ()


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
    """Return the sum over collections of the ε per "day" or "year"; None where one is not known."""
    spent = [getattr(record.epsilon, period) for record in records]
    return None if any(epsilon is None for epsilon in spent) else float(sum(spent))


def success_bound_of(game: JointGame, used: NDArray[np.bool_], adversary: str, day: int) -> float:
    """Return the bound for any adversary on the reports of some collections by the end of a day."""
    if (
        game.tuples is not None
        and game.policy is not None
        and not (isinstance(game.tuples, SPL) and game.policy.sampling_rate == 1)
    ):
        return _tuple_bound(game, game.tuples, game.policy, used, adversary, day)
    chosen = [collection for collection, counts in zip(game.collections, used, strict=True) if counts]
    epsilons = [collection.game.epsilon(adversary) for collection in chosen]
    events = [int(collection.events(np.array([day]))[0]) for collection in chosen]
    sent = [c.game.policy.linkable_count_distribution(n) for c, n in zip(chosen, events, strict=True)]
    return mean_composed_bound(epsilons, sent, float(game.prior.max()))


def _tuple_bound(
    game: JointGame,
    mechanism: Multidimensional,
    policy: ReportingPolicy,
    used: NDArray[np.bool_],
    adversary: str,
    day: int,
) -> float:
    """Return the bound for any adversary on tuple reports; of SPL and SMP, on the attributes that are used."""
    part = float(np.mean(used))
    epsilon = inf if adversary == NON_PRIVATE else mechanism.epsilon * (part if isinstance(mechanism, SPL) else 1.0)
    if isinstance(mechanism, SMP):
        policy = replace(policy, sampling_rate=policy.sampling_rate * part)
    events = int(game.collections[0].events(np.array([day]))[0])
    return mean_composed_bound([epsilon], [policy.linkable_count_distribution(events)], float(game.prior.max()))


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


def paired_difference(one: NDArray[np.bool_], other: NDArray[np.bool_], groups: Clusters | None = None) -> Estimate:
    r"""Return the share of users of whom `one` holds minus that of whom `other` does, both (users,), of the same users.

    With b users of whom only `one` holds and c of whom only `other` does, the interval is that of a normal distribution
    after half a user is added to each of the four cells:

    .. math:: \frac{b - c}{N + 2} \pm 1.96 \frac{\sqrt{b + c + 1 - (b - c)^2 / (N + 2)}}{N + 2}

    The half users keep it open where nobody differs. Groups widen it (`Clusters`).

    References
    ----------
    A. Agresti and Y. Min. Simple improved confidence intervals for comparing matched proportions. Statistics in
    Medicine 24, 2005.
    """
    from scipy import special

    users, gained = len(one), one.astype(np.float64) - other
    value, more = float(gained.mean()), users + 2
    middle = float(gained.sum()) / more
    effect = groups.design_effect(gained - value) if groups else 1.0
    spread = (float(np.abs(gained).sum()) + 1 - more * middle**2) / more**2
    margin = float(special.ndtri(1 - TAIL)) * float(np.sqrt(effect * spread))
    return Estimate(value, max(-1.0, min(value, middle - margin)), min(1.0, max(value, middle + margin)))


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


def overconfidence_of(game: JointGame, record: Record, confidence: float) -> list[str]:
    """Return one sentence if an adversary assumes another link than the true one and is overconfident, else nothing.

    record : its attack on all collections; confidence : the mean over the same users. A calibration error that chance
    explains is none.
    """
    names = [own.name for own in game.collections if record.adversary in own.assumed]
    gap = confidence - record.precision.value
    if not names or gap <= 0 or record.ece.value <= record.ece_null_p95:
        return []
    return [
        f"The {record.adversary} adversary assumes another link for {' and '.join(names)} than the true one. It is "
        f"overconfident: mean confidence {percent(confidence)}, correct {percent(record.precision.value)}."
    ]


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
