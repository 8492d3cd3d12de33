"""The evaluator: truth beside guess, on synthetic posteriors."""

import numpy as np
import polars as pl
import pytest
from cases.memoized import CROWD, STRONG
from cases.synthetic import SEED

from poolscope.core.executors import Local
from poolscope.core.randomness import user_keys
from poolscope.game.columns import EXPOSED
from poolscope.game.outcome_files import OutcomeFiles
from poolscope.game.outcomes import Evaluator, table
from poolscope.inference.independent import BlockPosteriors, guesses
from poolscope.mechanisms import ReportingPolicy
from poolscope.population.behavior import Preferences

USERS, N, OBSERVATIONS = 40, 12, (3, 7, 12)
ALL = ReportingPolicy()


def judged(posterior, *, at_once=7, observations=OBSERVATIONS, share=0.5, policy=ALL, threshold=None, error=None, k=3):
    """What the referee says, the truth that it knows, and the users that were counted."""
    rng = np.random.default_rng(SEED)
    truth = Preferences(rng.integers(0, k, USERS), rng.random(USERS), rng.random(USERS))
    ticks = []

    def towards(pools):
        assert pools is CROWD
        return truth

    keys = user_keys(SEED, np.arange(USERS))
    referee = Evaluator(
        keys=keys,
        truth=towards,
        sent=policy.select_events(np.zeros((USERS, N), dtype=np.int64), keys),
        observations=observations,
        threads=Local(threads=2).map,
        tick=ticks.append,
        threshold=threshold,
    )

    def some(rows):
        return posterior[rows], None if error is None else error[rows]

    found = BlockPosteriors(some, at_once, policy.rotate_after, sampled=error is not None)
    return referee.evaluate(STRONG, found, share), truth, sum(ticks)


@pytest.fixture(scope="module")
def posterior():
    return np.random.default_rng(SEED).dirichlet(np.full(3, 0.5), (USERS, N + 1))


def test_truth_stands_beside_the_guess(posterior):
    found, truth, ticks = judged(posterior)
    at = posterior[:, OBSERVATIONS]
    counts = np.tile(OBSERVATIONS, (USERS, 1))
    guess, confidence = guesses(at, user_keys(SEED, np.arange(USERS)), counts)
    np.testing.assert_array_equal(found.guess, guess)
    np.testing.assert_array_equal(found.confidence, confidence)
    np.testing.assert_array_equal(found.posterior_true, at[np.arange(USERS), :, truth.iota])
    np.testing.assert_array_equal(found.truth, truth.iota)
    assert (found.gamma is truth.gamma, found.delta is truth.delta) == (True, True)
    assert (found.adversary, found.pool_names) == ("strong", ("a", "b", "c"))
    assert ticks == pytest.approx(0.5 * USERS)


def first(sure, threshold):
    return next((t for t, value in enumerate(sure) if value >= threshold), -1)


def test_thresholds_are_dated_by_the_first_report_that_reached_them(posterior):
    found, _, _ = judged(posterior)
    for threshold, column in EXPOSED.items():
        expected = [first(sure, threshold) for sure in posterior.max(axis=2)]
        np.testing.assert_array_equal(found.exposed[column], expected)
    assert {-1, 0} < set(expected)


@pytest.mark.parametrize("threshold", [0.4, 0.8, 0.9, 0.99])
def test_a_threshold_of_the_game_has_a_column_of_its_own(posterior, threshold):
    """Wherever it lies among the others, which stay what they are."""
    found, plain = judged(posterior, threshold=threshold)[0], judged(posterior)[0]
    assert list(found.exposed) == [*plain.exposed, "exposed_at_threshold"]
    np.testing.assert_array_equal(
        found.exposed["exposed_at_threshold"], [first(sure, threshold) for sure in posterior.max(axis=2)]
    )
    for column, dates in plain.exposed.items():
        np.testing.assert_array_equal(found.exposed[column], dates)


