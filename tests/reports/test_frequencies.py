"""The curator's estimate against its closed form, and the simulation of many reports."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from cases.selection import mostly, statistical
from cases.synthetic import SEED
from numba import njit
from scipy import stats

from poolscope.core.errors import InputError
from poolscope.core.randomness import children
from poolscope.kernels.random import binomial, binomial_alias_tables, build_alias_table
from poolscope.mechanisms import CMS, HCMS, NoHashCMS, Pure
from poolscope.mechanisms.sketch import ones_tables
from poolscope.population.popularity import project_to_simplex
from poolscope.reports.frequencies import frequencies, simulate_frequencies

COUNTS = np.array([200, 120, 60, 20, 0, 0])
UNIVERSE = len(COUNTS)
POPULARITY = COUNTS / COUNTS.sum()
MECHANISMS = {
    "cms": CMS(universe=UNIVERSE, epsilon=3.0, m=16, hashes=1 << 16),
    "cms, m no power of two": CMS(universe=UNIVERSE, epsilon=1.0, m=7, hashes=1 << 16),
    "cms without hashing": NoHashCMS(universe=UNIVERSE, epsilon=2.0),
    "hcms": HCMS(universe=UNIVERSE, epsilon=3.0, m=16, hashes=1 << 16),
}


def assert_near(sample, expected, what):
    """Mean over axis 0 within 4 standard errors of what is expected."""
    error = 4 * sample.std(axis=0, ddof=1) / np.sqrt(len(sample)) + 1e-12
    gap = np.abs(sample.mean(axis=0) - expected)
    assert np.all(gap < error), f"{what}: off by {gap}, allowed {error}"


def assert_binomial(sample, n, p):
    """Chi-square of a sample against Binomial(n, p), in about twenty bins of equal probability."""
    edges = np.unique(stats.binom.ppf(np.linspace(0, 1, 21)[1:-1], n, p))
    probability = np.diff(stats.binom.cdf(edges, n, p), prepend=0, append=1)
    seen = np.bincount(np.searchsorted(edges, sample), minlength=len(probability))
    keep = probability * len(sample) > 1
    assert seen[~keep].sum() <= 1 + 20 * probability[~keep].sum() * len(sample)
    seen, probability = seen[keep], probability[keep]
    expected = probability / probability.sum() * seen.sum()
    p_value = stats.chisquare(seen, expected).pvalue if len(seen) > 1 else 1.0
    assert p_value > 1e-4, (n, p, p_value)


# The estimate


def estimates(mechanism, sets):
    objects, rng = np.repeat(np.arange(UNIVERSE), COUNTS), np.random.default_rng(SEED)
    return [frequencies(mechanism, mechanism.obfuscate(objects, rng)) for _ in range(sets)]


@pytest.fixture(scope="module", params=MECHANISMS)
def repeated(request):
    """A mechanism and its estimates from many independent sets of the same objects' reports."""
    mechanism = MECHANISMS[request.param]
    return mechanism, np.array([one.counts for one in estimates(mechanism, 600)])


def closed_variance(mechanism, counts, squares=None):
    """Noise, and collisions that last: 1 / (J (m - 1)) of the others' c (c - 1), but not without hashing."""
    p, q, n = mechanism.p_star, mechanism.q_star, COUNTS.sum()
    noise = (counts * p * (1 - p) + (n - counts) * q * (1 - q)) / (p - q) ** 2
    if isinstance(mechanism, NoHashCMS):
        return noise
    squares = np.sum(np.square(counts)) if squares is None else squares
    others = np.maximum(squares - counts**2 - (n - counts), 0)
    return noise + others / (mechanism.hashes * (mechanism.m - 1))


@pytest.mark.default_cases("cms")
def test_estimate_is_unbiased(repeated):
    mechanism, counts = repeated
    assert_near(counts, COUNTS, f"{mechanism}")


@pytest.mark.default_cases("cms")
def test_estimate_has_the_stated_variance(repeated):
    mechanism, counts = repeated
    assert_near((counts - COUNTS) ** 2, closed_variance(mechanism, COUNTS), f"{mechanism}")


