"""Groups of users who meet their own estimate of the popularity, and the intervals that follow."""

import threading
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import poolscope as ps
from poolscope.core.randomness import redraw_keys
from poolscope.game import game as game_module
from poolscope.game.columns import ESTIMATE
from poolscope.game.game import play_block, popularity_draw_of
from poolscope.inference import independent
from poolscope.mechanisms import make
from poolscope.metrics.intervals import Clusters, effect_of_share
from poolscope.reports import frequencies

SCENARIO = """
[universe]
size = 30
pools = {{ a = 5, b = 6, c = 4 }}
[popularity]
kind = "zipf"
exponent = 1.0
[mechanism]
kind = "grr"
epsilon = 2.0
[[adversary]]
name = "strong"
popularity = "estimated"
estimate_from = {reports}
[[adversary]]
name = "weak"
popularity = "uniform"
[[adversary]]
name = "oracle"
popularity = "true"
[attack]
observations = [15, 30]
non_private = false
{more}
"""


@pytest.fixture
def scenario(tmp_path):
    def load(reports=1000, more=""):
        path = tmp_path / "estimates.toml"
        path.write_text(SCENARIO.format(reports=reports, more=more))
        return ps.load_scenario(str(path))

    return load


@pytest.mark.parametrize("users", [20, 57, 100, 1000, 12_345])
def test_every_estimate_is_met_by_nearly_as_many_users(users):
    met = np.bincount(popularity_draw_of(np.arange(users), 20), minlength=20)
    assert met.min() >= 1
    assert met.max() <= 2 * met.min() + 1


def test_which_estimate_a_user_meets_depends_on_the_user_alone():
    some = np.array([3, 19, 20, 41, 999, 123_456])
    assert np.array_equal(popularity_draw_of(some, 20), popularity_draw_of(np.arange(200_000), 20)[some])
    assert not popularity_draw_of(np.arange(100), 1).any()


def test_outcomes_do_not_depend_on_how_many_play_or_in_which_blocks(scenario, monkeypatch):
    game = scenario().game(seed=3)
    many = ps.play(game, users=80, seed=3)
    few = ps.play(game, users=30, seed=3)
    assert few.equals(many.filter(pl.col("user") < 30))
    monkeypatch.setattr(game_module, "BLOCK_BYTES", 17 * game.bytes_a_user)
    assert ps.play(game, users=80, seed=3).equals(many)


@pytest.mark.parametrize(("users", "groups"), [(range(40, 80), 20), (range(10_240, 10_250), 1)])
def test_all_threads_attack_whether_groups_are_many_or_few(scenario, monkeypatch, users, groups):
    """The first posteriors wait until another thread has some to compute; every user is counted once."""
    assert len(set(popularity_draw_of(np.array(users), 20))) == groups
    game, attack, both, calls = scenario().game(seed=3), independent.posterior_block, threading.Barrier(2), []

    def waiting(*arguments):
        calls.append(arguments)
        if len(calls) <= 2:
            both.wait(timeout=30)
        return attack(*arguments)

    alone, ticks = play_block(game, users, 3, engine=ps.Local(threads=1)), []
    monkeypatch.setattr(independent, "posterior_block", waiting)
    monkeypatch.setattr(independent, "users_per_chunk", lambda *_: 5)
    assert play_block(game, users, 3, ticks.append, ps.Local(threads=2)).equals(alone)
    assert sum(ticks) == pytest.approx(len(users))


def test_the_first_group_plays_as_if_there_were_one_estimate(scenario):
    several, one = (ps.play(scenario(more=more).game(seed=3), users=80, seed=3) for more in ("", "estimates = 1"))
    assert ESTIMATE not in one.columns
    strong = several.filter(pl.col("adversary") == "strong", pl.col(ESTIMATE) == 0)
    same = one.join(strong.select("user", "adversary", "n"), on=["user", "adversary", "n"])
    assert strong.height > 0
    assert strong.drop(ESTIMATE).sort("user", "n").equals(same.sort("user", "n"))
    others = several.filter(pl.col("adversary") != "strong")
    assert others[ESTIMATE].null_count() == others.height
    assert not several.filter(pl.col("adversary") == "strong")["confidence"].equals(
        one.filter(pl.col("adversary") == "strong")["confidence"]
    )


