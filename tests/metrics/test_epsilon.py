"""Epsilon with its time."""

import math
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolscope.game.game import Game
from poolscope.mechanisms import GRR, LGRR, LOLOHA, LOSUE, DBitFlip, Rappor, ReportingPolicy, device_of
from poolscope.metrics import CumulativeEpsilon, cumulative_epsilon, memoized_by
from poolscope.metrics.bounds import (
    composition_bound,
    describe_epsilon,
    describe_epsilons,
    devices_in_words,
    epsilon_of,
    in_days,
)
from poolscope.population.universe import Universe

UNIVERSE = Universe.sized(5, {"a": 2, "b": 2})


def game(*, memoize=False, **limits):
    return Game(
        universe=UNIVERSE,
        popularity=[0.2] * 5,
        device=device_of(GRR(universe=5, epsilon=4.0), memoize=memoize),
        adversaries=[],
        observations=[1],
        policy=ReportingPolicy(**limits),
    )


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({}, "ε = 4 per report"),
        ({"reports_per_day": 1}, "ε = 4 per report, 1 report per day: 1,460 per year"),
        ({"reports_per_day": 2.5}, "ε = 4 per report, 2.5 reports per day: 3,650 per year"),
        (
            {"reports_per_day": 1, "sampling_rate": 0.1},
            "ε = 4 per report, 0.1 reports per day on average: 146 per year",
        ),
        ({"reports_per_day": 1, "cap": 90}, "ε = 4 per report, 1 report per day: 360 in total"),
        ({"reports_per_day": 1, "cap": 1000}, "ε = 4 per report, 1 report per day: 1,460 per year, 4,000 in total"),
        ({"cap": 2}, "ε = 4 per report: 8 in total"),
        ({"reports_per_day": 1, "rotate_after": 7}, "ε = 4 per report, 1 report per day: 1,460 per year"),
        (
            {"reports_per_day": 1, "memoize": True},
            "ε = 4 per report, 1 report per day: 4 per memoized response, 20 in total",
        ),
        ({"cap": 3, "memoize": True}, "ε = 4 per report: 4 per memoized response, 12 in total"),
    ],
)
def test_in_words(limits, words):
    played = game(**limits)
    assert describe_epsilon([epsilon_of(played)], played.policy) == words


def test_several_and_infinite_ones():
    policy = ReportingPolicy(reports_per_day=1)
    found = [cumulative_epsilon(epsilon, policy) for epsilon in (1.0, 4.0, math.inf)]
    assert describe_epsilon(found, policy) == "ε = 1, 4, ∞ per report, 1 report per day: 365, 1,460, ∞ per year"


@given(st.floats(1e-3, 50), st.floats(1e-3, 100), st.floats(0.01, 1), st.none() | st.integers(1, 10_000))
def test_sums_are_of_the_reports_that_are_sent(epsilon, rate, share, cap):
    found = cumulative_epsilon(epsilon, ReportingPolicy(reports_per_day=rate, sampling_rate=share, cap=cap))
    for days, total in ((1, found.day), (365, found.year)):
        assert total == pytest.approx(epsilon * min(days * rate * share, math.inf if cap is None else cap))
    assert found.total == (None if cap is None else cap * epsilon)


