"""The search for the largest epsilon, on laws of exposure that are known."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from poolscope.metrics.intervals import TAIL, Estimate, share_of
from poolscope.workflows.advise.search import (
    CLOSE_RATIO,
    MAX_TRIALS,
    Trial,
    devices_needed,
    largest_epsilon,
    min_epsilon_for_error,
    result_of,
    rounded_down,
    rounded_up,
)
from poolscope.workflows.advise.simulation import Exposures

LOW, HIGH = 0.1, 10.0


def distribution(middle, steepness):
    """A share of users that grows with epsilon."""
    return lambda epsilon: 1 / (1 + (middle / epsilon) ** steepness)


def known(share):
    """Trials of so many users that hardly any doubt is left."""
    return lambda epsilon: Trial(
        epsilon=epsilon,
        users=10**6,
        exposed=share_of(round(10**6 * share(epsilon)), 10**6),
        cap=Estimate(1.0, 1.0, 1.0),
    )


distributions = st.builds(distribution, st.floats(0.3, 6), st.floats(1.5, 8))
targets = st.floats(0.005, 0.6)
starts = st.floats(LOW, HIGH)


@given(distributions, targets, starts)
@example(distribution(20.0, 3.0), 0.3, 1.0)
def test_the_border_is_found_from_anywhere(share, target, start):
    found = largest_epsilon(known(share), target, start, LOW, HIGH)
    assert len(found.trials) <= MAX_TRIALS
    assert found.monotone
    if share(LOW) > target * 1.01:
        assert found.epsilon_max is None
    elif share(HIGH) < target * 0.99:
        assert found.epsilon_max.value == HIGH
    elif 1.01 * share(LOW) < target < 0.99 * share(HIGH):
        assert found.epsilon_max.low <= found.epsilon_max.value <= found.epsilon_max.high
        assert share(found.epsilon_max.low) <= target
        if len(found.trials) < MAX_TRIALS:
            assert (
                share(found.epsilon_max.value / CLOSE_RATIO) <= target <= share(found.epsilon_max.value * CLOSE_RATIO)
            )


@given(distributions, st.tuples(targets, targets), starts)
def test_who_allows_more_exposure_gets_no_smaller_epsilon(share, both, start):
    """Monotone targets give monotone advice."""
    strict, loose = (largest_epsilon(known(share), target, start, LOW, HIGH).epsilon_max for target in sorted(both))
    if strict is not None:
        assert loose is not None
        assert loose.value >= strict.value * (1 - 1e-9) or loose.high >= strict.low


@given(st.lists(st.integers(1, 40), min_size=1, max_size=60), st.tuples(targets, targets))
def test_who_allows_more_exposure_gets_no_smaller_cap(first, both):
    found = exposures(first)
    strict, loose = (found.cap(target) for target in sorted(both))
    assert all(a <= b for a, b in zip(strict, loose, strict=True))
    for cap, target in zip((strict, loose), sorted(both), strict=True):
        assert cap.low <= cap.value <= cap.high
        assert found.share(int(cap.value)).value <= target
        assert cap.value == 30 or found.share(int(cap.value) + 1).value > target


def exposures(first):
    first = np.array([n if n <= 30 else math.inf for n in first], dtype=float)
    return Exposures(first=first, gamma=np.ones(len(first)), delta=np.ones(len(first)), horizon=30)


def test_the_ends_of_a_cap_are_where_the_interval_reaches_the_target():
    """Of 200 users, one more is exposed by each event; exact ends of binomial shares say how far that is certain."""
    found = exposures(np.arange(1, 201)).cap(0.05)
    hits = np.arange(1, 31)
    low, high = stats.beta.ppf(TAIL, hits, 201 - hits), stats.beta.isf(TAIL, hits + 1, 200 - hits)
    assert found == Estimate(10.0, float((high <= 0.05).sum()), float((low <= 0.05).sum()))
    assert 0 < found.low < found.value < found.high < 30


def test_exposure_that_does_not_grow_is_noticed():
    def share(epsilon):
        return 0.4 if epsilon < 1 else 0.02 if epsilon < 2 else 0.5

    found = largest_epsilon(known(share), 0.05, 0.9, LOW, HIGH)
    assert found.epsilon_max is None, "stepping down from what is missed, all that was tried misses it"
    found = largest_epsilon(known(lambda e: 0.4 if e < 1 else share(e)), 0.05, 1.2, LOW, HIGH)
    assert found.epsilon_max.value == pytest.approx(2, rel=CLOSE_RATIO - 1)
    found = largest_epsilon(known(lambda e: 0.3 * (1.5 - 0.1 * e)), 0.05, 1.0, LOW, HIGH)
    assert not found.monotone


def test_a_fall_is_noticed_across_a_trial_of_few_users():
    cap = Estimate(1.0, 1.0, 1.0)
    trials = [
        Trial(epsilon=epsilon, users=users, exposed=share_of(round(users * share), users), cap=cap)
        for epsilon, users, share in ((1.0, 10**6, 0.4), (2.0, 100, 0.38), (3.0, 10**6, 0.36))
    ]
    assert all(result_of(pair, 0.05, LOW, HIGH).monotone for pair in (trials[:2], trials[1:]))
    assert not result_of(trials, 0.05, LOW, HIGH).monotone


@settings(max_examples=50)
@given(st.floats(0.01, 5), st.tuples(st.floats(0.01, 3), st.floats(0.01, 3)))
def test_who_asks_for_less_error_needs_no_smaller_epsilon(scale, both):
    def error(epsilon):
        return scale / math.expm1(epsilon)

    loose, strict = (min_epsilon_for_error(error, target, LOW, HIGH) for target in sorted(both, reverse=True))
    if strict is not None:
        assert loose is not None
        assert loose <= strict
        assert error(strict) <= min(both) * (1 + 1e-9)
        assert strict == LOW or error(strict * 0.99) > min(both)


def test_devices_are_as_many_as_the_error_takes():
    assert devices_needed(lambda n: 1 / math.sqrt(n), 0.01, 100) == pytest.approx(10_000, rel=1e-3)


@given(st.floats(0.01, 99))
def test_epsilon_is_rounded_to_the_side_that_holds(epsilon):
    assert rounded_down(epsilon) <= epsilon * (1 + 1e-8)
    assert rounded_up(epsilon) >= epsilon * (1 - 1e-8)
    assert rounded_up(epsilon) - rounded_down(epsilon) <= 0.0101 * epsilon
