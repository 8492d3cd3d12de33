"""Pseudonyms of a file that are likely one device's."""

import numpy as np
import polars as pl
import pytest
from cases.report_files import command, game_traces, scenario_of, write_traces
from cases.synthetic import SEED

from poolscope.core.errors import InputError
from poolscope.inference.link_scores import link_scores
from poolscope.reports.files import read_reports
from poolscope.scenario.build import build_device, build_mechanism
from poolscope.workflows.attack import attack as attacking
from poolscope.workflows.attack import linking
from poolscope.workflows.attack.linking import link_users
from poolscope.workflows.obfuscate import obfuscate

STRONG = "[[adversary]]\nname = 'strong'\npopularity = 'true'\n"
WINDOW, USERS = 10, 12


def sent(tmp_path, mechanism, adversaries=STRONG, ending="parquet"):
    """Two pseudonyms of each of the users of a game."""
    text = f"{mechanism}[devices]\nmemoize = true\nrotate_after = {WINDOW}\n"
    attack = f"[attack]\nobservations = [{2 * WINDOW}]\n"
    scenario = scenario_of(tmp_path, mechanism=text, adversaries=adversaries, attack=attack)
    game = scenario_of(tmp_path, mechanism=text, adversaries=STRONG, attack=attack, name="game.toml").game(SEED)
    write_traces(tmp_path / "traces.parquet", game_traces(game, USERS, SEED), interleaved=True)
    obfuscate(tmp_path / "traces.parquet", scenario, path := tmp_path / f"reports.{ending}", SEED)
    return scenario, path


SKETCH = "kind = 'cms'\nepsilon = 4\nm = 256\nhashes = 64\n"


@pytest.mark.filterwarnings("error")
def test_the_other_window_of_a_device_is_its_likeliest(tmp_path):
    scenario, path = sent(tmp_path, SKETCH)
    found = link_users(path, scenario, tmp_path / "links.parquet")
    assert found.equals(pl.read_parquet(tmp_path / "links.parquet"))
    assert found["score"].is_sorted(descending=True)
    assert found["score"].min() > 0
    same = found["user"].str.split("#").list.first() == found["other"].str.split("#").list.first()
    assert same.sum() >= 0.9 * 2 * USERS
    assert not (found["user"] == found["other"]).any()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", ["l-osue", "loloha"])
def test_the_score_is_that_of_all_pairs_whatever_is_worked_on_at_once(tmp_path, monkeypatch, kind):
    scenario, path = sent(tmp_path, f"kind = '{kind}'\nepsilon = 4\n", ending="csv")
    whole = link_users(path, scenario, tmp_path / "links.csv")
    monkeypatch.setattr(linking, "BATCH_REPORTS", 7)
    again = link_users(path, scenario, tmp_path / "links.csv", overwrite=True)
    assert again.drop("score").equals(whole.drop("score"))
    assert np.allclose(again["score"], whole["score"], rtol=1e-9)
    device = build_device(scenario, build_mechanism(scenario, scenario.universe()))
    users, reports = read_reports(path, device.mechanism, scenario.universe())
    adversary = scenario.game(SEED).adversaries[0]
    for user, other, score in whole.select("user", "other", "score").rows()[:5]:
        one, two = ({name: x[(users == who).to_numpy()] for name, x in reports.items()} for who in (user, other))
        sizes = np.array([WINDOW]), np.array([WINDOW])
        assert link_scores(device, one, two, adversary, sizes).item() == pytest.approx(score, rel=1e-9)


@pytest.mark.filterwarnings("error")
def test_other_pools_move_the_scores(tmp_path):
    scenario, path = sent(tmp_path, SKETCH)
    rows = [{"object": z, "pool": "odd" if z % 2 else "even"} for z in range(20)]
    pl.DataFrame(rows).write_csv(tmp_path / "pools.csv")
    found = link_users(path, scenario, tmp_path / "links.csv", pools=tmp_path / "pools.csv")
    assert not np.allclose(found["score"][:5], link_users(path, scenario, tmp_path / "own.csv")["score"][:5])


def test_what_cannot_be_linked_is_refused(tmp_path, monkeypatch):
    scenario, path = sent(tmp_path, SKETCH, f"{STRONG}knows_memoization = false\n")
    with pytest.raises(InputError, match=r"small\.toml: adversary: must have an adversary with knows_memoization"):
        link_users(path, scenario, tmp_path / "links.csv")
    scenario = scenario_of(tmp_path, mechanism=f"{SKETCH}[devices]\nmemoize = true\n", adversaries=STRONG)
    monkeypatch.setattr(linking, "MAX_PSEUDONYMS", 100)
    rule = r"reports\.parquet: must have at most 100 reports to be linked, got 240; use a subset of the users"
    monkeypatch.setattr(linking, "prepare_attack", None)  # nothing is begun
    with pytest.raises(InputError, match=rule):
        link_users(path, scenario, tmp_path / "links.csv")
    pl.DataFrame({"user": ["a"] * 101, "value": ["1"] * 101}).write_csv(tmp_path / "many.csv")
    with pytest.raises(InputError, match=r"many\.csv: must have at most 100 reports to be linked, got 101"):
        link_users(tmp_path / "many.csv", scenario, tmp_path / "links.csv")
    assert not (tmp_path / "links.csv").exists()


def test_the_command_refuses_before_it_attacks(tmp_path, capsys, monkeypatch):
    _, path = sent(tmp_path, SKETCH)
    monkeypatch.setattr(linking, "MAX_PSEUDONYMS", 100)
    monkeypatch.setattr(attacking, "prepare_attack", None)
    at = "attack", path, "--scenario", tmp_path / "small.toml", "--out", tmp_path / "posteriors.csv"
    assert command(*at, "--link-scores", tmp_path / "links.csv") == 2
    assert "must have at most 100 reports to be linked, got 240" in capsys.readouterr().err
    assert not list(tmp_path.glob("posteriors*"))


def test_the_command(tmp_path, capsys):
    _, path = sent(tmp_path, SKETCH)
    at = "attack", path, "--scenario", tmp_path / "small.toml"
    assert command(*at, "--link-scores", tmp_path / "links.csv") == 0
    shown = capsys.readouterr()
    assert "pseudonyms with a likely match" in " ".join(shown.out.split())
    assert shown.err.count("reports are linked by the user names in the file") == 1
    assert pl.read_csv(tmp_path / "links.csv").columns == ["adversary", "user", "other", "score"]
