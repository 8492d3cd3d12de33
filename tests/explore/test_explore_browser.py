"""The explorer in a real browser: it answers what was asked last, tells a user's story to its end, and runs no name."""

import json
import shlex
import subprocess
import sys
import time
from contextlib import ExitStack

import numpy as np
import polars as pl
import pytest
from cases.browsing import launched, needs_chromium, pointed_at, saved, saved_as_text, tells
from cases.collections import DOMAINS, EMOJIS
from cases.collections import scenario as collections
from cases.explorer import HOSTILE, TOKEN, serving, small
from cases.selection import mostly, slow

import poolscope as ps
from poolscope.core.randomness import user_keys
from poolscope.game.game import popularity_draw_of
from poolscope.population.behavior import draw_traces, draw_users

pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install '.[test]'")
pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install '.[test]'")

from poolscope.explore import server
from poolscope.explore.server import explorer_of, split_link
from poolscope.explore.streams import MAX_STREAMS

pytestmark = [needs_chromium, pytest.mark.browser]

DONE = "document.getElementById('answer-box').dataset.done"

OPTIONS = "document.getElementById('options').dataset.done !== undefined"

SEED = 3


@pytest.fixture(scope="module")
def scenario(tmp_path_factory):
    return ps.load_scenario(small(tmp_path_factory.mktemp("explorer")))


@pytest.fixture(scope="module")
def browser():
    with launched() as running:
        yield running


@pytest.fixture(scope="module", autouse=True)
def few():
    """Answers end with few users."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("poolscope.explore.answers.SAMPLE_SIZES", (48, 256))
        yield


@pytest.fixture
def served():
    """Serves explorers until all pages are closed."""
    with ExitStack() as open_ones:
        yield lambda what, seed=SEED: open_ones.enter_context(serving(explorer_of(str(what), seed)))


@pytest.fixture
def opened(browser, served):
    """Opens the explorer; what it complained of and what it asked for is looked at in the end."""
    contexts, said, asked, homes = [], [], [], set()

    def open_page(address, width=1200, **options):
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        homes.add(address.split("#")[0])
        return page

    yield open_page
    for context in contexts:
        assert context.pages[0].evaluate("typeof caught") == "undefined"
        context.close()
    assert said == []
    assert [url for url in asked if not url.startswith((*homes, "data:", "blob:"))] == []


def until(page, expression, seconds=60):
    """Wait without a function made of text, which the page's policy forbids."""
    end = time.monotonic() + seconds
    while not (found := page.evaluate(expression)):
        assert time.monotonic() < end, expression
        time.sleep(0.02)
    return found


def answered(page):
    until(page, DONE)
    return json.loads(page.evaluate("document.getElementById('answer-box').dataset.answer"))


def expected(scenario, n, users):
    game = scenario.game(SEED)
    records = ps.summarize(ps.play(game, users, SEED), game, SEED)
    return [record.as_json() for record in records if record.n == n]


@pytest.mark.parametrize(("width", "scheme"), mostly(slow, [(1200, "light"), (390, "dark")], (390, "dark")))
def test_it_draws_and_fits(scenario, served, opened, width, scheme):
    address = served(scenario.file)
    page = opened(address, width, color_scheme=scheme)
    users = int(until(page, DONE))
    assert answered(page) == expected(scenario, 20, users)
    until(page, "document.querySelectorAll('#pictures .chart[data-drawn] svg.marks').length === 3")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert HOSTILE[0] in page.inner_text("h1")
    until(page, "!document.getElementById('story').hidden")
    page.click("#back")
    bars = page.inner_text("#bars")
    assert HOSTILE[1] in bars
    assert "[U+202E]gnol yrev" in bars


