"""The pool inference game, played for blocks of users."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from math import inf
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from poolscope.core.arguments import as_floats, check_integers, checked, is_number
from poolscope.core.arrays import Floats, Integers, Keys, Tick
from poolscope.core.errors import InputError, check_count
from poolscope.core.executors import Engine, EngineLike, Local, as_engine
from poolscope.core.machine import available_memory
from poolscope.core.randomness import user_keys
from poolscope.devices.policy import ReportBatch, ReportingPolicy
from poolscope.devices.protocols import Device, draws_fresh
from poolscope.game.columns import NON_PRIVATE
from poolscope.game.outcomes import Attacked, Referee, joined_groups, table
from poolscope.inference.adversary import Adversary, check_adversary, view_width
from poolscope.inference.attack import attack_for
from poolscope.inference.non_private import non_private_posteriors
from poolscope.mechanisms.protocols import Mechanism
from poolscope.population.behavior import NONE, Behavior, Preferences, Truth, draw_traces, draw_users, preferences
from poolscope.population.popularity import uniform
from poolscope.population.recorded import RecordedUsers
from poolscope.population.universe import Universe

#: Bytes that a block holds, and the part of what is free that they may be; bounds the memory, changes no bit.
BLOCK_BYTES, SHARE = 448 << 20, 6


@dataclass(frozen=True, kw_only=True, eq=False)
class Game:
    """Everything that is fixed before the first user plays.

    Parameters
    ----------
    universe, popularity, behavior : the truth that synthetic users draw from.
    recorded : users who are there already, with what they picked; then nothing is drawn.
    device : what the users' devices send of the objects that are picked.
    policy : of how many of these objects, and under which pseudonyms.
    adversaries : who attacks; all see the same reports.
    observations : increasing counts of events at which outcomes are kept: of reports, where every event is reported.
    sigma : perturbation of each user's own popularity.
    non_private : whether to play the identity mechanism beside, with priors of the adversaries (`reference_belief`).
    threshold : a confidence at which users count as exposed, beside those at which they always do.

    Examples
    --------
    >>> game.horizon, game.mechanism.epsilon
    (40, 3.0)
    """

    universe: Universe
    popularity: Floats
    device: Device
    adversaries: Sequence[Adversary]
    observations: Sequence[int]
    behavior: Behavior = field(default_factory=Behavior)
    sigma: float = 0.0
    non_private: bool = True
    recorded: RecordedUsers | None = None
    policy: ReportingPolicy = field(default_factory=ReportingPolicy)
    threshold: float | None = None

    def __post_init__(self) -> None:
        check_integers("observations", self.observations, 1)
        counts = list(self.observations)
        if not counts or any(b <= a for a, b in pairwise(counts)):
            raise InputError("observations must be increasing and at least 1", value=counts)
        if not (is_number(self.sigma) and 0 <= self.sigma < inf):
            raise InputError("sigma must be finite and not negative", value=self.sigma)
        if self.threshold is not None and not (is_number(self.threshold) and 0 <= self.threshold <= 1):
            raise InputError("threshold must be a number from 0 to 1", value=self.threshold)
        for name, kind in (("universe", Universe), ("behavior", Behavior), ("policy", ReportingPolicy)):
            if not isinstance(getattr(self, name), kind):
                raise InputError(f"{name} must be a {kind.__name__}", value=getattr(self, name))
        popularity = as_floats("popularity", self.popularity)
        if popularity.shape != (self.universe.size,) or not np.all(np.isfinite(popularity) & (popularity >= 0)):
            rule = f"popularity must be a finite number of at least 0 for each of {self.universe.size} objects"
            raise InputError(rule, value=popularity.shape)
        attack_for(self.device)
        for adversary in self._sequence("adversaries"):
            check_adversary(adversary)
            if adversary.universe.size != self.universe.size:
                rule = f"the universe of adversary {adversary.name!r} must have the game's {self.universe.size} objects"
                raise InputError(rule, value=adversary.universe.size)
        if self.mechanism.universe != self.universe.size:
            raise InputError(
                f"the mechanism must be for the universe's {self.universe.size} objects",
                value=self.mechanism.universe,
            )
        if self.none and any(NONE in a.universe.pool_names for a in self.adversaries):
            raise InputError(f"no pool may be called {NONE!r} where users may prefer none", value=NONE)
        if not isinstance(self.non_private, bool):
            raise InputError("non_private must be true or false", value=self.non_private)
        if self.recorded is not None and not isinstance(self.recorded, RecordedUsers):
            raise InputError("recorded must be Recorded users", value=self.recorded)
        names = [a.name for a in self.adversaries] + [NON_PRIVATE] * self.non_private
        if not names or len(set(names)) < len(names):
            raise InputError("adversaries must be there and have names of their own", value=names)

    def _sequence(self, name: str) -> Sequence[Any]:
        values = getattr(self, name)
        if not isinstance(values, Sequence):
            raise InputError(f"{name} must be a list", value=values)
        return values

    @property
    def mechanism(self) -> Mechanism:
        """What a report by itself comes from."""
        return self.device.mechanism

    @property
    def horizon(self) -> int:
        """The largest observation count."""
        return self.observations[-1]

    @property
    def pool_counts(self) -> dict[str, int]:
        """Number of hypotheses of each adversary of the outcome table: its pools, and none where it holds that."""
        counts = {a.name: len(a.hypotheses) for a in self.adversaries}
        return counts | ({NON_PRIVATE: len(self.reference.hypotheses)} if self.non_private else {})

    @property
    def none(self) -> bool:
        """Whether users may prefer no pool, or an adversary holds that they may."""
        return bool(self.behavior.none or any(a.belief.none for a in self.adversaries))

    @property
    def estimates(self) -> int:
        """Estimates of the popularity that an adversary has at most, each met by a group of users."""
        return max((1 + len(a.redraws) for a in self.adversaries), default=1)

    @property
    def reference(self) -> Adversary:
        """The non-private adversary, who sees the objects themselves."""
        belief, popularity = self.reference_belief, uniform(self.universe)
        return Adversary(name=NON_PRIVATE, universe=self.universe, popularity=popularity, belief=belief)

    @property
    def reference_belief(self) -> Behavior:
        """The priors of the non-private adversary: those of an adversary who has the users' own, else the last one's.

        With the users' own priors no attack on reports of the same objects is better on average. Adversaries with pools
        of their own answer another question and do not count. Without any other the priors are uniform.
        """
        k, truth = self.universe.k, self.recorded.fitted if self.recorded else self.behavior
        beliefs = [a.belief for a in self.adversaries if np.array_equal(a.universe.pool_of, self.universe.pool_of)]
        for belief in beliefs:
            same = np.allclose(belief.pool_prior(k), truth.pool_prior(k), rtol=0.0, atol=1e-12)
            if same and belief.polarization == truth.polarization and belief.none == truth.none:
                return belief
        return beliefs[-1] if beliefs else Behavior()

    def prior_guess(self, adversary: str) -> float | None:
        """How often the best guess without reports is right; None of recorded users and of an adversary's own pools."""
        own = next((a.universe for a in self.adversaries if a.name == adversary), self.universe)
        if self.recorded is not None or not np.array_equal(own.pool_of, self.universe.pool_of):
            return None
        return float(self.behavior.hypothesis_prior(self.universe.k).max())

    def epsilon(self, adversary: str) -> float:
        """Of each report that an adversary sees, drawn anew; infinite of objects, and where devices keep answers."""
        fresh = draws_fresh(self.device) and adversary != NON_PRIVATE
        return float(self.mechanism.epsilon) if fresh else inf

    @property
    def block_users(self) -> int:
        """Users to a block; fewer where little memory is left, as in a small container."""
        free = available_memory()
        budget = BLOCK_BYTES if free is None else min(BLOCK_BYTES, free // SHARE)
        return int(np.clip(budget // self.bytes_a_user, 1, attack_for(self.device).max_users))

    @property
    def bytes_a_user(self) -> int:
        """What a block holds of a user: support masses, and outcomes."""
        width = view_width(self.adversaries) + 4
        return 8 * self.horizon * width + 64 * len(self.observations) * len(self.pool_counts)


@checked
def play(
    game: Game,
    users: int,
    seed: int,
    *,
    engine: EngineLike | None = None,
    tick: Tick | None = None,
) -> pl.DataFrame:
    """Outcomes of users 0..users-1: the same for any engine, and for any user whatever their number.

    The table is held in memory; `ps.audit` plays any number of users into files.

    Examples
    --------
    >>> outcomes = ps.play(game, users=200, seed=1)
    >>> outcomes.height, outcomes["adversary"].unique().sort().to_list()
    (800, ['strong', 'non-private'])
    """
    check_count("users", users)
    engine = as_engine(engine)
    return in_order(play_blocks(game, blocks(users, game.block_users), seed, engine, tick))


def play_blocks(game: Game, todo: Iterable[range], seed: int, engine: Engine, tick: Tick | None = None) -> pl.DataFrame:
    """Outcomes of blocks of users, wherever the engine plays them, held in memory."""
    return pl.concat(engine.tasks(_play_some, (game, seed), todo, tick))


def _play_some(shared: tuple[Game, int], users: range, engine: Local, tick: Tick) -> pl.DataFrame:
    game, seed = shared
    return play_block(game, users, seed, tick, engine)


def in_order(outcomes: pl.DataFrame) -> pl.DataFrame:
    """By adversary as given, observation count, user."""
    return outcomes.sort("adversary", "n", "user", maintain_order=True)


def blocks(users: int, size: int) -> Iterator[range]:
    """Users in blocks of that size."""
    for start in range(0, users, size):
        yield range(start, min(start + size, users))


def play_block(
    game: Game, users: range, seed: int, tick: Tick | None = None, engine: Local | None = None
) -> pl.DataFrame:
    """Outcomes of some users: truth, traces, reports, likelihoods, posteriors, guesses.

    The engine's threads share each of these steps, so that what a hash function's reports have in common is tabulated
    once for all users of the block.
    """
    engine, tick = engine or Local(threads=1), tick or (lambda _: None)
    met = players(game, users, seed, engine)
    if game.estimates == 1:
        attacked = list(_attacked(game, game.adversaries, met, game.non_private, engine, tick))
    else:
        estimate = estimate_of(np.arange(users.start, users.stop), game.estimates)
        groups = []
        for number in np.unique(estimate):
            rows = np.flatnonzero(estimate == number)
            own = [adversary.with_estimate(int(number)) for adversary in game.adversaries]
            groups.append((rows, list(_attacked(game, own, met.some(rows), False, engine, tick))))
        redrawn = [bool(adversary.redraws) for adversary in game.adversaries]
        attacked = joined_groups(groups, estimate, redrawn)
        if game.non_private:
            attacked += _attacked(game, [], met, True, engine, lambda _: None)
    return table(met.names, game.observations, attacked, recorded=game.recorded is not None)


def estimate_of(users: Integers, estimates: int) -> Integers:
    """Which of an adversary's estimates each user meets, by the user's number.

    However many users play, each estimate is met by nearly as many of them: with G estimates, the numbers from G 2^r to
    G 2^(r+1) are cut into G runs. Long runs let the users of a block share what their reports have in common.
    """
    rounds = np.maximum(users // estimates, 1)
    power = np.floor(np.log2(rounds)).astype(np.int64)
    first = np.where(users < estimates, 0, estimates << power)
    out: Integers = (users - first) >> power
    return out


class Players(NamedTuple):
    """Some users of a game: their keys and names, what they prefer, and what their devices send."""

    keys: Keys
    names: pl.Series
    truth: Truth
    sent: ReportBatch

    def some(self, rows: Integers) -> Players:
        """These of the users."""

        def truth(universe: Universe) -> Preferences:
            found = self.truth(universe)
            return Preferences(found.iota[rows], found.gamma[rows], found.delta[rows])

        return Players(self.keys[rows], self.names[rows], truth, self.sent[rows])


def players(game: Game, users: range, seed: int, engine: Local) -> Players:
    """The users of these numbers, drawn or recorded."""
    keys = user_keys(seed, np.arange(users.start, users.stop))
    if game.recorded:
        some = game.recorded[users]
        names, traces = some.names, some.traces[:, : game.horizon]
        truth: Truth = some.preferences
    else:
        drawn = draw_users(game.universe, game.behavior, keys)
        names = pl.Series(np.arange(users.start, users.stop, dtype=np.int64))
        traces = draw_traces(game.universe, game.popularity, drawn, game.horizon, sigma=game.sigma, threads=engine.map)
        truth = partial(preferences, game.universe, game.popularity, drawn)
    return Players(keys, names, truth, game.policy.sent(np.ascontiguousarray(traces), keys))


def _attacked(
    game: Game, adversaries: Sequence[Adversary], met: Players, non_private: bool, engine: Local, tick: Tick
) -> Iterator[Attacked]:
    """Obfuscate what is sent once and let every adversary attack the same reports."""
    sent, left = met.sent, 1.0
    referee = Referee(
        keys=met.keys,
        truth=met.truth,
        sent=sent,
        observations=game.observations,
        threads=engine.map,
        tick=tick,
        threshold=game.threshold,
        none=game.none,
    )
    if adversaries:
        attack = attack_for(game.device)
        found = attack.posteriors(sent, met.keys, adversaries, game.observations, engine, tick)
        left = 1.0 - attack.prepared
        for adversary, posteriors in zip(adversaries, found, strict=True):
            yield referee.judge(adversary, posteriors, left / len(adversaries))
        left = 0.0
    if non_private:
        reference = game.reference
        yield referee.judge(reference, non_private_posteriors(game.universe, sent, reference.belief), left)
