"""Games of settings that differ in little, made at once: what takes long is waited for, and made only once."""

from __future__ import annotations

import json
import threading
import tomllib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeVar

from poolscope.core.arrays import Floats
from poolscope.core.errors import PoolscopeError
from poolscope.core.executors import Local
from poolscope.game.game import Game
from poolscope.inference.adversary import Adversary
from poolscope.scenario.build import adversary_of, build_adversary, build_game, other_pools
from poolscope.scenario.scenario import Scenario, changed

Item = TypeVar("Item")
Result = TypeVar("Result")

MOST_KEPT = 64
"""Estimates of a popularity that are kept."""


class Outdated(PoolscopeError):
    """Nobody waits for the answer any more."""


@dataclass(frozen=True, kw_only=True)
class Stoppable(Local):
    """Threads of this process that leave their work where it is when they are asked to."""

    stop: threading.Event = field(default_factory=threading.Event)

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Results as they finish; an `Outdated` where nobody waits for them."""

        def unless_stopped(item: Item) -> Result:
            if self.stop.is_set():
                raise Outdated("stopped")
            return function(item)

        yield from super().map(unless_stopped, items)


class Games:
    """Makes games, and keeps what adversaries estimate: a second or two for each mechanism, epsilon and popularity."""

    def __init__(self) -> None:
        self._estimates: OrderedDict[str, list[Floats]] = OrderedDict()
        self._estimate = threading.Lock()

    def at_once(self, scenario: Scenario, seed: int) -> tuple[Game, list[str]]:
        """The game without the adversaries who have yet to estimate a popularity, and who these are."""
        waiting = [a.name for i, a in enumerate(scenario.adversaries) if not self._ready(scenario, i, seed)]
        return self._game(scenario, seed, waiting, Local()), waiting

    def whole(self, scenario: Scenario, seed: int, engine: Local) -> Game:
        """The game, whose adversaries have estimated what they must: the same as the scenario's own."""
        return self._game(scenario, seed, [], engine)

    def _game(self, scenario: Scenario, seed: int, without: list[str], engine: Local) -> Game:
        assert scenario.attack is not None
        known = [a.name for a in scenario.adversaries if a.popularity != "estimated"]
        entries = tomllib.loads(scenario.text).get("adversary", [])
        few = {"adversary": [entry for entry in entries if entry["name"] in known]}
        # without any adversary there must be the game without a mechanism
        more = {} if known else {"attack.non_private": True}
        game = build_game(changed(scenario, few | more, name=scenario.name), seed)
        there = {a.name: a for a in game.adversaries}
        chosen = [
            there.get(entry.name) or self._estimating(scenario, index, game, seed, engine)
            for index, entry in enumerate(scenario.adversaries)
            if entry.name not in without
        ]
        return replace(game, adversaries=chosen, non_private=scenario.attack.non_private or not chosen)

    def _estimating(self, scenario: Scenario, index: int, game: Game, seed: int, engine: Local) -> Adversary:
        key, entry, recorded = _key(scenario, index, seed), scenario.adversaries[index], game.recorded
        # one at a time: several readers may ask for the same, and an estimate takes memory
        with self._estimate:
            if key not in self._estimates:
                popularity = game.popularity if scenario.popularity_table else None
                estimates = scenario.attack.estimates if scenario.attack else 1
                parts = game.universe, popularity, game.mechanism, seed, engine.map, recorded, estimates
                found = build_adversary(scenario, index, *parts)
                self._estimates[key] = [one.popularity for one in (found, *found.redraws)]
                while len(self._estimates) > MOST_KEPT:
                    self._estimates.popitem(last=False)
            believed = self._estimates[key]
        pools, fitted = other_pools(entry, game.universe), recorded.fitted if recorded else None
        return adversary_of(entry, pools, believed, fitted)

    def _ready(self, scenario: Scenario, index: int, seed: int) -> bool:
        return scenario.adversaries[index].popularity != "estimated" or _key(scenario, index, seed) in self._estimates


def _key(scenario: Scenario, index: int, seed: int) -> str:
    """All that an estimate hangs on; of recorded users, everything."""
    tables = tomllib.loads(scenario.text)
    if scenario.users is None or scenario.users.traces is None:
        entry = {name: tables["adversary"][index].get(name) for name in ("popularity", "reports", "method")}
        tables = {name: tables.get(name) for name in ("universe", "popularity", "mechanism")} | {"adversary": entry}
        tables["estimates"] = scenario.attack.estimates if scenario.attack else None
    return json.dumps([scenario.file, tables, index, seed], sort_keys=True, default=str)
