"""Every command on mechanisms whose reports are no bits: hashes of other libraries, blocks, real numbers."""

import numpy as np
import polars as pl
import pytest
from cases.report_files import ATTACK, BASE, WEAK, command
from cases.selection import mostly, slow
from cases.synthetic import SEED

KINDS = {
    "olh": "kind = 'olh'\nepsilon = 4\nhash = 'xxhash32'\n",
    "blh": "kind = 'blh'\nepsilon = 4\nhash = 'xxhash32'\n",
    "hr": "kind = 'hr'\nepsilon = 4\n",
    "she": "kind = 'she'\nepsilon = 4\n",
}
CURIOUS = f"{WEAK}[[adversary]]\nname = 'curious'\npopularity = 'estimated'\n"
STRONG = f"{WEAK}[[adversary]]\nname = 'strong'\npopularity = 'estimated'\nestimate_from = 500\n"


@pytest.fixture(params=mostly(slow, KINDS, "olh", "she"))
def folder(request, tmp_path, monkeypatch):
    """A scenario, and traces in which each of three users has one object only."""
    monkeypatch.chdir(tmp_path)
    for name, adversaries in (("small", CURIOUS), ("play", STRONG)):
        text = f"{BASE}[mechanism]\n{KINDS[request.param]}[users]\ncount = 40\n{adversaries}{ATTACK}estimates = 3\n"
        (tmp_path / f"{name}.toml").write_text(text.replace("[3, 10]", "[200]") if name == "small" else text)
    users, objects = np.repeat(["ann", "bob", "eve"], 200), np.repeat([1, 7, 15], 200)
    pl.DataFrame({"user": users, "object": objects}).write_csv("traces.csv")
    return tmp_path


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_reports_are_made_attacked_and_estimated(folder, ending):
    at = "--scenario", "small.toml"
    assert command("obfuscate", "traces.csv", *at, "--out", f"reports.{ending}", "--seed", SEED) == 0
    assert command("attack", f"reports.{ending}", *at, "--out", "posteriors.csv") == 0
    assert command("estimate", f"reports.{ending}", *at, "--out", "popularity.csv") == 0
    posteriors = pl.read_csv("posteriors.csv")
    assert posteriors.filter(adversary="weak").sort("user")["guess"].to_list() == ["a", "b", "c"]
    assert posteriors.filter(adversary="curious").sort("user")["guess"].to_list() == ["a", "b", "c"]
    found = pl.read_csv("popularity.csv")
    truth = np.zeros(30)
    truth[[1, 7, 15]] = 200
    assert np.all(np.abs(found["count"].to_numpy() - truth) < 4.5 * found["standard_error"].to_numpy())


@pytest.mark.default_cases("olh")
def test_played_checked_and_compared(folder, capsys):
    kind = (folder / "play.toml").read_text().split("kind = '")[1].split("'")[0]
    assert command("audit", "play.toml", "--out", "run", "--users", 40) == 0
    assert command("check", "play.toml", "--samples", 20_000) == 0
    options = (
        "--mechanism",
        f"{kind},grr",
        "--epsilon",
        "3",
        "--users",
        40,
        "--estimate-from",
        300,
        "--out",
        "compared",
    )
    assert command("compare", "play.toml", *options) == 0
    assert "PASS: no violation of ε = 4 detected." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("mechanism", "said"),
    [
        ("kind = 'identity'", "nothing: no finite ε is declared"),
        ("kind = 'grr'\nepsilon = 12", "no ε: the sample is too small for an event this common"),
    ],
)
def test_what_a_check_could_have_detected(tmp_path, capsys, mechanism, said):
    (tmp_path / "mine.toml").write_text(f"{BASE}[mechanism]\n{mechanism}\n")
    assert command("check", tmp_path / "mine.toml", "--samples", 1000) == 0
    assert said in " ".join(capsys.readouterr().out.replace("│", " ").split())
