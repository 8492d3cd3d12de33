"""The numbers to remember: percentages of enough users, counts of few."""

import re

import polars as pl
import pytest
from cases.engines import scenario_text
from cases.records import record

from poolscope.explore import view
from poolscope.explore.answers import Sample
from poolscope.explore.streams import Stoppable
from poolscope.html import attack as attack_page
from poolscope.html.compare import summary_text
from poolscope.html.tables import TOO_FEW_USERS, cards
from poolscope.html.workflows.audit import audit
from poolscope.scenario.scenario import parse
from poolscope.workflows.attack.attack import attack
from poolscope.workflows.compare import compare
from poolscope.workflows.obfuscate import obfuscate

PERCENTAGE = re.compile(r"\d\s?%")


def test_enough_users_have_percentages():
    shares = {"precision": (0.31, 0.2), "precision_top10": (0.9, 0.8), "exposed": (0.0051, 0.004)}
    found = list(cards(record(users=1000, exposed_at=0.95, **shares)))
    assert [card.value for card in found] == ["31%", "90%", "0.5%"]
    assert found[2].label == "of users exposed (confidence ≥ 95% at least once)"
    assert all(card.note.endswith("%") for card in found)


@pytest.mark.parametrize(
    ("users", "counts"),
    [
        (19, (True, True, True)),
        (20, (False, True, False)),
        (194, (False, True, False)),
        (200, (False, False, False)),
    ],
)
def test_fewer_than_twenty_are_counted(users, counts):
    """Of 194 users, the most confident 10% are 19."""
    found = list(cards(record(users=users, precision=(0.5, 0.3), precision_top10=(1.0, 0.8))))
    assert tuple(" of " in card.value for card in found) == counts
    assert tuple(card.note == TOO_FEW_USERS for card in found) == counts
    top = round(users / 10)
    assert found[1].value == (f"{top} of {top}" if counts[1] else "100%")


def test_an_explorer_with_eight_users_gives_counts():
    sample = Sample(parse(scenario_text(), name="x").game(1), 10, 1, Stoppable())
    sample.grow(8)
    found = view.answer(sample.answer())
    for tile in found["tiles"][:3]:
        assert re.fullmatch(r"\d of (8|1)", tile["value"]), tile
        assert tile["note"] == TOO_FEW_USERS
    assert re.search(r"correct for \d of 8 users", found["words"])
    said = found["words"].replace("random: 33%", "").replace("random (33%)", "")
    assert not PERCENTAGE.search(said)
    cells = view.compared(sample.answer())["cells"][1:4]
    assert all(re.fullmatch(r"\d of (8|1)", value) for value, _ in cells)


def test_a_report_of_eight_users_gives_counts(tmp_path):
    audit(parse(scenario_text(users=8), name="x"), tmp_path / "run", seed=1)
    html = (tmp_path / "run" / "report.html").read_text("utf-8")
    values = re.findall(r'<dd class="value">([^<]*)</dd>', html)
    assert all(re.fullmatch(r"\d of (8|1)", value) for value in values[:3])
    assert html.count(TOO_FEW_USERS) == 3
    assert re.search(r'class="lead">[^<]*correct for \d of 8 users', html)


def test_a_comparison_of_eight_users_gives_counts():
    done = compare(parse(scenario_text(users=8), name="x"), ["grr"], [2.0, 4.0], estimate_from=100, threshold=0.6)
    words = summary_text(done)
    assert re.search(r"is correct for \d of 8 users with .* and for \d of 8 users with", words)
    assert re.search(r"at least 60% confident about \d of 8 users with", words)


def test_an_attack_on_the_reports_of_one_user_gives_a_count(tmp_path):
    pl.DataFrame({"user": ["ann"] * 40, "object": [1] * 40}).write_csv(tmp_path / "traces.csv")
    scenario = parse(scenario_text('kind = "grr"\nepsilon = 6'), name="x")
    obfuscate(tmp_path / "traces.csv", scenario, tmp_path / "reports.csv", 1)
    words = attack_page.summary_text(attack(tmp_path / "reports.csv", scenario, observations=[40]))
    assert "is at least 90% confident about 1 of 1 user." in words
