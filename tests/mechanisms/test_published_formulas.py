"""What the literature says of each mechanism: estimates, variances, parameters."""

from math import ceil, exp, log, log2

import numpy as np
import pytest
from cases.selection import mostly, statistical
from cases.synthetic import SEED
from oracle.distributions import multiply_shift
from oracle.kinds import KINDS, distribution, large, tiny
from scipy import stats

from poolscope.core.errors import InputError
from poolscope.core.randomness import children
from poolscope.inference.adversary import Adversary, stacked_pool_weights
from poolscope.inference.attack import posterior
from poolscope.kernels import unary as kernels
from poolscope.mechanisms import Likelihood, Pure, make
from poolscope.mechanisms.pure import SupportOracle
from poolscope.mechanisms.unary import best_threshold, log_variance
from poolscope.population.popularity import zipf
from poolscope.population.universe import Universe
from poolscope.reports.frequencies import frequencies, frequencies_of_objects, simulate_frequencies

COUNTED = [name for name in KINDS if KINDS[name].counted]
every_count = pytest.mark.parametrize("name", COUNTED)


def assert_near(sample, expected, what):
    """Mean over axis 0 within 4.5 standard errors of what is expected: there are many means."""
    error = 4.5 * sample.std(axis=0, ddof=1) / np.sqrt(len(sample)) + 1e-12
    gap = np.abs(sample.mean(axis=0) - expected)
    assert np.all(gap < error), f"{what}: off by {gap}, allowed {error}"


# The estimate

COUNTS = np.array([150, 90, 50, 10, 0, 0])
D, N = len(COUNTS), COUNTS.sum()


def estimator(name, epsilon):
    """Over many hash functions, so that it is unbiased for every object."""
    sketch = {"m": 16, "hashes": 1 << 16}
    own = {"cms": sketch, "hcms": sketch, "rappor": {"m": 16, "hashes": 2, "cohorts": 1 << 15}, "dbitflip": {"d": 2}}
    given = own.get(name, KINDS[name].large)
    return make(KINDS[name].of or name, D, {**given, **({"epsilon": epsilon} if KINDS[name].noisy else {})})


def subset_q(d, k, e):
    return k * (e * (k - 1) + d - k) / ((d - 1) * (e * k + d - k))


def subset_p(d, k, e):
    return k * e / (k * e + d - k)


def edge(e):
    return (e + 1) / (e - 1)


#: Variance of the count of an object that nobody has, for one report: (mechanism, e^epsilon) -> value.
TEXTBOOK = {
    "grr": lambda m, e: (m.universe - 2 + e) / (e - 1) ** 2,
    "sue": lambda m, e: e**0.5 / (e**0.5 - 1) ** 2,
    "oue": lambda m, e: 4 * e / (e - 1) ** 2,
    "the": lambda m, e: (
        (2 * e ** (m.threshold / 2) - 1) / (1 + e ** (m.threshold - 0.5) - 2 * e ** (m.threshold / 2)) ** 2
    ),
    "blh": lambda m, e: edge(e) ** 2,
    "olh": lambda m, e: (e - 1 + m.g) ** 2 / ((e - 1) ** 2 * (m.g - 1)),
    "ss": lambda m, e: (
        subset_q(m.universe, m.k, e)
        * (1 - subset_q(m.universe, m.k, e))
        / (subset_p(m.universe, m.k, e) - subset_q(m.universe, m.k, e)) ** 2
    ),
    "hr": lambda m, e: edge(e) ** 2,
    "cms": lambda m, e: (edge(e**0.5) ** 2 - (1 - 2 / m.m) ** 2) / (2 - 2 / m.m) ** 2,
    "cms-no-hash": lambda m, e: e**0.5 / (e**0.5 - 1) ** 2,
    "hcms": lambda m, e: (edge(e) ** 2 - 1 / m.m**2) / (1 - 1 / m.m) ** 2,
    "spotme": lambda m, e: m.coin * m.yes * (1 - m.coin * m.yes) / (1 - m.coin) ** 2,
}


@pytest.mark.parametrize("name", TEXTBOOK)
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0, 6.0])
def test_variance_of_a_rare_object_is_the_textbooks(name, epsilon):
    mechanism = large(name, epsilon)
    p, q = mechanism.p_star, mechanism.q_star
    assert q * (1 - q) / (p - q) ** 2 == pytest.approx(TEXTBOOK[name](mechanism, exp(epsilon)), rel=1e-10)


