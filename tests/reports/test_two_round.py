"""Estimates from reports of two steps, dBitFlip and PI-RAPPOR: the published formulas, and their closed variances."""

import math

import numpy as np
import pytest
from cases.synthetic import SEED

from poolscope.core.randomness import user_keys
from poolscope.devices.loloha import published_values
from poolscope.devices.longitudinal import instantaneous_epsilon_for
from poolscope.mechanisms import LGRR, LOLOHA, LOSUE, LOUE, LSOUE, LSUE, DBitFlip, PIRappor, device_of, reports_of
from poolscope.reports.estimators import variance_of_linear
from poolscope.reports.frequencies import frequencies, simulate_frequencies

SIZE, REPORTS = 20, 4000
PAPERS = {"epsilon_perm": 4.0, "epsilon_1": 2.0}
TWO_STEPS = {
    "l-grr": LGRR(universe=SIZE, **PAPERS),
    "l-sue": LSUE(universe=SIZE, **PAPERS),
    "l-osue": LOSUE(universe=SIZE, **PAPERS),
    "l-oue": LOUE(universe=SIZE, **PAPERS),
    "l-soue": LSOUE(universe=SIZE, **PAPERS),
    "loloha": LOLOHA(universe=SIZE, **PAPERS),
    "loloha, binary": LOLOHA(universe=SIZE, g=2, **PAPERS),
}
MECHANISMS = {
    **TWO_STEPS,
    "dbitflip": DBitFlip(universe=SIZE, epsilon=3.0, d=4),
    "dbitflip, buckets": DBitFlip(universe=SIZE, epsilon=3.0, buckets=5, d=2),
    "pi-rappor": PIRappor(universe=SIZE, epsilon=2.0),
}
#: Half of the objects are nobody's.
COUNTS = np.where(np.arange(SIZE) < 10, REPORTS // 10, 0)


def sent(mechanism, seed):
    """One report of each user, from the devices that keep answers."""
    keys, objects = user_keys(seed, np.arange(REPORTS)), np.repeat(np.arange(SIZE), COUNTS)
    return reports_of(device_of(mechanism), objects[:, None], keys)


def server(mechanism):
    """p1, q1, p2, q2 as the curator has them: of a hash, another object has q1 = 1/g."""
    (p1, q1), (p2, q2) = mechanism.permanent, mechanism.instantaneous
    return p1, 1 / mechanism.g if isinstance(mechanism, LOLOHA) else q1, p2, q2


@pytest.mark.parametrize("name", TWO_STEPS)
def test_the_published_estimator_is_ours(name):
    mechanism = TWO_STEPS[name]
    reports, (p1, q1, p2, q2) = sent(mechanism, SEED), server(mechanism)
    counted = mechanism.support_counts(reports)
    published = (counted - REPORTS * q1 * (p2 - q2) - REPORTS * q2) / ((p1 - q1) * (p2 - q2))
    np.testing.assert_allclose(frequencies(mechanism, reports).counts, published, atol=1e-7)


@pytest.mark.parametrize("name", TWO_STEPS)
def test_the_published_variance_is_ours(name):
    """Theirs is of the frequencies that objects are drawn with, ours of the counts: f (1-f) / N lies between."""
    mechanism, f = TWO_STEPS[name], COUNTS / REPORTS
    p1, q1, p2, q2 = server(mechanism)
    seen = f * (p1 - q1) * (p2 - q2) + q1 * (p2 - q2) + q2
    published = seen * (1 - seen) / (REPORTS * (p1 - q1) ** 2 * (p2 - q2) ** 2)
    noise, collisions = variance_of_linear(mechanism, COUNTS.astype(float))
    assert not np.any(collisions)
    np.testing.assert_allclose(noise / REPORTS**2 + f * (1 - f) / REPORTS, published, rtol=1e-10)


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_closed_variances_of_dbitflip_and_pi_rappor(epsilon):
    nobody, half = np.zeros(SIZE), math.exp(epsilon / 2)
    for d in (1, 4, SIZE):
        mechanism = DBitFlip(universe=SIZE, epsilon=epsilon, d=d)
        of_all = mechanism.score_sum_variance(nobody, REPORTS) / (mechanism.own_mean - mechanism.other_mean) ** 2
        np.testing.assert_allclose(of_all, REPORTS * SIZE / d * half / (half - 1) ** 2, rtol=1e-9)
    mechanism = PIRappor(universe=SIZE, epsilon=epsilon)
    p, q = mechanism.p_star, mechanism.q_star
    assert p == pytest.approx(0.5, abs=1e-7)
    optimized = 4 * math.exp(epsilon) / math.expm1(epsilon) ** 2
    assert q * (1 - q) / (p - q) ** 2 == pytest.approx(optimized, rel=1e-6)


@pytest.mark.parametrize("name", ["dbitflip", "dbitflip, buckets"])
def test_the_published_estimator_of_dbitflip(name):
    """Of each bucket; where objects are the buckets it is the estimate itself."""
    mechanism = MECHANISMS[name]
    reports, half, b = sent(mechanism, SEED), math.exp(mechanism.epsilon / 2), mechanism.buckets
    asked, bits = (
        np.unpackbits(reports[column], axis=1, bitorder="little", count=b).astype(float)
        for column in ("positions", "bits")
    )
    published = b / mechanism.d * (asked * (bits * (half + 1) - 1) / (half - 1)).sum(axis=0)
    own, support_prob_no_collision = mechanism.own_mean, mechanism.moments(mechanism.flip)[0]
    counted = (mechanism.score_sums(reports) - REPORTS * support_prob_no_collision) / (own - support_prob_no_collision)
    np.testing.assert_allclose(counted, published[mechanism.bucket_of], atol=1e-2)
    if b == SIZE:
        np.testing.assert_allclose(frequencies(mechanism, reports).counts, published, atol=1e-2)


@pytest.mark.default_cases("l-osue", "dbitflip, buckets", "loloha", "pi-rappor", "l-grr")
@pytest.mark.parametrize("name", MECHANISMS)
def test_estimates_are_right_and_their_errors_hold(name):
    """Over many draws of all devices: the mean is the truth, the variance the closed one; objects of a bucket are one.

    The variance of a variance of 120 normal draws is 2/119 of its square.
    """
    mechanism, draws = MECHANISMS[name], 120
    if name == "dbitflip, buckets":
        sums = np.array([mechanism.score_sums(sent(mechanism, SEED + i)) for i in range(draws)])
        own, support_prob_no_collision = mechanism.own_mean, mechanism.moments(mechanism.flip)[0]
        found = (sums - REPORTS * support_prob_no_collision) / (own - support_prob_no_collision)
        truth = np.bincount(mechanism.bucket_of, weights=COUNTS)[mechanism.bucket_of]
        variance = mechanism.score_sum_variance(COUNTS.astype(float), REPORTS) / (own - support_prob_no_collision) ** 2
    else:
        found = np.array([frequencies(mechanism, sent(mechanism, SEED + i)).counts for i in range(draws)])
        truth, variance = COUNTS, variance_of_linear(mechanism, COUNTS.astype(float))[0]
    assert np.all(np.abs(found.mean(axis=0) - truth) < 4.5 * np.sqrt(variance / draws))
    ratio = (found.var(axis=0, ddof=1) / variance).mean()
    allowed = 4 * math.sqrt(2 / (draws - 1))
    assert abs(ratio - 1) < allowed / math.sqrt(2), f"variance is {ratio:.3f} of the closed one"


@pytest.mark.parametrize("name", MECHANISMS)
def test_simulated_estimates_are_near(name):
    mechanism = MECHANISMS[name]
    found = simulate_frequencies(mechanism, COUNTS / REPORTS, 40_000, np.uint64(SEED))
    gap = found.counts - 10.0 * COUNTS
    if name != "dbitflip, buckets":
        assert np.all(np.abs(gap) < 4.5 * np.sqrt(found.errors**2 + 4000))


# Parameters, as published


@pytest.mark.parametrize(("infinity", "first"), [(2.0, 1.0), (5.0, 0.5), (1.0, 0.4)])
def test_published_parameters(infinity, first):
    a, b = math.exp(infinity), math.exp(first)
    given = {"universe": SIZE, "epsilon_perm": infinity, "epsilon_1": first}
    assert LOSUE(**given).instantaneous[0] == pytest.approx((a * b - 1) / ((a - 1) * (b + 1)), rel=1e-12)
    for mechanism in (LGRR(**given), LOLOHA(**given)):
        (p1, q1), (p2, q2) = mechanism.permanent, mechanism.instantaneous
        assert p2 / q2 == pytest.approx((a * b - 1) / (a - b), rel=1e-12)
        assert (p1 * p2 + q1 * q2) / (p1 * q2 + q1 * p2) == pytest.approx(b, rel=1e-12), "their equation"
        assert mechanism.epsilon <= first * (1 + 1e-12), "but a report reveals less, if there are more than two values"
    assert LOLOHA(g=2, **given).epsilon == pytest.approx(first, rel=1e-12)
    assert LGRR(**given).epsilon < 0.99 * first
    root = math.sqrt(a**4 - 14 * a**2 + 12 * a * b * (1 - a * b) + 12 * a**3 * b + 1)
    assert published_values(infinity, first) == 1 + max(1, round((1 - a**2 + root) / (6 * (a - b))))


def test_the_best_number_of_values_has_the_least_variance():
    def variance(mechanism):
        p, q = mechanism.p_star, mechanism.q_star
        return q * (1 - q) / (p - q) ** 2

    for given in ({"epsilon": 2.0}, {"epsilon_perm": 4.0, "epsilon_1": 3.0}):
        best = LOLOHA(universe=SIZE, **given)
        assert best.g > 2
        for g in (best.g - 1, best.g + 1, 2):
            assert variance(best) <= variance(LOLOHA(universe=SIZE, g=g, **given)) * (1 + 1e-12)


def test_extreme_epsilons():
    """No overflow, and without noise again where both epsilons are the same."""
    assert instantaneous_epsilon_for(3.0, 3.0, 5) == math.inf
    for epsilon in (1e-3, 30.0, 600.0):
        for kind in (LGRR, LSUE, LOLOHA):
            mechanism = kind(universe=SIZE, epsilon=epsilon)
            assert all(0 <= x <= 1 for x in (*mechanism.permanent, *mechanism.instantaneous))
    assert published_values(700.0, 350.0) == 1 << 24
    assert published_values(1.0, 1.0) == 2


@pytest.mark.parametrize(("epsilon", "values"), [(1.0, 4), (2.0, 8), (3.0, 21)])
def test_memoized_hashes_alone_have_as_many_values_as_local_hashing(epsilon, values):
    """The integer nearest to e^epsilon, and one more."""
    assert LOLOHA(universe=30, epsilon=epsilon).g == values == round(math.exp(epsilon)) + 1
