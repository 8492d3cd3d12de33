"""What a game will take of memory, time and disk, told before any of it is taken; docs/scale.md has the numbers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from poolscope.core.errors import InputError
from poolscope.core.executors import check_disk, check_memory
from poolscope.game.game import Game

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
    reports = game.sending.mean_reports(game.horizon)
    steps = reports * max(1.0, min(reports, game.sending.window or reports) / LONG)
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
