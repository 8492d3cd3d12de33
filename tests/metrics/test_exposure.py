"""Confident at n and exposed by n, against counting."""

import numpy as np
import polars as pl
import pytest
from cases.synthetic import attack, bare

from poolscope import metrics
from poolscope.game.columns import EXPOSED
from poolscope.metrics.exposure import exposed_by
from poolscope.metrics.intervals import clusters_of, share_of, share_of_users


def test_a_threshold_says_of_whom_the_adversary_is_sure():
    rows = bare(np.array([0.2, 0.5, 0.5, 0.9]), np.array([True, False, True, True]))
    assert metrics.confident(rows, 0.5) == share_of(3, 4)
    assert metrics.precision_at_threshold(rows, 0.5) == share_of(2, 3)
    assert np.isnan(metrics.precision_at_threshold(rows, 0.95).value)
    assert metrics.confident(rows, 0.95).value == 0


def test_sure_is_what_the_null_rate_leaves():
    rows = metrics.select(attack(300), "strong", 30)
    curve = metrics.precision_curve(rows, 1)
    for threshold, rate, precision in zip(curve["threshold"], curve["null_rate"], curve["precision"], strict=True):
        assert metrics.confident(rows, threshold).value == pytest.approx(1 - rate)
        assert metrics.precision_at_threshold(rows, threshold).value == pytest.approx(precision)


def test_exposure_counts_of_whom_the_adversary_has_been_sure():
    rows = metrics.select(attack(400), "strong", 7)
    table = metrics.exposure(rows, 90)
    assert table.columns == ["n", "threshold", "share", "low", "high", "users"]
    for threshold, column in EXPOSED.items():
        part = table.filter(pl.col("threshold") == threshold)
        assert part["n"].to_list() == list(range(91))
        for n in (0, 1, 30, 90):
            count = sum(first is not None and first <= n for first in rows[column])
            assert part.row(n)[2:] == pytest.approx((*share_of(count, 400), 400))
            assert metrics.exposed(rows, threshold, n) == share_of(count, 400)


def test_whoever_is_sure_at_n_has_exposed_by_n():
    for rows in attack(400).partition_by("n"):
        for threshold in EXPOSED:
            assert metrics.confident(rows, threshold).value <= metrics.exposed(rows, threshold, rows["n"][0]).value


def test_reports_to_exposure_count_those_who_never_are():
    rows = pl.DataFrame({"exposed_at_90": [3, 5, None, None, 9], "exposed_at_50": [0, 1, 2, 3, 4]})
    assert metrics.reports_to_exposure(rows).value == 9
    assert metrics.reports_to_exposure(rows).high == np.inf
    assert metrics.reports_to_exposure(rows, 0.5).value == 2
    rare = rows.with_columns(exposed_at_90=pl.Series([3, None, None, None, None]))
    assert metrics.reports_to_exposure(rare).value == np.inf


@pytest.mark.parametrize("share", [0.05, 0.5, 0.9])
def test_reports_to_exposure_are_of_the_users_of_all_estimates(share):
    groups = np.repeat(np.arange(6), 20)
    rows = pl.DataFrame({"exposed_at_90": 1 + groups + np.arange(120) % 2, "estimate": groups})
    found, alone = (
        metrics.reports_to_exposure(rows, 0.9, share),
        metrics.reports_to_exposure(rows.drop("estimate"), 0.9, share),
    )
    assert found.value == alone.value
    assert found.low <= alone.low
    assert found.high >= alone.high


# Chance in the attack


def noisy(confidence, error):
    return bare(confidence, np.ones(len(confidence), dtype=bool)).with_columns(confidence_mcse=error)


def test_who_is_within_an_error_of_the_threshold_widens_the_interval():
    confidence, error = np.array([0.2, 0.89, 0.91, 0.99, 0.93]), np.array([0.1, 0.02, 0.02, 0.02, 0.01])
    value, low, high = metrics.confident(noisy(confidence, error), 0.9)
    assert (value, low, high) == (3 / 5, share_of(2, 5).low, share_of(4, 5).high)
    assert metrics.confident(noisy(confidence, 0.0 * error), 0.9) == share_of(3, 5)


def test_early_and_late_widen_who_is_exposed():
    rows = pl.DataFrame(
        {
            **{f"exposed_at_{level}{end}": [1] * 4 for level in (50, 95) for end in ("", "_plus_mcse", "_minus_mcse")},
            "exposed_at_90": [3, 5, None, None],
            "exposed_at_90_plus_mcse": [3, 3, 5, None],
            "exposed_at_90_minus_mcse": [5, None, None, None],
        }
    )
    assert metrics.exposed(rows, 0.9, 3) == (1 / 4, share_of(0, 4).low, share_of(2, 4).high)
    assert metrics.exposed(rows, 0.9, 5) == (2 / 4, share_of(1, 4).low, share_of(3, 4).high)
    shown = metrics.exposure(rows, 5).filter((pl.col("threshold") == 0.9) & (pl.col("n") == 5))
    assert shown.row(0)[2:5] == pytest.approx((2 / 4, share_of(1, 4).low, share_of(3, 4).high))
    many = pl.concat([rows] * 50)
    value, low, high = metrics.reports_to_exposure(many, share=0.4)
    assert (value, low, high) == (5.0, 3.0, np.inf)
    assert metrics.reports_to_exposure(many.select("exposed_at_90"), share=0.4) == (5.0, 5.0, 5.0)
    assert metrics.exposed(rows, 0.5, 1) == share_of(4, 4)


@pytest.mark.parametrize("shape", [(1.0, 1.0), (4.0, 1.0), (1.0, 0.3), (12.0, 2.0)])
def test_the_count_without_chance_lies_between(shape):
    """Of crowds whose confidences are off by noise of the error that is stated; without a margin it rarely would."""
    rng, inside, same = np.random.default_rng(3), 0, 0
    for _ in range(300):
        truth, error = rng.beta(*shape, 400), rng.uniform(0.01, 0.05, 400)
        seen = truth + error * rng.standard_normal(400)
        few, found, many, exact = ((x >= 0.9).sum() for x in (seen - error, seen, seen + error, truth))
        inside, same = inside + (few <= exact <= many), same + (found == exact)
    assert inside / 300 > 0.95
    assert same / 300 < 0.7


def test_the_table_of_an_exposure_has_the_intervals_of_groups():
    """Users who share an estimate are exposed together, so that intervals are wider at every count."""
    groups = np.repeat(np.arange(6), 20)
    first = 1 + groups + np.arange(120) % 2
    rows = pl.DataFrame({f"exposed_at_{level}": first for level in (50, 90, 95)} | {"estimate": groups})
    rows, known = rows.with_columns(pl.col("estimate").cast(pl.Int16)), clusters_of(rows)
    for n, threshold, *found, users in metrics.exposure(rows, 7).rows():
        chosen = exposed_by(rows, EXPOSED[threshold], n)
        assert found == pytest.approx(share_of_users(chosen, known))
        assert users == 120
    assert found[1] > 0
    chosen = exposed_by(rows, "exposed_at_90", 3)
    assert share_of_users(chosen, known).high > share_of_users(chosen, None).high
