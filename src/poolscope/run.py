"""A run and its folder: blocks of outcomes as they are finished, then summary and report.

``manifest.json`` says what is played (scenario, seed, users, version, users to a block) and, for every finished block,
the checksum of its file. A block counts once its file is flushed and renamed and the manifest names it, so a run
that was stopped at any moment goes on where it was.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from poolscope import __version__
from poolscope.build import build_game
from poolscope.engines import Local
from poolscope.errors import InputError, located, reading
from poolscope.files import checksum, replacing, write_text
from poolscope.game import NON_PRIVATE, Game, Tick, blocks, play_block
from poolscope.scenario import Scenario
from poolscope.summary import summarise

#: What must be the same for a run to go on, and how a message calls it.
SAME = {"scenario": "the scenario", "seed": "the seed", "users": "the number of users"}

#: Seconds that a run takes where neither the scenario nor the caller says how many users.
SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a folder's run is, and which of its blocks are done."""

    scenario: str
    seed: int
    users: int
    version: str
    block: int
    parts: dict[str, str]

    def write(self, folder: Path) -> None:
        write_text(folder / "manifest.json", json.dumps(self.__dict__, indent=1) + "\n")


def audit(
    scenario: Scenario,
    out: Path,
    *,
    users: int | None = None,
    seed: int = 0,
    engine: Local | None = None,
    resume: bool = False,
    begin: Callable[[int], None] | None = None,
    tick: Tick | None = None,
) -> dict[str, Any]:
    """Play a scenario into a folder; returns its summary.

    Parameters
    ----------
    users : how many; the scenario's count where absent, and without one as many as take about ten seconds.
    begin : told the number of users before the first block, tick : told users as they are played.
    """
    engine = engine or Local()
    started = time.perf_counter()
    if users is not None and users < 1:
        raise InputError("users must be at least 1", value=users)
    refuse(out, resume)
    game = build_game(scenario, seed, engine.map)
    kept = read_manifest(out) if resume else None
    count = users or (scenario.users.count if scenario.users else None)
    if game.recorded:
        count = min(count or len(game.recorded), len(game.recorded))
    if count is None:
        count = kept.users if kept else fitting_users(game, seed, engine)
    manifest = Manifest(
        scenario=scenario.text,
        seed=seed,
        users=count,
        version=__version__,
        block=min(game.block_users, count),
        parts={},
    )
    if kept:
        manifest = continued(kept, manifest, out)
    if begin:
        begin(count)
    play_parts(game, manifest, out, engine, tick or (lambda _: None))
    summary = summary_of(scenario, game, manifest, read_outcomes(out))
    summary["seconds"] = round(time.perf_counter() - started, 3)
    write_text(out / "summary.json", json.dumps(summary, indent=1, allow_nan=False) + "\n")
    return summary


def default_folder(scenario: Scenario, resume: bool) -> Path:
    """poolscope-NAME in the current folder, numbered where that is taken; to resume, the last one."""
    name = f"poolscope-{scenario.name}"
    number = 1
    while Path(name if number == 1 else f"{name}-{number}").exists():
        number += 1
    number = max(1, number - resume)
    return Path(name if number == 1 else f"{name}-{number}")


def refuse(out: Path, resume: bool) -> None:
    """An output folder is new, or empty, or the run's own."""
    if out.exists() and not out.is_dir():
        raise InputError("must be a folder", file=out, remedy="choose another with --out")
    if resume or not out.exists() or not any(out.iterdir()):
        return
    what = "holds another run" if (out / "manifest.json").exists() else "is not empty"
    remedy = "go on with --resume or choose another with --out"
    raise InputError(f"the output folder {what}", file=out, remedy=remedy)


def read_manifest(out: Path) -> Manifest | None:
    """The manifest of a folder, if it has one."""
    path = out / "manifest.json"
    if not path.exists():
        return None
    with reading(path):
        try:
            return Manifest(**json.loads(path.read_text("utf-8")))
        except (TypeError, ValueError):
            raise InputError("must be the manifest of a run", remedy="choose another folder") from None


