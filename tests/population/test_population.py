"""Populations of one's own, users' own popularity, and changing preferences: distributions, keys and errors."""

from collections import Counter
from dataclasses import replace
from itertools import product
from math import gamma as gamma_function

import numpy as np
import polars as pl
import pytest
from cases.synthetic import SEED
from polars.testing import assert_frame_equal
from scipy import stats

import poolscope as ps
from poolscope.core.errors import InputError, PoolscopeError
from poolscope.core.randomness import KeyStream, children, user_keys
from poolscope.population.behavior import Users, draw_traces, draw_users, later_pools

UNIVERSE = ps.Universe.sized(30, {"a": 5, "b": 5, "c": 5})
POPULARITY = ps.popularity.zipf(UNIVERSE, 1.0)
MECHANISM = ps.mechanisms.GRR(universe=30, epsilon=3.0)
GAME = ps.Game(
    universe=UNIVERSE,
    popularity=POPULARITY,
    device=ps.mechanisms.Fresh(MECHANISM),
    adversaries=[ps.Adversary(name="strong", universe=UNIVERSE, popularity=POPULARITY)],
    observations=[4, 12],
)
KEYS = user_keys(SEED, np.arange(4000))


# Own popularity


def everyone(universe, gamma, delta, pool, count):
    return Users(keys=KEYS[:count], gamma=np.full(count, gamma), delta=np.full(count, delta), iota=np.full(count, pool))


def dirichlet_multinomial(sequence, alpha):
    """Probability of a sequence of draws from a distribution that is Dirichlet(alpha), from the definition."""
    total, out = sum(alpha), 1.0
    for z, count in Counter(sequence).items():
        out *= gamma_function(alpha[z] + count) / gamma_function(alpha[z])
    return out * gamma_function(total) / gamma_function(total + len(sequence))


def test_habits_are_draws_from_a_dirichlet_distribution():
    """Sequences of three objects of one pool, by chi-square; and not those of the popularity itself."""
    universe = ps.Universe.sized(6, {"a": 3, "b": 2})
    popularity = np.array([0.3, 0.1, 0.1, 0.2, 0.2, 0.1])
    users = everyone(universe, 1.0, 1.0, 0, 4000)
    traces = draw_traces(universe, popularity, users, 3, habits=4.0)
    found = Counter(map(tuple, traces.tolist()))
    every = list(product(range(3), repeat=3))
    observed = [found[sequence] for sequence in every]
    expected = [4000 * dirichlet_multinomial(sequence, 4.0 * popularity[:3]) for sequence in every]
    assert sum(observed) == 4000
    assert stats.chisquare(observed, expected).pvalue > 1e-3
    share = popularity[:3] / popularity[:3].sum()
    independent = [4000 * np.prod(share[list(sequence)]) for sequence in every]
    assert stats.chisquare(observed, independent).pvalue < 1e-12


def test_large_concentrations_are_the_popularity_itself():
    users = draw_users(UNIVERSE, ps.Behavior(), KEYS)
    first = draw_traces(UNIVERSE, POPULARITY, users, 10, habits=1e12)
    second = draw_traces(UNIVERSE, POPULARITY, users, 10)
    assert np.mean(first == second) > 0.999
    assert np.mean(draw_traces(UNIVERSE, POPULARITY, users, 10, habits=1.0) == second) < 0.9


@pytest.mark.parametrize("habits", [None, 5.0])
@pytest.mark.parametrize("change", [None, ps.Change(after=6, share=0.5)])
def test_a_users_first_events_are_the_same_in_longer_traces(habits, change):
    users = draw_users(UNIVERSE, ps.Behavior(), KEYS[:300])
    long = draw_traces(UNIVERSE, POPULARITY, users, 20, habits=habits, change=change)
    short = draw_traces(UNIVERSE, POPULARITY, users, 9, habits=habits, change=change)
    np.testing.assert_array_equal(long[:, :9], short)


# Changes


@pytest.mark.parametrize("extra", [{}, {"habits": 50.0}, {"sigma": 0.001}], ids=str)
def test_a_change_moves_the_share_to_other_pools_from_that_event_on(extra):
    change = ps.Change(after=3, share=0.25)
    users = everyone(UNIVERSE, 1.0, 1.0, 1, 4000)
    later = later_pools(UNIVERSE, change, users)
    traces = draw_traces(UNIVERSE, POPULARITY, users, 6, change=change, **extra)
    pools = UNIVERSE.pool_of[traces]
    assert np.all(pools[:, :3] == 1)
    np.testing.assert_array_equal(pools[:, 3:], np.repeat(later[:, None], 3, axis=1))
    expected = 4000 * np.array([0.125, 0.75, 0.125])
    assert stats.chisquare(np.bincount(later, minlength=3), expected).pvalue > 1e-3


