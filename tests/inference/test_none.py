"""Users who prefer no pool: one more hypothesis, under which every object is a neutral one."""

import numpy as np
import polars as pl
import pytest

import poolscope as ps
from poolscope.core.errors import InputError
from poolscope.population.behavior import NONE

SCENARIO = """
[universe]
size = 20
pools = {{ a = 4, b = 5 }}
[popularity]
kind = "zipf"
exponent = 1.0
[mechanism]
kind = "grr"
epsilon = 3.0
[users]
none = {share}
[[adversary]]
name = "assumes"
popularity = "true"
[[adversary]]
name = "doubts"
popularity = "true"
prior = {{ none = {belief} }}
[attack]
observations = [30]
non_private = false
"""


def enumerated(likelihood, none, pools, nodes=60):
    """The posterior after all reports, by a plain sum over a grid that is exact for the polynomial."""
    n, k = likelihood.shape[0], likelihood.shape[1] - 1
    x, w = np.polynomial.legendre.leggauss(nodes)
    x, w = (x + 1) / 2, w / 2
    gamma, u = np.meshgrid(x, x, indexing="ij")
    delta, weight = 1 / k + (1 - 1 / k) * u, np.outer(w, w)
    scores = []
    for i in range(k):
        rest = np.delete(likelihood[:, 1:], i, axis=1).mean(axis=1)
        factor = [
            gamma * delta * likelihood[t, i + 1] + gamma * (1 - delta) * rest[t] + (1 - gamma) * likelihood[t, 0]
            for t in range(n)
        ]
        scores.append((1 - none) * pools[i] * float((np.prod(factor, axis=0) * weight).sum()))
    scores.append(none * float(np.prod(likelihood[:, 0])))
    return np.array(scores) / sum(scores)


@pytest.mark.parametrize("none", [0.05, 0.4, 0.999])
@pytest.mark.parametrize("n", [1, 7, 60, 110])
def test_the_posterior_is_that_of_the_double_integral_with_one_more_hypothesis(n, none):
    rng, pools = np.random.default_rng(n), (0.2, 0.5, 0.3)
    likelihood = np.exp(1.5 * rng.standard_normal((n, 4)))
    likelihood[:, 0] *= 1.5
    found = ps.posterior_of_likelihood(likelihood, belief=ps.Behavior(pools=pools, none=none))
    assert found.shape == (n + 1, 4)
    assert found[0] == pytest.approx([*((1 - none) * np.array(pools)), none])
    assert found[n] == pytest.approx(enumerated(likelihood, none, pools), abs=1e-11)
    half = n // 2
    assert found[half] == pytest.approx(enumerated(likelihood[:half], none, pools), abs=1e-11)


def test_thousands_of_reports_neither_overflow_nor_underflow():
    rng = np.random.default_rng(1)
    likelihood = np.exp(0.3 * rng.standard_normal((3000, 3)))
    found = ps.posterior_of_likelihood(likelihood, belief=ps.Behavior(none=0.3))
    assert np.isfinite(found).all()
    assert found.sum(axis=1) == pytest.approx(1.0)
    certain = np.tile([1.0, 1e-9, 1e-9], (500, 1))
    assert ps.posterior_of_likelihood(certain, belief=ps.Behavior(none=0.3))[-1, -1] == pytest.approx(
        0.3 / (0.3 + 0.7 / 501), rel=1e-6
    )


def test_a_report_that_no_neutral_object_makes_excludes_the_hypothesis():
    likelihood = [[1.0, 2.0, 2.0], [0.0, 1.0, 0.5]]
    found = ps.posterior_of_likelihood(likelihood, belief=ps.Behavior(none=0.5))
    assert found[1, 2] > 0
    assert found[2, 2] == 0
    assert found[2].sum() == pytest.approx(1.0)


@pytest.fixture
def played(tmp_path):
    def play(share, belief, users=600):
        path = tmp_path / "none.toml"
        path.write_text(SCENARIO.format(share=share, belief=belief))
        game = ps.load_scenario(str(path)).game(seed=1)
        return game, ps.play(game, users=users, seed=1)

    return play


