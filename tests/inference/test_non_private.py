"""The non-private posterior from counts, against the quadrature and the oracle."""

import numpy as np
import pytest
from cases.synthetic import SEED
from oracle import reference

from poolscope.inference import non_private as attack
from poolscope.inference.non_private import non_private_posterior
from poolscope.inference.posterior import posterior_of_likelihood
from poolscope.population.behavior import Behavior
from poolscope.population.priors import Beta, StepDensity
from poolscope.population.universe import Universe


def shown(k, users, n, neutral=3):
    """A universe of one object to a pool, and traces in which some pools are more common than others."""
    universe = Universe.sized(k + neutral, {f"p{i}": 1 for i in range(k)})
    rng = np.random.default_rng([SEED, k, n])
    weights = rng.dirichlet(np.full(universe.size, 0.5), size=users)
    traces = np.stack([rng.choice(universe.size, size=n, p=own) for own in weights])
    return universe, traces


def likelihood_of(universe, traces):
    pool = universe.pool_of[traces]
    return np.where(pool[..., None] < 0, 1.0, np.arange(-1, universe.k) == pool[..., None])


@pytest.mark.default_cases("1500-60", "2-180", "6-180")
@pytest.mark.parametrize(("k", "n"), [(2, 180), (6, 180), (60, 300), (1500, 60)])
def test_counts_give_the_integral(k, n):
    universe, traces = shown(k, 20 if k < 100 else 4, n)
    ours = non_private_posterior(universe, traces)
    np.testing.assert_allclose(ours, posterior_of_likelihood(likelihood_of(universe, traces)), rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    "belief",
    [
        Behavior(pools=(6.0, 2.0, 1.0, 1.0)),
        Behavior(polarization=Beta(a=1.0, b=12.0)),
        Behavior(interest=Beta(a=2.0, b=5.0), polarization=Beta(a=5.0, b=1.0), pools=(1.0, 2.0, 3.0, 4.0)),
        Behavior(polarization=StepDensity((1.0, 0.0, 3.0))),
    ],
)
def test_priors_are_those_of_the_double_integral(belief):
    """The relevant interest cancels; the prior of the polarization and of the pools does not."""
    universe, traces = shown(4, 20, 90)
    ours = non_private_posterior(universe, traces, belief)
    expected = posterior_of_likelihood(likelihood_of(universe, traces), belief=belief)
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-9)
    assert np.abs(ours - non_private_posterior(universe, traces)).max() > 0.01


def test_a_pool_that_the_prior_excludes_is_never_believed():
    universe, traces = shown(3, 20, 30)
    ours = non_private_posterior(universe, traces, Behavior(pools=(0.0, 1.0, 1.0)))
    np.testing.assert_array_equal(ours[..., 0], 0.0)
    np.testing.assert_allclose(ours.sum(axis=2), 1.0, rtol=1e-12)


def test_counts_give_the_oracles_posterior():
    universe, traces = shown(3, 1, 25, neutral=0)
    ours = non_private_posterior(universe, traces)
    rows = np.eye(universe.size)[traces[0]].tolist()
    expected = reference.posterior(rows, [1.0] * universe.size, universe.pool_of.tolist(), 3)
    np.testing.assert_allclose(ours[0, -1], expected, rtol=0, atol=1e-14)


def test_prefixes_and_parts_of_the_table(monkeypatch):
    universe, traces = shown(5, 8, 90)
    whole = non_private_posterior(universe, traces)
    np.testing.assert_array_equal(non_private_posterior(universe, traces[:, :30]), whole[:, :31])
    np.testing.assert_array_equal(non_private_posterior(universe, traces[:, :0]), whole[:, :1])
    monkeypatch.setattr(attack, "ROWS", 7)
    np.testing.assert_array_equal(non_private_posterior(universe, traces), whole)


def test_thousands_of_objects():
    """Integrals that no double holds: everything in one pool of 60, and everything alike."""
    universe = Universe.sized(60, {f"p{i}": 1 for i in range(60)})
    one, alike = np.zeros(3000, dtype=np.int64), np.arange(3000) % 60
    ours = non_private_posterior(universe, np.stack([one, alike]))
    assert ours[0, -1, 0] == pytest.approx(1)
    np.testing.assert_allclose(ours[1, -1], 1 / 60, rtol=1e-12)
    assert np.isfinite(ours).all()
