"""Metrics against plain definitions, and their intervals against known laws."""

import numpy as np
import polars as pl
import pytest
from cases.selection import statistical
from cases.synthetic import SEED, attack, bare
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from poolscope import metrics
from poolscope.core.errors import InputError
from poolscope.metrics.calibration import (
    ERROR_BINS,
    ConfidenceBins,
    _replicas,
    brier,
    calibration,
    ece,
    ece_null_p95,
    gather,
)
from poolscope.metrics.intervals import TAIL, bounded_mean, effect_of, quantile, share_of
from poolscope.metrics.precision import _descending_order, ranked

OUTCOMES = st.lists(st.tuples(st.sampled_from([0.2, 0.5, 0.7, 0.9, 1.0]), st.booleans()), min_size=1, max_size=30).map(
    lambda rows: bare(*map(np.array, zip(*rows, strict=True)))
)


def calibrated(users: int, rng: np.random.Generator) -> pl.DataFrame:
    """Confidence uniform on (0, 1), success with that probability."""
    confidence = rng.random(users)
    return bare(confidence, rng.random(users) < confidence)


def assert_covers(hits: list[bool], nominal: float = 0.95, *, exactly: bool = True) -> None:
    """The share of intervals that held the truth is within 4 standard errors of nominal."""
    share, bound = np.mean(hits), 4 * np.sqrt(nominal * (1 - nominal) / len(hits))
    assert share >= nominal - bound, (share, nominal, bound)
    assert not exactly or share <= nominal + bound, (share, nominal, bound)


# Intervals


@given(st.integers(1, 500), st.data())
def test_shares_invert_the_binomial_test(users, data):
    hits = data.draw(st.integers(0, users))
    value, low, high = share_of(hits, users)
    assert low <= value <= high
    assert stats.binom.sf(hits - 1, users, low) == pytest.approx(TAIL) if hits else low == 0
    assert stats.binom.cdf(hits, users, high) == pytest.approx(TAIL) if hits < users else high == 1


def test_the_share_of_nobody_is_not_known():
    value, low, high = share_of(0, 0)
    assert np.isnan(value)
    assert (low, high) == (0, 1)


# Ranking, curve and area


@given(OUTCOMES)
@settings(max_examples=40)
def test_area_is_the_mean_precision_and_the_curve_holds_all_of_it(rows):
    curve = metrics.precision_curve(rows, SEED)
    correct, confidence, _ = ranked(rows, SEED)
    precision = [correct[:m].mean() for m in range(1, rows.height + 1)]
    assert curve["precision"].to_numpy() == pytest.approx(precision)
    assert curve["null_rate"].to_numpy() == pytest.approx(1 - np.arange(1, rows.height + 1) / rows.height)
    assert curve["threshold"].to_list() == sorted(rows["confidence"], reverse=True)
    assert confidence.tolist() == curve["threshold"].to_list()
    value, low, high = metrics.auc_pn(rows, SEED)
    assert value == pytest.approx(np.mean(precision))
    assert 0 <= low <= value <= high <= 1
    assert high - low > 0.01


def test_curve_can_be_thinned_and_keeps_its_ends():
    rows = attack(500)
    full, thin = (metrics.precision_curve(metrics.select(rows, "strong", 30), 1, p) for p in (None, 9))
    assert thin.height == 9
    assert thin.row(0) == full.row(0)
    assert thin.row(-1) == full.row(-1)
    assert thin.join(full, on=full.columns, how="anti").is_empty()


def test_ties_follow_the_seed_and_nothing_else():
    rng = np.random.default_rng(SEED)
    rows = bare(np.full(200, 0.5), rng.random(200) < 0.5)
    shuffled = rows.sample(fraction=1, shuffle=True, seed=3)
    assert metrics.auc_pn(rows, 1) == metrics.auc_pn(shuffled, 1)
    areas = [metrics.auc_pn(rows, seed).value for seed in range(300)]
    assert len(set(areas)) > 250
    # Ordered by success, or by failure, all of them would lie on one side of the precision.
    bound = 4 * np.std(areas) / np.sqrt(len(areas))
    assert abs(np.mean(areas) - metrics.precision(rows, 1).value) < bound


