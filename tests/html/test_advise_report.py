"""The page of an advice: what it says, what it must not, and pictures that are drawn."""

import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import altair as alt
import pytest
from cases.command_line import SMALL
from cases.synthetic import SEED

from poolscope.cli.advise import print_advice
from poolscope.core.errors import InputError
from poolscope.figures.advise import CAP, CHOSEN, ERROR, exposure_curve, feasible_region
from poolscope.figures.saving import save, specification
from poolscope.html import advise as page
from poolscope.html.advise import answer, command_of, page_of, write_page
from poolscope.metrics import CumulativeEpsilon, Estimate
from poolscope.metrics.intervals import share_of
from poolscope.scenario.scenario import parse
from poolscope.workflows.advise.advise import advise
from poolscope.workflows.advise.text import NO_BETTER, question_text


@pytest.fixture(scope="module")
def advice():
    asked = {
        "horizon": 4,
        "max_error": 0.03,
        "devices": 5000,
        "users": 100,
        "mechanisms": ["grr", "oue"],
        "seed": SEED,
    }
    return advise(parse(SMALL, name="small"), max_exposed=0.2, **asked)


@pytest.fixture(scope="module")
def html(advice):
    return page_of(advice)


def test_it_says_what_was_asked_and_what_is_recommended(advice, html):
    plain = re.sub(r"\s+", " ", unescape(html.replace("\u202f", " ")))
    assert question_text(advice.question, advice.scenario) in plain
    assert list(answer(advice)) == ["Recommended", "Exposure", "Utility", "Limited by"]
    for line in answer(advice).values():
        assert line in plain, line
    for line in (*advice.assumptions, *advice.relaxations):
        assert line in plain, line
    for case in advice.sensitivity:
        assert case.variant.partition("(")[0] in plain
    assert advice.recommended.text.splitlines()[0].replace('"', "&#34;") in html
    for head in (
        "Recommendation",
        "Feasible configurations",
        "Sensitivity analysis",
        "Mitigations",
        "Assumptions",
        "Limitations",
    ):
        assert f"<h2>{head}</h2>" in html
    body = re.sub(r"<script.*?</script>", "", plain.partition("<body>")[2], flags=re.DOTALL)
    assert not re.search(r"\b(un)?safe\b", body)


def test_a_question_without_an_answer_says_so_first(advice, capsys):
    closest = replace(advice, recommendation=replace(advice.recommendation, meets_targets="no"))
    assert '<p class="lead">No configuration meets both targets. Closest: ' in page_of(closest)
    print_advice(closest, Path("advice.html"), 1.0)
    assert re.match(r"No configuration meets both targets\.\nClosest +oue, ε = ", capsys.readouterr().out)


def test_it_needs_no_network(html):
    assert not re.search(r'(?:src|href)="(?:https?:)?//', html)


def test_names_are_escaped(advice):
    named = parse(SMALL.replace('"Small"', '"<b>&"'), name="small")
    assert "<h1>&lt;b&gt;&amp;</h1>" in page_of(replace(advice, scenario=named))


def test_the_command_gives_the_same_advice(advice):
    facts = command_of(advice)
    assert facts.startswith("poolscope advise small --max-exposed 0.2 --threshold 0.9 --horizon 4 --max-error 0.03")
    assert "--mechanism grr,oue --adversary strong --epsilon 0.1:10 --users 100 --tolerance 0.08" in facts


def test_the_map_has_every_trial_and_the_choice(advice, tmp_path):
    chart = feasible_region(advice)
    rows = chart["datasets"]["rows"]
    trials = sum(len(finding.trials) for finding in advice.findings)
    assert len([row for row in rows if row["line"] == CAP]) == trials
    assert len([row for row in rows if row["line"] == ERROR]) == 2
    (chosen,) = (row for row in rows if row["line"] == CHOSEN)
    assert (chosen["mechanism"], chosen["cap"]) == (advice.recommendation.mechanism, advice.recommendation.cap)
    alt.FacetChart.validate(specification(chart))
    alt.LayerChart.validate(specification(exposure_curve(advice)))
    for name, picture in (("map", chart), ("curve", exposure_curve(advice))):
        save(picture, tmp_path / f"{name}.svg")
        assert "<svg" in (tmp_path / f"{name}.svg").read_text()[:200]
    assert len(json.loads(json.dumps(exposure_curve(advice)))["datasets"]["rows"]) == len(advice.curve) + 2


