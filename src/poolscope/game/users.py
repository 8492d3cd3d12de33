"""The users of a game: drawn, recorded or of a population of one's own; and what their devices send."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from poolscope.core.arguments import checked
from poolscope.core.arrays import Integers, Keys, Map, Objects
from poolscope.core.dask import Dask
from poolscope.core.errors import InputError, check_count
from poolscope.core.executors import Engine, Local
from poolscope.core.randomness import user_keys
from poolscope.devices.policy import ReportedEvents, ReportingPolicy
from poolscope.inference.custom import calibrate, needs_calibration
from poolscope.mechanisms.protocols import Reports
from poolscope.population.behavior import Preferences, Truth, draw_traces, draw_users, later_pools, preferences
from poolscope.population.population import checked_objects, preferences_of
from poolscope.population.universe import Universe

if TYPE_CHECKING:
    from poolscope.game.game import Game

#: Number of the first held-out user, and how many calibrate the scores of an attack.
FIRST_HELD_OUT, HELD_OUT_USERS = 1 << 48, 2000


class UserTraces(NamedTuple):
    """Some users of a game: keys and names, objects (users, n), events of each, and preferences."""

    keys: Keys
    names: pl.Series
    traces: Objects
    lengths: Integers | None
    truth: Truth


class BlockUsers(NamedTuple):
    """Some users of a game: their numbers, keys and names, their preferences, and what their devices send."""

    numbers: Integers
    keys: Keys
    names: pl.Series
    truth: Truth
    sent: ReportedEvents

    def some(self, rows: Integers) -> BlockUsers:
        """Return some of the users."""

        def truth(universe: Universe) -> Preferences:
            found = self.truth(universe)
            return Preferences(found.iota[rows], found.gamma[rows], found.delta[rows])

        return BlockUsers(self.numbers[rows], self.keys[rows], self.names[rows], truth, self.sent[rows])


def user_traces(game: Game, users: range, seed: int, n: int, threads: Map = map) -> UserTraces:
    """Return the users with these numbers, up to n events of each."""
    keys = user_keys(seed, np.arange(users.start, users.stop))
    if game.population is not None:
        own = game.population.draw(users, keys, n)
        checked_objects(own, game.universe)
        return UserTraces(
            keys,
            own.names,
            own.traces,
            own.lengths,
            lambda pools: preferences_of(own, game.universe, pools, game.observations),
        )
    if game.recorded:
        some = game.recorded[users]
        return UserTraces(keys, some.names, some.traces[:, :n], None, some.preferences)
    drawn = draw_users(game.universe, game.behavior, keys)
    names = pl.Series(np.arange(users.start, users.stop, dtype=np.int64))
    traces = draw_traces(
        game.universe,
        game.popularity,
        drawn,
        n,
        sigma=game.sigma,
        habits=game.habits,
        change=game.change,
        threads=threads,
    )

    def truth(pools: Universe) -> Preferences:
        first = preferences(game.universe, game.popularity, drawn, pools)
        if game.change is None:
            return first
        later = replace(drawn, iota=later_pools(game.universe, game.change, drawn))
        second = preferences(game.universe, game.popularity, later, pools)
        changed = np.asarray(game.observations) > game.change.after
        iota, gamma, delta = (np.where(changed, b[:, None], a[:, None]) for a, b in zip(first, second, strict=True))
        return Preferences(iota, gamma, delta)

    return UserTraces(keys, names, traces, None, truth)


def users_of_block(game: Game, users: range, seed: int, engine: Local) -> BlockUsers:
    """Return the users with these numbers, drawn or recorded, and what their devices send."""
    found = user_traces(game, users, seed, game.horizon, engine.map)
    sent = game.policy.select_events(np.ascontiguousarray(found.traces), found.keys, found.lengths)
    return BlockUsers(np.arange(users.start, users.stop), found.keys, found.names, found.truth, sent)


@dataclass(frozen=True, kw_only=True, eq=False)
class SimulatedTruth:
    """The true preferences of simulated users.

    Parameters
    ----------
    pool : (users,) number of the preferred pool; (users, observations) where preferences change.
    gamma, delta : relevant interest and polarization, of the same shape.
    pool_names : names of the pools, and "none" where users may prefer no pool.
    keys : (users,) the users' keys, by which `outcomes_of` breaks ties as `play` does.

    Examples
    --------
    >>> ps.simulate(game, users=5, seed=1).truth.pool_names
    ('a', 'b', 'c')
    """

    pool: Integers
    gamma: np.ndarray
    delta: np.ndarray
    pool_names: tuple[str, ...]
    keys: Keys


@dataclass(frozen=True, kw_only=True, eq=False)
class Simulated:
    """The users of a game and what their devices send; see `simulate`.

    Parameters
    ----------
    traces : (users, horizon) the objects of each user's events.
    reports : columns of all reports, user after user.
    lengths : (users,) reports of each user.
    truth : the true preferences.
    keys : (users,) the users' keys, from which traces and reports are drawn.

    Examples
    --------
    >>> drawn = ps.simulate(game, users=5, seed=1)
    >>> drawn.traces.shape, drawn.lengths.tolist()
    ((5, 40), [40, 40, 40, 40, 40])
    """

    traces: Objects
    reports: Reports
    lengths: Integers
    truth: SimulatedTruth
    keys: Keys


@checked
def simulate(game: Game, users: int, seed: int) -> Simulated:
    """Return traces, reports and true preferences of users 0..users-1: those that `play` attacks with the same seed.

    Examples
    --------
    >>> drawn = ps.simulate(game, users=100, seed=1)
    >>> posterior = ps.posterior(mechanism, drawn.reports, strong, lengths=drawn.lengths, observations=[10, 40])
    >>> outcomes = ps.outcomes_of("strong", posterior, drawn.truth, [10, 40])
    >>> outcomes.height
    200
    """
    check_count("users", users)
    available = game.available_users
    if available is not None and users > available:
        raise InputError(f"users must be at most the {available} of the population", value=users)
    found = user_traces(game, range(users), seed, game.horizon)
    sent = game.policy.select_events(np.ascontiguousarray(found.traces), found.keys, found.lengths)
    known = found.truth(game.universe)
    names = game.universe.pool_names + (("none",) if game.allows_no_pool else ())
    return Simulated(
        traces=found.traces,
        reports=sent.reports(game.device, found.keys),
        lengths=sent.lengths,
        truth=SimulatedTruth(pool=known.iota, gamma=known.gamma, delta=known.delta, pool_names=names, keys=found.keys),
        keys=found.keys,
    )


def check_sendable(game: Game, engine: Engine) -> None:
    """Refuse attacks, populations and devices of one's own that Dask could not send to its workers."""
    own = {f"attack {a.name!r}": a.attack for a in game.adversaries if a.attack is not None}
    own |= {"the population": game.population, "the device": game.device}
    if not isinstance(engine, Dask):
        return
    cloudpickle = import_module("cloudpickle")  # comes with Dask, which uses it
    for what, part in own.items():
        try:
            cloudpickle.dumps(part)
        except Exception as error:
            text = " ".join(str(error).split())
            remedy = "define it in a module, without locks, open files or connections"
            raise InputError(f"{what} cannot be sent to workers: {text}", remedy=remedy) from error


