"""Fit of the users: every kind of data, what it writes, what it refuses, and the warning about assumed users."""

import tomllib
import warnings

import numpy as np
import polars as pl
import pytest
from cases.command_line import SMALL, poolscope
from cases.report_files import game_traces, scenario_of, write_traces
from jsonschema import Draft202012Validator

import poolscope as ps
from poolscope.cli.files import print_fit
from poolscope.core.errors import InputError
from poolscope.html.workflows.audit import audit
from poolscope.html.workflows.compare import compare
from poolscope.metrics.fitted import Fitted
from poolscope.metrics.models import json_schema
from poolscope.scenario.interest import interest_warning, popularity_in_pools
from poolscope.scenario.json_schema import scenario_schema
from poolscope.scenario.scenario import load_scenario, parse
from poolscope.workflows.fit import fit, fitted_scenario
from poolscope.workflows.obfuscate import obfuscate

PEOPLE = 100
GRR = "kind = 'grr'\nepsilon = 3\n"
USERS = "[users]\nbehavior = { interest = { beta = [2, 4] }, polarization = { beta = [3, 2] } }\n"


@pytest.fixture
def scenario(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return scenario_of(tmp_path, mechanism=GRR + USERS, attack="[attack]\nobservations = [40]\nnon_private = false\n")


@pytest.fixture
def traces(scenario, tmp_path):
    """Traces of users whose behavior is the scenario's."""
    found = game_traces(scenario.game(0), PEOPLE, seed=1)
    write_traces(tmp_path / "traces.csv", found, names=lambda user: f"u{user}")
    return found


def test_traces_counts_and_reports_find_the_same_users(scenario, traces, tmp_path):
    universe = scenario.universe()
    from_traces = fit(scenario, "traces.csv")
    assert (from_traces.data, from_traces.users, from_traces.events) == ("traces", PEOPLE, PEOPLE * 40)
    pools = universe.pool_of[traces] + 1
    rows = [
        {"user": f"u{u}", "pool": ["", *universe.pool_names][p], "count": int((pools[u] == p).sum())}
        for u in range(PEOPLE)
        for p in range(universe.k + 1)
    ]
    pl.DataFrame(rows).write_parquet("counts.parquet")
    from_counts = fit(scenario, "counts.parquet")
    assert from_counts.data == "counts of devices"
    assert from_counts.interest == from_traces.interest
    assert from_counts.behavior == from_traces.behavior
    obfuscate("traces.csv", scenario, "reports.parquet", seed=3)
    from_reports = fit(scenario, "reports.parquet")
    assert (from_reports.data, from_reports.users, from_reports.events) == ("reports", PEOPLE, PEOPLE * 40)
    for found in (from_traces, from_reports):
        # within three standard errors, one of which is about a quarter of the interval
        assert abs(found.interest.mean.value - 2 / 6) < 0.75 * width(found.interest.mean)
        assert abs(found.polarization.mean.value - 3 / 5) < 0.75 * width(found.polarization.mean)
    # noise costs precision
    assert width(from_reports.interest.mean) > width(from_traces.interest.mean)
    Draft202012Validator(json_schema(Fitted, strict=True)).validate(from_reports.as_json())


def width(estimate):
    return estimate.high - estimate.low


def test_the_fitted_scenario_is_one_that_plays(scenario, traces, tmp_path):
    found = fit(scenario, "traces.csv", out="fitted.toml")
    written = tomllib.loads((tmp_path / "fitted.toml").read_text(encoding="utf-8"))
    Draft202012Validator(scenario_schema()).validate(written)
    loaded = load_scenario("fitted.toml")
    assert list(loaded.users.behavior.interest.beta) == found.behavior["interest"]["beta"]
    assert dict(loaded.users.behavior.pools) == found.behavior["pools"]
    assert loaded.to_dict() == fitted_scenario(scenario, found).to_dict()
    edges = {edge.name: edge.behavior for edge in found.edges}
    assert len(edges) == 2
    assert written["users"]["edges"] == edges
    assert tomllib.loads(found.toml)["users"] == {"behavior": found.behavior, "edges": edges}
    for name, behavior in edges.items():
        alone = scenario.replace({"users": {"behavior": behavior}})
        assert alone.to_dict() == fitted_scenario(scenario, found, name).to_dict()
    more, less = (edge.behavior["interest"]["beta"] for edge in found.edges)
    middle = found.behavior["interest"]["beta"]
    assert less[0] / sum(less) < middle[0] / sum(middle) < more[0] / sum(more)
    with pytest.raises(InputError, match="did you mean 'more interest and polarization'"):
        fitted_scenario(scenario, found, "more interest and polarisation")
    with pytest.raises(InputError, match="the output is there already"):
        fit(scenario, "traces.csv", out="fitted.toml")


def test_aggregate_counts_identify_only_the_mean(scenario, tmp_path, capsys):
    (tmp_path / "counts.csv").write_text("pool,count\n,959\na,20\nb,11\nc,10\n")
    found = fit(scenario, "counts.csv")
    assert (found.data, found.users, found.events, found.interest, found.log_likelihood) == (
        "aggregate counts",
        None,
        1000,
        None,
        None,
    )
    assert found.mean_interest == (0.041, 0.041, 0.041)
    assert any("identify only the mean" in note for note in found.notes)
    a, b = found.behavior["interest"]["beta"]
    assert (a, a / (a + b)) == (1.0, pytest.approx(0.041, rel=1e-3))
    assert "polarization" not in found.behavior
    few, all_alike = (edge.behavior["interest"]["beta"] for edge in found.edges)
    for pair in (few, all_alike):
        assert pair[0] / sum(pair) == pytest.approx(0.041, rel=1e-3)
    assert sum(few) < 1 < sum(all_alike)
    print_fit(found, None)
    row = next(line for line in capsys.readouterr().out.splitlines() if "mean interest only" in line)
    assert [cell.strip() for cell in row.split("│")[2:6]] == ["0.041", "–", "–", "–"]
    known = fit(scenario, "counts.csv", devices=100).mean_interest
    assert known.low < 0.041 < known.high
    wide = fit(scenario, "counts.csv", devices=10).mean_interest
    assert width(wide) > width(known)


def test_several_files_are_one_study(scenario, tmp_path):
    (tmp_path / "one.csv").write_text("user,pool,count\nann,,9\nann,a,3\n")
    (tmp_path / "two.csv").write_text("user,pool,count\nann,,1\nbob,b,4\nbob,,6\n")
    (tmp_path / "both.csv").write_text("user,pool,count\nann,,10\nann,a,3\nbob,,6\nbob,b,4\n")
    assert fit(scenario, ["one.csv", "two.csv"]) == fit(scenario, "both.csv")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("user,pool,count\nann,d,3\n", "row 1: pool must be one of the universe, got 'd'"),
        ("user,pool,count\nann,a,-3\n", "count must be a whole number of at least 0, got '-3'"),
        ("user,pool,count\nann,a,x\n", "count must be a whole number of at least 0, got 'x'"),
        ("user,pool,count\nann,a,0\n", "must have at least one event"),
        ("user,pool,count\n", "must have at least one row"),
        ("user,bits\nann,3\n", "must have a column 'value'"),
    ],
)
def test_wrong_data_is_an_error_in_one_line(scenario, tmp_path, rows, message):
    (tmp_path / "counts.csv").write_text(rows)
    with pytest.raises(InputError) as error:
        fit(scenario, "counts.csv", out="fitted.toml")
    assert message in str(error.value)
    assert not (tmp_path / "fitted.toml").exists()