def plain_text(html):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html.replace("\u202f", " ")))


@pytest.mark.parametrize("other", ["grr", "oue"])
def test_alternatives_and_the_reason_are_on_the_page_and_in_the_terminal(advice, other, capsys):
    """A list where another mechanism is better in something, one sentence where none is."""
    own, lowest, *rest = advice.alternatives
    assert {one.mechanism for one in advice.alternatives} == {own.mechanism} == {"oue"}
    advice = replace(advice, alternatives=(own, replace(lowest, mechanism=other), *rest))
    plain = plain_text(page_of(advice))
    print_advice(advice, Path("advice.html"), 1.0)
    shown = " ".join(capsys.readouterr().out.split())
    for text in (plain, shown):
        assert advice.recommendation.reason in text
        assert (NO_BETTER in text) == (other == "oue")
    listed = plain.partition("Alternatives ")[2].partition("Verification with held-out users")[0]
    for one in advice.alternatives[1:]:
        assert (one.criterion in listed) == (f"{one.criterion} {one.mechanism}" in shown) == (other == "grr")


@pytest.mark.parametrize(
    ("exposed", "users", "meets", "value", "heading"),
    [
        (0, 12, "undecided", "≤ 26%", "Recommended, but undecided"),
        (0, 2000, "yes", "≤ 0.18%", "Recommended"),
        (100, 1000, "yes", "10%", "Recommended"),
        (300, 1000, "no", "30%", "No configuration meets the targets; closest"),
    ],
)
def test_the_large_share_is_what_users_can_show(advice, exposed, users, meets, value, heading):
    """Of 12 users of whom nobody is exposed, 26% may be: the page does not say 0.0%."""
    share = share_of(exposed, users)
    few = replace(advice.recommendation, meets_targets=meets, users=users, exposed=share, exposed_at_cap=share)
    html = page_of(replace(advice, recommendation=few)).replace("\u202f", " ")
    assert f'<dd class="value">{value}</dd>' in html
    assert f"<h2>{heading}" in html
    assert ("target ≤ 20%, undecided" in html) == (meets == "undecided")
    assert (f">{exposed} of {users:,} users</dd>" in html) == (exposed == 0)


def test_exposure_by_preferred_pool(advice, html, capsys):
    """A share of fewer than 20 users is a count, with no percentage beside it."""
    pools = advice.recommendation.by_pool
    assert "<h2>Exposure by preferred pool</h2>" in html
    one = replace(pools[0], users=19, exposed=share_of(3, 19), precision=share_of(7, 19))
    other = replace(pools[1], users=200, exposed=share_of(30, 200), precision=share_of(90, 200))
    few = replace(advice, recommendation=replace(advice.recommendation, by_pool=(one, other)))
    _, section = page_of(few).split("<h2>Exposure by preferred pool</h2>")
    cells = plain_text(section.partition("</table>")[0]).replace("\u202f", " ")
    assert re.search(rf"{one.pool}\s+19\s+3 of 19\s+7 of 19\s+{other.pool}\s+200\s+15\.0", cells), cells
    print_advice(few, Path("advice.html"), 1.0)
    shown = capsys.readouterr().out
    assert re.search(rf"{one.pool} +19 +3 of 19 +–", shown), shown
    assert re.search(rf"{other.pool} +200 +15\.0% +10\.4–20\.7%", shown), shown


def test_one_mechanism_is_not_many(advice, html):
    assert "2 mechanisms, ε" in plain_text(html)
    own = tuple(one for one in advice.findings if one.mechanism == advice.recommendation.mechanism)
    assert "1 mechanism, ε" in plain_text(page_of(replace(advice, findings=own)))


