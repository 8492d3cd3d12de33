"""Mitigations of an advice: which are planned, and that each keeps the error that was asked for."""

import re

import pytest
from cases.command_line import COIN, SMALL
from cases.synthetic import SEED

from poolscope.cli.advise import print_mechanisms
from poolscope.cli.terminal import Terminal
from poolscope.html.advise import page_of
from poolscope.scenario.scenario import parse
from poolscope.workflows.advise.advise import advise
from poolscope.workflows.advise.variants import mitigation_plans


@pytest.mark.parametrize(("n", "limits"), [(1, ["1 report"]), (4, ["1 report"]), (180, ["60 reports", "30 reports"])])
def test_mitigations_are_planned_once(n, limits):
    labels = [plan.label for plan in mitigation_plans(n)]
    assert labels == [
        *(f"cap of {limit}" for limit in limits),
        "a third of the events",
        *(f"a new pseudonym after {limit}" for limit in limits),
        "memoization",
    ]


def test_mitigations_of_a_coin(capsys):
    """Which have a handful of users, and keep what was asked for: the same error, other devices or another epsilon."""
    coin = parse(COIN, name="coin")
    found = advise(coin, max_exposed=0.2, threshold=0.7, users=30, seed=SEED, mechanisms=["grr"], mitigations=True)
    rows = {entry.mitigation: entry for entry in found.mitigations}
    assert rows["none"].devices == 1
    assert rows["half the epsilon"].devices > 1
    assert rows["half the epsilon"].epsilon == pytest.approx(rows["none"].epsilon / 2, rel=0.01)
    assert rows["cap of 1 report, larger epsilon"].epsilon > rows["none"].epsilon
    assert {entry.mechanism for entry in found.mitigations} == {"grr"}
    print_mechanisms(found, Terminal())
    shown = capsys.readouterr().out.partition("Mitigations at equal RMSE")[2]
    assert re.search(rf"^half the epsilon +{rows['half the epsilon'].epsilon:.3g} +× [\d.]+ ", shown, re.MULTILINE)
    assert "Mitigations" in page_of(found)


@pytest.mark.slow
@pytest.mark.usefixtures("short_chains")
def test_measures_are_played_for_the_same_error():
    small = parse(SMALL + "[devices]\nreports_per_day = 2\n", name="small")
    asked = {"horizon": 6, "mechanisms": ["grr", "oue"], "users": 150, "seed": SEED}
    found = advise(small, max_exposed=0.1, threshold=0.6, **asked, mitigations=True)
    rows = {entry.mitigation: entry for entry in found.mitigations}
    none = rows["none"]
    assert none.devices == 1
    assert rows["cap of 2 reports, more devices"].devices == pytest.approx(3, rel=0.01)
    assert rows["cap of 2 reports, more devices"].exposed.value <= none.exposed.value
    assert rows["cap of 2 reports, larger epsilon"].epsilon > none.epsilon
    assert rows["half the epsilon"].devices > 1
    assert rows["memoization"].users <= 100
    assert {entry.mechanism for entry in found.mitigations} == {"grr", "oue"}
    assert {"a third of the events, larger epsilon", "a new pseudonym after 1 report"} <= set(rows)
