"""The page of a run: self-contained, escaped, whole or not there at all."""

import json
import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser

import polars as pl
import pytest
from cases.records import Pools
from cases.synthetic import POOLS, attack, game

from poolscope.core.errors import InputError
from poolscope.html import audit
from poolscope.metrics.intervals import Estimate
from poolscope.metrics.records import summarize
from poolscope.workflows.audit.run_folder import read_run

HOSTILE = "<script>alert('&$x$')</script>"

ADVERSARIES = {
    "weak": "popularity assumed uniform",
    "strong": "popularity estimated from 500 reports",
    "non-private": "sees the objects themselves",
}


class Page(HTMLParser):
    """What a browser would make of a page: its elements, ids and visible text."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.text, self.in_script = [], [], False
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.in_script = tag == "script"

    def handle_endtag(self, tag):
        self.in_script = False

    def handle_data(self, data):
        if not self.in_script:
            self.text.append(data)

    @property
    def words(self):
        return " ".join(" ".join(self.text).split())


def make_run(folder, outcomes, threshold=None, **changes):
    """A run's folder as an audit leaves it, its outcomes in two parts."""
    (folder / "outcomes").mkdir(parents=True)
    half = outcomes.height // 2
    for index, part in enumerate((outcomes[:half], outcomes[half:])):
        part.write_parquet(folder / "outcomes" / f"part-{index}.parquet")
    results = summarize(outcomes, Pools(len(POOLS)), 7, threshold)
    summary = {
        "scenario": {"title": "Emojis", "text": 'title = "Emojis"\n', "file": "apple-emojis"},
        "seed": 7,
        "users": outcomes["user"].n_unique(),
        "version": "1.2.3",
        "results": [record.as_json() for record in results],
        "pools": list(POOLS),
        "horizon": int(outcomes["n"].max()),
        "adversaries": ADVERSARIES,
        "seconds": 1.5,
        "unknown": "is for others",
    }
    (folder / "summary.json").write_text(json.dumps(summary | changes))
    return folder


def write_page(folder):
    return audit.write_page(read_run(folder))


@pytest.fixture(scope="module")
def outcomes():
    return game(300, observations=(7, 60))


@pytest.fixture(scope="module")
def run(tmp_path_factory, outcomes):
    folder = make_run(tmp_path_factory.mktemp("run") / "audit", outcomes)
    assert write_page(folder) == folder / "report.html"
    return folder


@pytest.fixture(scope="module")
def page(run):
    return Page((run / "report.html").read_text("utf-8"))


def test_folder_holds_the_page_and_no_scraps(run):
    assert {path.name for path in run.iterdir()} == {"summary.json", "outcomes", "report.html"}


def specifications(html):
    """The pictures of a page by their names."""
    found = re.findall(r'data-name="([^"]*)"><script type="application/json">(.*?)</script>', html)
    return {name: json.loads(text) for name, text in found}


@pytest.mark.default_cases("epsilon0-*", "epsilon2-*")
@pytest.mark.parametrize(
    ("epsilon", "lines"),
    [
        ({"report": 0.5}, {"n = 7", "n = 60", "no information"}),
        ({"report": 1.5}, {"n = 7", "no information"}),
        ({"report": 8.0}, None),
        ({"report": 0.5, "response": 0.5}, None),
    ],
)
def test_the_trade_off_is_drawn_where_epsilon_bounds_it(tmp_path, outcomes, epsilon, lines):
    """Not where every test decides nearly always, nor for memoized responses, which epsilon does not bound."""
    drawn = specifications(write_page(make_run(tmp_path / "run", outcomes, epsilon=epsilon)).read_text("utf-8"))
    assert ("trade-off" in drawn) == (lines is not None)
    if lines:
        assert {row["line"] for row in drawn["trade-off"]["datasets"]["rows"]} == lines


def test_page_has_every_picture_and_its_numbers(run):
    drawn = specifications((run / "report.html").read_text("utf-8"))
    assert list(drawn) == ["precision", "exposure", "behavior-1-weak", "behavior-2-strong", "calibration"]
    results = json.loads((run / "summary.json").read_text())["results"]
    whole = {
        (r["adversary"], r["n"]): r["precision"] for r in drawn["precision"]["datasets"]["rows"] if r["null_rate"] == 0
    }
    last = {(r["adversary"], r["line"]): r["share"] for r in drawn["exposure"]["datasets"]["rows"] if r["n"] == 60}
    for record in results:
        if record["adversary"] != "non-private":
            assert whole[record["adversary"], record["n"]] == pytest.approx(record["precision"], rel=1e-4)
        if record["n"] == 60:
            assert last[record["adversary"], "confidence ≥ 90%"] == pytest.approx(record["exposed_90"], rel=1e-4)


