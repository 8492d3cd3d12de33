"""Bounds that hold for every adversary, against enumeration, published numbers and attacks."""

import math

import numpy as np
import pytest
from cases.selection import mostly, slow
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import bounds as oracle
from oracle.bounds import exp, mpf
from scipy import special

from poolscope.core.errors import InputError
from poolscope.devices.memoized import device_of
from poolscope.game.columns import NON_PRIVATE
from poolscope.game.game import Game, play
from poolscope.inference.adversary import Adversary
from poolscope.mechanisms import make
from poolscope.metrics.bounds import NUMBERS, mean_success_bound, success_bound
from poolscope.metrics.bounds import _type_2_error as missed
from poolscope.metrics.records import summarize
from poolscope.population.behavior import Behavior
from poolscope.population.popularity import uniform as evenly
from poolscope.population.priors import Beta
from poolscope.population.universe import Universe

ROUNDING = 1e-12

EPSILONS = st.floats(0, 8)
SHARES = st.floats(0.01, 1)


def uniform(k):
    return [mpf(1) / k] * k


# The most that anyone can be right


@pytest.mark.parametrize("counts", [np.arange(1, 40), np.arange(1, 4 * NUMBERS), np.arange(0, 40 * NUMBERS, 40)])
def test_the_bound_of_several_counts_is_that_of_each_or_more(counts):
    """Counts that are too many are grouped: then it is more, and nearly the same."""
    chances = np.full(len(counts), 1 / len(counts))
    each = float(np.mean([success_bound(0.05, int(n), 0.5) for n in counts]))
    found = mean_success_bound(0.05, counts, chances, 0.5)
    if len(counts) <= NUMBERS:
        assert found == pytest.approx(each, rel=ROUNDING)
    else:
        assert each < found < each + 0.02


@pytest.mark.parametrize("epsilon", [0.1, 1, 4])
@pytest.mark.parametrize("n", [1, 2, 5, 8])
@pytest.mark.parametrize("best", [0.5, 0.6, 0.9, 0.999])
def test_randomized_response_about_two_pools_is_right_as_often_as_anyone_can_be(epsilon, n, best):
    grr = oracle.randomized_response(2, epsilon)
    found = oracle.right([grr] * n, [mpf(best), 1 - mpf(best)])
    assert success_bound(epsilon, n, best) == pytest.approx(float(found), rel=ROUNDING)


@pytest.mark.parametrize("epsilon", [0.1, 1, 4])
@pytest.mark.parametrize("k", [2, 3, 6, 50])
def test_randomized_response_about_evenly_preferred_pools_is_the_best_single_report(epsilon, k):
    found = oracle.right([oracle.randomized_response(k, epsilon)], uniform(k))
    assert success_bound(epsilon, 1, 1 / k) == pytest.approx(float(found), rel=ROUNDING)
    assert float(found) == pytest.approx(math.exp(epsilon) / (math.exp(epsilon) + k - 1), rel=ROUNDING)


@pytest.mark.parametrize("epsilon", [0.3, 1, 2.5])
@pytest.mark.parametrize(("k", "n"), [(3, 2), (3, 5), (4, 4), (6, 3)])
def test_randomized_response_about_more_pools_stays_below(epsilon, k, n):
    found = oracle.right([oracle.randomized_response(k, epsilon)] * n, uniform(k))
    assert 1 / k < found < success_bound(epsilon, n, 1 / k)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1])
def test_a_report_about_each_digit_of_the_pool_is_right_as_often_as_anyone_can_be(epsilon):
    four = [oracle.group_response(groups, epsilon) for groups in ([{0, 1}, {2, 3}], [{0, 2}, {1, 3}])]
    assert success_bound(epsilon, 2, 1 / 4) == pytest.approx(float(oracle.right(four, uniform(4))), rel=ROUNDING)


def test_six_pools_and_two_reports():
    """A report about the row and one about the column of a table of pools nearly attain the bound."""
    table = [oracle.group_response(groups, 1) for groups in ([{0, 1}, {2, 3}, {4, 5}], [{0, 2, 4}, {1, 3, 5}])]
    reached, bound = float(oracle.right(table, uniform(6))), success_bound(1, 2, 1 / 6)
    assert 0.421 < reached < bound < 0.426


