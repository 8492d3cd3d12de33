"""What reports gave away, in the measures of quantitative information flow: pure functions of the outcome table.

All take the rows of one adversary at one observation count n, a row per user, and give a 95 % interval over the draw of
users. They measure the attack that was played at the prior that the users have: another attack may do better.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from poolscope.metrics.intervals import Estimate, quantile, share_of
from poolscope.metrics.precision import successes

SMALLEST_DOUBT = 2.0**-53
"""What is left of a doubt that rounding has swallowed."""


def bayes_security(rows: pl.DataFrame, prior: float) -> Estimate:
    """Error of the guess with reports over that of the guess without, which is right as often as ``prior`` says."""
    return security_of(_precision(rows), prior)


def security_of(precision: Estimate, prior: float) -> Estimate:
    r"""Bayes security of a precision.

    .. math:: \beta = \frac{1 - \text{precision}}{1 - \text{prior}}

    1 is no leakage, 0 an attack that never errs; noise may push it above 1. This is the security at the prior of the
    users; its minimum over all priors is what the reference calls the Bayes security of a channel.

    References
    ----------
    K. Chatzikokolakis, G. Cherubin, C. Palamidessi, C. Troncoso. Bayes security: a not so average metric. CSF 2023.
    """
    if prior >= 1:
        return Estimate(float("nan"), 0.0, 1.0)
    value, high, low = ((1 - share) / (1 - prior) for share in precision)
    return Estimate(value, low, high)


def min_entropy_leakage(rows: pl.DataFrame, prior: float) -> Estimate:
    """Bits by which the reports make the guess better; ``prior`` is how often the guess without them is right."""
    return leakage_of(_precision(rows), prior)


def leakage_of(precision: Estimate, prior: float) -> Estimate:
    r"""Min-entropy leakage of a precision, in bits.

    .. math:: \log_2 \frac{\text{precision}}{\text{prior}}

    At most log2 k for k pools; below 0 where the attack is worse than the guess without reports, -inf where it is
    never right.

    References
    ----------
    G. Smith. On the foundations of quantitative information flow. FoSSaCS 2009.
    """
    with np.errstate(divide="ignore"):
        return Estimate(*(float(np.log2(share / prior)) for share in precision))


def evidence(rows: pl.DataFrame, prior: Mapping[str, float], level: float = 0.99) -> Estimate:
    r"""What the reports added to the log odds of the true pool, as a quantile over users.

    .. math:: \log \frac{\Pr[\text{truth} | \text{reports}]}{1 - \Pr[\text{truth} | \text{reports}]}
              - \log \frac{\Pr[\text{truth}]}{1 - \Pr[\text{truth}]}

    Under n reports of epsilon each it cannot exceed n epsilon (composition). A posterior that rounds to 1 counts as
    1 - 2^-53, the largest number below.

    Parameters
    ----------
    prior : the adversary's prior of each pool, by name.
    level : 0.99 is the user who is told more about than 99 % of the others.
    """
    truth = np.array([prior[pool] for pool in rows["pool"].cast(pl.String)])
    posterior = rows["posterior_true"].to_numpy()
    with np.errstate(divide="ignore"):
        gained = np.log(posterior / np.maximum(1 - posterior, SMALLEST_DOUBT)) - np.log(truth / (1 - truth))
    return quantile(gained, level)


def _precision(rows: pl.DataFrame) -> Estimate:
    return share_of(int(successes(rows).sum()), rows.height)
