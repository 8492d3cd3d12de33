"""Attacks of one's own: what they receive, what they may return, and that no bit depends on threads or blocks."""

import threading
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from cases.selection import mostly, statistical
from cases.synthetic import SEED
from polars.testing import assert_frame_equal

import poolscope as ps
from poolscope.core.errors import InputError, PoolscopeError
from poolscope.core.executors import Local
from poolscope.core.randomness import user_keys
from poolscope.game.users import calibrated
from poolscope.inference.custom import AttackContext, Calibrated, custom_posteriors, with_attack
from poolscope.metrics.calibration import ece, ece_null_p95

UNIVERSE = ps.Universe.sized(40, {"a": 8, "b": 8, "c": 8})
POPULARITY = ps.popularity.zipf(UNIVERSE, 1.0)
MECHANISM = ps.mechanisms.GRR(universe=40, epsilon=3.0)
STRONG = ps.Adversary(name="strong", universe=UNIVERSE, popularity=POPULARITY)
GAME = ps.Game(
    universe=UNIVERSE,
    popularity=POPULARITY,
    device=ps.mechanisms.Fresh(MECHANISM),
    adversaries=[STRONG, ps.attacks.Bayesian()],
    observations=[3, 20],
    non_private=False,
)


class Mixing:
    """Mixes the users of a call, which is not allowed, but must not show where blocks are cut."""

    name = "mixing"

    def posteriors(self, reports, lengths, observations, context):
        mean = context.by_user(context.likelihoods(reports)[:, 1:], lengths).mean(axis=1)
        noise = ps.random.uniforms(context.keys, range(3))
        score = (mean @ np.full((3, 3), 0.1) + mean) / mean.sum() + 0.1 * noise
        return np.repeat((score / score.sum(axis=1, keepdims=True))[:, None], len(observations), axis=1)


class Other(Mixing):
    """The same under another name."""

    name = "other"


class Returning:
    """Returns what it is given."""

    name = "returning"

    def __init__(self, value):
        self.value = value

    def posteriors(self, reports, lengths, observations, context):
        return self.value(len(lengths), len(observations)) if callable(self.value) else self.value


def rows_of(outcomes, name):
    return outcomes.filter(outcomes["adversary"] == name).drop("adversary")


@pytest.mark.parametrize(
    "policy",
    [
        {},
        {"sampling_rate": 0.5},
        {"cap": 7},
        {"rotate_after": 8},
        {"rotate_after": 20, "sampling_rate": 0.7},
    ],
    ids=str,
)
def test_the_papers_attack_as_a_custom_one_gives_the_same_posteriors(policy):
    game = replace(GAME, policy=ps.mechanisms.ReportingPolicy(**policy))
    outcomes = ps.play(game, 150, SEED)
    same = ["user", "n", "pool", "gamma", "delta", "guess", "confidence", "posterior_true"]
    builtin, own = (rows_of(outcomes, name).select(same) for name in ("strong", "bayesian"))
    assert_frame_equal(builtin, own, check_exact=False, abs_tol=1e-9)


@pytest.mark.slow
def test_memoized_responses_are_attacked_by_a_custom_attack_too():
    game = replace(GAME, device=ps.mechanisms.Memoized(MECHANISM), observations=[4])
    outcomes = ps.play(game, 3, SEED)
    same = ["user", "guess", "confidence"]
    builtin, own = (rows_of(outcomes, name).select(same) for name in ("strong", "bayesian"))
    assert_frame_equal(builtin, own, check_exact=False, abs_tol=1e-9)


class Backwards(Local):
    """An engine that does the last part first."""

    def map(self, function, items):
        return map(function, list(items)[::-1])


@pytest.mark.default_cases("100000-Backwards(threads=3)")
@pytest.mark.parametrize("engine", [Local(threads=2), Backwards(threads=3)], ids=str)
@pytest.mark.parametrize("block_bytes", [1, 100_000])
def test_threads_and_blocks_change_no_bit(engine, block_bytes, monkeypatch):
    redrawn = replace(STRONG, redraws=tuple(replace(STRONG, popularity=POPULARITY**p) for p in (0.9, 1.1)))
    adversaries = [redrawn, Mixing(), ps.attacks.Averaging(), with_attack(redrawn, Other())]
    game = replace(GAME, adversaries=adversaries, policy=ps.mechanisms.ReportingPolicy(sampling_rate=0.8))
    # blocks are of 64 users at least
    users = 140 if block_bytes > 1 else 70
    expected = ps.play(game, users, SEED, engine=Local(threads=1))
    monkeypatch.setattr("poolscope.game.game.BLOCK_BYTES", block_bytes)
    assert game.block_users < users
    assert_frame_equal(ps.play(game, users, SEED, engine=engine), expected)