def test_an_adversary_that_holds_the_hypothesis_is_calibrated_and_the_other_is_not(played):
    game, outcomes = played(0.4, 0.4)
    truth = outcomes.filter(pl.col("adversary") == "doubts")
    share = (truth["pool"] == NONE).mean()
    assert abs(share - 0.4) < 4 * np.sqrt(0.4 * 0.6 / 600)
    assert (truth.filter(pl.col("pool") == NONE)["gamma"] == 0).all()
    doubts, assumes = (ps.metrics.select(outcomes, name, 30) for name in ("doubts", "assumes"))
    assert NONE in doubts["guess"].cast(pl.String).to_list()
    assert NONE not in assumes["guess"].cast(pl.String).to_list()
    for rows, calibrated in ((doubts, True), (assumes, False)):
        error, limit = ps.metrics.ece(rows, seed=1), ps.metrics.ece_null_p95(rows, seed=1)
        assert (error.value <= 1.3 * limit) is calibrated, (error, limit)
    # the false confidence about those who prefer nothing is counted
    false = {record.pool: record for record in ps.metrics.per_pool(assumes, 30, 0.5)}[NONE]
    assert false.precision.value == 0
    assert false.exposed.value > 0.5
    assert game.pool_counts == {"assumes": 2, "doubts": 3}


def test_to_be_sure_of_no_preference_exposes_nobody(played):
    _, outcomes = played(0.95, 0.95, users=200)
    sure = outcomes.filter(pl.col("adversary") == "doubts", pl.col("guess") == NONE, pl.col("confidence") > 0.9)
    assert sure.height > 50
    assert sure["exposed_at_90"].null_count() > 0.9 * sure.height


def test_without_it_nothing_changes(played):
    _, outcomes = played(0.0, 0.0)
    one, other = (ps.metrics.select(outcomes, name, 30) for name in ("assumes", "doubts"))
    assert one.drop("adversary").equals(other.drop("adversary"))
    assert NONE not in one["pool"].dtype.categories.to_list()


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (("size = 20", "size = 9"), "users who prefer no pool require a neutral pool"),
        (("a = 4", "none = 4"), "no pool may be called 'none'"),
        (("none = 0.3", "none = 1.0"), "none"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path, change, rule):
    path = tmp_path / "none.toml"
    path.write_text(SCENARIO.format(share=0.3, belief=0.3).replace(*change, 1))
    with pytest.raises(InputError, match=rule):
        ps.play(ps.load_scenario(str(path)).game(seed=1), users=5, seed=1)


def test_memoized_reports_refuse_the_hypothesis_instead_of_ignoring_it():
    universe = ps.Universe.sized(6, {"a": 2, "b": 2})
    adversary = ps.Adversary(name="x", universe=universe, popularity=np.ones(6) / 6, belief=ps.Behavior(none=0.2))
    device = ps.mechanisms.device_of(ps.mechanisms.GRR(universe=6, epsilon=2.0), memoize=True)
    with pytest.raises(InputError, match="without the hypothesis none"):
        ps.posterior(device, {"value": np.array([0, 1])}, adversary)


def test_the_non_private_reference_holds_the_hypothesis_too(tmp_path):
    path = tmp_path / "none.toml"
    text = SCENARIO.format(share=0.4, belief=0.4).replace("non_private = false", "")
    path.write_text(text.replace('[[adversary]]\nname = "assumes"\npopularity = "true"\n', ""))
    game = ps.load_scenario(str(path)).game(seed=1)
    outcomes = ps.play(game, users=500, seed=1)
    private, reference = (ps.metrics.select(outcomes, name, 30) for name in ("doubts", "non-private"))
    gap = ps.metrics.precision(reference, seed=1).value - ps.metrics.precision(private, seed=1).value
    assert gap > -4 * np.sqrt(2 * 0.25 / 500)
    error, limit = ps.metrics.ece(reference, seed=1), ps.metrics.ece_null_p95(reference, seed=1)
    assert error.value <= 1.3 * limit
    # an object of a pool excludes it: nobody who prefers a pool and has shown one is guessed to prefer none
    assert (reference.filter(pl.col("pool") == NONE)["guess"] == NONE).mean() > 0.9


def test_the_reference_is_that_of_the_likelihood_of_the_objects():
    """Against the attack on the identity, whose likelihoods are those of the objects."""
    universe, rng = ps.Universe.sized(7, {"a": 2, "b": 2}), np.random.default_rng(3)
    from poolscope.inference.non_private import non_private_posterior

    traces = rng.choice(7, size=(40, 12), p=[0.02, 0.02, 0.02, 0.02, 0.3, 0.3, 0.32])
    belief = ps.Behavior(none=0.3, interest=ps.priors.Beta(a=1.0, b=3.0), pools=(0.7, 0.3))
    likelihood = (np.arange(-1, 2) == universe.pool_of[traces][..., None]).astype(float)
    found = non_private_posterior(universe, traces, belief)
    assert found == pytest.approx(ps.posterior_of_likelihood(likelihood, belief=belief), abs=1e-12)
