"""Beta priors so peaked that Gamma functions overflow: rules, posteriors, and that no failure passes as the prior."""

import numpy as np
import pytest
from cases.synthetic import SEED
from mpmath import mp, mpf
from oracle import beta_priors

from poolscope.core.errors import InputError, PoolscopeError
from poolscope.game.game import play
from poolscope.inference.adversary import Adversary
from poolscope.inference.memoized.attack import exact_scores, occupancy_scores
from poolscope.inference.memoized.occupancy import normalized
from poolscope.inference.posterior import behavior_posterior, posterior_of_likelihood
from poolscope.inference.quadrature import axis, high_polynomials
from poolscope.mechanisms import GRR
from poolscope.population.behavior import Behavior
from poolscope.population.popularity import uniform
from poolscope.population.priors import MAX_PARAMETER, MIN_PARAMETER, Beta, FunctionDensity
from poolscope.population.recorded import fitted_behavior
from poolscope.population.universe import Universe
from poolscope.scenario.build import build_game
from poolscope.scenario.scenario import parse

PEAKED = [
    *[(1100.0, 1.0), (1.0, 1100.0), (0.5, 1e5), (1e5, 0.5), (3e4, 3e4), (2000.0, 1.0)],
    *[(MAX_PARAMETER, MAX_PARAMETER), (MIN_PARAMETER, MAX_PARAMETER), (MAX_PARAMETER, MIN_PARAMETER)],
    *[(MIN_PARAMETER, MIN_PARAMETER), (3.0, 1e9)],
]
peaked = pytest.mark.parametrize("prior", PEAKED, ids=lambda p: f"{p[0]:g},{p[1]:g}")

COUNTS, K = (7, 30, 60, 180), 3


def beliefs(interest, polarization=(1.0, 1.0)):
    (a, b), (c, d) = interest, polarization
    return Behavior(interest=Beta(a=a, b=b), polarization=Beta(a=c, b=d))


@pytest.fixture(scope="module")
def cases():
    """Reports as integer likelihoods, and the coefficients of their products: noisy ones, and some without noise."""
    rng = np.random.default_rng(SEED)
    noisy = rng.integers(1, 9, size=(60, K + 1))
    shown = np.eye(K + 1, dtype=np.int64)[rng.choice(K + 1, size=180, p=[0.4, 0.3, 0.2, 0.1])]
    pools = np.eye(K + 1, dtype=np.int64)[rng.choice(K + 1, size=60, p=[0.0, 0.5, 0.3, 0.2])]
    tables = {"noisy": noisy, "epsilon = infinity": shown, "epsilon = infinity, no neutral object": pools}
    found = {}
    for name, table in tables.items():
        counts = [n for n in COUNTS if n <= len(table)]
        found[name] = table, beta_priors.coefficients(table, counts)
    return found


