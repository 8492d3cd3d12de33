"""The game: its truth, its reproducibility, its fused path, and whether the attack knows its odds."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from cases.synthetic import SEED
from oracle import reference
from polars.testing import assert_frame_equal
from scipy import stats

from poolscope import metrics
from poolscope.core.errors import InputError
from poolscope.core.executors import Local
from poolscope.core.randomness import report_keys, user_keys
from poolscope.game.game import Game, play, play_block
from poolscope.inference import independent
from poolscope.inference.adversary import Adversary
from poolscope.inference.attack import posterior
from poolscope.inference.non_private import non_private_posterior
from poolscope.mechanisms import CMS, HCMS, Fresh, Identity, NoHashCMS
from poolscope.metrics.calibration import ece, ece_null_p95
from poolscope.population.behavior import Behavior, Users, draw_traces, draw_users, own_popularity, preferences
from poolscope.population.popularity import zipf
from poolscope.population.priors import Beta
from poolscope.population.universe import Universe

UNIVERSE = Universe.sized(60, {"a": 8, "b": 1, "c": 12})
POPULARITY = zipf(UNIVERSE, 1.0)
ORACLE = Adversary(name="oracle", universe=UNIVERSE, popularity=POPULARITY)
MECHANISM = CMS(universe=60, epsilon=4.0, m=64, hashes=500)
GAME = Game(
    universe=UNIVERSE,
    popularity=POPULARITY,
    device=Fresh(MECHANISM),
    adversaries=[Adversary.weak(UNIVERSE), ORACLE],
    observations=[5, 20, 40],
)


# Same seed, same bits


class Backwards(Local):
    """An engine that does the last part first."""

    def map(self, function, items):
        return map(function, list(items)[::-1])


@pytest.fixture(scope="module")
def outcomes():
    return play(GAME, 500, SEED, engine=Local(threads=1))


@pytest.mark.default_cases("1-Local(threads=2)", "1048576-Backwards(threads=3)")
@pytest.mark.parametrize("engine", [Local(threads=1), Local(threads=2), Backwards(threads=3)], ids=str)
@pytest.mark.parametrize("block_bytes", [1, 1 << 20])
def test_threads_and_blocks_change_no_bit(outcomes, engine, block_bytes, monkeypatch):
    monkeypatch.setattr("poolscope.game.game.BLOCK_BYTES", block_bytes)
    monkeypatch.setattr(independent, "CHUNK", 17)
    # a block of each user takes a while
    users = 500 if block_bytes > 1 else 10
    expected = outcomes.filter(pl.col("user") < users)
    assert_frame_equal(play(GAME, users, SEED, engine=engine), expected, check_exact=True)


def test_first_users_are_the_same_in_a_larger_crowd(outcomes):
    few = play(GAME, 37, SEED)
    assert_frame_equal(few, outcomes.filter(pl.col("user") < 37), check_exact=True)
    some = play_block(GAME, range(100, 130), SEED)
    expected = outcomes.filter(pl.col("user").is_between(100, 129))
    assert_frame_equal(some.sort("adversary", "n", "user"), expected, check_exact=True)


@pytest.mark.parametrize("mechanism", [MECHANISM, HCMS(universe=60, epsilon=4.0, m=64, hashes=50)])
def test_first_reports_are_the_same_in_a_longer_run(mechanism):
    long = replace(GAME, device=Fresh(mechanism), observations=[7, 30, 180])
    short = replace(long, observations=[7, 30])
    one, other = play(short, 200, SEED), play(long, 200, SEED).filter(pl.col("n") <= 30)
    crossings = [c for c in one.columns if c.startswith("exposed")]
    assert_frame_equal(one.drop(crossings), other.drop(crossings), check_exact=True)
    for name in crossings:
        late = pl.when(pl.col(name) <= 30).then(pl.col(name)).alias(name)
        assert_frame_equal(one.select(name), other.select(late), check_exact=True)


def test_adversaries_do_not_touch_each_other(outcomes):
    alone = play(replace(GAME, adversaries=[ORACLE], non_private=False), 500, SEED)
    expected = outcomes.filter(pl.col("adversary") == "oracle")
    columns = ["user", "n", "gamma", "delta", "confidence", "posterior_true", "exposed_at_90"]
    assert_frame_equal(alone.select(columns), expected.select(columns), check_exact=True)


def test_another_seed_is_another_crowd(outcomes):
    other = play(GAME, 500, SEED + 1)
    assert (other["gamma"] != outcomes["gamma"]).all()


def test_outcomes_agree_with_themselves(outcomes):
    assert outcomes.height == 500 * 3 * 3
    assert outcomes["adversary"].unique(maintain_order=True).to_list() == ["weak", "oracle", "non-private"]
    right = outcomes.filter(pl.col("guess") == pl.col("pool"))
    # of pools that are tied up to rounding one is guessed, not always the first of them
    np.testing.assert_allclose(right["confidence"], right["posterior_true"], rtol=1e-12)
    assert (outcomes["confidence"] >= outcomes["posterior_true"]).all()
    assert outcomes["confidence"].is_between(1 / 3 - 1e-12, 1).all()
    for level in (50, 90, 95):
        column = pl.col(f"exposed_at_{level}")
        sure = outcomes.filter((pl.col("n") == 40) & (pl.col("confidence") >= level / 100))
        assert (sure[f"exposed_at_{level}"] <= 40).all()
        not_yet = outcomes.filter(column.is_null() | (column > pl.col("n")))
        assert (not_yet["confidence"] < level / 100).all()


# The truth


@pytest.fixture(scope="module")
def partition():
    return draw_users(UNIVERSE, Behavior(), user_keys(SEED, np.arange(100_000)))


def test_behavior_is_uniform(partition):
    assert partition.gamma.min() > 0
    assert partition.gamma.max() <= 1
    assert stats.kstest(partition.gamma, stats.uniform.cdf).pvalue > 1e-4
    assert partition.delta.min() > 1 / 3
    assert partition.delta.max() <= 1
    assert stats.kstest(partition.delta, stats.uniform(1 / 3, 2 / 3).cdf).pvalue > 1e-4
    assert stats.chisquare(np.bincount(partition.iota, minlength=3)).pvalue > 1e-4
    # and the three are independent
    cells = np.histogramdd((partition.gamma, partition.delta, partition.iota), (4, 4, 3))[0]
    assert stats.chisquare(cells.ravel()).pvalue > 1e-4


def test_behavior_of_other_laws():
    distribution = Behavior(interest=Beta(a=2.0), polarization=Beta(b=3.0), pools=(1.0, 0.0, 3.0))
    users = draw_users(UNIVERSE, distribution, user_keys(SEED, np.arange(20_000)))
    assert stats.kstest(users.gamma, stats.beta(2, 1).cdf).pvalue > 1e-4
    assert stats.kstest((3 * users.delta - 1) / 2, stats.beta(1, 3).cdf).pvalue > 1e-4
    seen = np.bincount(users.iota, minlength=3)
    assert seen[1] == 0
    assert stats.chisquare(seen[[0, 2]], [5000, 15_000]).pvalue > 1e-4


def test_without_neutral_objects_interest_is_one():
    universe = Universe.sized(9, {"a": 4, "b": 5})
    users = draw_users(universe, Behavior(), user_keys(SEED, np.arange(50)))
    assert (users.gamma == 1).all()
    traces = draw_traces(universe, zipf(universe, 1.0), users, 30)
    assert traces.min() >= 0
    assert traces.max() < 9


def clones(gamma, delta, iota, count):
    """Users with keys of their own and one behavior."""
    keys = user_keys(SEED, np.arange(count))
    return Users(keys=keys, gamma=np.full(count, gamma), delta=np.full(count, delta), iota=np.full(count, iota))


@pytest.mark.parametrize("pools", [(8, 1, 12), (1, 1), (30, 30)])
@pytest.mark.parametrize(("gamma", "delta"), [(0.7, 0.6), (1.0, 1.0), (1e-3, 0.55)])
def test_traces_follow_the_users_law(pools, gamma, delta):
    universe = Universe.sized(60, dict(zip("abc", pools, strict=False)))
    popularity = zipf(universe, 1.0)
    gamma = 1.0 if universe.neutral_size == 0 else gamma
    iota = universe.k - 1
    traces = draw_traces(universe, popularity, clones(gamma, delta, iota, 2000), 20)
    expected = np.array(reference.representation(iota, gamma, delta, popularity, universe.pool_of), dtype=float)
    assert_drawn_from(traces, expected)


def assert_drawn_from(objects, probability):
    seen = np.bincount(objects.ravel(), minlength=len(probability))
    assert seen[probability == 0].sum() == 0
    expected = probability * objects.size
    rare = expected < 5
    seen, expected = np.append(seen[~rare], seen[rare].sum()), np.append(expected[~rare], expected[rare].sum())
    keep = expected > 0
    if keep.sum() > 1:
        assert stats.chisquare(seen[keep], expected[keep]).pvalue > 1e-4


def test_objects_of_a_trace_are_independent():
    """Given the behavior: neighbors, and the same place in neighboring users."""
    traces = draw_traces(UNIVERSE, POPULARITY, clones(0.7, 0.6, 2, 20_000), 2)
    part = UNIVERSE.pool_of[traces] + 1
    for one, other in ((part[:, 0], part[:, 1]), (part[1:, 0], part[:-1, 0])):
        together = np.histogram2d(one, other, bins=4)[0]
        assert stats.chi2_contingency(together).pvalue > 1e-4


# Users who perturb the popularity


@pytest.mark.parametrize("sigma", [1e-3, 0.1])
def test_own_popularity_has_the_stated_law(sigma):
    """Two samples, the kernel's and the oracle's: single objects, and pairs of them."""
    rng = np.random.default_rng(SEED)
    ours = np.array([own_popularity(POPULARITY, sigma, key) for key in user_keys(SEED, np.arange(2000))])
    theirs = np.array([reference.perturbed(POPULARITY, sigma, rng) for _ in range(2000)])
    np.testing.assert_allclose(ours.sum(axis=1), 1)
    assert ours.min() == 0
    for z in (0, 1, 9, 59):
        assert stats.ks_2samp(ours[:, z], theirs[:, z]).pvalue > 1e-4
        w = (z + 1) % 60
        assert stats.ks_2samp(ours[:, z] - ours[:, w], theirs[:, z] - theirs[:, w]).pvalue > 1e-4


def test_own_popularity_is_what_the_trace_follows():
    users = clones(0.8, 0.5, 0, 3)
    traces = draw_traces(UNIVERSE, POPULARITY, users, 20_000, sigma=0.02)
    for key, trace in zip(users.keys, traces, strict=True):
        own = own_popularity(POPULARITY, 0.02, key)
        assert stats.entropy(own, POPULARITY) > 0.05
        distribution = np.array(reference.representation(0, 0.8, 0.5, own, UNIVERSE.pool_of), dtype=float)
        assert_drawn_from(trace, distribution)


def test_sigma_zero_is_the_popularity_itself():
    np.testing.assert_array_equal(own_popularity(POPULARITY, 0.0, np.uint64(1)), POPULARITY)
    almost = play(replace(GAME, sigma=1e-12), 50, SEED)
    assert_frame_equal(almost.select("gamma", "pool"), play(GAME, 50, SEED).select("gamma", "pool"))


# The fused path and the reports themselves


def traces_of(game, users, seed):
    keys = user_keys(seed, np.arange(users))
    truth = draw_users(game.universe, game.behavior, keys)
    return keys, truth, draw_traces(game.universe, game.popularity, truth, game.horizon, sigma=game.sigma)


OTHER_POOLS = Universe(size=60, pool_names=("even", "odd"), pool_of=np.where(np.arange(60) < 40, np.arange(60) % 2, -1))
MECHANISMS = {
    "cms": MECHANISM,
    "cms, m no multiple of 64": CMS(universe=60, epsilon=1.0, m=50, hashes=1 << 16),
    "cms without hashing": NoHashCMS(universe=60, epsilon=4.0),
    "hcms": HCMS(universe=60, epsilon=4.0, m=32, hashes=70),
    "identity": Identity(universe=60),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_fused_game_is_the_attack_on_the_reports(name):
    """Keyed by the same randomness: three adversaries, one with pools of its own, to the last bit."""
    mechanism, users = MECHANISMS[name], 60
    second = Adversary(name="parity", universe=OTHER_POOLS, popularity=POPULARITY)
    game = replace(GAME, device=Fresh(mechanism), adversaries=[Adversary.weak(UNIVERSE), second, ORACLE])
    outcomes = play(game, users, SEED)
    keys, truth, traces = traces_of(game, users, SEED)
    reports = mechanism.report(traces.ravel(), report_keys(keys, 0, game.horizon).ravel())
    for adversary in game.adversaries:
        found = posterior(mechanism, reports, adversary, lengths=np.full(users, game.horizon))
        preferred = preferences(UNIVERSE, POPULARITY, truth, adversary.universe)[0]
        for n in game.observations:
            rows = outcomes.filter((pl.col("adversary") == adversary.name) & (pl.col("n") == n))
            np.testing.assert_array_equal(rows["confidence"], found[:, n].max(axis=1))
            np.testing.assert_array_equal(rows["posterior_true"], found[np.arange(users), n, preferred])
            names = np.array(adversary.universe.pool_names)
            assert rows["pool"].cast(pl.String).to_list() == names[preferred].tolist()


def test_preferences_towards_other_pools():
    """From Phi_U by the oracle; and a copy of the users' own pools gives their own draws."""
    _, truth, _ = traces_of(GAME, 40, SEED)
    iota, gamma, delta = preferences(UNIVERSE, POPULARITY, truth, OTHER_POOLS)
    for user in range(40):
        behavior = truth.iota[user], truth.gamma[user], truth.delta[user]
        distribution = np.array(reference.representation(*behavior, POPULARITY, UNIVERSE.pool_of), dtype=float)
        pools = np.bincount(OTHER_POOLS.pool_of + 1, weights=distribution)[1:]
        assert iota[user] == pools.argmax()
        assert gamma[user] == pytest.approx(pools.sum(), rel=1e-12)
        assert delta[user] == pytest.approx(pools.max() / pools.sum(), rel=1e-12)
    copy = Universe.sized(60, {"a": 8, "b": 1, "c": 12})
    same = preferences(UNIVERSE, POPULARITY, truth, copy)
    np.testing.assert_array_equal(same[0], truth.iota)
    np.testing.assert_allclose(same[1:], [truth.gamma, truth.delta], rtol=1e-12)


