"""Blocks of users: their size, the resources that they need, and the task that plays one.

Memory, time and disk are estimated before the first block; docs/guides/scale.md has the numbers. A task writes the
outcomes of its block to a file and returns the checksum.
"""

from __future__ import annotations

import hashlib
import io
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import polars as pl

from poolscope.core.arrays import Tick
from poolscope.core.errors import InputError, PoolscopeError, located
from poolscope.core.executors import Engine, Local
from poolscope.core.files import check_shared, unshared
from poolscope.core.machine import check_disk, check_memory
from poolscope.core.tables.atomic import write_bytes
from poolscope.game.collections import JointGame
from poolscope.game.game import Game, blocks
from poolscope.game.game import play_block as play_single_block
from poolscope.game.joint_block import play_joint_block
from poolscope.game.users import calibrated, check_sendable

#: Users played before the first block, so that one process compiles for all.
WARM_UP_USERS = 2

#: Seconds until a file that another machine has written must be visible here.
VISIBLE_SECONDS = 10.0


AnyGame = Game | JointGame
"""The game of one collection, or of several collections of one person."""


def play_block(
    game: AnyGame, users: range, seed: int, tick: Tick | None = None, engine: Local | None = None
) -> pl.DataFrame:
    """Return the outcomes of some users."""
    play = play_joint_block if isinstance(game, JointGame) else play_single_block
    return play(game, users, seed, tick, engine)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True, eq=False)
class BlockRun:
    """What all blocks of a run share; `folder` is where their files go."""

    game: AnyGame
    seed: int
    folder: Path


class Block(NamedTuple):
    """The users of a file."""

    name: str
    users: range


class PlayedBlock(NamedTuple):
    """A finished block: its file, and the checksum of the bytes."""

    name: str
    checksum: str


