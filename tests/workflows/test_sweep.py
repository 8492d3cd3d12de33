"""A sweep: the rows of separate runs, resumed to the same bytes, any keys."""

import json
import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from cases.command_line import poolscope
from typer.testing import CliRunner

import poolscope as ps
from poolscope.cli.commands import app
from poolscope.cli.sweep import parse_vary
from poolscope.workflows import sweep as sweeps
from poolscope.workflows.sweep import read_sweep

TABLES = {
    "universe": {"size": 12, "pools": {"a": 4, "b": 4}},
    "popularity": {"kind": "zipf", "exponent": 1.0},
    "mechanism": {"kind": "grr", "epsilon": 2.0},
    "adversary": [{"name": "oracle", "popularity": "true"}],
    "attack": {"observations": [2, 5]},
}
VARY = {"mechanism.epsilon": [1, 3.5], "popularity.exponent": [0.0, 1.0]}
SMALL = ps.Scenario.from_dict(TABLES)


def without_keys(table, *keys):
    return table.drop(*keys, "seed")


@pytest.fixture(scope="module")
def done():
    return ps.sweep(SMALL, VARY, seeds=[3, 5], users=40)


def test_rows_are_those_of_separate_runs(done):
    assert done.results.columns[:3] == ["mechanism.epsilon", "popularity.exponent", "seed"]
    found = done.results.filter(
        (pl.col("mechanism.epsilon") == 3.5) & (pl.col("popularity.exponent") == 0.0) & (pl.col("seed") == 5)
    )
    game = SMALL.replace({"mechanism.epsilon": 3.5, "popularity.exponent": 0.0}).game(5)
    alone = ps.summarize(ps.play(game, 40, 5), game, 5).to_polars()
    assert without_keys(found, *VARY).equals(alone)
    other = done.results.filter(
        (pl.col("mechanism.epsilon") == 1) & (pl.col("popularity.exponent") == 0.0) & (pl.col("seed") == 5)
    )
    assert not without_keys(other, *VARY).equals(alone), "the negative control"
    assert done.results.height == 2 * 2 * 2 * len(alone)


class Interrupted(ps.Progress):
    """A run that the user stops after some users."""

    def __init__(self, after):
        self.left = after

    def tick(self, users):
        self.left -= users
        if self.left < 0:
            raise KeyboardInterrupt


