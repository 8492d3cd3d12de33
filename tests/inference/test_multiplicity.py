"""Confidence after a choice among several sets of pools: against plain sums, and calibrated where sets are tried."""

import numpy as np
import pytest
from cases.synthetic import SEED

from poolscope.core.randomness import user_keys
from poolscope.inference.adversary import Adversary, stacked_pool_weights
from poolscope.inference.multiplicity import corrected_confidence, log_odds, log_set_bayes_factor
from poolscope.mechanisms import make
from poolscope.population.behavior import Behavior, draw_traces, draw_users
from poolscope.population.universe import Universe

POOLS = {"a": 6, "b": 6, "c": 6}


def masses_of(universe, mechanism, users, n, seed=SEED, truth=None):
    adversary = Adversary.weak(universe)
    people = draw_users(truth or universe, Behavior(), user_keys(seed, np.arange(users)))
    popularity = np.full(universe.size, 1 / universe.size)
    traces = draw_traces(truth or universe, popularity, people, n)
    keys = user_keys(seed + 1, np.arange(traces.size))
    mass = mechanism.mass(mechanism.report(traces.ravel(), keys), stacked_pool_weights([adversary])[0])
    return adversary, people, mass.reshape(users, n, -1)


def by_a_grid(mechanism, mass, neutral, cells=200):
    """The Bayes factor of one user by the midpoint rule, written out."""
    likelihood = mechanism.likelihood_offset + mechanism.likelihood_scale * mass
    grid = (np.arange(cells) + 0.5) / cells
    k = mass.shape[1] - 1
    gammas, deltas = (grid if neutral else [1.0]), 1 / k + (1 - 1 / k) * grid
    with_set = 0.0
    for own in range(1, k + 1):
        others = np.delete(likelihood[:, 1:], own - 1, axis=1).mean(axis=1)
        for gamma in gammas:
            mixed = gamma * (deltas[:, None] * likelihood[:, own] + (1 - deltas[:, None]) * others)
            with_set += np.prod(mixed + (1 - gamma) * likelihood[:, 0], axis=1).mean() / len(gammas) / k
    even = likelihood[:, 1:].mean(axis=1)
    without = np.mean([np.prod(gamma * even + (1 - gamma) * likelihood[:, 0]) for gamma in gammas])
    return np.log(with_set / without)


@pytest.mark.parametrize("size", [30, 18], ids=["neutral", "no neutral"])
def test_the_evidence_for_a_set_is_that_of_a_plain_sum(size):
    universe, mechanism = Universe.sized(size, POOLS), make("grr", size, {"epsilon": 4.0})
    adversary, _, mass = masses_of(universe, mechanism, 40, 12)
    lengths = np.full(40, 12)
    lengths[3] = 5
    found = log_set_bayes_factor(mechanism, adversary, mass, lengths)
    assert np.all(found[:, 0] == 0)
    for user in (0, 1, 2, 3):
        for n in (1, 5, lengths[user]):
            assert found[user, n] == pytest.approx(by_a_grid(mechanism, mass[user, :n], size > 18), abs=1e-3)


def test_a_corrected_confidence_is_the_posterior_of_all_sets():
    values, guess, log_bayes = np.array([[0.7, 0.2, 0.1]]), np.array([0]), np.array([np.log(3.0)])
    assert corrected_confidence(values, guess, 3, log_bayes, 1)[0] == 0.7
    # this set has a third of the prior, and is three times as likely as no preference: 3 / (3 + 1 + 1)
    assert corrected_confidence(values, guess, 3, log_bayes, 3)[0] == pytest.approx(0.7 * 3 / 5)
    assert corrected_confidence(values, guess, 3, np.array([np.inf]), 9)[0] == 0.7


def test_a_user_who_prefers_no_pool_is_not_corrected():
    assert corrected_confidence(np.array([[0.1, 0.1, 0.8]]), np.array([2]), 2, np.array([0.0]), 10)[0] == 0.8


def test_confidence_is_calibrated_where_one_of_several_sets_describes_a_user():
    """A third of the users follow the set that is looked at; the others prefer pools across it."""
    universe, mechanism, n, users = Universe.sized(18, POOLS), make("grr", 18, {"epsilon": 4.0}), 30, 900
    across = Universe.named([str(z) for z in range(18)], ["xyz"[z % 3] for z in range(18)])
    plain, corrected, correct = [], [], []
    for number, truth in enumerate((universe, across, across)):
        adversary, people, mass = masses_of(universe, mechanism, users // 3, n, SEED + 7 * number, truth)
        lengths = np.full(users // 3, n)
        likelihood = mechanism.likelihood_offset + mechanism.likelihood_scale * mass
        found = posterior_of(likelihood)
        guess = found.argmax(axis=1)
        factors = log_set_bayes_factor(mechanism, adversary, mass, lengths)[:, n]
        plain.append(found.max(axis=1))
        corrected.append(corrected_confidence(found, guess, 3, factors, 3))
        correct.append((guess == people.iota) if truth is universe else np.zeros(users // 3, dtype=bool))
    plain, corrected, correct = map(np.concatenate, (plain, corrected, correct))
    error = np.sqrt(np.sum(corrected * (1 - corrected))) / users
    assert abs(corrected.mean() - correct.mean()) < 4 * error
    assert plain.mean() - correct.mean() > 20 * error
    high = corrected > 0.8
    assert (
        abs(corrected[high].mean() - correct[high].mean())
        < 4 * np.sqrt(np.sum((corrected * (1 - corrected))[high])) / high.sum()
    )


def posterior_of(likelihood):
    from poolscope.inference.posterior import posteriors
    from poolscope.inference.quadrature import axis, point_axis
    from poolscope.population.priors import UNIFORM

    users, n, columns = likelihood.shape
    prior = np.full(columns - 1, 1 / (columns - 1))
    return posteriors(likelihood, np.full(users, n), 0.0, 1.0, point_axis(), axis(UNIFORM, n), prior)[:, n]


def test_log_odds_order_what_double_precision_calls_certain():
    values = np.array([[1.0, 1e-30, 1e-31], [1.0, 1e-20, 0.0], [1.0, 0.0, 0.0], [0.5, 0.25, 0.25]])
    found = log_odds(values)
    assert found[0] == pytest.approx(-np.log(1.1e-30))
    assert found[2] == np.inf
    assert found[3] == pytest.approx(0.0)
    assert np.argsort(-found).tolist() == [2, 0, 1, 3]
