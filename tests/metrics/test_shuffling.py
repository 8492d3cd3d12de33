"""Central epsilons of shuffled reports, against enumeration, published numbers and attacks."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import bounds as oracle
from oracle.bounds import exp, mpf

from poolscope.core.errors import InputError
from poolscope.mechanisms import make
from poolscope.metrics import convolution
from poolscope.metrics.shuffling import (
    shuffle_epsilon,
    shuffle_epsilon_closed_form,
    shuffle_epsilon_of_mechanism,
)

ROUNDING = 1e-12

#: By how much a bound may be above the epsilon that it bounds, relatively: the lattice has a finite step.
STEP = 1e-3

EPSILONS = st.floats(0, 8)


def largest(one, other, epsilon):
    """The larger divergence of the two laws."""
    return max(oracle.hockey_stick(one, other, mpf(epsilon)), oracle.hockey_stick(other, one, mpf(epsilon)))


def assert_least(distributions, found, delta):
    """Found has this delta, and nothing noticeably smaller has."""
    assert largest(*distributions, found) <= delta
    if found > 0:
        assert largest(*distributions, found * (1 - STEP)) > delta


# Any mechanism


def test_published_numbers():
    """The stronger clones of Feldman, McMillan and Talwar; their first analysis has 0.1698, and 3.99 at 1,000."""
    assert shuffle_epsilon(4, 100_000, 1e-6) == pytest.approx(0.1182, abs=1e-4)
    assert shuffle_epsilon(4, 1_000, 1e-6) == pytest.approx(1.853, abs=1e-3)
    assert shuffle_epsilon_closed_form(4, 100_000, 1e-6) == pytest.approx(0.5378, abs=5e-5)


@pytest.mark.default_cases("1e-09-9-0.5", "0.001-30-0.01", "0.001-2-1", "0.1-9-1", "0.1-1-3")
@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1, 3])
@pytest.mark.parametrize("devices", [1, 2, 9, 30])
@pytest.mark.parametrize("delta", [1e-9, 1e-3, 0.1])
def test_shuffled_epsilon_is_the_least_that_has_delta(epsilon, devices, delta):
    distributions = oracle.blanket(oracle.any_blanket(epsilon), devices)
    assert_least(distributions, shuffle_epsilon(epsilon, devices, delta), delta)


@pytest.mark.default_cases("0.01-29-0.5", "0.01-5-1")
@pytest.mark.parametrize("epsilon", [0.5, 1, 2])
@pytest.mark.parametrize("devices", [5, 29])
@pytest.mark.parametrize("delta", [1e-6, 1e-2])
def test_shuffled_randomized_response_is_not_told_apart_better(epsilon, devices, delta):
    found = shuffle_epsilon(epsilon, devices, delta)
    for ones in range(0, devices, 7):
        one, other = (oracle.shuffled_bits(epsilon, devices, ones + more) for more in (0, 1))
        assert largest(one, other, found) <= delta


@st.composite
def shuffled(draw):
    """A mechanism of three objects and a few reports, and the objects of all devices but one."""
    epsilon = draw(st.floats(0.1, 4))
    rows = draw(st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=3, max_size=3))
    high, low = 1 / (1 + exp(-mpf(epsilon))), 1 / (1 + exp(mpf(epsilon)))
    # a report in two halves, likely and unlikely, so that rows add up to one whatever was drawn
    halves = [[side for x in row for side in (x * high + (1 - x) * low, x * low + (1 - x) * high)] for row in rows]
    mechanism = [[mpf(p) / 3 for p in row] for row in halves]
    return epsilon, mechanism, draw(st.lists(st.sampled_from([0, 1, 2]), min_size=0, max_size=4))


@pytest.mark.slow
@given(shuffled(), st.sampled_from([1e-6, 1e-3, 0.03]))
@settings(deadline=None, max_examples=40)
def test_no_mechanism_of_that_epsilon_is_told_apart_better(case, delta):
    epsilon, mechanism, others = case
    rest = [mechanism[x] for x in others]
    one, other = (oracle.histograms([mechanism[x], *rest]) for x in (0, 1))
    assert largest(one, other, shuffle_epsilon(epsilon, len(others) + 1, delta)) <= delta


def test_a_mechanism_of_a_larger_epsilon_is_told_apart_better():
    """Without this the test above could not fail."""
    mechanism = oracle.randomized_response(3, 2.2)
    one, other = (oracle.histograms([mechanism[x], mechanism[2], mechanism[2]]) for x in (0, 1))
    assert largest(one, other, shuffle_epsilon(2, 3, 1e-3)) > 1e-3


# One mechanism

#: kind, universe, epsilon, further parameters.
PURE = (
    ("grr", 3, 1.0, {}),
    ("grr", 30, 3.0, {}),
    ("oue", 4, 1.0, {}),
    ("sue", 4, 2.0, {}),
    ("ss", 7, 1.0, {"k": 2}),
    ("olh", 9, 1.0, {"g": 3}),
    ("hcms", 9, 1.0, {"m": 16, "hashes": 8}),
    ("cms", 9, 2.0, {"m": 16, "hashes": 8}),
    ("hr", 9, 0.8, {}),
    ("hr", 9, 2.0, {}),
    ("the", 5, 2.0, {}),
    ("pi-rappor", 9, 1.0, {"prime": 13}),
    ("loloha", 9, 1.0, {"g": 3}),
)


def kinds(mechanism):
    """Reports by which of two objects they support, as the mechanism's definition has it."""
    e, p, q = 1 / mpf(mechanism.likelihood_offset), mpf(mechanism.p_star), mpf(mechanism.support_prob_no_collision)
    one = (p - q) / (e - 1)
    return [(e * one, one, one), (one, e * one, one), (p - e * one,) * 2 + (p / e - one,), (1 - p - one,) * 3]


