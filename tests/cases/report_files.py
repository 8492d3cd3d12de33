"""Small scenarios, traces and reports in files, and the command line, for the tests of what reads and writes them."""

import sys

import numpy as np
import polars as pl
from cases.synthetic import SEED

from poolscope.cli import commands as cli
from poolscope.core.randomness import user_keys
from poolscope.core.tables import check_output, writing
from poolscope.population.behavior import draw_traces, draw_users
from poolscope.reports.files import numeric_columns, report_frame
from poolscope.scenario.build import build_mechanism
from poolscope.scenario.scenario import load_scenario

BASE = """
[universe]
size = 30
pools = { a = 5, b = 6, c = 7 }
[popularity]
kind = "zipf"
exponent = 1.2
"""
MECHANISMS = {
    "cms": "kind = 'cms'\nepsilon = 4\nm = 32\nhashes = 64\n",
    "hcms": "kind = 'hcms'\nepsilon = 4\nm = 32\nhashes = 64\n",
    "identity": "kind = 'identity'\n",
}
WEAK = """
[[adversary]]
name = "weak"
popularity = "uniform"
"""
ADVERSARIES = f"""{WEAK}
[[adversary]]
name = "strong"
popularity = "estimated"
estimate_from = 2000
"""
ATTACK = "[attack]\nobservations = [3, 10]\nnon_private = false\n"


def scenario_of(tmp_path, *, mechanism="cms", adversaries=ADVERSARIES, attack=ATTACK, base=BASE, name="small.toml"):
    path = tmp_path / name
    path.write_text(f"{base}[mechanism]\n{MECHANISMS.get(mechanism, mechanism)}{adversaries}{attack}")
    return load_scenario(path)


def game_traces(game, users, seed):
    """What the users of a game pick."""
    truth = draw_users(game.universe, game.behavior, user_keys(seed, np.arange(users)))
    return draw_traces(game.universe, game.popularity, truth, game.horizon)


def write_traces(path, traces, *, names=str, interleaved=False):
    """Traces as a file; interleaved: everybody's first object, then everybody's second, and so on."""
    users, length = traces.shape
    who = np.repeat(np.arange(users), length).reshape(users, length)
    who, what = (x.T.ravel() if interleaved else x.ravel() for x in (who, traces))
    frame = pl.DataFrame({"user": [names(u) for u in who.tolist()], "object": what})
    frame.write_csv(path) if path.suffix == ".csv" else frame.write_parquet(path)


def write_reports(path, users, reports, mechanism, universe):
    """Reports as a file, in one part, as `obfuscate` writes them; one that is there already is refused."""
    check_output(path, overwrite=False)
    numeric = numeric_columns(mechanism.report_columns)
    with writing(path, compression="uncompressed", numeric=numeric) as parts:
        parts.write(0, report_frame(users, reports, mechanism.report_columns, universe, text=parts.text))


def command(*arguments):
    """Run the command line in this process; its exit code."""
    argv, sys.argv = sys.argv, ["poolscope", *map(str, arguments)]
    try:
        cli.main()
    except SystemExit as leaving:
        return leaving.code or 0
    finally:
        sys.argv = argv
    return 0


def small_attack(tmp_path, **options):
    """A scenario and a file of CMS reports in which users have 1 to 20 reports, interleaved."""
    scenario = scenario_of(tmp_path, **options)
    rng = np.random.default_rng(SEED)
    users = np.repeat(np.arange(25), rng.integers(1, 21, size=25))
    users = pl.Series([f"u{x}" for x in rng.permutation(users).tolist()])
    about = build_mechanism(scenario, scenario.universe())
    reports = about.obfuscate(rng.integers(30, size=len(users)), rng)
    path = tmp_path / "reports.parquet"
    path.unlink(missing_ok=True)
    write_reports(path, users, reports, about, scenario.universe())
    return scenario, path
