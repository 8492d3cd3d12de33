"""Folders of every verb are read back: the same page, and its pictures as files."""

import json
import shutil

import pytest
from cases.command_line import SMALL
from cases.synthetic import SEED

import poolscope as ps
from poolscope.cli.folders import pictures_of, write_figures, write_page
from poolscope.core.errors import InputError
from poolscope.scenario.scenario import parse
from poolscope.workflows.advise.collection_records import read_advice
from poolscope.workflows.compare import read_comparison

READING = {"comparison.json": read_comparison, "advice.json": read_advice}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A comparison with what is infinite and what has no value, and an advice, by the file that each has."""
    place, small = tmp_path_factory.mktemp("finished"), parse(SMALL, name="small")
    ps.compare(
        small, ["identity", "grr"], [1.0], users=20, estimate_from=100, threshold=0.8, out=place / "comparison.json"
    )
    asked = {"horizon": 4, "max_error": 0.03, "devices": 5000, "users": 60, "mechanisms": ["grr"], "seed": SEED}
    ps.advise(small, max_exposed=0.2, out=place / "advice.json", **asked)
    return place


@pytest.mark.default_cases("advice.json")
@pytest.mark.parametrize("name", READING)
def test_a_folder_comes_back_as_it_was(folders, name):
    again = READING[name](folders / name)
    assert again.as_json() == json.loads((folders / name / name).read_text("utf-8"))
    (page,) = (folders / name).glob("*.html")
    before = page.read_bytes()
    assert write_page(folders / name) == page
    assert page.read_bytes() == before


def test_pictures_are_those_of_the_page(folders):
    for name, expected in (("comparison.json", ["pareto-front"]), ("advice.json", ["map", "exposure"])):
        shown = pictures_of(folders / name)
        assert [picture.name for picture in shown] == expected
        (page,) = (folders / name).glob("*.html")
        html = page.read_text("utf-8").replace("&#39;", "'")
        assert all(picture.title in html for picture in shown)
    (file,) = write_figures(folders / "comparison.json", form="svg", width="column")
    assert "grr" in file.read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("comparison.json", {"results": []}, "results: must not be empty"),
        ("comparison.json", {"results": [3]}, "results.0: must be an object, got 3"),
        ("comparison.json", {"n": "x"}, "n: must be a number, got 'x'"),
        ("comparison.json", {"seed": 0.5}, "seed: must be a whole number"),
        ("comparison.json", {"adversaries": []}, "adversaries: must be an object, got []"),
        ("comparison.json", {"adversaries": {"weak": 1}}, "adversaries.weak: must be a string, got 1"),
        ("comparison.json", {"devices": "many"}, "devices: must be a list, got 'many'"),
        ("comparison.json", {"scenario": {"text": 1}}, "scenario: must have the strings name, file and text"),
        ("comparison.json", {"epsilons": [{"report": "much"}]}, "epsilons.0.report: must be a number, got 'much'"),
        ("advice.json", {"curve": [[0.1]]}, "curve.0: must be three numbers, got [0.1]"),
        ("advice.json", {"findings": []}, "findings: must not be empty"),
        ("advice.json", {"recommendation": None}, "recommendation: must be an object, got None"),
    ],
)
def test_what_is_malformed_is_told_in_a_line(folders, tmp_path, name, change, message):
    copy = shutil.copytree(folders / name, tmp_path / "copy")
    kept = json.loads((copy / name).read_text("utf-8"))
    (copy / name).write_text(json.dumps(kept | change), encoding="utf-8")
    with pytest.raises(InputError) as error:
        write_page(copy)
    assert message in str(error.value)
    assert name in str(error.value)
    (copy / name).write_text("[]", encoding="utf-8")
    with pytest.raises(InputError, match=r"must be an object, got \[\]"):
        pictures_of(copy)


def test_a_reproduction_says_who_writes_its_page(tmp_path):
    (tmp_path / "plays").mkdir()
    with pytest.raises(InputError, match=r"cannot be rendered from its folder alone; run its command again with --out"):
        write_page(tmp_path)
    with pytest.raises(InputError, match="has no finished run of a figure yet"):
        pictures_of(tmp_path)


def test_another_folder_is_no_finished_one(tmp_path):
    with pytest.raises(InputError, match="contains no finished run; name a folder of audit, compare, advise, sweep or"):
        write_page(tmp_path)
    with pytest.raises(InputError, match="there is no such folder; name a folder of audit"):
        pictures_of(tmp_path / "nowhere")
    (tmp_path / "outcomes").mkdir()
    with pytest.raises(InputError, match=r"must have summary.json; name the folder of a finished audit"):
        write_page(tmp_path)