@pytest.mark.default_cases("grr-30-*", "hcms-*", "the-*")
@pytest.mark.parametrize(("kind", "universe", "epsilon", "more"), PURE)
def test_the_bound_of_a_mechanism_is_that_of_its_blanket(kind, universe, epsilon, more):
    mechanism = make(kind, universe, {"epsilon": epsilon, **more})
    for devices, delta in ((1, 0.03), (6, 1e-4)):
        distributions = oracle.blanket(kinds(mechanism), devices)
        assert [float(sum(distribution.values())) for distribution in distributions] == pytest.approx([1, 1])
        found = shuffle_epsilon_of_mechanism(mechanism, devices, delta)
        assert_least(distributions, found, delta)
        assert found <= shuffle_epsilon(epsilon, devices, delta) * (1 + STEP)


@pytest.mark.default_cases("0.01-3", "1e-06-3")
@pytest.mark.parametrize("objects", [3, 4])
@pytest.mark.parametrize("delta", [1e-6, 1e-2])
def test_shuffled_responses_about_more_objects_are_told_apart_nearly_as_well_and_not_better(objects, delta):
    rows, devices = oracle.randomized_response(objects, 1.5), 7
    found = shuffle_epsilon_of_mechanism(make("grr", objects, {"epsilon": 1.5}), devices, delta)
    for others in ([2] * 6, [0] * 6, [0, 0, 0, 1, 1, 2]):
        rest = [rows[x] for x in others]
        one, other = (oracle.histograms([rows[x], *rest]) for x in (0, 1))
        assert largest(one, other, found) <= delta
    one, other = (oracle.histograms([rows[x], *[rows[2]] * 6]) for x in (0, 1))
    assert largest(one, other, 0.85 * found) > delta, "where all others hold a third object"


@pytest.mark.parametrize(("kind", "universe", "epsilon", "more"), PURE)
def test_what_a_report_supports_bounds_every_pair_of_objects(kind, universe, epsilon, more):
    """Reports are drawn: no pair of objects supports each other less often than the mechanism says."""
    mechanism, count = make(kind, universe, {"epsilon": epsilon, **more}), 4000
    reports = mechanism.obfuscate(np.zeros(count, dtype=np.int64), np.random.default_rng(1))
    shares = mechanism.support(reports)[:, 1:].mean(axis=0)
    least = mechanism.support_prob_no_collision
    assert shares.min() > least - 4.5 * math.sqrt(least * (1 - least) / count)


def test_a_mechanism_that_is_not_pure_has_the_bound_of_its_epsilon():
    she = make("she", 5, {"epsilon": 2.0})
    assert shuffle_epsilon_of_mechanism(she, 100, 1e-4) == shuffle_epsilon(2.0, 100, 1e-4)


# Rounds


@pytest.mark.default_cases("1e-06-1-6")
@pytest.mark.parametrize(("epsilon", "devices"), [(0.5, 4), (1, 6), (3, 3)])
@pytest.mark.parametrize("delta", [1e-6, 1e-2])
def test_two_rounds_are_those_of_the_product(epsilon, devices, delta):
    one, other = map(oracle.twice, oracle.blanket(oracle.any_blanket(epsilon), devices))
    found = shuffle_epsilon(epsilon, devices, delta, rounds=2)
    assert largest(one, other, found) <= delta
    assert largest(one, other, 0.97 * found) > delta