def test_excluded_reports_reach_nothing_and_leave_the_prior(posterior):
    """From the fifth report on the model excludes what was sent."""
    broken = posterior.copy()
    broken[:, 5:] = np.nan
    found, truth, _ = judged(broken)
    for threshold, column in EXPOSED.items():
        expected = [first(sure, threshold) for sure in posterior[:, :5].max(axis=2)]
        np.testing.assert_array_equal(found.exposed[column], expected)
    np.testing.assert_array_equal(found.confidence[:, 1:], 1 / 3)
    np.testing.assert_array_equal(found.posterior_true[:, 0], posterior[np.arange(USERS), 3, truth.iota])


def test_asked_beyond_the_last_report_it_is_the_last(posterior):
    found, _, _ = judged(posterior, observations=(12, 30))
    np.testing.assert_array_equal(found.confidence[:, 0], found.confidence[:, 1])


def test_parts_change_nothing(posterior):
    one, other = judged(posterior)[0], judged(posterior, at_once=1000)[0]
    for name in ("guess", "confidence", "posterior_true"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for column in EXPOSED.values():
        np.testing.assert_array_equal(one.exposed[column], other.exposed[column])


def test_chance_in_the_attack_stands_beside_the_confidence_and_moves_the_dates(posterior):
    """The error is that of the guess; a date is early if the posteriors may be more by their error, late if less."""
    error = np.random.default_rng(SEED + 1).uniform(0.0, 0.2, posterior.shape)
    found, plain = judged(posterior, error=error)[0], judged(posterior)[0]
    at = error[:, OBSERVATIONS]
    np.testing.assert_array_equal(found.mcse, np.take_along_axis(at, found.guess[:, :, None], axis=2)[:, :, 0])
    assert plain.mcse is None
    for threshold, column in EXPOSED.items():
        np.testing.assert_array_equal(found.exposed[column], plain.exposed[column])
        for end, sign in (("_plus_mcse", 1), ("_minus_mcse", -1)):
            expected = [first(sure, threshold) for sure in (posterior + sign * error).max(axis=2)]
            np.testing.assert_array_equal(found.exposed[column + end], expected)
            assert column + end not in plain.exposed


def test_the_table_has_what_was_found_at_each_count(posterior):
    found, truth, _ = judged(posterior)
    made = table(pl.Series(range(USERS)), OBSERVATIONS, [found])
    for o, n in enumerate(OBSERVATIONS):
        rows = made.filter(pl.col("n") == n)
        assert rows["user"].to_list() == list(range(USERS))
        assert rows["guess"].to_list() == [found.pool_names[pool] for pool in found.guess[:, o]]
        assert rows["pool"].to_list() == [found.pool_names[pool] for pool in truth.iota]
        np.testing.assert_array_equal(rows["confidence"], found.confidence[:, o])
        np.testing.assert_array_equal(rows["posterior_true"], found.posterior_true[:, o])
        for column, dates in found.exposed.items():
            assert rows[column].to_list() == [None if date < 0 else date for date in dates]
    assert (found.guess[:, 0] != found.guess[:, 1]).any()
    assert min(dates.min() for dates in found.exposed.values()) == -1


def test_who_prefers_no_pool_has_no_posterior(posterior):
    found, truth, _ = judged(posterior, k=4)
    nobody = truth.iota == 3
    assert 0 < nobody.sum() < USERS
    assert (found.posterior_true[nobody] == 0).all()
    assert (found.posterior_true[~nobody] > 0).all()


def test_files_have_all_estimates_and_their_users_in_order(tmp_path):
    for number, users in enumerate(([5, 3, 4], [1, 0, 2])):
        rows = {"user": users, "adversary": ["strong"] * 3, "n": [7] * 3, "confidence": [u / 10 for u in users]}
        frame = pl.DataFrame(rows | {"pool": ["a"] * 3, "guess": ["a", "b", "a"], "estimate": [u // 2 for u in users]})
        frame.with_columns(pl.col("estimate").cast(pl.Int16)).write_parquet(tmp_path / f"{number}.parquet")
    files = OutcomeFiles.within(tmp_path)
    assert files.estimates() == {"strong": 3}
    (attack,) = files.attacks()
    assert files.of(attack, ["confidence"])["confidence"].to_list() == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
