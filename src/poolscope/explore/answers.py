"""Answer settings of the explorer: from few users at once, then from more.

Estimates of the popularity, which take seconds, are cached. The users of a seed are the same in every sample, so the
answer from N users equals `play` and `summarize` with N users of the setting's scenario.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from poolscope.core.arrays import Floats, Map
from poolscope.core.executors import Local
from poolscope.core.randomness import collection_seed
from poolscope.game.blocks import AnyGame, play_block, users_to_play
from poolscope.game.collections import JointGame
from poolscope.game.columns import EXPOSED, EXPOSED_AT_THRESHOLD, NON_PRIVATE
from poolscope.game.game import Game, blocks, in_order
from poolscope.inference.adversary import Adversary
from poolscope.inference.thresholds import DEFAULT_THRESHOLD
from poolscope.mechanisms.protocols import Mechanism
from poolscope.metrics.bounds import CumulativeEpsilon, describe_epsilon, devices_in_words, epsilon_of
from poolscope.metrics.exposure import exposure
from poolscope.metrics.pools import PoolRecord, pool_records, pool_sums
from poolscope.metrics.precision import behavior_map, by_user, precision_curve, select
from poolscope.metrics.records import AttackCounts, Record, record_of
from poolscope.metrics.text import strongest_attack, summary_text, unit_of
from poolscope.metrics.usefulness import STANDS_OUT, PoolUsefulness, standard_errors, usefulness_by_pool
from poolscope.population.behavior import NONE
from poolscope.scenario.build import adversary_of, build_adversary, build_game, other_pools
from poolscope.scenario.collections import build_joint_game, played_parts
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.compare import true_frequencies

MAX_GAMES = 64
"""Largest number of cached popularity estimates."""


class Games:
    """Builds games and caches the popularity estimates of their adversaries, which take a second or two each."""

    def __init__(self) -> None:
        self._estimates: OrderedDict[str, list[Floats]] = OrderedDict()
        self._estimate = threading.Lock()

    def without_pending_estimates(self, scenario: Scenario, seed: int) -> tuple[Game, list[str]]:
        """Return the game without adversaries whose estimate is pending, and their names."""
        waiting = [a.name for i, a in enumerate(scenario.adversaries) if not self._ready(scenario, i, seed)]
        return self._game(scenario, seed, waiting, Local()), waiting

    def complete(self, scenario: Scenario, seed: int, engine: Local) -> Game:
        """Return the scenario's own game, with all estimates."""
        return self._game(scenario, seed, [], engine)

    def against(self, scenario: Scenario, seed: int, adversary: str, engine: Local) -> Game:
        """Return the scenario's game with one of its adversaries."""
        others = [a.name for a in scenario.adversaries if a.name != adversary]
        return replace(self._game(scenario, seed, others, engine), non_private=False)

    def joint_without_pending_estimates(self, scenario: Scenario, seed: int) -> tuple[JointGame, list[str]]:
        """Return the game of several collections without adversaries who estimate in any of them, and their names."""
        pending = {
            adversary.name
            for c, part in enumerate(played_parts(scenario))
            for i, adversary in enumerate(part.adversaries)
            if not self._ready(part, i, collection_seed(seed, c))
        }
        waiting = [adversary.name for adversary in scenario.adversaries if adversary.name in pending]
        return self._joint(scenario, seed, waiting, Local()), waiting

    def joint_complete(self, scenario: Scenario, seed: int, engine: Local) -> JointGame:
        """Return the game of several collections, with all estimates."""
        return self._joint(scenario, seed, [], engine)

    def _joint(self, scenario: Scenario, seed: int, without: list[str], engine: Local) -> JointGame:
        def build(part: Scenario, own_seed: int, _: Map) -> Game:
            return self._game(part, own_seed, without, engine)

        game = build_joint_game(scenario, seed, build=build)
        return replace(game, non_private=game.non_private or not game.adversaries)

    def _game(self, scenario: Scenario, seed: int, without: list[str], engine: Local) -> Game:
        assert scenario.attack is not None
        known = [a.name for a in scenario.adversaries if a.popularity != "estimated"]
        entries = scenario.to_dict().get("adversary", [])
        few = {"adversary": [entry for entry in entries if entry["name"] in known]}
        # a game without adversaries must be non-private
        more = {} if known else {"attack.non_private": True}
        game = build_game(scenario.replace(few | more), seed)
        there = {a.name: a for a in game.adversaries}
        chosen = [
            there.get(entry.name) or self._estimating(scenario, index, game, seed, engine)
            for index, entry in enumerate(scenario.adversaries)
            if entry.name not in without
        ]
        return replace(game, adversaries=chosen, non_private=scenario.attack.non_private or not chosen)

    def _estimating(self, scenario: Scenario, index: int, game: Game, seed: int, engine: Local) -> Adversary:
        key, entry, recorded = _key(scenario, index, seed), scenario.adversaries[index], game.recorded
        # one at a time: pages may need the same estimate, and an estimate takes memory
        with self._estimate:
            if key not in self._estimates:
                popularity = game.popularity if scenario.popularity_table else None
                estimates = scenario.attack.estimates if scenario.attack else 1
                parts = game.universe, popularity, game.mechanism, seed, engine.map, recorded, estimates
                found = build_adversary(scenario, index, *parts)
                self._estimates[key] = [one.popularity for one in (found, *found.redraws)]
                while len(self._estimates) > MAX_GAMES:
                    self._estimates.popitem(last=False)
            believed = self._estimates[key]
        pools, fitted = other_pools(entry, game.universe), recorded.fitted if recorded else None
        return adversary_of(entry, pools, believed, fitted)

    def _ready(self, scenario: Scenario, index: int, seed: int) -> bool:
        return scenario.adversaries[index].popularity != "estimated" or _key(scenario, index, seed) in self._estimates


