"""Estimates where functions are few, and where a table is given."""

import numpy as np
import pytest
from cases.selection import mostly, statistical
from cases.synthetic import SEED

from poolscope.core.errors import InputError
from poolscope.mechanisms import CMS, GRR, HCMS, Rappor
from poolscope.reports.estimators import RegressionDesign, variance_of_linear
from poolscope.reports.frequencies import SupportEstimator, estimator, frequencies, simulate_frequencies
from poolscope.reports.utility import measure_utility

UNIVERSE = 60
#: Half of the objects, that nobody sends, come last.
POPULARITY = np.where(np.arange(UNIVERSE) < 30, 1.0 / np.arange(1, UNIVERSE + 1) ** 1.2, 0.0)
POPULARITY /= POPULARITY.sum()
EPSILON = 4.0
#: Google's defaults for a simulation: 16 bits of which an object has two, 64 cohorts.
GOOGLE = {"m": 16, "hashes": 2, "cohorts": 64, "f": 0.5, "p": 0.5, "q": 0.75}

FEW = {
    "cms": lambda seed: CMS(universe=UNIVERSE, epsilon=EPSILON, m=32, hashes=64, seed=seed),
    "cms, eight functions": lambda seed: CMS(universe=UNIVERSE, epsilon=EPSILON, m=128, hashes=8, seed=seed),
    "cms, many buckets": lambda seed: CMS(universe=UNIVERSE, epsilon=2.0, m=256, hashes=16, seed=seed),
    "cms, little noise": lambda seed: CMS(universe=UNIVERSE, epsilon=8.0, m=16, hashes=512, seed=seed),
    "hcms": lambda seed: HCMS(universe=UNIVERSE, epsilon=EPSILON, m=32, hashes=64, seed=seed),
    "rappor": lambda seed: Rappor(universe=UNIVERSE, epsilon=EPSILON, seed=seed),
    "google": lambda seed: Rappor(universe=UNIVERSE, seed=seed, **GOOGLE),
}


def assert_near(sample, expected, what):
    """Mean over axis 0 within 4.5 standard errors of what is expected, in a few hundred places."""
    error = 4.5 * sample.std(axis=0, ddof=1) / np.sqrt(len(sample)) + 1e-9
    gap = np.abs(sample.mean(axis=0) - expected)
    assert np.all(gap < error), f"{what}: off by {gap}, allowed {error}"


def drawn(make, reports, draws, method=None):
    """Estimates beside the true counts, each with functions of its own."""
    rng = np.random.default_rng(SEED)
    for seed in range(draws):
        mechanism = make(1000 * seed + 1)
        objects = rng.choice(UNIVERSE, reports, p=POPULARITY)
        found = frequencies(mechanism, mechanism.obfuscate(objects, rng), method)
        yield mechanism, found, np.bincount(objects, minlength=UNIVERSE)


def assert_covers(shares, what):
    """95 % within 1.96 errors, by 4 standard errors of the mean over draws; objects of a draw hang together.

    The errors are estimated, and a handful of collisions is not normal: two hundredths are allowed for that.
    """
    shares = np.array(shares)
    bound = 4 * shares.std(ddof=1) / np.sqrt(len(shares)) + 0.02
    assert abs(shares.mean() - 0.95) < bound, f"{what}: covers {shares.mean():.3f}, allowed 0.95 +- {bound:.3f}"


def todays_errors(mechanism, counts, reports):
    """Noise alone."""
    p, q, c = mechanism.p_star, mechanism.q_star, np.clip(counts, 0, reports)
    return np.sqrt((c * p * (1 - p) + (reports - c) * q * (1 - q)) / (p - q) ** 2)


# Few functions


WAYS = [("linear", 5000), ("linear", 50_000), ("regression", 5000), ("regression", 50_000), (None, 5000)]


@pytest.mark.default_cases("cms-*", "hcms-regression-*", "rappor-linear-*")
@pytest.mark.parametrize(("method", "reports"), mostly(statistical, WAYS, ("linear", 5000), ("regression", 5000)))
@pytest.mark.parametrize("name", FEW)
def test_errors_cover_the_truth(name, method, reports):
    if name == "cms, eight functions" and method == "linear":
        # few pairs of objects ever meet: what they add has two values or three, which is nothing like normal
        return
    shares, ratio, method_seen = [], [], set()
    for _, found, counts in drawn(FEW[name], reports, 16, method):
        shares.append(np.mean(np.abs(found.counts - counts) < 1.96 * found.errors))
        ratio.append(np.sum((found.counts - counts) ** 2) / np.sum(found.errors**2))
        method_seen.add(found.method)
    assert_covers(shares, f"{name} {method} {reports}")
    spread = 4 * np.std(ratio, ddof=1) / np.sqrt(len(ratio))
    assert abs(np.mean(ratio) - 1) < spread + 0.1, (
        f"squared error over the stated: {np.mean(ratio):.3f} +- {spread:.3f}"
    )
    assert method is None or method_seen == {method}