def test_a_page_says_that_it_waits_and_goes_on(scenario, browser, monkeypatch):
    """All streams are taken; when one is free, the answer comes by itself."""
    monkeypatch.setattr(server, "RETRY_AFTER", 0.2)
    explorer = explorer_of(scenario.file, SEED)
    taken = [explorer.streams.open(lambda engine: iter(())) for _ in range(MAX_STREAMS)]
    with serving(explorer) as address, browser.new_context() as context:
        page = context.new_page()
        page.goto(address)
        page.get_by_text(f"the explorer is busy with {MAX_STREAMS} answers").wait_for(timeout=20_000)
        taken[0]._work.close()
        page.get_by_text("After 20 reports").wait_for(timeout=60_000)


@pytest.mark.slow
def test_two_quick_moves_leave_one_answer(scenario, served, opened):
    """The last one; and it is the library's."""
    address = served(scenario.file)
    page = opened(address)
    until(page, DONE)
    box = page.locator('[data-key="mechanism.epsilon"] input[type=number]')
    for epsilon in ("1.5", "6"):
        box.fill(epsilon)
        box.press("Enter")
    until(page, f"!{DONE}")
    users = int(until(page, DONE))
    page_says, text = answered(page), page.evaluate("location.hash")
    assert page_says == expected(scenario.replace({"mechanism.epsilon": 6.0}), 20, users)
    # the address carries it: another page that opens it says the same
    again = opened(address + text)
    until(again, DONE)
    assert answered(again) == page_says


@pytest.mark.slow
def test_a_link_opens_the_state_in_another_explorer(scenario, served, opened):
    """With its threshold, target and options; the secret of the first explorer is not in it."""
    address = served(scenario.file)
    state = {"changes": {"attack.threshold": 0.7, "n": 9}, "target": 0.2, "user": 5}
    page = opened(address + "#" + json.dumps(state))
    until(page, DONE)
    until(page, OPTIONS)
    words = shlex.split(page.inner_text("#link"))
    assert words[:2] == ["poolscope", "explore"]
    assert TOKEN not in words[2]
    what, fragment = split_link(words[2])
    assert what == scenario.file
    again = opened(served(what, 0) + "#" + fragment)
    until(again, DONE)
    until(again, OPTIONS)
    other = scenario.replace({"attack.threshold": 0.7, "attack.observations": [5, 9, 20]})
    found = answered(again)
    assert found == answered(page) == expected(other, 9, int(again.evaluate(DONE)))
    assert again.input_value("#target") == "20"
    assert again.inner_text("#options") == page.inner_text("#options")
    for place in ("#tiles", "#by-pool", "#who", "#exposure"):
        assert "70%" in again.inner_text(place), place
    # another target changes verdicts, and plays nothing
    again.fill("#target", "99")
    again.locator("#target").press("Enter")
    until(again, OPTIONS)
    until(again, "!document.querySelector('#options tbody th[scope=rowgroup]').textContent.startsWith('no')")


@pytest.mark.slow
def test_a_slider_is_moved_by_keys(scenario, served, opened):
    address = served(scenario.file)
    page = opened(address)
    until(page, DONE)
    slider = page.locator('[data-key="n"] input[type=range]')
    slider.focus()
    slider.press("ArrowLeft")
    until(page, f"!{DONE}")
    users = int(until(page, DONE))
    other = scenario.replace({"attack.observations": [5, 19, 20]})
    assert answered(page) == expected(other, 19, users)