def test_the_truth_is_the_pool_at_each_count():
    game = replace(GAME, change=ps.Change(after=4, share=1.0))
    outcomes, constant = (ps.play(one, 50, SEED) for one in (game, GAME))
    strong, before = (frame.filter(frame["adversary"] == "strong") for frame in (outcomes, constant))
    first, last = (strong.filter(strong["n"] == n) for n in (4, 12))
    same = ["user", "pool", "gamma", "delta", "guess", "confidence"]
    assert_frame_equal(first.select(same), before.filter(before["n"] == 4).select(same))
    assert (first["pool"] != last["pool"]).all()
    assert game.prior_success("strong") == pytest.approx(1 / 3)
    skewed = replace(game, behavior=ps.Behavior(pools=(0.6, 0.2, 0.2)), change=ps.Change(after=4, share=0.5))
    assert skewed.prior_success("strong") == pytest.approx(0.6)


def test_users_without_a_pool_never_change():
    users = draw_users(UNIVERSE, ps.Behavior(none=0.5), KEYS[:500])
    later = later_pools(UNIVERSE, ps.Change(after=1, share=1.0), users)
    np.testing.assert_array_equal(later == 3, users.iota == 3)
    assert np.all((later != users.iota) | (users.iota == 3))


# Given traces


def test_given_traces_are_attacked_with_the_given_truth():
    traces = [[0, 1, 2, 3] * 3, [6, 6, 6], [10, 11, 12, 13, 14] * 3]
    people = ps.Population.from_traces(traces, truth=["a", "c", "b"], names=["ann", "bob", "cay"])
    game = replace(GAME, population=people)
    outcomes = ps.play(game, 3, SEED)
    strong = outcomes.filter((outcomes["adversary"] == "strong") & (outcomes["n"] == 12))
    assert strong["user"].to_list() == ["ann", "bob", "cay"]
    assert strong["pool"].to_list() == ["a", "c", "b"]
    assert strong["recorded"].all()
    drawn = ps.simulate(game, 3, SEED)
    assert drawn.lengths.tolist() == [12, 3, 12]
    first = {"value": drawn.reports["value"][12:15]}
    found = ps.posterior(MECHANISM, first, GAME.adversaries[0])[-1]
    assert strong["confidence"][1] == pytest.approx(found.max(), abs=1e-12)
    measured = ps.play(replace(game, population=ps.Population.from_traces(traces)), 3, SEED)
    assert measured.filter(measured["n"] == 12)["pool"].to_list()[:3] == ["a", "b", "c"]


def test_the_truth_of_given_traces_may_change():
    pools = np.array([[0] * 4 + [1] * 8, [2] * 12])
    game = replace(GAME, population=ps.Population.from_traces(np.zeros((2, 12), dtype=int), truth=pools))
    outcomes = ps.play(game, 2, SEED).filter(pl.col("adversary") == "strong")
    assert outcomes.sort("user", "n")["pool"].to_list() == ["a", "b", "c", "c"]


def test_short_and_sampled_traces_send_no_more_than_there_is():
    people = ps.Population.from_traces([[0] * 5, [1] * 3, [2] * 8])
    policy = ps.mechanisms.ReportingPolicy(sampling_rate=0.5)
    for given in (policy, ps.mechanisms.ReportingPolicy(cap=4), ps.mechanisms.ReportingPolicy(rotate_after=2)):
        game = replace(GAME, population=people, policy=given)
        lengths = ps.simulate(game, 3, SEED).lengths
        assert np.all(lengths <= [5, 3, 8])
        assert ps.play(game, 3, SEED)["confidence"].is_finite().all()


# Drawn traces


def pair(keys, n):
    u = ps.random.uniforms(keys, range(n + 1))
    pool = (u[:, -1] * 3).astype(np.int64)
    return 5 * pool[:, None] + (u[:, :-1] * 5).astype(np.int64), pool


