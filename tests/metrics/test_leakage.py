"""Leakage from the outcome table: definitions, ends, intervals, and the bound that composition gives."""

from itertools import product

import numpy as np
import polars as pl
import pytest
from cases.records import Pools
from cases.synthetic import POOLS, SEED, attack, bare
from scipy import stats

from poolscope.core.errors import InputError
from poolscope.game.columns import NON_PRIVATE
from poolscope.game.game import Game, play
from poolscope.inference.adversary import Adversary
from poolscope.mechanisms import Fresh, make
from poolscope.metrics.intervals import TAIL, known_value, quantile, share_of
from poolscope.metrics.leakage import (
    SMALLEST_DOUBT,
    _uniform_prior_security,
    bayes_risk_ratio,
    bayes_security,
    leakage_of,
    log_odds_gain,
    min_entropy_leakage,
    min_security_of,
    security_of,
)
from poolscope.metrics.precision import select
from poolscope.metrics.records import prior_success, summarize
from poolscope.population.behavior import Behavior
from poolscope.population.popularity import uniform, zipf
from poolscope.population.universe import Universe


def partition(right, users=100):
    return bare(np.full(users, 0.5), np.arange(users) < right)


@pytest.mark.parametrize(
    ("right", "security", "bits"),
    [(25, 1.0, 0.0), (100, 0.0, 2.0), (50, 2 / 3, 1.0), (0, 4 / 3, -np.inf)],
)
def test_definitions(right, security, bits):
    rows = partition(right)
    found = bayes_risk_ratio(rows, 0.25)
    assert found.value == pytest.approx(security)
    assert found.low <= found.value <= found.high
    found = min_entropy_leakage(rows, 0.25)
    assert found.value == pytest.approx(bits)
    assert found.low <= found.value <= found.high
    assert found.high <= 2


def test_intervals_are_those_of_the_precision():
    precision = share_of(60, 100)
    security, bits = security_of(precision, known_value(0.25)), leakage_of(precision, known_value(0.25))
    assert security.low == pytest.approx((1 - precision.high) / 0.75)
    assert security.high == pytest.approx((1 - precision.low) / 0.75)
    assert bits.low == pytest.approx(np.log2(precision.low / 0.25))


def test_a_crowd_that_all_prefer_one_pool_has_no_security_to_lose():
    assert np.isnan(security_of(share_of(10, 10), known_value(1.0)).value)


def test_evidence_is_what_the_odds_gained():
    rows = attack(500, strength=0.4).filter(pl.col("n") == 90)
    prior = dict.fromkeys(POOLS, 1 / 6)
    posterior = rows["posterior_true"].to_numpy()
    gained = np.sort(np.log(posterior / (1 - posterior) * 5))
    found = log_odds_gain(rows, prior)
    assert found.value == pytest.approx(gained[494])
    assert found.low <= found.value <= found.high
    assert log_odds_gain(rows, prior, level=0.5).value < found.value


def test_certainty_is_as_large_as_rounding_lets_it_be():
    rows = pl.DataFrame({"pool": ["a", "b"], "posterior_true": [1.0, 1.0]})
    assert log_odds_gain(rows, {"a": 0.5, "b": 0.5}).value == pytest.approx(-np.log(SMALLEST_DOUBT))


@pytest.mark.parametrize("kind", ["grr", "hcms"])
def test_composition_bounds_the_evidence_of_every_user(kind):
    """n epsilon is never exceeded, whatever the adversary believes."""
    universe = Universe.sized(8, {"a": 2, "b": 2, "c": 2})
    parameters = {"m": 4, "hashes": 5} if kind == "hcms" else {}
    believes = Adversary(name="confident_at_threshold", universe=universe, popularity=zipf(universe, 3.0))
    game = Game(
        universe=universe,
        popularity=zipf(universe, 1.0),
        device=Fresh(make(kind, 8, {"epsilon": 0.4, **parameters})),
        adversaries=[Adversary.weak(universe), believes],
        observations=[1, 5, 20],
        non_private=False,
    )
    outcomes = play(game, 200, SEED)
    for name in ("weak", "confident_at_threshold"):
        for n in game.observations:
            most = log_odds_gain(select(outcomes, name, n), dict.fromkeys("abc", 1 / 3), level=1.0)
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
    for record in summarize(attack(300), Pools(6), SEED):
        precision = record.precision.value
        assert record.bayes_risk_ratio.value == pytest.approx((1 - precision) / (1 - 1 / 6))
        assert record.min_entropy_leakage.value == pytest.approx(np.log2(6 * precision))
        for value, low, high in (record.bayes_risk_ratio, record.min_entropy_leakage):
            assert low <= value <= high


# The least over all priors


def least(table, k=None):
    """From the counts of users by pool and guess."""
    names = "abcdef"[: len(table[0])]
    counts = {(p, g): int(n) for p, row in zip(names, table, strict=False) for g, n in zip(names, row, strict=True)}
    return min_security_of({both: n for both, n in counts.items() if n}, k or len(table), SEED)


def security_at(channel, prior):
    """Bayes security of a channel at a prior: error with the best guess over that of the best guess without."""
    return (1 - (prior[:, None] * channel).max(axis=0).sum()) / (1 - prior.max())