@pytest.mark.default_cases("cms")
@pytest.mark.parametrize("name", ["cms", "hcms", "google"])
def test_errors_of_noise_alone_do_not_cover(name):
    """The control: collisions do not shrink with the number of reports."""
    shares = []
    for mechanism, found, counts in drawn(FEW[name], 50_000, 16, "linear"):
        stated = todays_errors(mechanism, found.counts, 50_000)
        shares.append(np.mean(np.abs(found.counts - counts) < 1.96 * stated))
    with pytest.raises(AssertionError, match="covers"):
        assert_covers(shares, name)
    assert np.mean(shares) < 0.9


def test_a_million_reports_and_what_nobody_sent():
    """Of objects that nobody sent about one in forty is found more often than twice its error, not half of them."""
    seen = []
    for seed in range(10):
        mechanism = FEW["cms"](seed)
        found = simulate_frequencies(mechanism, POPULARITY, 10**6, np.uint64(SEED + seed))
        assert found.method == "regression"
        seen.append((found.counts > 2 * found.errors)[30:].mean())
    assert np.mean(seen) < 0.0228 + 4 * np.sqrt(0.0228 * 0.9772 / 300), seen


@pytest.mark.default_cases("hcms")
@pytest.mark.parametrize("name", ["cms", "hcms", "google"])
def test_regression_is_better_where_collisions_are_many(name):
    errors = {}
    for method in ("linear", "regression", None):
        found = drawn(FEW[name], 50_000, 8, method)
        errors[method] = np.sqrt(np.mean([(one.counts - counts) ** 2 for _, one, counts in found]))
    assert errors["regression"] < 0.85 * errors["linear"], errors
    assert errors[None] == errors["regression"]


def test_the_smaller_error_is_chosen():
    """Few reports: noise is all that matters, and two bits tell more together; many: collisions."""
    few = next(drawn(FEW["rappor"], 2000, 1))[1]
    many = next(drawn(FEW["rappor"], 200_000, 1))[1]
    assert (few.method, many.method) == ("linear", "regression")
    for reports in (2000, 200_000):
        chosen = SupportEstimator(FEW["rappor"](1)).variance(reports * POPULARITY)
        linear = sum(variance_of_linear(FEW["rappor"](1), reports * POPULARITY))
        assert chosen.mean() <= linear.mean()


@pytest.mark.parametrize("name", mostly(statistical, FEW, "hcms"))
def test_regression_is_unbiased_given_the_functions(name):
    """With its exact covariance, of the same objects and functions again and again."""
    mechanism, reports = FEW[name](7), 2000
    counts = np.round(reports * POPULARITY).astype(int)
    objects, rng = np.repeat(np.arange(UNIVERSE), counts), np.random.default_rng(SEED)
    learning = estimator(mechanism, "regression")
    found = np.array(
        [learning.estimate(learning.count(mechanism.obfuscate(objects, rng)), len(objects)).counts for _ in range(300)]
    )
    assert_near(found, counts, name)
    # squares of normal numbers vary by twice the square of their mean
    ratio = np.mean((found - counts) ** 2, axis=0) / RegressionDesign(mechanism).variance(counts)
    assert np.abs(ratio - 1).max() < 4.5 * np.sqrt(2 / len(found)), ratio
    assert abs(ratio.mean() - 1) < 4.5 * np.sqrt(2 / len(found) / UNIVERSE), ratio.mean()


