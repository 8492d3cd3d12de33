"""The game of several collections of one person: an attribute, and in each collection a pool that depends on it.

Observation counts are days. Every collection is a game of its own, with its own reports per day, and the adversaries
of all are the same. Outcomes are those of all collections jointly, of each alone, and of all but one.

With a mechanism for tuples, an event has a value in every collection, and all are sent in one report. SPL sends a
report of each collection. SMP sends one of them, so that the reports of a collection are a part of the events. RS+FD
and RS+RFD send one and fakes for the others: their reports have a likelihood of their own (`inference.tuples`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arrays import Floats, Integers, Keys, Objects
from poolscope.core.executors import Local
from poolscope.core.machine import available_memory
from poolscope.core.randomness import KeyStream, children, collection_keys, user_keys
from poolscope.devices.policy import ReportedEvents, ReportingPolicy
from poolscope.devices.protocols import fresh_keys
from poolscope.game.columns import NON_PRIVATE
from poolscope.game.game import BLOCK_BYTES, MEMORY_SHARE, Game
from poolscope.inference.adversary import Adversary
from poolscope.inference.attack import attack_for
from poolscope.kernels.random import uniforms
from poolscope.mechanisms.fake_data import SampledWithFakes
from poolscope.mechanisms.multidimensional import SMP, Multidimensional
from poolscope.population.behavior import draw_traces, draw_users
from poolscope.population.universe import Universe

JOINT, WITHOUT = "joint", "without "
"""Names of all collections together, and of all but one."""


def events_by(days: Integers, events_per_day: float) -> Integers:
    """Return the number of events by the end of each day; rates such as 0.1 have rounding errors."""
    events: Integers = np.floor(days * events_per_day + 1e-9).astype(np.int64)
    return events


@dataclass(frozen=True, kw_only=True, eq=False)
class Collection:
    """One collection: its game, whose pools are evenly preferred, and the link to the attribute.

    Parameters
    ----------
    link : (values, pools) the probability that each pool is preferred, given the value.
    assumed : the link that each adversary assumes, where it is another one.
    """

    name: str
    game: Game
    link: Floats
    assumed: Mapping[str, Floats] = field(default_factory=dict)

    @property
    def events_per_day(self) -> float:
        """Events per day, one where the policy does not say."""
        return self.game.policy.reports_per_day or 1.0

    def events(self, days: Integers) -> Integers:
        """Return the number of events by the end of each day."""
        return events_by(days, self.events_per_day)

    def reports_by(self, sent: ReportedEvents, days: Integers) -> Integers:
        """Return (users, days) the number of reports by the end of each day."""
        events = np.minimum(self.events(days), self.game.horizon)
        if self.game.policy.sampling_rate == 1:
            return np.minimum(events, sent.lengths[:, None])
        sent_by = np.zeros((len(sent.lengths), self.game.horizon + 1), dtype=np.int64)
        user, report = np.nonzero(sent.mask)
        sent_by[user, sent.event_index[user, report] + 1] = 1
        found: Integers = np.cumsum(sent_by, axis=1)[:, events]
        return found


@dataclass(frozen=True, kw_only=True, eq=False)
class AttributeGame:
    """What metrics need to know of the attacks on some of the collections.

    Its pools are the values of the attribute. Its ε is infinite, as reports of several values of ε have a bound of
    their own (`metrics.collections`).
    """

    universe: Universe
    observations: Sequence[int]
    pool_counts: Mapping[str, int]
    prior: Floats
    threshold: float | None = None
    adversaries: Sequence[Adversary] = ()
    policy: ReportingPolicy = field(default_factory=ReportingPolicy)
    allows_no_pool: bool = False

    def prior_success(self, adversary: str) -> float | None:
        """Return how often the best guess without reports is right."""
        return float(self.prior.max())

    def epsilon(self, adversary: str) -> float:
        """Return infinity: reports differ in their ε."""
        return inf


@dataclass(frozen=True, kw_only=True, eq=False)
class JointGame:
    """Everything that is fixed before the first person plays.

    Parameters
    ----------
    attribute, values : its name and its possible values; prior : (values,) their probabilities.
    collections : at least one; the adversaries of all have the same names, in the same order.
    beliefs : (values,) the prior of each adversary.
    observations : increasing days at which outcomes are recorded.
    tuples : the mechanism that sends all collections in one report; None where each sends its own.
    policy : the policy of these reports; that of a collection is its part of them.
    """

    attribute: str
    values: tuple[str, ...]
    collections: Sequence[Collection]
    prior: Floats
    beliefs: Mapping[str, Floats]
    observations: Sequence[int]
    non_private: bool = True
    threshold: float | None = None
    tuples: Multidimensional | None = None
    policy: ReportingPolicy | None = None

    recorded = None
    available_users = None

    @property
    def horizon(self) -> int:
        """The last day."""
        return self.observations[-1]

    @property
    def adversaries(self) -> Sequence[Adversary]:
        """The adversaries, as the first collection has them."""
        return self.collections[0].game.adversaries

    @property
    def pool_counts(self) -> dict[str, int]:
        """Number of values for each adversary of the outcome table."""
        names = [adversary.name for adversary in self.adversaries] + [NON_PRIVATE] * self.non_private
        return dict.fromkeys(names, len(self.values))

    @property
    def hidden(self) -> SampledWithFakes | None:
        """The mechanism for tuples if its reports hide which attribute was sampled, else None."""
        return self.tuples if isinstance(self.tuples, SampledWithFakes) else None

    @property
    def estimates(self) -> int:
        """Largest number of popularity estimates of an adversary; each plays against a group of users."""
        return max(collection.game.estimates for collection in self.collections)

    @cached_property
    def subsets(self) -> dict[str, NDArray[np.bool_]]:
        """The collections of each part of the outcomes: all, each alone, and all but one."""
        count = len(self.collections)
        alone = {one.name: np.arange(count) == c for c, one in enumerate(self.collections)}
        others = {WITHOUT + name: ~used for name, used in alone.items()} if count > 1 else {}
        return {JOINT: np.ones(count, dtype=bool), **alone, **others}

    @cached_property
    def same_subsets(self) -> dict[str, str]:
        """The first part of the outcomes with the same collections: of two, all but one is the other alone."""
        first: dict[bytes, str] = {}
        return {name: first.setdefault(used.tobytes(), name) for name, used in self.subsets.items()}

    def whole_calls(self, users: int) -> int:
        """Return a number of users per block as it is: there are no attacks of one's own."""
        return users

    def view(self) -> AttributeGame:
        """Return the game as metrics take it."""
        return AttributeGame(
            universe=Universe.sized(len(self.values), dict.fromkeys(self.values, 1)),
            observations=self.observations,
            pool_counts=self.pool_counts,
            prior=self.prior,
            threshold=self.threshold,
        )

    def belief(self, adversary: str) -> Floats:
        """Return the prior of an adversary; the non-private one has that of the users, if any adversary has it."""
        if adversary != NON_PRIVATE:
            return self.beliefs[adversary]
        known = [prior for prior in self.beliefs.values() if np.allclose(prior, self.prior, rtol=0.0, atol=1e-12)]
        return next(iter(known or reversed(list(self.beliefs.values()))), self.prior)

    def links(self, adversary: str) -> list[Floats]:
        """Return the links that an adversary assumes."""
        return [collection.assumed.get(adversary, collection.link) for collection in self.collections]

    @property
    def bytes_a_user(self) -> int:
        """Bytes of a user in a block: those of all collections, and the outcomes."""
        outcomes = 64 * len(self.observations) * len(self.pool_counts) * len(self.subsets)
        columns = [part.empty(1).nbytes for part in self.hidden.parts] if self.hidden else []
        reports = sum(columns) * self.collections[0].game.horizon
        return sum(collection.game.bytes_a_user for collection in self.collections) + outcomes + reports

    @property
    def block_users(self) -> int:
        """Users per block; fewer where little memory is available."""
        free = available_memory()
        budget = BLOCK_BYTES if free is None else min(BLOCK_BYTES, free // MEMORY_SHARE)
        limit = min(attack_for(collection.game.device).max_users for collection in self.collections)
        return int(np.clip(budget // self.bytes_a_user, 1, limit))


@dataclass(frozen=True, kw_only=True, eq=False)
class Persons:
    """Some people: keys, attribute (an index of the values), and in each collection keys, behavior and reports."""

    keys: Keys
    attribute: Integers
    collection_keys: list[Keys]
    gamma: list[Floats]
    delta: list[Floats]
    pools: list[Integers]
    sent: list[ReportedEvents]


def draw_persons(game: JointGame, users: range, seed: int, engine: Local) -> Persons:
    """Draw people with these numbers: an attribute, and in each collection a behavior, a trace and its reports.

    The keys of a collection derive from the person's key and the collection's index, so that another collection changes
    none of these draws.
    """
    keys = user_keys(seed, np.arange(users.start, users.stop))
    attribute = _drawn(children(keys, KeyStream.ATTRIBUTE), np.broadcast_to(game.prior, (len(keys), len(game.values))))
    found: dict[str, list[Any]] = {name: [] for name in ("collection_keys", "gamma", "delta", "pools", "sent")}
    for index, collection in enumerate(game.collections):
        own, one = collection_keys(keys, index), collection.game
        pool = _drawn(children(own, KeyStream.LINK), collection.link[attribute])
        drawn = replace(draw_users(one.universe, one.behavior, own), iota=pool)
        traces = draw_traces(one.universe, one.popularity, drawn, one.horizon, sigma=one.sigma, threads=engine.map)
        found["collection_keys"].append(own)
        found["gamma"].append(drawn.gamma)
        found["delta"].append(drawn.delta)
        found["pools"].append(pool)
        found["sent"].append(_reported(game, index, np.ascontiguousarray(traces), keys, own))
    return Persons(keys=keys, attribute=attribute, **found)


def _reported(game: JointGame, index: int, traces: Objects, persons: Keys, own: Keys) -> ReportedEvents:
    """Return what is sent of a collection: by its own policy, or of the person's tuples."""
    policy = game.collections[index].game.policy
    if game.tuples is None:
        return policy.select_events(traces, own)
    if not isinstance(game.tuples, SMP):
        return policy.select_events(traces, persons)
    # one draw decides which collection is sent
    assert game.policy is not None
    sent = game.policy.select_events(traces, persons)
    which = game.tuples.sampled(fresh_keys(persons[:, None], sent.event_index).ravel()).reshape(sent.objects.shape)
    chosen = sent.mask & (which == index)
    lengths = chosen.sum(axis=1)
    longest = max(1, int(lengths.max(initial=0)))
    order = np.argsort(~chosen, axis=1, kind="stable")[:, :longest]
    beyond = np.arange(longest) >= lengths[:, None]
    return replace(
        sent,
        objects=np.take_along_axis(sent.objects, order, axis=1),
        event_index=np.where(beyond, traces.shape[1], np.take_along_axis(sent.event_index, order, axis=1)),
        lengths=lengths,
    )


def _drawn(keys: Keys, probability: Floats) -> Integers:
    """Draw an index for each key, from its row of probabilities (users, values)."""
    draws = np.empty(len(keys))
    uniforms(keys, 0, draws)
    cumulative = np.cumsum(probability, axis=1)
    index: Integers = (cumulative <= (draws * cumulative[:, -1])[:, None]).sum(axis=1)
    # values without any probability at the end are never drawn, whatever the rounding
    last = probability.shape[1] - 1 - (probability[:, ::-1] > 0).argmax(axis=1)
    drawn: Integers = np.minimum(index, last).astype(np.int64)
    return drawn
