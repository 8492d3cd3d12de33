"""The commands on a scenario with ``[multidimensional]``, as a person types them."""

import json
import math
import re
from pathlib import Path

import jsonschema
import pytest
from cases.command_line import poolscope

from poolscope.cli.schemas import schema_of

EXAMPLE = Path(__file__).parents[2] / "examples" / "rs-fd.toml"
SUPPORTED = "tuples are for audit, check, obfuscate, estimate and attack"
REPORTS = "user,emoji,domain,word\n" + "ann,0,1,0\n" * 12 + "bob,2,3,1\n" * 12


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mine.toml").write_text(EXAMPLE.read_text())
    (tmp_path / "reports.csv").write_text(REPORTS)
    return tmp_path


def test_check_shows_three_epsilons(folder):
    done = poolscope("check", "mine.toml", "--samples", "2000", "--seed", "1", "--json", cwd=folder, COLUMNS="200")
    assert done.returncode == 0, done.stderr
    for text in (
        "ε of whole tuples",
        "3.004, exact",
        "2.238, exact",
        "ε in the literature",
        "no violation of ε = 3.00406",
    ):
        assert text in done.stderr
    found = json.loads(done.stdout)
    jsonschema.validate(found, schema_of("verdict"))
    assert found["multidimensional"]["claimed_epsilon"] == pytest.approx(2.0)
    assert found["exact"]["epsilon"] == pytest.approx(3.004, abs=5e-4)


def test_audit_says_how_often_the_sampled_attribute_is_guessed(folder):
    done = poolscope("audit", "mine.toml", "--users", "20", "--observations", "2,4", cwd=folder, COLUMNS="200")
    assert done.returncode == 0, done.stderr
    assert "adversary guesses the sampled attribute of" in done.stdout
    assert "a guess without reports is correct for 33%" in done.stdout
    assert "the literature claims ε = 2" in done.stdout


