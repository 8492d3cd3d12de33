"""Reports in files: what reading, checking and decoding add to the attack, and how fast reports are made.

    python benchmarks/files.py

The scenario apple-emojis (Count Mean Sketch, m = 1,024, weak + strong) for 10,000 users with 180 reports each, in a
Parquet file. The yardstick is the attack alone: the same reports in memory, popularity masses and posteriors as the
game computes them. Before anything is timed, both must give the game's confidences.
"""

import argparse
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from timing import machine, ratio, repeat

from poolscope import load_scenario, play
from poolscope.core.executors import Local
from poolscope.core.randomness import user_keys
from poolscope.core.tables import open_table
from poolscope.population.behavior import draw_traces, draw_users
from poolscope.reports.files import MEMORY_BYTES, blocks, read_reports, row_bytes, rows_within
from poolscope.workflows.attack.attack import attack
from poolscope.workflows.attack.partitioning import Gathered
from poolscope.workflows.attack.scoring import Scorer
from poolscope.workflows.estimate import estimate
from poolscope.workflows.obfuscate import obfuscate

SEED = 0


class Files:
    """The traces of a game's users and the reports made from them, in a folder."""

    def __init__(self, folder: Path, users: int) -> None:
        # a file meets one estimate of the popularity
        self.scenario = load_scenario("apple-emojis").replace({"attack.estimates": 1})
        self.game = replace(self.scenario.game(SEED, Local().map), non_private=False)
        self.users, self.count = users, users * self.game.horizon
        self.traces, self.reports, self.out = (folder / f"{n}.parquet" for n in ("traces", "reports", "posteriors"))
        truth = draw_users(self.game.universe, self.game.behavior, user_keys(SEED, np.arange(users)))
        picked = draw_traces(self.game.universe, self.game.popularity, truth, self.game.horizon)
        who = np.repeat(np.arange(users), self.game.horizon)
        pl.DataFrame({"user": who, "object": picked.ravel()}).write_parquet(self.traces)
        self.obfuscate()
        self.held = read_reports(self.reports, self.game.mechanism, self.game.universe)[1]

    def obfuscate(self) -> None:
        self.reports.unlink(missing_ok=True)
        obfuscate(self.traces, self.scenario, self.reports, SEED)

    def attack(self) -> None:
        attack(self.reports, self.scenario, seed=SEED, out=self.out, overwrite=True)

    def attack_in_memory(self) -> None:
        """The masses of all reports and the posteriors of all users."""
        game, engine = self.game, Local()
        scorer = Scorer(device=game.device, adversaries=game.adversaries, observations=game.observations)
        lengths = np.full(self.users, game.horizon, dtype=np.int64)
        hashes, facts = np.arange(self.users, dtype=np.uint64), scorer.features(self.held, engine)
        gathered = Gathered(names=pl.Series(hashes), hashes=hashes, lengths=lengths, facts=facts)
        scorer.score(gathered, engine, lambda _: None)

    def read(self) -> None:
        """What the attack reads: everything once."""
        columns = self.game.mechanism.report_columns
        rows = rows_within(3 * MEMORY_BYTES / 8, 2 * row_bytes(columns))
        for _ in blocks(open_table(self.reports), columns, self.game.universe, rows=rows):
            pass

    def check(self) -> None:
        """The file gives what the game gives."""
        self.attack()
        found = pl.read_parquet(self.out).sort("adversary", "n", "user")
        played = play(self.game, self.users, SEED).with_columns(pl.col("adversary").cast(pl.String))
        if not found["confidence"].equals(played.sort("adversary", "n", "user")["confidence"]):
            sys.exit("the attack on the file must give the game's confidences: nothing is timed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        files = Files(Path(folder), options.users)
        files.check()
        timings = repeat(
            {
                "game": lambda: play(files.game, files.users, SEED),
                "memoize": files.attack_in_memory,
                "file": files.attack,
                "read": files.read,
                "obfuscate": files.obfuscate,
                "estimate": lambda: estimate(files.reports, files.scenario),
            },
            options.repeats,
        )
        size = files.reports.stat().st_size
    print(f"{files.users} users, {files.count} reports, {size / 1e6:.0f} MB of Parquet, {options.repeats} repeats:")
    for name, words in (
        ("game", "the game: draw, obfuscate, attack"),
        ("memoize", "the attack alone, reports in memory"),
        ("file", "the attack on the file, posteriors written"),
        ("read", "of that reading, checking, decoding"),
        ("obfuscate", "obfuscate a file of traces"),
        ("estimate", "estimate the popularity"),
    ):
        each = timings[name] / files.count
        print(f"  {words}: {timings[name].show('s')}; a report {each.show('us')}")
    made = [files.count / seconds / 1e6 for seconds in timings["obfuscate"].wall]
    print(f"the attack alone takes {ratio(timings['memory'], timings['read'])} as long as reading")
    print(f"obfuscate makes {sorted(made)[len(made) // 2]:.2f} M reports a second ({min(made):.2f}..{max(made):.2f})")


if __name__ == "__main__":
    main()
