"""The confidence that was asked for is the one that every page, table and terminal shows."""

import json
import re
from html.parser import HTMLParser

import polars as pl
import pytest
from cases.engines import scenario_text
from cases.selection import mostly, slow

import poolscope as ps
from poolscope.cli.audit import print_audit
from poolscope.cli.compare import print_comparison
from poolscope.cli.files import print_attack
from poolscope.explore import view
from poolscope.explore.answers import Sample
from poolscope.explore.streams import Stoppable
from poolscope.explore.user_table import users_of_run
from poolscope.html import attack as attack_page
from poolscope.html.compare import page_of as comparison_page
from poolscope.html.compare import pictures as comparison_pictures
from poolscope.html.workflows.audit import audit
from poolscope.html.workflows.compare import compare
from poolscope.scenario.scenario import parse
from poolscope.workflows.attack.attack import attack
from poolscope.workflows.audit.run_folder import read_run
from poolscope.workflows.obfuscate import obfuscate

#: One of the usual levels, and one that is none of them and has a digit behind the point.
THRESHOLDS = {0.95: "95%", 0.625: "62.5%"}

#: A sentence or head that names the usual confidence as the one that counts.
USUAL = re.compile(r"(confidence|exposed[,:]?|least)[ \n](≥ )?90%")


class Text(HTMLParser):
    """The visible words of a page, without its pictures' data and its table of all levels."""

    def __init__(self, html):
        super().__init__()
        self._words, self._hidden = [], 0
        self.feed(html)
        self.text = " ".join("".join(self._words).replace("\u202f", " ").split())

    def handle_starttag(self, tag, attrs):
        self._hidden += tag in ("script", "style", "textarea", "pre")

    def handle_endtag(self, tag):
        self._hidden -= tag in ("script", "style", "textarea", "pre")

    def handle_data(self, data):
        self._words.append("" if self._hidden else data)


def asking(threshold):
    text = scenario_text('kind = "grr"\nepsilon = 4', users=60, observations=(3, 20))
    return parse(f"{text}threshold = {threshold}\nestimates = 3\n", name="x")


@pytest.fixture(scope="module", params=mostly(slow, THRESHOLDS, 0.625), ids=str)
def threshold(request):
    return request.param


@pytest.fixture(scope="module")
def run(tmp_path_factory, threshold):
    folder = tmp_path_factory.mktemp("run") / "run"
    return audit(asking(threshold), folder, seed=2), folder


def test_the_report_shows_it(run, threshold):
    summary, folder = run
    html = (folder / "report.html").read_text("utf-8")
    words, said = Text(html).text, THRESHOLDS[threshold]
    record = ps.metrics.strongest_attack(summary.results)
    assert f"of users exposed (confidence ≥ {said} at least once)" in words
    assert f"is exposed (confidence ≥ {said} at least once)" in words
    assert f"is at least {said} confident about" in words
    assert not USUAL.search(words)
    # the card's number is of that confidence, as the outcomes have it
    rows = ps.metrics.select(outcomes_of(folder), record.adversary, record.n)
    assert record.exposed_share.value == (rows["exposed_at_threshold"] <= record.n).sum() / 60 == record.exposed.value
    assert record.exposed_share != record.exposed_90
    levels = "≥ 50% ≥ 90% ≥ 95%" if threshold == 0.95 else "≥ 50% ≥ 62.5% ≥ 90% ≥ 95%"
    assert f"confidence ≥ {said} {levels} {levels} ECE" in words
    assert set(re.findall(r"confidence ≥ [\d.]+%", html)) >= {
        f"confidence ≥ {level}%" for level in re.findall(r"[\d.]+", levels)
    }


def outcomes_of(folder):
    return pl.concat(pl.read_parquet(path) for path in sorted((folder / "outcomes").iterdir()))


def test_the_curves_have_a_line_for_it(run, threshold):
    table = read_run(run[1]).tables.exposure
    assert sorted(table["threshold"].unique()) == sorted({0.5, 0.9, 0.95, threshold})
    for record in run[0].results:
        line = table.filter(adversary=record.adversary, threshold=threshold, n=record.n)
        assert line["share"].item() == pytest.approx(record.exposed.value)


def test_the_terminal_shows_it(run, threshold, capsys):
    print_audit(run[0], run[1] / "report.html", 1.0)
    printed, said = " ".join(capsys.readouterr().out.split()), THRESHOLDS[threshold]
    assert f"is exposed (confidence ≥ {said} at least once, correct or not)" in printed
    assert f"confidence ≥ {said}" in printed
    assert not USUAL.search(printed)


