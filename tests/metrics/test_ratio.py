"""The interval of a ratio of two estimates, against simulation and known cases."""

import numpy as np
import pytest

from poolscope.metrics.intervals import Estimate, known_value, ratio

ONE, OTHER = Estimate(0.6, 0.5, 0.7), Estimate(0.8, 0.7, 0.9)


def test_a_known_denominator_divides_all_ends():
    assert ratio(ONE, known_value(0.5)) == pytest.approx((1.2, 1.0, 1.4))


def test_correlated_estimates_have_a_narrower_ratio():
    """Both ends, as what is common to both cancels."""
    low, high = zip(*(ratio(ONE, OTHER, correlation)[1:] for correlation in (-0.9, -0.5, 0.0, 0.5, 0.9)), strict=True)
    assert list(low) == sorted(low)
    assert list(high) == sorted(high, reverse=True)
    assert low[0] < low[-1]
    assert high[0] > high[-1]


@pytest.mark.parametrize("correlation", [-0.5, 0.0, 0.8])
def test_ends_are_those_of_fieller(correlation):
    """The roots of a quadratic, where both intervals are symmetric."""
    s, t = 0.1, 0.1
    squared = (0.8**2 - t**2, -2 * (0.6 * 0.8 - correlation * s * t), 0.6**2 - s**2)
    assert ratio(ONE, OTHER, correlation)[1:] == pytest.approx(sorted(np.roots(squared)))
