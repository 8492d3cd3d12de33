"""Frequencies of each collection from files of tuple reports."""

import numpy as np
import polars as pl
import pytest
from cases.tuples import DOMAIN, EMOJI, OPTIONS, scenario, written

import poolscope as ps
from poolscope.core.errors import InputError
from poolscope.mechanisms import attribute_frequencies
from poolscope.reports.files import MEMORY_BYTES
from poolscope.scenario.multidimensional import build_multidimensional

COLUMNS = ["collection", "object", "pool", "count", "standard_error", "popularity", "frequency"]


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@pytest.mark.parametrize("kind", OPTIONS)
def test_a_file_has_the_estimates_of_its_reports(tmp_path, kind, suffix):
    found = scenario(kind, {**EMOJI, "mechanism": {"kind": "oue"}}, DOMAIN, options=OPTIONS[kind])
    mechanism, rng = build_multidimensional(found), np.random.default_rng(1)
    people = np.stack([rng.choice(8, 3000), rng.choice(5, 3000, p=[0.6, 0.1, 0.1, 0.1, 0.1])], axis=1)
    reports = mechanism.obfuscate(people, rng)
    path = written(tmp_path / f"reports{suffix}", reports)
    made = ps.estimate(path, found, tmp_path / "popularity.csv")
    expected = attribute_frequencies(mechanism, reports)
    assert made.table.columns == COLUMNS == pl.read_csv(tmp_path / "popularity.csv").columns
    assert (made.reports, made.objects, made.method) == (3000, 13, "linear")
    for name, one in expected.items():
        rows = made.table.filter(pl.col("collection") == name)
        np.testing.assert_allclose(rows["count"], one.counts, rtol=1e-12)
        np.testing.assert_allclose(rows["standard_error"], one.errors, rtol=1e-12)
        np.testing.assert_allclose(rows["frequency"], one.counts / one.reports, rtol=1e-12)
    assert made.table.filter(pl.col("collection") == "emoji")["pool"].to_list()[:5] == ["left"] * 2 + ["right"] * 3
    domain = made.table.filter((pl.col("collection") == "domain") & (pl.col("object") == "0"))
    assert abs(domain["frequency"][0] - 0.6) < 5 * domain["standard_error"][0] / expected["domain"].reports


def test_blocks_add_up(tmp_path, monkeypatch):
    found = scenario("smp")
    mechanism, rng = build_multidimensional(found), np.random.default_rng(2)
    reports = mechanism.obfuscate(np.zeros((1000, 2), dtype=np.int64), rng)
    path = written(tmp_path / "reports.parquet", reports)
    whole = ps.estimate(path, found)
    assert MEMORY_BYTES > 100_000
    monkeypatch.setattr("poolscope.workflows.estimate.rows_within", lambda *_: 37)
    assert ps.estimate(path, found).table.equals(whole.table)


def test_objects_are_read_by_name(tmp_path):
    (tmp_path / "objects.csv").write_text("object,pool\nsmile,left\nfrown,right\n")
    named = {"name": "face", "universe": {"objects": "objects.csv"}, "popularity": {"kind": "uniform"}}
    found = ps.Scenario.from_dict(scenario("rs+fd", named, DOMAIN).to_dict(), folder=tmp_path)
    mechanism, rng = build_multidimensional(found), np.random.default_rng(3)
    reports = mechanism.obfuscate(np.zeros((500, 2), dtype=np.int64), rng)
    path = written(tmp_path / "reports.csv", reports, {"face": ["smile", "frown"]})
    table = ps.estimate(path, found).table
    assert table["object"].to_list()[:2] == ["smile", "frown"]
    np.testing.assert_allclose(table["count"][:2], attribute_frequencies(mechanism, reports)["face"].counts)
    path.write_text(path.read_text().replace("frown", "grin"))
    with pytest.raises(InputError, match="grin"):
        ps.estimate(path, found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("user,sampled,emoji\nu,0,1\n", "must have a column 'domain'"),
        ("user,sampled,emoji,domain\nu,2,1,0\n", "must be an integer from 0 to 1"),
        ("user,sampled,emoji,domain\nu,0,8,0\n", "must be an integer from 0 to 7"),
        ("user,sampled,emoji,domain\nu,0,1,3\n", "domain: must be 0 where another attribute was sampled"),
        ("user,sampled,emoji,domain\nu,0,1,0\n", "domain: an estimate needs at least one report"),
    ],
)
def test_wrong_files_are_one_line(tmp_path, text, message):
    path = tmp_path / "reports.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=r"reports\.csv") as caught:
        ps.estimate(path, scenario("smp"), tmp_path / "out.csv")
    assert message in str(caught.value)
    assert not (tmp_path / "out.csv").exists()


def test_other_methods_are_refused(tmp_path):
    path = tmp_path / "reports.csv"
    path.write_text("user,emoji,domain\nu,1,0\n")
    with pytest.raises(InputError, match=r"method: must be linear with \[multidimensional\], got 'ibu'"):
        ps.estimate(path, scenario("rs+fd"), method="ibu")