def test_a_scenario_that_names_files_is_written_beside_them(tmp_path):
    rows = "".join(f"o{i},{'a' if i < 3 else 'b' if i < 6 else ''},{int(i != 7)}\n" for i in range(12))
    (tmp_path / "objects.csv").write_text(f"object,pool,popularity\n{rows}")
    tables = '[universe]\nobjects = "objects.csv"\n[popularity]\nkind = "given"\n'
    (tmp_path / "named.toml").write_text(f"{tables}[mechanism]\nkind = 'identity'\n")
    scenario = load_scenario(tmp_path / "named.toml")
    (tmp_path / "counts.csv").write_text("pool,count\n,9\na,2\n")
    (tmp_path / "sub").mkdir()
    with pytest.raises(InputError, match=r"x.toml: must be in the folder of the scenario, whose .*; write it beside"):
        fit(scenario, tmp_path / "counts.csv", out=tmp_path / "sub" / "x.toml")
    found = fit(scenario, tmp_path / "counts.csv", out=tmp_path / "fitted.toml")
    assert load_scenario(tmp_path / "fitted.toml").users.behavior.pools == found.behavior["pools"]
    reports = [tmp_path / name for name in ("one.csv", "two.csv")]
    reports[0].write_text("user,value\nann,o1\nbob,o2\n")
    reports[1].write_text("user,value\nann,o3\ncid,o7\n")
    with pytest.raises(InputError, match=r"two.csv: each report must be possible under the .* got 'one of user cid'"):
        fit(scenario, reports)


