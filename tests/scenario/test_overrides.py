"""What a command asks for in place of what the scenario says."""

import json

import polars as pl
import pytest
from cases.command_line import SMALL

from poolscope.core.errors import InputError
from poolscope.html.audit import page_of
from poolscope.scenario.build import with_overrides
from poolscope.scenario.scenario import parse
from poolscope.workflows.audit.audit import audit


@pytest.fixture
def scenario():
    return parse(SMALL, name="small")


def test_nothing_asked_changes_nothing(scenario):
    assert with_overrides(scenario) is scenario
    assert scenario.overrides == {}


def test_what_is_asked_is_what_the_text_says(scenario):
    found = with_overrides(scenario, observations=(2, 5), threshold=0.8, epsilon=2, mechanism="hcms")
    assert found.attack.observations == (2, 5)
    assert found.attack.threshold == 0.8
    assert (found.mechanism.kind, found.mechanism.parameters) == ("hcms", {"epsilon": 2.0, "m": 32, "hashes": 64})
    assert parse(found.text, name="instantaneous").dump() == found.dump()
    assert found.overrides == {"observations": [2, 5], "threshold": 0.8, "epsilon": 2, "mechanism": "hcms"}
    assert with_overrides(scenario, mechanism="grr").mechanism.parameters == {"epsilon": 4}, "epsilon stays"
    assert with_overrides(scenario, epsilon=1).mechanism.parameters == {"epsilon": 1, "m": 32, "hashes": 64}
    assert with_overrides(scenario, mechanism="identity", epsilon=1).mechanism.parameters == {}


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"observations": [5, 2]}, "small: attack.observations: must be increasing"),
        ({"observations": []}, "small: attack.observations: must not be empty"),
        ({"threshold": 1.5}, "small: attack.threshold: must be at most 1, got 1.5"),
        ({"epsilon": -1.0}, "small: mechanism.epsilon: must be positive, got -1.0"),
        ({"mechanism": "grrr"}, "mechanism: must be a known mechanism, got 'grrr'; did you mean 'grr'"),
    ],
)
def test_what_cannot_be_asked(scenario, asked, message):
    with pytest.raises(InputError) as error:
        with_overrides(scenario, **asked)
    assert message in str(error.value)


def test_a_run_keeps_what_was_asked_and_resume_asks_for_the_same(scenario, tmp_path):
    asked = {"users": 20, "observations": [2, 4], "threshold": 0.6, "epsilon": 6.0}
    summary = audit(scenario, tmp_path / "run", **asked)
    assert [row.n for row in summary.results] == [2, 4] * 3
    assert "ε = 6 per report" in summary.devices[0]
    text = json.loads((tmp_path / "run" / "manifest.json").read_text())["scenario"]
    assert (
        text == summary.scenario.text == with_overrides(scenario, **{k: asked[k] for k in asked if k != "users"}).text
    )
    assert audit(scenario, tmp_path / "run", **asked, resume=True).results == summary.results
    with pytest.raises(InputError, match="the scenario differs"):
        audit(scenario, tmp_path / "run", **asked | {"threshold": 0.7}, resume=True)
    assert "--epsilon 6.0 --observations 2,4 --threshold 0.6" in page_of(summary, [])


def test_the_threshold_that_was_asked_for_says_who_is_exposed(scenario, tmp_path):
    summary = audit(scenario, tmp_path / "run", users=50, observations=[5, 10], threshold=0.6)
    outcomes = pl.read_parquet(tmp_path / "run" / "outcomes" / "*.parquet")
    for row in summary.results:
        mine = outcomes.filter(pl.col("adversary") == row.adversary, pl.col("n") == row.n)
        firsts = mine["exposed_at_threshold"].cast(pl.Float64).fill_null(float("inf")).sort()
        assert row.exposed_at == 0.6
        for name, place in (("reports_to_1pct", 0), ("reports_to_5pct", 2), ("reports_to_10pct", 4)):
            value, low, high = getattr(row, name)
            assert value == firsts[place], "the least number by which so many of 50 are exposed"
            assert low <= value <= high
