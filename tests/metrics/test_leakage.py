"""Leakage from the outcome table: definitions, ends, intervals, and the bound that composition gives."""

import numpy as np
import polars as pl
import pytest
from cases.records import Pools
from cases.synthetic import POOLS, SEED, attack, bare
from scipy import stats

from poolscope.attack.adversary import Adversary
from poolscope.base.errors import InputError
from poolscope.game.game import Game, play
from poolscope.mechanisms import Fresh, make
from poolscope.metrics.intervals import exactly, quantile, share_of
from poolscope.metrics.leakage import (
    SMALLEST_DOUBT,
    bayes_security,
    bayes_security_least,
    evidence,
    leakage_of,
    least_security_of,
    min_entropy_leakage,
    security_of,
)
from poolscope.metrics.precision import select
from poolscope.metrics.records import summarise
from poolscope.world.popularity import zipf
from poolscope.world.universe import Universe


def crowd(right, users=100):
    return bare(np.full(users, 0.5), np.arange(users) < right)


@pytest.mark.parametrize(
    ("right", "security", "bits"),
    [(25, 1.0, 0.0), (100, 0.0, 2.0), (50, 2 / 3, 1.0), (0, 4 / 3, -np.inf)],
)
def test_definitions(right, security, bits):
    rows = crowd(right)
    found = bayes_security(rows, 0.25)
    assert found.value == pytest.approx(security)
    assert found.low <= found.value <= found.high
    found = min_entropy_leakage(rows, 0.25)
    assert found.value == pytest.approx(bits)
    assert found.low <= found.value <= found.high
    assert found.high <= 2


def test_intervals_are_those_of_the_precision():
    precision = share_of(60, 100)
    security, bits = security_of(precision, exactly(0.25)), leakage_of(precision, exactly(0.25))
    assert security.low == pytest.approx((1 - precision.high) / 0.75)
    assert security.high == pytest.approx((1 - precision.low) / 0.75)
    assert bits.low == pytest.approx(np.log2(precision.low / 0.25))


def test_a_crowd_that_all_prefer_one_pool_has_no_security_to_lose():
    assert np.isnan(security_of(share_of(10, 10), exactly(1.0)).value)


def test_evidence_is_what_the_odds_gained():
    rows = attack(500, strength=0.4).filter(pl.col("n") == 90)
    prior = dict.fromkeys(POOLS, 1 / 6)
    posterior = rows["posterior_true"].to_numpy()
    gained = np.sort(np.log(posterior / (1 - posterior) * 5))
    found = evidence(rows, prior)
    assert found.value == pytest.approx(gained[494])
    assert found.low <= found.value <= found.high
    assert evidence(rows, prior, level=0.5).value < found.value


def test_certainty_is_as_large_as_rounding_lets_it_be():
    rows = pl.DataFrame({"pool": ["a", "b"], "posterior_true": [1.0, 1.0]})
    assert evidence(rows, {"a": 0.5, "b": 0.5}).value == pytest.approx(-np.log(SMALLEST_DOUBT))


@pytest.mark.parametrize("kind", ["grr", "hcms"])
def test_composition_bounds_the_evidence_of_every_user(kind):
    """n epsilon is never exceeded, whatever the adversary believes."""
    universe = Universe.sized(8, {"a": 2, "b": 2, "c": 2})
    parameters = {"m": 4, "hashes": 5} if kind == "hcms" else {}
    believes = Adversary(name="sure", universe=universe, popularity=zipf(universe, 3.0))
    game = Game(
        universe=universe,
        popularity=zipf(universe, 1.0),
        device=Fresh(make(kind, 8, {"epsilon": 0.4, **parameters})),
        adversaries=[Adversary.weak(universe), believes],
        observations=[1, 5, 20],
        non_private=False,
    )
    outcomes = play(game, 200, SEED)
    for name in ("weak", "sure"):
        for n in game.observations:
            most = evidence(select(outcomes, name, n), dict.fromkeys("abc", 1 / 3), level=1.0)
            assert 0 < most.value <= 0.4 * n * (1 + 1e-9)


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_intervals_of_a_quantile_hold_it(level):
    rng = np.random.default_rng(SEED)
    truth, runs = stats.norm.ppf(level), 400
    held = 0
    for _ in range(runs):
        found = quantile(rng.standard_normal(80), level)
        held += found.low <= truth <= found.high
    assert held >= stats.binom.ppf(1e-4, runs, 0.94), held