def test_every_object_in_a_pool(tmp_path):
    """Neither an empty name of a pool nor counts of all devices together make sense."""
    scenario = parse(SMALL.replace("size = 30", "size = 15"), name="small")
    for rows, message in (
        ("user,pool,count\nann,a,3\nann,,1\n", "row 2: pool must have a name, as the universe has no neutral pool"),
        ("pool,count\na,3\nb,1\n", "small: aggregate counts say nothing of users if every object is in a pool"),
    ):
        (tmp_path / "counts.csv").write_text(rows)
        with pytest.raises(InputError, match=message):
            fit(scenario, tmp_path / "counts.csv")


def test_what_data_do_not_say_is_noted(scenario, tmp_path):
    (tmp_path / "neutral.csv").write_text("user,pool,count\nann,,9\nbob,,4\n")
    notes = " ".join(fit(scenario, "neutral.csv").notes)
    assert "No event is in a pool: the data say nothing of polarization, which stays uniform." in notes
    (tmp_path / "reports.csv").write_text("user,value\n" + "".join(f"u{i % 4}#{i // 4},{i}\n" for i in range(12)))
    rotating = scenario.replace({"devices.rotate_after": 1})
    assert "Pseudonyms count as users, as nothing links them." in fit(rotating, "reports.csv").notes


def test_other_refusals(scenario, traces, tmp_path):
    (tmp_path / "counts.csv").write_text("pool,count\n,9\na,2\n")
    with pytest.raises(InputError, match="must be traces, as the first file, got 'aggregate counts'"):
        fit(scenario, ["traces.csv", "counts.csv"])
    with pytest.raises(InputError, match="must name at least one file"):
        fit(scenario, [])
    obfuscate("traces.csv", scenario, "reports.parquet", seed=3)
    with pytest.raises(InputError, match="devices memoize responses"):
        fit(scenario.replace({"devices.memoize": True}), "reports.parquet")
    found = fit(scenario, "reports.parquet", max_users=20)
    assert (found.users, found.events) == (20, 800)
    assert f"The fit is of the first 20 of {PEOPLE} users." in found.notes


def test_the_command_prints_the_table_and_writes_the_scenario(scenario, traces, tmp_path):
    done = poolscope("fit", "small.toml", "traces.csv", "--out", "fitted.toml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"Fit to traces: {PEOPLE} users, {PEOPLE * 40:,} events" in done.stdout
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("behavior = "))
    assert tomllib.loads(line)["behavior"] == tomllib.loads((tmp_path / "fitted.toml").read_text())["users"]["behavior"]
    wrong = poolscope("fit", "small.toml", "no.csv", cwd=tmp_path)
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)


def objects_with(share):
    """A universe of names whose pools have this share of the popularity."""
    rows = [f"o{z},{'ab'[z % 2] if z < 4 else ''},{share / 4 if z < 4 else (1 - share) / 6}" for z in range(10)]
    return "object,pool,popularity\n" + "\n".join(rows) + "\n"


GIVEN = """
[universe]
objects = "objects.csv"
[popularity]
kind = "given"
[mechanism]
kind = "grr"
epsilon = 2
[[adversary]]
name = "strong"
popularity = "true"
[attack]
observations = [3]
"""


@pytest.mark.parametrize(
    ("share", "users", "warned"),
    [
        (0.041, "", True),
        (0.26, "", False),
        (0.24, "", True),
        (0.99, "", False),
        (0.041, "[users]\nbehavior = { interest = { beta = [1, 23] } }\n", False),
        (0.041, "[users]\nnone = 0.9\n", False),
        (0.5, "[users]\nbehavior = { interest = { beta = [1, 23] } }\n", True),
    ],
)
def test_assumed_users_far_from_the_given_popularity_are_warned_of(tmp_path, share, users, warned):
    (tmp_path / "objects.csv").write_text(objects_with(share))
    (tmp_path / "given.toml").write_text(GIVEN + users)
    scenario = load_scenario(tmp_path / "given.toml")
    assert popularity_in_pools(scenario) == pytest.approx(share)
    assert (interest_warning(scenario) is not None) is warned