@pytest.mark.parametrize("epsilon", [0.5, 1, 2])
@pytest.mark.parametrize("n", [2, 3])
def test_the_best_of_all_channels_from_three_pools_is_within_a_twentieth_of_the_bound(epsilon, n):
    reached, bound = float(oracle.max_right_of_three(epsilon, n)), success_bound(epsilon, n, 1 / 3)
    assert reached < bound < 1.05 * reached
    assert reached > success_bound(0.85 * epsilon, n, 1 / 3), "a smaller epsilon has a bound that is exceeded"


@given(st.floats(0, 5), st.lists(st.floats(0, 1), min_size=1, max_size=6), st.floats(0.01, 0.49))
@settings(deadline=None, max_examples=30)
def test_no_reports_that_differ_in_how_often_they_name_a_pool_test_it_better(epsilon, rates, size):
    found = oracle.power(epsilon, rates, size)
    equal = max(oracle.power(epsilon, [rate] * len(rates), size) for rate in sizes_of_tests(len(rates), size))
    assert found <= equal + ROUNDING
    assert min(1 - missed(epsilon, len(rates), size), equal) == pytest.approx(float(equal), rel=1e-10)


def sizes_of_tests(n, size):
    """At which rates a test that is not randomized has this size."""
    j = np.arange(1, n + 1)
    return special.betaincinv(j, n - j + 1, size)


@st.composite
def attacked(draw):
    """A prior, and channels from pool to report, all of them as telling as epsilon lets them be or less."""
    epsilon, k, n = draw(st.floats(0, 5)), draw(st.integers(2, 4)), draw(st.integers(1, 3))
    weights = draw(st.lists(st.integers(1, 50), min_size=k, max_size=k))
    prior = [mpf(w) / sum(weights) for w in weights]
    return epsilon, prior, [draw(channel(epsilon, k)) for _ in range(n)]


@st.composite
def channel(draw, epsilon, k):
    """Reports that are each e^epsilon times as likely for some pools, as the best channels are, or mixed for others."""
    reports = draw(st.integers(2, 4))
    high, low = 1 / (1 + exp(-mpf(epsilon))), 1 / (1 + exp(mpf(epsilon)))
    rows = draw(
        st.lists(
            st.lists(st.floats(0, 1) | st.sampled_from([0, 1]), min_size=reports, max_size=reports),
            min_size=k,
            max_size=k,
        )
    )
    scale = mpf(1) / reports
    # a report in two halves, likely and unlikely, so that rows add up to one whatever was drawn
    return [[scale * side for x in row for side in (mix(high, low, x), mix(low, high, x))] for row in rows]


def mix(one, other, x):
    return mpf(x) * one + (1 - mpf(x)) * other


@given(attacked())
@settings(deadline=None, max_examples=30)
def test_no_channel_of_that_epsilon_is_right_more_often(case):
    epsilon, prior, channels = case
    for distribution in channels:
        for column in zip(*distribution, strict=True):
            assert max(column) <= exp(mpf(epsilon)) * min(column) * (1 + mpf(10) ** -40)
    found = oracle.right(channels, prior)
    assert found <= success_bound(epsilon, len(channels), float(max(prior))) + ROUNDING


def test_a_channel_of_a_larger_epsilon_is_right_more_often():
    """Without this the test above could not fail."""
    channels = [oracle.randomized_response(3, 1.1)]
    assert oracle.right(channels, uniform(3)) > success_bound(1.0, 1, 1 / 3) + 0.01


@pytest.mark.default_cases("0.5-0.05-40", "*-0.5-7", "*-3-12")
@pytest.mark.parametrize(("epsilon", "n"), [(0.05, 40), (0.5, 7), (1, 60), (3, 12)])
@pytest.mark.parametrize("best", mostly(slow, [1 / 2, 1 / 3, 0.3, 1 / 6, 0.001], 1 / 2, 0.3))
def test_the_bound_is_at_most_that_of_any_slope_and_below_the_trade_off_curve_at_best(epsilon, n, best):
    odds = mpf(best) / (1 - mpf(best))
    every = [
        (odds * exp(s) + oracle.composed_delta(epsilon, n, s)) / (1 + odds * exp(s))
        for s in oracle.likelihood_scales(epsilon, n)
    ]
    found = success_bound(epsilon, n, best)
    tested = 1.0 if best == 0.5 else 1 - missed(epsilon, n, best)
    assert found == pytest.approx(min(float(min(every)), tested), rel=ROUNDING)
    assert found <= 1 - oracle.trade_off(epsilon, n, mpf(best)) + ROUNDING


