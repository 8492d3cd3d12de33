"""The non-private reference: it has the priors of the adversaries that it is shown beside."""

import numpy as np
import polars as pl
import pytest
from cases.synthetic import SEED

from poolscope import metrics
from poolscope.game.columns import NON_PRIVATE
from poolscope.game.game import Game, play
from poolscope.inference.adversary import Adversary
from poolscope.mechanisms import GRR, Fresh
from poolscope.metrics.precision import successes
from poolscope.population.behavior import Behavior
from poolscope.population.popularity import uniform, zipf
from poolscope.population.priors import Beta
from poolscope.population.universe import Universe

UNIVERSE = Universe.sized(40, {"a": 8, "b": 8, "c": 8})
POPULARITY = zipf(UNIVERSE, 1.0)
INSIDE = Behavior(polarization=Beta(a=1.0, b=12.0), pools=(6.0, 1.0, 1.0))
OTHER = Behavior(polarization=Beta(a=5.0, b=1.0))


def believing(belief, name="insider", universe=UNIVERSE):
    return Adversary(name=name, universe=universe, popularity=uniform(universe), belief=belief)


def game(*adversaries, behavior=INSIDE, epsilon=5.0):
    return Game(
        universe=UNIVERSE,
        popularity=POPULARITY,
        behavior=behavior,
        device=Fresh(GRR(universe=40, epsilon=epsilon)),
        adversaries=adversaries,
        observations=[20, 60],
    )


def margins(played, users=3000):
    """By n, how much more often the reference is right than the insider, and four standard errors of that."""
    outcomes = play(played, users, SEED)
    for n in played.observations:
        right = [successes(metrics.select(outcomes, name, n).sort("user")) for name in (NON_PRIVATE, "insider")]
        difference = right[0].astype(float) - right[1].astype(float)
        yield n, difference.mean(), 4 * difference.std() / users**0.5


@pytest.mark.default_cases("true")
@pytest.mark.parametrize("behavior", [INSIDE, Behavior()], ids=["true", "mistaken"])
def test_no_private_curve_is_above_the_reference(behavior):
    """An insider with a prior Beta(1, 12) and a common pool, whether it holds for the users or not."""
    for n, more, bound in margins(game(believing(INSIDE), behavior=behavior)):
        assert more > -bound, (n, more, bound)


def test_a_reference_without_the_prior_would_be_below(monkeypatch):
    """Negative control: uniform priors, as if nobody knew that one pool is common."""
    monkeypatch.setattr(Game, "reference_belief", Behavior())
    for n, more, bound in margins(game(believing(INSIDE))):
        assert more < -bound, (n, more, bound)


def test_the_reference_is_sure_as_often_as_it_is_right():
    """A prior that holds for the users keeps it calibrated."""
    rows = metrics.select(play(game(believing(INSIDE)), 3000, SEED), NON_PRIVATE, 60)
    assert metrics.ece(rows, SEED).value <= 1.25 * metrics.ece_null_p95(rows, SEED)


def test_of_several_priors_the_users_own_is_taken_and_else_the_last():
    weak, insider = believing(Behavior(), "weak"), believing(INSIDE)
    assert game(insider, weak).reference_belief == INSIDE
    assert game(insider, weak, behavior=Behavior()).reference_belief == Behavior()
    assert game(weak, insider, behavior=OTHER).reference_belief == INSIDE
    assert game(insider, weak, behavior=OTHER).reference_belief == Behavior()
    # pools of one's own are another question
    coarse = believing(OTHER, "coarse", Universe.sized(40, {"a": 16, "b": 8}))
    assert game(insider, coarse).reference_belief == INSIDE
    assert game(coarse).reference_belief == Behavior()


def test_uniform_priors_change_nothing():
    alone, beside = game(), game(believing(Behavior(), "weak"))
    rows = [play(one, 50, SEED).filter(pl.col("adversary") == NON_PRIVATE) for one in (alone, beside)]
    np.testing.assert_array_equal(rows[0]["confidence"], rows[1]["confidence"])
