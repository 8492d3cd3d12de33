"""Blocks of users: how many users play in blocks of what size, what that takes, and the task that plays one.

Memory, time and disk are estimated before any of it is taken; docs/scale.md has the numbers. A task writes the outcomes
of its block to a file and returns its checksum.
"""

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
from poolscope.core.errors import InputError, PoolscopeError, located
from poolscope.core.executors import Engine, Local
from poolscope.core.files import check_shared, unshared
from poolscope.core.machine import check_disk, check_memory
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


#: Bytes of the process before a block is there, and how often a block's masses are held while they are worked on.
START, COPIES = 300 << 20, 3

#: Core seconds for each report and pool of an adversary; from so many reports on, each costs more the more there are.
A_REPORT, LONG = 1e-7, 500

#: Bytes of a user on disk, and of each outcome of theirs.
A_USER, AN_OUTCOME = 60, 17

#: Seconds from which on a user is told how long it will take, and from which on it is refused.
LONG_TIME, TOO_LONG = 3600.0, 365 * 86400.0


@dataclass(frozen=True, kw_only=True)
class Size:
    """What playing so many users takes: bytes of memory and of disk, core seconds."""

    memory: int
    disk: int
    seconds: float


def size_of(game: Game, users: int) -> Size:
    """An estimate that is right to a factor of two or three, for any game."""
    pools, attacks = sum(game.pool_counts.values()), len(game.pool_counts)
    block = min(users, game.block_users) * game.bytes_a_user
    reports = game.policy.mean_reports(game.horizon)
    steps = reports * max(1.0, min(reports, game.policy.rotate_after or reports) / LONG)
    return Size(
        memory=START + COPIES * block,
        disk=users * (A_USER + AN_OUTCOME * attacks * len(game.observations)),
        seconds=users * steps * pools * A_REPORT,
    )


def check_size(game: Game, users: int, out: Path, cores: int, times: int = 1) -> str | None:
    """Refuse what cannot be played here, so many times; a line that tells how long it will take where that is long."""
    size = size_of(game, users)
    what = f"a user of {game.horizon:,} reports" if game.block_users == 1 else "a block of users"
    check_memory(what, size.memory, "take fewer observations, pools or adversaries")
    check_disk(f"{users:,} users", size.disk, out, "take fewer `users`, or choose another folder with `out`")
    seconds = times * size.seconds / cores
    if seconds > TOO_LONG:
        rule = f"{users:,} users would take about {as_time(seconds)} on {cores} cores"
        raise InputError(rule, remedy="take fewer `users`: a few thousand tell the same")
    return (
        f"this takes about {as_time(seconds)} on {cores} cores; fewer `users` take less"
        if seconds > LONG_TIME
        else None
    )


def as_time(seconds: float) -> str:
    """As people say it: 3 days."""
    for unit, length in (("year", 365 * 86400.0), ("day", 86400.0), ("hour", 3600.0), ("minute", 60.0)):
        if seconds >= length:
            count = round(seconds / length)
            return f"{count:,} {unit}{'s' * (count != 1)}"
    return f"{max(1, round(seconds))} seconds"


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
