"""Guess and confidence, against plain Python."""

import numpy as np
import pytest
from cases.memoized import CROWD, POPULARITY
from cases.synthetic import SEED
from scipy import stats

from poolscope.core.randomness import user_keys
from poolscope.inference.adversary import Adversary
from poolscope.inference.independent import guesses, posterior_or_prior
from poolscope.kernels.decision import first_confident
from poolscope.population.behavior import Behavior


def test_the_largest_is_guessed():
    posterior = np.random.default_rng(SEED).dirichlet(np.ones(4), (50, 3))
    guess, confidence = guesses(posterior, user_keys(SEED, np.arange(50)), np.tile([3, 7, 9], (50, 1)))
    np.testing.assert_array_equal(guess, posterior.argmax(axis=2))
    np.testing.assert_array_equal(confidence, posterior.max(axis=2))


@pytest.mark.parametrize("nearly", [0.4, np.nextafter(0.4, 0), np.nextafter(0.4, 1)])
def test_ties_up_to_rounding_are_broken_by_the_user(nearly):
    """At random between those that tie, never by another, anew at every count, and the same for the same user."""
    posterior = np.tile([0.4, 0.2, nearly], (4000, 2, 1))
    keys, counts = user_keys(SEED, np.arange(4000)), np.tile([5, 10], (4000, 1))
    guess, confidence = guesses(posterior, keys, counts)
    assert set(np.unique(guess)) == {0, 2}
    assert stats.binomtest(int((guess[:, 0] == 0).sum()), 4000).pvalue > 1e-4
    assert stats.binomtest(int((guess[:, 0] == guess[:, 1]).sum()), 4000).pvalue > 1e-4
    assert np.all(confidence == max(0.4, nearly))
    some, _ = guesses(posterior[1000:1100], keys[1000:1100], counts[1000:1100])
    np.testing.assert_array_equal(some, guess[1000:1100])
    # at 10 reports the same, whether one asks at 5 too or not
    alone, _ = guesses(posterior[:, 1:], keys, counts[:, 1:])
    np.testing.assert_array_equal(alone[:, 0], guess[:, 1])


def test_what_the_model_excludes_leaves_the_prior():
    belief = Behavior(pools=(1.0, 1.0, 2.0))
    adversary = Adversary(name="x", universe=CROWD, popularity=POPULARITY, belief=belief)
    posterior = np.array([[[0.1, 0.2, 0.7], [np.nan] * 3], [[np.nan] * 3, [0.3, 0.3, 0.4]]])
    expected = [[[0.1, 0.2, 0.7], [0.25, 0.25, 0.5]], [[0.25, 0.25, 0.5], [0.3, 0.3, 0.4]]]
    np.testing.assert_array_equal(posterior_or_prior(posterior, adversary), expected)


def test_exposure_is_dated_by_the_first_report_that_reaches_a_threshold():
    """Also where it is just reached; who is excluded reaches nothing, and what is lost again was reached."""
    tops = np.array([[0.5, 0.75, 0.9], [0.4, np.nan, 0.7], [0.6, 0.4, 0.75], [0.4, 0.4, 0.4]])
    posterior = np.stack([tops, 1 - tops], axis=2)
    posterior[posterior < 0.3] = 0.0
    out = np.empty((4, 3), dtype=np.int32)
    first_confident(posterior, np.array([0.65, 0.75, 0.95]), out)
    assert out.tolist() == [[1, 1, -1], [2, -1, -1], [2, 2, -1], [-1, -1, -1]]