def calibrated(game: Game, seed: int) -> Game:
    """Return the game with all attacks that return scores calibrated on held-out users; itself where none is.

    Held-out users are drawn as the game's users are, with other keys, and report every event. Recorded users and users
    with given traces cannot be drawn: held-out users then follow the game's behavior and popularity.
    """
    if not any(needs_calibration(adversary.attack) for adversary in game.adversaries):
        return game
    fixed, policy, most = game.available_users is not None, game.policy, game.horizon
    most = min(limit for limit in (most, policy.cap, policy.rotate_after) if limit is not None)
    counts = _calibration_counts(game, most)
    every = replace(
        game,
        policy=ReportingPolicy(),
        observations=counts,
        recorded=None,
        population=None if fixed else game.population,
        behavior=game.recorded.fitted if game.recorded else game.behavior,
    )
    users = range(FIRST_HELD_OUT, FIRST_HELD_OUT + HELD_OUT_USERS)
    found = user_traces(every, users, seed, most)
    lengths = np.full(len(users), most, dtype=np.int64)
    reports = ReportingPolicy().select_events(found.traces, found.keys).reports(game.device, found.keys)
    made = []
    for adversary in game.adversaries:
        if needs_calibration(adversary.attack):
            truth = found.truth(adversary.universe).iota
            truth = np.broadcast_to(truth.reshape(len(users), -1), (len(users), len(counts)))
            adversary = calibrate(adversary, game.device, reports, lengths, counts, truth, found.keys)
        made.append(adversary)
    return replace(game, adversaries=made)


def _calibration_counts(game: Game, most: int) -> list[int]:
    """Return the numbers of reports at which scores are calibrated: those that the observation counts lead to.

    Sampled events lead to a range of numbers, and given traces to any.
    """
    rate, found = game.policy.sampling_rate, {most}
    for n in game.observations:
        deviation = (n * rate * (1 - rate)) ** 0.5
        found |= {round(n * rate + z * deviation) for z in ((-3, -1, 0, 1, 3) if rate < 1 else (0,))}
    if game.population is not None and game.available_users is not None:
        found |= {2**power for power in range(most.bit_length())}
    return sorted({min(max(count, 1), most) for count in found})


def observed_pools(truth: SimulatedTruth | Sequence[int] | Integers, users: int, observations: int) -> Integers:
    """Return (users, observations) the number of the preferred pool at each observation count."""
    pool = np.asarray(truth.pool if isinstance(truth, SimulatedTruth) else truth)
    if pool.dtype.kind not in "iu" or pool.shape not in ((users,), (users, observations)):
        raise InputError(f"truth must be the number of a pool for each of {users} users", value=pool.shape)
    return np.broadcast_to(pool.reshape(users, -1), (users, observations)).astype(np.int64)