def test_a_mechanism_that_the_error_refuses_has_a_row_and_no_picture(advice):
    refused = replace(
        advice.findings[0], mechanism="she", feasible="no", epsilon_min=None, epsilon_max=None, at_epsilon_min=None
    )
    both = replace(advice, findings=(*advice.findings, replace(refused, trials=(), rmse_at_epsilon_max=None)))
    assert "she" in plain_text(page_of(both))
    assert {row["mechanism"] for row in feasible_region(both)["datasets"]["rows"]} == {"grr", "oue"}


def test_without_an_error_nothing_bounds_epsilon_from_below(advice):
    open_ended = replace(
        advice,
        question=replace(advice.question, max_error=None, devices=None),
        recommendation=replace(advice.recommendation, shuffle_epsilon=None, shuffle_epsilon_total=None),
        findings=tuple(replace(f, epsilon_min=None, at_epsilon_min=None) for f in advice.findings),
    )
    assert "nothing bounds ε from below" in page_of(open_ended)


def test_the_central_epsilon_of_shuffled_reports_is_there_for_a_round_and_for_all(advice):
    assert "central ε =" not in page_of(replaced(advice, shuffle_epsilon=None, shuffle_epsilon_total=None))
    facts = replaced(advice, shuffle_epsilon=0.125, shuffle_epsilon_total=0.75)
    assert "central ε = 0.125 at δ = 1e-06, and 0.75 for all reports up to the cap." in plain(page_of(facts))
    kept = replaced(advice, shuffle_epsilon=0.125, shuffle_epsilon_total=None)
    assert "central ε = 0.125 at δ = 1e-06. The other numbers" in plain(page_of(kept))


def replaced(advice, **fields):
    return replace(advice, recommendation=replace(advice.recommendation, **fields))


def plain(html):
    return re.sub(r"\s+", " ", html.replace("\u202f", " ").replace("\u00a0", " "))


def test_the_longitudinal_epsilon_of_memoized_responses_is_shown(advice, capsys):
    spent = CumulativeEpsilon(report=1.0, response=2.0, total=24.0)
    kept = replace(advice, recommendation=replace(advice.recommendation, cumulative_epsilon=spent))
    facts = f"{kept.recommendation.mechanism}, ε = 1 per report: 2 per memoized response, 24 in total"
    plain = re.sub(r"\s+", " ", page_of(kept).replace("\u202f", " "))
    assert facts in plain
    assert "Each memoized response has ε = 2; up to the cap they compose to ε = 24." in plain
    print_advice(kept, Path("advice.html"), 1.0)
    assert facts in " ".join(capsys.readouterr().out.split())


def test_a_disk_that_is_full_is_told(advice, tmp_path, monkeypatch):
    def full(path, text):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(page, "write_text", full)
    with pytest.raises(InputError, match=r"advice\.html: cannot write: No space left"):
        write_page(advice, tmp_path)


def test_a_note_names_options_as_the_command_line_does(advice):
    noted = replace(advice, notes=("Nothing bounds epsilon from below: give `max_error` and `max_users`.",))
    assert "give --max-error and --max-users." in page_of(noted)


@pytest.mark.parametrize(("count", "words"), [(1, "1 mechanism"), (2, "2 mechanisms")])
def test_one_mechanism_is_singular(advice, count, words):
    assert f"<li>{words}, ε" in page_of(replace(advice, findings=advice.findings[:count]))


@pytest.mark.parametrize(
    ("share", "text"), [(0.0055, "0.55"), (0.046, "4.6"), (0.974, "97"), (0.9961, "99.6"), (1.0, "100")]
)
def test_the_card_and_the_answer_round_alike(advice, share, text):
    exposed = Estimate(share, share, share)
    rounded = replace(advice, recommendation=replace(advice.recommendation, exposed=exposed))
    assert f'<dd class="value">{text}%</dd>' in page_of(rounded)
    assert answer(rounded)["Exposure"].startswith(f"{text}% of users")
