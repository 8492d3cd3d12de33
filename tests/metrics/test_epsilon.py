"""Epsilon with its time."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolscope.game.game import Game
from poolscope.mechanisms import GRR, Sending, device_of
from poolscope.metrics import EpsilonInTime, epsilon_in_time
from poolscope.metrics.epsilon import devices_in_words, epsilon_of, in_days, in_words
from poolscope.world.universe import Universe

UNIVERSE = Universe.sized(5, {"a": 2, "b": 2})


def game(*, memory=False, **limits):
    return Game(
        universe=UNIVERSE,
        popularity=[0.2] * 5,
        device=device_of(GRR(universe=5, epsilon=4.0), memory=memory),
        adversaries=[],
        observations=[1],
        sending=Sending(**limits),
    )


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({}, "epsilon 4 a report"),
        ({"reports_per_day": 1}, "epsilon 4 a report, 1 a day: 1,460 a year"),
        ({"reports_per_day": 2.5}, "epsilon 4 a report, 2.5 a day: 3,650 a year"),
        ({"reports_per_day": 1, "sample": 0.1}, "epsilon 4 a report, 0.1 a day on average: 146 a year"),
        ({"reports_per_day": 1, "cap": 90}, "epsilon 4 a report, 1 a day: 360 in all"),
        ({"reports_per_day": 1, "cap": 1000}, "epsilon 4 a report, 1 a day: 1,460 a year, 4,000 in all"),
        ({"cap": 2}, "epsilon 4 a report: 8 in all"),
        ({"reports_per_day": 1, "window": 7}, "epsilon 4 a report, 1 a day: 1,460 a year"),
        ({"reports_per_day": 1, "memory": True}, "epsilon 4 a report, 1 a day"),
    ],
)
def test_in_words(limits, words):
    played = game(**limits)
    assert in_words([epsilon_of(played)], played.sending) == words


def test_several_and_infinite_ones():
    sending = Sending(reports_per_day=1)
    found = [epsilon_in_time(epsilon, sending) for epsilon in (1.0, 4.0, math.inf)]
    assert in_words(found, sending) == "epsilon 1, 4, ∞ a report, 1 a day: 365, 1,460, ∞ a year"


@given(st.floats(1e-3, 50), st.floats(1e-3, 100), st.floats(0.01, 1), st.none() | st.integers(1, 10_000))
def test_sums_are_of_the_reports_that_are_sent(epsilon, rate, share, cap):
    found = epsilon_in_time(epsilon, Sending(reports_per_day=rate, sample=share, cap=cap))
    for days, total in ((1, found.day), (365, found.year)):
        assert total == pytest.approx(epsilon * min(days * rate * share, math.inf if cap is None else cap))
    assert found.ever == (None if cap is None else cap * epsilon)


def test_kept_answers_do_not_add_up():
    sending = Sending(reports_per_day=1, cap=5)
    assert epsilon_in_time(4.0, sending, memory=True) == EpsilonInTime(report=4.0)


def test_devices_in_words():
    assert devices_in_words(game()) == []
    told = devices_in_words(game(memory=True, sample=0.1, cap=1, window=7))
    assert [phrase.split(":")[0] for phrase in told] == [
        "n counts events, of which 10 % are reported",
        "a device sends 1 report and no more",
        "the pseudonym changes after 7 reports",
        "a device keeps one answer for each object, so that epsilons of reports do not add up",
        "who knows of the kept answers links pseudonyms by them",
    ]


def test_counts_in_days():
    assert in_days([7, 180], 2) == "3.5, 90 days"
    assert in_days([1], 1) == "1 day"
    assert in_days([3], 1 / 7) == "21 days"
