"""Histograms with Laplace noise: what the conformance suite cannot list, on the grid and off it."""

import numpy as np
import pytest
from cases.synthetic import SEED
from scipy import stats

from poolscope.core.errors import InputError
from poolscope.core.randomness import children
from poolscope.inference.adversary import Adversary
from poolscope.inference.attack import posterior
from poolscope.mechanisms import make
from poolscope.mechanisms.custom import adapt
from poolscope.mechanisms.histogram import SHE
from poolscope.population.universe import Universe
from poolscope.reports.frequencies import frequencies
from poolscope.reports.utility import measure_utility
from poolscope.workflows.check.check import check


class Textbook:
    """As other libraries do it: a Laplace variable in floating point, added to 0 and to 1."""

    universe, epsilon = 6, 1.0

    def obfuscate(self, objects, rng):
        return np.eye(6)[objects] + rng.laplace(scale=2.0, size=(len(objects), 6))

    def log_likelihood(self, reports):
        return -0.5 * (np.abs(reports - 1.0) - np.abs(reports))


@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 4.0, 300.0])
def test_noise_is_laplace_on_a_grid(epsilon):
    """Entry by entry, whatever the object; entries of a report are independent."""
    mechanism = make("she", 3, {"epsilon": epsilon})
    reals = mechanism.obfuscate(np.full(20_000, 1), np.random.default_rng(SEED))["reals"]
    noise = reals - [0.0, 1.0, 0.0]
    assert np.log2(mechanism.step) == int(np.log2(mechanism.step))
    np.testing.assert_array_equal(noise / mechanism.step, np.rint(noise / mechanism.step))
    for entry in noise.T:
        assert stats.kstest(entry, stats.laplace(scale=2 / epsilon).cdf).pvalue > 1e-4
    assert np.abs(np.corrcoef(noise.T) - np.eye(3)).max() < 4.5 / np.sqrt(20_000)
    assert not np.any(np.signbit(reals) & (reals == 0)), "a zero's sign would tell whether it is a sum with 1"


@pytest.mark.parametrize("rate", [0.1, 1.0, 3.0])
def test_noise_on_a_coarse_grid_is_two_sided_geometric(rate):
    """Where the steps are few enough to be counted."""
    from poolscope.kernels.histogram import noisy_one_hot

    out = np.empty((40_000, 1))
    noisy_one_hot(np.ones(40_000, dtype=np.int64), children(np.uint64(SEED), np.arange(40_000)), rate, 1.0, out)
    k = np.arange(-200, 201)
    chance = np.tanh(rate / 2) * np.exp(-rate * np.abs(k))
    often = 40_000 * chance >= 5
    seen = np.array([(out[:, 0] == value).sum() for value in k])
    expected = np.append(40_000 * chance[often], 40_000 * (1 - chance[often].sum()))
    assert stats.chisquare(np.append(seen[often], 40_000 - seen[often].sum()), expected).pvalue > 1e-4


@pytest.mark.default_cases("3.0")
@pytest.mark.parametrize("epsilon", [0.3, 3.0])
def test_simulated_sums_have_the_law_of_reports(epsilon):
    """The moments of sums over drawn objects: noise of 8/epsilon^2 a report, and who reported."""
    mechanism, popularity, n = make("she", 4, {"epsilon": epsilon}), np.array([0.5, 0.3, 0.2, 0.0]), 30
    keys = children(np.uint64(SEED), np.arange(3000))
    closed = np.array([mechanism.simulate_counts(popularity, n, key) for key in keys])
    general = np.array([super(SHE, mechanism).simulate_counts(popularity, n, key) for key in keys[:1000]])
    for sums in (closed, general):
        error = 4.5 * sums.std(axis=0) / np.sqrt(len(sums))
        assert np.all(np.abs(sums.mean(axis=0) - n * popularity) < error)
        expected = n * (8 / epsilon**2 + popularity * (1 - popularity))
        square = (sums - n * popularity) ** 2
        assert np.all(np.abs(square.mean(axis=0) - expected) < 4.5 * square.std(axis=0) / np.sqrt(len(sums)))