@pytest.mark.parametrize("neutral", [0, 39])
def test_non_private_posterior_is_that_of_the_identity(neutral):
    universe = Universe.sized(21 + neutral, {"a": 8, "b": 1, "c": 12})
    popularity = zipf(universe, 1.0)
    users = draw_users(universe, Behavior(), user_keys(SEED, np.arange(30)))
    traces, lengths = draw_traces(universe, popularity, users, 90), np.full(30, 90)
    adversary = Adversary(name="oracle", universe=universe, popularity=popularity)
    mechanism = Identity(universe=universe.size)
    general = posterior(mechanism, {"value": traces.ravel()}, adversary, lengths=lengths)
    ours = non_private_posterior(universe, traces)
    np.testing.assert_allclose(ours, general, rtol=0, atol=1e-12)


def test_ties_are_broken_at_random():
    """A single neutral object says nothing: the non-private guess is uniform, and not confident."""
    rows = metrics.select(play(replace(GAME, adversaries=[], observations=[1]), 4000, SEED), "non-private", 1)
    tied = rows.filter(pl.col("confidence") < 0.34)
    assert tied.height > 1000
    assert stats.chisquare(tied["guess"].value_counts()["count"]).pvalue > 1e-4
    for _, same in tied.group_by("pool"):
        assert stats.chisquare(same["guess"].value_counts()["count"]).pvalue > 1e-4


