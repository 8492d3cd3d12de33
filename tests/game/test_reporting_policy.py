"""The game with devices that send a share of events, up to a cap, under pseudonyms that change."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from cases.memoized import CROWD, ORACLE, POPULARITY, STRONG, TINY
from cases.synthetic import SEED
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.pseudonyms import Response, guessed, running, share_exposed, share_right
from polars.testing import assert_frame_equal

from poolscope.core.errors import InputError
from poolscope.core.executors import Local
from poolscope.core.randomness import user_keys
from poolscope.game.game import Game, play
from poolscope.inference import independent
from poolscope.inference.adversary import Adversary
from poolscope.mechanisms import CMS, GRR, ReportingPolicy, device_of
from poolscope.metrics.calibration import ece, ece_null_p95
from poolscope.metrics.records import summarize
from poolscope.population.behavior import Behavior, draw_traces, draw_users

EPSILON, NEVER = 3.0, 10**9
REFERENCE = Response(ORACLE.popularity, TINY.pool_of, EPSILON)
SKETCH = CMS(universe=60, epsilon=3.0, m=32, hashes=100)
COLUMNS = ["user", "adversary", "guess", "confidence", "posterior_true"]

sendings = st.builds(
    ReportingPolicy,
    sampling_rate=st.sampled_from([0.05, 0.5, 0.9, 1.0]),
    cap=st.none() | st.integers(1, 9),
    rotate_after=st.none() | st.integers(1, 9),
)


def tiny(observations=(1, 2, 6), **limits):
    return Game(
        universe=TINY,
        popularity=ORACLE.popularity,
        device=device_of(GRR(universe=5, epsilon=EPSILON)),
        adversaries=[ORACLE],
        observations=observations,
        non_private=False,
        policy=ReportingPolicy(**limits),
    )


def partition(observations=(4, 15), *, memoize=False, adversaries=(STRONG,), **limits):
    return Game(
        universe=CROWD,
        popularity=POPULARITY,
        device=device_of(SKETCH, memoize=memoize),
        adversaries=adversaries,
        observations=observations,
        policy=ReportingPolicy(**limits),
    )


def sent_by(game, users):
    """What each user sends, as lists of events and of reports, one event after the other."""
    keys = user_keys(SEED, np.arange(users))
    traces = draw_traces(game.universe, game.popularity, draw_users(game.universe, Behavior(), keys), game.horizon)
    policy, everything = game.policy, np.arange(game.horizon)
    for key, trace in zip(keys, traces, strict=True):
        own = np.repeat(key, game.horizon)
        events = [
            t for t in everything if policy.sampling_rate == 1 or policy.reported(own[:1], everything[t : t + 1])[0]
        ]
        events = events[: policy.cap]
        values = game.device.send(trace, own, everything)["value"]
        yield events, [int(values[t]) for t in events]


@settings(max_examples=25, deadline=None)
@given(sendings)
def test_outcomes_are_those_of_the_definitions(policy):
    """Guess, confidence and exposure of every user against posteriors of each pseudonym by itself."""
    game = replace(tiny(), policy=policy)
    outcomes = play(game, 8, SEED)
    window = policy.rotate_after or NEVER
    for user, (events, reports) in enumerate(sent_by(game, 8)):
        rows = outcomes.filter(pl.col("user") == user).sort("n")
        after = running(REFERENCE, reports, window)
        when = [0, *(event + 1 for event in events)]
        for row in rows.iter_rows(named=True):
            seen = [y for event, y in zip(events, reports, strict=True) if event < row["n"]]
            expected = guessed(REFERENCE, seen, window)
            assert row["confidence"] == pytest.approx(max(expected), abs=1e-11)
            assert row["posterior_true"] == pytest.approx(expected["ab".index(row["pool"])], abs=1e-11)
            for level in (50, 90, 95):
                sure = [t for t, own in zip(when, after, strict=True) if max(own) >= level / 100]
                assert row[f"exposed_at_{level}"] == (sure[0] if sure else None)


@pytest.mark.default_cases("w", "swc")
@pytest.mark.parametrize(
    ("sampling_rate", "cap", "rotate_after"),
    [(1.0, 6, 2), (0.4, 6, 3), (1.0, 2, 6), (0.7, 3, 2)],
    ids=["w", "sw", "c", "swc"],
)
def test_precision_is_that_of_all_reports_there_can_be(sampling_rate, cap, rotate_after):
    users, n = 20_000, 4
    outcomes = play(tiny((n,), sampling_rate=sampling_rate, cap=cap, rotate_after=rotate_after), users, SEED)
    right = (outcomes["guess"] == outcomes["pool"]).mean()
    expected = share_right(REFERENCE, n, sampling_rate, cap, rotate_after)
    error = (expected * (1 - expected) / users) ** 0.5
    assert abs(right - expected) < 4 * error
    assert abs(right - REFERENCE.right(n)) > 4 * error, "what limits the devices matters"


def test_exposure_is_that_of_all_reports_there_can_be():
    """A user is exposed by one pseudonym: neither by the last alone, nor by all reports together."""
    users, n, rotate_after = 20_000, 6, 3
    outcomes = play(tiny((n,), rotate_after=rotate_after), users, SEED)
    found, expected = outcomes["exposed_at_90"].is_not_null().mean(), share_exposed(REFERENCE, n, rotate_after, 0.9)
    error = (expected * (1 - expected) / users) ** 0.5
    assert abs(found - expected) < 4 * error
    assert found - share_exposed(REFERENCE, rotate_after, rotate_after, 0.9) > 4 * error
    # four reports together expose more already, and six no fewer
    assert share_exposed(REFERENCE, 4, NEVER, 0.9) - found > 4 * error


@pytest.mark.default_cases("limits0", "limits3")
@pytest.mark.parametrize(
    "limits",
    [{"rotate_after": 4}, {"sampling_rate": 0.4}, {"cap": 6}, {"sampling_rate": 0.6, "rotate_after": 3, "cap": 7}],
)
def test_outcomes_depend_neither_on_blocks_nor_on_threads_nor_on_what_follows(limits, monkeypatch):
    whole = play(partition(**limits), 60, SEED, engine=Local(threads=1))
    short = play(partition((4,), **limits), 60, SEED)
    assert_frame_equal(short.select(COLUMNS), whole.filter(pl.col("n") == 4).select(COLUMNS), check_exact=True)
    monkeypatch.setattr(independent.IndependentReportsAttack, "max_users", 16)
    monkeypatch.setattr(independent, "CHUNK", 3)
    assert_frame_equal(play(partition(**limits), 60, SEED, engine=Local(threads=2)), whole, check_exact=True)


@pytest.mark.parametrize("memoize", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_limits_that_nobody_reaches_change_nothing(memoize):
    naive = Adversary(name="naive", universe=CROWD, popularity=POPULARITY, knows_memoization=False)
    free = partition(memoize=memoize, adversaries=(STRONG, naive))
    whole = play(free, 12, SEED)
    for limits in (
        {"rotate_after": 15},
        {"cap": 15},
        {"rotate_after": 40, "cap": 50, "sampling_rate": 1.0},
        {"reports_per_day": 2.0},
    ):
        assert_frame_equal(play(replace(free, policy=ReportingPolicy(**limits)), 12, SEED), whole, check_exact=True)


def test_with_a_cap_nothing_changes_after_it():
    """And before it everything is as without."""
    capped, free = play(partition((4, 8, 15), cap=8), 80, SEED), play(partition((4, 8, 15)), 80, SEED)
    early = pl.col("n") <= 8
    assert_frame_equal(capped.filter(early).select(COLUMNS), free.filter(early).select(COLUMNS), check_exact=True)
    at = {n: capped.filter(pl.col("n") == n)["confidence"] for n in (8, 15)}
    assert at[8].equals(at[15])
    assert capped["exposed_at_50"].max() <= 8


def test_the_larger_share_has_the_smaller_one():
    """Users draw once whether an event is below a share: what a small share reports, a larger one does as well."""
    keys, events = user_keys(SEED, np.arange(500))[:, None], np.arange(40)
    few, many = (ReportingPolicy(sampling_rate=share).reported(keys, events) for share in (0.2, 0.7))
    assert not (few & ~many).any()
    for found, share in ((few, 0.2), (many, 0.7)):
        assert abs(found.mean() - share) < 4 * (share * (1 - share) / found.size) ** 0.5
        # by itself: how often two events in a row are
        both = (found[:, 1:] & found[:, :-1]).mean()
        assert abs(both - share**2) < 5 * (share**2 * (1 - share**2) / found.size) ** 0.5


def test_confidence_keeps_its_meaning():
    """The guess is of a pseudonym that is not chosen by what it says; the surest one's confidence would be too high."""
    game = replace(partition((15,), sampling_rate=0.8, rotate_after=4), non_private=False)
    outcomes = play(game, 8000, SEED)
    assert ece(outcomes, SEED).value < ece_null_p95(outcomes, SEED)
    surest = outcomes.filter(pl.col("exposed_at_50").is_not_null())
    at_least = surest.with_columns(pl.col("confidence").clip(0.5))
    assert ece(at_least, SEED).value > ece_null_p95(at_least, SEED)