def test_what_dask_cannot_send_is_refused_in_one_line():
    """Before a worker is needed."""
    pytest.importorskip("distributed")

    class Locked(Mixing):
        def __init__(self):
            self.lock = threading.Lock()

    with pytest.raises(InputError, match="attack 'mixing' cannot be sent to workers") as caught:
        ps.play(replace(GAME, adversaries=[Locked()]), 5, SEED, engine=ps.Dask(workers=1))
    assert "\n" not in str(caught.value)


@pytest.mark.cluster
@pytest.mark.slow
def test_dask_changes_no_bit():
    distributed = pytest.importorskip("distributed")
    game = replace(GAME, adversaries=[ps.attacks.Averaging(), ps.attacks.ChangingPreference()])
    expected = ps.play(game, 150, SEED)
    with distributed.Client(n_workers=2, threads_per_worker=1, dashboard_address=None) as client:
        assert_frame_equal(ps.play(game, 150, SEED, engine=ps.Dask(client=client)), expected)


def test_a_users_posterior_depends_on_no_other_user():
    game = replace(GAME, adversaries=[ps.attacks.ChangingPreference(), ps.attacks.Forgetting(window=5)])
    few, many = ps.play(game, 10, SEED), ps.play(game, 100, SEED)
    assert_frame_equal(few, many.filter(many["user"] < 10))


# What an attack may return


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        (np.ones((2, 3)), r"attack 'returning' must be \(users, observations, hypotheses\) = \(5, 2, 3\)"),
        (lambda u, o: np.full((u, o, 3), np.nan), "must be finite"),
        (lambda u, o: np.full((u, o, 3), 0.5), "must be at least 0 and sum to 1"),
        (lambda u, o: np.tile([1.5, -0.5, 0.0], (u, o, 1)), "must be at least 0 and sum to 1"),
        (lambda u, o: {}["nothing"], "attack 'returning' failed: KeyError: 'nothing'"),
        (lambda u, o: "text", "attack 'returning' failed: ValueError"),
    ],
)
def test_wrong_posteriors_are_refused_in_one_line(value, rule):
    game = replace(GAME, adversaries=[Returning(value)])
    with pytest.raises(PoolscopeError, match=rule) as caught:
        ps.play(game, 5, SEED)
    assert "\n" not in str(caught.value)


def test_rows_within_rounding_are_normalized():
    game = replace(GAME, adversaries=[Returning(lambda u, o: np.tile([0.5, 0.3, 0.2 + 1e-9], (u, o, 1)))])
    assert ps.play(game, 5, SEED)["confidence"].to_list() == [0.5 / (1 + 1e-9)] * 10


class Nameless:
    def posteriors(self, reports, lengths, observations, context):
        return None


@pytest.mark.parametrize("given", [Nameless(), Mixing, "averaging", 3], ids=["no name", "class", "text", "number"])
def test_only_instances_of_attacks_stand_beside_adversaries(given):
    with pytest.raises(InputError, match=r"must be an Adversary.*posteriors or scores"):
        replace(GAME, adversaries=[given])


def test_names_must_differ():
    with pytest.raises(InputError, match="names of their own"):
        replace(GAME, adversaries=[ps.attacks.Averaging(), ps.attacks.Averaging()])


def test_the_context_has_no_truth():
    seen = []

    class Looking(Mixing):
        def posteriors(self, reports, lengths, observations, context):
            seen.append(context)
            return super().posteriors(reports, lengths, observations, context)

    game = replace(GAME, adversaries=[Looking()])
    ps.play(game, 5, SEED)
    (found,) = seen
    assert isinstance(found, AttackContext)
    assert set(vars(found)) == {"adversary", "device", "keys"}
    assert not set(found.keys) & set(user_keys(SEED, np.arange(5)))
    assert found.universe is UNIVERSE
    assert found.mechanism is MECHANISM
    np.testing.assert_array_equal(found.popularity, POPULARITY)


# Scores


class Overconfident:
    """The scores of `Averaging`, as posteriors of far too much confidence."""

    name = "overconfident"

    def posteriors(self, reports, lengths, observations, context):
        scores = 40 * ps.attacks.Averaging().scores(reports, lengths, observations, context)
        weight = np.exp(scores - scores.max(axis=2, keepdims=True))
        return weight / weight.sum(axis=2, keepdims=True)


@pytest.mark.parametrize("attack", [ps.attacks.Averaging(), ps.attacks.NearestProfile()], ids=lambda a: a.name)
@pytest.mark.parametrize("rate", mostly(statistical, [1.0, 0.6], 1.0))
def test_scores_are_calibrated_on_held_out_users(attack, rate):
    policy = ps.mechanisms.ReportingPolicy(sampling_rate=rate)
    game = replace(GAME, adversaries=[attack, Overconfident()], observations=[20], policy=policy)
    outcomes = ps.play(game, 2000, SEED)
    own, wrong = (outcomes.filter(outcomes["adversary"] == name) for name in (attack.name, "overconfident"))
    # the calibration has an error of its own, from as many users
    assert ece(own, SEED).value < 1.5 * ece_null_p95(own, SEED)
    assert ece(wrong, SEED).value > 3 * ece_null_p95(wrong, SEED)