def continued(kept: Manifest, new: Manifest, out: Path) -> Manifest:
    """The kept run, if it is the one asked for; its blocks are verified."""
    for name, words in SAME.items():
        if getattr(kept, name) != getattr(new, name):
            raise InputError(
                f"{words} differs from that of the run to resume",
                file=out,
                value=getattr(new, name),
                remedy="choose another folder with --out",
            )
    if kept.version.split(".")[:2] != new.version.split(".")[:2]:
        raise InputError(
            f"the run to resume was made by version {kept.version}",
            file=out,
            value=new.version,
            remedy="choose another folder with --out",
        )
    for name, digest in kept.parts.items():
        path = out / "outcomes" / name
        if not path.exists() or checksum(path) != digest:
            raise InputError(
                "a finished block is missing or has been changed",
                file=path,
                remedy=f"delete {name} from manifest.json to play it again",
            )
    return kept


def fitting_users(game: Game, seed: int, engine: Local) -> int:
    """Users that take about ten seconds, from a pilot; two significant digits."""
    play_block(game, range(16), seed, engine=engine)
    pilot = min(2048, game.block_users)
    started = time.perf_counter()
    play_block(game, range(pilot), seed, engine=engine)
    pace = (time.perf_counter() - started) / pilot
    count = max(100, SECONDS / pace)
    unit = 10 ** (len(str(int(count))) - 2)
    return int(count // unit * unit)


def play_parts(game: Game, manifest: Manifest, out: Path, engine: Local, tick: Tick) -> None:
    """Play the blocks that are not there yet; each is on disk before it counts."""
    folder = out / "outcomes"
    fresh = not out.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        manifest.write(out)
        for index, users in enumerate(blocks(manifest.users, manifest.block)):
            name = f"part-{index:06d}.parquet"
            if name in manifest.parts:
                tick(len(users))
                continue
            outcomes = play_block(game, users, manifest.seed, tick, engine)
            with replacing(folder / name) as beside:
                outcomes.write_parquet(beside, compression="zstd", statistics=False)
            manifest.parts[name] = checksum(folder / name)
            manifest.write(out)
    except OSError as error:
        if fresh and not manifest.parts:
            remove(out)
            remedy = "choose another with --out"
        else:
            remedy = "what is finished is kept: make room and go on with --resume"
        raise InputError(f"cannot write: {error.strerror or error}", file=out, remedy=remedy) from error


def remove(out: Path) -> None:
    """Take away a folder in which no block was finished."""
    for path in sorted(out.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)
    out.rmdir()


def read_outcomes(out: Path) -> pl.DataFrame:
    """The outcome table of a finished run, in order."""
    frame = pl.concat([pl.read_parquet(file) for file in sorted((out / "outcomes").glob("part-*.parquet"))])
    return frame.sort("adversary", "n", "user", maintain_order=True)


def summary_of(scenario: Scenario, game: Game, manifest: Manifest, outcomes: pl.DataFrame) -> dict[str, Any]:
    """The content of ``summary.json``."""
    descriptions = {a.name: a.phrase for a in game.adversaries}
    if game.non_private:
        descriptions[NON_PRIVATE] = "an adversary who sees the objects themselves"
    with located(file=scenario.file):
        threshold = scenario.attack.threshold if scenario.attack else None
        results = summarise(outcomes, game.pool_counts, manifest.seed, threshold)
    return {
        "scenario": {
            "name": scenario.name,
            "file": scenario.file,
            "text": scenario.text,
            "title": scenario.name,
            **scenario.dump(),
        },
        "seed": manifest.seed,
        "users": manifest.users,
        "version": manifest.version,
        "pools": list(game.universe.pool_names),
        "horizon": game.horizon,
        "adversaries": descriptions,
        "results": results,
    }