@pytest.mark.parametrize("name", MECHANISMS)
def test_errors_are_the_variance_at_the_estimate(name):
    mechanism, n = MECHANISMS[name], COUNTS.sum()
    for one in estimates(mechanism, 20):
        seen = one.counts
        assert one.reports == n
        assert one.method == "linear"
        within = np.clip(seen, 0, n)
        noise = closed_variance(mechanism, within, within**2 + n - within)
        lasting = 0 if isinstance(mechanism, NoHashCMS) else UNIVERSE / (mechanism.hashes * (mechanism.m - 1))
        squares = np.clip(np.sum(seen**2 - noise) / (1 + lasting), n**2 / UNIVERSE, n**2)
        np.testing.assert_allclose(one.errors**2, closed_variance(mechanism, within, squares), rtol=1e-12)
        np.testing.assert_array_equal(one.popularity, project_to_simplex(seen / n))
        assert one.popularity.sum() == pytest.approx(1)
        assert one.popularity.min() >= 0


@pytest.mark.default_cases("cms")
def test_a_wrong_q_star_is_seen(repeated):
    """The control: a curator who forgets that objects share buckets is biased."""
    mechanism, counts = repeated
    p, q, n = mechanism.p_star, mechanism.q_star, COUNTS.sum()
    wrong = q + 0.05 * (p - q)
    with pytest.raises(AssertionError, match="off by"):
        assert_near((counts * (p - q) + n * (q - wrong)) / (p - wrong), COUNTS, "control")


def test_projection_is_used_where_counts_are_negative():
    found = frequencies(
        MECHANISMS["cms"],
        MECHANISMS["cms"].obfuscate(np.zeros(50, dtype=int), np.random.default_rng(1)),
    )
    assert found.counts.min() < 0
    np.testing.assert_array_equal(found.popularity, project_to_simplex(found.counts / 50))


def test_no_reports_no_estimate():
    nothing = MECHANISMS["hcms"].obfuscate(np.empty(0, dtype=int), np.random.default_rng(0))
    with pytest.raises(InputError, match="at least one report"):
        frequencies(MECHANISMS["hcms"], nothing)
    with pytest.raises(InputError, match="at least one report"):
        simulate_frequencies(MECHANISMS["cms"], POPULARITY, 0, np.uint64(1))


# The simulation


def law_of_one_report(mechanism, popularity):
    """E[S_z] and E[S_z S_w] of one report's support on an object drawn from the popularity.

    Over the functions of the mechanism's own family, which are not averaged out.
    """
    first = np.zeros(mechanism.universe)
    second = np.zeros((mechanism.universe, mechanism.universe))
    family = mechanism.family
    for buckets in family.buckets(np.arange(family.size)):
        for y, share in enumerate(popularity / family.size):
            one = np.where(buckets == buckets[y], 1 - mechanism.flip, mechanism.flip)
            both = np.where(buckets[:, None] == buckets, one, np.outer(one, one))
            first += share * one
            second += share * both
    return first, second


# Reports on a function are fewer or more than its buckets, and than kernels.sketch.MANY times its buckets; hits of a
# bucket fewer or more than those that are looked up.
SIZES = {
    "a few reports": (8, 5, 4),
    "few reports, fewer buckets": (120, 5, 4),
    "few reports, more buckets": (160, 100, 4),
    "many reports": (4000, 5, 4),
    "many reports, more buckets": (800, 1024, 2),
    "one function": (300, 3, 1),
}


def drawn_by_alias(weights):
    """The distribution that an alias table of these weights draws from."""
    size = len(weights)
    keep, alias = np.empty(size), np.empty((size, 2), dtype=np.uint32)
    build_alias_table(weights, np.empty(size, dtype=np.int64), keep, alias)
    assert np.all((keep >= 0) & (keep <= 1 + 1e-12))
    found = keep / size
    np.add.at(found, alias[:, 0], (1 - keep) / size)
    return found


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_alias_tables_draw_what_they_were_given(size):
    rng = np.random.default_rng(SEED)
    for weights in (np.ones(size), rng.random(size), rng.random(size) ** 20, 0.5 ** np.arange(size)):
        np.testing.assert_allclose(drawn_by_alias(weights), weights / weights.sum(), rtol=0, atol=1e-14)


def test_alias_tables_never_draw_what_has_no_weight():
    weights = np.array([0.0, 3.0, 0.0, 1.0, 0.0])
    found = drawn_by_alias(weights)
    np.testing.assert_array_equal(found[weights == 0], 0)


