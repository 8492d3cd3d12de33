"""What a test could have found: the smallest epsilon that it would have called too large."""

from __future__ import annotations

import math

from scipy import optimize, stats

from poolscope.verbs.check.bound import Plan

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
    """The bound that nine in ten tests reach: counts are as far on the wrong side as in the worst tenth of them."""
    other = min(rate, math.exp(-epsilon))
    one = min(1.0, other * math.exp(epsilon))
    trials = planned.share * planned.trials, (1.0 - planned.share) * planned.trials
    # each of the two counts takes its share of the deviation
    deviation = stats.norm.ppf(POWER) / math.sqrt(2.0)
    hits = trials[0] * one - deviation * math.sqrt(trials[0] * one * (1.0 - one))
    others = trials[1] * other + deviation * math.sqrt(trials[1] * other * (1.0 - other))
    return planned.unclipped((max(0.0, hits), min(trials[1], others)), trials)
