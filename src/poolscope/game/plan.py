"""How a game will be played: how many users, in blocks of how many, and whether that can be had here."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from poolscope.core.errors import located
from poolscope.core.executors import Engine, Local
from poolscope.game.blocks import block_size
from poolscope.game.game import Game, play_block
from poolscope.game.size import check_size

#: Seconds that a game takes where nobody says how many users.
SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How many users play, users to a block, and a line that tells how long it will take where that is long."""

    users: int
    block: int
    warning: str | None


def playing(game: Game, asked: int | None) -> int | None:
    """How many play of the users asked for; recorded ones are no more than there are, and all where nobody asks."""
    return asked if game.recorded is None else min(asked or len(game.recorded), len(game.recorded))


def planned(game: Game, users: int | None, seed: int, engine: Engine, out: Path, file: str | Path | None) -> Plan:
    """The plan for so many users, or for as many as take about ten seconds.

    What cannot be played is refused, as asked for by the file.
    """
    users, cores = users or fitting_users(game, seed, engine), engine.threads * engine.workers
    with located(file=file):
        warning = check_size(game, users, out, cores)
    return Plan(users=users, block=block_size(game, users, engine), warning=warning)


def fitting_users(game: Game, seed: int, engine: Engine) -> int:
    """Users that take about ten seconds, from a pilot; two significant digits."""
    own = Local(threads=engine.threads)
    play_block(game, range(16), seed, engine=own)
    pilot = min(2048, game.block_users)
    started = time.perf_counter()
    play_block(game, range(pilot), seed, engine=own)
    pace = (time.perf_counter() - started) / pilot
    count = max(100, SECONDS / pace)
    unit = 10 ** (len(str(int(count))) - 2)
    return int(count // unit * unit)
