"""How a run grows with its users, what Dask costs beside threads, and what the end of a large run holds.

python benchmarks/scale.py growth            # three orders of magnitude of users, each in a process of its own
python benchmarks/scale.py engines           # 100,000 users: threads against as many processes of Dask, in turn
python benchmarks/scale.py end               # summary and report of ten million users, from copies of one block
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import polars as pl
from timing import machine

from poolscope.core.executors import Local, engine_named
from poolscope.game.blocks import Block, BlockRun, play_to_file
from poolscope.game.game import play_block
from poolscope.game.outcome_files import OutcomeFiles
from poolscope.html.audit import write_page
from poolscope.scenario.scenario import load_scenario
from poolscope.workflows.audit.audit import audit, summary_of
from poolscope.workflows.audit.run_folder import read_run


def measured(*arguments: object) -> dict[str, float]:
    """A step in a process of its own, so that its memory is its own."""
    command = [sys.executable, __file__, *map(str, arguments)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def usage() -> dict[str, float]:
    """Processor seconds of this process and of those that it waited for, and the most memory of either (MB)."""
    own, others = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {
        "processor": sum(r.ru_utime + r.ru_stime for r in (own, others)),
        "memoize": own.ru_maxrss / 1024,
        "of_a_worker": others.ru_maxrss / 1024,
    }


def play(scenario: str, users: int, engine: str) -> dict[str, float]:
    """One audit: its seconds with and without start-up, and what it took."""
    with tempfile.TemporaryDirectory(dir=".", prefix="poolscope-") as folder:
        out = Path(folder) / "run"
        loaded = load_scenario(scenario)
        play_block(loaded.game(0, Local().map), range(16), 0)  # compiled before the clock starts
        before = usage()["processor"]
        started = time.perf_counter()
        with engine_named(engine) as own:
            audit(loaded, out, users=users, engine=own)
        wall = time.perf_counter() - started
        size = sum(path.stat().st_size for path in (out / "outcomes").iterdir())
        found = usage()
        return {**found, "wall": wall, "processor": found["processor"] - before, "bytes": size}


def growth(scenarios: list[str], users: list[int]) -> None:
    print("| scenario | users | seconds | core time a user | memory | bytes a user |\n|---|---|---|---|---|---|")
    for scenario in scenarios:
        for count in users:
            one = measured("play", scenario, count, "local")
            print(
                f"| {scenario} | {count:,} | {one['wall']:.1f} | {1e3 * one['processor'] / count:.2f} ms "
                f"| {one['memory']:.0f} MB | {one['bytes'] / count:.0f} |",
                flush=True,
            )


def engines(scenario: str, users: int, repeats: int) -> None:
    walls: dict[str, list[float]] = {"local": [], "dask": []}
    for engine in walls:
        measured("play", scenario, 100, engine)  # workers compile for arrays that they may not write to: once
    for _ in range(repeats):
        for engine, found in walls.items():
            one = measured("play", scenario, users, engine)
            found.append(one["wall"])
            print(engine, {name: round(value, 1) for name, value in one.items()}, flush=True)
    ratios = [local / dask for local, dask in zip(walls["local"], walls["dask"], strict=True)]
    for engine, found in walls.items():
        print(f"{engine}: {users / median(found):,.0f} users/s ({users / max(found):,.0f}..{users / min(found):,.0f})")
    print(f"dask has {median(ratios):.2f} of the throughput ({min(ratios):.2f}..{max(ratios):.2f}), start-up included")


def end(scenario: str, users: int, folder: Path) -> dict[str, float]:
    """Summary and report of a run whose blocks are all copies of the first one, but for the users' numbers."""
    loaded = load_scenario(scenario)
    game = loaded.game(0, Local().map)
    out, size = folder / "run", min(game.block_users, users)
    (out / "outcomes").mkdir(parents=True, exist_ok=True)
    first = out / "outcomes" / "part-000000.parquet"
    playing = BlockRun(game=game, seed=0, folder=first.parent.absolute())
    play_to_file(playing, Block(first.name, range(size)), Local(), lambda _: None)
    block = pl.read_parquet(first)
    for index in range(1, -(-users // size)):
        moved = block.with_columns(pl.col("user") + index * size)
        moved.write_parquet(out / "outcomes" / f"part-{index:06d}.parquet", compression="zstd", statistics=False)
    return measured("finish", scenario, users, out)


def finish(scenario: str, users: int, out: Path) -> dict[str, float]:
    """What follows the last block."""
    from poolscope.workflows.audit.run_folder import Manifest

    loaded = load_scenario(scenario)
    game = loaded.game(0, Local().map)
    manifest = Manifest(scenario=loaded.text, seed=0, users=users, version="0", block=game.block_users)
    started = time.perf_counter()
    summary = summary_of(loaded, game, manifest, OutcomeFiles.within(out / "outcomes"))
    summarized, after = time.perf_counter() - started, usage()["memoize"]
    (out / "summary.json").write_text(json.dumps(summary.as_json()))
    write_page(read_run(out))
    size = sum(path.stat().st_size for path in (out / "outcomes").iterdir())
    both = time.perf_counter() - started
    return {**usage(), "summary_seconds": summarized, "summary_memory": after, "seconds": both, "bytes": size}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(dest="step", required=True)
    for name in ("growth", "engines", "end", "play", "finish"):
        step = steps.add_parser(name)
        if name in ("play", "finish"):
            step.add_argument("scenario")
            step.add_argument("users", type=int)
            step.add_argument("more")
            continue
        step.add_argument("--scenario", nargs="*", default=["apple-emojis", "apple-web-domains"])
        defaults = {"growth": [1000, 10_000, 100_000], "engines": [100_000], "end": [150_000, 1_000_000, 10_000_000]}
        step.add_argument("--users", type=int, nargs="*", default=defaults[name])
        step.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    if given.step == "play":
        print(json.dumps(play(given.scenario, given.users, given.more)))
    elif given.step == "finish":
        print(json.dumps(finish(given.scenario, given.users, Path(given.more))))
    elif given.step == "growth":
        print(machine())
        growth(given.scenario, given.users)
    elif given.step == "engines":
        print(machine())
        engines(given.scenario[0], given.users[0], given.repeats)
    else:
        print(machine())
        for users in given.users:
            with tempfile.TemporaryDirectory(dir=".", prefix="poolscope-") as folder:
                print(
                    users, {k: round(v, 1) for k, v in end(given.scenario[0], users, Path(folder)).items()}, flush=True
                )


if __name__ == "__main__":
    main()