@pytest.mark.parametrize(("n", "p"), [(0, 0.3), (1, 0.5), (200, 0.02), (15_000, 0.4975)])
def test_tables_hold_the_binomial_law(n, p):
    width = int(min(n, 20 * np.sqrt(n * p * (1 - p)) + 40)) + 1
    starts, keep, alias = np.empty(1, dtype=np.int64), np.empty((1, width)), np.empty((1, width, 2), dtype=np.uint32)
    binomial_alias_tables(n, p, np.empty(width), np.empty(width, dtype=np.int64), starts, keep, alias)
    found = keep[0] / width
    np.add.at(found, alias[0, :, 0], (1 - keep[0]) / width)
    np.testing.assert_allclose(found, stats.binom.pmf(starts[0] + np.arange(width), n, p), rtol=0, atol=1e-13)


@pytest.mark.parametrize("flip", [0.02, 0.4975])
def test_tables_of_hits_make_up_for_what_the_rest_lacks(flip):
    """Binomial(H - h, flip) + Binomial(h, 1 - flip) for every h up to H."""
    most = 20
    (first, starts, _, _), (keep, alias) = ones_tables(30, 35, most, flip)
    assert (first, len(starts), len(keep)) == (30, 6, most + 1)
    for hits in range(most + 1):
        found = keep[hits] / (most + 1)
        np.add.at(found, alias[hits, :, 0], (1 - keep[hits]) / (most + 1))
        rest, own = (stats.binom.pmf(np.arange(n + 1), n, p) for n, p in ((most - hits, flip), (hits, 1 - flip)))
        np.testing.assert_allclose(found, np.convolve(rest, own), rtol=0, atol=1e-14)


def test_tables_are_left_out_where_they_would_be_large():
    for flip, first, last in ((0.0, 10, 12), (0.4, 10**9, 10**9 + 10**6)):
        (_, starts, _, _), (keep, _) = ones_tables(first, last, 5, flip)
        assert len(starts) == len(keep) == 0


BY_DEFAULT = [("a few reports", "one by one", 1000), ("few reports, fewer buckets", "binomials", 400)]
SAMPLED = [*BY_DEFAULT, *((size, way, 3000) for size in SIZES for way in ("binomials", "one by one"))]