@pytest.mark.slow
def test_kept_answers_link_the_windows():
    """Whoever knows of the memory takes all pseudonyms together; to others they are apart."""
    naive = Adversary(name="naive", universe=CROWD, popularity=POPULARITY, knows_memoization=False)
    game = partition(memoize=True, adversaries=(STRONG, naive))
    free, cut = (play(replace(game, policy=ReportingPolicy(rotate_after=w)), 12, SEED) for w in (None, 4))
    linked, apart = pl.col("adversary") == "strong", (pl.col("adversary") == "naive") & (pl.col("n") == 15)
    assert_frame_equal(cut.filter(linked), free.filter(linked), check_exact=True)
    assert not cut.filter(apart)["confidence"].equals(free.filter(apart)["confidence"])


@pytest.mark.default_cases("limits2")
@pytest.mark.parametrize(
    "limits", [{"sampling_rate": 0.5}, {"cap": 5}, {"sampling_rate": 0.5, "rotate_after": 3, "cap": 4}]
)
def test_memory_is_attacked_on_what_was_sent(limits):
    """The posterior at n is that of a user who never did more than what is sent by then."""
    naive = Adversary(name="naive", universe=CROWD, popularity=POPULARITY, knows_memoization=False)
    outcomes = play(partition(memoize=True, adversaries=(STRONG, naive), **limits), 8, SEED)
    assert outcomes.filter(pl.col("n") == 15)["exposed_at_50"].drop_nulls().is_between(0, 15).all()
    short = play(partition((4,), memoize=True, adversaries=(STRONG, naive), **limits), 8, SEED)
    assert_frame_equal(short.select(COLUMNS), outcomes.filter(pl.col("n") == 4).select(COLUMNS), check_exact=True)


