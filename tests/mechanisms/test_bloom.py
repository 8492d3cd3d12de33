"""Masses of RAPPOR's reports by their set bits, against those by the likelihood of every object."""

import numpy as np
import pytest
from cases.synthetic import SEED

from poolscope.core.randomness import children
from poolscope.mechanisms import Likelihood, Rappor
from poolscope.mechanisms.protocols import PoolWeights

UNIVERSE = 70


def two_views():
    """Two adversaries with three pools each."""
    rng = np.random.default_rng(SEED)
    columns = 2 * rng.integers(0, 4, UNIVERSE) + np.arange(2)[:, None]
    return PoolWeights(columns.astype(np.uint32), rng.random((2, UNIVERSE)), 8)


@pytest.mark.parametrize(
    "noise",
    [
        {"epsilon": 0.01},
        {"epsilon": 4.0},
        {"epsilon": 60.0},
        {"epsilon": 599.0},
        {"epsilon": 1400.0},
        {"f": 0.5, "p": 0.1, "q": 0.9},
    ],
)
@pytest.mark.parametrize(("hashes", "m"), [(1, 5), (2, 3), (2, 128), (4, 16), (8, 9)])
def test_masses_are_sums_of_likelihoods(hashes, m, noise):
    """With few bits the functions of an object agree, and it has fewer bits than others."""
    mechanism = Rappor(universe=UNIVERSE, m=m, hashes=hashes, cohorts=3, **noise)
    objects = np.random.default_rng(SEED).integers(0, UNIVERSE, 60)
    reports = mechanism.report(objects, children(np.uint64(SEED), np.arange(60)))
    reports["bits"][:2] = 0
    reports["bits"][2:4] = np.packbits(np.ones(m, np.uint8), bitorder="little")
    views = two_views()
    expected = Likelihood.mass(mechanism, reports, views)
    np.testing.assert_allclose(mechanism.mass(reports, views), expected, rtol=1e-12, atol=0)


def test_some_objects_have_fewer_bits():
    """The control: the cases above are not all alike."""
    mechanism = Rappor(universe=UNIVERSE, m=9, hashes=8, cohorts=3, epsilon=4.0)
    bits = (mechanism.family.buckets(np.arange(3)) < mechanism.m).sum(axis=1)
    assert len(np.unique(bits)) > 2


@pytest.mark.parametrize(("hashes", "m"), [(1, 8), (2, 16), (3, 12)])
def test_rates_of_other_objects_are_those_of_the_functions(hashes, m):
    """Mean and variance over functions of how often a report of one object supports another, by counting bits."""
    cohorts = 400
    mechanism = Rappor(universe=UNIVERSE, m=m, hashes=hashes, cohorts=cohorts, f=0.25, p=0.1, q=0.8)
    found = mechanism.family.buckets(np.arange(cohorts))
    has = np.zeros((cohorts, UNIVERSE, m + 1), dtype=bool)
    np.put_along_axis(has, found.transpose(0, 2, 1), True, axis=2)
    has = has[:, :, :m].astype(float)
    common, bits = has @ has.transpose(0, 2, 1), has.sum(axis=2)
    # object z is supported where all of its bits are set, those that it shares with y by y's report
    support = (1 - mechanism.prob_1_to_0) ** common * mechanism.prob_0_to_1 ** (bits[:, None, :] - common)
    apart = ~np.eye(UNIVERSE, dtype=bool)
    others, held = support[:, apart], np.broadcast_to(bits[:, None, :], support.shape)[:, apart]
    # how many bits an object has in a cohort is known, and no part of the variance
    variance = sum((held == d).mean() * others[held == d].var() for d in range(1, hashes + 1) if (held == d).any())
    rates = mechanism.rates
    np.testing.assert_allclose(others.mean(), np.mean(rates.q_star), rtol=0.03)
    np.testing.assert_allclose(variance / cohorts, np.mean(rates.collision_variance), rtol=0.1)
