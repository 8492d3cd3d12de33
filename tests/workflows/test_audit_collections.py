"""The audit of several collections: records, contributions, bounds, the HTML report, and a resumed run."""

import json
import shutil

import jsonschema
import numpy as np
import polars as pl
import pytest
from cases.collections import DOMAINS, EMOJIS, WORDS, scenario
from cases.command_line import SMALL

import poolscope as ps
from poolscope.core.errors import InputError
from poolscope.html import collections as html_collections
from poolscope.html.audit import write_page
from poolscope.metrics.composition import composed_success_bound
from poolscope.metrics.models import json_schema
from poolscope.scenario.scenario import parse
from poolscope.workflows.audit.run_folder import Summary, read_run

SUBSETS = ["joint", "emojis", "domains", "without emojis", "without domains"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("collections") / "run"
    return ps.audit(scenario(), folder, users=80, seed=1), folder


def outcomes_of(folder):
    return pl.read_parquet(folder / "outcomes" / "*.parquet")


def test_every_subset_has_its_records(run):
    summary, folder = run
    assert [(r.collection, r.adversary, r.n) for r in summary.results] == [
        (subset, adversary, n) for subset in SUBSETS for adversary in ("strong", "non-private") for n in (3, 10, 20)
    ]
    written = json.loads((folder / "summary.json").read_text())
    assert [row["collection"] for row in written["results"]][:6] == ["joint"] * 6
    assert written["unit"] == "day"
    jsonschema.validate(written, json_schema(Summary, strict=True))
    assert read_run(folder).summary.as_json() == written
    outcomes = outcomes_of(folder).filter(pl.col("adversary") == "strong")
    for record in summary.results.filter(adversary="strong"):
        rows = outcomes.filter((pl.col("collection") == record.collection) & (pl.col("n") == record.n))
        assert record.precision.value == pytest.approx((rows["guess"] == rows["pool"]).mean())
        assert record.exposed_50.value == pytest.approx((rows["exposed_at_50"] <= record.n).fill_null(False).mean())


def test_contributions_are_leave_one_out_differences(run):
    summary, folder = run
    outcomes = outcomes_of(folder).filter((pl.col("adversary") == "strong") & (pl.col("n") == 20))
    odds = {subset: outcomes.filter(pl.col("collection") == subset).sort("user") for subset in SUBSETS}
    for record in summary.collections.contributions:
        if (record.adversary, record.n) != ("strong", 20):
            continue
        gain = (odds["joint"]["log_odds_true"] - odds[f"without {record.collection}"]["log_odds_true"]).to_numpy()
        assert record.log_odds.value == pytest.approx(gain.mean())
        error = gain.std(ddof=1) / len(gain) ** 0.5
        assert record.log_odds.high - record.log_odds.value == pytest.approx(1.99 * error, rel=0.01)
    exposed = {name: (rows["exposed_at_90"] <= 20).fill_null(False) for name, rows in odds.items()}
    found = next(r for r in summary.collections.exposures if (r.adversary, r.n) == ("strong", 20))
    neither = exposed["joint"] & ~(exposed["emojis"] | exposed["domains"])
    assert exposed["joint"].sum() > neither.sum() > 0
    assert found.exposed.value == pytest.approx(exposed["joint"].mean())
    assert found.only_jointly.value == pytest.approx(neither.sum() / exposed["joint"].sum())
    assert found.singly.value == pytest.approx((exposed["emojis"] | exposed["domains"]).mean())


def test_epsilons_add_up_and_compose(run):
    summary, _ = run
    about = summary.collections
    assert [one.epsilon.day for one in about.collections] == [8.0, 3.0]
    assert about.epsilon_day == 11.0
    assert about.epsilon_year == pytest.approx(365 * 11)


def test_the_bound_is_of_both_epsilons(tmp_path):
    small = scenario(
        {**EMOJIS, "mechanism": {"kind": "grr", "epsilon": 0.2}},
        {**DOMAINS, "mechanism": {"kind": "oue", "epsilon": 0.3}, "devices": {"cap": 5}},
    )
    found = ps.audit(small, tmp_path / "run", users=20, seed=1, html=False).results.filter(adversary="strong", n=10)
    bounds = {record.collection: record.success_bound for record in found}
    assert bounds["joint"] == pytest.approx(composed_success_bound([0.2, 0.3], [20, 5], 0.5))
    assert bounds["emojis"] == bounds["without domains"] == pytest.approx(ps.metrics.success_bound(0.2, 20, 0.5))
    assert bounds["domains"] == pytest.approx(ps.metrics.success_bound(0.3, 5, 0.5))
    assert bounds["joint"] > max(bounds["emojis"], bounds["domains"])


def test_memoized_epsilons_do_not_add_up(tmp_path):
    memoized = {**DOMAINS, "mechanism": {"kind": "grr", "epsilon": 2.0}, "devices": {"memoize": True}}
    found = ps.audit(scenario(EMOJIS, memoized), tmp_path / "run", users=3, seed=1, observations=[2, 3], html=False)
    assert found.collections.epsilon_day is None
    assert found.devices[-1].startswith(f"emojis: ε = {found.collections.collections[0].epsilon.day:,.4g} per day")
    assert found.results[0].confidence_mcse is not None
    assert found.results.filter(collection="joint", adversary="strong")[0].success_bound == 1


def test_the_report_shows_collections(run):
    _, folder = run
    page = (folder / "report.html").read_text()
    parts = "Exposure by collection", "What each collection adds", "without domains", "Sums of ε", "leaning (2 values)"
    for text in parts:
        assert text in page
    assert "overconfident" in page
    before = page
    write_page(read_run(folder))
    assert (folder / "report.html").read_text() == before


@pytest.mark.slow
def test_the_page_says_who_is_overconfident_by_a_wrong_link(tmp_path):
    sharp = {**EMOJIS, "link": 0.65, "mechanism": {"kind": "grr", "epsilon": 7.0}, "devices": {"reports_per_day": 3}}
    believers = [
        {"name": "right", "popularity": "true"},
        {"name": "wrong", "popularity": "true", "links": {"emojis": 1.0}},
        {"name": "said", "popularity": "true", "links": {"emojis": 0.65}},
    ]
    sharp_only = scenario(sharp, DOMAINS, adversary=believers, attack={"observations": [20]})
    found = ps.audit(sharp_only, tmp_path / "run", users=300, seed=3)
    (caution,) = found.collections.cautions
    assert caution.startswith(
        "The wrong adversary assumes another link for emojis than the true one. It is overconfident"
    )
    assert caution in (tmp_path / "run" / "report.html").read_text()


def test_a_resumed_run_is_the_same(run, tmp_path):
    summary, folder = run
    other = tmp_path / "run"
    shutil.copytree(folder, other)
    (other / "summary.json").unlink()
    manifest = json.loads((other / "manifest.json").read_text())
    manifest["parts"] = {}
    (other / "manifest.json").write_text(json.dumps(manifest))
    resumed = ps.audit(scenario(), other, users=80, seed=1, resume=True, html=False)
    assert resumed.results == summary.results
    assert outcomes_of(other).equals(outcomes_of(folder))


def test_three_collections_and_a_threshold(tmp_path):
    found = ps.audit(
        scenario(EMOJIS, DOMAINS, WORDS),
        tmp_path / "run",
        users=30,
        seed=2,
        observations=[4],
        threshold=0.7,
        html=False,
    )
    assert len({record.collection for record in found.results}) == 7
    joint = found.results.filter(collection="joint", adversary="strong")[0]
    assert joint.exposed is not None
    assert np.isfinite(joint.auc_pn.value)
    text = str(found.results)
    assert "without words" in text


@pytest.mark.parametrize("option", [{"epsilon": 2.0}, {"mechanism": "oue"}])
def test_overrides_of_one_mechanism_are_refused(tmp_path, option):
    with pytest.raises(InputError, match="requires a single collection; set"):
        ps.audit(scenario(), tmp_path / "run", users=5, **option)
    assert not (tmp_path / "run").exists()


def test_records_of_one_collection_have_no_such_field(tmp_path):
    found = ps.audit(parse(SMALL, name="one"), tmp_path / "run", users=4, seed=1, observations=[3], html=False)
    assert found.collections is None
    assert "collection" not in found.results[0].as_json()
    assert "Collection" not in str(found.results)


def test_days_beyond_the_run_are_more_than_its_last():
    assert html_collections._days(float("inf"), 1000) == "> 1,000"
    assert html_collections._days(12.0, 1000) == "12"
