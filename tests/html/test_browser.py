"""The page in a real browser: it draws, answers, fetches nothing and runs no name."""

import functools
import json
import re
from itertools import combinations

import polars as pl
import pytest
from cases.browsing import launched, needs_chromium, pointed_at, saved, saved_as_text, tells
from cases.command_line import SMALL
from cases.records import Pools, choice
from cases.selection import mostly, slow
from cases.synthetic import POOLS, game

from poolscope.figures import style
from poolscope.html import audit, compare
from poolscope.metrics.records import summarize
from poolscope.metrics.tables import Records
from poolscope.scenario.scenario import parse
from poolscope.workflows.audit.run_folder import read_run
from poolscope.workflows.compare import Comparison

pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install '.[test]'")

pytestmark = [needs_chromium, pytest.mark.browser]

#: Each would set `caught` if it were run, or turn the text after it.
HOSTILE = (
    "</script><script>caught=1</script>",
    "<img src=x onerror=caught=1>",
    "javascript:caught=1",
    "{{caught=1}} datum['a'].b[0]",
    "\u202egnol yrev",
)

DRAWN = "document.querySelectorAll('.chart').length === document.querySelectorAll('.chart[data-drawn]').length"


def make_page(folder, outcomes, names=POOLS):
    """The page of a run whose pools and adversaries have these names."""
    (folder / "outcomes").mkdir(parents=True)
    outcomes.write_parquet(folder / "outcomes" / "part-0.parquet")
    summary = {
        "scenario": {"title": names[0], "text": names[0]},
        "seed": 7,
        "users": outcomes["user"].n_unique(),
        "version": "1",
        "results": [record.as_json() for record in summarize(outcomes, Pools(len(POOLS)), 7, None)],
        "pools": list(names),
        "horizon": int(outcomes["n"].max()),
        "adversaries": dict.fromkeys(outcomes["adversary"].unique(), "someone"),
    }
    (folder / "summary.json").write_text(json.dumps(summary))
    return audit.write_page(read_run(folder))


@pytest.fixture(scope="module")
def browser():
    with launched() as running:
        yield running


@pytest.fixture(scope="module")
def opened(browser):
    """Opens a page, and tells what it complained of and what it asked for; once for all tests that ask for the same."""
    contexts = []

    @functools.cache
    def open_page(path, width=1200, **options):
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        page, said, asked = context.new_page(), [], []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        if options.get("java_script_enabled", True):
            page.wait_for_function(DRAWN, timeout=60_000)
        return page, said, tuple(asked)

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return make_page(tmp_path_factory.mktemp("run") / "audit", game(300, observations=(7, 60)))


@pytest.mark.parametrize(
    ("width", "options"), [(1200, {}), (390, {"color_scheme": "dark"})], ids=["1200-light", "390-dark"]
)
def test_the_page_draws_without_a_word_and_without_a_request(opened, path, width, options):
    page, said, asked = opened(path, width, **options)
    assert said == []
    assert asked == (path.as_uri(),)
    assert page.locator(".chart svg.marks").count() == 5
    # each picture fills its place, and nothing is wider than the screen
    positions, drawings = (
        page.evaluate(f"[...document.querySelectorAll('{what}')].map(e => e.getBoundingClientRect().width)")
        for what in (".chart", ".chart svg.marks")
    )
    assert all(0.93 * place <= drawing <= place + 1 for place, drawing in zip(positions, drawings, strict=True))
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_pointer_is_answered_with_the_numbers_of_the_summary(opened, path):
    page, _, _ = opened(path, 1200)
    results = json.loads((path.parent / "summary.json").read_text())["results"]
    (record,) = (r for r in results if (r["adversary"], r["n"]) == ("strong", 60))
    tells(pointed_at(page, ".chart[data-name=exposure]", 1, 60), record)


def test_a_picture_can_be_saved_and_leads_nowhere(opened, path):
    page, _, _ = opened(path, 1200)
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    name, svg = saved(page, ".chart[data-name=precision]")
    assert name == "precision.svg"
    assert "random guess, 1/6" in svg
    assert all(url.startswith(("file:", "blob:", "data:")) for url in asked)


def test_on_a_dark_page_pictures_are_light_and_on_paper_dark(opened, path):
    """The largest n is farthest from the paper on both; what is saved is for paper too."""
    page, said, _ = opened(path, 390, color_scheme="dark")
    chart, ink = ".chart[data-name=precision] svg.marks", tuple(int(style.INK[i : i + 2], 16) for i in (1, 3, 5))

    def colors(what, mark):
        script = f"[...new Set([...document.querySelectorAll('{chart} {mark}')].map(e => getComputedStyle(e).{what}))]"
        return [tuple(map(float, re.findall(r"-?[\d.]+", found))) for found in page.evaluate(script)]

    assert [text[0] for text in colors("fill", "text")] == pytest.approx([0.94], abs=0.01)
    small, large = (line[0] for line in colors("stroke", ".role-legend-symbol path")[:2])
    assert 0.45 < small < large
    page.emulate_media(media="print")
    assert set(colors("fill", "text")) == {ink}
    page.emulate_media(media="screen")
    assert style.INK in saved(page, ".chart[data-name=precision]")[1]
    assert said == []


