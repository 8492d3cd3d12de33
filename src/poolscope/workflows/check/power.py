"""What a test could have found: the smallest epsilon that it would have called too large."""

from __future__ import annotations

import math

from scipy import optimize, stats

from poolscope.workflows.check.bound import Plan

#: How often a detectable epsilon is found, and the largest one that is looked for.
POWER, LARGEST = 0.9, 50.0


def detectable(planned: Plan, rate: float, claimed: float) -> float:
    """The smallest epsilon that nine in ten tests of this plan would prove to be above the claimed one.

    rate : how likely the event is from the other object. From the one it is e^epsilon times as likely, or certain.
    Infinite where no epsilon would be found; NaN where none is claimed.
    """
    if not math.isfinite(claimed):
        return claimed
    if _expected(planned, rate, LARGEST) <= claimed:
        return math.inf
    return float(optimize.brentq(lambda epsilon: _expected(planned, rate, epsilon) - claimed, 0.0, LARGEST, xtol=1e-4))


def _expected(planned: Plan, rate: float, epsilon: float) -> float:
    """The bound that nine in ten tests reach: that of the expected counts, less what the worst tenth loses."""
    other = min(rate, math.exp(-epsilon))
    one = min(1.0, other * math.exp(epsilon))
    trials = planned.share * planned.trials, (1.0 - planned.share) * planned.trials
    hits = trials[0] * one, trials[1] * other
    # of the logarithms of two binomial shares; a count that is always 0 does not vary
    variance = (1.0 - one) / (hits[0] + 1.0) + (1.0 - other) / (hits[1] + 1.0)
    return planned.unclipped(hits, trials) - float(stats.norm.ppf(POWER)) * math.sqrt(variance)