@pytest.mark.parametrize(("size", "way", "most"), mostly(statistical, SAMPLED, *BY_DEFAULT))
def test_simulated_counts_follow_the_law(size, way, most):
    """Reports are independent, so an object's count is binomial; covariances by 4 standard errors."""
    count, m, hashes = SIZES[size]
    mechanism = CMS(universe=UNIVERSE, epsilon=2.0, m=m, hashes=hashes, seed=3)
    simulate = Pure.simulate_counts if way == "one by one" else type(mechanism).simulate_counts
    repeats = min(most, 1_200_000 // count)
    keys = children(np.uint64(SEED), np.arange(repeats))
    counts = np.array([simulate(mechanism, POPULARITY, count, key) for key in keys])
    first, second = law_of_one_report(mechanism, POPULARITY)
    for z in range(UNIVERSE):
        assert_binomial(counts[:, z], count, first[z])
    centered = counts - count * first
    products = centered[:, :, None] * centered[:, None, :]
    covariance = count * (second - np.outer(first, first))
    assert_near(products, covariance, f"covariance, {size}")


def test_epsilons_share_their_draws_and_change_no_bit():
    mechanism = CMS(universe=UNIVERSE, epsilon=2.0, m=5, hashes=4, seed=3)
    epsilons = [0.01, 1.0, 2.0, np.inf]
    for count in (8, 300, 4000):
        together = mechanism.simulate_at(epsilons, POPULARITY, count, np.uint64(SEED))
        alone = Pure.simulate_at(mechanism, epsilons, POPULARITY, count, np.uint64(SEED))
        np.testing.assert_array_equal(together, alone)
        np.testing.assert_array_equal(together[2], mechanism.simulate_counts(POPULARITY, count, np.uint64(SEED)))


@pytest.mark.slow
def test_wrong_law_is_seen():
    """The control: a flip probability two hundredths off."""
    right = CMS(universe=UNIVERSE, epsilon=2.0, m=5, hashes=4, seed=3)
    wrong = CMS(universe=UNIVERSE, epsilon=1.8, m=5, hashes=4, seed=3)
    keys = children(np.uint64(SEED), np.arange(3000))
    counts = np.array([wrong.simulate_counts(POPULARITY, 120, key) for key in keys])
    with pytest.raises(AssertionError):
        assert_binomial(counts[:, 0], 120, law_of_one_report(right, POPULARITY)[0][0])


@pytest.mark.statistical
def test_simulated_counts_of_hcms():
    mechanism = MECHANISMS["hcms"]
    keys = children(np.uint64(SEED), np.arange(1500))
    counts = np.array([mechanism.simulate_counts(POPULARITY, 40, key) for key in keys])
    p, q = mechanism.p_star, mechanism.q_star
    for z in range(UNIVERSE):
        assert_binomial(counts[:, z], 40, q + (p - q) * POPULARITY[z])


def test_simulation_depends_on_its_key_alone(monkeypatch):
    mechanism = CMS(universe=UNIVERSE, epsilon=2.0, m=64, hashes=100)
    once = mechanism.simulate_counts(POPULARITY, 5000, np.uint64(4))
    # on any scale, in any chunks, on any threads
    np.testing.assert_array_equal(once, mechanism.simulate_counts(COUNTS, 5000, np.uint64(4)))
    monkeypatch.setattr("poolscope.mechanisms.sketch.BUCKETS_PER_CHUNK", 7 * UNIVERSE)
    with ThreadPoolExecutor(2) as pool:
        threads = mechanism.simulate_counts(POPULARITY, 5000, np.uint64(4), pool.map)
    np.testing.assert_array_equal(once, threads)
    assert (once != mechanism.simulate_counts(POPULARITY, 5000, np.uint64(5))).any()


def test_a_billion_reports():
    """Within 5 standard errors everywhere, of the law of this mechanism's own functions."""
    mechanism = CMS(universe=UNIVERSE, epsilon=2.0, m=16, hashes=1000)
    count = 10**9
    first, _ = law_of_one_report(mechanism, POPULARITY)
    seen = mechanism.simulate_counts(POPULARITY, count, np.uint64(SEED))
    score = (seen - count * first) / np.sqrt(count * first * (1 - first))
    assert np.abs(score).max() < 5, score


def test_simulated_estimate_is_the_estimate_of_the_counts():
    mechanism = MECHANISMS["cms"]
    found = simulate_frequencies(mechanism, POPULARITY, 10**6, np.uint64(8), method="linear")
    support = mechanism.simulate_counts(POPULARITY, 10**6, np.uint64(8))
    p, q = mechanism.p_star, mechanism.q_star
    np.testing.assert_allclose(found.counts, (support - 10**6 * q) / (p - q), rtol=1e-12)
    np.testing.assert_allclose(found.popularity, POPULARITY, atol=0.01)


# Binomial numbers


@njit
def draw_binomials(n, p, key, out):
    """One after the other from a single stream."""
    index = 0
    for i in range(out.shape[0]):
        out[i], index = binomial(n, p, key, index)


@pytest.mark.parametrize(
    ("n", "p"),
    [
        (1, 0.3),
        (5, 0.5),
        (40, 0.2),
        (40, 0.8),
        (10**9, 5e-9),
        (20, 0.5),
        (100, 0.11),
        (100, 0.95),
        (1000, 0.5),
        (1000, 0.0101),
        (10**6, 0.3),
        (10**9, 0.999),
        (2 * 10**12, 0.25),
    ],
)
def test_binomial_numbers(n, p):
    sample = np.empty(40_000, dtype=np.int64)
    draw_binomials(n, p, np.uint64(SEED), sample)
    assert sample.min() >= 0
    assert sample.max() <= n
    assert_binomial(sample, n, p)
    # neighbors in the stream share nothing
    pairs = (sample[1:] - n * p) * (sample[:-1] - n * p) / (n * p * (1 - p))
    assert_near(pairs, 0, "correlation of neighbors")


@pytest.mark.parametrize(("n", "p", "expected"), [(0, 0.5, 0), (9, 0.0, 0), (9, 1.0, 9), (10**9, 1.0, 10**9)])
def test_certain_binomials(n, p, expected):
    sample = np.empty(3, dtype=np.int64)
    draw_binomials(n, p, np.uint64(1), sample)
    np.testing.assert_array_equal(sample, expected)