def _key(scenario: Scenario, index: int, seed: int) -> str:
    """Return everything that an estimate depends on; for recorded users, the whole scenario."""
    tables = scenario.to_dict()
    if scenario.users is None or scenario.users.traces is None:
        entry = {name: tables["adversary"][index].get(name) for name in ("popularity", "estimate_from", "method")}
        tables = {name: tables.get(name) for name in ("universe", "popularity", "mechanism")} | {"adversary": entry}
        tables["estimates"] = scenario.attack.estimates if scenario.attack else None
    return json.dumps([scenario.file, tables, index, seed], sort_keys=True, default=str)


SAMPLE_SIZES = (48, 256, 1000, 4000)
"""Sample sizes of successive answers."""

FIRST_MEMOIZED_SAMPLE = 8
"""First sample size with memoization, which is slower to attack."""

BLOCK = 256
"""Users simulated between two checks for a stop request."""

CURATOR_DEVICES = 1_000_000
"""Number of devices of the analytical RMSE."""

CURVE_POINTS = 60

FEW_CELLS, CELLS, MANY = (5, 5), (10, 10), 1000
"""Cells of the behavior map for few and many users, and the number of users that is many."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The results of a setting.

    Parameters
    ----------
    users : how many played; n : after how many reports the adversaries guess.
    results : a record of each adversary at n; strongest_attack : the best attack among them.
    exposure : of each private adversary by every number of reports; curves : precision against null rate at n;
        map : precision by behavior, of the strongest_attack's adversary.
    words : the summary; unit : what n counts; epsilon, devices : what is sent, in numbers and in words.
    rmse : analytical error of a frequency from `CURATOR_DEVICES` devices after n events, with their cap and sampling;
        None without a closed form. reports_each : of each device by then; n_above : objects above twice their error.
    by_pool : the strongest attack on the users of each pool; seen : what stands out from the error in each pool.
    waiting : adversaries who still estimate a popularity and are not in it.
    pools : their names.
    """

    users: int
    n: int
    results: tuple[Record, ...]
    strongest_attack: Record
    exposure: pl.DataFrame
    curves: pl.DataFrame
    map: pl.DataFrame
    words: str
    unit: str
    epsilon: CumulativeEpsilon
    devices: tuple[str, ...]
    rmse: float | None
    reports_each: float
    n_above: int | None
    seen: tuple[PoolUsefulness, ...]
    by_pool: tuple[PoolRecord, ...]
    waiting: tuple[str, ...]
    pools: tuple[str, ...]


