"""The first section of an advice: what a person who answers for the decision must find, on two printed sides."""

import re
from dataclasses import replace
from html import unescape

import pytest
from cases.browsing import launched, needs_chromium
from cases.command_line import SMALL
from cases.synthetic import SEED

from poolscope.html.advise import command_of, page_of
from poolscope.html.legal import MAX_ALTERNATIVES, NOT_COVERED, VERDICTS, exposed_in_a_sentence, legal_of
from poolscope.metrics.intervals import share_of
from poolscope.scenario.scenario import parse
from poolscope.workflows.advise.advise import advise

TEXT = SMALL.replace('"estimated"\nestimate_from = 1000', '"true"').replace("b = 5", "b = 3")


@pytest.fixture(scope="module")
def advice():
    scenario = parse(TEXT + "[devices]\nreports_per_day = 2\n", name="small")
    asked = {"horizon": 6, "max_error": 0.01, "devices": 20_000, "users": 150, "seed": SEED}
    return advise(scenario, max_exposed=0.2, mechanisms=["grr", "oue"], consider=["sample"], **asked)


def first_section(html):
    """The text of the first section of the page."""
    body = html.partition("<main>")[2]
    section = re.match(r'\s*<section class="legal">(.*?)</section>', body, flags=re.DOTALL)
    assert section, "the summary is the first section"
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", section[1].replace("\u202f", " "))))


def test_it_is_the_first_section_and_has_every_part(advice):
    text = first_section(page_of(advice))
    heads = (
        *("What is collected", "What “exposed” means", "Who the adversary is", "Numbers", "Who is affected most"),
        *("What is not covered", "Alternatives that were not taken", "How to reproduce it"),
    )
    places = [text.index(head) for head in heads]
    assert places == sorted(places)
    assert VERDICTS[advice.recommendation.meets_targets] in text
    assert exposed_in_a_sentence(advice) in text
    assert exposed_in_a_sentence(advice).count(".") == 1, "one sentence"
    assert "(3 days)" in exposed_in_a_sentence(advice)
    for line in NOT_COVERED:
        assert line in text
    assert command_of(advice) in text
    assert "a (5 objects), b (3 objects), c (5 objects)" in text
    assert not re.search(r"\b(un)?safe\b", text)


def test_the_smallest_and_the_most_exposed_pool_are_named(advice):
    pools = tuple(
        replace(one, users=200, exposed=share_of(hits, 200))
        for one, hits in zip(advice.recommendation.by_pool, (4, 1, 60), strict=True)
    )
    shown = replace(advice, recommendation=replace(advice.recommendation, by_pool=pools))
    lines = legal_of(shown)["worst"]
    (smallest,) = (line for line in lines if "the smallest pool" in line)
    (most,) = (line for line in lines if "the most exposed pool" in line)
    assert "the smallest pool, b: 0.5% (95% CI" in smallest
    assert "the most exposed pool, c: 30% (95% CI" in most
    assert any(line.startswith("Users with much interest") for line in lines)


def test_alternatives_have_a_reason_and_refused_ones_too(advice):
    listed = legal_of(advice)["alternatives"]
    others = [option for option in advice.options if not option.recommended]
    assert len(others) == 3
    for (head, text), option in zip(listed, others, strict=False):
        assert head.startswith(f"{option.name}, ε = ")
        assert text.endswith(option.price)
        assert ("Equally good" in text) == option.equally_good
    refused = replace(advice.findings[0], mechanism="she", feasible="no", trials=())
    *_, (name, reason) = legal_of(replace(advice, findings=(*advice.findings, refused)))["alternatives"]
    assert (name, reason) == ("she", "No ε of the range meets the error target of 0.01.")
    many = replace(advice, options=(*advice.options, *[others[0]] * 9))
    assert ("7 more options", "See the table of options in the appendix.") in legal_of(many)["alternatives"]


@needs_chromium
@pytest.mark.browser
def test_it_has_two_printed_sides(advice, tmp_path):
    """With as many alternatives and pools as are ever listed; three times as much text has more, a negative control."""
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install '.[test]'")
    others = [option for option in advice.options if not option.recommended]
    long = replace(others[0], price=" ".join(["Costs: total ε 192 instead of 146."] * 6))
    full = replace(advice, options=(advice.options[0], *[long] * (MAX_ALTERNATIVES + 3)))
    page = tmp_path / "advice.html"
    page.write_text(page_of(full))
    with launched() as browser:
        tab = browser.new_page()
        tab.goto(page.as_uri())
        tab.evaluate("document.querySelectorAll('main > section:not(.legal)').forEach(one => one.remove())")
        assert sides(tab) == 2
        tab.evaluate(
            "document.querySelector('.legal').innerHTML += document.querySelector('.legal').innerHTML.repeat(2)"
        )
        assert sides(tab) > 2


def sides(tab):
    return len(re.findall(rb"/Type\s*/Page\b", tab.pdf(prefer_css_page_size=True)))
