"""From Python as from the command line: the folder has its page."""

import pytest
from cases.command_line import SMALL
from cases.facts import Told

import poolscope
from poolscope.scenario.scenario import parse


@pytest.fixture
def small():
    return parse(SMALL, name="small")


def test_an_audit_writes_its_page_and_says_so(small, tmp_path):
    facts = Told()
    summary = poolscope.audit(small, tmp_path / "run", users=20, progress=facts)
    assert facts.stages == ["Preparing", "started", "Summarizing", "Writing the report"]
    page = (tmp_path / "run" / "report.html").read_text()
    assert summary.scenario.title in page
    shown = summary._repr_html_()
    assert shown.startswith("<p><strong>Small</strong></p>")
    assert shown.count("<tr>") == 1 + len(summary.results)


def test_a_comparison_has_a_page_where_it_has_a_folder(small, tmp_path):
    facts = Told()
    done = poolscope.compare(small, ["grr"], [1.0], users=20, estimate_from=100, out=tmp_path / "with", progress=facts)
    assert facts.stages[-1] == "Writing the report"
    assert (tmp_path / "with" / "comparison.html").stat().st_size > 0
    assert done._repr_html_() == done.results.to_html()
    poolscope.compare(small, ["grr"], [1.0], users=20, estimate_from=100)
    assert [path.name for path in tmp_path.iterdir()] == ["with"]


def test_a_reproduction_has_a_page(tmp_path):
    poolscope.reproduce(["no-hash"], tmp_path / "paper", users=10)
    assert (tmp_path / "paper" / "reproduction.html").stat().st_size > 0


def test_without_html_there_is_no_report(small, tmp_path):
    facts = Told()
    poolscope.audit(small, tmp_path / "run", users=20, html=False, progress=facts)
    poolscope.compare(small, ["grr"], [1.0], users=20, estimate_from=100, out=tmp_path / "compared", html=False)
    poolscope.reproduce("no-hash", tmp_path / "paper", users=2, html=False, progress=facts)
    asked = {"max_exposed": 0.5, "horizon": 3, "mechanisms": ["grr"], "users": 50, "tolerance": 0.5}
    poolscope.advise(small, **asked, out=tmp_path / "advice", html=False)
    assert len(list(tmp_path.glob("*/*.json"))) >= 5
    assert list(tmp_path.rglob("*.html")) == []
    assert "Writing the report" not in facts.stages
