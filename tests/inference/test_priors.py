"""Priors by a table of weights: the density itself, the attack with it, and how scenarios say it."""

import numpy as np
import pytest
from cases.synthetic import SEED
from oracle import reference
from scipy import integrate, special, stats

from poolscope.core.errors import InputError
from poolscope.game.game import play
from poolscope.inference.posterior import behavior_posterior, posterior_of_likelihood
from poolscope.inference.quadrature import RUNGS, axis, max_spread
from poolscope.population.behavior import Behavior, draw_users
from poolscope.population.priors import Beta, StepDensity
from poolscope.population.universe import Universe
from poolscope.scenario.build import build_game
from poolscope.scenario.scenario import parse

TABLES = {
    "one cell": (3.0,),
    "rising": (1.0, 2.0, 3.0, 4.0),
    "rough": (5.0, 0.5, 4.0, 0.3, 2.0, 2.0, 0.4),
    "a gap": (1.0, 0.0, 0.0, 2.0),
    "one half": (0.0, 0.0, 1.0, 1.0),
}
every_table = pytest.mark.parametrize("name", list(TABLES))


def moment(weights, j, degree):
    """E[x^j (1-x)^(degree-j)] by the incomplete beta function, cell after cell."""
    edges = np.linspace(0, 1, len(weights) + 1)
    inside = np.diff(special.betainc(j + 1, degree - j + 1, edges)) * special.beta(j + 1, degree - j + 1)
    return inside @ weights * len(weights) / np.sum(weights)


# The density