@pytest.mark.default_cases("grr", "oue", "she")
@every_count
def test_estimate_is_unbiased_with_the_stated_variance(name):
    mechanism = estimator(name, 2.0)
    objects, rng = np.repeat(np.arange(D), COUNTS), np.random.default_rng(SEED)
    counts = np.array([frequencies(mechanism, mechanism.obfuscate(objects, rng)).counts for _ in range(500)])
    assert_near(counts, COUNTS, name)
    p, q, _ = mechanism.rates
    variance = mechanism.score_sum_variance(COUNTS, N) / (p - q) ** 2
    assert_near((counts - COUNTS) ** 2, variance, name)
    if not mechanism.binary_scores:
        return
    frequency = COUNTS / N
    # the same in the form of Wang et al., equation (2)
    wang = N * q * (1 - q) / (p - q) ** 2 + N * frequency * (1 - p - q) / (p - q)
    np.testing.assert_allclose(variance, wang)


LISTED = [(name, 40) for name in COUNTED if KINDS[name].listed]


@pytest.mark.parametrize(
    ("name", "reports"),
    mostly(statistical, [*LISTED, ("hcms", 8), ("cms", 300)], ("grr", 40), ("oue", 40), ("hcms", 8)),
)
def test_simulated_counts_have_the_law_of_reports(name, reports):
    """Means and covariances of the counts, closed laws and report by report alike; a sketch by few and many reports."""
    mechanism, popularity = tiny(name, 1.5), np.array([0.5, 0.3, 0.2, 0.0])
    chance = distribution(name, 1.5) @ popularity
    scores = mechanism.scores(KINDS[name].every()).astype(float)
    mean = chance @ scores
    covariance = (scores.T * chance) @ scores - np.outer(mean, mean)
    keys = children(np.uint64(SEED), np.arange(1500))
    counts = np.array([mechanism.simulate_counts(popularity, reports, key) for key in keys])
    assert_near(counts, reports * mean, name)
    centered = counts - reports * mean
    assert_near(centered[:, :, None] * centered[:, None, :], reports * covariance, name)


def test_a_likelihood_alone_is_estimated_by_it():
    """A coin that lies in one of four reports: 250 of 400 reports of the first object mean 300."""

    class Coin(Likelihood):
        universe, epsilon = 2, 1.0

        def report(self, objects, keys):
            return {"value": np.asarray(objects)}

        def log_likelihood(self, reports):
            return np.log(np.where(reports["value"][:, None] == np.arange(2), 0.75, 0.25))

    found = frequencies(Coin(), {"value": np.repeat([0, 1], [250, 150])})
    np.testing.assert_allclose(found.counts, [300, 100], rtol=0.01)
    assert simulate_frequencies(Coin(), np.ones(2), 5, np.uint64(1)).counts.sum() == pytest.approx(5)
    assert frequencies_of_objects(Coin(), np.zeros(3, dtype=int), np.uint64(1)).counts.sum() == pytest.approx(3)


# Parameters

EPSILONS = (0.05, 0.5, 1.0, 2.0, 3.7, 6.0)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_olh_has_the_best_number_of_values(epsilon):
    e, values = exp(epsilon), np.arange(2, 2000)
    variance = (e - 1 + values) ** 2 / ((e - 1) ** 2 * (values - 1))
    g = make("olh", 10, {"epsilon": epsilon}).g
    assert g == round(e) + 1
    assert abs(g - values[variance.argmin()]) <= 1
    assert variance[g - 2] <= variance.min() * 1.05


def test_olh_takes_no_more_values_than_it_can_hash_evenly():
    assert make("olh", 10, {"epsilon": 30.0}).g == make("olh", 10, {"epsilon": np.inf}).g == 1 << 24


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("d", [2, 3, 10, 257])
def test_ss_has_the_best_size(epsilon, d):
    sizes = np.arange(1, d)
    p, q = subset_p(d, sizes, exp(epsilon)), subset_q(d, sizes, exp(epsilon))
    variance = q * (1 - q) / (p - q) ** 2
    k = make("ss", d, {"epsilon": epsilon}).k
    assert variance[k - 1] == pytest.approx(variance.min(), rel=1e-12)
    with pytest.raises(InputError, match="at least 2 objects"):
        make("ss", 1, {"epsilon": epsilon})


def acharya_blocks(d, epsilon):
    """Blocks, their order and the size of a support, as published for the general form."""
    blocks = 2 ** (ceil(log2(min(exp(epsilon), 2 * d))) - 1)
    order = 2 ** ceil(log2(d / blocks + 1))
    return blocks, order, order // 2


