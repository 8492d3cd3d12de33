"""The game with devices that memoize, from a scenario."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from cases.memoized import CROWD, POPULARITY, STRONG, traces_of
from cases.synthetic import SEED
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

from poolscope.cli.commands import app
from poolscope.core.errors import InputError
from poolscope.core.executors import Local
from poolscope.game.game import Game, play
from poolscope.inference.adversary import Adversary
from poolscope.inference.attack import posterior
from poolscope.inference.memoized import attack
from poolscope.mechanisms import CMS, Fresh, Memoized, Rappor, device_of, reports_of
from poolscope.metrics.records import Record, summarize
from poolscope.metrics.text import mcse_text
from poolscope.scenario.build import build_game
from poolscope.scenario.scenario import parse

NAIVE = Adversary(name="naive", universe=CROWD, popularity=POPULARITY, knows_memoization=False)
SKETCH = CMS(universe=60, epsilon=3.0, m=32, hashes=100)
RAPPOR = Rappor(universe=60, m=32, hashes=2, cohorts=4, f=0.25, p=0.1, q=0.9)


def game(mechanism, observations=(5, 12)):
    return Game(
        universe=CROWD,
        popularity=POPULARITY,
        device=device_of(mechanism, memoize=True),
        adversaries=[STRONG, NAIVE],
        observations=observations,
    )


@pytest.mark.parametrize(
    "mechanism", [pytest.param(SKETCH, id="cms", marks=pytest.mark.slow), pytest.param(RAPPOR, id="rappor")]
)
def test_outcomes_are_those_of_the_attacks(mechanism, monkeypatch):
    """Both adversaries on the same reports, each as its function says, some users at a time."""
    monkeypatch.setattr(attack, "CHUNK", 3)
    outcomes = play(game(mechanism), 4, SEED)
    keys, users, traces = traces_of(4, 12)
    memory = device_of(mechanism, memoize=True)
    reports, lengths = reports_of(memory, traces, keys), np.full(4, 12)
    expected = {
        "strong": posterior(memory, reports, STRONG, lengths=lengths, observations=[12])[:, 0],
        "naive": posterior(memory, reports, NAIVE, lengths=lengths)[:, -1],
    }
    for name, found in expected.items():
        rows = outcomes.filter((pl.col("adversary") == name) & (pl.col("n") == 12)).sort("user")
        np.testing.assert_array_equal(rows["confidence"], found.max(axis=1))
        np.testing.assert_array_equal(rows["posterior_true"], found[np.arange(4), users.iota])


@pytest.mark.parametrize(
    "mechanism", [pytest.param(SKETCH, id="cms", marks=pytest.mark.slow), pytest.param(RAPPOR, id="rappor")]
)
def test_outcomes_depend_neither_on_blocks_nor_on_threads(mechanism, monkeypatch):
    whole = play(game(mechanism), 5, SEED, engine=Local(threads=1))
    monkeypatch.setattr(attack.MemoizedReportsAttack, "max_users", 2)
    monkeypatch.setattr(attack, "CHUNK", 1)
    assert_frame_equal(play(game(mechanism), 5, SEED, engine=Local(threads=2)), whole, check_exact=True)


def test_first_reports_stay_the_same():
    columns = ["user", "adversary", "confidence", "posterior_true"]
    short, long = (play(game(RAPPOR, observations), 3, SEED) for observations in ((5,), (5, 12)))
    assert_frame_equal(short.select(columns), long.filter(pl.col("n") == 5).select(columns), check_exact=True)


def test_the_error_of_chance_is_in_the_outcomes():
    """As the attack states it; to whoever does not sample, nothing is chance."""
    outcomes = play(game(RAPPOR), 3, SEED)
    keys, _, traces = traces_of(3, 12)
    memory = device_of(RAPPOR, memoize=True)
    for user in range(3):
        first = {name: x[:5] for name, x in reports_of(memory, traces[[user]], keys[[user]]).items()}
        found = attack.user_posterior(memory, first, STRONG)
        row = outcomes.filter((pl.col("adversary") == "strong") & (pl.col("n") == 5) & (pl.col("user") == user))
        assert row["confidence_mcse"].item() == found.error[found.posterior.argmax()] > 0
    for name in ("naive", "non-private"):
        rows = outcomes.filter(pl.col("adversary") == name)
        assert (rows["confidence_mcse"] == 0).all()
        for column in ("exposed_at_50", "exposed_at_90", "exposed_at_95"):
            assert rows[column].equals(rows[column + "_plus_mcse"])
            assert rows[column].equals(rows[column + "_minus_mcse"])
    alone = replace(game(RAPPOR), adversaries=[NAIVE])
    assert "confidence_mcse" not in play(alone, 3, SEED).columns


def test_the_summary_tells_the_error_of_chance():
    """And so do its words; the intervals hold all that it allows."""
    played = game(RAPPOR)
    records = {(r.adversary, r.n): r for r in summarize(play(played, 5, SEED), played, SEED)}
    for (name, _), record in records.items():
        assert (record.confidence_mcse > 0) == (name == "strong")
        assert record.confidence_mcse_max >= record.confidence_mcse
        assert Record.from_json(record.as_json()) == record
    assert "Posteriors of strong are sampled" in mcse_text(list(records.values()))


@pytest.mark.slow
def test_exposure_is_dated_by_observation_counts():
    """Whoever knows of the memory attacks at observation counts only."""
    outcomes = play(game(SKETCH, (4, 9, 15)), 20, SEED).filter(pl.col("adversary") == "strong")
    assert set(outcomes["exposed_at_50"].drop_nulls()) <= {4, 9, 15}


SCENARIO = """
[universe]
size = 60
pools = { a = 8, b = 8, c = 12 }
[popularity]
kind = "zipf"
exponent = 1
[mechanism]
kind = "sue"
epsilon = 3
[devices]
memoize = true
[users]
count = 3
[[adversary]]
name = "grouping"
popularity = "true"
[[adversary]]
name = "naive"
popularity = "true"
knows_memoization = false
[attack]
observations = [4, 20]
"""


def test_a_scenario_can_have_memory():
    scenario = parse(SCENARIO, name="kept")
    assert scenario.mechanism.parameters == {"epsilon": 3}
    built = build_game(scenario, seed=1)
    assert isinstance(built.device, Memoized)
    assert [adversary.knows_memoization for adversary in built.adversaries] == [True, False]
    assert "memoization ignored" in built.adversaries[1].phrase
    fresh = parse(SCENARIO.replace("memoize = true\n", "").replace("knows_", "#"), name="x")
    assert isinstance(build_game(fresh, 1).device, Fresh)


def test_only_devices_with_memory_can_be_known_to_have_it():
    with pytest.raises(InputError, match=r"adversary\[1\]\.knows_memoization: requires memoize = true in \[devices\]"):
        parse(SCENARIO.replace("memoize = true", "memoize = false"), name="x")
    with pytest.raises(InputError, match=r"devices\.memoize: must be true or false"):
        parse(SCENARIO.replace("memoize = true", "memoize = 1"), name="x")


def test_memory_has_one_place():
    """It was a key of the mechanism once."""
    with pytest.raises(InputError, match=r"mechanism\.memoize: .*write memoize in a table \[devices\]"):
        parse(SCENARIO.replace("[devices]\n", ""), name="x")


def test_commands(tmp_path):
    """Audit plays it, obfuscate sends what is kept, attack reads it."""
    path, out = tmp_path / "kept.toml", tmp_path / "run"
    path.write_text(SCENARIO)
    done = CliRunner().invoke(app, ["audit", str(path), "--out", str(out)])
    assert done.exit_code == 0, done.output
    outcomes = pl.read_parquet(out / "outcomes")
    assert {"grouping", "naive"} <= set(outcomes["adversary"].cast(pl.String))
    results = json.loads((out / "summary.json").read_text())["results"]
    mean = outcomes.group_by("adversary", "n", maintain_order=True).agg(pl.mean("confidence_mcse"))
    np.testing.assert_allclose([row["confidence_mcse"] for row in results], mean["confidence_mcse"])
    assert "Posteriors of grouping are sampled" in " ".join(done.output.split())
    assert "Posteriors of grouping are sampled" in (out / "report.html").read_text().replace("\xa0", " ")
    traces, reports = tmp_path / "traces.csv", tmp_path / "reports.csv"
    traces.write_text("user,object\n" + "".join(f"{user},{z}\n" for z in (7, 3, 7, 50, 7) for user in ("ann", "bob")))
    done = CliRunner().invoke(app, ["obfuscate", str(traces), "--scenario", str(path), "--out", str(reports)])
    assert done.exit_code == 0, done.output
    sent = pl.read_csv(reports).group_by("user", maintain_order=True).agg("ones")
    for ones in sent["ones"].to_list():
        assert ones[0] == ones[2] == ones[4]
        assert len(set(ones)) == 3
    assert sent["ones"][0][0] != sent["ones"][1][0], "each user has answers of its own"
    done = CliRunner().invoke(app, ["attack", str(reports), "--scenario", str(path)])
    assert done.exit_code == 0, done.output
