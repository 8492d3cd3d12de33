"""Simulate one user of several collections: the reports of all in order of time, and the posterior after every one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poolscope.core.arrays import Floats, Integers
from poolscope.core.errors import InputError, did_you_mean
from poolscope.core.executors import Local
from poolscope.explore.one_user import MAX_USERS, NEUTRAL, counts_of, in_words, strongest_events, supports_of
from poolscope.game.collections import Collection, JointGame, Persons, draw_persons
from poolscope.game.game import popularity_draw_of
from poolscope.inference.adversary import Adversary
from poolscope.inference.attack import attack_for
from poolscope.inference.joint import joint_scores, linked, log_odds, normalized
from poolscope.inference.thresholds import DEFAULT_THRESHOLD


@dataclass(frozen=True, kw_only=True)
class JointStep:
    """A report of a user.

    Parameters
    ----------
    event : its number among the reports of all collections, from 1; collection, day : whose it is, and when, from 1.
    object, pool : what was picked, of which pool; report : what was sent, in words.
    support : how much each value is supported by this report alone, shares that add up to 1.
    posterior : what the adversary believes afterwards; evidence : what it added to the log odds of the true value.
    """

    event: int
    collection: str
    day: int
    object: str
    pool: str
    report: str
    support: tuple[float, ...]
    posterior: tuple[float, ...]
    evidence: float


@dataclass(frozen=True, kw_only=True)
class Preference:
    """What a user prefers in a collection: the pool, relevant interest and polarization."""

    collection: str
    pool: str
    gamma: float
    delta: float


@dataclass(frozen=True, kw_only=True)
class JointHistory:
    """A user of several collections, and the posterior of the attribute after each report.

    Parameters
    ----------
    pools, preferred : the values of the attribute, and the user's; attribute : its name.
    preferences : of the user in each collection.
    facts : the reports with the largest Bayes factors, by rank.
    threshold : the confidence from which on a user is exposed; exposed_after : the first report with it; None: none.
    """

    user: int
    adversary: str
    attribute: str
    pools: tuple[str, ...]
    preferred: str
    preferences: tuple[Preference, ...]
    prior: tuple[float, ...]
    steps: tuple[JointStep, ...]
    facts: tuple[int, ...]
    threshold: float
    exposed_after: int | None


@dataclass(frozen=True, kw_only=True, eq=False)
class _Observed:
    """The reports of one collection up to a day: words and support of each, and the evidence after any number."""

    day: Integers
    objects: Integers
    words: list[str]
    support: Floats
    evidence: Floats


def joint_user_history(
    game: JointGame, user: int, seed: int, adversary: str | None = None, days: int | None = None
) -> JointHistory:
    """Return the history of a user up to the end of a day; the last adversary attacks by default."""
    if not 0 <= user < MAX_USERS:
        raise InputError("there is no such user", value=user, place="user")
    names = [one.name for one in game.adversaries]
    if not names:
        raise InputError("there is no adversary who sees reports", place="adversary")
    if adversary is not None and adversary not in names:
        raise InputError("unknown adversary", value=adversary, place="adversary", remedy=did_you_mean(adversary, names))
    name, last = adversary or names[-1], min(game.horizon, days or game.horizon)
    persons = draw_persons(game, range(user, user + 1), seed, Local(threads=1))
    (estimate,) = popularity_draw_of(np.array([user]), game.estimates)
    links, prior, truth = game.links(name), game.belief(name), persons.attribute
    seen = []
    for c, collection in enumerate(game.collections):
        looking = collection.game.adversaries[names.index(name)].with_estimate(int(estimate))
        seen.append(_observed(collection, persons, c, looking, links[c], last))
    steps: list[JointStep] = []
    done = np.zeros(len(seen), dtype=np.int64)
    rotations = [collection.game.policy.rotate_after for collection in game.collections]

    def scores(counts: Integers) -> Floats:
        evidence = np.stack([one.evidence[count] for one, count in zip(seen, counts.tolist(), strict=True)])
        return joint_scores(evidence[None], prior)

    # by day; on the same day, collections in their order
    order = sorted((int(day), c, i) for c, one in enumerate(seen) for i, day in enumerate(one.day))
    start = normalized(scores(done), prior)[0]
    for event, (day, c, i) in enumerate(order, start=1):
        own, collection = seen[c], game.collections[c]
        before = done.copy()
        window = rotations[c]
        if window is not None and i % window == 0:
            before[c] = 0
        done[c] = i + 1
        after = scores(done)
        universe, picked = collection.game.universe, int(own.objects[i])
        pool = int(universe.pool_of[picked])
        steps.append(
            JointStep(
                event=event,
                collection=collection.name,
                day=day,
                object=universe.objects[picked] if universe.objects else str(picked),
                pool=NEUTRAL if pool < 0 else universe.pool_names[pool],
                report=own.words[i],
                support=tuple(own.support[i].tolist()),
                posterior=tuple(normalized(after, prior)[0].tolist()),
                evidence=float(log_odds(after, truth)[0] - log_odds(scores(before), truth)[0]),
            )
        )
    threshold = DEFAULT_THRESHOLD if game.threshold is None else game.threshold
    return JointHistory(
        user=user,
        adversary=name,
        attribute=game.attribute,
        pools=game.values,
        preferred=game.values[int(truth[0])],
        preferences=tuple(_preferences(game, persons)),
        prior=tuple(start.tolist()),
        steps=tuple(steps),
        facts=strongest_events(steps),
        threshold=threshold,
        exposed_after=next((one.event for one in steps if max(one.posterior) >= threshold), None),
    )


def _observed(
    collection: Collection, persons: Persons, index: int, looking: Adversary, link: Floats, days: int
) -> _Observed:
    """Return what one adversary sees of one collection by the end of a day."""
    game, sent, keys = collection.game, persons.sent[index], persons.collection_keys[index]
    counts = counts_of(game.horizon, not game.device.memoizes)
    attack = attack_for(game.device).posteriors(sent, keys, [looking], counts, Local(threads=1), lambda _: None)
    count = int(collection.reports_by(sent, np.array([days]))[0, 0])
    posterior = attack[0].compute(slice(0, 1))[0][0][: count + 1]
    reports = {name: column[:count] for name, column in sent.reports(game.device, keys).items()}
    support = linked(supports_of(game, reports, looking), link)
    total = support.sum(axis=1, keepdims=True)
    # the first day by whose end the event has happened
    events = sent.event_index[0, :count] + 1
    return _Observed(
        day=np.ceil(events / collection.events_per_day - 1e-9).astype(np.int64),
        objects=sent.objects[0, :count],
        words=in_words(reports, game.mechanism.report_columns, game.universe),
        support=np.divide(support, total, out=np.full_like(support, 1 / support.shape[1]), where=total > 0),
        evidence=linked(posterior, link),
    )


def _preferences(game: JointGame, persons: Persons) -> list[Preference]:
    return [
        Preference(
            collection=collection.name,
            pool=collection.game.universe.pool_names[int(persons.pools[c][0])],
            gamma=float(persons.gamma[c][0]),
            delta=float(persons.delta[c][0]),
        )
        for c, collection in enumerate(game.collections)
    ]