def test_a_stopped_sweep_resumes_to_the_same_bytes(tmp_path):
    ps.sweep(SMALL, VARY, users=30, out=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        ps.sweep(SMALL, VARY, users=30, out=tmp_path / "part", progress=Interrupted(70))
    finished = list((tmp_path / "part" / "cells").iterdir())
    assert 0 < len(finished) < 4
    before = {path: path.stat().st_mtime_ns for path in finished}
    with pytest.raises(ps.InputError, match="holds another sweep"):
        ps.sweep(SMALL, VARY, users=30, out=tmp_path / "part")
    with pytest.raises(ps.InputError, match="the folder holds another sweep; give the same"):
        ps.sweep(SMALL, VARY, users=31, out=tmp_path / "part", resume=True)
    assert {path: path.stat().st_mtime_ns for path in finished} == before
    ps.sweep(SMALL, VARY, users=30, out=tmp_path / "part", resume=True)
    for name in ("results.parquet", "sweep.json"):
        assert (tmp_path / "part" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert sorted(path.name for path in (tmp_path / "part").iterdir() if path.name[0] != ".") == [
        "results.parquet",
        "sweep.json",
    ]
    again = ps.sweep(SMALL, VARY, users=30, out=tmp_path / "part", resume=True)
    assert again.results.equals(read_sweep(tmp_path / "whole").results)


def started_with(folder, version=None, **provenance):
    """Record that another version, or another machine, has started the sweep."""
    path = folder / "sweep.json"
    found = json.loads(path.read_text())
    found["version"] = version or found["version"]
    found["provenance"] |= provenance
    path.write_text(json.dumps(found))


def test_a_sweep_that_is_resumed_elsewhere_says_so(tmp_path):
    out, asked = tmp_path / "run", {"users": 5, "out": tmp_path / "run"}
    with pytest.raises(KeyboardInterrupt):
        ps.sweep(SMALL, VARY, **asked, progress=Interrupted(12))
    started_with(out, version="0.2.0")
    with pytest.raises(ps.InputError, match=r"run: the run to resume was made by version 0\.2\.0, got '0\.1\.0'"):
        ps.sweep(SMALL, VARY, **asked, resume=True)
    started_with(out, version="0.1.99", numba="0.1.0")
    with pytest.warns(UserWarning, match=r"run: the finished part .*: now numba .* instead of 0\.1\.0$") as warned:
        done = ps.sweep(SMALL, VARY, **asked, resume=True)
    assert len(warned) == 1
    (later,) = done.provenance.resumed_with
    assert (done.plan.version, done.provenance.numba) == ("0.1.99", "0.1.0")
    assert later.numba == ps.provenance(ps.sweep(SMALL, {"mechanism.epsilon": [1]}, users=5)).numba
    assert read_sweep(out).provenance == done.provenance
    again = ps.sweep(SMALL, VARY, **asked, resume=True)
    assert again.provenance == done.provenance, "nothing was left to make"


def test_a_changed_table_is_noticed(tmp_path):
    ps.sweep(SMALL, {"mechanism.epsilon": [1]}, users=5, out=tmp_path / "run")
    path = tmp_path / "run" / "results.parquet"
    table = pl.read_parquet(path)
    table.write_parquet(path, compression="uncompressed", statistics=False, row_group_size=1)
    assert read_sweep(tmp_path / "run").results.equals(table), "the values are what counts"
    table.with_columns(pl.col("auc_pn") * (1 + 2**-52)).write_parquet(path)
    with pytest.raises(ps.InputError, match="has changed since it was written"):
        read_sweep(tmp_path / "run")
    path.write_bytes(b"PAR1")
    with pytest.raises(ps.InputError, match=r"results\.parquet: must be a Parquet file"):
        read_sweep(tmp_path / "run")


def test_another_mechanism_has_its_own_parameters():
    done = ps.sweep(SMALL, {"mechanism.kind": ["grr", "identity"], "mechanism.epsilon": [1, 2]}, users=5)
    assert done.results["mechanism.kind"].unique(maintain_order=True).to_list() == ["grr", "identity"]
    free = done.results.filter(pl.col("mechanism.kind") == "identity").drop("mechanism.epsilon")
    assert free.height == 2 * free.unique().height, "identity has no epsilon: both choices are one"


def share_of_sure(rows):
    return float((rows["confidence"] > 0.8).mean())


def mean_confidence(rows):
    return ps.metrics.Estimate(rows["confidence"].mean(), 0.0, 1.0)


def test_own_metrics_are_columns():
    done = ps.sweep(SMALL, {"mechanism.epsilon": [3]}, users=20, metrics=[share_of_sure, mean_confidence])
    game = SMALL.replace({"mechanism.epsilon": 3}).game(0)
    rows = ps.metrics.select(ps.play(game, 20, 0), "oracle", 5)
    found = done.results.row(by_predicate=(pl.col("adversary") == "oracle") & (pl.col("n") == 5), named=True)
    assert found["share_of_sure"] == share_of_sure(rows)
    assert (found["mean_confidence"], found["mean_confidence_high"]) == (rows["confidence"].mean(), 1.0)


@pytest.mark.parametrize(
    ("vary", "options", "says"),
    [
        ({}, {}, "vary: must vary at least one key"),
        ({"mechanism.epsilom": [1]}, {}, "unknown key"),
        ({"mechanism.epsilon": []}, {}, "must have a list of at least one value"),
        ({"mechanism.epsilon": "12"}, {}, "must have a list of at least one value"),
        ({"mechanism.epsilon": [1, -1]}, {}, "must be positive"),
        ({"mechanism.epsilon": [1]}, {"seeds": [1, 1]}, "seeds: must be a count, or different whole numbers"),
        ({"mechanism.epsilon": [1]}, {"seeds": 1.5}, "seeds: must be a count, .*, got 1.5"),
        ({"mechanism.epsilon": [1]}, {"seeds": True}, "seeds: must be a count, .*, got True"),
        ({"mechanism.epsilon": [1]}, {"seeds": 0}, "seeds must be"),
        ({"mechanism.epsilon": [1]}, {"metrics": [lambda rows: 1.0]}, "must be functions with different names"),
        ({"mechanism.epsilon": [1]}, {"metrics": [str]}, "a metric must return a number"),
        ({"mechanism.epsilon": [1]}, {"resume": True}, "resume needs the folder"),
        ({"mechanism.kind": ["nope"]}, {}, "must be a known mechanism"),
        ({"mechanism.epsilon": [object()]}, {}, "vary..mechanism.epsilon..: must be values that a scenario can have"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_played(vary, options, says, tmp_path):
    with pytest.raises(ps.InputError, match=says):
        ps.sweep(SMALL, vary, users=5, **options)


def test_a_scenario_without_adversaries_is_refused():
    with pytest.raises(ps.InputError, match=r"must have a table \[\[adversary\]\]"):
        ps.sweep(ps.Scenario.from_dict({**TABLES, "adversary": []}), VARY, users=5)


def test_numbers_of_numpy_are_those_of_python():
    vary = {"universe.size": [12], "mechanism.epsilon": [2.0]}
    given = {"universe.size": [np.int64(12)], "mechanism.epsilon": [np.float64(2.0)]}
    found, expected = (ps.sweep(SMALL, values, users=5) for values in (given, vary))
    assert found.results.equals(expected.results)
    assert found.plan.vary == expected.plan.vary
    assert found._repr_html_() == expected.results._repr_html_()


@pytest.mark.parametrize(("started", "says"), [(True, "2 finished runs saved, resume with: "), (False, "nothing was ")])
def test_a_stopped_sweep_says_what_is_saved(tmp_path, monkeypatch, started, says):
    (tmp_path / "small.toml").write_text(SMALL.text)
    own, played = sweeps._play, []

    def stopping(*arguments):
        if len(played) == 2:
            raise KeyboardInterrupt
        played.append(own(*arguments))
        return played[-1]

    def stopped(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(sweeps, *(("_play", stopping) if started else ("_cells", stopped)))
    # this process goes on: it must not ignore signals from here on
    monkeypatch.setattr("poolscope.cli.exit.ENDING", [])
    words = ("sweep", "small.toml", "--vary", "mechanism.epsilon=1,2,3", "--users", 5, "--out", "done")
    found = poolscope(*words, cwd=tmp_path)
    assert found.returncode == 130
    assert f"stopped; {says}" in found.stderr
    if started:
        with pytest.raises(ps.InputError, match="the sweep is not finished; go on with poolscope sweep --resume first"):
            read_sweep(tmp_path / "done")


def test_values_are_toml_or_words():
    found = parse_vary(["mechanism.epsilon=1, 2.5", "mechanism.kind=grr,oue", "attack.observations=[1, 2],[3]"])
    assert found == {
        "mechanism.epsilon": [1, 2.5],
        "mechanism.kind": ["grr", "oue"],
        "attack.observations": [[1, 2], [3]],
    }
    for wrong in ("mechanism.epsilon", "=1", "a="):
        with pytest.raises(ps.InputError, match="must be KEY=VALUE"):
            parse_vary([wrong])
    with pytest.raises(ps.InputError, match="must name each key once"):
        parse_vary(["a=1", "a=2"])


def test_attacks_stand_beside_adversaries():
    done = ps.sweep(SMALL, {"mechanism.epsilon": [3]}, users=20, attacks=["averaging"])
    assert set(done.results["adversary"]) == {"oracle", "averaging", "non-private"}
    assert done.plan.attacks == ("averaging",)
    assert done.results.filter(adversary="averaging")["auc_pn"].is_between(0, 1).all()


def test_lists_are_text_in_the_table():
    done = ps.sweep(SMALL, {"attack.observations": [[1], [2, 3]]}, users=5)
    assert done.results["attack.observations"].unique(maintain_order=True).to_list() == ["[1]", "[2, 3]"]


def test_any_column_is_drawn_against_any_key(done):
    chart = ps.figures.sweep_plot(done.results, "brier", "popularity.exponent", color="mechanism.epsilon", panel="n")
    rows = chart.to_dict()["datasets"]["rows"]
    some = done.results.filter(
        (pl.col("n") == 5) & (pl.col("mechanism.epsilon") == 3.5) & (pl.col("popularity.exponent") == 1.0)
    )
    (row,) = [row for row in rows if (row["panel"], row["line"], row["x"]) == ("n = 5", "mechanism.epsilon = 3.5", 1.0)]
    assert row["y"] == pytest.approx(some["brier"].mean(), rel=1e-4)
    for wrong in ({"y": "adversary"}, {"y": "nope"}, {"x": "nope"}):
        with pytest.raises(ps.InputError, match="must be a"):
            ps.figures.sweep_plot(done.results, **wrong)
    with pytest.raises(ps.InputError, match="results: must have at least one row"):
        ps.figures.sweep_plot(done.results.clear())


def test_the_schema_holds_for_the_file(tmp_path):
    import jsonschema

    from poolscope.cli.schemas import schema_of

    ps.sweep(SMALL, {"mechanism.epsilon": [1]}, users=5, out=tmp_path / "run")
    written = json.loads((tmp_path / "run" / "sweep.json").read_text())
    jsonschema.validate(written, schema_of("sweep"))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**written, "seeds": "1"}, schema_of("sweep"))


def test_the_command_writes_a_table_and_figures(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("poolscope.cli.sweep.MAX_ROWS", 1)
    (tmp_path / "mine.toml").write_text(SMALL.text)
    options = ["--vary", "mechanism.epsilon=1,2", "--seeds", "2", "--seed", "4", "--users", "6", "--out", "swept"]
    ran = CliRunner().invoke(app, ["sweep", "mine.toml", *options])
    assert ran.exit_code == 0, ran.output
    assert "swept/results.parquet" in ran.output.replace("\n", "")
    assert re.search(r"^\d more rows are in the file\.$", ran.output, re.MULTILINE)
    found = pl.read_parquet(tmp_path / "swept" / "results.parquet")
    assert found["seed"].unique().sort().to_list() == [4, 5]
    again = CliRunner().invoke(app, ["sweep", "mine.toml", *options])
    assert isinstance(again.exception, ps.InputError)
    assert "holds another sweep" in str(again.exception)
    page = CliRunner().invoke(app, ["render", "swept"]).exception
    assert str(page) == "swept: a sweep has no HTML report; draw its figures with poolscope figures"


def test_figures_of_a_folder_are_its_keys(tmp_path):
    ps.sweep(SMALL, VARY, users=6, out=tmp_path / "swept")
    drawn = CliRunner().invoke(app, ["figures", str(tmp_path / "swept")])
    assert drawn.exit_code == 0, drawn.output
    assert {path.name for path in (tmp_path / "swept" / "figures").iterdir()} == {
        f"{y}-by-{key}.svg" for y in ("auc-pn", "exposed-90") for key in ("mechanism-epsilon", "popularity-exponent")
    }


def test_plans_of_other_inputs_are_not_the_same():
    plan = ps.sweep(SMALL, {"mechanism.epsilon": [1]}, users=5).plan
    other = replace(plan, provenance=replace(plan.provenance, inputs={"objects.csv": "0" * 64}))
    assert plan.is_same(replace(plan, provenance=replace(plan.provenance, outcomes="0" * 64)))
    assert not plan.is_same(other)


def test_a_sweep_has_the_same_provenance_in_memory_and_in_a_folder(tmp_path):
    vary = {"mechanism.kind": ["grr", "identity"]}
    one, other = (ps.sweep(SMALL, vary, users=10, seeds=2, out=out) for out in (None, tmp_path / "sweep"))
    assert ps.provenance(one) == ps.provenance(other) == other.plan.provenance
    assert len(ps.provenance(one).outcomes) == 64
