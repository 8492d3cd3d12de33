"""Estimates through a channel, and by likelihood."""

import numpy as np
import pytest
from cases.selection import statistical
from cases.synthetic import SEED
from scipy import optimize

from poolscope.core.errors import InputError
from poolscope.core.randomness import children
from poolscope.mechanisms import CMS, GRR, HCMS, OUE, Channel, Empirical, Rappor, adapt
from poolscope.reports import ibu
from poolscope.reports.estimators import inverted, unbiased
from poolscope.reports.frequencies import estimator, frequencies, simulate_frequencies
from poolscope.reports.ibu import IBUEstimator, max_likely
from poolscope.reports.utility import measure_utility

UNIVERSE = 60
#: Half of the objects, that nobody sends, come last.
POPULARITY = np.where(np.arange(UNIVERSE) < 30, 1.0 / np.arange(1, UNIVERSE + 1) ** 1.2, 0.0)
POPULARITY /= POPULARITY.sum()
EPSILON = 4.0
#: Google's defaults for a simulation: 16 bits of which an object has two, 64 cohorts.
GOOGLE = {"m": 16, "hashes": 2, "cohorts": 64, "f": 0.5, "p": 0.5, "q": 0.75}


def assert_near(sample, expected, what):
    """Mean over axis 0 within 4.5 standard errors of what is expected, in a few hundred places."""
    error = 4.5 * sample.std(axis=0, ddof=1) / np.sqrt(len(sample)) + 1e-9
    gap = np.abs(sample.mean(axis=0) - expected)
    assert np.all(gap < error), f"{what}: off by {gap}, allowed {error}"


def assert_covers(shares, what):
    """95 % within 1.96 errors, by 4 standard errors of the mean over draws; objects of a draw hang together.

    The errors are estimated, and a handful of collisions is not normal: two hundredths are allowed for that.
    """
    shares = np.array(shares)
    bound = 4 * shares.std(ddof=1) / np.sqrt(len(shares)) + 0.02
    assert abs(shares.mean() - 0.95) < bound, f"{what}: covers {shares.mean():.3f}, allowed 0.95 +- {bound:.3f}"


# Channels


def some_channel(objects=8, reports=11):
    rng = np.random.default_rng(5)
    matrix = rng.dirichlet(np.full(reports, 0.7), objects)
    matrix[:, 3] = 0.0
    matrix[0, 4:8] = 0.0
    return Channel(universe=objects, matrix=matrix / matrix.sum(axis=1, keepdims=True))


CHANNEL_COUNTS = np.array([1000, 500, 300, 100, 50, 50, 0, 0])


@pytest.mark.parametrize("draws", [500, pytest.param(1500, marks=statistical)])
def test_a_channel_is_unbiased_with_its_errors(draws):
    mechanism, rng = some_channel(), np.random.default_rng(SEED)
    objects = np.repeat(np.arange(8), CHANNEL_COUNTS)
    found = [frequencies(mechanism, mechanism.obfuscate(objects, rng)) for _ in range(draws)]
    counts = np.array([one.counts for one in found])
    assert {one.method for one in found} == {"regression"}
    assert_near(counts, CHANNEL_COUNTS, "channel")
    assert_near((counts - CHANNEL_COUNTS) ** 2 - np.array([one.errors**2 for one in found]), 0, "errors")
    np.testing.assert_allclose(counts.sum(axis=1), 2000)
    expected = estimator(mechanism).variance(CHANNEL_COUNTS.astype(float))
    np.testing.assert_allclose(counts.var(axis=0), expected, rtol=0.2)
    with pytest.raises(AssertionError, match="off by"):
        assert_near((counts - CHANNEL_COUNTS) ** 2 - 1.5 * np.array([one.errors**2 for one in found]), 0, "control")


def test_a_channel_of_randomized_response_is_its_linear_estimate():
    grr = GRR(universe=6, epsilon=1.0)
    matrix = np.where(np.eye(6), grr.p_star, grr.q_star)
    values = grr.obfuscate(np.arange(600) % 3, np.random.default_rng(1))["value"]
    through = frequencies(Channel(universe=6, matrix=matrix), {"report": values})
    np.testing.assert_allclose(through.counts, frequencies(grr, {"value": values}).counts, rtol=1e-9)