def test_traces_become_reports_that_other_commands_read(folder):
    (folder / "traces.csv").write_text("user,emoji,domain,word\n" + "ann,0,1,0\n" * 12 + "bob,2,3,1\n" * 12)
    done = poolscope("obfuscate", "traces.csv", "--scenario", "mine.toml", "--out", "made.parquet", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "24 reports of 2 users" in done.stdout
    for arguments in (["estimate", "made.parquet"], ["attack", "made.parquet", "--observations", "12"]):
        done = poolscope(*arguments, "--scenario", "mine.toml", cwd=folder)
        assert done.returncode == 0, done.stderr
        assert "24 reports" in done.stdout


def test_estimate_lists_collections(folder):
    done = poolscope("estimate", "reports.csv", "--scenario", "mine.toml", "--out", "popularity.csv", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "collection" in done.stdout
    assert "24 reports, 17 objects" in done.stdout
    assert (folder / "popularity.csv").read_text().startswith("collection,object,pool,count,")


def test_attack_takes_one_table(folder):
    done = poolscope(
        "attack",
        "reports.csv",
        "--scenario",
        "mine.toml",
        "--out",
        "posteriors.csv",
        "--observations",
        "7,12",
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    assert "n counts days." in done.stdout
    rows = (folder / "posteriors.csv").read_text().splitlines()
    assert rows[0].startswith("user,adversary,n,guess,confidence,posterior.left,posterior.right,posterior.emoji.left,")
    assert rows[0].endswith(",posterior.word.right,sampled.emoji,sampled.domain,sampled.word")
    assert len(rows) == 5


def test_guesses_that_contradict_the_truth_fail_where_asked(folder):
    users = [f"u{i}" for i in range(40)]
    (folder / "reports.csv").write_text("user,emoji,domain,word\n" + "".join(f"{u},0,1,0\n" * 12 for u in users))
    (folder / "truth.csv").write_text("user,pool\n" + "".join(f"{u},right\n" for u in users))
    asked = ("attack", "reports.csv", "--scenario", "mine.toml", "--out", "p.csv", "--ground-truth", "truth.csv")
    assert poolscope(*asked, cwd=folder).returncode == 0
    assert poolscope(*asked, "--overwrite", "--strict", cwd=folder).returncode == 1


def test_attack_counts_days_and_values(folder):
    """Two reports a day: after three days, six reports count."""
    (folder / "mine.toml").write_text(EXAMPLE.read_text() + "[devices]\nreports_per_day = 2\n")
    arguments = ["attack", "reports.csv", "--scenario", "mine.toml", "--observations", "3", "--json", "--top", "1"]
    done = poolscope(*arguments, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "Guesses after 3 days" in done.stderr
    assert re.search(r"^\W*value\W+strong", done.stderr, re.MULTILINE), done.stderr
    assert "at most" not in done.stderr
    found = json.loads(done.stdout)
    jsonschema.validate(found, schema_of("attack"))
    assert [(row["n"], row["reports"]) for row in found["results"]] == [(3, 12)]
    assert found["pools"] == ["left", "right"]
    (first,) = found["top"]
    assert first["posterior.left"] + first["posterior.right"] == pytest.approx(1.0)
    assert first["log_odds"] == pytest.approx(abs(math.log(first["posterior.left"] / first["posterior.right"])))


def test_attack_writes_a_report_of_days(folder):
    done = poolscope(
        *("attack", "reports.csv", "--scenario", "mine.toml", "--observations", "7,12"),
        *("--out", "posteriors.csv", "--html", "attack.html"),
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    page = (folder / "attack.html").read_text()
    for text in ("Exposure against days", "After 12 days, the strong adversary", "2 values of leaning: left, right"):
        assert text in page
    command = "poolscope attack reports.csv --scenario mine.toml --observations 7,12 --out posteriors.csv"
    assert f"{command} --html attack.html" in page


def test_attack_shows_one_user(folder):
    arguments = ["attack", "reports.csv", "--scenario", "mine.toml", "--user", "ann", "--json"]
    done = poolscope(*arguments, "--out", "ann.csv", cwd=folder, COLUMNS="300")
    assert done.returncode == 0, done.stderr
    for text in ("ann, 12 reports, strong adversary", "After all reports, the strong adversary assigns", "emoji.left"):
        assert text in done.stderr
    found = json.loads(done.stdout)
    assert (found["user"], found["reports"], len(found["table"])) == ("ann", 12, 12)
    assert sum(found["table"][0][f"sampled.{name}"] for name in ("emoji", "domain", "word")) == pytest.approx(1.0)
    assert (folder / "ann.csv").read_text().startswith("adversary,n,posterior.left,posterior.right,")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["attack", "reports.csv", "--user", "eve"], "reports.csv: user: must be a user of the file, got 'eve'"),
        (["attack", "reports.csv", "--top", "1", "--why"], "--why: cannot be combined with [multidimensional]"),
        (["attack", "reports.csv", "--link-fdr", "0.1"], "--link-fdr: cannot be combined with [multidimensional]"),
        (["attack", "--reports", "emoji=reports.csv"], "has one report for all collections; give one table"),
        (["estimate", "reports.csv", "--method", "ibu"], "method: must be linear with [multidimensional]"),
        (["inspect", "reports.csv"], f"must not have a table [multidimensional]; {SUPPORTED}"),
        (
            ["estimate", "reports.csv", "--collection", "emoji"],
            "--collection: cannot be combined with [multidimensional], got 'emoji'; one report is for all collections",
        ),
    ],
)
def test_what_is_not_supported_is_one_line(folder, arguments, message):
    done = poolscope(*arguments, "--scenario", "mine.toml", cwd=folder)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare", "mine.toml", "--mechanism", "grr", "--epsilon", "1"], SUPPORTED),
        (["advise", "mine.toml", "--max-exposed", "0.1"], SUPPORTED),
        (["sweep", "mine.toml", "--vary", "mechanism.epsilon=1,2", "--out", "runs"], SUPPORTED),
        (["fit", "mine.toml", "reports.csv"], SUPPORTED),
        (
            ["audit", "mine.toml", "--epsilon", "1"],
            "requires a single collection; set epsilon in the scenario",
        ),
    ],
)
def test_other_commands_refuse_tuples(folder, arguments, message):
    before = sorted(folder.iterdir())
    done = poolscope(*arguments, cwd=folder)
    assert done.returncode == 2, done.stdout
    assert done.stderr.strip().endswith(message)
    assert len(done.stderr.strip().splitlines()) == 1
    assert sorted(folder.iterdir()) == before