def test_errors_of_ten_thousand_reports_are_not_lost():
    """Evenly preferred, two pools are mistaken where more than half of the answers are lies."""
    n, epsilon = 10_000, 0.02
    flip_probability = special.expit(-epsilon)
    more_than_half = special.betainc(n // 2 + 1, n // 2, flip_probability)
    half = special.betainc(n // 2, n // 2 + 1, flip_probability) - more_than_half
    expected = 1 - more_than_half - half / 2
    assert success_bound(epsilon, n, 0.5) == pytest.approx(expected, rel=1e-11)
    assert success_bound(epsilon, n, math.nextafter(0.5, 0)) == pytest.approx(expected, rel=1e-11)


@given(EPSILONS, EPSILONS, st.integers(0, 60), st.integers(0, 60), SHARES, SHARES)
@settings(deadline=None)
def test_more_of_anything_is_never_less_right(epsilon, other, n, m, best, second):
    few = success_bound(min(epsilon, other), min(n, m), min(best, second))
    many = success_bound(max(epsilon, other), max(n, m), max(best, second))
    assert min(best, second) <= few <= many + ROUNDING
    assert many <= 1


@pytest.mark.default_cases("0-*", "1-*", "180-*", "10000-1")
@pytest.mark.parametrize("best", [0.01, 1 / 6, 0.5, 0.7, 1])
@pytest.mark.parametrize("n", [0, 1, 180, 10_000])
def test_limits(best, n):
    for nothing in (0.0, 5e-324, 1e-300):
        assert success_bound(nothing, n, best) == pytest.approx(best, abs=ROUNDING)
    for everything in (700.0, 1e308, math.inf):
        assert success_bound(everything, n, best) == pytest.approx(1 if n else best, abs=ROUNDING)
    assert success_bound(4, 10_000, best) == 1
    assert success_bound(2, n, 1) == 1


# In a game


def records(pools, *, memoize=False, weights=None, users=8_000):
    """Users who pick from one pool nearly always, of one object each, and an adversary who knows it."""
    universe = Universe.sized(len(pools), dict.fromkeys(pools, 1))
    decided = Behavior(interest=Beta(a=1000), polarization=Beta(a=1000), pools=weights)
    game = Game(
        universe=universe,
        popularity=evenly(universe),
        behavior=decided,
        device=device_of(make("grr", universe.size, {"epsilon": 0.5}), memoize=memoize),
        adversaries=[Adversary.weak(universe, decided)],
        observations=[1, 3, 8],
    )
    return summarize(play(game, users, 1), game, 1)


def above(record):
    """By how many standard errors the precision is above the bound."""
    most = record.success_bound
    return (record.precision.value - most) / math.sqrt(most * (1 - most) / record.users)


@pytest.mark.default_cases("weights1-0.6")
@pytest.mark.parametrize(("weights", "best"), [(None, 0.5), ((2, 3), 0.6)])
def test_the_attack_on_decided_users_of_two_pools_is_as_right_as_anyone_can_be(weights, best):
    for record in records("ab", weights=weights):
        if record.adversary != NON_PRIVATE:
            assert record.success_bound == success_bound(0.5, record.n, best)
            assert abs(above(record)) < 4


def test_the_attack_on_decided_users_of_four_pools_stays_below():
    first, third, eighth = (record for record in records("abcd") if record.adversary != NON_PRIVATE)
    assert abs(above(first)) < 4
    assert above(third) < -4
    assert above(eighth) < -4


def test_nothing_bounds_objects_themselves_and_devices_that_keep_answers():
    assert {record.success_bound for record in records("ab", users=50) if record.adversary == NON_PRIVATE} == {1.0}
    assert {record.success_bound for record in records("ab", memoize=True, users=50)} == {1.0}


# Errors


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: success_bound(-1, 7, 0.5), "epsilon must be at least 0"),
        (lambda: success_bound(math.nan, 7, 0.5), "epsilon must be at least 0"),
        (lambda: success_bound(1, -7, 0.5), "n must be at least 0"),
        (lambda: success_bound(1, 7, 0.0), "prior_success must be a probability above 0"),
        (lambda: success_bound(1, 7, np.nan), "prior_success must be a probability above 0"),
    ],
)
def test_messages(call, words):
    with pytest.raises(InputError, match=words):
        call()
