"""A choice of mechanism and epsilon, played: by which event each user is exposed.

How many users a trial may have where one takes long: devices that keep answers, before whoever knows of it.

A user of such a device takes from a hundredth of a second to many seconds, by mechanism and number of reports. So a few
are played first and timed, and trials get as many as the time for an advice allows. That is a fact of the machine:
whoever wants the same advice everywhere asks for `users`, who are then played however long they take.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from poolscope.core.arrays import Floats, Integers
from poolscope.core.executors import Engine, Local
from poolscope.core.progress import Progress
from poolscope.game.columns import ESTIMATE, EXPOSED_AT_THRESHOLD
from poolscope.game.game import Game, blocks, play_block, play_blocks
from poolscope.inference.adversary import Adversary
from poolscope.metrics.intervals import Estimate, clopper_pearson, effect_of_share, share_of
from poolscope.metrics.provenance import checksum
from poolscope.scenario.build import build_game
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.advise.question import KEEPING, Question
from poolscope.workflows.compare import variants

#: How far a play goes beyond the asked number of events, to see which cap would do.
BEYOND = 2

#: How often the adversary of devices with memory looks, and where that takes long.
LOOKS, FEW_LOOKS = 3, 2


@dataclass(frozen=True, kw_only=True, eq=False)
class Exposures:
    """By which event each user is exposed, (users,), infinity: by none up to the horizon; and what users are like.

    Parameters
    ----------
    looks : the events at which exposure is seen; None: at all of them.
    estimate : which of the adversary's estimates of the popularity each user met, (users,); None: all the same one.
    """

    first: Floats
    gamma: Floats
    delta: Floats
    horizon: int
    estimate: Integers | None = None
    looks: tuple[int, ...] | None = None

    @property
    def users(self) -> int:
        return len(self.first)

    def share(self, n: int) -> Estimate:
        """Of users exposed by n; its interval is wider where estimates of the popularity differ in what they expose."""
        return share_of(int((self.first <= n).sum()), self.users, self.design_effect(n))

    def design_effect(self, n: int) -> float:
        """How many times fewer independent users would say as much of the share, as users share estimates."""
        if self.estimate is None:
            return 1.0
        return effect_of_share(np.bincount(self.estimate, self.first <= n), np.bincount(self.estimate))

    def cap(self, target: float) -> Estimate:
        """The largest n up to the horizon by which no more users than the target are exposed.

        The ends are where the interval of the share reaches the target.
        """
        found = self.counts()
        value = largest(found / self.users, target)
        effect = self.design_effect(value)
        low, high = clopper_pearson(found / effect, self.users / effect)
        return Estimate(float(value), float(largest(high, target)), float(largest(low, target)))

    def counts(self) -> Floats:
        """Count the users exposed by 0, 1, 2, ... events up to the horizon; linear between looks.

        Exposure grows faster than linearly, so that the count between two looks is no smaller than it would be seen.
        """
        reached = self.first[self.first <= self.horizon].astype(np.int64)
        found = np.cumsum(np.bincount(reached, minlength=self.horizon + 1)).astype(np.float64)
        if self.looks is None:
            return found
        seen = [0, *self.looks]
        between: Floats = np.interp(np.arange(self.horizon + 1), seen, found[seen])
        return between

    def first_users(self, count: int) -> Exposures:
        """Of the first users."""
        return self.of(np.arange(self.users) < count)

    def of(self, some: NDArray[np.bool_]) -> Exposures:
        """Of some of the users."""
        estimate = None if self.estimate is None else self.estimate[some]
        return replace(self, first=self.first[some], gamma=self.gamma[some], delta=self.delta[some], estimate=estimate)

    def __add__(self, other: Exposures) -> Exposures:
        """Of both groups of users."""
        both = None
        if self.estimate is not None and other.estimate is not None:
            both = np.concatenate([self.estimate, other.estimate])
        return replace(
            self,
            first=np.concatenate([self.first, other.first]),
            gamma=np.concatenate([self.gamma, other.gamma]),
            delta=np.concatenate([self.delta, other.delta]),
            estimate=both,
        )


def largest(shares: Floats, target: float) -> int:
    """Find the largest number of events whose share of exposed users is at most the target."""
    return max(0, int((shares <= target).sum()) - 1)


def exposures_of(outcomes: pl.DataFrame, adversary: Adversary, game: Game) -> Exposures:
    """What the outcomes of a game with a threshold say of one adversary."""
    rows = outcomes.filter((pl.col("adversary") == adversary.name) & (pl.col("n") == game.horizon)).sort("user")
    first = rows[EXPOSED_AT_THRESHOLD].cast(pl.Float64).fill_null(float("inf"))
    grouped = game.device.memoizes and adversary.knows_memoization
    return Exposures(
        first=first.to_numpy(),
        gamma=rows["gamma"].to_numpy(),
        delta=rows["delta"].to_numpy(),
        horizon=game.horizon,
        estimate=rows[ESTIMATE].to_numpy().astype(np.int64) if adversary.redraws else None,
        looks=tuple(game.observations) if grouped else None,
    )


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How hard a mechanism is tried.

    Parameters
    ----------
    users : who play a trial at most; beyond : how often the asked number of events they play.
    seconds : core seconds that each takes, up to the asked number; None where nobody looked.
    """

    users: int
    beyond: int = 1
    seconds: float | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Players:
    """The scenario as it is asked about: one adversary, its threshold, devices without a cap.

    Parameters
    ----------
    scenario : reduced to that, see `players_of`.
    seed : the users of all trials hang from it, so that choices are told apart and not users.
    engine, progress : where they play, and who is told.
    efforts : of mechanisms whose devices keep answers, by which the adversary groups reports.
    digests : checksums of the outcomes of all plays, in order.
    """

    scenario: Scenario
    question: Question
    seed: int
    engine: Engine
    progress: Progress
    efforts: Mapping[str, Effort] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)

    def horizon(self, kind: str) -> int:
        """Events that trials of a mechanism are played to."""
        assert self.scenario.attack is not None
        effort = self.efforts.get(kind)
        return self.scenario.attack.observations[-1] if effort is None else effort.beyond * self.question.horizon

    def max_users(self, kind: str) -> int:
        """Users of a trial of a mechanism at most."""
        effort = self.efforts.get(kind)
        return self.question.users if effort is None else effort.users

    def hurried(self, kind: str) -> bool:
        """Whether users of a mechanism take so long that few can play: too few for fine steps and many cases."""
        effort = self.efforts.get(kind)
        return effort is not None and effort.seconds is not None and effort.users < KEEPING

    def looks(self, kind: str, horizon: int, memory: bool) -> list[int]:
        """After how many events the adversary of a mechanism is asked, see the function."""
        times = FEW_LOOKS if self.hurried(kind) else LOOKS
        return looks(horizon, min(horizon, self.question.horizon), memory, times)

    def variant(self, kind: str, epsilon: float, horizon: int | None = None) -> Scenario:
        """The scenario with a mechanism at an epsilon, played as far as trials are, or to another horizon."""
        (variant,) = variants(self.scenario, [kind], [epsilon])
        counts = self.looks(kind, horizon or self.horizon(kind), variant.memoizes)
        return variant.replace({"attack.observations": counts})

    def game(self, kind: str, epsilon: float, horizon: int | None = None) -> Game:
        """The game of a mechanism at an epsilon, see `variant`."""
        return build_game(self.variant(kind, epsilon, horizon), self.seed, self.engine.map)

    def outcomes(self, game: Game, users: range, seed: int | None = None) -> pl.DataFrame:
        """Outcomes of some users, wherever the engine plays them."""
        todo = [range(users[some.start], users[some.stop - 1] + 1) for some in blocks(len(users), game.block_users)]
        seed = self.seed if seed is None else seed
        outcomes = play_blocks(game, todo, seed, self.engine, self.progress.tick)
        self.digests[str(len(self.digests))] = checksum([outcomes])
        return outcomes

    def exposures(self, game: Game, users: range, seed: int | None = None) -> Exposures:
        """By which event some users are exposed to the first adversary of a game."""
        return exposures_of(self.outcomes(game, users, seed), game.adversaries[0], game)