def test_no_prior_has_less_security_than_the_least():
    table = 10_000 * np.array([[30, 5, 5, 10], [9, 20, 10, 1], [6, 6, 40, 8], [10, 10, 10, 10]])
    channel = table / table.sum(axis=1, keepdims=True)
    found = least(table)
    priors = np.random.default_rng(SEED).dirichlet(np.full(4, 0.3), size=3000)
    assert found.value <= min(security_at(channel, prior) for prior in priors if prior.max() < 1 - 1e-9) + 1e-3
    pairs = [np.eye(4)[a] / 2 + np.eye(4)[b] / 2 for a in range(4) for b in range(a)]
    assert found.value == pytest.approx(min(security_at(channel, prior) for prior in pairs), abs=1e-3)
    assert found.high - found.low < 0.02


def test_it_is_less_than_at_the_prior_of_the_users():
    """Two of the three pools are told apart, the third is not."""
    table = 1000 * np.array([[90, 5, 5], [5, 90, 5], [30, 30, 40]])
    found = least(table)
    assert found.value == pytest.approx(1 - 0.85, abs=1e-3)
    at_prior = security_of(share_of(220_000, 300_000), known_value(1 / 3))
    assert at_prior.value == pytest.approx(0.4)
    assert found.high < at_prior.low


def test_rows_and_their_counts_tell_the_same():
    rows = attack(300).filter(pl.col("n") == 90)
    found = bayes_security(rows, 6, SEED)
    counts = {both: rows.filter(pool=both[0], guess=both[1]).height for both in product(POOLS, POOLS)}
    assert found == min_security_of({both: n for both, n in counts.items() if n}, 6, SEED)
    assert found == bayes_security(rows.sample(fraction=1, shuffle=True, seed=1), 6, SEED)


def test_a_pool_that_nobody_prefers_may_leak_anything():
    assert least([[50, 50], [50, 50]]).low > 0.7
    assert least([[50, 50], [50, 50]], k=3).low == 0
    alone = least([[5, 5]], k=2)
    assert np.isnan(alone.value)
    assert alone[1:] == (0, 1)


def test_evenly_preferred_pools_have_half_of_the_error_on_one_side():
    """The high end is of exact binomial ends, from the beta distribution, at half of what one side may err."""
    right, users = np.array([12.0, 30.0, 45.0]), np.array([40.0, 60.0, 50.0])
    value, high = _uniform_prior_security(right, users)
    low = stats.beta.ppf(TAIL / 2, right, users - right + 1)
    wrong = 1 - (right / users).mean()
    assert value == pytest.approx(wrong / (2 / 3))
    assert high == pytest.approx((wrong + np.sqrt(np.sum((right / users - low) ** 2)) / 3) / (2 / 3))


def test_few_users_who_are_all_told_apart_prove_little():
    value, low, high = least([[3, 0], [0, 3]])
    assert low == 0
    assert value < 0.5
    assert high > 0.9
    assert least([[1, 0], [0, 1]])[1:] == (0, 1)


@pytest.mark.default_cases("60-0.3-200")
@pytest.mark.parametrize("users", [20, 200])
@pytest.mark.parametrize("strength", [0.0, 0.3, 0.95])
@pytest.mark.parametrize("runs", [60, 150])
def test_the_interval_of_the_least_holds_it_and_the_value_is_near(users, strength, runs):
    """Six pools of which all pairs leak alike: the one that shows most is chosen for its luck."""
    rng, truth = np.random.default_rng([SEED, users]), 1 - strength
    channel = strength * np.eye(6) + (1 - strength) / 6
    tables = rng.multinomial(users, channel, size=(runs, 6))
    value, low, high = np.array([least(table) for table in tables]).T
    held = ((low <= truth + 1e-12) & (truth <= high + 1e-12)).sum()
    assert held >= stats.binom.ppf(1e-4, runs, 0.95), held
    rows = tables / users
    largest = np.abs(rows[:, :, None] - rows[:, None]).sum(axis=3).max(axis=(1, 2)) / 2
    if users == 200 and strength:
        # the largest difference that is seen is too large
        assert abs(value.mean() - truth) < abs(1 - largest.mean() - truth) / 3


# The prior that the game knows


def test_the_game_says_how_often_a_blind_guess_is_right():
    universe = Universe.sized(12, {"a": 3, "b": 3, "c": 3})
    other = Universe.sized(12, {"d": 6, "e": 6})
    people = [
        Adversary(name=name, universe=own, popularity=uniform(own)) for name, own in (("x", universe), ("y", other))
    ]
    game = Game(
        universe=universe,
        popularity=uniform(universe),
        behavior=Behavior(pools=(6, 2, 1)),
        device=Fresh(make("grr", 12, {"epsilon": 1.0})),
        adversaries=people,
        observations=[2],
    )
    # of pools that are not the scenario's nobody has said how they are preferred
    assert [game.prior_success(name) for name in ("x", "y", NON_PRIVATE)] == [6 / 9, None, 6 / 9]
    x, y, plain = summarize(play(game, 50, 1), game, 1)
    for record in (x, plain):
        assert record.bayes_risk_ratio.value == pytest.approx((1 - record.precision.value) / (3 / 9))
        assert record.min_entropy_leakage.value == pytest.approx(np.log2(record.precision.value / (6 / 9)))
    assert prior_success(1 / 2, 30, 50) == (0.5, 0.5, share_of(30, 50).high)
    assert y.bayes_risk_ratio.high > (1 - y.precision.low) / 0.5
