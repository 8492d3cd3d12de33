"""The posterior against the oracle for few reports, and against an exact Gauss rule for many."""

from pathlib import Path

import numpy as np
import pytest
from cases.synthetic import SEED
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from oracle import reference
from scipy import special, stats

from poolscope.core.errors import InputError
from poolscope.inference.adversary import Adversary
from poolscope.inference.attack import posterior
from poolscope.inference.posterior import posterior_of_likelihood
from poolscope.mechanisms import CMS
from poolscope.population.behavior import Behavior
from poolscope.population.priors import Beta, FunctionDensity
from poolscope.population.universe import Universe

EXAMPLE = Path(__file__).resolve().parents[2] / ".." / "shared" / "oracle" / "cms_example.npz"
EPSILONS = (1e-3, 0.1, 1.0, 4.0, 8.0, 30.0, np.inf)


# Few reports: the oracle


@st.composite
def worlds(draw):
    """Pools of one to three objects, zeros and ties in the popularity, few distinct supports.

    Returns pool_of, popularity, epsilon and support (n, objects).
    """
    sizes = draw(st.lists(st.integers(1, 3), min_size=2, max_size=4))
    pool_of = np.repeat(np.arange(-1, len(sizes)), [draw(st.integers(0, 3)), *sizes])
    popularity = np.array(draw(st.lists(st.integers(0, 3), min_size=9, max_size=15)), dtype=float)
    popularity = np.resize(popularity, pool_of.size)
    for pool in np.unique(pool_of):
        popularity[np.argmax(pool_of == pool)] += 1
    order = draw(st.permutations(range(pool_of.size)))
    bits = st.lists(st.booleans(), min_size=pool_of.size, max_size=pool_of.size)
    kinds = np.array(draw(st.lists(bits, min_size=1, max_size=4)))
    n = draw(st.sampled_from([0, 1, 2, 5, 15, 17, 25, 40]))
    pick = np.random.default_rng(draw(st.integers(0, 99))).integers(len(kinds), size=n)
    support = kinds[pick].reshape(n, pool_of.size)
    return pool_of[order], popularity[order], draw(st.sampled_from(EPSILONS)), support


def mass_of(pool_of, popularity, support):
    """Popularity mass of each support within the neutral pool and each pool, (n, k + 1)."""
    k = pool_of.max() + 1
    parts = np.stack([popularity * (pool_of == part) for part in range(-1, k)])
    total = parts.sum(axis=1, keepdims=True)
    return support @ (parts / np.where(total > 0, total, 1)).T


@settings(max_examples=12, derandomize=True)
@given(worlds())
@example((np.array([0, 0, 1]), np.array([1.0, 2.0, 1.0]), 1.0, np.eye(3, dtype=bool)))
@example((np.array([0, 0, 1]), np.array([1.0, 2.0, 1.0]), np.inf, np.diag([True, False, True])))
def test_posterior_is_the_oracles(world):
    pool_of, popularity, epsilon, support = world
    likelihood_offset, likelihood_scale = np.exp(-epsilon), -np.expm1(-epsilon)
    mass = mass_of(pool_of, popularity, support)
    likelihood = likelihood_offset + likelihood_scale * mass
    if pool_of.min() < 0:
        ours = posterior_of_likelihood(mass, likelihood_offset=likelihood_offset, likelihood_scale=likelihood_scale)
        np.testing.assert_allclose(ours, posterior_of_likelihood(likelihood), atol=1e-13)
    else:
        likelihood[:, 0] = 0
        ours = posterior_of_likelihood(likelihood)
    possible = likelihood.max(axis=1, initial=0) > 0
    for n in {len(support), len(support) // 2}:
        if possible[:n].all():
            expected = oracle(epsilon, support[:n], popularity, pool_of)
            np.testing.assert_allclose(ours[n], expected, rtol=0, atol=1e-11)
        else:
            assert np.isnan(ours[n]).all()


def oracle(epsilon, support, popularity, pool_of):
    """The oracle's posterior after reports of these supports."""
    with mp.workdps(reference.DIGITS):
        outside = mp.exp(-mpf(epsilon))
    likelihood = [[mpf(1) if hit else outside for hit in row] for row in support]
    return reference.posterior(likelihood, popularity.tolist(), pool_of.tolist(), int(pool_of.max()) + 1)


@pytest.mark.parametrize("neutral", [0, 2])
@pytest.mark.parametrize("epsilon", [1.0, 4.0, np.inf])
def test_attack_with_and_without_a_neutral_pool(neutral, epsilon):
    pool_of = np.repeat([0, 1, 2, -1], [2, 1, 3, neutral])
    popularity = 1.0 + np.arange(pool_of.size) % 3
    universe = Universe(size=pool_of.size, pool_names=("a", "b", "c"), pool_of=pool_of)
    mechanism = CMS(universe=universe.size, epsilon=epsilon, m=5, hashes=3)
    rng = np.random.default_rng(6)
    reports = mechanism.obfuscate(rng.integers(pool_of.size, size=20), rng)
    adversary = Adversary(name="oracle", universe=universe, popularity=popularity)
    expected = oracle(epsilon, mechanism.support(reports), popularity, pool_of)
    ours = posterior(mechanism, reports, adversary)[-1]
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-11)