def test_excluded_reports_leave_the_prior():
    """Who believes in one object of each pool alone meets users who pick another."""
    popularity = np.zeros(60)
    popularity[[0, 8, 9, 21]] = 1
    narrow = Adversary(name="narrow", universe=UNIVERSE, popularity=popularity, belief=Behavior(pools=(1.0, 1.0, 2.0)))
    game = replace(GAME, device=Fresh(Identity(universe=60)), adversaries=[narrow], observations=[40])
    rows = metrics.select(play(game, 100, SEED), "narrow", 40)
    _, _, traces = traces_of(game, 100, SEED)
    excluded = (popularity[traces] == 0).any(axis=1)
    assert excluded.sum() > 90
    np.testing.assert_array_equal(rows["confidence"].to_numpy()[excluded], 0.5)


# Does the attack know its odds


class WrongRatio(CMS):
    """Takes the ratio of one flipped bit, e^(epsilon/2), for that of two vectors, which differ in two."""

    @property
    def likelihood_offset(self):
        return float(np.exp(-self.epsilon / 2))

    @property
    def likelihood_scale(self):
        return float(-np.expm1(-self.epsilon / 2))


def calibration_of(mechanism, seed=0):
    """Error and limit for each n of an adversary who knows the popularity."""
    game = replace(GAME, device=Fresh(mechanism), adversaries=[ORACLE])
    outcomes = play(game, 8000, seed)
    attacks = [metrics.select(outcomes, "oracle", n) for n in game.observations]
    return [(ece(rows, seed).value, ece_null_p95(rows, seed)) for rows in attacks]