def test_simulated_channels_have_their_law():
    mechanism, popularity = some_channel(), CHANNEL_COUNTS / 2000
    tallies = np.array(
        [mechanism.simulate_tally(popularity, 50, key) for key in children(np.uint64(2), np.arange(2000))]
    )
    expected = 50 * popularity @ mechanism.matrix
    assert_near(tallies, expected, "simulated")
    assert measure_utility(mechanism, popularity, 10_000, np.uint64(1)).mse == pytest.approx(
        measure_utility(mechanism, popularity, 10_000, np.uint64(1)).mse_analytical, rel=0.6
    )


def test_a_channel_without_an_inverse_takes_ibu():
    matrix = np.array([[0.7, 0.3], [0.4, 0.6], [0.1, 0.9]])
    mechanism = Channel(universe=3, matrix=matrix)
    reports = mechanism.obfuscate(np.zeros(4000, dtype=int), np.random.default_rng(1))
    found = frequencies(mechanism, reports)
    assert found.method == "ibu"
    assert np.all(np.isinf(found.errors))
    ridge = frequencies(mechanism, reports, "ridge")
    assert ridge.errors is None
    assert ridge.counts @ matrix == pytest.approx(np.bincount(reports["report"]), abs=80)
    assert found.popularity @ matrix == pytest.approx(np.bincount(reports["report"]) / 4000, abs=0.02)
    with pytest.raises(InputError, match=r"distinguishes all objects.*use ridge or ibu"):
        frequencies(mechanism, reports, "regression")
    with pytest.raises(InputError, match="requires regression, ridge or ibu, got 'linear'"):
        frequencies(mechanism, reports, "linear")
    utility = measure_utility(mechanism, np.ones(3), 1000, np.uint64(1))
    assert (utility.mse_analytical, utility.mae_analytical) == (None, None)


def test_a_learnt_channel_has_an_estimate():
    matrix, rng = some_channel().matrix, np.random.default_rng(3)
    pairs = np.array([(z, rng.choice(11, p=matrix[z])) for z in np.repeat(np.arange(8), 2000)])
    learned = Empirical(universe=8, samples=pairs, reports=11)
    reports = some_channel().obfuscate(np.repeat(np.arange(8), CHANNEL_COUNTS), rng)
    found = frequencies(learned, reports)
    assert found.method == "regression"
    np.testing.assert_allclose(found.counts, CHANNEL_COUNTS, atol=6 * found.errors.max())


# Likelihood

TINY = {
    "channel": some_channel(5, 7),
    "grr": GRR(universe=5, epsilon=1.0),
    "cms": CMS(universe=5, epsilon=2.0, m=4, hashes=3),
    "hcms": HCMS(universe=5, epsilon=2.0, m=4, hashes=3),
    "rappor": Rappor(universe=5, epsilon=3.0, m=4, hashes=2, cohorts=2),
    "oue": OUE(universe=5, epsilon=1.5),
}


@pytest.mark.parametrize("name", TINY)
def test_ibu_is_the_maximum_of_the_likelihood(name):
    """Against a general optimizer, and within what the stopping rule promises."""
    mechanism, rng = TINY[name], np.random.default_rng(SEED)
    reports = mechanism.obfuscate(rng.choice(5, 300, p=[0.6, 0.3, 0.1, 0, 0]), rng)
    likelihood, ones = mechanism.likelihood(reports), np.ones(300)

    def value(f):
        return -np.sum(np.log(np.maximum(likelihood @ f, 1e-300)))

    direct = optimize.minimize(
        value,
        np.full(5, 0.2),
        jac=lambda f: -likelihood.T @ (1 / (likelihood @ f)),
        bounds=[(0, 1)] * 5,
        constraints={"type": "eq", "fun": lambda f: f.sum() - 1, "jac": lambda f: np.ones(5)},
        options={"ftol": 1e-13, "maxiter": 1000},
    )
    best = min(direct.fun, value(max_likely(likelihood, ones, gap=1e-7, updates=100_000)))
    for gap in (1.0, 1e-2, 1e-6):
        found = max_likely(likelihood, ones, gap=gap, updates=100_000)
        assert found.sum() == pytest.approx(1)
        assert found.min() >= 0
        assert value(found) <= best + gap
    assert value(found) <= direct.fun + 1e-6
    if name != "rappor":
        np.testing.assert_allclose(found, direct.x, atol=2e-3)
    grouped = frequencies(mechanism, reports, "ibu")
    assert grouped.method == "ibu"
    assert value(grouped.popularity) <= best + 0.5 + 1e-9
    np.testing.assert_allclose(grouped.popularity, grouped.counts / 300, atol=1e-12)