@pytest.fixture(scope="module")
def stored():
    if not EXAMPLE.exists():
        pytest.skip(f"the stored example {EXAMPLE.name} is not beside the repository")
    with np.load(EXAMPLE, allow_pickle=False) as data:
        return dict(data)


@pytest.mark.parametrize("n", [3, 12, 40])
@pytest.mark.parametrize("name", ["weak", "strong"])
@pytest.mark.parametrize("prior", ["", "nojac_"])
def test_stored_example(stored, n, name, prior):
    table, pool_of = stored["hash_table"], stored["pool_of_object"]
    k = int(pool_of.max()) + 1
    universe = Universe(size=len(pool_of), pool_names=tuple("abcdef"[:k]), pool_of=pool_of)
    m = int(stored["m"])
    mechanism = CMS(universe=universe.size, epsilon=float(stored["eps"]), m=m, hash_table=table)
    # the as-published adversary weighs gamma with density 2 gamma: it integrated without the Jacobian
    belief = Behavior(interest=Beta(a=2.0, b=1.0)) if prior else Behavior()
    adversary = Adversary.weak(universe, belief)
    if name == "strong":
        popularity = stored["popularity"]
        adversary = Adversary(name=name, universe=universe, popularity=popularity, belief=belief)
    bits, j = stored[f"n{n}_bits"], stored[f"n{n}_j"]
    packed = np.packbits(bits.reshape(-1, m).astype(np.uint8), axis=1, bitorder="little")
    reports = {"hash": j.ravel(), "bits": packed}
    ours = posterior(mechanism, reports, adversary, lengths=np.full(len(j), n))[:, n]
    expected = stored[f"n{n}_posterior_{prior}{name}"]
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-12)


# Many reports: an exact rule, as the integrand is a polynomial


def legendre(nodes):
    """Nodes, complements and weights on (0, 1)."""
    x, w = special.roots_legendre(nodes)
    return (1 + x) / 2, (1 - x) / 2, w / 2


def jacobi(a, b):
    def rule(nodes):
        x, w = special.roots_jacobi(nodes, b - 1, a - 1)
        return (1 + x) / 2, (1 - x) / 2, w / w.sum()

    return rule