def test_commands_warn_once_and_only_of_a_given_popularity(tmp_path):
    (tmp_path / "objects.csv").write_text(objects_with(0.041))
    (tmp_path / "given.toml").write_text(GIVEN)
    scenario = load_scenario(tmp_path / "given.toml")
    text = "pools have 4.1% of the given popularity, but the assumed users have 50% of their events there"
    with pytest.warns(UserWarning, match=text):
        audit(scenario, tmp_path / "run", users=10, html=False)
    with pytest.warns(UserWarning, match=text):
        compare(scenario, ["grr"], [1.0], users=10, estimate_from=100, html=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        audit(parse(SMALL, name="small"), tmp_path / "other", users=10, html=False)


def test_without_a_neutral_pool_the_interest_is_one(tmp_path):
    text = SMALL.replace("size = 30", "size = 15")
    (tmp_path / "counts.csv").write_text(
        "user,pool,count\n" + "".join(f"u{u},{p},{3 + u % 4}\n" for u in range(9) for p in "ab")
    )
    found = fit(parse(text, name="small"), tmp_path / "counts.csv")
    assert (found.interest, found.mean_interest.value) == (None, 1.0)
    assert "interest" not in found.behavior
    assert np.isclose(sum(found.pools.values()), 1, atol=1e-3)


def test_advice_shows_the_edges_of_the_data():
    tables = {
        "universe": {"size": 12, "pools": {"a": 3, "b": 3}},
        "popularity": {"kind": "uniform"},
        "mechanism": {"kind": "grr", "epsilon": 1.0},
        "users": {
            "behavior": {"interest": {"beta": [2.0, 2.0]}},
            "edges": {"more": {"interest": {"beta": [90.0, 1.0]}}},
        },
        "adversary": [{"name": "oracle", "popularity": "true"}],
        "attack": {"observations": [8]},
    }
    asked = {"max_exposed": 0.3, "mechanisms": ["grr"], "users": 60, "horizon": 8, "epsilon": (0.5, 3.0)}
    edge = {case.variant: case for case in ps.advise(ps.Scenario.from_dict(tables), **asked).sensitivity}
    case = edge["edge of the data: more"]
    assert case.about == "users"
    del tables["users"]["edges"]
    assert not any("edge" in case.variant for case in ps.advise(ps.Scenario.from_dict(tables), **asked).sensitivity)
    assert case.exposed.value >= edge["all users"].exposed.low, "users who are all interested are exposed sooner"


def test_the_order_of_users_in_a_file_does_not_matter(scenario, tmp_path, monkeypatch):
    """A fit takes the reports user by user."""

    class Taken(Exception):
        pass

    def taken(likelihood, lengths, *, neutral):
        raise Taken(likelihood, lengths)

    monkeypatch.setattr("poolscope.workflows.fit.fit_reports", taken)
    rows = pl.DataFrame({"user": [f"u{i // 10}" for i in range(60)], "object": [str((7 * i) % 30) for i in range(60)]})
    rows.write_csv("traces.csv")
    obfuscate("traces.csv", scenario, "reports.parquet", seed=3)
    reports = pl.read_parquet("reports.parquet")
    mixed = reports[[10 * user + row for row in range(10) for user in range(6)]]
    mixed.write_parquet("mixed.parquet")
    found = []
    for name in ("reports.parquet", "mixed.parquet"):
        with pytest.raises(Taken) as caught:
            fit(scenario, name)
        found.append(caught.value.args)
    assert found[0][1].tolist() == found[1][1].tolist() == [10] * 6
    np.testing.assert_array_equal(found[0][0], found[1][0])
    assert len(np.unique(found[0][0], axis=0)) > 1


def test_users_without_events_are_not_counted(scenario, tmp_path):
    (tmp_path / "counts.csv").write_text("user,pool,count\nann,,9\nann,a,3\nbob,b,4\ncid,,0\ncid,a,0\n")
    assert fit(scenario, "counts.csv").users == 2


def test_the_toml_of_a_fit_is_read_back(scenario, tmp_path):
    """Weights of pools: a pool has half of its weight, and a sixth of all events, where polarization is uniform."""
    (tmp_path / "counts.csv").write_text("pool,count\n,40\na,25\nb,19\nc,16\n")
    found = fit(scenario, "counts.csv")
    assert found.pools == pytest.approx({"a": 0.5, "b": 0.3, "c": 0.2}, abs=1e-4)
    users = tomllib.loads(found.toml)["users"]
    assert users["behavior"] == found.behavior
    assert users["edges"] == {edge.name: edge.behavior for edge in found.edges}
