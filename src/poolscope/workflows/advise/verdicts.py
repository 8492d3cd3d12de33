"""Three-valued verdicts on a share against a target, and the share to aim at so that held-out users can confirm it."""

from __future__ import annotations

import math

import numpy as np

from poolscope.metrics.intervals import Estimate, clopper_pearson

#: Whether a target is met: the interval lies below it, above it, or contains it.
YES, NO, UNDECIDED = "yes", "no", "undecided"

#: A recommendation that exposes a smaller part of the target than this could be larger, and the advice says why not.
MIN_PART = 0.7

#: The least part of the target to aim at, however few users there are, and to be satisfied with.
MIN_AIM = 0.75

#: Exposed users at the target from which on retrying can decide a verdict.
MIN_EXPOSED = 40


def verdict(share: Estimate, target: float) -> str:
    """Say whether a share is at most the target, by its interval."""
    if share.high <= target:
        return YES
    return NO if share.low > target else UNDECIDED


def all_of(*verdicts: str) -> str:
    """Combine verdicts on targets that must all be met."""
    if NO in verdicts:
        return NO
    return UNDECIDED if UNDECIDED in verdicts else YES


def confirmable(target: float, users: float) -> float:
    """Find the largest share of this many users whose interval lies below the target; 0 if none does."""
    hits = np.arange(math.ceil(target * users) + 1)
    _, high = clopper_pearson(hits, users)
    return max(0, int((high <= target).sum()) - 1) / users


def decidable(target: float, users: float) -> bool:
    """Say whether this many users can tell a share well below the target from the target."""
    return target * users >= MIN_EXPOSED


def aim_of(target: float, searched: float, held_out: float) -> float:
    """Choose the share to aim at, so that held-out users confirm it five times in six.

    A configuration that seems to expose this share of the users who searched exposes it but for their standard error;
    held-out users add their own. One standard error of the difference is left between the aim and what is confirmable.
    """
    error = math.sqrt(target * (1 - target) * (1 / searched + 1 / held_out))
    return max(confirmable(target, held_out) - error, MIN_AIM * target)