def test_page_needs_no_network(run, page):
    for tag, attributes in page.elements:
        assert tag not in ("link", "iframe", "img", "object", "embed"), tag
        for name, value in attributes.items():
            if name in ("src", "href", "xlink:href", "action", "data"):
                assert value.startswith("#"), (tag, name, value)
    html = (run / "report.html").read_text("utf-8")
    assert not re.search(r"@import|url\((?!#)", re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL))
    policy = next(a["content"] for _, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; ")
    scripts = re.findall(r"<script>(.*?)</script>", html, flags=re.DOTALL)
    hashes = [f"'sha256-{b64encode(sha256(code.encode()).digest()).decode()}'" for code in scripts]
    # these three scripts and no other may run, and no text may become code
    assert len(hashes) == 3
    assert f"script-src {' '.join(hashes)}; " in policy
    assert "unsafe-eval" not in policy


def test_ids_are_unique(page):
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_page_without_javascript_says_where_the_numbers_are(page):
    assert page.words.count("This figure needs JavaScript; the tables contain its numbers.") == 5


def test_page_says_what_was_found_and_how(run, page):
    results = json.loads((run / "summary.json").read_text())["results"]
    assert "After 60 reports, the strong adversary (popularity estimated from 500 reports)" in page.words
    assert "300 users" in page.words
    assert "poolscope audit apple-emojis --users 300 --seed 7" in page.words
    assert 'title = "Emojis"' in page.words
    assert "poolscope 1.2.3" in page.words
    for term in ("Null rate", "Precision", "AUC-PN", "Confidence", "Confident at n", "Exposed by n", *ADVERSARIES):
        assert term in page.words
    for record in results:
        assert f"{record['auc_pn']:.3f}" in page.words
        assert f"{record['auc_pn_low']:.3f}–{record['auc_pn_high']:.3f}" in page.words
    assert page.words.count("Precision by user behavior,") == 2


def test_a_threshold_has_columns_of_its_own(tmp_path, page):
    """Nobody is sure at 1: how often that would be right is not known."""
    assert "top 1% confidence" not in page.words
    folder = make_run(tmp_path / "run", attack(50, observations=(2,)), threshold=1.0)
    words = Page(write_page(folder).read_text("utf-8")).words
    assert "top 1% confidence ≥ 100% ≥ 50% ≥ 90% ≥ 95% ≥ 100% ≥ 50% ≥ 90% ≥ 95% ECE" in words
    assert re.search(r"– 0\.0–100\.0 \S+ \S+ \S+ \S+ \S+ \S+ 0\.0 0\.0–\d\.\d", words)


@pytest.mark.parametrize(("name", "separator"), [("csv", ","), ("tsv", "\t")])
def test_table_can_be_copied(run, name, separator):
    html = (run / "report.html").read_text("utf-8")
    assert f'data-copy="{name}"' in html
    text = re.search(rf'<textarea id="{name}"[^>]*>\n(.*?)</textarea>', html, re.DOTALL)[1]
    table = pl.read_csv(text.encode(), separator=separator)
    results = json.loads((run / "summary.json").read_text())["results"]
    assert table.columns == list(results[0])
    assert table["auc_pn"].to_list() == pytest.approx([r["auc_pn"] for r in results], rel=1e-5)


def test_names_from_a_run_are_shown_and_never_obeyed(tmp_path, outcomes):
    hostile = outcomes.filter(pl.col("adversary") == "strong").with_columns(
        pl.lit(HOSTILE).alias("adversary"), pl.col("pool", "guess").replace("light", HOSTILE)
    )
    folder = make_run(
        tmp_path / "run",
        hostile,
        scenario={"title": HOSTILE, "text": HOSTILE, "file": HOSTILE},
        pools=[HOSTILE, *POOLS[1:]],
        adversaries={HOSTILE: HOSTILE},
        version=HOSTILE,
    )
    html = write_page(folder).read_text("utf-8")
    assert "<script>alert" not in html
    page = Page(html)
    kinds = [attributes.get("type") for tag, attributes in page.elements if tag == "script"]
    # the page's own three, and the specifications of its four pictures
    assert kinds == ["application/json"] * 4 + [None] * 3
    # Title, heading, words, pools, tiles, figures, table, glossary, command, version, scenario.
    assert page.words.count(HOSTILE) > 12
    assert all(name.isascii() for name in specifications(html))


def test_marks_that_turn_the_text_are_shown(tmp_path, outcomes):
    turned = "a\u202eb\u2066c"
    folder = make_run(tmp_path / "run", outcomes.filter(pl.col("adversary") == "weak"), pools=[turned, *POOLS[1:]])
    html = write_page(folder).read_text("utf-8")
    assert "a[U+202E]b[U+2066]c" in html
    assert not re.search("[\u202a-\u202e\u2066-\u2069]", html.partition("<script>")[0])


def test_same_run_same_page(run, tmp_path, outcomes):
    again = make_run(tmp_path / "instantaneous", outcomes)
    write_page(again)
    assert (again / "report.html").read_bytes() == (run / "report.html").read_bytes()


def test_one_user_makes_a_page(tmp_path):
    lonely = attack(1, observations=(2,))
    folder = make_run(tmp_path / "run", lonely, seconds=None, scenario={"title": "", "text": ""})
    words = Page(write_page(folder).read_text("utf-8")).words
    assert words.startswith("Audit ")
    assert "1 user " in words
    assert "poolscope audit scenario.toml --users 1" in words


def test_failure_leaves_the_old_page(tmp_path, outcomes, monkeypatch):
    folder = make_run(tmp_path / "run", outcomes.filter(pl.col("adversary") == "weak"))
    (folder / "report.html").write_text("old")
    replaced = audit.Path.replace

    def full_disk(path, target):
        if target.name == "report.html":
            raise OSError(28, "No space left on device")
        return replaced(path, target)

    monkeypatch.setattr(audit.Path, "replace", full_disk)
    with pytest.raises(InputError, match=r"report.html: cannot write: No space left"):
        write_page(folder)
    assert (folder / "report.html").read_text() == "old"
    assert not list(folder.glob(".*"))


def edit(folder, **changes):
    path = folder / "summary.json"
    summary = json.loads(path.read_text())
    for key, value in changes.items():
        if value is None:
            del summary[key]
        else:
            summary[key] = value
    path.write_text(json.dumps(summary))


DAMAGES = {
    "must have summary.json": lambda f: (f / "summary.json").unlink(),
    "must be JSON": lambda f: (f / "summary.json").write_text("{"),
    "must be UTF-8": lambda f: (f / "summary.json").write_bytes(b'"\xff"'),
    "must be an object, got []": lambda f: (f / "summary.json").write_text("[]"),
    "seed: is missing": lambda f: edit(f, seed=None),
    "users: must be a whole number of at least 1, got 0": lambda f: edit(f, users=0),
    "results: must not be empty": lambda f: edit(f, results=[]),
    "results.0.adversary: is missing": lambda f: edit(f, results=[{}]),
    "results.0.n: is missing": lambda f: edit(f, results=[{"adversary": "weak"}]),
    "must have outcomes": lambda f: [p.unlink() for p in (f / "outcomes").iterdir()],
    "part-0.parquet: must be a Parquet file": lambda f: (f / "outcomes/part-0.parquet").write_text("no"),
    "must have a column 'user'": lambda f: pl.DataFrame({"n": [1]}).write_parquet(f / "outcomes/part-0.parquet"),
}


@pytest.mark.parametrize("message", DAMAGES)
def test_damaged_run_is_one_clear_line_and_nothing_is_written(tmp_path, outcomes, message):
    folder = make_run(tmp_path / "run", outcomes[:2])
    DAMAGES[message](folder)
    with pytest.raises(InputError, match=re.escape(message)) as error:
        write_page(folder)
    assert "\n" not in str(error.value)
    assert str(folder) in str(error.value)
    assert not (folder / "report.html").exists()


def test_missing_folder_and_empty_outcomes(tmp_path, outcomes):
    with pytest.raises(InputError, match="there is no such folder"):
        write_page(tmp_path / "nowhere")
    folder = make_run(tmp_path / "run", outcomes[:1])
    for path in (folder / "outcomes").iterdir():
        outcomes.clear().write_parquet(path)
    with pytest.raises(InputError, match="must have at least one row"):
        write_page(folder)


def test_an_interval_that_is_a_point_leaves_no_sign_behind(run):
    """Of very many users all of a kind, both ends are the same to the digits that are shown."""
    summary = read_run(run).summary
    sure = Estimate(1.0, 0.99999, 1.0)
    results = [replace(record, precision_top10=sure) for record in summary.results]
    facts = audit._tiles(replace(summary, results=results))["tiles"]
    assert [tile.note for tile in facts][1] == ""
    assert all(tile.note for tile in facts[:1] + facts[2:])
