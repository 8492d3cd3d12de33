"""Blocks of users as tasks of an engine: each writes its outcomes to a file of its own and says only its checksum."""

from __future__ import annotations

import hashlib
import io
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import polars as pl

from poolscope.core.arrays import Tick
from poolscope.core.errors import PoolscopeError
from poolscope.core.executors import Engine, Local
from poolscope.core.files import check_shared, unshared
from poolscope.core.tables.atomic import write_bytes
from poolscope.game.game import Game, blocks, play_block

#: Users that are played before the first block, so that one process compiles for all.
WARM = 2

#: Seconds until a file that another machine has written must be seen here.
SEEN = 10.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Playing:
    """What all blocks of a run have in common; `folder` is where their files go."""

    game: Game
    seed: int
    folder: Path


class Block(NamedTuple):
    """The users of a file."""

    name: str
    users: range


class Part(NamedTuple):
    """A finished block: its file, and the checksum of the bytes that were written."""

    name: str
    checksum: str


def block_size(game: Game, users: int, engine: Engine) -> int:
    """Users to a block: as many as memory allows, but blocks of one size for all workers alike."""
    rounds = -(-users // (engine.workers * game.block_users))
    return -(-users // (engine.workers * rounds)) if engine.workers > 1 else min(game.block_users, users)


def all_blocks(users: int, size: int) -> Iterator[Block]:
    """The blocks of a run, each with its file's name."""
    for index, some in enumerate(blocks(users, size)):
        yield Block(f"part-{index:06d}.parquet", some)


def play_parts(playing: Playing, todo: Iterable[Block], engine: Engine, tick: Tick | None = None) -> Iterator[Part]:
    """Play blocks into the folder; yields each when its file is there."""
    if engine.workers > 1:
        # Compiled and cached by one process: numba's cache is not made for several that write it at once.
        for _ in engine.tasks(_warm, playing, [range(WARM)]):
            pass
    for part in engine.tasks(play_part, playing, todo, tick):
        _wait_for(playing.folder / part.name)
        yield part


def play_part(playing: Playing, block: Block, engine: Local, tick: Tick) -> Part:
    """The task: play, write beside, flush, rename."""
    check_shared(playing.folder, "the output folder")
    try:
        outcomes = play_block(playing.game, block.users, playing.seed, tick, engine)
    except PoolscopeError:
        raise
    except Exception as error:
        some = f"users {block.users.start} to {block.users.stop - 1}"
        raise PoolscopeError(f"{some} cannot be played: {type(error).__name__}: {error}") from error
    data = parquet_bytes(outcomes)
    write_bytes(playing.folder / block.name, data)
    return Part(block.name, hashlib.sha256(data).hexdigest())


def parquet_bytes(outcomes: pl.DataFrame) -> memoryview:
    """A part's file: the same bytes whatever wrote it, and errors of the disk are left to who writes them."""
    stream = io.BytesIO()
    outcomes.write_parquet(stream, compression="zstd", statistics=False)
    return stream.getbuffer()


def _warm(playing: Playing, users: range, engine: Local, tick: Tick) -> None:
    if playing.game.recorded is None or len(playing.game.recorded) >= len(users):
        play_block(playing.game, users, playing.seed, tick, engine)


def _wait_for(path: Path) -> None:
    """A worker elsewhere says that it has written a file: it must be seen here too, if only after a while."""
    end = time.monotonic() + SEEN
    while not path.exists():
        if time.monotonic() > end:
            raise unshared("a worker wrote a file that cannot be seen here", path)
        time.sleep(0.1)