def test_calibrated_attacks_are_marked_and_calibrated_once():
    game = replace(GAME, adversaries=[ps.attacks.Averaging(), ps.attacks.Bayesian()])
    phrases = [adversary.phrase for adversary in game.adversaries]
    assert [phrase.endswith("scores calibrated on held-out users") for phrase in phrases] == [True, False]
    ready = calibrated(game, SEED)
    assert isinstance(ready.adversaries[0].attack, Calibrated)
    assert calibrated(ready, SEED) is ready
    assert_frame_equal(ps.play(ready, 30, SEED), ps.play(game, 30, SEED))


# Simulated users, and outcomes of given posteriors


@pytest.mark.parametrize("change", [None, ps.Change(after=8, share=0.6)])
def test_simulated_users_are_those_that_are_played(change):
    game = replace(GAME, change=change)
    drawn, played = ps.simulate(game, 60, SEED), rows_of(ps.play(game, 60, SEED), "strong")
    found = ps.posterior(MECHANISM, drawn.reports, STRONG, lengths=drawn.lengths, observations=[3, 20])
    made = ps.outcomes_of("strong", found, drawn.truth, [3, 20]).drop("adversary")
    same = ["user", "n", "pool", "gamma", "delta", "guess", "confidence", "posterior_true"]
    assert_frame_equal(
        made.select(same).with_columns(pl.col("pool", "guess").cast(pl.String)),
        played.select(same).with_columns(pl.col("pool", "guess").cast(pl.String)),
        check_exact=False,
        abs_tol=1e-12,
    )
    assert drawn.traces.shape == (60, 20)
    assert (drawn.truth.pool.ndim == 2) == (change is not None)


def test_outcomes_of_given_posteriors_feed_every_metric():
    posterior = np.array([[[0.8, 0.2], [0.95, 0.05]], [[0.5, 0.5], [0.3, 0.7]], [[0.1, 0.9], [0.02, 0.98]]])
    found = ps.outcomes_of("mine", posterior, [0, 1, 0], [5, 10], pools=["x", "y"])
    assert found.filter(found["n"] == 10)["guess"].to_list() == ["x", "y", "y"]
    assert found.filter(found["n"] == 10)["posterior_true"].to_list() == [0.95, 0.7, 0.02]
    assert found.filter(found["n"] == 5)["exposed_at_90"].to_list() == [10, None, 5]
    assert ps.metrics.precision(found.filter(found["n"] == 10), seed=1).value == pytest.approx(2 / 3)
    assert ps.metrics.auc_pn(found.filter(found["n"] == 10), seed=1).value < 1


@pytest.mark.parametrize(
    ("posterior", "truth", "rule"),
    [
        (np.ones((2, 2)), [0, 1], "must be"),
        (np.full((2, 1, 2), 0.4), [0, 1], "sum to 1"),
        (np.full((2, 1, 2), 0.5), [0], "truth must be"),
        (np.full((2, 1, 2), 0.5), [0, -1], "there must be a pool"),
    ],
)
def test_wrong_posteriors_and_truths_make_no_outcomes(posterior, truth, rule):
    with pytest.raises(InputError, match=rule):
        ps.outcomes_of("mine", posterior, truth, [5])


def test_the_nearest_profile_is_that_of_the_preferred_pool():
    """Of most users, more than guessing at random could reach."""
    users = 200
    drawn = ps.simulate(GAME, users, SEED)
    context = AttackContext(adversary=STRONG, device=GAME.device, keys=user_keys(SEED, np.arange(users)))
    scores = ps.attacks.NearestProfile().scores(drawn.reports, drawn.lengths, [20], context)
    right = (scores[:, 0].argmax(axis=1) == drawn.truth.pool).mean()
    assert right > 1 / 3 + 4 * (2 / 9 / users) ** 0.5


def test_users_without_reports_have_the_prior():
    adversary = with_attack(STRONG, Returning(lambda u, o: np.tile([0.8, 0.1, 0.1], (u, o, 1))))
    keys = user_keys(SEED, np.arange(2))
    found = custom_posteriors(adversary, GAME.device, {"value": np.zeros(3)}, np.array([0, 3]), [2, 3], keys)
    np.testing.assert_allclose(found[0], 1 / 3)
    np.testing.assert_allclose(found[1], [[0.8, 0.1, 0.1]] * 2)


def test_an_attack_meets_every_estimate():
    redraws = tuple(replace(STRONG, popularity=POPULARITY**p) for p in (0.9, 1.1))
    made = with_attack(replace(STRONG, redraws=redraws), Mixing())
    assert [one.attack for one in made.redraws] == [made.attack] * 2
    for one, other in zip(made.redraws, redraws, strict=True):
        np.testing.assert_array_equal(one.popularity, other.popularity)