def exact(types, sequence, after, rule_gamma=legendre, rule_delta=legendre):
    """Posterior after given numbers of reports, (len(after), k), by ceil((n+1)/2) nodes an axis.

    types (kinds, k + 1) are likelihoods, sequence (n,) the kind of each report. In logarithms, a
    strip of gammas at a time.
    """
    types = np.asarray(types, dtype=float)
    types = types / types.max(axis=1, keepdims=True)
    k, nodes = types.shape[1] - 1, len(sequence) // 2 + 1
    (g, g_left, w_g), (u, u_left, w_u) = rule_gamma(nodes), rule_delta(nodes)
    count = np.array([np.bincount(sequence[:n], minlength=len(types)) for n in after])
    score = np.full((len(after), k), -np.inf)
    strip = max(1, 2_000_000 // nodes)
    for start in range(0, nodes, strip):
        rows = slice(start, start + strip)
        corner = g_left[rows, None], np.outer(g[rows], u_left), np.outer(g[rows], u)
        weight = np.log(w_g[rows, None]) + np.log(w_u)
        for i in range(k):
            logs = [
                np.log(kind[0] * corner[0] + kind[1:].mean() * corner[1] + kind[i + 1] * corner[2]) for kind in types
            ]
            for row, counts in enumerate(count):
                total = sum((c * log for c, log in zip(counts, logs, strict=True)), weight)
                top = total.max()
                part = top + np.log(np.exp(total - top).sum())
                score[row, i] = np.logaddexp(score[row, i], part)
    return special.softmax(score, axis=1)


def runs(*counts):
    return np.repeat(np.arange(len(counts)), counts)


def mixed(n, *shares):
    rng = np.random.default_rng([SEED, n, len(shares)])
    return rng.choice(len(shares), size=n, p=np.array(shares) / sum(shares))


def one_hot(k, ratio):
    """Kind c has likelihood 1 in column c and 1/ratio elsewhere."""
    return np.where(np.eye(k + 1), 1.0, 1 / ratio)


def balanced(k, d):
    """Hits and misses that leave every pool as likely as the neutral one on average."""
    hit, miss = np.ones(k + 1), np.ones(k + 1)
    hit[1:3] += (3 * d, -3 * d)
    miss[1:3] += (-d, d)
    return np.stack([hit, miss])


RNG = np.random.default_rng(20220810)
FAMILIES = {
    "identity": (one_hot(3, np.inf), mixed(200, 4, 3, 2, 1)),
    "identity, long": (one_hot(2, np.inf), mixed(1000, 1, 3, 2)),
    "identity, 50 pools": (one_hot(50, np.inf), mixed(200, *range(1, 52))),
    "ratio 1e3": (one_hot(4, 1e3), mixed(1000, 3, 3, 2, 1, 1)),
    "ratio 1e-3": (1 / one_hot(4, 1e3), mixed(1000, 3, 3, 2, 1, 1)),
    "ratio 1e8": (one_hot(2, 1e8), mixed(1000, 5, 3, 2)),
    "nearly equal": (1 + 1e-3 * RNG.random((3, 7)), mixed(1000, 1, 1, 1)),
    "hits and misses in turn": ([[1, 1, 1e-3], [1, 1e-3, 1]], np.arange(1000) % 2),
    "runs of opposites": (one_hot(2, 1e8), runs(0, 500, 500)),
    "runs that end elsewhere": (one_hot(3, 1e8), runs(100, 300, 350, 250)),
    "run of zeros, then hits": (one_hot(2, np.inf), runs(0, 400, 600)),
    "balanced": (balanced(2, 0.3), np.arange(1000) % 4 > 0),
    "random, 3 kinds": (RNG.random((3, 21)) ** 2, mixed(200, 3, 2, 1)),
    "random, 50 pools": (np.exp(-5 * RNG.random((3, 51))), mixed(200, 1, 1, 2)),
}
# The worst that a search over some thousand likelihoods found. In the first ones the integrand
# follows the axes of gamma (k delta - 1) = 0: the lines through its peak tell little of its width.
WORST = {
    "a miss like neutral": ([[1, 1, 0.316]], runs(1000)),
    "two misses like neutral": ([[1, 1, 0.2417, 0.3947]], runs(1000)),
    "faint misses": ([[1, 1, 0.9]], runs(1000)),
    "a faint alternative": ([[1, 0.999, 0.95]], runs(1000)),
    "one pool of ten never": ([[1] * 9 + [1e-8, 1]], runs(200)),
    "a late turn": ([[1, 0.16313, 0.03793], [1, 0.92394, 0.27041], [0.0029, 0.55312, 1]], runs(68, 45, 37)),
    "neutral, then all else": ([[1, 0.25161, 0.25161, 1], [0.06457, 0.09044, 0.09044, 1]], runs(130, 87)),
    "one, then the other": ([[0.2426, 0.33316, 1, 0.90195], [1, 0.20375, 0.00746, 0.13534]], runs(86, 64)),
    "three runs": ([[0.07555, 0.70958, 1], [0.51242, 1, 0.70187], [1, 0.0004, 0.00598]], runs(40, 63, 47)),
    "neutral, then a pool": ([[1, 0.16953, 1], [4e-6, 1, 4e-6]], runs(70, 80)),
    "seen by the mean": ([[1.767, 1.1015, 1.206, 1.747, 0.9802]], runs(150)),
    # the peak leaves an end of the axis, and its curvature doubles
    "away from neutral": ([[1, 0.03607, 0.145616], [0, 0.986305, 1]], runs(120, 40)),
    "away, more slowly": ([[1, 0.001044, 0.005286], [0.117062, 0.18678, 1]], runs(63, 196)),
    # few lines along the other axis tell too little of a sharp one
    "three kinds in turn": (
        [[1, 0.827375, 0.292036], [5.55e-05, 0, 1], [0.386586, 1, 0.0928707]],
        np.arange(200) // 4 % 3,
    ),
    "three kinds, more slowly": (
        [[0.0768109, 0.648016, 1], [0.0932156, 1, 0.0153915], [2.94e-4, 5.108e-4, 1]],
        np.arange(200) // 16 % 3,
    ),
    "zeros and a turn": ([[1, 0.895278, 0], [1, 0.03607, 0.145616], [0, 0.986305, 1]], runs(40, 80, 60)),
}


def assert_exact(types, sequence, *, belief=None, rules=(legendre, legendre), bound=1e-10):
    n = len(sequence)
    sequence = np.asarray(sequence, dtype=int)
    few = n * np.shape(types)[1] < 1500
    after = list(range(n + 1)) if few else [n // 7, n // 3, n // 2 + 5, n - 1, n]
    ours = posterior_of_likelihood(np.asarray(types, dtype=float)[sequence], belief=belief)[after]
    error = np.abs(ours - exact(types, sequence, after, *rules)).max(axis=1)
    worst = int(error.argmax())
    assert error[worst] < bound, f"off by {error[worst]:.1e} after {after[worst]} reports"


@pytest.mark.default_cases("identity", "ratio 1e3", "runs of opposites", "random, 50 pools")
@pytest.mark.parametrize("name", FAMILIES)
def test_many_reports(name):
    assert_exact(*FAMILIES[name])


@pytest.mark.parametrize("name", WORST)
def test_worst_that_was_found(name):
    assert_exact(*WORST[name])


def some_type(rng, k):
    """A kind of report as a search would try it: random, one-sided, with zeros, or like neutral."""
    kind = rng.integers(5)
    found = np.exp(-rng.choice([0.1, 1, 4, 10, 20]) * rng.random(k + 1))
    if kind == 0:
        found = np.full(k + 1, 10.0 ** -rng.integers(0, 9))
        found[rng.integers(k + 1)] = 1
    elif kind == 1:
        found[rng.integers(k + 1)] = 0
    elif kind == 2:
        found[1:] = found[1]
    elif kind == 3:
        found[0] = found[1:].mean()
    return found


@pytest.mark.default_cases("[0-2]")
@pytest.mark.parametrize("seed", range(12))
def test_a_search_for_worse(seed):
    """Random kinds of reports in runs, mixed or both, each changed some times towards a larger error."""
    rng = np.random.default_rng([SEED, seed])
    k, n = int(rng.choice([2, 3, 5, 12])), int(rng.choice([60, 120, 200]))
    types = np.array([some_type(rng, k) for _ in range(3)])
    sequence = np.repeat(np.arange(3), np.diff([0, *np.sort(rng.integers(n, size=2)), n]))
    rng.shuffle(sequence[: int(rng.choice([0, n // 2, n]))])
    after = np.linspace(1, n, 12).astype(int).tolist()

    def error(types):
        return np.abs(posterior_of_likelihood(types[sequence])[after] - exact(types, sequence, after)).max()

    worst = error(types)
    for _ in range(12):
        other = types * np.exp(rng.normal(0, 0.5, size=types.shape))
        types, worst = max((types, worst), (other, error(other)), key=lambda pair: pair[1])
    assert worst < 1e-10, types.tolist()


@pytest.mark.slow
def test_ten_thousand_reports():
    assert_exact([[0.9, 1, 0.6], [1, 0.8, 0.95]], mixed(10_000, 1, 3))


@pytest.mark.default_cases("ratio 1e3-1.0-0.5", "seen by the mean-20.0-3.0", "balanced-0.05-1.0")
@pytest.mark.parametrize(("a", "b"), [(0.5, 0.5), (20.0, 3.0), (2.0, 1.0), (1.0, 0.5), (0.05, 1.0)])
@pytest.mark.parametrize("name", ["identity", "ratio 1e3", "seen by the mean", "balanced"])
def test_many_reports_under_beta_priors(name, a, b):
    types, sequence = {**FAMILIES, **WORST}[name]
    belief = Behavior(interest=Beta(a=a, b=b), polarization=Beta(a=b, b=a))
    assert_exact(types, sequence[-200:], belief=belief, rules=(jacobi(a, b), jacobi(b, a)))


# Priors


@pytest.mark.parametrize(("a", "b"), [(2, 1), (20, 20), (300, 5)])
def test_density_given_as_a_function(a, b):
    types, sequence = FAMILIES["ratio 1e3"]
    likelihood = types[sequence[:180]]
    function = FunctionDensity(lambda x: 7 * stats.beta.pdf(x, a, b), resolution=512)
    beta = Beta(a=float(a), b=float(b))
    as_function = posterior_of_likelihood(likelihood, belief=Behavior(interest=function, polarization=function))
    as_beta = posterior_of_likelihood(likelihood, belief=Behavior(interest=beta, polarization=beta))
    np.testing.assert_allclose(as_function, as_beta, rtol=0, atol=1e-10)


def test_pool_prior_is_a_factor():
    likelihood = FAMILIES["random, 3 kinds"][0][mixed(60, 1, 1, 1)]
    weights = np.arange(20.0)
    uniform = posterior_of_likelihood(likelihood)
    expected = uniform * weights / (uniform * weights).sum(axis=1, keepdims=True)
    belief = Behavior(pools=tuple(weights))
    np.testing.assert_allclose(posterior_of_likelihood(likelihood, belief=belief), expected, atol=1e-14)


# Shape, prefixes, impossible reports


@pytest.mark.default_cases("mild-20", "mild-127", "extreme-192")
@pytest.mark.parametrize("n", [20, 30, 100, 127, 192, 384])
@pytest.mark.parametrize("kind", ["mild", "extreme"])
def test_posterior_of_a_prefix_has_the_same_bits(n, kind):
    rng = np.random.default_rng(7)
    scale = {"mild": 1.0, "extreme": 18.0}[kind]
    types = np.exp(-scale * rng.random((40, 4, 5)))
    pick = rng.integers(4, size=(40, max(180, n + 4))) * (rng.random((40, 1)) < 0.7)
    likelihood = np.take_along_axis(types, pick[:, :, None], axis=1)
    whole = posterior_of_likelihood(likelihood)
    np.testing.assert_array_equal(posterior_of_likelihood(likelihood[:, :n]), whole[:, : n + 1])


def test_users_of_different_lengths_do_not_touch_each_other():
    likelihood = np.random.default_rng(4).random((4, 50, 3))
    lengths = [0, 13, 16, 50]
    ours = posterior_of_likelihood(likelihood, lengths=lengths)
    for user, n in enumerate(lengths):
        np.testing.assert_array_equal(ours[user, : n + 1], posterior_of_likelihood(likelihood[user, :n]))
        np.testing.assert_array_equal(ours[user, n:], np.repeat(ours[user, n : n + 1], 51 - n, 0))


@pytest.mark.parametrize("when", [0, 15, 16, 39])
def test_nan_from_an_impossible_report_on(when):
    likelihood = np.random.default_rng(5).random((2, 60, 3))
    expected = posterior_of_likelihood(likelihood[0])
    likelihood[0, when] = 0
    ours = posterior_of_likelihood(likelihood)
    np.testing.assert_array_equal(ours[0, : when + 1], expected[: when + 1])
    assert np.isnan(ours[0, when + 1 :]).all(), np.flatnonzero(~np.isnan(ours[0, :, 0]))
    assert np.isfinite(ours[1]).all()


@pytest.mark.parametrize(
    ("likelihood", "options", "words"),
    [
        (np.ones((3, 2)), {}, "two pools or more"),
        (np.ones(3), {}, "two pools or more"),
        (np.full((2, 3), np.nan), {}, "finite and not negative"),
        (np.full((2, 3), -1.0), {}, "finite and not negative"),
        (np.full((2, 3), np.inf), {}, "finite and not negative"),
        (np.ones((2, 3, 3)), {"lengths": [1, 4]}, "between 0 and 3"),
        (np.ones((2, 3, 3)), {"lengths": [1]}, "one for each user"),
        (np.ones((2, 3)), {"belief": Behavior(pools=(1.0, 1.0, 1.0))}, "one for each of 2 pools"),
    ],
)
def test_bad_input(likelihood, options, words):
    with pytest.raises(InputError, match=words):
        posterior_of_likelihood(likelihood, **options)