def test_attack_is_calibrated():
    for error, limit in calibration_of(MECHANISM):
        assert error <= limit


def test_wrong_likelihood_ratio_is_not_calibrated():
    wrong = WrongRatio(universe=60, epsilon=4.0, m=64, hashes=500)
    for error, limit in calibration_of(wrong):
        assert error > 1.5 * limit


def test_non_private_attack_is_calibrated():
    outcomes = play(replace(GAME, adversaries=[]), 8000, 1)
    for n in GAME.observations:
        rows = metrics.select(outcomes, "non-private", n)
        # the limit is passed once in twenty times by chance, and there are several counts; a wrong one is beyond 1.5
        assert ece(rows, 1).value <= 1.25 * ece_null_p95(rows, 1)


def test_almost_no_epsilon_is_chance():
    game = replace(GAME, device=Fresh(CMS(universe=60, epsilon=0.001, m=64, hashes=500)), non_private=False)
    outcomes = play(game, 3000, 2)
    for name in ("weak", "oracle"):
        for n in game.observations:
            _, low, high = metrics.auc_pn(metrics.select(outcomes, name, n), 2)
            assert low <= 1 / 3 <= high, (name, n, low, high)


# Bad input


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"observations": []}, "observations must be increasing"),
        ({"observations": [0, 5]}, "at least 1"),
        ({"observations": [5, 5]}, "observations must be increasing"),
        ({"device": Fresh(Identity(universe=61))}, "universe's 60 objects"),
        ({"device": Identity}, r"must be a "),
        ({"adversaries": [ORACLE, ORACLE]}, "names of their own"),
        ({"adversaries": [], "non_private": False}, "must be there"),
        ({"sigma": -0.1}, "sigma"),
        ({"sigma": np.nan}, "sigma"),
    ],
)
def test_bad_games(changed, words):
    with pytest.raises(InputError, match=words):
        replace(GAME, **changed)


def test_bad_users_and_popularity():
    with pytest.raises(InputError, match="users must be at least 1"):
        play(GAME, 0, SEED)
    with pytest.raises(InputError, match="one value for each of 60"):
        Adversary(name="x", universe=UNIVERSE, popularity=np.ones(59))
    with pytest.raises(InputError, match="finite and not negative"):
        Adversary(name="x", universe=UNIVERSE, popularity=np.full(60, -1.0))
