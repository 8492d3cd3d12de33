"""Universes, traces and exact integrals for the tests of devices that memoize."""

from fractions import Fraction
from functools import cache

import numpy as np
from cases.synthetic import SEED

from poolscope.core.randomness import user_keys
from poolscope.inference.adversary import Adversary
from poolscope.population.behavior import Behavior, draw_traces, draw_users
from poolscope.population.popularity import zipf
from poolscope.population.universe import Universe

TINY = Universe.sized(5, {"a": 2, "b": 2})
ORACLE = Adversary(name="oracle", universe=TINY, popularity=np.array([0.1, 0.3, 0.2, 0.15, 0.25]))
CROWD = Universe.sized(60, {"a": 8, "b": 8, "c": 12})
POPULARITY = zipf(CROWD, 1.0)
STRONG = Adversary(name="strong", universe=CROWD, popularity=POPULARITY)


def traces_of(count, n, seed=SEED):
    keys = user_keys(seed, np.arange(count))
    users = draw_users(CROWD, Behavior(), keys)
    return keys, users, draw_traces(CROWD, POPULARITY, users, n)


@cache
def pool_integral(neutral, own, n, k):
    """Mean of (1-gamma)^neutral (gamma delta)^own (gamma (1-delta)/(k-1))^rest over uniform gamma and delta."""
    rest = n - neutral - own
    gamma = _beta(n - neutral, neutral, Fraction(0))
    delta = _beta(own, rest, Fraction(1, k)) / (1 - Fraction(1, k))
    return gamma * delta / (k - 1) ** rest


def _beta(a, b, low):
    """Integral of x^a (1-x)^b over (low, 1], by parts."""
    if b == 0:
        return (1 - low ** (a + 1)) / Fraction(a + 1)
    return (-(low ** (a + 1)) * (1 - low) ** b + b * _beta(a + 1, b - 1, low)) / (a + 1)
