"""The attack on a large file of reports, against reading the file alone, and where its time goes.

    python benchmarks/attack.py --users 50000 --reports 100

The scenario apple-emojis (Count Mean Sketch, m = 1,024, weak + strong) in one Parquet file. Reading is what the attack
reads: all columns, checked and decoded. The profile is that of the main thread, which waits for the others.
The load of the machine is printed before and after, as times on a busy one say little; their ratio says more.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import polars as pl
from timing import Timing, machine

from poolscope import load_scenario
from poolscope.core.executors import Local
from poolscope.core.randomness import user_keys
from poolscope.core.tables import open_table
from poolscope.population.behavior import draw_traces, draw_users
from poolscope.reports import digest
from poolscope.reports.files import MEMORY_BYTES, blocks, row_bytes, rows_within
from poolscope.workflows.attack import attack as attack_module
from poolscope.workflows.attack import partitioning, scoring
from poolscope.workflows.attack.attack import attack
from poolscope.workflows.attack.inspection import inspect
from poolscope.workflows.obfuscate import obfuscate

SEED = 0

#: Parts of the attack, and the functions that are timed; the checks read the first chunk themselves.
PARTS: dict[str, tuple[Any, str]] = {
    "read and decode chunks": (partitioning.ReportReader, "read"),
    "checks of the first reports": (attack_module, "first_checks"),
    "digest of all reports": (digest.FileDigest, "of"),
    "popularity masses": (scoring.Scorer, "features"),
    "write chunks": (partitioning, "write_chunk"),
    "read partitions": (partitioning, "read_partition"),
    "gather by user": (partitioning, "gather"),
    "posteriors": (scoring.Scorer, "score"),
    "rows of the table": (scoring.Scorer, "frame"),
}


def profiled(function: Callable[[], None]) -> dict[str, float]:
    """Call a function, and return the seconds of each part and of the whole."""
    spent = dict.fromkeys(PARTS, 0.0)

    def timed(part: str, own: Callable[..., Any]) -> Callable[..., Any]:
        def timing(*arguments: Any, **options: Any) -> Any:
            started = time.perf_counter()
            try:
                return own(*arguments, **options)
            finally:
                spent[part] += time.perf_counter() - started

        return timing

    with ExitStack() as stack:
        for part, (owner, name) in PARTS.items():
            own = getattr(owner, name)
            made = timed(part, own)
            stack.enter_context(
                mock.patch.object(owner, name, staticmethod(made) if part.startswith("digest") else made)
            )
        started = time.perf_counter()
        function()
        spent["whole"] = time.perf_counter() - started
    return spent


def written(folder: Path, users: int, reports: int) -> Path:
    """Write the reports of synthetic users, and return the file."""
    scenario = load_scenario("apple-emojis")
    game = scenario.replace({"attack.estimates": 1}).game(SEED, Local().map)
    truth = draw_users(game.universe, game.behavior, user_keys(SEED, np.arange(users)))
    picked = draw_traces(game.universe, game.popularity, truth, reports)
    traces, path = folder / "traces.parquet", folder / "reports.parquet"
    pl.DataFrame({"user": np.repeat(np.arange(users), reports), "object": picked.ravel()}).write_parquet(traces)
    obfuscate(traces, scenario, path, SEED)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=50_000)
    parser.add_argument("--reports", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print(machine(), f"load {os.getloadavg()[0]:.1f} before")
    scenario = load_scenario("apple-emojis")
    universe = scenario.universe()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = written(folder, options.users, options.reports)
        columns = scenario.game(SEED, Local().map).mechanism.report_columns

        def read() -> None:
            rows = rows_within(3 * MEMORY_BYTES / 8, 2 * row_bytes(columns))
            for _ in blocks(open_table(path), columns, universe, rows=rows):
                pass

        def run(resume: bool = False) -> None:
            attack(path, scenario, out=folder / "posteriors.parquet", overwrite=True, resume=resume)

        whats = {
            "read the file": read,
            "inspect it": lambda: inspect(path, scenario),
            "attack it, posteriors written": run,
            "the same with resume": lambda: run(True),
        }
        timings = {what: Timing() for what in whats}
        run()
        for _ in range(options.repeats):
            for what, function in whats.items():
                timings[what].record(function)
        spent = profiled(run)
        size = path.stat().st_size
    print(f"{options.users * options.reports:,} reports of {options.users:,} users, {size / 1e6:,.0f} MB of Parquet")
    base = min(timings["read the file"].wall)
    for what, timing in timings.items():
        print(f"  {what}: {timing.show('s')}; {min(timing.wall) / base:.1f} times reading, by the fastest of each")
    print(f"one attack of {spent['whole']:.1f} s:")
    for part in PARTS:
        print(f"  {part}: {spent[part]:.2f} s, {spent[part] / spent['whole']:.0%}")
    print(f"load {os.getloadavg()[0]:.1f} after")


if __name__ == "__main__":
    main()