def block_size(game: AnyGame, users: int, engine: Engine) -> int:
    """Return the users per block: as many as memory allows, in equal blocks for all workers."""
    rounds = -(-users // (engine.workers * game.block_users))
    if engine.workers == 1:
        return min(game.block_users, users)
    return game.whole_calls(-(-users // (engine.workers * rounds)))


def all_blocks(users: int, size: int) -> Iterator[Block]:
    """Yield the blocks of a run, each with its file name."""
    for index, some in enumerate(blocks(users, size)):
        yield Block(f"part-{index:06d}.parquet", some)


def play_blocks_to_files(
    run: BlockRun, todo: Iterable[Block], engine: Engine, tick: Tick | None = None
) -> Iterator[PlayedBlock]:
    """Play blocks into the folder; yield each when its file is visible."""
    if isinstance(run.game, Game):
        ready = calibrated(run.game, run.seed)
        check_sendable(ready, engine)
        run = replace(run, game=ready)
    if engine.workers > 1:
        # compiled and cached by one process: concurrent writes to Numba's cache are not safe
        for _ in engine.tasks(_warm_up, run, [range(WARM_UP_USERS)]):
            pass
    for part in engine.tasks(play_to_file, run, todo, tick):
        _wait_until_visible(run.folder / part.name)
        yield part


def play_to_file(run: BlockRun, block: Block, engine: Local, tick: Tick) -> PlayedBlock:
    """Play one block and write its file atomically; the task of an executor."""
    check_shared(run.folder, "the output folder")
    try:
        outcomes = play_block(run.game, block.users, run.seed, tick, engine)
    except PoolscopeError:
        raise
    except Exception as error:
        some = f"users {block.users.start} to {block.users.stop - 1}"
        raise PoolscopeError(f"{some} cannot be played: {type(error).__name__}: {error}") from error
    data = parquet_bytes(outcomes)
    write_bytes(run.folder / block.name, data)
    return PlayedBlock(block.name, hashlib.sha256(data).hexdigest())


def parquet_bytes(outcomes: pl.DataFrame) -> memoryview:
    """Return a block's file in memory: the bytes are the same on every machine, and write errors are left to the
    caller.
    """
    stream = io.BytesIO()
    outcomes.write_parquet(stream, compression="zstd", statistics=False)
    return stream.getbuffer()


def _warm_up(run: BlockRun, users: range, engine: Local, tick: Tick) -> None:
    """Play a few users, so that one process compiles the kernels."""
    if run.game.available_users is None or run.game.available_users >= len(users):
        play_block(run.game, users, run.seed, tick, engine)


def _wait_until_visible(path: Path) -> None:
    """Wait until a file that a worker has written is visible here too, as on a network file system."""
    end = time.monotonic() + VISIBLE_SECONDS
    while not path.exists():
        if time.monotonic() > end:
            raise unshared("a worker wrote a file that cannot be seen here", path)
        time.sleep(0.1)


#: Bytes of the process before the first block, and copies of a block's masses in memory at a time.
BASE_BYTES, COPIES = 300 << 20, 3

#: Core seconds per report and pool of an adversary; in longer traces the cost per report grows with the length.
SECONDS_PER_REPORT, LONG_TRACE = 1e-7, 500

#: Bytes on disk of a user, and of each of their outcomes.
BYTES_PER_USER, BYTES_PER_OUTCOME = 60, 17

#: Run times above which there is a warning, and above which the run is rejected.
WARN_SECONDS, MAX_SECONDS = 3600.0, 365 * 86400.0


@dataclass(frozen=True, kw_only=True)
class ResourceEstimate:
    """Bytes of memory and of disk, and core seconds of a number of users."""

    memory: int
    disk: int
    seconds: float


def estimate_resources(game: AnyGame, users: int) -> ResourceEstimate:
    """Return an estimate that is right to a factor of two or three, for any game."""
    if isinstance(game, JointGame):
        parts = [estimate_resources(one.game, users) for one in game.collections]
        rows = len(game.subsets) * len(game.pool_counts) * len(game.observations)
        return ResourceEstimate(
            memory=BASE_BYTES + COPIES * min(users, game.block_users) * game.bytes_a_user,
            disk=users * (BYTES_PER_USER + BYTES_PER_OUTCOME * rows),
            seconds=sum(part.seconds for part in parts),
        )
    pools, attacks = sum(game.pool_counts.values()), len(game.pool_counts)
    block = min(users, game.block_users) * game.bytes_a_user
    reports = game.policy.mean_reports(game.horizon)
    steps = reports * max(1.0, min(reports, game.policy.rotate_after or reports) / LONG_TRACE)
    return ResourceEstimate(
        memory=BASE_BYTES + COPIES * block,
        disk=users * (BYTES_PER_USER + BYTES_PER_OUTCOME * attacks * len(game.observations)),
        seconds=users * steps * pools * SECONDS_PER_REPORT,
    )


def check_size(game: AnyGame, users: int, out: Path, cores: int, times: int = 1) -> str | None:
    """Reject what cannot be played here, `times` times; return a warning where it takes long."""
    size = estimate_resources(game, users)
    what = (
        f"a user of {game.horizon:,} {'days' if isinstance(game, JointGame) else 'reports'}"
        if game.block_users == 1
        else "a block of users"
    )
    check_memory(what, size.memory, "take fewer observations, pools or adversaries")
    check_disk(f"{users:,} users", size.disk, out, "take fewer `users`, or choose another folder with `out`")
    seconds = times * size.seconds / cores
    if seconds > MAX_SECONDS:
        rule = f"{users:,} users would take about {as_time(seconds)} on {cores} cores"
        raise InputError(rule, remedy="take fewer `users`: a few thousand are enough")
    return (
        f"this takes about {as_time(seconds)} on {cores} cores; fewer `users` take less"
        if seconds > WARN_SECONDS
        else None
    )


def as_time(seconds: float) -> str:
    """Return a duration in its largest unit: 3 days."""
    for unit, length in (("year", 365 * 86400.0), ("day", 86400.0), ("hour", 3600.0), ("minute", 60.0)):
        if seconds >= length:
            count = round(seconds / length)
            return f"{count:,} {unit}{'s' * (count != 1)}"
    return f"{max(1, round(seconds))} seconds"


#: Run time of a game without a requested number of users.
DEFAULT_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class BlockPlan:
    """Number of users, users per block, and a warning where the run takes long."""

    users: int
    block: int
    warning: str | None


def users_to_play(game: AnyGame, requested: int | None) -> int | None:
    """Return the number of users to play: recorded users are limited to those there are, and all of them by default."""
    available = game.available_users
    return requested if available is None else min(requested or available, available)


def plan_blocks(
    game: AnyGame, users: int | None, seed: int, engine: Engine, out: Path, file: str | Path | None
) -> BlockPlan:
    """Return the plan for this many users, or for as many as take about ten seconds.

    A run that cannot be played is rejected, with the scenario file as the place of the error.
    """
    users, cores = users or default_users(game, seed, engine), engine.threads * engine.workers
    with located(file=file):
        warning = check_size(game, users, out, cores)
    return BlockPlan(users=users, block=block_size(game, users, engine), warning=warning)


def default_users(game: AnyGame, seed: int, engine: Engine) -> int:
    """Return the number of users that take about ten seconds, by a pilot run; two significant digits."""
    own, game = Local(threads=engine.threads), calibrated(game, seed) if isinstance(game, Game) else game
    play_block(game, range(16), seed, engine=own)
    pilot = min(2048, game.block_users)
    started = time.perf_counter()
    play_block(game, range(pilot), seed, engine=own)
    pace = (time.perf_counter() - started) / pilot
    count = max(100, DEFAULT_SECONDS / pace)
    unit = 10 ** (len(str(int(count))) - 2)
    return int(count // unit * unit)