@pytest.mark.parametrize("epsilon", [1.01, 1.5, 2.0, 3.0, 6.0])
@pytest.mark.parametrize("d", [2, 3, 31, 130, 2600])
def test_hr_has_the_published_blocks(epsilon, d):
    """But for those that no object falls in."""
    mechanism = make("hr", d, {"epsilon": epsilon})
    blocks, order, _ = acharya_blocks(d, epsilon)
    assert mechanism.order == order
    assert mechanism.blocks == -(-d // (order - 1)) <= blocks
    assert make("hr", d, {"epsilon": epsilon, "blocks": mechanism.blocks}) == mechanism, "they are settled"


def test_hr_has_one_block_where_privacy_is_high():
    assert [make("hr", 130, {"epsilon": e}).blocks for e in (0.1, 1.0)] == [1, 1]


@pytest.mark.parametrize("epsilon", [2.0, 4.0])
def test_hr_gains_from_blocks(epsilon):
    """At low privacy the general form has less variance than one block, and hardly more than the best mechanism."""

    def variance(name, **parameters):
        mechanism = make(name, 2600, {"epsilon": epsilon, **parameters})
        gap = mechanism.own_mean - mechanism.other_mean
        return mechanism.score_sum_variance(np.full(2600, 1.0), 2600).mean() / gap**2 / 2600

    assert variance("hr") < variance("hr", blocks=1) / (1.25 if epsilon == 2 else 5)
    assert variance("ss") < variance("hr") < 3 * variance("ss")


@pytest.mark.parametrize("epsilon", [*EPSILONS, 20.0, 600.0])
def test_the_has_the_best_threshold(epsilon):
    grid = np.linspace(0.5, 1, 20_001)
    best = min(log_variance(float(t), epsilon) for t in grid)
    assert log_variance(best_threshold(epsilon), epsilon) <= best + 1e-12
    mechanism = make("the", 10, {"epsilon": epsilon})
    assert mechanism.threshold == best_threshold(epsilon)
    assert mechanism.ratio < exp(epsilon)
    p, q = mechanism.p_star, mechanism.q_star
    assert log_variance(mechanism.threshold, epsilon) == pytest.approx(log(q * (1 - q) / (p - q) ** 2), rel=1e-10)


def test_the_approaches_two_thirds():
    assert make("the", 10, {"epsilon": 600.0}).p_star == pytest.approx(2 / 3, rel=1e-6)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_oue_is_the_best_unary_encoding(epsilon):
    """Among all p with the same odds."""
    p = np.linspace(0.01, 0.99, 99)
    q = p / (p + (1 - p) * exp(epsilon))
    variance = q * (1 - q) / (p - q) ** 2
    assert p[variance.argmin()] == pytest.approx(0.5)
    oue = make("oue", 10, {"epsilon": epsilon})
    assert (oue.p_star, oue.q_star) == pytest.approx((0.5, q[49]))


@pytest.mark.parametrize("epsilon", [*EPSILONS, np.inf])
def test_relatives(epsilon):
    """Where two mechanisms are one."""

    def stars(name, universe=20, **parameters):
        mechanism = make(name, universe, {"epsilon": epsilon, **parameters})
        return pytest.approx((mechanism.p_star, mechanism.q_star), rel=1e-12)

    assert stars("spotme").expected == stars("sue")
    assert stars("cms-no-hash").expected == stars("sue")
    assert stars("ss", k=1).expected == stars("grr")
    assert stars("hr", blocks=1).expected == stars("blh")


@pytest.mark.slow
def test_spotme_as_published():
    """Yes with probability lambda, else the truth: the true location always, others by chance, no finite epsilon."""
    mechanism = make("spotme", 40, {"coin": 0.3, "yes": 1.0})
    assert (mechanism.p_star, mechanism.q_star, mechanism.epsilon) == (1.0, 0.3, np.inf)
    objects = np.random.default_rng(SEED).integers(40, size=5000)
    reports = mechanism.obfuscate(objects, np.random.default_rng(SEED))
    support = mechanism.support(reports)
    assert support[np.arange(5000), objects].all()
    share = (support.sum() - 5000) / (5000 * 39)
    assert abs(share - 0.3) < 4 * np.sqrt(0.21 / (5000 * 39))
    universe = Universe.sized(40, {"a": 5, "b": 5})
    run_chains = {"bits": np.packbits(np.arange(40) >= 5, bitorder="little")[None]}
    found = posterior(mechanism, run_chains, Adversary.weak(universe))[-1]
    own, other = 0.75, 0.25  # the mean polarization; of the neutral pool both alike
    assert found[0] == pytest.approx((1 + other) / (2 + own + other)), "pool a is ruled out as the source"


@pytest.mark.parametrize("yes", [0.5, 0.1, 0.9])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 8.0])
def test_spotme_spends_its_epsilon(epsilon, yes):
    mechanism = make("spotme", 10, {"epsilon": epsilon, "yes": yes})
    assert mechanism.epsilon == pytest.approx(epsilon, rel=1e-10)
    assert make("spotme", 10, {"coin": mechanism.coin, "yes": yes}) == mechanism