@pytest.mark.default_cases("1-*", "20-*", "104-1,1100", "104-30000,30000", "104-1e-06,1e+18", "300-30000,30000")
@peaked
@pytest.mark.parametrize("nodes", [1, 2, 20, 104, 300])
def test_rules_integrate_polynomials_exactly(prior, nodes):
    """Moments E[x^j (1-x)^(m-j)], relative, although some are beyond any double."""
    x, complement, weight = Beta(a=prior[0], b=prior[1]).rule(nodes)
    assert np.all((x >= 0) & (x <= 1) & (complement >= 0) & (complement <= 1) & (weight >= 0))
    np.testing.assert_allclose(x + complement, 1, atol=1e-15)
    assert weight.sum() == pytest.approx(1, abs=1e-14)
    with mp.workdps(60):
        a, b = mpf(prior[0]), mpf(prior[1])
        degree = min(2 * nodes - 1, 180)
        for j in {0, 1, degree // 2, degree}:
            expected = mp.rf(a, j) * mp.rf(b, degree - j) / mp.rf(a + b, degree)
            points = zip(x, complement, weight, strict=True)
            got = mp.fsum(mpf(w) * mpf(p) ** j * mpf(c) ** (degree - j) for p, c, w in points if w > 0)
            assert float(got / expected - 1) == pytest.approx(0, abs=1e-12), j


@pytest.mark.default_cases(
    "interest and polarization-1e-06,1e+18",
    "interest and polarization-30000,30000",
    "interest-1100,1",
)
@peaked
@pytest.mark.parametrize("both", [False, True], ids=["interest", "interest and polarization"])
def test_posterior_is_the_integral(prior, both, cases):
    """Against 60 digits after 7 to 180 reports: each pool to 1e-11, and better where it matters."""
    for name, (table, coefficients) in cases.items():
        polarization = prior if both else (1.0, 1.0)
        got = posterior_of_likelihood(table, belief=beliefs(prior, polarization))
        for n, of_n in coefficients.items():
            expected = beta_priors.posterior(of_n, prior, polarization)
            some = expected > 1e-200
            np.testing.assert_allclose(got[n][some], expected[some], rtol=1e-11, err_msg=f"{name}, {n} reports")


def test_oracle_of_uniform_priors(cases):
    """The oracle itself, where another is there: Gauss-Legendre with enough nodes to be exact."""
    table, coefficients = cases["noisy"]
    x, w = np.polynomial.legendre.leggauss(31)
    g, u = np.meshgrid((1 + x) / 2, (1 + x) / 2, indexing="ij")
    scores = []
    for i in range(K):
        own = g * (u * table[:30, i + 1, None, None] + (1 - u) * table[:30, 1:].mean(axis=1)[:, None, None])
        scores.append(w @ np.prod((own + (1 - g) * table[:30, 0, None, None]) / 4, axis=0) @ w)
    expected = np.array(scores) / sum(scores)
    np.testing.assert_allclose(beta_priors.posterior(coefficients[30], (1.0, 1.0), (1.0, 1.0)), expected, rtol=1e-12)


@pytest.mark.default_cases("1e-06,1e+18", "30000,30000")
@peaked
def test_behavior_posterior(prior, cases):
    table, coefficients = cases["noisy"]
    learned = behavior_posterior(table[:30], belief=beliefs(prior, prior))
    gamma, u = beta_priors.means(coefficients[30], prior, prior)
    assert learned.gamma[0] == pytest.approx(gamma, rel=1e-12)
    assert learned.delta[0] == pytest.approx(1 / K + (1 - 1 / K) * u, rel=1e-12)
    for low, mean, high in ((learned.gamma_low, learned.gamma, learned.gamma_high),):
        assert 0 <= low <= high <= 1
        assert high >= mean * (1 - 1e-12) or prior[0] < 1  # a mean may lie outside where mass is at both ends


@peaked
def test_memoized_reports_have_posteriors(prior):
    """Groups of memoized responses, by both scores: near no interest the posterior is the prior of the pools."""
    universe = Universe.sized(12, {"a": 4, "b": 4})
    adversary = Adversary(name="x", universe=universe, popularity=uniform(universe), belief=beliefs(prior))
    groups, counts = GRR(universe=12, epsilon=3.0).log_likelihood({"value": np.array([0, 1, 2, 8])}), [3, 2, 1, 1]
    uninterested = prior[0] / sum(prior) < 1e-3
    for scores in (exact_scores, occupancy_scores):
        found = normalized(scores(groups, np.array(counts), adversary), adversary)
        assert found.sum() == pytest.approx(1)
        assert abs(found[0] - 0.5) < 0.01 if uninterested else found[0] > 0.6


SCENARIO = """
[universe]
size = 30
pools = { a = 10, b = 10 }
[popularity]
kind = "uniform"
[mechanism]
kind = "grr"
epsilon = 8
[[adversary]]
name = "peaked"
popularity = "true"
prior = { interest = { beta = [BETA, 1] } }
[attack]
observations = [10]
"""


def _right(outcomes):
    mine = outcomes.filter(outcomes["adversary"] == "peaked")
    return (mine["guess"] == mine["pool"]).mean()


def test_an_audit_with_a_peaked_prior_is_not_called_safe():
    """Beta(2000, 1) says no more than Beta(500, 1): the users are nearly all found out."""
    right = {}
    for a in (500, 2000):
        scenario = parse(SCENARIO.replace("BETA", str(a)), name="test")
        outcomes = play(build_game(scenario, seed=1), users=200, seed=1)
        right[a] = _right(outcomes)
    assert right[500] > 0.8
    assert right[2000] == pytest.approx(right[500], abs=0.02)


@pytest.mark.parametrize("value", [1e308, 1e-300, 2e18, 9e-7])
def test_parameters_beyond_any_use_are_refused(value):
    with pytest.raises(InputError, match=r"Beta parameter a must be a number from 1e-06 to 1e\+18"):
        Beta(a=value)
    text = SCENARIO.replace("BETA", repr(value))
    with pytest.raises(InputError, match=r"adversary\[0\].prior.interest.beta: Beta parameter a must be a number"):
        parse(text, name="test")


@peaked
def test_quantiles_of_peaked_priors_rise(prior):
    density = Beta(a=prior[0], b=prior[1])
    found = density.quantile(np.linspace(0, 1, 1001))
    assert np.all((found >= 0) & (found <= 1))
    assert np.all(np.diff(found) >= 0)
    with np.errstate(under="ignore"):
        assert found[1:-1].mean() == pytest.approx(prior[0] / sum(prior), rel=0.05, abs=1e-3)


def test_equal_users_teach_a_prior_that_is_allowed():
    """Traces that hardly differ have a variance near zero: their Beta distribution is as peaked as can be."""
    universe = Universe.sized(4, {"a": 1, "b": 1})
    traces = np.zeros((3, 100_000), dtype=np.int64)
    traces[0, 0] = 2
    assert fitted_behavior(traces, universe).interest.a <= MAX_PARAMETER


# What fails is loud


class Broken:
    """A density whose rule is what is said."""

    sharpness = 0.0

    def __init__(self, x, weight):
        self.x, self.weight = np.array(x), np.array(weight)

    def rule(self, nodes):
        return self.x, 1 - self.x, self.weight

    def quantile(self, probability):
        return probability


@pytest.mark.parametrize(
    ("x", "weight"),
    [([0.5, np.nan], [0.5, 0.5]), ([0.5, 0.6], [np.nan, 1]), ([0.5, 1.5], [1, 1]), ([0.5], [0.0]), ([0.5], [1, 1])],
)
def test_a_rule_that_is_no_rule_is_refused(x, weight):
    with pytest.raises(InputError, match="the rule of a density must have"):
        posterior_of_likelihood(np.ones((3, 4)), belief=Behavior(interest=Broken(x, weight)))


def test_a_posterior_that_is_no_number_is_an_error():
    """A prior without any interest excludes reports on pools: that is 0 / 0, and never the prior."""
    likelihood = np.array([[0.5, 0.6, 0.7], [0.0, 1.0, 0.0]])
    never = Behavior(interest=Broken([0.0] * 8, [1.0] * 8))
    np.testing.assert_allclose(posterior_of_likelihood(likelihood[:1], belief=never)[-1], [0.5, 0.5])
    with pytest.raises(PoolscopeError, match="internal error: the posterior of user 1 of a block after 2 reports"):
        posterior_of_likelihood([likelihood[[0, 0]], likelihood], belief=never)
    with pytest.raises(PoolscopeError, match="internal error: the posterior of relevant interest"):
        behavior_posterior(likelihood, belief=never)


def test_a_pool_that_nobody_prefers_is_no_scale_for_others():
    """Reports that speak for it alone, 10^-24 as likely otherwise, leave what is believed."""
    likelihood = np.tile([0.0, 0.0, 1.0, 0.0], (180, 1))
    never = Behavior(polarization=Beta(a=MAX_PARAMETER, b=MIN_PARAMETER), pools=(0.7, 0.0, 0.3))
    np.testing.assert_allclose(posterior_of_likelihood(likelihood, belief=never)[-1], [0.7, 0.0, 0.3])


def test_impossible_reports_still_are_nan():
    found = posterior_of_likelihood([[1.0, 2.0, 1.0], [0.0, 0.0, 0.0], [1.0, 2.0, 1.0]])
    assert np.isfinite(found[:2]).all()
    assert np.isnan(found[2:]).all()


@pytest.mark.parametrize("scale", [1e-310, 1e-300, 1e299])
def test_likelihoods_of_any_size(scale):
    """What is common to a report cancels, subnormal numbers included."""
    likelihood = np.array([[1.0, 4.0, 2.0], [2.0, 1.0, 4.0], [1.0, 4.0, 1.0]])
    np.testing.assert_allclose(
        posterior_of_likelihood(scale * likelihood), posterior_of_likelihood(likelihood), rtol=1e-12
    )


SPIKES = {
    "between points": lambda x: np.exp(-1e6 * (x - 0.3) ** 2),
    "at an end": lambda x: x**1_000_000,
    "two": lambda x: np.exp(-1e5 * (x - 0.1) ** 2) + 1e-300 * np.exp(-1e5 * (x - 0.9) ** 2),
}


@pytest.mark.parametrize("name", SPIKES)
def test_rules_of_spikes(name):
    """Weights that only eigenvectors tell: the mean is that of the measure, however many nodes."""
    density = FunctionDensity(SPIKES[name])
    points, mass = density._measure
    for nodes in (1, 8, 64, 300):
        x, _, weight = density.rule(nodes)
        assert x @ weight == pytest.approx(points @ mass, rel=1e-9)
    assert np.isfinite(axis(density, 180).rules).all()


@pytest.mark.slow
def test_high_polynomials_without_weight():
    x, _, weight = Beta(a=3.0, b=1e9).rule(1024)
    assert np.any(weight == 0)
    found = high_polynomials(x, weight)
    assert np.isfinite(found).all()
    assert np.all(found[:, weight == 0] == 0)
