"""Sampled tables and allocations against the sum over all tables: stated errors are those that are made."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from cases.selection import statistical
from cases.synthetic import SEED

from poolscope.core.randomness import user_keys
from poolscope.inference.adversary import Adversary
from poolscope.inference.memoized import response_map_samplers
from poolscope.inference.memoized.attack import exact_scores, user_posterior
from poolscope.inference.memoized.occupancy import normalized
from poolscope.inference.memoized.response_map_samplers import allocated_posterior, tempered_posterior, weighted_mean
from poolscope.inference.memoized.tables import ResponseCounts, exact_response_sum, response_counts
from poolscope.mechanisms import CMS, GRR, LGRR, LOLOHA, OUE, Channel, DBitFlip, HadamardResponse, device_of, reports_of
from poolscope.population.behavior import Behavior, draw_traces, draw_users
from poolscope.population.popularity import zipf
from poolscope.population.universe import Universe

SIZE, USERS = 6, 40
UNIVERSE = Universe.sized(SIZE, {"a": 2, "b": 2})
POPULARITY = np.array([0.3, 0.1, 0.15, 0.25, 0.15, 0.05])
KNOWN = Adversary(name="known", universe=UNIVERSE, popularity=POPULARITY)
KEYS = user_keys(SEED, np.arange(USERS))
TRUTH = draw_users(UNIVERSE, Behavior(), KEYS)
MATRIX = np.random.default_rng(2).dirichlet(np.ones(5), size=SIZE)

#: Name -> device, reports of each user, and the sampler.
CASES = {
    "grr": (GRR(universe=SIZE, epsilon=3.0), 90, tempered_posterior),
    "l-grr": (LGRR(universe=SIZE, epsilon_perm=4.0, epsilon_1=2.0), 30, tempered_posterior),
    "loloha": (LOLOHA(universe=SIZE, epsilon_perm=4.0, epsilon_1=2.0, g=4), 90, tempered_posterior),
    "dbitflip": (DBitFlip(universe=SIZE, epsilon=3.0, buckets=6, d=3), 90, tempered_posterior),
    "hr": (HadamardResponse(universe=SIZE, epsilon=2.0), 90, tempered_posterior),
    "channel": (Channel(universe=SIZE, matrix=MATRIX), 180, tempered_posterior),
    "cms": (CMS(universe=SIZE, epsilon=2.0, m=64, hashes=1024), 30, allocated_posterior),
}


@cache
def deviations(name, adversary=KNOWN, users=USERS):
    """Of each of the first users what the sampler is off the sum over tables, and the error that it states."""
    mechanism, n, sampler = CASES[name]
    device = device_of(mechanism, memoize=True)
    rows = []
    for user, trace in enumerate(draw_traces(UNIVERSE, POPULARITY, TRUTH, n)[:users]):
        evidence = device.likelihood(reports_of(device, trace[None], KEYS[[user]]))
        scores = exact_response_sum(response_counts(evidence, KNOWN), KNOWN)
        found = sampler(response_counts(evidence, adversary), adversary, KEYS[user])
        rows.append([found.posterior[0] - scores[0] / scores.sum(), found.error[0]])
    return np.array(rows).T


def variance_ratio(off, error):
    """Squared deviations over stated variances, as a ratio of sums, with a 99 % interval by bootstrap."""
    some = np.random.default_rng(0).integers(len(off), size=(2000, len(off)))
    low, high = np.quantile((off[some] ** 2).sum(axis=1) / (error[some] ** 2).sum(axis=1), [0.005, 0.995])
    return low, high


# errors are larger, and must say so
pytestmark = pytest.mark.usefixtures("short_chains")


@pytest.mark.default_cases("20-grr")
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("users", [20, USERS])
def test_stated_errors_are_those_that_are_made(name, users):
    off, error = deviations(name, users=users)
    low, high = variance_ratio(off, error)
    assert low < 1.4, (low, high)
    assert high > 0.7, (low, high)
    assert np.abs(off).mean() < 0.05
    assert np.all(error > 0)


@pytest.mark.default_cases("grr")
@pytest.mark.parametrize("name", CASES)
def test_an_adversary_with_another_popularity_is_caught(name):
    wrong = replace(KNOWN, popularity=POPULARITY[::-1])
    low, _ = variance_ratio(*deviations(name, wrong, users=10))
    assert low > 1.4


def test_more_work_is_less_error(monkeypatch):
    device = device_of(GRR(universe=SIZE, epsilon=3.0), memoize=True)
    trace = draw_traces(UNIVERSE, POPULARITY, TRUTH, 90)[:6]
    tables = [response_counts(device.likelihood(reports_of(device, trace[[u]], KEYS[[u]])), KNOWN) for u in range(6)]
    errors = []
    for work in (1e6, 1.6e7):
        monkeypatch.setattr(response_map_samplers, "MAX_WORK", work)
        errors.append([tempered_posterior(own, KNOWN, np.uint64(1)).error.max() for own in tables])
    few, many = np.mean(errors, axis=1)
    assert many < 0.6 * few


def test_the_same_key_gives_the_same_bits():
    device = device_of(GRR(universe=30, epsilon=2.0), memoize=True)
    adversary = Adversary.weak(Universe.sized(30, {"a": 8, "b": 8}))
    tables = response_counts(device.likelihood({"value": np.array([0, 3, 3, 9, 21, 3, 0])}), adversary)
    one, other = (tempered_posterior(tables, adversary, np.uint64(5)) for _ in range(2))
    np.testing.assert_array_equal(one, other)


# Corners


def test_slots_without_a_choice_need_no_chain_to_move():
    """One slot is free: the sampler pads it, and must still end."""
    base, mass = np.array([[0.3, 0.0, 0.0], [0.0, 0.4, 0.0]]), np.array([[0.0, 0.0, 1.0]])
    tables = ResponseCounts(mass, np.log([[0.2, 0.3, 0.5]]), np.array([4, 6]), base, (0.0, 1.0))
    for own in (tables, tables._replace(mass=mass[:0], log_response_prob=tables.log_response_prob[:0])):
        scores, found = exact_response_sum(own, KNOWN), tempered_posterior(own, KNOWN, np.uint64(1))
        np.testing.assert_allclose(found.posterior, scores / scores.sum(), atol=4 * found.error.max() + 1e-3)


def test_weights_in_one_batch_alone_leave_a_large_error():
    log_weight = np.full((12, 5), -np.inf)
    log_weight[3] = 0.0
    posterior = np.full((12, 5, 2), 0.5)
    posterior[3] = 0.9, 0.1
    found = weighted_mean(log_weight, posterior)
    np.testing.assert_allclose(found.posterior, [0.9, 0.1])
    assert found.error.min() > 0.1


# Bit vectors that objects share


def test_two_empty_vectors_may_be_two_objects():
    """Half of the responses of optimized unary encoding have no bit at large epsilon."""
    device = device_of(OUE(universe=7, epsilon=8.0), memoize=True)
    weak = Adversary.weak(Universe.sized(7, {"a": 1, "b": 5}))
    found = user_posterior(device, {"bits": np.zeros((2, 1), dtype=np.uint8)}, weak)
    assert found.posterior[0] == pytest.approx(0.5228, abs=5e-5)
    assert found.error.max() == 0


@pytest.mark.parametrize("n", [2, 6, 30])
def test_empty_vectors_are_the_sum_over_traces(n):
    """The number of objects whose vector is empty is all that empty reports tell: two pools, and all of it by hand."""
    universe = Universe.sized(2, {"a": 1, "b": 1})
    device = device_of(OUE(universe=2, epsilon=8.0), memoize=True)
    popularity = np.array([0.5, 0.5])
    adversary = Adversary(name="two", universe=universe, popularity=popularity)
    bits = np.zeros((n, 1), dtype=np.uint8)
    bits[0] = 1
    empty, first = device.mechanism.q_star, device.mechanism.p_star
    none, own = (1 - first) * (1 - empty), first * (1 - empty)
    other = (1 - first) * empty
    x, w = np.polynomial.legendre.leggauss(40)
    delta, weight = 0.75 + 0.25 * x, w / 2
    scores = [own * none * d * (1 - d) ** (n - 1) + none * other * (1 - d) * d ** (n - 1) for d in (delta, 1 - delta)]
    expected = np.array([(weight * score).sum() for score in scores])
    found = user_posterior(device, {"bits": bits}, adversary)
    np.testing.assert_allclose(found.posterior, expected / expected.sum(), rtol=1e-6)


@pytest.mark.parametrize("users", [5, pytest.param(12, marks=statistical)])
def test_few_objects_have_no_unstated_error(users):
    """Bit vectors of nine objects: the attack is the sum over tables, which another one is compared with."""
    universe = Universe.sized(9, {"a": 3, "b": 3})
    adversary = Adversary(name="nine", universe=universe, popularity=zipf(universe, 1.0))
    device = device_of(CMS(universe=9, epsilon=2.0, m=64, hashes=1024), memoize=True)
    truth = draw_users(universe, Behavior(), KEYS[:users])
    off, error = [], []
    for user, trace in enumerate(draw_traces(universe, adversary.popularity, truth, 30)):
        reports = reports_of(device, trace[None], KEYS[[user]])
        found = user_posterior(device, reports, adversary)
        sampled = allocated_posterior(response_counts(device.likelihood(reports), adversary), adversary, KEYS[user])
        off.append(sampled.posterior[0] - found.posterior[0])
        error.append(np.hypot(sampled.error[0], found.error[0]))
    assert variance_ratio(np.array(off), np.array(error))[0] < 1.4


@pytest.mark.slow
def test_nearly_as_many_groups_as_slots():
    """Each group that is allocated leaves later ones few slots: weights spread, unless particles are resampled."""
    universe = Universe.sized(11, {"a": 3, "b": 4})
    adversary = Adversary(name="eleven", universe=universe, popularity=zipf(universe, 0.8))
    device = device_of(CMS(universe=11, epsilon=2.0, m=64, hashes=1024), memoize=True)
    truth = draw_users(universe, Behavior(), KEYS[:24])
    off, error = [], []
    for user, trace in enumerate(draw_traces(universe, adversary.popularity, truth, 60)):
        evidence = device.likelihood(reports_of(device, trace[None], KEYS[[user]]))
        groups = np.bincount(evidence.distribution.response)
        exact = normalized(exact_scores(evidence.distribution.log_response_prob, groups, adversary), adversary)
        sampled = allocated_posterior(response_counts(evidence, adversary), adversary, KEYS[user])
        off.append(sampled.posterior[0] - exact[0])
        error.append(sampled.error[0])
    low, high = variance_ratio(np.array(off), np.array(error))
    assert low < 1.4
    assert high > 0.5
    assert np.abs(off).mean() < 0.01