def test_rappor_as_published():
    """f = 1/2, p = 1/2, q = 3/4 and two functions; a bit's two steps one after the other."""
    mechanism = make("rappor", 50, {"f": 0.5, "p": 0.5, "q": 0.75})
    for bit, one in ((1, 1 - mechanism.prob_1_to_0), (0, mechanism.prob_0_to_1)):
        permanent = 0.5 / 2 + 0.5 * bit
        assert one == pytest.approx(permanent * 0.75 + (1 - permanent) * 0.5)
    assert mechanism.epsilon == pytest.approx(2 * log((11 / 16 * 7 / 16) / (9 / 16 * 5 / 16)))


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 8.0])
@pytest.mark.parametrize("hashes", [1, 2, 5])
def test_rappor_from_its_epsilon(epsilon, hashes):
    mechanism = make("rappor", 50, {"epsilon": epsilon, "hashes": hashes})
    assert mechanism.epsilon == pytest.approx(epsilon)
    assert 2 * hashes * log((2 - mechanism.f) / mechanism.f) == pytest.approx(2 * epsilon), "of all reports together"
    assert mechanism.prob_1_to_0 == pytest.approx(mechanism.prob_0_to_1)
    one_step = make("rappor", 50, {"epsilon": epsilon, "hashes": hashes, "f": 0.0})
    assert one_step.epsilon == pytest.approx(epsilon)
    assert one_step.prob_0_to_1 == pytest.approx(mechanism.prob_0_to_1)


@pytest.mark.parametrize("start", [0.0, 0.4, 0.9])
@pytest.mark.parametrize("included", [0.0, 0.7, 1.0])
def test_subsets_are_uniform_wherever_they_start(start, included):
    """What is added and what is removed are alike: subsets of three of six objects, with and without the object 1."""
    keys, out = children(np.uint64(SEED), np.arange(6000)), np.empty((6000, 1), dtype=np.uint64)
    own = np.ones(6000, dtype=np.int64)
    kernels.choose_subsets(own, keys, 6, 3, included, np.uint64(start * 2.0**64), out)
    seen = np.bincount(out[:, 0].astype(np.int64), minlength=64)
    for holds, chance in ((1, included), (0, 1 - included)):
        subsets = [s for s in range(64) if s.bit_count() == 3 and s >> 1 & 1 == holds]
        assert abs(seen[subsets].sum() - 6000 * chance) <= 4 * np.sqrt(6000 * chance * (1 - chance))
        assert not seen[subsets].sum() or stats.chisquare(seen[subsets]).pvalue > 1e-4
    assert seen[[s for s in range(64) if s.bit_count() != 3]].sum() == 0


# Local hashing


@pytest.mark.default_cases("*-2", "*-7")
@pytest.mark.parametrize("g", [2, 7, 56])
@pytest.mark.parametrize("other", [1, 2, 77_777])
def test_hashes_of_two_objects_are_independent(g, other):
    """Strongly universal: over the seeds, all pairs of values are alike."""
    seeds = np.random.default_rng(SEED).integers(1 << 63, size=40 * g * g).tolist()
    pairs = [multiply_shift(s, 0, g) * g + multiply_shift(s, other, g) for s in seeds]
    assert stats.chisquare(np.bincount(pairs, minlength=g * g)).pvalue > 1e-4


def test_seeds_fill_their_column():
    mechanism = make("olh", 10, {"epsilon": 1.0})
    seed = mechanism.obfuscate(np.zeros(2000, dtype=int), np.random.default_rng(SEED))["seed"]
    assert seed.min() >= 0
    assert stats.kstest(seed / 2.0**63, stats.uniform.cdf).pvalue > 1e-4


@pytest.mark.default_cases("olh")
@pytest.mark.parametrize("name", ["olh", "hr"])
def test_large_universes(name):
    universe = Universe.sized(100_000, {"a": 5000, "b": 20_000, "c": 1})
    mechanism = make(name, universe.size, {"epsilon": 3.0})
    oracle = Adversary(name="oracle", universe=universe, popularity=zipf(universe, 1.0))
    view, _ = stacked_pool_weights([oracle, Adversary.weak(universe)])
    objects, keys = np.arange(99_800, 100_000), children(np.uint64(SEED), np.arange(200))
    reports = mechanism.report(objects, keys)
    mass = np.empty((len(objects), view.width))
    mechanism.sent_masses(objects, keys, view, np.arange(len(objects)), mass)
    np.testing.assert_allclose(mass, Pure.mass(mechanism, reports, view), atol=1e-12)
    expected = SupportOracle.support_counts(mechanism, reports)
    np.testing.assert_array_equal(mechanism.support_counts(reports), expected)
