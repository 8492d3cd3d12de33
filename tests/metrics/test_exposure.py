"""Sure at n and exposed by n, against counting."""

import numpy as np
import polars as pl
import pytest
from cases.synthetic import attack, bare

from poolscope import metrics
from poolscope.game.columns import EXPOSED
from poolscope.metrics.intervals import share_of


def test_a_threshold_says_of_whom_the_adversary_is_sure():
    rows = bare(np.array([0.2, 0.5, 0.5, 0.9]), np.array([True, False, True, True]))
    assert metrics.sure(rows, 0.5) == share_of(3, 4)
    assert metrics.precision_when_sure(rows, 0.5) == share_of(2, 3)
    assert np.isnan(metrics.precision_when_sure(rows, 0.95).value)
    assert metrics.sure(rows, 0.95).value == 0


def test_sure_is_what_the_null_rate_leaves():
    rows = metrics.select(attack(300), "strong", 30)
    curve = metrics.precision_curve(rows, 1)
    for threshold, rate, precision in zip(curve["threshold"], curve["null_rate"], curve["precision"], strict=True):
        assert metrics.sure(rows, threshold).value == pytest.approx(1 - rate)
        assert metrics.precision_when_sure(rows, threshold).value == pytest.approx(precision)


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
            assert metrics.sure(rows, threshold).value <= metrics.exposed(rows, threshold, rows["n"][0]).value


def test_reports_to_exposure_count_those_who_never_are():
    rows = pl.DataFrame({"exposed_90": [3, 5, None, None, 9], "exposed_50": [0, 1, 2, 3, 4]})
    assert metrics.reports_to_exposure(rows).value == 9
    assert metrics.reports_to_exposure(rows).high == np.inf
    assert metrics.reports_to_exposure(rows, 0.5).value == 2
    rare = rows.with_columns(exposed_90=pl.Series([3, None, None, None, None]))
    assert metrics.reports_to_exposure(rare).value == np.inf