def test_rounding_of_the_posterior_does_not_order_ties():
    correct = np.arange(100) < 50
    rows = bare(1 / 6 + 1e-15 * correct, correct)
    assert metrics.auc_pn(rows, 1).value < 0.8  # ordered by the last digits it would be 0.85


def test_area_interval_agrees_with_a_bootstrap():
    rng = np.random.default_rng(SEED)
    rows = calibrated(800, rng)
    _, low, high = metrics.auc_pn(rows, SEED)
    again = [
        metrics.auc_pn(rows[rng.integers(800, size=800)].with_columns(user=pl.int_range(800)), seed)
        for seed in range(400)
    ]
    spread = np.std([estimate.value for estimate in again])
    # A standard deviation from 400 draws has relative error 1 / sqrt(800).
    assert (high - low) / (2 * stats.norm.isf(TAIL)) == pytest.approx(spread, rel=4 / np.sqrt(800))


@pytest.mark.default_cases("200-10-False", "200-600-True")
@pytest.mark.parametrize(("users", "exactly"), [(10, False), (60, False), (600, True)])
@pytest.mark.parametrize("trials", [200, 500])
def test_area_interval_covers_the_truth(users, exactly, trials):
    rng = np.random.default_rng([SEED, users])
    truth = 0.75  # the integral of (1 - q) (-ln q)
    estimates = [metrics.auc_pn(calibrated(users, rng), SEED) for _ in range(trials)]
    assert_covers([low <= truth <= high for _, low, high in estimates], exactly=exactly)


def test_area_of_one_user_says_nothing():
    right, wrong = (metrics.auc_pn(bare(np.array([0.9]), np.array([c])), 1) for c in (True, False))
    assert right == pytest.approx((1, 0, 1), abs=0.01)
    assert wrong == pytest.approx((0, 0, 1), abs=0.01)


def test_area_of_users_who_are_all_right_stays_open():
    value, low, _ = metrics.auc_pn(bare(np.full(1000, 0.9), np.ones(1000, bool)), 1)
    assert value == pytest.approx(1)
    assert 0.98 < low < 0.999


# Precision


def test_precision_on_the_most_confident_share():
    confidence = np.linspace(0.3, 1, 200)
    rows = bare(confidence, confidence > 0.9)
    assert metrics.precision(rows, 1) == share_of(int((confidence > 0.9).sum()), 200)
    surest = metrics.precision(rows, 1, top=0.1)
    assert (surest.value, surest.high) == (1, 1)
    # those below are not right: that the true tenth may reach down to them counts
    assert 0.6 < surest.low < share_of(20, 20).low
    assert metrics.precision(rows, 1, top=1e-9) == (1, 0, 1)


def test_the_curve_has_the_intervals_of_the_top_shares():
    rows = metrics.select(attack(300), "strong", 30)
    curve = metrics.precision_curve(rows, 1)
    for top in (0.05, 0.2, 1.0):
        _, precision, low, high, _, _ = curve.row(round(300 * top) - 1)
        assert (precision, low, high) == metrics.precision(rows, 1, top)


@pytest.mark.parametrize("top", [0, -1, 1.5, float("nan")])
def test_precision_refuses_an_impossible_share(top):
    with pytest.raises(InputError, match=r"top: must be above 0 and at most 1, got"):
        metrics.precision(bare(np.array([1.0]), np.array([True])), 1, top=top)