def players_of(scenario: Scenario, question: Question, seed: int, engine: Engine, progress: Progress) -> Players:
    """The scenario reduced to what is asked; with recorded users no further than they go."""
    assert scenario.attack is not None
    recorded = scenario.users is not None and scenario.users.traces is not None
    horizon = question.horizon * (1 if recorded else BEYOND)
    attack = {
        "observations": [horizon],
        "threshold": question.threshold,
        "non_private": False,
        "estimates": scenario.attack.estimates,
    }
    tables = scenario.to_dict()
    entry = next(table for table in tables["adversary"] if table["name"] == question.adversary)
    devices = {key: value for key, value in tables.get("devices", {}).items() if key != "cap"}
    reduced = scenario.replace({"adversary": [entry], "attack": attack, "devices": devices})
    return Players(scenario=reduced, question=question, seed=seed, engine=engine, progress=progress)


def is_grouped(players: Players, kind: str) -> bool:
    """Whether devices of a mechanism keep answers, before an adversary who groups reports by them."""
    variant = players.variant(kind, players.question.lowest)
    return variant.memoizes and variant.adversaries[0].knows_memoization is not False


def looks(horizon: int, n: int, memory: bool, times: int = LOOKS) -> list[int]:
    """After how many events the adversary is asked: at the end, which tells all before.

    Where devices keep answers, only what is asked for is worked out, and exposure is seen at some events only.
    """
    return sorted({n, *(max(1, horizon * i // times) for i in range(1, times + 1))}) if memory else [horizon]


#: Core seconds that an advice may take, about; and how often the users of a trial are played for a mechanism, in few
#: trials and a verification.
SECONDS, PLAYS = 200.0, 6

#: Users of a trial, one of these.
USERS = (12, 25, 50, 100, KEEPING)

#: Users who are timed, or one if that takes longer than so many seconds, and the epsilon at which they are.
TIMED, ENOUGH, EPSILON = 3, 1.0, 2.0

#: How much longer it takes to play further than asked for, see `plays.BEYOND`.
FURTHER = 4.0


def with_efforts(players: Players, users: int | None, kinds: Sequence[str]) -> Players:
    """The players, with as many users for each mechanism as there is time for; those that are asked for, if any are.

    Their question then says the most that play a trial of any mechanism. `kinds` are the mechanisms that are played.
    """
    question = players.question
    slow = [kind for kind in kinds if is_grouped(players, kind)]
    efforts = {}
    for kind in slow:
        # whoever asks for users has them at once
        seconds = _seconds(players, kind) if users is None else None
        efforts[kind] = _effort(seconds, SECONDS / len(slow) / PLAYS) if seconds else Effort(users=question.users)
    timed = replace(players, efforts=efforts)
    most = max(timed.max_users(kind) for kind in kinds)
    return replace(timed, question=replace(question, users=most))


def _effort(seconds: float, share: float) -> Effort:
    """Of a user who takes so many core seconds, where there is time for so many of each play."""
    if seconds * FURTHER * KEEPING <= share:
        return Effort(users=KEEPING, beyond=BEYOND, seconds=seconds)
    most = max((count for count in USERS if count * seconds <= share), default=USERS[0])
    return Effort(users=most, seconds=seconds)


def _seconds(players: Players, kind: str) -> float:
    """Core seconds that a user of a mechanism takes, played no further than asked for."""
    question, alone = players.question, Local(threads=1)
    players.progress.stage(f"Timing {kind}, whose devices keep answers")
    game = players.game(kind, min(max(EPSILON, question.lowest), question.highest))
    # few reports compile what many need
    play_block(replace(game, observations=[min(3, question.horizon)]), range(1), players.seed, engine=alone)
    timed, seconds = replace(game, observations=looks(question.horizon, question.horizon, True, FEW_LOOKS)), 0.0
    for user in range(TIMED):
        started = time.process_time()
        play_block(timed, range(user, user + 1), players.seed, engine=alone)
        seconds += time.process_time() - started
        if seconds > ENOUGH:
            break
    return seconds / (user + 1)
