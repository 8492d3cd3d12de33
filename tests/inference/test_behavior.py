"""What the adversary believes of behavior before the reports, and learns of it from them."""

import numpy as np
import pytest
from oracle import reference
from scipy import stats

from poolscope.inference.posterior import behavior_posterior, posterior_of_likelihood
from poolscope.population.behavior import Behavior
from poolscope.population.priors import Beta


@pytest.mark.default_cases("20.0-2.0")
@pytest.mark.parametrize(("a", "b"), [(0.5, 1.0), (20.0, 2.0), (2.0, 1.0), (1.0, 3.0)])
def test_beta_priors_are_the_oracles(a, b):
    k, n = 3, 4
    likelihood = np.random.default_rng(1).random((n, k + 1))

    def of_gamma(x):
        return x ** (a - 1) * (1 - x) ** (b - 1)

    def of_delta(x):
        # rounding can take the end of the axis across it
        return of_gamma(abs(k * x - 1) / (k - 1))

    priors = {"prior_gamma": of_gamma, "prior_delta": of_delta, "pool_prior": [0.5, 0.0, 2.0]}
    expected = reference.posterior(likelihood.tolist(), [1.0] * 4, [-1, 0, 1, 2], k, **priors)
    density = Beta(a=a, b=b)
    belief = Behavior(interest=density, polarization=density, pools=(0.5, 0.0, 2.0))
    np.testing.assert_allclose(posterior_of_likelihood(likelihood, belief=belief)[n], expected, atol=1e-11)


def test_no_reports_give_the_prior():
    belief = Behavior(pools=(1.0, 3.0))
    prior = [[0.25, 0.75]]
    np.testing.assert_array_equal(posterior_of_likelihood(np.empty((0, 3)), belief=belief), prior)
    np.testing.assert_array_equal(posterior_of_likelihood(np.empty((0, 5))), [[0.25] * 4])
    ours = posterior_of_likelihood(np.ones((2, 9, 3)), belief=belief)
    np.testing.assert_array_equal(ours[:, 0], prior * 2)


@pytest.mark.default_cases("5.0")
@pytest.mark.parametrize("kind", [0.2, 5.0])
def test_learnt_means_are_the_oracles(kind):
    k, lengths = 3, [0, 1, 17, 25]
    likelihood = np.exp(-kind * np.random.default_rng(8).random((4, 25, k + 1)))
    ours = behavior_posterior(likelihood, lengths=lengths, belief=Behavior(pools=(1.0, 2.0, 0.5)))
    for user, n in enumerate(lengths):
        rows = likelihood[user, :n].tolist()
        gamma, delta = reference.moments(rows, [1.0] * 4, [-1, 0, 1, 2], k, pool_prior=[1.0, 2.0, 0.5])
        assert ours.gamma[user] == pytest.approx(gamma, abs=1e-11)
        assert ours.delta[user] == pytest.approx(delta, abs=1e-11)


def test_learnt_intervals():
    """Objects shown as they are: gamma is Beta, and delta's distribution is a one-dimensional integral."""
    hits, misses, neutral = 40, 10, 30
    kinds = np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]], dtype=float)
    ours = behavior_posterior(kinds[np.repeat([0, 1, 2], [hits, misses, neutral])])
    distribution = stats.beta(hits + misses + 1, neutral + 1)
    width = np.diff(distribution.ppf([0.025, 0.975]))[0]
    assert ours.gamma_low == pytest.approx(distribution.ppf(0.025), abs=2e-3 * width)
    assert ours.gamma_high == pytest.approx(distribution.ppf(0.975), abs=2e-3 * width)
    # either pool may be the preferred one: delta is distributed as max(x, 1 - x) of a Beta
    distribution = stats.beta(hits + 1, misses + 1)
    for end, p in ((ours.delta_low, 0.025), (ours.delta_high, 0.975)):
        assert distribution.cdf(end) - distribution.cdf(1 - end) == pytest.approx(p, abs=1e-3)
