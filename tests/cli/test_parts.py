"""The option --collection: one of several collections, for commands that take one."""

import json

import numpy as np
import polars as pl
import pytest
from cases.collections import scenario
from cases.command_line import poolscope

import poolscope as ps
from poolscope.core.randomness import collection_seed

ONE = "obfuscate, inspect, estimate and check take one by name: --collection, or Scenario.parts in Python"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mine.toml").write_text(scenario().text)
    rng = np.random.default_rng(1)
    rows = "".join(f"u{i % 20},{z}\n" for i, z in enumerate(rng.integers(0, 20, 2000)))
    (tmp_path / "traces.csv").write_text("user,object\n" + rows)
    return tmp_path


def run(folder, *arguments, code=0):
    done = poolscope(*arguments, cwd=folder)
    assert done.returncode == code, done.stderr
    return done


def test_one_collection_is_obfuscated_inspected_and_estimated(folder):
    options = "--scenario", "mine.toml", "--collection", "domains"
    run(folder, "obfuscate", "traces.csv", *options, "--seed", "3", "--out", "reports.parquet")
    part = ps.load_scenario(folder / "mine.toml").parts[1]
    assert part.name == "domains"
    ps.obfuscate(folder / "traces.csv", part, folder / "expected.parquet", seed=collection_seed(3, 1))
    assert pl.read_parquet(folder / "reports.parquet").equals(pl.read_parquet(folder / "expected.parquet"))
    run(folder, "inspect", "reports.parquet", *options)
    run(folder, "estimate", "reports.parquet", *options, "--out", "popularity.csv")
    made, expected = pl.read_csv(folder / "popularity.csv"), ps.estimate(folder / "reports.parquet", part).table
    assert made.height == 20
    np.testing.assert_allclose(made["count"], expected["count"])
    # the file is that of another collection
    done = run(folder, "inspect", "reports.parquet", *options[:-1], "emojis", code=2)
    assert "must have a column 'value'" in done.stderr


def test_one_collection_is_checked(folder):
    arguments = "check", "mine.toml", "--samples", "2000", "--json", "--collection"
    declared = {name: json.loads(run(folder, *arguments, name).stdout)["declared"] for name in ("emojis", "domains")}
    assert declared == {"emojis": 4.0, "domains": 3.0}


def test_collections_do_not_share_their_noise(tmp_path):
    """Two collections with the same mechanism and traces: with one seed for both, all reports would be the same."""
    same = {"universe": {"size": 20, "pools": {"left": 5, "right": 5}}, "mechanism": {"kind": "grr", "epsilon": 1.0}}
    both = [{"name": name, "popularity": {"kind": "uniform"}, **same} for name in ("one", "two")]
    (tmp_path / "mine.toml").write_text(scenario(*both).text)
    (tmp_path / "traces.csv").write_text("user,object\n" + "ann,3\n" * 400)
    for name in ("one", "two"):
        options = "--scenario", "mine.toml", "--collection", name, "--out", f"{name}.csv"
        run(tmp_path, "obfuscate", "traces.csv", *options)
    one, two = (pl.read_csv(tmp_path / f"{name}.csv").drop("user").to_series() for name in ("one", "two"))
    # true answers agree by chance: 0.125 squared, and any other value in 1 of 20
    assert (one == two).mean() < 0.2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--collection", "emoji"], "mine.toml: --collection: unknown collection, got 'emoji'; did you mean 'emojis'?"),
        ([], ONE),
    ],
)
@pytest.mark.parametrize(
    "command",
    [
        ["obfuscate", "traces.csv", "--scenario", "mine.toml", "--out", "reports.csv"],
        ["inspect", "traces.csv", "--scenario", "mine.toml"],
        ["estimate", "traces.csv", "--scenario", "mine.toml", "--out", "popularity.csv"],
        ["check", "mine.toml"],
    ],
)
def test_wrong_and_missing_names_are_one_line(folder, command, arguments, message):
    done = run(folder, *command, *arguments, code=2)
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert sorted(path.name for path in folder.iterdir()) == ["mine.toml", "traces.csv"]


def test_a_scenario_of_one_collection_has_no_names(folder):
    done = run(folder, "check", "apple-emojis", "--collection", "emojis", code=2)
    assert "--collection: requires a scenario with [[collection]], got 'emojis'; omit the option" in done.stderr