@pytest.mark.slow
def test_a_story_ends_in_the_posterior_of_the_library(scenario, served, opened):
    address = served(scenario.file)
    page = opened(address + "#" + json.dumps({"user": 7}))
    until(page, DONE)
    until(page, "!document.getElementById('story').hidden")
    page.locator("#position").focus()
    page.keyboard.press("Home")
    for _ in range(3):
        page.click("#step")
    assert "Event 3 of 20" in page.inner_text("#event")
    page.locator("#position").focus()
    page.keyboard.press("End")
    until(page, "document.getElementById('step').disabled")
    shown = json.loads(page.evaluate("document.getElementById('story').dataset.posterior"))
    adversary = page.input_value("#adversary")
    game, keys = scenario.game(SEED), user_keys(SEED, pl.Series([7]).to_numpy())
    users = draw_users(game.universe, game.behavior, keys)
    traces = draw_traces(game.universe, game.popularity, users, 20)
    reports = game.policy.select_events(traces, keys).reports(game.device, keys)
    believing = next(one for one in game.adversaries if one.name == adversary)
    believing = believing.with_estimate(int(popularity_draw_of(np.array([7]), game.estimates)[0]))
    assert shown == pytest.approx(ps.posterior(game.device, reports, believing)[-1].tolist(), abs=1e-12)


def test_the_users_of_a_file_sort_and_filter(served, opened, tmp_path):
    path = tmp_path / "posteriors.csv"
    lines = [
        f'"{name}",weak,{n},a,{sure + n / 1000}' for name, sure in ((HOSTILE[0], 0.5), ("ann", 0.9)) for n in (5, 20)
    ]
    path.write_text("\n".join(["user,adversary,n,guess,confidence", *lines]) + "\n", encoding="utf-8")
    address = served(path, 0)
    page = opened(address)
    until(page, "document.querySelectorAll('#people-rows tr').length === 2")
    assert page.inner_text("#people-rows tr:first-child td:first-child") == "ann"
    page.click("#people-head th:nth-child(5) button")
    assert page.inner_text("#people-rows tr:first-child td:first-child") == HOSTILE[0]
    page.fill("#people-filter", "ann")
    assert page.locator("#people-rows tr").count() == 1
    page.click("#people-rows button")
    until(page, "document.querySelector('#growth-chart[data-drawn] svg') !== null")
    assert "contains no reports" in page.inner_text("#growth-note")


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (390, "dark")])
def test_collections_stand_side_by_side_with_a_joint_curve(served, opened, tmp_path, width, scheme):
    named = [{**EMOJIS, "name": HOSTILE[1]}, DOMAINS]
    (tmp_path / "two.toml").write_text(collections(*named).text, encoding="utf-8")
    page = opened(served(tmp_path / "two.toml"), width, color_scheme=scheme)
    before = {(one["collection"], one["adversary"]): one for one in answered(page)}
    until(page, "document.querySelectorAll('#pictures .chart[data-drawn] svg.marks').length === 3")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    cards = page.query_selector_all(".card")
    assert [card.query_selector("h3").inner_text() for card in cards] == [HOSTILE[1], "domains"]
    places = [card.bounding_box() for card in cards]
    assert (places[0]["y"] == places[1]["y"]) == (width > 860), "side by side where there is room"
    for hidden in ("#alternatives", "#by-pool", "#precision", "#map"):
        assert not page.is_visible(hidden)
    # the joint line and one for each collection, with their names as text
    legend = page.text_content("#exposure")
    assert all(name in legend for name in ("joint", "domains"))
    until(page, "!document.getElementById('story').hidden")
    assert "In domains, the user prefers" in page.inner_text("#who")
    # a control of one collection changes that one and the joint results, and not the other
    exact = page.query_selector('[data-key="collection[1].mechanism.epsilon"] input[type="number"]')
    exact.fill("0.2")
    exact.press("Enter")
    until(page, f"!({DONE})")
    after = {(one["collection"], one["adversary"]): one for one in answered(page)}
    assert after[HOSTILE[1], "strong"] == before[HOSTILE[1], "strong"]
    assert after["domains", "strong"]["auc_pn"] < before["domains", "strong"]["auc_pn"]
    assert after["joint", "strong"]["auc_pn"] < before["joint", "strong"]["auc_pn"]
    assert "epsilon%22%3A0.2" in page.url
    # another scenario of a single collection brings its own controls back
    page.evaluate("document.getElementById('settings').open = true")
    page.select_option("#c-scenario", "chrome-topics")
    until(page, "document.getElementById('collections').hidden")
    assert page.is_visible('aside [data-key="mechanism.epsilon"]')