@every_table
@pytest.mark.parametrize("nodes", [1, 2, 8, 40])
def test_rules_integrate_polynomials_exactly(name, nodes):
    x, complement, weight = StepDensity(TABLES[name]).rule(nodes)
    assert len(x) == (2 if name == "a gap" else 1) * nodes
    assert np.all((x > 0) & (x < 1) & (weight > 0))
    np.testing.assert_allclose(x + complement, 1, atol=1e-15)
    for degree in (0, 1, nodes, 2 * nodes - 1):
        for j in {0, degree // 2, degree}:
            got = weight @ (x**j * complement ** (degree - j))
            assert got == pytest.approx(moment(TABLES[name], j, degree), rel=1e-10), (degree, j)


def test_one_cell_is_uniform():
    np.testing.assert_allclose(StepDensity((3.0,)).rule(12), Beta().rule(12), atol=1e-14)


@every_table
def test_quantiles_invert_the_distribution(name):
    density, weights = StepDensity(TABLES[name]), np.array(TABLES[name])
    p = np.linspace(0.001, 1, 200)
    x = density.quantile(p)
    edges = np.linspace(0, 1, len(weights) + 1)
    np.testing.assert_allclose(np.interp(x, edges, np.append(0, np.cumsum(weights)) / weights.sum()), p, atol=1e-12)
    assert np.all((x > 0) & (x <= 1))


@pytest.mark.parametrize("nodes", [n for n in RUNGS if 16 <= n <= 64])
def test_few_nodes_suffice_where_no_step_is_low(nodes):
    """The bound of uniform priors holds up to the lowest step: at the capacity, all x^j (1-x)^(n-j) to 1e-9."""
    weights = TABLES["rough"]
    assert StepDensity(weights).sharpness == 0
    x, complement, weight = StepDensity(weights).rule(nodes)
    degree = int(max_spread(nodes))
    for j in range(0, degree + 1, max(1, degree // 40)):
        logs = j * np.log(x) + (degree - j) * np.log(complement) - special.betaln(j + 1, degree - j + 1)
        expected = moment(weights, j, degree) / special.beta(j + 1, degree - j + 1)
        assert np.exp(logs) @ weight == pytest.approx(expected, rel=1e-9), j


@pytest.mark.parametrize("name", ["a gap", "one half", "almost a gap"])
def test_runs_between_low_steps_have_rules_of_their_own(name):
    weights = {**TABLES, "almost a gap": (1.0, 2.0, 1e-3, 1.0)}[name]
    density = StepDensity(weights)
    assert density.sharpness == 0
    x, _, weight = density.rule(12)
    runs = {"a gap": ([0], [3]), "one half": ([2, 3],), "almost a gap": ([0, 1], [2], [3])}[name]
    assert len(x) == 12 * len(runs)
    for run, points, mass in zip(runs, np.split(x, len(runs)), np.split(weight, len(runs)), strict=True):
        assert np.all((points > run[0] / 4) & (points < (run[-1] + 1) / 4))
        assert mass.sum() == pytest.approx(sum(weights[cell] for cell in run) / sum(weights))


def test_many_gaps_take_the_exact_rule():
    density = StepDensity((1.0, 0.0) * 5)
    assert density.sharpness == np.inf
    ladder = axis(density, 180)
    assert ladder.degrees[-1] >= 180
    assert np.all(np.isneginf(ladder.resolutions))
    assert np.all(np.diff(ladder.offsets) == (ladder.degrees + 1) // 2)


@pytest.mark.slow
def test_a_long_trace_under_a_prior_with_a_gap():
    """Rules for 5,000 reports are soon there, and as good as those that are exact for 150."""
    ladder = axis(StepDensity(TABLES["a gap"]), 5000)
    assert np.diff(ladder.offsets).max() < 1000


@pytest.mark.parametrize("weights", [(), (1.0, -1.0), (0.0, 0.0), (1.0, np.nan), (np.inf,), ((1.0, 2.0),)])
def test_bad_weights(weights):
    with pytest.raises(InputError, match="a table of weights must be"):
        StepDensity(weights)


# The attack


@pytest.mark.default_cases("one cell", "one half", "a gap", "rising")
@every_table
def test_posterior_is_the_integral(name):
    """One prior at a time, by adaptive quadrature cell after cell."""
    weights, k = TABLES[name], 3
    likelihood = np.random.default_rng(SEED).random((5, k + 1)) ** 2
    interest = posterior_of_likelihood(likelihood, belief=Behavior(interest=StepDensity(weights)))[-1]
    cells = [(a / len(weights), (a + 1) / len(weights), w) for a, w in enumerate(weights)]

    def score(pool, gamma, delta):
        own = likelihood[:, pool + 1]
        others = (likelihood[:, 1:].sum(axis=1) - own) / (k - 1)
        return np.prod(gamma * delta * own + gamma * (1 - delta) * others + (1 - gamma) * likelihood[:, 0])

    def integrated(pool, cells_g, cells_d):
        return sum(
            w * v * integrate.dblquad(lambda d, g: score(pool, g, d), a, b, lo, hi, epsabs=0, epsrel=1e-10)[0]
            for a, b, w in cells_g
            for lo, hi, v in cells_d
            if w * v
        )

    scores = np.array([integrated(pool, cells, [(1 / k, 1, 1)]) for pool in range(k)])
    np.testing.assert_allclose(interest, scores / scores.sum(), rtol=1e-8)
    polarization = posterior_of_likelihood(likelihood, belief=Behavior(polarization=StepDensity(weights)))[-1]
    rescaled = [(1 / k + (1 - 1 / k) * a, 1 / k + (1 - 1 / k) * b, w) for a, b, w in cells]
    scores = np.array([integrated(pool, [(0, 1, 1)], rescaled) for pool in range(k)])
    np.testing.assert_allclose(polarization, scores / scores.sum(), rtol=1e-8)


def test_equal_weights_are_the_oracles_uniform_prior():
    likelihood = np.random.default_rng(SEED).random((9, 4))
    belief = Behavior(interest=StepDensity((2.0, 2.0, 2.0)), polarization=StepDensity((1.0,) * 7))
    expected = reference.posterior(likelihood.tolist(), [1.0] * 4, [-1, 0, 1, 2], 3)
    np.testing.assert_allclose(posterior_of_likelihood(likelihood, belief=belief)[-1], expected, rtol=1e-11)


@every_table
@pytest.mark.parametrize("kind", ["noisy", "shown"])
def test_many_reports(name, kind):
    """180 reports, with and without noise, against the rule that is exact for them."""
    rng, k = np.random.default_rng(SEED), 3
    likelihood = rng.random((180, k + 1)) if kind == "noisy" else np.eye(k + 1)[rng.integers(k + 1, size=180)]
    density = StepDensity(TABLES[name])
    found = posterior_of_likelihood(likelihood, belief=Behavior(interest=density, polarization=density))[-1]
    g, not_g, w = density.rule(91)
    delta = 1 / k + (1 - 1 / k) * g
    logs = np.zeros((k, len(g), len(g)))
    for row, count in zip(*np.unique(likelihood, axis=0, return_counts=True), strict=True):
        for i in range(k):
            own, others = row[i + 1], (row[1:].sum() - row[i + 1]) / (k - 1)
            inner = np.outer(g, delta * own + (1 - delta) * others) + not_g[:, None] * row[0]
            logs[i] += count * np.log(inner)
    scores = np.einsum("igd,g,d->i", np.exp(logs - logs.max()), w, w)
    np.testing.assert_allclose(found, scores / scores.sum(), rtol=1e-8, atol=1e-12)


def test_what_is_learnt_lies_where_the_prior_allows():
    likelihood = np.random.default_rng(SEED).random((30, 4))
    belief = Behavior(interest=StepDensity((0.0, 1.0)), polarization=StepDensity((1.0, 0.0)))
    found = behavior_posterior(likelihood[None], belief=belief)
    assert 0.5 < found.gamma[0] < 1
    assert 1 / 3 < found.delta[0] < 2 / 3


# Scenarios

TEXT = """
[universe]
size = 30
pools = {{ a = 5, b = 6, c = 7 }}
[popularity]
kind = "uniform"
[mechanism]
kind = "grr"
epsilon = 3
[users]
behavior = {{ interest = {{ table = [0, 1] }} }}
[[adversary]]
name = "weak"
popularity = "uniform"
[adversary.prior]
{prior}
[attack]
observations = [5]
"""


def test_scenarios_have_tables():
    game = build_game(parse(TEXT.format(prior="interest = { table = [0, 1, 2.5] }"), name="x"), seed=1)
    belief = game.adversaries[0].belief
    assert belief.interest == StepDensity((0.0, 1.0, 2.5))
    assert belief.polarization == Beta()
    outcomes = play(game, 200, 1)
    assert outcomes["gamma"].min() > 0.5, "users are drawn from their table"
    other = build_game(parse(TEXT.format(prior="polarization = { table = [1, 1, 9] }"), name="x"), seed=1)
    assert (play(other, 200, 1)["confidence"] != outcomes["confidence"]).any()


def test_users_follow_their_table():
    users = draw_users(Universe.sized(9, {"a": 2, "b": 2}), Behavior(interest=StepDensity((1.0, 0.0, 3.0))), keys())
    share = np.histogram(users.gamma, bins=[0, 1 / 3, 2 / 3, 1])[0]
    assert share[1] == 0
    assert stats.binomtest(int(share[0]), int(share.sum()), 0.25).pvalue > 1e-4


def keys(count=4000):
    return np.random.default_rng(SEED).integers(2**63, size=count).astype(np.uint64)


@pytest.mark.parametrize(
    ("prior", "words"),
    [
        ("interest = { table = [] }", "interest.table: must not be empty"),
        ("interest = { table = [1, -1] }", "interest.table[1]: must be at least 0, got -1"),
        ("interest = { table = [0, 0] }", "interest.table: must have a weight above 0, got [0.0, 0.0]"),
        ("interest = { table = [inf] }", "interest.table[0]: must be finite, got inf"),
        ("interest = { table = ['1'] }", "interest.table[0]: must be a number, got '1'"),
        ("interest = { table = 1 }", "interest.table: must be a list, got 1"),
        ("interest = { tabel = [1] }", "interest.tabel: unknown key; did you mean 'table'?"),
        ("interest = { table = [1], beta = [1, 1] }", "interest.table: requires a density without beta"),
        ("interest = {}", "interest: must have beta or table"),
        ("interest = 'table'", "interest: must be 'uniform' or 'fitted' or a table, got 'table'"),
        (f"interest = {{ table = {[1] * 1001} }}", "interest.table: must have at most 1000 entries"),
    ],
)
def test_bad_tables(prior, words):
    with pytest.raises(InputError) as caught:
        parse(TEXT.format(prior=prior), name="x")
    assert f"adversary[0].prior.{words}" in str(caught.value)
