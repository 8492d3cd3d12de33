"""Advice on devices that keep answers: as many users as there is time for, and told so."""

from pathlib import Path

import numpy as np
import pytest
from cases.report_files import scenario_of
from cases.synthetic import SEED

import poolscope as ps
from poolscope.core.executors import Local
from poolscope.core.progress import SILENT
from poolscope.mechanisms import make
from poolscope.metrics.intervals import Estimate
from poolscope.reports import frequencies
from poolscope.workflows.advise import simulation
from poolscope.workflows.advise.question import MEMOIZED_USERS, Budget
from poolscope.workflows.advise.search import Trial, analytical_errors, largest_epsilon
from poolscope.workflows.rerun import rerun_advice

#: Few objects: the responses of their devices are summed, which takes a thousandth of sampling them.
FEW = """
[universe]
size = 6
pools = { a = 2, b = 1, c = 1 }
[popularity]
kind = "zipf"
exponent = 1.0
"""
STRONG = "[[adversary]]\nname = 'strong'\npopularity = 'true'\n"
ASKED = {"max_exposed": 0.3, "threshold": 0.6, "horizon": 4, "seed": SEED}


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (1e-3, Budget(users=MEMOIZED_USERS, horizon_factor=2, seconds=1e-3)),
        (0.05, Budget(users=MEMOIZED_USERS, seconds=0.05)),
        (0.3, Budget(users=100, seconds=0.3)),
        (60.0, Budget(users=12, seconds=60.0)),
    ],
)
def test_users_are_as_many_as_there_is_time_for(seconds, expected):
    assert simulation._budget(seconds, 33.0) == expected


def advised(tmp_path, **more):
    scenario = scenario_of(tmp_path, mechanism="kind = 'l-grr'\nepsilon = 4\n", adversaries=STRONG, base=FEW)
    return ps.advise(scenario, mechanisms=["l-grr"], **{**ASKED, **more})


def test_few_users_are_told_and_why(tmp_path, monkeypatch):
    """And what so few cannot tell is not played: the same as whoever asks for as many, but for that."""
    monkeypatch.setattr(simulation, "_seconds_per_user", lambda simulator, kind: 60.0)
    advice = advised(tmp_path)
    assert advice.horizon == 4
    assert advice.recommendation.users == advice.question.users == 12
    assert {trial.users for finding in advice.findings for trial in finding.trials} == {12}
    (note,) = (note for note in advice.notes if note.startswith("l-grr: at most 12 users per trial"))
    assert "as each takes 60 s of processor time" in note
    assert "26.5% of all users may be" in note
    assert {case.about for case in advice.sensitivity} == {"all", "behavior"}
    again = advised(tmp_path)
    assert again.recommendation == advice.recommendation
    assert again.findings == advice.findings


def test_quick_users_are_many_and_play_further(tmp_path, monkeypatch):
    monkeypatch.setattr(simulation, "_seconds_per_user", lambda simulator, kind: 1e-4)
    monkeypatch.setattr(simulation, "MEMOIZED_USERS", 13)
    advice = advised(tmp_path, horizon=2)
    assert advice.horizon == 4
    assert advice.recommendation.users == 13
    assert "pools" in {case.about for case in advice.sensitivity}


def test_whoever_asks_for_users_has_them_and_nobody_is_timed(tmp_path, monkeypatch):
    monkeypatch.setattr(simulation, "_seconds_per_user", lambda simulator, kind: pytest.fail("timed"))
    advice = advised(tmp_path, users=15)
    assert advice.recommendation.users == 15
    assert not any("per trial" in note for note in advice.notes)


def test_an_advice_is_given_again_with_as_many_users_on_a_faster_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(simulation, "_seconds_per_user", lambda simulator, kind: 60.125)
    advice = advised(tmp_path, out=tmp_path / "advice", html=False)
    assert advice.budgets == {"l-grr": Budget(users=12, seconds=60.125)}
    monkeypatch.setattr(simulation, "_seconds_per_user", lambda simulator, kind: pytest.fail("timed"))
    again = rerun_advice(Path(tmp_path / "advice"), None, Local(threads=1), SILENT)
    assert again.agrees, again.text


def trial(epsilon, users, exposed):
    share = Estimate(exposed, max(0.0, exposed - 0.3), min(1.0, exposed + 0.3))
    return Trial(epsilon=epsilon, users=users, exposed=share, cap=Estimate(4.0, 0.0, 4.0))


def test_what_no_interval_can_show_is_undecided(tmp_path, monkeypatch):
    """Twelve users of whom nobody is exposed may be 26 %: no further steps are tried, and no target is called met."""
    tried = []

    def played(epsilon):
        tried.append(epsilon)
        return trial(epsilon, 12, 0.0 if epsilon < 3 else 0.5)

    found = largest_epsilon(played, 0.05, 2.0, 0.1, 10.0, 1.5)
    assert tried == [2.0, 3.0]
    assert found.epsilon_max.low == 0.1
    monkeypatch.setattr(simulation, "_seconds_per_user", lambda simulator, kind: 60.0)
    advice = advised(tmp_path, max_exposed=0.05)
    (finding,) = advice.findings
    assert finding.feasible == advice.recommendation.meets_targets == "undecided"
    assert advice.recommendation.exposed.high > 0.05 >= advice.recommendation.exposed.value
    few_enough = [one.epsilon for one in finding.trials if one.exposed.value <= 0.05]
    assert advice.recommendation.epsilon == pytest.approx(max(few_enough), rel=0.01)
    assert "undecided" in advice.sentence
    assert any("12 users cannot decide" in note for note in advice.notes)


def test_a_channel_is_worked_out_once(monkeypatch):
    """Of a mechanism that states nothing but its reports."""
    calls, real = [], frequencies.as_channel
    monkeypatch.setattr(frequencies, "as_channel", lambda mechanism: calls.append(1) or real(mechanism))
    mechanism = make("rappor", 6, {"epsilon": 2.0, "m": 4, "hashes": 2, "cohorts": 2})
    analytical_errors(mechanism, np.ones(6), 1000)
    assert len(calls) <= 1
