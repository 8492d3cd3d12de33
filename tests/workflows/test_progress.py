"""What a verb tells while it works."""

import pytest
from cases.engines import scenario_text
from cases.facts import Told

from poolscope.scenario.scenario import parse
from poolscope.workflows.audit.audit import audit
from poolscope.workflows.compare import compare

#: Popularity estimates that users meet.
FEW = "estimates = 2\n"


def test_an_audit_tells_what_it_does(tmp_path):
    facts = Told()
    audit(parse(scenario_text(users=60) + FEW, name="drawn"), tmp_path / "run", progress=facts)
    assert facts.stages == ["Preparing", "started", "Summarizing"]
    assert facts.totals == [60]
    assert sum(facts.ticks) == pytest.approx(60)


def test_a_comparison_counts_the_users_of_all_choices():
    facts = Told()
    compare(parse(scenario_text(users=20) + FEW, name="drawn"), ["grr", "oue"], [1.0, 2.0], progress=facts)
    assert facts.totals == [80]
    assert sum(facts.ticks) == pytest.approx(80)


def test_what_is_inside_counts_and_neither_begins_nor_speaks(tmp_path):
    facts = Told()
    audit(parse(scenario_text(users=20) + FEW, name="drawn"), tmp_path / "run", progress=facts.within())
    assert (facts.stages, facts.totals) == ([], [])
    assert sum(facts.ticks) == pytest.approx(20)