def test_nobody_who_sends_nothing_is_told_from_others():
    for memoize in (False, True):
        outcomes = play(partition((4, 15), memoize=memoize, sampling_rate=1e-12), 30, SEED)
        np.testing.assert_allclose(outcomes["confidence"], 1 / 3)


@pytest.mark.default_cases("limits0", "limits4")
@pytest.mark.parametrize(
    "limits", [{}, {"sampling_rate": 0.4}, {"cap": 2}, {"rotate_after": 2}, {"sampling_rate": 0.5, "rotate_after": 3}]
)
def test_the_bound_is_of_the_reports_that_are_linked(limits):
    game = tiny((1, 3, 6), **limits)
    records = summarize(play(game, 4000, SEED), game, SEED)
    for record in records:
        assert record.precision.low <= record.success_bound
    free = summarize(play(tiny((1, 3, 6)), 10, SEED), tiny((1, 3, 6)), SEED)
    assert (records[-1].success_bound < free[-1].success_bound) == bool(limits)


@pytest.mark.parametrize(
    ("limits", "rule"),
    [
        ({"sampling_rate": 0.0}, "sampling_rate must be above 0"),
        ({"sampling_rate": 1.5}, "sampling_rate must be above 0 and at most 1"),
        ({"sampling_rate": float("nan")}, "sampling_rate must be above 0"),
        ({"cap": 0}, "cap must be a whole number of at least 1"),
        ({"rotate_after": -1}, "rotate_after must be a whole number of at least 1"),
        ({"reports_per_day": 0.0}, "reports_per_day must be finite and positive"),
        ({"reports_per_day": float("inf")}, "reports_per_day must be finite and positive"),
    ],
)
def test_nonsense_is_refused(limits, rule):
    with pytest.raises(InputError, match=rule):
        ReportingPolicy(**limits)