@pytest.mark.slow
def test_rounds_add_up_as_their_square_root_at_first():
    one, nine = (shuffle_epsilon(1, 2000, 1e-6, rounds=rounds) for rounds in (1, 9))
    assert 2.9 * one < nine < 3.3 * one


def test_rounds_never_add_up_to_more_than_the_sum():
    assert shuffle_epsilon(1, 1, 1e-6, rounds=3) == pytest.approx(3, rel=1e-4)
    assert shuffle_epsilon(1000.0, 10, 1e-6, rounds=3) == 3000


# Numbers


@given(EPSILONS, EPSILONS, st.integers(1, 10**6), st.integers(1, 10**6), st.floats(1e-12, 0.5), st.floats(1e-12, 0.5))
@settings(deadline=None, max_examples=5)
def test_more_devices_and_more_delta_hide_better(epsilon, other, devices, more, delta, larger):
    for bound in (shuffle_epsilon, shuffle_epsilon_closed_form):
        hidden = bound(min(epsilon, other), max(devices, more), max(delta, larger))
        shown = bound(max(epsilon, other), min(devices, more), min(delta, larger))
        assert 0 <= hidden <= shown * (1 + STEP) + ROUNDING
        assert shown <= max(epsilon, other)


@given(EPSILONS, st.integers(1, 10**7), st.floats(1e-12, 0.5))
@settings(deadline=None, max_examples=8)
def test_the_closed_form_is_never_below(epsilon, devices, delta):
    closed = shuffle_epsilon_closed_form(epsilon, devices, delta)
    assert shuffle_epsilon(epsilon, devices, delta) <= closed + ROUNDING


@pytest.mark.slow
def test_many_devices_are_those_of_the_normal_limit():
    """At 10^9 devices the sum is normal to four digits: delta is that of a Gaussian mechanism."""
    epsilon, devices, delta = 1.0, 10**9, 1e-12
    found = shuffle_epsilon(epsilon, devices, delta)
    # variance of a report's likelihood ratio against the blanket: twice (e - 1)^2 / (e + 1)
    sigma = mpf(math.e - 1) * oracle.mp.sqrt(mpf(2) / (math.e + 1) / devices)
    normal = oracle.mp.ncdf(-found / sigma + sigma / 2) - exp(found) * oracle.mp.ncdf(-found / sigma - sigma / 2)
    assert float(normal) == pytest.approx(delta, rel=0.02)


@pytest.mark.parametrize("bound", [shuffle_epsilon, shuffle_epsilon_closed_form])
def test_limits_of_shuffling(bound):
    assert bound(0, 1000, 1e-6) == 0
    assert bound(math.inf, 1000, 1e-6) == math.inf
    assert bound(4, 1, 1e-6) == pytest.approx(4, abs=1e-4)
    assert bound(20, 10**9, 1e-12) <= 20
    assert bound(1, 10**8, 1e-6) < 3e-3


def test_large_epsilons_have_their_digits():
    """Of few devices that never hide each other, delta is that of one device."""
    for epsilon in (40.0, 300.0, 700.0):
        assert shuffle_epsilon(epsilon, 100, 0.5) == pytest.approx(epsilon - math.log(2), abs=1e-3)


def test_a_coarse_lattice_is_above_a_fine_one(monkeypatch):
    fine = shuffle_epsilon(1, 10_000, 1e-6)
    monkeypatch.setattr(convolution, "FINEST", 2)
    coarse = shuffle_epsilon(1, 10_000, 1e-6)
    assert fine * 1.0005 < coarse < fine * 1.05


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: shuffle_epsilon(-1, 10, 0.1), "epsilon must be at least 0"),
        (lambda: shuffle_epsilon(1, 0, 0.1), "devices must be at least 1"),
        (lambda: shuffle_epsilon(1, 10, 0.0), "delta must be above 0 and below 1"),
        (lambda: shuffle_epsilon(1, 10, 0.1, rounds=0), "rounds must be at least 1"),
        (lambda: shuffle_epsilon_of_mechanism(make("grr", 4, {"epsilon": 1.0}), 0, 0.1), "devices must be at least 1"),
        (lambda: shuffle_epsilon_closed_form(1, 10, 1.0), "delta must be above 0 and below 1"),
    ],
)
def test_messages(call, words):
    with pytest.raises(InputError, match=words):
        call()
