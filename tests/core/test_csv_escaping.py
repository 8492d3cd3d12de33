"""Texts in CSV that a spreadsheet would run: written so that it does not, and read as they were."""

import csv
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from cases.report_files import BASE, command, scenario_of
from hypothesis import given
from hypothesis import strategies as st

from poolscope.core.tables import scan_written, writing
from poolscope.core.tables.csv import escape, escaped, unescaped
from poolscope.explore.user_table import users_of_posteriors
from poolscope.workflows.attack.summary import read_truth
from poolscope.workflows.traces.extract import make_traces

HOSTILE = ["=cmd|' /C calc'!A0", "+1+1", "-2", "@SUM(A1)", "'=x", "''-x", "'tis", "ann", "007", "a=b", 'a,"b']

texts = st.text(alphabet=st.sampled_from("'=+-@\t\r\nab"), max_size=4)


@given(st.lists(texts | st.none(), max_size=8))
def test_whatever_is_escaped_is_read_as_it_was(names):
    series = pl.Series("name", names, dtype=pl.String)
    written = escaped(series.to_frame())["name"]
    assert written.to_list() == [None if name is None else escape(name) for name in names]
    assert unescaped(written).equals(series)
    assert not written.str.contains(r"^[=+\-@\t\r\n]").any()


def test_only_texts_are_escaped(tmp_path):
    frame = pl.DataFrame({"user": ["=x"], "ones": ["-1 2"], "count": [-3], "share": [-0.5]})
    with writing(tmp_path / "out.csv", numeric=["ones"]) as parts:
        parts.write(0, frame)
    assert (tmp_path / "out.csv").read_text() == "user,ones,count,share\n'=x,-1 2,-3,-0.5\n"
    with writing(tmp_path / "out.csv", raw=True) as parts:
        parts.write(0, frame)
    assert (tmp_path / "out.csv").read_text() == "user,ones,count,share\n=x,-1 2,-3,-0.5\n"
    with writing(tmp_path / "out.parquet") as parts:
        parts.write(0, frame)
    assert pl.read_parquet(tmp_path / "out.parquet").equals(frame)


def cells(path):
    """All cells of a CSV file, as a spreadsheet reads them."""
    with open(path, encoding="utf-8", newline="") as stream:
        return [cell for row in csv.reader(stream) for cell in row]


def runs(cell):
    """Whether a spreadsheet takes a cell for a formula that is no number."""
    try:
        float(cell)
    except ValueError:
        return cell.startswith(("=", "+", "-", "@", "\t", "\r"))
    return False


POOLS = "=red", "@blue"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Objects, pools, users and an adversary of names that a spreadsheet would run."""
    monkeypatch.chdir(tmp_path)
    objects = [f"={i}" for i in range(6)]
    pl.DataFrame({"object": objects, "pool": [POOLS[i % 2] for i in range(6)]}).write_csv("objects.csv")
    base = BASE.replace("size = 30\npools = { a = 5, b = 6, c = 7 }", "objects = 'objects.csv'")
    weak = "[[adversary]]\nname = '=weak'\npopularity = 'uniform'\n"
    scenario_of(tmp_path, mechanism="kind = 'grr'\nepsilon = 6\n", adversaries=weak, attack="", base=base)
    rows = [{"user": user, "object": f"={2 * (n % 3)}"} for user in HOSTILE for n in range(10)]
    pl.DataFrame(rows).write_parquet("traces.parquet")
    pl.DataFrame({"user": HOSTILE, "pool": [POOLS[0]] * len(HOSTILE)}).write_parquet("truth.parquet")
    return tmp_path


@pytest.mark.parametrize("raw", [False, True])
def test_a_story_in_csv_is_the_one_in_parquet(folder, capsys, raw):
    """Users, objects, pools and adversaries keep their names through every file, and the truth finds its users."""
    more = ("--raw",) if raw else ()
    at = "--scenario", "small.toml"
    for ending in ("parquet", "csv"):
        assert command("obfuscate", "traces.parquet", *at, "--out", f"reports.{ending}", "--seed", 1, *more) == 0
        # raw files are for other programs
        reports = "reports.parquet" if raw else f"reports.{ending}"
        out = "--out", f"posteriors.{ending}"
        assert command("attack", reports, *at, *out, "--ground-truth", "truth.parquet", *more) == 0
        assert f"{len(HOSTILE)}" in capsys.readouterr().out
        assert command("estimate", reports, *at, "--out", f"popularity.{ending}", *more) == 0
        assert command("attack", reports, *at, "--user", "-2", "--out", f"story.{ending}", *more) == 0
    names = ("user", "adversary", "guess")
    one, other = (scan_written(Path(f"posteriors.{e}"), names).collect() for e in ("csv", "parquet"))
    if raw:
        one = pl.read_csv("posteriors.csv", schema_overrides=dict.fromkeys(names, pl.String))
    assert one["user"].sort().to_list() == sorted(HOSTILE)
    assert one.select(names).equals(other.select(names))
    assert np.allclose(one["confidence"], other["confidence"])
    for file in ("reports.csv", "posteriors.csv", "popularity.csv", "story.csv"):
        assert any(map(runs, cells(file))) is raw, file
    if not raw:
        # what was written is read again, in whatever place it belongs to
        assert set(users_of_posteriors(Path("posteriors.csv")).rows["user"]) == set(HOSTILE)
        text = Path("small.toml").read_text(encoding="utf-8").replace("'objects.csv'", "'popularity.csv'")
        Path("again.toml").write_text(text, encoding="utf-8")
        assert command("attack", "reports.csv", "--scenario", "again.toml", "--pools", "popularity.csv") == 0
        pl.scan_csv("posteriors.csv").select("user", pl.col("guess").alias("pool")).sink_csv("truth.csv")
        assert set(read_truth("truth.csv")["user"]) == set(HOSTILE)


def test_the_truth_finds_users_called_by_digits(folder):
    """007 is not 7, also where posteriors are CSV."""
    users = ["007", "7", "08"]
    pl.DataFrame({"user": users * 5, "value": ["=0"] * 15}).write_parquet("digits.parquet")
    pl.DataFrame({"user": users[:1], "pool": [POOLS[0]]}).write_csv("truth.csv")
    from poolscope.scenario.scenario import load_scenario
    from poolscope.workflows.attack.attack import attack

    (evaluation,) = attack(
        "digits.parquet", load_scenario("small.toml"), out="out.csv", ground_truth="truth.csv"
    ).evaluation
    assert evaluation.users == 1


def test_traces_and_their_objects_are_escaped(tmp_path):
    (tmp_path / "t.csv").write_text("who,what\n@ann,-x.org cnn.com\n'=bob,cnn.com\n")
    made = make_traces([tmp_path / "t.csv"], tmp_path / "o.csv", universe="news-2021", user="who", domain="what")
    assert not any(map(runs, cells(made.traces) + cells(made.objects)))
    raw = make_traces(
        [tmp_path / "t.csv"], tmp_path / "raw.csv", universe="news-2021", user="who", domain="what", raw=True
    )
    assert "@ann" in cells(raw.traces)
    assert "'@ann" in cells(made.traces)
    assert "''=bob" in cells(made.traces)