def test_regression_has_its_limits():
    with pytest.raises(InputError, match="requires few hash functions"):
        estimator(CMS(universe=2600, epsilon=4.0, m=1024, hashes=65536), "regression")
    with pytest.raises(InputError, match="enough buckets to distinguish all objects"):
        estimator(CMS(universe=65, epsilon=4.0, m=8, hashes=8), "regression")
    same = np.tile(np.arange(UNIVERSE) // 2, (40, 1))
    with pytest.raises(InputError, match="enough buckets to distinguish all objects"):
        estimator(CMS(universe=UNIVERSE, epsilon=4.0, m=64, hash_table=same), "regression")
    with pytest.raises(InputError, match="requires few hash functions"):
        estimator(GRR(universe=5, epsilon=1.0), "regression")
    with pytest.raises(InputError, match="must be one of linear, regression, ridge, ibu, got 'best'"):
        estimator(GRR(universe=5, epsilon=1.0), "best")


def test_many_functions_are_as_before():
    """The estimate of 65,536 functions is the linear one to the bit, and its errors are noise but for a thousandth."""
    mechanism = CMS(universe=UNIVERSE, epsilon=EPSILON, m=1024, hashes=65536)
    found = simulate_frequencies(mechanism, POPULARITY, 10**5, np.uint64(3))
    support = mechanism.simulate_counts(POPULARITY, 10**5, np.uint64(3))
    p, q = mechanism.p_star, (1 - mechanism.flip) / 1024 + mechanism.flip * (1 - 1 / 1024)
    np.testing.assert_array_equal(found.counts, (support - 10**5 * q) / (p - q))
    np.testing.assert_allclose(found.errors, todays_errors(mechanism, found.counts, 10**5), rtol=1e-3)


def test_utility_states_what_is_measured():
    """Few functions: the closed form is that of the estimator that is chosen."""
    for name in ("cms", "google"):
        mechanism = FEW[name](3)
        found = measure_utility(mechanism, POPULARITY, 20_000, np.uint64(SEED))
        # twenty draws of sixty errors
        assert found.mse == pytest.approx(found.mse_analytical, rel=4 * np.sqrt(2 / 20 / 10))
        assert found.mae == pytest.approx(found.mae_analytical, rel=0.2)


# Given tables

IDENTITY = np.tile(np.arange(UNIVERSE), (8, 1))
TABLES = {
    "cms": lambda table: CMS(universe=UNIVERSE, epsilon=2.0, m=64, hash_table=table),
    "hcms": lambda table: HCMS(universe=UNIVERSE, epsilon=2.0, m=64, hash_table=table),
    "basic rappor": lambda table: Rappor(
        universe=UNIVERSE, m=64, hashes=1, cohorts=8, f=0.5, p=0.25, q=0.75, hash_table=table
    ),
}


@pytest.mark.default_cases("cms-regression", "hcms-None")
@pytest.mark.parametrize("method", ["linear", "regression", None])
@pytest.mark.parametrize("name", TABLES)
def test_tables_without_collisions_are_unbiased(name, method):
    mechanism = TABLES[name](IDENTITY)
    counts = np.round(5000 * POPULARITY).astype(int)
    objects, rng = np.repeat(np.arange(UNIVERSE), counts), np.random.default_rng(SEED)
    learning = estimator(mechanism, method)
    found = [learning.estimate(learning.count(mechanism.obfuscate(objects, rng)), len(objects)) for _ in range(200)]
    assert_near(np.array([one.counts for one in found]), counts, name)
    # the bias that there was, -N / (m - 1), would be seen
    with pytest.raises(AssertionError, match="off by"):
        assert_near(np.array([one.counts for one in found]) - counts.sum() / 63, counts, name)
    assert {one.method for one in found} == {method or "linear"}


@pytest.mark.parametrize("name", TABLES)
def test_p_star_and_q_star_are_those_of_the_table(name):
    """All pairs of objects, one by one."""
    rng = np.random.default_rng(SEED)
    table = rng.integers(0, 64, (8, UNIVERSE)) % rng.integers(2, 64, (8, 1))
    mechanism = TABLES[name](table)
    share = (table[:, :, None] == table[:, None, :]).mean(axis=0)[~np.eye(UNIVERSE, dtype=bool)]
    own, other = {
        "cms": (mechanism.p_star, getattr(mechanism, "flip", 0)),
        "hcms": (mechanism.p_star, 0.5),
        "basic rappor": (1 - getattr(mechanism, "prob_1_to_0", 0), getattr(mechanism, "prob_0_to_1", 0)),
    }[name]
    assert mechanism.p_star == pytest.approx(own)
    assert mechanism.q_star == pytest.approx(np.mean(own * share + other * (1 - share)))
    # the variance of Bloom filters takes cohorts for independent
    if name != "basic rappor":
        assert mechanism.rates.collision_variance == pytest.approx((own - other) ** 2 * share.var())


def test_bloom_filters_of_a_table():
    rng = np.random.default_rng(SEED)
    mechanism = Rappor(
        universe=20, f=0.5, p=0.25, q=0.75, m=8, hashes=2, cohorts=5, hash_table=rng.integers(0, 8, (10, 20))
    )
    bits = np.zeros((5, 20, 9), dtype=bool)
    positions = mechanism.positions(np.arange(5))
    for h in range(2):
        bits[np.arange(5)[:, None], np.arange(20), positions[:, h]] = True
    bits = bits[..., :8].astype(float)
    common, held = bits @ bits.transpose(0, 2, 1), bits.sum(axis=2)
    q, p = 1 - mechanism.prob_1_to_0, mechanism.prob_0_to_1
    supported = q**common * p ** (held[:, :, None] - common)
    np.testing.assert_allclose(mechanism.rates.p_star, np.mean(q**held, axis=0))
    off = ~np.eye(20, dtype=bool)
    expected = [supported.mean(axis=0)[z][off[z]].mean() for z in range(20)]
    np.testing.assert_allclose(mechanism.rates.q_star, expected)
    assert mechanism.q_star == pytest.approx(np.mean(expected))