def test_a_function_draws_the_users(monkeypatch):
    game = replace(GAME, population=ps.Population.from_function(pair))
    outcomes = ps.play(game, 20, SEED)
    strong = outcomes.filter((outcomes["adversary"] == "strong") & (outcomes["n"] == 12))
    assert not strong["recorded"].any()
    assert (strong["gamma"] == 1).all()
    _, pools = pair(children(user_keys(SEED, np.arange(20)), KeyStream.POPULATION), 12)
    assert strong["pool"].to_list() == ["abc"[pool] for pool in pools]
    monkeypatch.setattr("poolscope.game.game.BLOCK_BYTES", 1)
    assert_frame_equal(ps.play(game, 20, SEED), outcomes)


@pytest.mark.parametrize(
    ("function", "rule"),
    [
        (lambda keys, n: np.random.default_rng(len(keys)).integers(30, size=(len(keys), n)), "that user's key alone"),
        (lambda keys, n: np.zeros((len(keys), n + 1), dtype=int), r"must return \(users, n\)"),
        (lambda keys, n: np.full((len(keys), n), 30), "from 0 to 29"),
        (lambda keys, n: np.zeros((len(keys), n)), "must be integers"),
        (lambda keys, n: (np.zeros((len(keys), n), dtype=int), np.full(len(keys), 3)), "must be among a, b, c"),
        (lambda keys, n: (np.zeros((len(keys), n), dtype=int), np.zeros(1, dtype=int)), "must be"),
        (lambda keys, n: {}["x"], "the function of a population failed: KeyError"),
    ],
)
def test_functions_that_draw_wrongly_are_refused_in_one_line(function, rule):
    with pytest.raises(PoolscopeError, match=rule) as caught:
        ps.play(replace(GAME, population=ps.Population.from_function(function)), 5, SEED)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (([],), "one or more"),
        (([[1, 2], []],), "one or more"),
        (([[1, 2]], ["a", "b"]), "truth must be"),
        (([[1, 2]], None, ["x", "y"]), "names must be"),
        (([[0.5]],), "integers"),
    ],
)
def test_wrong_traces_are_refused(arguments, rule):
    with pytest.raises(InputError, match=rule):
        ps.Population.from_traces(*arguments)


def test_users_come_from_one_place():
    people = ps.Population.from_traces([[1, 2]])
    for wrong in (
        {"population": people, "habits": 5.0},
        {"population": people, "change": ps.Change(after=1, share=0.5)},
        {"habits": 5.0, "sigma": 0.1},
        {"population": [[1, 2]]},
        {"habits": 0.0},
        {"change": {"after": 3}},
    ):
        with pytest.raises(InputError):
            replace(GAME, **wrong)
    with pytest.raises(InputError, match="at most the 1"):
        ps.play(replace(GAME, population=people), 2, SEED)
    with pytest.raises(InputError, match="share"):
        ps.Change(after=3, share=1.5)


# Scenarios


TABLES = {
    "universe": {"size": 30, "pools": {"a": 5, "b": 5, "c": 5}},
    "popularity": {"kind": "zipf", "exponent": 1.0},
    "mechanism": {"kind": "grr", "epsilon": 3.0},
    "adversary": [{"name": "strong", "popularity": "true"}],
    "attack": {"observations": [4, 12]},
}


def test_a_scenario_has_habits_and_a_change():
    keys = {"habits": {"dirichlet": 20.0}, "change": {"after": 4, "share": 0.3}}
    game = ps.Scenario.from_dict({**TABLES, "users": keys}).game(1)
    assert (game.habits, game.change) == (20.0, ps.Change(after=4, share=0.3))
    same = replace(GAME, habits=20.0, change=ps.Change(after=4, share=0.3))
    assert_frame_equal(ps.play(game, 40, SEED), ps.play(same, 40, SEED))
    assert not ps.play(same, 40, SEED).equals(ps.play(GAME, 40, SEED))


@pytest.mark.parametrize(
    ("users", "rule"),
    [
        ({"habits": {"dirichlet": 0}}, "habits.dirichlet"),
        ({"habits": {"dirichet": 1.0}}, "dirichlet"),
        ({"habits": {"dirichlet": 1.0}, "sigma": 0.1}, "sigma"),
        ({"change": {"after": 4}}, "share"),
        ({"change": {"after": 4, "share": 1.1}}, "change.share"),
        ({"traces": "traces.csv", "change": {"after": 4, "share": 0.1}}, "synthetic"),
    ],
)
def test_wrong_keys_are_refused(users, rule):
    with pytest.raises(InputError, match=rule):
        ps.Scenario.from_dict({**TABLES, "users": users})