def test_ibu_ends_in_any_case():
    mechanism, rng = TINY["cms"], np.random.default_rng(1)
    likelihood = mechanism.likelihood(mechanism.obfuscate(rng.integers(0, 5, 50), rng))
    assert max_likely(likelihood, np.ones(50), gap=0.0, updates=10).sum() == pytest.approx(1)
    np.testing.assert_array_equal(max_likely(likelihood, np.ones(50), updates=1), np.full(5, 0.2))


def test_ibu_takes_mechanisms_of_ones_own_and_bounds_what_it_holds(monkeypatch):
    class Own:
        def obfuscate(self, objects, rng):
            return np.where(rng.random(len(objects)) < 0.7, objects, rng.integers(0, 3, len(objects)))

        def log_likelihood(self, reports):
            return np.log(np.where(reports[:, None] == np.arange(3), 0.8, 0.1))

    mechanism, popularity = adapt(Own(), 3), np.array([0.7, 0.2, 0.1])
    found = simulate_frequencies(mechanism, popularity, 5000, np.uint64(1), method="ibu")
    assert np.all(np.abs(found.counts / 5000 - popularity) < 5 * found.errors / 5000 + 5 * np.sqrt(popularity / 5000))
    oue = OUE(universe=40, epsilon=1.0)
    monkeypatch.setattr("poolscope.reports.ibu.MAX_CELLS", 1000)
    with pytest.raises(InputError, match=r"ibu must have at most 1000 likelihoods .*, got 4000; use fewer reports"):
        simulate_frequencies(oue, np.ones(40), 100, np.uint64(1), method="ibu")


def test_ibu_covers_the_truth_where_it_is_inside():
    """The errors are of a maximum without bounds: they hold for counts far from zero."""
    mechanism, rng = some_channel(), np.random.default_rng(SEED)
    counts = np.array([900, 800, 700, 600, 500, 400, 300, 300])
    objects = np.repeat(np.arange(8), counts)
    found = [frequencies(mechanism, mechanism.obfuscate(objects, rng), "ibu") for _ in range(60)]
    shares = [np.mean(np.abs(one.counts - counts) < 1.96 * one.errors) for one in found]
    assert_covers(shares, "ibu")


def test_the_linear_estimate_needs_reports():
    with pytest.raises(InputError, match="at least one report"):
        unbiased(GRR(universe=3, epsilon=1.0), np.zeros(3), 0)


def test_ibu_has_the_errors_of_the_linear_estimate_where_both_are_the_same():
    """Of the objects, which are given, no variance counts: it would be larger than that of the noise."""
    grr = GRR(universe=6, epsilon=3.0)
    reports = grr.obfuscate(np.repeat(np.arange(6), [900, 800, 700, 600, 500, 400]), np.random.default_rng(SEED))
    found, linear = (frequencies(grr, reports, method) for method in ("ibu", "linear"))
    np.testing.assert_allclose(found.counts, linear.counts, rtol=1e-2)
    np.testing.assert_allclose(found.errors, linear.errors, rtol=2e-2)
    assert np.all(linear.errors < 0.9 * np.sqrt(linear.errors**2 + linear.counts))


def test_equal_reports_of_several_files_are_counted():
    grr = GRR(universe=4, epsilon=1.0)
    one, two = {"value": np.array([0, 0, 1, 3])}, {"value": np.array([3, 3, 0])}
    counting = IBUEstimator(grr)
    joined = counting.join([counting.count(one), counting.count(two)])
    assert dict(zip(joined.reports["value"].tolist(), joined.times.tolist(), strict=True)) == {0: 3, 1: 1, 3: 3}


def test_ibu_takes_no_step_that_lowers_the_likelihood(monkeypatch):
    mechanism, rng = TINY["grr"], np.random.default_rng(SEED)
    likelihood = mechanism.likelihood(mechanism.obfuscate(rng.choice(5, 300), rng))
    expected = max_likely(likelihood, np.ones(300), gap=1e-6)
    corner = np.where(np.arange(5) == 0, 0.996, 0.001)
    monkeypatch.setattr(ibu, "_extrapolated", lambda f, once, twice: corner)
    np.testing.assert_allclose(max_likely(likelihood, np.ones(300), gap=1e-6), expected, atol=1e-3)


@pytest.mark.parametrize(("smallest", "known"), [(1.0, True), (1e-6, True), (1e-9, False), (0.0, False)])
def test_a_matrix_that_is_nearly_singular_has_no_inverse(smallest, known):
    found = inverted(np.diag([1.0, smallest]))
    assert (found is not None) is known
    if known:
        np.testing.assert_allclose(found, np.diag([1.0, 1 / smallest]))