@pytest.mark.parametrize(
    ("mechanism", "answer", "answers"),
    [
        (GRR(universe=5, epsilon=4.0), 4.0, 5),
        (LGRR(universe=5, epsilon=1.0, epsilon_perm=3.0), 3.0, 5),
        (LOSUE(universe=5, epsilon=1.0), 2.0, 5),
        (LOLOHA(universe=5, epsilon=1.0, g=2), 2.0, 2),
        (DBitFlip(universe=5, epsilon=1.0, d=2), 1.0, 3),
        (DBitFlip(universe=5, epsilon=1.0, buckets=2, d=2), 1.0, 2),
        (Rappor(universe=5, f=0.5, p=0.25, q=0.75, m=32, hashes=2), 4 * math.log(3), 5),
        (Rappor(universe=5, f=0.0, p=0.25, q=0.75, m=32, hashes=2), math.inf, 5),
    ],
)
def test_memoized_responses_compose_as_long_as_there_are_new_ones(mechanism, answer, answers):
    """The longitudinal epsilon as the papers count it: of an answer, times the answers that a device can send."""
    kept = memoized_by(device_of(mechanism, memoize=True))
    assert kept == (pytest.approx(answer), answers)
    for cap, sent in ((None, answers), (1, 1), (100, answers)):
        found = cumulative_epsilon(mechanism.epsilon, ReportingPolicy(reports_per_day=1, cap=cap), memoized=kept)
        assert (found.report, found.day, found.year) == (mechanism.epsilon, None, None)
        assert (found.response, found.total) == (kept.epsilon, kept.epsilon * sent)
    assert memoized_by(device_of(mechanism, memoize=False)) is None


@pytest.mark.parametrize(("buckets", "d"), [(3, 1), (3, 2), (3, 3), (4, 2)])
def test_what_all_memoized_responses_of_dbitflip_reveal(buckets, d):
    """All sequences of different buckets beside all others, all answers, given the positions: d epsilon at most."""
    epsilon = 1.3
    mechanism = DBitFlip(universe=buckets, epsilon=epsilon, d=d)
    positions = np.zeros(-(-buckets // 8), dtype=np.uint8)
    positions[0] = (1 << d) - 1
    answers = np.arange(1 << d, dtype=np.uint8)[:, None]
    distribution = mechanism.log_response_prob({"positions": np.tile(positions, (1 << d, 1)), "bits": answers})
    assert np.exp(distribution).sum(axis=0) == pytest.approx(1)
    most = 0.0
    for one in permutations(range(buckets)):
        # of every answer the largest ratio, as answers to different buckets are drawn by themselves
        most = max(most, sum((distribution[:, a] - distribution[:, b]).max() for a, b in enumerate(one)))
    assert most == pytest.approx(d * epsilon)
    kept = memoized_by(device_of(mechanism))
    assert most <= kept.spent(reports=100) + 1e-12


def test_each_mechanism_that_memoizes_has_a_phrase():
    fresh, kept = CumulativeEpsilon(report=1.0), CumulativeEpsilon(report=1.0, response=2.0, total=60.0)
    both = {"grr": [fresh, CumulativeEpsilon(report=2.0)], "l-grr": [kept], "oue": [fresh]}
    facts = describe_epsilons(both, ReportingPolicy())
    assert facts == ["ε = 1, 2 per report", "l-grr, ε = 1 per report: 2 per memoized response, 60 in total"]
    assert describe_epsilons({"l-grr": [kept]}, ReportingPolicy()) == facts[1:]


def test_a_bound_for_the_reports_that_are_linked():
    assert composition_bound(replace(game(), observations=[3])) == 12
    assert composition_bound(replace(game(memoize=True), observations=[3])) == 12
    assert composition_bound(replace(game(memoize=True), observations=[30])) == 20, "five answers, and no more"
    assert composition_bound(replace(game(memoize=True, cap=2), observations=[30])) == 8


def test_devices_in_words():
    assert devices_in_words(game()) == []
    facts = devices_in_words(game(memoize=True, sampling_rate=0.1, cap=1, rotate_after=7))
    assert [phrase.split(":")[0] for phrase in facts] == [
        "n counts events, of which 10% are reported",
        "a device sends at most 1 report",
        "the pseudonym rotates after 7 reports",
        "a device memoizes its responses",
        "an adversary who knows of the memoization links pseudonyms by the responses",
    ]


def test_counts_in_days():
    assert in_days([7, 180], 2) == "3.5, 90 days"
    assert in_days([1], 1) == "1 day"
    assert in_days([3], 1 / 7) == "21 days"