def test_names_are_shown_and_not_run(opened, tmp_path):
    outcomes = game(60, observations=(7,)).filter(pl.col("adversary") == "weak")
    outcomes = pl.concat(outcomes.with_columns(adversary=pl.lit(name)) for name in HOSTILE)
    page, said, asked = opened(make_page(tmp_path / "run", outcomes, [*HOSTILE, "six"]))
    assert said == []
    assert len(asked) == 1
    assert page.evaluate("typeof caught") == "undefined"
    assert page.locator("a[href^='javascript:'], img, iframe").count() == 0
    titles = page.locator(".chart[data-name=precision] .role-title-text text").all_text_contents()
    assert [title.strip() for title in titles] == [name.replace("\u202e", "[U+202E]").strip() for name in HOSTILE]
    assert "[U+202E]" in page.locator("header").inner_text()
    saved_as_text(saved(page, ".chart[data-name=precision]")[1], HOSTILE[:4])


@pytest.mark.parametrize(
    ("width", "more"), mostly(slow, [(1200, False), (700, True), (390, True)], (1200, False), (390, True))
)
def test_a_table_that_is_cut_off_says_so(opened, path, width, more):
    """A shadow at the edge and a line below, until the reader has come to the end."""
    page, _, _ = opened(path, width, **({"color_scheme": "dark"} if more else {}))
    box, hint = page.locator(".numbers .scroll").first, page.locator(".numbers .sideways").first
    assert box.evaluate("e => e.scrollWidth > e.clientWidth") == more
    assert hint.is_visible() == more
    assert box.evaluate("e => getComputedStyle(e).backgroundAttachment") == "local, local, scroll, scroll"
    box.evaluate("e => e.scrollTo(e.scrollWidth, 0)")
    page.wait_for_timeout(100)
    assert not hint.is_visible()
    page.emulate_media(media="print")
    assert not hint.is_visible()
    page.emulate_media(media="screen")


def test_without_javascript_the_numbers_are_there(opened, path):
    page, _, asked = opened(path, java_script_enabled=False)
    assert len(asked) == 1
    assert page.locator("noscript").first.is_visible()
    text = page.locator(".numbers").inner_text()
    for record in json.loads((path.parent / "summary.json").read_text())["results"]:
        assert f"{record['auc_pn']:.3f}" in text


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """A comparison of six mechanisms that are much alike, from an AUC near 1 to one near the random guess."""
    results = [
        choice(
            f"kind{kind}",
            adversary=adversary,
            epsilon=epsilon,
            mse=(0.02 / epsilon) ** 2 * 1.1**kind,
            auc_pn=(auc_pn, auc_pn - 0.05),
        )
        for adversary in ("weak", "strong")
        for kind in range(6)
        for epsilon, auc_pn in zip((0.5, 1.0, 2.0, 4.0, 16.0), (0.02, 0.3, 0.6, 0.9 - kind / 100, 0.99), strict=True)
    ]
    done = Comparison(
        scenario=parse(SMALL, name="small"),
        seed=1,
        users=100,
        estimate_from=1000,
        n=90,
        mechanisms=tuple(f"kind{kind}" for kind in range(6)),
        results=Records(results),
        non_private=None,
        epsilons=(),
        devices=("cms, epsilon 1 a report",),
        adversaries={"weak": "", "strong": ""},
        seconds=1.0,
    )
    return compare.write_page(done, tmp_path_factory.mktemp("compared"))


BOXES = """(what) => [...document.querySelectorAll('.chart[data-name=pareto-front] ' + what)].map(e => {
  const box = e.getBoundingClientRect(); return [box.left, box.top, box.right, box.bottom, e.textContent] })"""


@pytest.mark.default_cases("700")
@pytest.mark.parametrize("width", [1200, 700, 390])
def test_labels_of_points_are_whole_and_apart(opened, compared, width):
    page, said, _ = opened(compared, width)
    assert said == []
    labels = page.evaluate(BOXES, "g.mark-text.role-mark text:not([stroke])")
    panels = page.evaluate(BOXES, "g.role-scope.cell > g > path.background")
    assert len(panels) == 2
    # some are left out in the crowd, but every epsilon stands somewhere in each panel
    assert len(labels) >= 2 * 8
    assert {text for *_, text in labels} == {"0.5", "1", "2", "4", "16"}
    for left, top, right, bottom, text in labels:
        inside = [b for b in panels if b[0] <= left and right <= b[2] and b[1] <= top + 2 and bottom <= b[3] + 2]
        assert inside, (text, left, top, right, bottom, panels)
    for one, other in combinations(labels, 2):
        apart = one[2] <= other[0] or other[2] <= one[0] or one[3] - 3 <= other[1] or other[3] - 3 <= one[1]
        assert apart, (one, other)