def set_epsilon(page, epsilon):
    box = page.locator('[data-key="mechanism.epsilon"] input[type=number]')
    box.fill(str(epsilon))
    box.press("Enter")


@pytest.mark.slow
def test_the_pointer_is_answered_with_the_numbers_of_the_answer(scenario, served, opened):
    page = opened(served(scenario.file))
    until(page, DONE)
    until(page, "document.querySelector('#exposure[data-drawn]') !== null")
    first = scenario.adversaries[0].name
    (record,) = (record for record in answered(page) if record["adversary"] == first)
    tells(pointed_at(page, "#exposure", 0, 20), record)


@pytest.mark.slow
def test_a_saved_picture_has_names_as_text(scenario, served, opened):
    page = opened(served(scenario.file))
    until(page, DONE)
    until(page, "document.querySelectorAll('.chart[data-drawn] svg.marks').length === 4")
    name, svg = saved(page, "#belief")
    assert name == "belief.svg"
    saved_as_text(svg, [HOSTILE[0], HOSTILE[1], HOSTILE[3]])
    saved_as_text(saved(page, "#exposure")[1], [HOSTILE[0]])


@pytest.mark.slow
def test_four_settings_stand_side_by_side_on_the_same_users(scenario, served, opened):
    """Each row is the library's answer of its setting; a fifth is refused, and one can be taken away."""
    page = opened(served(scenario.file))
    epsilons = (1.0, 2.0, 4.0, 8.0)
    for epsilon in (*epsilons, 5.0):
        until(page, "document.querySelector('[data-key=\"mechanism.epsilon\"]') !== null")
        set_epsilon(page, epsilon)
        page.click("#add")
    assert page.inner_text("#kept") == "At most 4 settings: remove one first."
    users = int(until(page, "document.querySelector('#comparison[data-done]')?.dataset.users"))
    rows = [row.inner_text() for row in page.locator("#comparison-rows tr").all()]
    assert len(rows) == 4
    for epsilon, row in zip(epsilons, rows, strict=True):
        records = expected(scenario.replace({"mechanism.epsilon": epsilon}), 20, users)
        best = max((one for one in records if one["adversary"] != "non-private"), key=lambda one: one["auc_pn"])
        assert row.startswith(f"small: grr, ε = {epsilon:g}")
        assert f"{best['auc_pn']:.3f}" in row
        assert f"{best['auc_pn_low']:.3f}–{best['auc_pn_high']:.3f}" in row
    page.locator("#comparison-rows button").nth(1).click()
    assert page.locator("#comparison-rows tr").count() == 3
    assert "ε = 2" not in page.inner_text("#comparison")


@pytest.mark.slow
def test_the_toml_and_the_command_play_the_same_again(scenario, served, opened, tmp_path):
    page = opened(served(scenario.file), permissions=["clipboard-read", "clipboard-write"])
    until(page, DONE)
    set_epsilon(page, 2.5)
    until(page, f"!{DONE}")
    users = int(until(page, DONE))
    with page.expect_download() as download:
        page.click("#download")
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    assert ps.load_scenario(path).dump() == scenario.replace({"mechanism.epsilon": 2.5}).dump()
    page.click("#copy-command")
    until(page, "document.getElementById('kept').textContent === 'Copied.'")
    words = shlex.split(page.evaluate("navigator.clipboard.readText()"))
    assert words[0] == "poolscope"
    subprocess.run([sys.executable, "-m", *words], cwd=tmp_path, check=True, capture_output=True, timeout=300)
    (summary,) = tmp_path.glob("*/summary.json")
    results = json.loads(summary.read_text("utf-8"))["results"]
    assert [record for record in results if record["n"] == 20] == answered(page)
    assert {record["users"] for record in results} <= {users}