@pytest.mark.default_cases("cms-*", "grr-*")
@pytest.mark.parametrize(
    ("kind", "parameters"), [("cms", {"m": 32, "hashes": 4096}), ("olh", {}), ("ss", {}), ("grr", {})]
)
def test_the_closed_distribution_has_the_spread_of_simulated_estimates(kind, parameters, monkeypatch):
    """Means and standard deviations of the popularity of every object, within 4.5 standard errors of both."""
    popularity = 1 / np.arange(1, 13)
    popularity /= popularity.sum()
    mechanism, draws = make(kind, 12, {"epsilon": 1.5} | parameters), 150
    both = []
    for many in (0, 1 << 60):
        monkeypatch.setattr(frequencies, "MANY_REPORTS", many)
        keys = redraw_keys(np.uint64(7), draws)
        both.append(np.array(frequencies.redraw_popularity_estimates(mechanism, popularity, 6000, keys)))
    closed, simulated = both
    spread = np.sqrt((closed.var(axis=0) + simulated.var(axis=0)) / 2)
    apart = np.abs(closed.mean(axis=0) - simulated.mean(axis=0)) / (spread * np.sqrt(2 / draws))
    ratio = np.log(closed.std(axis=0) / simulated.std(axis=0))
    # the logarithm of a standard deviation of so many draws has a standard error of about 1 / sqrt(2 draws)
    error = np.sqrt(1 / draws)
    assert apart.max() < 4.5
    assert np.abs(ratio).max() < 4.5 * error
    # negative control: noise of twice the variance would be seen
    assert abs(np.log(np.sqrt(2)) + ratio.mean()) > 4.5 * error / np.sqrt(len(popularity))


def test_a_design_effect_is_the_variance_between_groups_over_that_of_independent_users():
    rng = np.random.default_rng(1)
    groups, own = 40, 250
    rates = np.clip(0.5 + 0.1 * rng.standard_normal(groups), 0, 1)
    hits = rng.binomial(own, rates)
    # variance of a group's mean: 0.01 between groups, 0.001 within
    effect = effect_of_share(hits, np.full(groups, own))
    assert 11 * 0.6 < effect < 11 * 1.8
    alike = effect_of_share(rng.binomial(own, np.full(groups, 0.5)), np.full(groups, own))
    assert alike < 2
    assert effect_of_share([5], [10]) == 1.0
    one = Clusters(np.zeros(10, dtype=np.int64), 1)
    assert one.design_effect(np.arange(10.0) - 4.5) == 1.0


METRICS = {
    "auc_pn": lambda rows, seed: ps.metrics.auc_pn(rows, seed),
    "precision": lambda rows, seed: ps.metrics.precision(rows, seed),
    "precision_top20": lambda rows, seed: ps.metrics.precision(rows, seed, top=0.2),
    "confident_50": lambda rows, seed: ps.metrics.confident(rows, 0.5),
    "exposed_50": lambda rows, seed: ps.metrics.exposed(rows, 0.5, 30),
    "exposed_90": lambda rows, seed: ps.metrics.exposed(rows, 0.9, 30),
    "brier": lambda rows, seed: ps.metrics.brier(rows),
}


@pytest.mark.statistical
def test_intervals_hold_for_the_draw_of_the_estimate(scenario):
    """Coverage of the mean over seeds; without the groups the intervals of the strong adversary are too short."""
    loaded, seeds, found = scenario(reports=100, more="estimates = 10"), 60, {}
    for seed in range(seeds):
        game = loaded.game(seed=seed)
        alone = replace(game, adversaries=[replace(game.adversaries[0], redraws=())])
        for played, way in ((game, "groups"), (alone, "one")):
            outcomes = ps.play(played, users=300, seed=seed)
            for name in played.pool_counts:
                rows = ps.metrics.select(outcomes, name, 30)
                for metric, of in METRICS.items():
                    found.setdefault((name, metric, way), []).append(of(rows, seed))
    covered = {}
    for key, estimates in found.items():
        value, low, high = np.array(estimates).T
        covered[key] = np.mean((low <= value.mean()) & (value.mean() <= high))
    error = np.sqrt(0.05 * 0.95 / seeds)
    for (adversary, metric, way), share in covered.items():
        if way == "groups":
            assert share >= 0.95 - 3.5 * error, (adversary, metric, share)
    # negative control: the draw of one estimate for all users is in no interval
    assert min(share for (_, _, way), share in covered.items() if way == "one") < 0.95 - 3.5 * error


def test_a_number_is_that_of_an_estimate(scenario):
    """The adversary's own popularity has the number 0, and the redraws follow."""
    strong, weak, _ = scenario().game(1).adversaries
    assert len(strong.redraws) > 1
    assert strong.with_estimate(0) is strong
    for number, redraw in enumerate(strong.redraws, start=1):
        assert strong.with_estimate(number) is redraw
    assert weak.with_estimate(3) is weak
