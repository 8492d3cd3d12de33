"""The audit and the check of tuples: epsilons, bounds, guesses of the sampled attribute, JSON and HTML."""

import json
import math

import jsonschema
import polars as pl
import pytest
from cases.tuples import DOMAIN, EMOJI, OPTIONS, WORD, scenario

import poolscope as ps
from poolscope.metrics.composition import composed_success_bound
from poolscope.metrics.models import json_schema
from poolscope.workflows.audit.run_folder import Summary, read_run
from poolscope.workflows.check.verdict import Verdict


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tuples") / "run"
    return ps.audit(
        scenario("rs+fd", options={"epsilon": None, "claimed_epsilon": 2.0}), folder, users=60, seed=1
    ), folder


def test_the_declared_epsilon_holds_for_whole_tuples(run):
    summary, folder = run
    found = summary.collections.multidimensional
    holds = math.log1p(2 * math.expm1(2.0))
    assert (found.kind, found.attributes) == ("rs+fd", 2)
    assert found.epsilon == pytest.approx(holds)
    assert found.claimed_epsilon == pytest.approx(2.0)
    assert 2.0 < found.single_attribute_epsilon < holds
    assert summary.collections.epsilon_day == pytest.approx(holds)
    assert summary.collections.epsilon_year == pytest.approx(365 * holds)
    assert any("the literature claims ε = 2" in line for line in summary.devices)
    written = json.loads((folder / "summary.json").read_text())
    jsonschema.validate(written, json_schema(Summary, strict=True))
    assert written["collections"]["multidimensional"]["claimed_epsilon"] == pytest.approx(2.0)
    assert read_run(folder).summary.as_json() == written


def test_every_subset_has_its_records_and_a_bound(run):
    summary, _ = run
    assert list(dict.fromkeys(record.collection for record in summary.results)) == [
        "joint",
        "emoji",
        "domain",
        "without emoji",
        "without domain",
    ]
    bound = ps.metrics.success_bound(summary.collections.multidimensional.epsilon, 3, 0.5)
    for record in summary.results.filter(adversary="strong", n=3):
        # whole tuples are seen, whichever link counts
        assert record.success_bound == pytest.approx(bound)
        assert record.precision.low <= bound


def test_the_sampled_attribute_is_guessed_more_often_than_by_chance(run):
    summary, folder = run
    outcomes = pl.read_parquet(folder / "outcomes" / "*.parquet")
    records = summary.collections.sampled_attributes
    assert [(record.adversary, record.n, record.baseline) for record in records] == [
        ("strong", 3, 0.5),
        ("strong", 8, 0.5),
    ]
    rows = outcomes.filter((pl.col("collection") == "joint") & (pl.col("adversary") == "strong") & (pl.col("n") == 8))
    shares = rows["sampled_correct"]
    assert records[1].correct.value == pytest.approx(shares.mean())
    assert records[1].correct.high - records[1].correct.value == pytest.approx(
        2.001 * shares.std() / math.sqrt(60), rel=0.01
    )
    assert records[1].correct.low > 0.5
    assert outcomes.filter(pl.col("collection") == "emoji")["sampled_correct"].is_null().all()


def test_the_report_shows_tuples(run):
    _, folder = run
    page = (folder / "report.html").read_text()
    for text in ("Which attribute was sampled", "ε of tuples", "whole tuples", "in the literature", "2.623"):
        assert text in page
    assert "Sums of ε" not in page


@pytest.mark.parametrize("kind", ["spl", "smp"])
def test_bounds_and_epsilons_of_the_other_kinds(tmp_path, kind):
    small = scenario(kind, options={"epsilon": 0.6}, attack={"observations": [9]})
    summary = ps.audit(small, tmp_path / "run", users=20, seed=1, html=False)
    assert summary.collections.epsilon_day == pytest.approx(0.6)
    assert summary.collections.sampled_attributes == ()
    bounds = {record.collection: record.success_bound for record in summary.results.filter(adversary="strong")}
    if kind == "spl":
        assert bounds["joint"] == pytest.approx(composed_success_bound([0.3, 0.3], [9, 9], 0.5))
        assert bounds["emoji"] == pytest.approx(ps.metrics.success_bound(0.3, 9, 0.5))
    else:
        assert bounds["joint"] == pytest.approx(ps.metrics.success_bound(0.6, 9, 0.5))
        chances = [math.comb(9, n) / 2**9 for n in range(10)]
        mean = sum(p * ps.metrics.success_bound(0.6, n, 0.5) for n, p in enumerate(chances))
        assert bounds["emoji"] == pytest.approx(mean, rel=1e-9)
    assert max(bounds["emoji"], bounds["domain"]) < bounds["joint"] < 1


@pytest.mark.default_cases("rs+fd")
@pytest.mark.parametrize("kind", OPTIONS)
def test_check_enumerates_tuples_of_a_scenario(kind):
    verdict = ps.check(scenario(kind, options=OPTIONS[kind]), samples=1000, seed=1, confidence=0.9999)
    assert verdict.mechanism == kind
    assert verdict.declared == verdict.multidimensional.epsilon == 3.0
    if kind in ("spl", "rs+fd"):
        assert verdict.exact.epsilon == pytest.approx(3.0)
    assert verdict.passed, verdict.text
    assert verdict.names[0].startswith("(")
    jsonschema.validate(verdict.as_json(), json_schema(Verdict, strict=True))


@pytest.mark.slow
def test_check_of_the_trial_finds_3_004_where_the_paper_claims_2():
    table = {"epsilon": None, "claimed_epsilon": 2.0}
    verdict = ps.check(scenario("rs+fd", EMOJI, DOMAIN, WORD, options=table), samples=10_000, seed=1)
    assert verdict.exact.epsilon == pytest.approx(3.004, abs=5e-4)
    assert verdict.exact.reports == 160
    assert verdict.declared == pytest.approx(3.004, abs=5e-4)
    assert verdict.multidimensional.claimed_epsilon == pytest.approx(2.0)
    assert verdict.passed
    assert 2.0 < verdict.testable < 3.004