def test_errors_in_closed_form_are_those_measured():
    found = measure_utility(make("she", 200, {"epsilon": 2.0}), np.arange(1.0, 201.0), 5000, np.uint64(SEED))
    assert found.mse == pytest.approx(found.mse_analytical, rel=0.1)
    assert found.mae == pytest.approx(found.mae_analytical, rel=0.05)
    assert found.mse_analytical == pytest.approx(
        (8 / 4 + np.mean(f := np.arange(1, 201) / 20100) - np.mean(f**2)) / 5000
    )


def test_sums_are_the_same_in_any_order():
    """Off the grid as well: what a file has from elsewhere, of all sizes."""
    mechanism = make("she", 5, {"epsilon": 1.0})
    reals = np.random.default_rng(SEED).laplace(scale=2.0, size=(1000, 5))
    whole = mechanism.score_sums({"reals": reals})
    for order in (slice(None, None, -1), np.random.default_rng(1).permutation(1000)):
        parts = np.array_split(reals[order], 7)
        np.testing.assert_array_equal(sum(mechanism.score_sums({"reals": part}) for part in parts), whole)
    np.testing.assert_allclose(whole, reals.sum(axis=0), atol=1000 * mechanism.step)
    assert np.isfinite(mechanism.score_sums({"reals": np.full((2, 5), 1e308)})).all()


def test_reports_of_the_textbook_are_read():
    """Attack and estimate of what another library made; the likelihood is that of Laplace noise."""
    universe = Universe.sized(6, {"a": 2, "b": 2})
    mechanism = make("she", 6, {"epsilon": 1.0})
    objects = np.repeat([0, 2, 4], [3000, 1500, 500])
    reals = Textbook().obfuscate(objects, np.random.default_rng(SEED))
    found = frequencies(mechanism, {"reals": reals})
    assert np.all(np.abs(found.counts - np.bincount(objects, minlength=6)) < 4.5 * found.errors)
    np.testing.assert_allclose(found.errors, np.sqrt(5000 * 8))
    density = stats.laplace(loc=np.eye(6)[None], scale=2.0).logpdf(reals[:50, None]).sum(axis=2)
    gap = density - mechanism.log_likelihood({"reals": reals[:50]})
    np.testing.assert_allclose(gap, np.broadcast_to(gap[:, :1], gap.shape), atol=1e-12)
    user = {"reals": reals[:400]}
    assert posterior(mechanism, user, Adversary.weak(universe))[-1][0] > 0.99
    own = posterior(adapt(Textbook(), 6), {"report": reals[:400]}, Adversary.weak(universe))
    np.testing.assert_allclose(posterior(mechanism, user, Adversary.weak(universe)), own, atol=1e-12)


@pytest.mark.parametrize("samples", [20_000, pytest.param(40_000, marks=pytest.mark.statistical)])
def test_the_textbook_is_broken_and_the_grid_is_not(samples):
    ours = check(make("she", 6, {"epsilon": 1.0}), samples=samples, seed=SEED)
    assert ours.passed, ours.violations
    assert ours.fit.passed
    assert ours.lower_bound.epsilon > 0.5
    theirs = check(Textbook(), samples=samples, seed=SEED)
    assert not theirs.passed
    assert theirs.lower_bound.epsilon > 1.0
    assert "last" in theirs.lower_bound.event or "multiple" in theirs.lower_bound.event


def test_numbers_for_another_universe():
    mechanism = make("she", 5, {"epsilon": 1.0})
    for act in (mechanism.score_sums, mechanism.log_likelihood):
        with pytest.raises(InputError, match="reals must be 5 numbers, one for each object"):
            act({"reals": np.zeros((3, 4))})
