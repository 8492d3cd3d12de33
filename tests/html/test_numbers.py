"""How numbers and their intervals are written."""

from math import inf, nan

import pytest

from poolscope.html.tables import bits, count, decimal, interval, large_percent, log_odds, number
from poolscope.metrics.intervals import Estimate


@pytest.mark.parametrize(
    ("form", "value", "text"),
    [
        (decimal, 0.8239, "0.824"),
        (decimal, nan, "–"),
        (decimal, inf, "∞"),
        (large_percent, 0.99995, "> 99.9%"),
        (large_percent, 0.0005, "< 0.1%"),
        (large_percent, 1.0, "100%"),
        (number, 1.5, "1.5"),
        (number, inf, "∞"),
        (log_odds, 4.44, "4.4"),
        (log_odds, 60.0, "≥ 60.0"),
        (log_odds, inf, "∞"),
        (log_odds, -inf, "-∞"),
        (count, inf, "–"),
        (bits, -inf, "–"),
    ],
)
def test_a_number_is_written(form, value, text):
    assert form(value) == text


@pytest.mark.parametrize(
    ("estimate", "form", "text"),
    [
        (Estimate(4.4, 3.1, inf), log_odds, "3.1–∞"),
        (Estimate(-1.0, -inf, 0.5), log_odds, "−∞ – 0.5"),
        (Estimate(7, 3, inf), count, "≥ 3"),
        (Estimate(0.7, 0.65, 0.75), decimal, "0.650–0.750"),
        (Estimate(1, 1, 1), decimal, ""),
    ],
)
def test_an_interval_is_written(estimate, form, text):
    assert interval(estimate, form) == text
