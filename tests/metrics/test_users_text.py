"""The users that a game assumes, in words."""

import pytest

from poolscope.game.game import Game
from poolscope.mechanisms import GRR, device_of
from poolscope.metrics.text import users_in_words
from poolscope.population.behavior import Behavior, Change
from poolscope.population.population import Population
from poolscope.population.priors import Beta, StepDensity
from poolscope.population.universe import Universe

RARE, STEPS = Beta(a=1, b=5), StepDensity((1, 2))


def game(**assumed):
    return Game(
        universe=Universe.sized(5, {"a": 2, "b": 2}),
        popularity=[0.2] * 5,
        device=device_of(GRR(universe=5, epsilon=4.0), memoize=False),
        adversaries=[],
        observations=[1],
        **assumed,
    )


@pytest.mark.parametrize(
    ("behavior", "words"),
    [
        (Behavior(), "uniform interest and polarization"),
        (Behavior(interest=RARE), "Beta(1, 5) interest and uniform polarization"),
        (Behavior(interest=RARE, polarization=RARE), "Beta(1, 5) interest and polarization"),
        (Behavior(polarization=STEPS), "uniform interest and polarization of a given density"),
        (Behavior(pools=(2, 2)), "uniform interest and polarization"),
        (Behavior(pools=(3, 1)), "uniform interest and polarization, each pool preferred by 25 to 75%"),
    ],
)
def test_drawn_users_in_words(behavior, words):
    assert users_in_words(game(behavior=behavior)) == f"synthetic users with {words}"


@pytest.mark.parametrize(
    ("assumed", "end"),
    [
        ({"sigma": 0.01}, "polarization, individual popularity (sigma 0.01)"),
        ({"habits": 25.0}, "polarization, individual popularity (Dirichlet, concentration 25)"),
        ({"behavior": Behavior(none=0.1)}, "polarization, 10% without a preferred pool"),
        ({"change": Change(after=3, share=0.25)}, "polarization, 25% of whom prefer another pool after 3 events"),
        ({"population": Population.from_function(lambda keys, events: None)}, "users of a custom population"),
    ],
)
def test_users_who_differ_in_more(assumed, end):
    assert users_in_words(game(**assumed)).endswith(end)