def test_tables_of_records_show_it(run, threshold):
    said = THRESHOLDS[threshold]
    assert f"Exposed (≥ {said})" in run[0].results.to_html()
    assert f"Exposed (≥ {said})".replace("%", r"\%").replace("≥", r"$\geq$") in run[0].results.to_latex()
    assert f"Confidence ≥ {said}" in run[0].results.to_html(["confident_at_threshold"])
    assert "90%" not in run[0].results.to_html()


def test_summaries_of_a_game_take_its_threshold(threshold):
    game = asking(threshold).game(2)
    records = ps.summarize(ps.play(game, 30, 2), game, 2)
    assert all((record.threshold, record.confident_at) == (threshold, threshold) for record in records)
    assert all(record.exposed_share == record.exposed for record in records)
    other = ps.summarize(ps.play(game, 30, 2), game, 2, threshold=0.7)[0]
    assert (other.threshold, other.exposed_at, other.exposed) == (0.7, threshold, None)


def test_a_comparison_shows_it(tmp_path, threshold, capsys):
    done = compare(asking(threshold), ["grr"], [4.0], users=40, estimate_from=500, out=tmp_path / "out")
    said = THRESHOLDS[threshold]
    print_comparison(done, tmp_path / "out" / "comparison.html", 1.0)
    printed = capsys.readouterr().out
    assert re.search(r"exposed\s", printed)
    assert said in printed
    assert "90%" not in printed
    words = Text(comparison_page(done)).text
    assert f"confidence ≥ {said} exposed, ≥ {said}" in words
    assert f"Exposed: confidence ≥ {said} at least once" in words
    assert not USUAL.search(words)
    record = json.loads((tmp_path / "out" / "comparison.json").read_text())["results"][-1]
    assert (record["threshold"], record["exposed_at"]) == (threshold, threshold)
    assert {"exposed", "exposed_low", "confident_at_threshold", "exposed_90", "confident_90"} <= record.keys()
    shown_share = f"{100 * record['exposed']:.1f}"
    assert f">{shown_share}<" in comparison_page(done)
    chart = comparison_pictures(done)[0].chart
    assert f"Exposed (≥ {said})" in json.dumps(chart, ensure_ascii=False)
    assert chart["datasets"]["rows"][-1]["exposed"] == pytest.approx(record["exposed"])


def test_the_explorer_shows_it(run, threshold):
    scenario, said = asking(threshold), THRESHOLDS[threshold]
    sample = Sample(scenario.game(2), 20, 2, Stoppable())
    sample.grow(48)
    found = sample.answer()
    label = view.answer(found)["tiles"][2]["label"]
    assert label == f"of users exposed (confidence ≥ {said} at least once)"
    assert view.compared(found)["cells"][3][1].startswith(f"≥ {said}: ")
    assert threshold in found.exposure["threshold"].to_list()
    assert found.strongest_attack.exposed_share == found.strongest_attack.exposed
    people = users_of_run(run[1])
    assert (people.exposed_at, people.rows.columns[-1]) == (threshold, "exposed")
    rows = outcomes_of(run[1]).filter(n=20).cast({"user": str, "adversary": str})
    same = people.rows.join(rows, on=["user", "adversary"], suffix="_known")
    assert same["exposed"].equals(same["exposed_at_threshold"], null_equal=True)


def test_an_attack_on_a_file_shows_it(tmp_path, threshold, capsys):
    (tmp_path / "traces.csv").write_text("user,object\n" + "".join(f"u{i % 30},{i % 5}\n" for i in range(600)))
    scenario = asking(threshold)
    obfuscate(tmp_path / "traces.csv", scenario, tmp_path / "reports.csv", 1)
    found = attack(tmp_path / "reports.csv", scenario, out=tmp_path / "found.csv")
    assert set(found.results[0].confident_at_threshold) == {0.5, 0.9, 0.95, threshold}
    page = attack_page.page_of(found, scenario, tmp_path / "found.csv", "poolscope attack")
    assert f"is at least {THRESHOLDS[threshold]} confident about" in Text(page).text
    print_attack(found, tmp_path / "found.csv")
    assert f"confidence ≥ {THRESHOLDS[threshold]}" in capsys.readouterr().out
