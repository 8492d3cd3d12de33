"""A mechanism of one's own, as an instance, a class or module:Class, wherever a mechanism is taken."""

import json

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import poolscope as ps
from poolscope.cli.commands import app

MODULE = """
import numpy as np

class Own:
    def __init__(self, size, epsilon):
        self.epsilon, self.size = epsilon, size
        self.keep = np.exp(epsilon) / (np.exp(epsilon) + size - 1)

    def obfuscate(self, objects, rng):
        kept = rng.random(len(objects)) < self.keep
        return np.where(kept, objects, (objects + rng.integers(1, self.size, size=len(objects))) % self.size)

    def log_likelihood(self, reports):
        same = reports[:, None] == np.arange(self.size)
        return np.log(np.where(same, self.keep, (1 - self.keep) / (self.size - 1)))
"""
TABLES = {
    "universe": {"size": 12, "pools": {"a": 4, "b": 4}},
    "popularity": {"kind": "zipf", "exponent": 1.0},
    "mechanism": {"kind": "oue", "epsilon": 2.0},
    "adversary": [{"name": "oracle", "popularity": "true"}],
    "attack": {"observations": [2, 5]},
}
SCENARIO = ps.Scenario.from_dict(TABLES)


@pytest.fixture
def own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mine_of_tests.py").write_text(MODULE)
    (tmp_path / "mine.toml").write_text(SCENARIO.text)
    import mine_of_tests

    return mine_of_tests.Own


def outcomes_of(folder):
    return pl.read_parquet(folder / "outcomes" / "*.parquet")


def test_every_form_plays_the_same_game(own, tmp_path):
    forms = {"class": own, "instance": own(12, 3.0), "text": "mine_of_tests:Own"}
    for name, form in forms.items():
        epsilon = None if name == "instance" else 3.0
        done = ps.audit(SCENARIO, tmp_path / name, users=30, seed=2, mechanism=form, epsilon=epsilon, html=False)
        assert done.devices[0].startswith("Own, ")
        assert done.scenario.asked["mechanism"] == "mine_of_tests:Own"
    first, *others = (outcomes_of(tmp_path / name) for name in forms)
    assert all(first.equals(other) for other in others)
    built_in = ps.audit(SCENARIO, tmp_path / "oue", users=30, seed=2, epsilon=3.0, html=False)
    assert built_in.devices[0].startswith("oue, ")
    assert not first.equals(outcomes_of(tmp_path / "oue")), "the negative control"


def test_the_scenario_gives_a_class_its_epsilon(own, tmp_path):
    done = ps.audit(SCENARIO, tmp_path / "run", users=5, mechanism=own, html=False)
    assert done.devices[0] == "Own, ε = 2 per report"
    with pytest.raises(ps.InputError, match="goes with a class, not with an instance"):
        ps.audit(SCENARIO, tmp_path / "other", users=5, mechanism=own(12, 3.0), epsilon=1.0, html=False)


def test_the_command_resumes_only_the_same_mechanism_and_reruns_none(own, tmp_path):
    line = ["audit", "mine.toml", "--users", "5", "--out", "run", "--mechanism", "mine_of_tests:Own"]
    done = CliRunner().invoke(app, line)
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["mechanism"] == "mine_of_tests:Own"
    again = CliRunner().invoke(app, [*line, "--resume"])
    assert again.exit_code == 0, again.output
    other = CliRunner().invoke(app, [*line[:-2], "--resume"])
    assert "the mechanism" in str(other.exception)
    rerun = CliRunner().invoke(app, ["rerun", "run"])
    assert "must have built-in mechanisms and attacks alone" in str(rerun.exception)


def test_a_game_and_a_posterior_adapt_it(own):
    universe = SCENARIO.universe()
    popularity = ps.popularity.zipf(universe, 1.0)
    adversary = ps.Adversary(name="oracle", universe=universe, popularity=popularity)
    parts = {"universe": universe, "popularity": popularity, "adversaries": [adversary], "observations": [4]}
    plain = ps.play(ps.Game(device=own(12, 3.0), **parts), 20, 1)
    adapted = ps.mechanisms.adapt(own(12, 3.0), universe)
    assert plain.equals(ps.play(ps.Game(device=ps.mechanisms.Fresh(adapted), **parts), 20, 1))
    assert plain.equals(ps.play(ps.Game(device=adapted, **parts), 20, 1))
    reports = np.array([1, 1, 5])
    assert np.array_equal(ps.posterior(own(12, 3.0), reports, adversary), ps.posterior(adapted, reports, adversary))
    with pytest.raises(ps.InputError, match="must be a"):
        ps.Game(device=own, **parts)