def test_no_users_and_unknown_attacks_are_refused():
    rows = attack(5)
    for table in (rows, rows.with_columns(pl.col("adversary").cast(pl.Enum(["strong"])))):
        with pytest.raises(InputError, match="no outcomes of adversary 'oracle' at n = 7"):
            metrics.select(table, "oracle", 7)
    for metric in (lambda r: metrics.auc_pn(r, 1), calibration, brier):
        with pytest.raises(InputError, match="outcomes: must have at least one user"):
            metric(rows.clear())


# Calibration


def test_calibration_curve_counts_every_user_once():
    rows = metrics.select(attack(3000), "strong", 30)
    table = calibration(rows, bins=10)
    assert table["users"].sum() == 3000
    for confidence, success, lower, higher, users in table.rows():
        low = np.floor(confidence * 10) / 10
        part = rows.filter(pl.col("confidence").is_between(low, low + 0.1, closed="left"))
        assert users == part.height
        assert (success, lower, higher) == share_of(int(metrics.successes(part).sum()), users)
        assert confidence == pytest.approx(part["confidence"].to_numpy().mean())


@pytest.mark.parametrize("trials", [80, pytest.param(200, marks=statistical)])
def test_calibrated_attack_stays_below_its_limit(trials):
    rng = np.random.default_rng(SEED)
    partitions = [calibrated(500, rng) for _ in range(trials)]
    binned = [gather(partition, ERROR_BINS) for partition in partitions]
    limits = [ece_null_p95(partition, SEED) for partition in partitions]
    assert_covers([b.error(b.success) <= limit for b, limit in zip(binned, limits, strict=True)])
    few = [ece(partition, SEED).low == 0 for partition in partitions[: trials // 5]]
    assert_covers(few, 0.975, exactly=False)


def test_miscalibrated_attack_is_found_out():
    honest, boastful = (metrics.select(attack(4000, sharpness=sharpness), "strong", 30) for sharpness in (1, 3))
    assert ece(honest, 1).low == 0
    value, low, _ = ece(boastful, 1)
    assert value > 2 * ece_null_p95(boastful, 1)
    assert low > ece_null_p95(boastful, 1)
    assert brier(boastful).low > brier(honest).high


@pytest.mark.parametrize("trials", [25, pytest.param(60, marks=statistical)])
def test_calibration_error_interval_covers_a_known_error(trials):
    rng = np.random.default_rng(SEED)
    truth = 1 / 6  # success with the square of the confidence: the integral of c - c^2
    covered = []
    for _ in range(trials):
        confidence = rng.random(800)
        _, low, high = ece(bare(confidence, rng.random(800) < confidence**2), SEED)
        covered.append(low <= truth <= high)
    assert_covers(covered, exactly=False)


def test_calibration_error_of_few_who_are_all_right_stays_open():
    rows = bare(np.ones(5), np.ones(5, bool))
    value, low, high = ece(rows, 1)
    assert (value, low) == (0, 0)
    assert high > 0.3
    with pytest.raises(InputError, match="bins: must be at least 1, got 0"):
        calibration(rows, bins=0)


@pytest.mark.default_cases("8")
@pytest.mark.parametrize("users", [8, 400])
def test_brier_interval_covers_the_truth(users):
    rng = np.random.default_rng([SEED, users])
    estimates = [brier(calibrated(users, rng)) for _ in range(400)]
    assert_covers([low <= 1 / 6 <= high for _, low, high in estimates], exactly=users > 100)


# Behavior


@settings(max_examples=30)
@given(st.integers(1, 40), st.integers(2, 9), st.integers(1, 5), st.integers(1, 5))
def test_behavior_map_agrees_with_counting(users, k, across, along):
    rng = np.random.default_rng(users)
    rows = bare(rng.random(users), rng.random(users) < 0.5).with_columns(
        gamma=pl.Series(1 - rng.random(users)), delta=pl.Series(1 - rng.random(users))
    )
    table = metrics.behavior_map(rows, k, cells=(across, along))
    assert table.height == across * along
    assert table["users"].sum() == users
    clipped = rows.with_columns(pl.col("delta").clip(lower_bound=1 / k + 1e-12))
    for g0, g1, d0, d1, precision, low, high, count in table.rows():
        part = clipped.filter(
            pl.col("gamma").is_between(g0, g1, closed="right"),
            pl.col("delta").is_between(d0, d1, closed="right"),
        )
        assert count == part.height
        if count:
            assert (precision, low, high) == share_of(int(metrics.successes(part).sum()), count)
        else:
            assert np.isnan(precision)
            assert (low, high) == (0, 1)


def test_behavior_map_leaves_out_users_of_unknown_behavior():
    rows = bare(np.full(3, 0.5), np.ones(3, bool)).with_columns(
        gamma=pl.Series([0.5, None, 0.5]), delta=pl.Series([0.5, 0.5, np.nan])
    )
    assert metrics.behavior_map(rows, 2)["users"].sum() == 1


@pytest.mark.parametrize("kinds", [1, 3, 1000])
def test_the_order_of_users_is_that_of_confidence_and_then_of_the_lot(kinds):
    """As two sorts would have it, also where confidence and the lot's first bits tie."""
    rng = np.random.default_rng(SEED)
    confidence = rng.choice(np.concatenate([[0.0, 1.0, 1.0 + 2e-16], rng.random(kinds)]), 3000)
    lot = rng.integers(0, 1 << 6, 3000) / (1 << 6) + rng.random(3000) / (1 << 40)
    expected = np.lexsort((lot, -np.round(confidence, 12)))
    np.testing.assert_array_equal(_descending_order(confidence, lot), expected)


@pytest.mark.parametrize("level", [0.01, 0.5, 1.0])
def test_quantiles_of_counted_values_are_those_of_the_values(level):
    values, counts = [7.0, np.inf, 2.0, 30.0], [5, 400, 0, 60]
    assert quantile(values, level, counts) == quantile(np.repeat(values, counts), level)


def test_a_design_effect_by_its_formula():
    """Three groups whose influence values are 1, 1 and -2 times four: G / (G - 1) sums^2 / squares, and (t / z)^2."""
    sums, squares = np.array([4.0, 4.0, -8.0]), 4 * (1.0 + 1.0 + 4.0)
    wider = (stats.t.ppf(0.975, 2) / stats.norm.ppf(0.975)) ** 2
    assert effect_of(sums, squares) == pytest.approx(3 / 2 * (16 + 16 + 64) / squares * wider)
    assert effect_of(np.zeros(3), squares) == pytest.approx(wider), "groups never narrow an interval"
    assert effect_of(sums[:1], squares) == 1.0


def test_a_bounded_mean_by_its_formula():
    """The plus-four rule: two pseudo-users contribute 0 and two contribute 1."""
    value, users = 1.0, 10
    a = (users * value + 2) / (users + 4)
    effective = users * a * (1 - a) / ((2 * a**2 + 2 * (1 - a) ** 2) / (users + 4))
    low, high = bounded_mean(value, 0.0, users)[1:]
    assert low == pytest.approx(stats.beta.ppf(TAIL, effective, 1.0))
    assert high == 1.0


def test_ranks_of_a_quantile_by_the_binomial_distribution():
    """Of 101 values in order, the ends of the median are the values whose ranks have too little probability beyond."""
    value, low, high = quantile(np.arange(1.0, 102.0), 0.5)
    assert value == 51
    assert low == stats.binom.ppf(TAIL, 101, 0.5)
    assert high == stats.binom.ppf(1 - TAIL, 101, 0.5) + 1


def test_replicas_of_a_calibration_error_are_of_fewer_users():
    """Of a quarter of the users where the design effect is 4: the error of the noise is twice as large."""
    binned = ConfidenceBins(np.array([400]), np.array([0.5]), np.array([200]))
    plain, shared = (_replicas(binned, np.array([[0.5]]), SEED, effect).mean() for effect in (1.0, 4.0))
    assert shared / plain == pytest.approx(2.0, rel=0.15)
