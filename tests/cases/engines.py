"""Small scenarios for the tests of engines and runs: drawn at random, played in many small blocks."""

import os
import subprocess
import sys

import polars as pl
from hypothesis import strategies as st

from poolscope.game import game
from poolscope.game.game import in_order
from poolscope.scenario.scenario import parse

MECHANISMS = [
    'kind = "cms"\nepsilon = 4\nm = 32\nhashes = 64',
    'kind = "hcms"\nepsilon = 3\nm = 32\nhashes = 16',
    'kind = "grr"\nepsilon = 2',
    'kind = "oue"\nepsilon = 1.5',
    'kind = "olh"\nepsilon = 2',
    'kind = "identity"',
]

ADVERSARIES = {
    "weak": 'popularity = "uniform"',
    "oracle": 'popularity = "true"',
    "strong": 'popularity = "estimated"\nestimate_from = 500',
}

#: Plays in blocks of 16 users, as a machine with hardly any memory would.
# A process that is started in the background has Ctrl-C ignored, below nohup HUP, and so would its children: here they
# are heard.
IN_SMALL_BLOCKS = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
from poolscope.game import game
from poolscope.game.game import in_order
game.Game.block_users = 16
from poolscope.cli.commands import main
main()
"""


def scenario_text(mechanism=MECHANISMS[0], adversaries=("weak", "strong"), observations=(3, 10), sigma=0.0, **more):
    """The TOML of a scenario with 30 objects in three pools."""
    chosen = "".join(f'[[adversary]]\nname = "{name}"\n{ADVERSARIES[name]}\n' for name in adversaries)
    return f"""
[universe]
size = 30
pools = {{ a = 5, b = 5, c = 6 }}
[popularity]
kind = "zipf"
exponent = 1.2
[mechanism]
{mechanism}
[users]
count = {more.get("users", 60)}
sigma = {sigma}
{chosen}[attack]
observations = {list(observations)}
"""


scenarios = st.builds(
    lambda *args, **kwargs: parse(scenario_text(*args, **kwargs), name="drawn"),
    st.sampled_from(MECHANISMS),
    st.lists(st.sampled_from(sorted(ADVERSARIES)), min_size=1, max_size=2, unique=True),
    st.lists(st.integers(1, 12), min_size=1, max_size=3, unique=True).map(sorted),
    st.sampled_from([0.0, 0.3]),
    users=st.integers(1, 70),
)


def small_blocks(monkeypatch):
    monkeypatch.setattr(game.Game, "block_users", 16)


def outcome_bytes(out):
    """What a run has played: the names and bytes of its files."""
    return {path.name: path.read_bytes() for path in sorted((out / "outcomes").iterdir())}


def start(*arguments, cwd, **options):
    """The command line in small blocks, as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", IN_SMALL_BLOCKS, *map(str, arguments)],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "140"},
        **options,
    )


def read_outcomes(out):
    """The outcome table of a finished run, in order."""
    return in_order(pl.concat([pl.read_parquet(file) for file in sorted((out / "outcomes").glob("part-*.parquet"))]))


__all__ = ["outcome_bytes", "read_outcomes", "scenario_text", "scenarios", "small_blocks", "start"]
