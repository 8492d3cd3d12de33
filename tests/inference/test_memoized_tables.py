"""The sum over tables of permanent responses against slow oracles: fractions for few reports, plain loops for many."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from cases.memoized import ORACLE
from cases.synthetic import SEED
from oracle import memoized
from oracle.tables import table_posterior, uniform_grid

from poolscope.core.randomness import user_keys
from poolscope.devices.protocols import IdenticalReports, NoisyValues, ReportLikelihood
from poolscope.inference.adversary import Adversary
from poolscope.inference.attack import posterior
from poolscope.inference.memoized import tables as module
from poolscope.inference.memoized.attack import user_posterior
from poolscope.inference.memoized.chains import memoized_posterior
from poolscope.inference.memoized.tables import axes, exact_response_sum, response_counts
from poolscope.mechanisms import (
    GRR,
    LGRR,
    LOLOHA,
    Channel,
    DBitFlip,
    Identity,
    Memoized,
    Rappor,
    device_of,
    reports_of,
)
from poolscope.population.behavior import Behavior
from poolscope.population.popularity import within_pools
from poolscope.population.priors import Beta, StepDensity
from poolscope.population.universe import Universe

WITHIN = [Fraction(float(x)) for x in within_pools(ORACLE.universe, ORACLE.popularity)]
POOL_OF = ORACLE.universe.pool_of.tolist()


def summed(tables, adversary=ORACLE):
    scores = exact_response_sum(tables, adversary)
    return scores / scores.sum()


def channel(slots, responses=3):
    rows = np.random.default_rng(1).integers(1, 20, size=(max(slots) + 1, responses))
    return [[Fraction(int(x), int(row.sum())) for x in row] for row in rows]


@pytest.mark.parametrize("slots", [[0, 1, 2, 3, 4], [0, 1, 0, 1, 2]], ids=["objects", "mixed"])
@pytest.mark.parametrize("reports", [(0,), (1, 1), (0, 2, 0), (2, 0, 0, 1)])
def test_identical_reports_are_the_enumeration(slots, reports):
    distribution = channel(slots)
    expected = memoized.posterior(memoized.identical(distribution, slots), reports, WITHIN, POOL_OF, 2)
    seen, answer = np.unique(reports, return_inverse=True)
    logs = np.log(np.array(distribution, dtype=np.float64).T[seen])
    found = summed(response_counts(ReportLikelihood(np.array(slots), IdenticalReports(answer, logs)), ORACLE))
    np.testing.assert_allclose(found, [float(x) for x in expected], rtol=1e-12)


@pytest.mark.parametrize("slots", [[0, 1, 2, 3, 4], [0, 1, 0, 1, 2]], ids=["l-grr", "loloha"])
@pytest.mark.parametrize("reports", [(0,), (1, 1), (0, 2, 0), (2, 0, 0, 1)])
def test_noisy_values_are_the_enumeration(slots, reports):
    truth, again, g = Fraction(3, 5), Fraction(4, 5), max(slots) + 1
    expected = memoized.posterior(memoized.values(g, truth, again, slots), reports, WITHIN, POOL_OF, 2)
    steps = [(float(p), float((1 - p) / (g - 1))) for p in (truth, again)]
    distribution = NoisyValues(np.array(reports), np.arange(g), g, *steps)
    found = summed(response_counts(ReportLikelihood(np.array(slots), distribution), ORACLE))
    np.testing.assert_allclose(found, [float(x) for x in expected], rtol=1e-12)


# Many reports


UNIVERSE = Universe.sized(5, {"a": 2, "b": 2})
SKEWED = Adversary(name="o", universe=UNIVERSE, popularity=np.array([0.3, 0.1, 0.15, 0.25, 0.2]))


def test_the_example_of_many_reports():
    device = device_of(GRR(universe=5, epsilon=3.0), memoize=True)
    reports = {"value": np.repeat(np.arange(5), [120, 40, 5, 5, 10])}
    found = posterior(device, reports, SKEWED, observations=[180])[0]
    assert found[0] == pytest.approx(1.0, abs=5e-5)
    distribution = np.where(np.eye(5), np.exp(3.0), 1.0) / (np.exp(3.0) + 4)
    counts = np.array([120, 40, 5, 5, 10])
    expected = table_posterior(_mass(np.arange(5)), distribution, np.eye(5), counts, uniform_grid(2, 24))
    np.testing.assert_allclose(found, expected, atol=1e-6)


def _mass(slots, adversary=SKEWED):
    within = within_pools(adversary.universe, adversary.popularity)
    mass = np.zeros((max(slots) + 1, adversary.k + 1))
    np.add.at(mass, (slots, adversary.universe.pool_of + 1), within)
    return mass


def noise(p, q, g):
    return np.full((g, g), q) + (p - q) * np.eye(g)


#: Name -> device, and for a user's reports: slots, responses of each slot, reports of each response, and which came.
LGRR_DEVICE = device_of(LGRR(universe=5, epsilon_perm=3.0, epsilon_1=2.0))
LOLOHA_DEVICE = device_of(LOLOHA(universe=5, epsilon_perm=3.0, epsilon_1=2.0, g=3))
DBITFLIP_DEVICE = device_of(DBitFlip(universe=5, epsilon=3.0, buckets=5, d=2))
CHANNEL = Channel(universe=5, matrix=np.random.default_rng(2).dirichlet(np.ones(4), size=5))


def _l_grr(reports):
    m = LGRR_DEVICE.mechanism
    return np.arange(5), noise(*m.permanent, 5), noise(*m.instantaneous, 5), reports["value"]


def _loloha(reports):
    m = LOLOHA_DEVICE.mechanism
    slots = m.functions.values(np.full(5, reports["seed"][0], dtype=np.int64), np.arange(5))
    own = np.unique(slots)
    return np.searchsorted(own, slots), noise(*m.permanent, 3)[own], noise(*m.instantaneous, 3), reports["value"]


def _dbitflip(reports):
    flip = DBITFLIP_DEVICE.mechanism.flip
    asked = np.flatnonzero(np.unpackbits(reports["positions"][0], bitorder="little")[:5])
    bits = np.unpackbits(reports["bits"], axis=1, bitorder="little")[:, asked]
    distribution = np.ones((5, 4))
    for slot, (code, pattern) in product(range(5), enumerate(product((0, 1), repeat=2))):
        for place, bit in zip(asked, pattern, strict=True):
            distribution[slot, code] *= 1 - flip if bit == (place == slot) else flip
    return np.arange(5), distribution, np.eye(4), bits @ np.array([2, 1])


def _channel(reports):
    return np.arange(5), CHANNEL.matrix, np.eye(4), reports["report"]


DEVICES = {
    "l-grr": (LGRR_DEVICE, _l_grr),
    "loloha": (LOLOHA_DEVICE, _loloha),
    "dbitflip": (DBITFLIP_DEVICE, _dbitflip),
    "channel": (Memoized(CHANNEL), _channel),
}


@pytest.mark.default_cases("30-*", "180-loloha")
@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("n", [30, 180])
def test_the_attack_is_the_sum_over_tables(name, n):
    device, written = DEVICES[name]
    trace = np.random.default_rng(n).choice(5, size=(1, n), p=SKEWED.popularity)
    reports = reports_of(device, trace, user_keys(SEED, np.arange(1)))
    slots, distribution, emission, which = written(reports)
    expected = table_posterior(
        _mass(slots), distribution, emission, np.bincount(which, minlength=emission.shape[1]), GRID[n]
    )
    found = user_posterior(device, reports, SKEWED)
    np.testing.assert_allclose(found.posterior, expected, atol=1e-5)
    assert found.error.max() == 0


def _product_grid(n):
    gamma, delta = axes(SKEWED.belief, 2, True, n, -25.0)
    g, d = np.meshgrid(gamma[0], delta[0], indexing="ij")
    return g.ravel(), d.ravel(), np.outer(gamma[2], delta[2]).ravel()


GRID = {n: _product_grid(n) for n in (30, 180)}


# Priors, classes of slots, and what is impossible


def test_priors_are_honored():
    belief = Behavior(interest=Beta(a=2.0, b=5.0), polarization=StepDensity((1.0, 0.0, 3.0)), pools=(1.0, 4.0))
    adversary = replace(SKEWED, belief=belief)
    device = device_of(GRR(universe=5, epsilon=2.0), memoize=True)
    reports = {"value": np.repeat([0, 1, 3], [5, 9, 4])}
    # exact to degree 19, and there are 18 reports
    (gamma, _, a), (u, _, b) = belief.interest.rule(10), belief.polarization.rule(10)
    g, x = np.meshgrid(gamma, u, indexing="ij")
    grid = g.ravel(), 0.5 + 0.5 * x.ravel(), np.outer(a, b).ravel()
    distribution = np.where(np.eye(5), np.exp(2.0), 1.0) / (np.exp(2.0) + 4)
    counts = np.array([5, 9, 0, 4, 0])
    expected = table_posterior(_mass(np.arange(5)), distribution, np.eye(5), counts, grid, np.array([0.2, 0.8]))
    found = user_posterior(device, reports, adversary).posterior
    np.testing.assert_allclose(found, expected, atol=1e-9)
    plain = user_posterior(device, reports, SKEWED).posterior
    assert np.abs(plain - expected).max() > 0.05


def test_equal_slots_are_counted_together(monkeypatch):
    """Two dozen objects of equal popularity, of which few were reported: far more tables than could be listed."""
    universe = Universe.sized(24, {"a": 8, "b": 8})
    weak = Adversary.weak(universe)
    device = device_of(GRR(universe=24, epsilon=2.0), memoize=True)
    tables = response_counts(device.likelihood({"value": np.array([0, 0, 1, 12, 0, 0])}), weak)
    found = summed(tables, weak)
    # a nudge makes all popularities differ, so that nothing is merged: ten slots of a smaller world can be compared
    small = Universe.sized(9, {"a": 3, "b": 3})
    device, reports = device_of(GRR(universe=9, epsilon=2.0), memoize=True), {"value": np.array([0, 0, 1, 4, 0, 0])}
    same = summed(response_counts(device.likelihood(reports), Adversary.weak(small)), Adversary.weak(small))
    nudged = Adversary(name="n", universe=small, popularity=1 + 1e-9 * np.arange(9))
    np.testing.assert_allclose(summed(response_counts(device.likelihood(reports), nudged), nudged), same, atol=1e-7)
    assert found[0] > 0.5
    monkeypatch.setattr(module, "SUM_WORK", 0.0)
    assert exact_response_sum(tables, weak) is None


def test_without_neutral_objects_the_interest_does_not_matter():
    universe = Universe.sized(4, {"a": 2, "b": 2})
    device, reports = device_of(GRR(universe=4, epsilon=2.0), memoize=True), {"value": np.array([0, 0, 1, 3, 0])}
    for interest in (Beta(), Beta(a=9.0, b=2.0)):
        adversary = Adversary(
            name="n",
            universe=universe,
            popularity=np.array([0.4, 0.1, 0.2, 0.3]),
            belief=Behavior(interest=interest),
        )
        distribution = np.where(np.eye(4), np.exp(2.0), 1.0) / (np.exp(2.0) + 3)
        x, w = np.polynomial.legendre.leggauss(12)
        grid = np.ones(12), 0.5 + 0.25 * (x + 1), w / 2
        expected = table_posterior(
            _mass(np.arange(4), adversary), distribution, np.eye(4), np.array([3, 1, 0, 1]), grid
        )
        np.testing.assert_allclose(user_posterior(device, reports, adversary).posterior, expected, rtol=1e-9)


def test_without_noise_nothing_is_left_to_sum():
    keys, trace = user_keys(SEED, np.arange(1)), np.array([[0, 3, 3, 1, 4, 0]])
    device = Memoized(Identity(universe=5))
    reports = reports_of(device, trace, keys)
    tables = response_counts(device.likelihood(reports), SKEWED)
    assert len(tables.mass) == 0
    expected = posterior(device.mechanism, reports, SKEWED)[-1]
    np.testing.assert_allclose(summed(tables, SKEWED), expected, rtol=1e-9)


def test_impossible_reports_are_seen():
    device = Memoized(Channel(universe=5, matrix=np.full((5, 6), 1 / 6)))
    assert not response_counts(device.likelihood({"report": np.arange(6)}), SKEWED).is_feasible
    assert response_counts(device.likelihood({"report": np.arange(5)}), SKEWED).is_feasible
    never = Memoized(Channel(universe=5, matrix=np.column_stack([np.ones(5), np.zeros(5)])))
    assert not response_counts(never.likelihood({"report": np.array([0, 1])}), SKEWED).is_feasible


def test_too_many_reports_for_doubles_are_left_to_others():
    device = device_of(GRR(universe=5, epsilon=3.0), memoize=True)
    tables = response_counts(device.likelihood({"value": np.repeat([0, 1], [4000, 1000])}), SKEWED)
    assert exact_response_sum(tables, SKEWED) is None


@pytest.mark.parametrize("name", DEVICES)
def test_one_report_is_as_if_it_were_fresh(name):
    """However many slots there are: nothing is listed, and nothing is sampled."""
    device, _ = DEVICES[name]
    reports = reports_of(device, np.array([[3]]), user_keys(SEED, np.arange(1)))
    expected = posterior(device.mechanism, reports, SKEWED)[-1]
    found = user_posterior(device, reports, SKEWED)
    np.testing.assert_array_equal(found.posterior, expected[-1] if expected.ndim > 1 else expected)
    assert not found.error.any()


def test_chains_over_one_report_find_the_same():
    device = device_of(Rappor(universe=5, m=16, hashes=2, cohorts=1, f=0.25, p=0.1, q=0.9), memoize=True)
    reports = reports_of(device, np.array([[3]]), user_keys(SEED, np.arange(1)))
    chains = memoized_posterior(device.likelihood(reports), SKEWED, np.uint64(SEED))
    expected = user_posterior(device, reports, SKEWED).posterior
    assert np.abs(chains.posterior - expected).max() < 4 * chains.error.max() + 1e-9


def test_lists_that_take_long_are_left_to_others():
    """Two reports have a coarse grid, so that it would take longer to list the sets of slots than to add them up."""
    universe = Universe.sized(30, {"a": 10, "b": 10})
    adversary = Adversary(name="n", universe=universe, popularity=1.0 + np.arange(30))
    device = device_of(GRR(universe=30, epsilon=2.0), memoize=True)
    assert (
        exact_response_sum(response_counts(device.likelihood({"value": np.array([0, 12])}), adversary), adversary)
        is None
    )