class PlayedUsers:
    """The users of a game simulated so far, in which a device memoizes or not."""

    def __init__(self, game: AnyGame, n: int, seed: int, engine: Local, memoizes: bool) -> None:
        self._played, self._n, self._seed, self._engine, self._memoizes = game, n, seed, engine, memoizes
        self._parts: list[pl.DataFrame] = []
        self.users = 0

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the sample sizes of successive answers."""
        return (FIRST_MEMOIZED_SAMPLE, *SAMPLE_SIZES) if self._memoizes else SAMPLE_SIZES

    @property
    def _outcomes(self) -> pl.DataFrame:
        """All outcomes, in order of adversary, n and user."""
        return in_order(pl.concat(self._parts))

    def grow(self, users: int) -> None:
        """Simulate up to this many users, or all recorded ones."""
        most = users_to_play(self._played, users) or users
        size = min(BLOCK, self._played.block_users)
        for some in blocks(max(0, most - self.users), size):
            shifted = range(self.users + some.start, self.users + some.stop)
            self._parts.append(play_block(self._played, shifted, self._seed, engine=self._engine))
        self.users = max(self.users, most)


class Sample(PlayedUsers):
    """The users of a game of a single collection simulated so far."""

    def __init__(self, game: Game, n: int, seed: int, engine: Local) -> None:
        super().__init__(game, n, seed, engine, game.device.memoizes)
        self._game = game

    def record(self, adversary: str) -> Record:
        """Return the results of one adversary."""
        return self._record(by_user(select(self._outcomes, adversary, self._n)), adversary)

    def _record(self, rows: pl.DataFrame, adversary: str) -> Record:
        counted = AttackCounts.of(rows, self._n)
        return record_of(rows, counted, adversary, self._n, self._game, self._seed, self._game.threshold)

    def _exposure(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the share of exposed users by every number of reports, at the threshold alone."""
        game = self._game
        level = DEFAULT_THRESHOLD if game.threshold is None else game.threshold
        return exposure(rows, game.horizon, game.threshold).filter(pl.col("threshold") == level)

    def _by_pool(self, rows: pl.DataFrame, adversary: str) -> list[PoolRecord]:
        """Return the results of one adversary on the users of each pool."""
        game = self._game
        attacker = next((a for a in game.adversaries if a.name == adversary), game.reference)
        names = (*attacker.universe.pool_names, *([NONE] if game.allows_no_pool else []))
        level, column = DEFAULT_THRESHOLD, EXPOSED[DEFAULT_THRESHOLD]
        if game.threshold is not None:
            level, column = game.threshold, EXPOSED_AT_THRESHOLD
        return pool_records([pool_sums(rows, self._n, column)], adversary, self._n, names, level)

    def answer(self, waiting: Sequence[str] = ()) -> Answer:
        """Return the results of these users."""
        game, outcomes = self._game, self._outcomes
        rows = {name: by_user(select(outcomes, name, self._n)) for name in game.pool_counts}
        results = [self._record(some, name) for name, some in rows.items()]
        best = strongest_attack(results)
        private = [name for name in rows if name != NON_PRIVATE] or list(rows)
        k = game.pool_counts[best.adversary]
        return Answer(
            users=self.users,
            n=self._n,
            results=tuple(results),
            strongest_attack=best,
            exposure=pl.concat(_of(name, self._exposure(rows[name])) for name in private),
            curves=pl.concat(
                _of(name, precision_curve(some, self._seed, CURVE_POINTS), self._n) for name, some in rows.items()
            ),
            map=_of(
                best.adversary,
                behavior_map(rows[best.adversary], k, CELLS if self.users >= MANY else FEW_CELLS),
                self._n,
            ),
            words=summary_text(results, {a.name: a.phrase for a in game.adversaries}, unit=unit_of(game.policy)),
            unit=unit_of(game.policy),
            epsilon=epsilon_of(game),
            devices=(describe_epsilon([epsilon_of(game)], game.policy), *devices_in_words(game)),
            **curator_error(game, self._n),
            by_pool=tuple(self._by_pool(rows[best.adversary], best.adversary)),
            waiting=tuple(waiting),
            pools=game.universe.pool_names,
        )


def curator_error(game: Game, n: int) -> dict[str, Any]:
    """Return the error of a frequency after n events of each device, and how many objects stand out from it."""
    each, popularity = game.policy.mean_reports(n), true_frequencies(game)
    frequency = popularity / popularity.sum()
    errors = errors_of(game.mechanism, popularity, each, game.device.memoizes)
    return {
        "rmse": None if errors is None else rms(errors),
        "reports_each": each,
        "n_above": None if errors is None else int((frequency > STANDS_OUT * errors).sum()),
        "seen": () if errors is None else tuple(usefulness_by_pool(game.universe, frequency, errors)),
    }


def errors_of(mechanism: Mechanism, popularity: Floats, each: float, memoizes: bool) -> Floats | None:
    """Return the error of every frequency after some reports of each device; memoized responses repeat their noise."""
    independent = min(1.0, each) if memoizes else each
    return standard_errors(mechanism, popularity / popularity.sum(), CURATOR_DEVICES, independent)


def rms(errors: Floats) -> float:
    """Return the root of the mean square."""
    return float(np.sqrt(np.mean(np.square(errors))))


def _of(adversary: str, table: pl.DataFrame, n: int | None = None) -> pl.DataFrame:
    """Return the table of an attack with its adversary and n."""
    named = [pl.lit(adversary).alias("adversary"), *([] if n is None else [pl.lit(n).alias("n")])]
    return table.select(*named, pl.all())