def test_a_quantile_is_a_value_that_was_seen():
    assert quantile([4, 1, 3, 2], 0.5).value == 2
    assert quantile([7], 0.99) == (7, 7, np.inf)
    with pytest.raises(InputError, match="at least one user"):
        quantile([], 0.5)


def test_a_summary_has_the_leakage():
    for record in summarise(attack(300), Pools(6), SEED):
        precision = record.precision.value
        assert record.bayes_security.value == pytest.approx((1 - precision) / (1 - 1 / 6))
        assert record.min_entropy_leakage.value == pytest.approx(np.log2(6 * precision))
        for value, low, high in (record.bayes_security, record.min_entropy_leakage):
            assert low <= value <= high


# The least over all priors


def confusion(table):
    """Rows of users by pool and guess, from their counts."""
    cells = [
        (p, g)
        for p, row in zip("abcd", table, strict=False)
        for g, n in zip("abcd", row, strict=True)
        for _ in range(n)
    ]
    return pl.DataFrame(cells, schema=["pool", "guess"], orient="row")


def security_at(channel, prior):
    """Bayes security of a channel at a prior: error with the best guess over that of the best guess without."""
    return (1 - (prior[:, None] * channel).max(axis=0).sum()) / (1 - prior.max())


def test_no_prior_has_less_security_than_the_least():
    table = np.array([[30, 5, 5, 10], [9, 20, 10, 1], [6, 6, 40, 8], [10, 10, 10, 10]])
    channel = table / table.sum(axis=1, keepdims=True)
    least = bayes_security_least(confusion(table), 4).value
    priors = np.random.default_rng(SEED).dirichlet(np.full(4, 0.3), size=3000)
    found = np.array([security_at(channel, prior) for prior in priors if prior.max() < 1 - 1e-9])
    assert least <= found.min() + 1e-12
    pairs = [np.eye(4)[a] / 2 + np.eye(4)[b] / 2 for a in range(4) for b in range(a)]
    assert least == pytest.approx(min(security_at(channel, prior) for prior in pairs))


def test_it_is_less_than_at_the_prior_of_the_users():
    """Two of the three pools are told apart, the third is not."""
    rows = confusion([[90, 5, 5, 0], [5, 90, 5, 0], [30, 30, 40, 0]])
    assert bayes_security_least(rows, 3).value == pytest.approx(1 - 0.85)
    assert bayes_security(rows, 1 / 3).value == pytest.approx((1 - 220 / 300) / (2 / 3))


def test_a_pool_that_nobody_prefers_may_leak_anything():
    rows = confusion([[50, 50, 0, 0], [50, 50, 0, 0]])
    assert bayes_security_least(rows, 2).low > 0.7
    assert bayes_security_least(rows, 3).low == 0
    alone = bayes_security_least(confusion([[5, 5, 0, 0]]), 2)
    assert np.isnan(alone.value)
    assert alone[1:] == (0, 1)


def test_few_users_who_are_all_told_apart_prove_little():
    value, low, high = bayes_security_least(confusion([[3, 0, 0, 0], [0, 3, 0, 0]]), 2)
    assert (value, low) == (0, 0)
    assert high > 0.9


@pytest.mark.parametrize("users", [20, 200])
@pytest.mark.parametrize("strength", [0.0, 0.3, 0.95])
def test_the_interval_of_the_least_holds_it(users, strength):
    """Six pools of which all pairs leak alike: the one that shows most is chosen for its luck."""
    rng, runs = np.random.default_rng([SEED, users]), 200
    channel = strength * np.eye(6) + (1 - strength) / 6
    held = below = 0
    for _ in range(runs):
        table = {
            (a, g): int(n)
            for a, row in zip("abcdef", rng.multinomial(users, channel), strict=True)
            for g, n in zip("abcdef", row, strict=True)
        }
        value, low, high = least_security_of(table, 6)
        held += low <= 1 - strength + 1e-12 and 1 - strength <= high + 1e-12
        below += value < 1 - strength
    assert held >= stats.binom.ppf(1e-4, runs, 0.95), held
    # the value alone does not: noise makes it too small
    assert below > runs / 2
