"""Every command on devices that keep answers and add noise again, on dBitFlip and on PI-RAPPOR."""

import json

import numpy as np
import polars as pl
import pytest
from cases.report_files import ATTACK, BASE, command
from cases.selection import mostly, slow
from cases.synthetic import SEED

AGAIN = "[devices]\nmemoize = true\ninstantaneous = { kind = 'grr', epsilon = 4 }\n"
KINDS = {
    "l-grr": "kind = 'l-grr'\nepsilon = 4\n",
    "l-sue": "kind = 'l-sue'\nepsilon_perm = 9\nepsilon_1 = 4\n",
    "l-osue": "kind = 'l-osue'\nepsilon = 4\nepsilon_perm = 6\n",
    "l-oue": "kind = 'l-oue'\nepsilon = 4\n",
    "l-soue": "kind = 'l-soue'\nepsilon = 4\n",
    "loloha": "kind = 'loloha'\nepsilon = 4\ng = 2\n",
    "loloha-best": "kind = 'loloha'\nepsilon = 4\nhash = 'xxhash32'\n",
    "dbitflip": "kind = 'dbitflip'\nepsilon = 4\nd = 12\n",
    "pi-rappor": "kind = 'pi-rappor'\nepsilon = 4\n",
    "grr-again": f"kind = 'grr'\nepsilon = 6\n{AGAIN}",
    "olh-again": f"kind = 'olh'\nepsilon = 5\n{AGAIN}",
}
ADVERSARY = "[[adversary]]\nname = 'weak'\npopularity = 'uniform'\n"


@pytest.fixture(params=mostly(slow, KINDS, "l-osue", "pi-rappor"))
def folder(request, tmp_path, monkeypatch):
    """A scenario, and traces of 600 users, each with one report."""
    monkeypatch.chdir(tmp_path)
    text = f"{BASE}[mechanism]\n{KINDS[request.param]}[users]\ncount = 40\n{ADVERSARY}{ATTACK}"
    (tmp_path / "small.toml").write_text(text)
    users = [f"u{i}" for i in range(600)]
    pl.DataFrame({"user": users, "object": np.repeat([1, 7, 15], 200)}).write_csv("traces.csv")
    return tmp_path


def test_reports_are_made_attacked_and_estimated(folder):
    at = "--scenario", "small.toml"
    for ending in ("parquet", "csv"):
        assert command("obfuscate", "traces.csv", *at, "--out", f"reports.{ending}", "--seed", SEED) == 0
        assert command("estimate", f"reports.{ending}", *at, "--out", f"popularity-{ending}.csv") == 0
    assert command("attack", "reports.parquet", *at, "--out", "posteriors.csv") == 0
    assert pl.read_csv("posteriors.csv")["user"].n_unique() == 600
    found = pl.read_csv("popularity-parquet.csv")
    assert found.equals(pl.read_csv("popularity-csv.csv"))
    truth = np.zeros(30)
    truth[[1, 7, 15]] = 200
    assert np.all(np.abs(found["count"].to_numpy() - truth) < 4.5 * found["standard_error"].to_numpy())


@pytest.mark.default_cases("l-osue")
def test_played_checked_and_compared(folder, capsys):
    assert command("audit", "small.toml", "--out", "run", "--users", 12) == 0
    summary = json.loads((folder / "run" / "summary.json").read_text())
    kept = "pi-rappor" not in (folder / "small.toml").read_text()
    assert (summary["epsilon"]["response"] is not None) == kept
    # eleven checks at 95% would raise a false alarm every other time
    assert command("check", "small.toml", "--samples", 20_000, "--confidence", 0.999) == 0
    assert "PASS: no violation of ε = " in capsys.readouterr().out


@pytest.mark.slow
def test_kinds_that_keep_beside_one_that_does_not(tmp_path, monkeypatch):
    """Each has the devices that it is made for, and the bound of its kept answers."""
    monkeypatch.chdir(tmp_path)
    text = f"{BASE}[mechanism]\nkind = 'l-grr'\nepsilon = 1\n{ADVERSARY}knows_memoization = false\n{ATTACK}"
    (tmp_path / "small.toml").write_text(text)
    options = "--mechanism", "l-grr,loloha,dbitflip,oue", "--epsilon", "1,2", "--users", 30, "--estimate-from", 300
    assert command("compare", "small.toml", *options, "--out", "compared") == 0
    found = json.loads((tmp_path / "compared" / "comparison.json").read_text())
    bounds = {(record["mechanism"], record["epsilon"]): record["composition_bound"] for record in found["results"]}
    assert bounds["l-grr", 1] == 10 * 2
    assert bounds["loloha", 1] == 4 * 2, "values, and not reports"
    assert bounds["dbitflip", 2] == 2 * 2
    assert bounds["oue", 2] == 10 * 2
    assert sum("memoizes its responses" in phrase for phrase in found["devices"]) == 1
