"""The epsilon that counts of an event prove, and how trials are spent so that they prove most.

An event that has probability p from one object and p' from another proves epsilon >= log(p / p'). Both are bounded, p
from below and p' from above, and the error that is allowed is shared by the two. The rarer one is the harder to bound:
most trials, and most of the error, are best spent on it. How many is decided before any of them is made.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from poolscope.base.arrays import Floats

#: Error of the bounds by which events are chosen: small, or a rare event that was lucky once is taken for the best.
CHOOSING_ERROR = 1e-3
#: Shares of the trials, and of the error, that may go to the one object; the rest goes to the other.
SHARES = np.linspace(0.02, 0.98, 49)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How a test is made: trials of the one object and of the other, and how often either bound may be wrong."""

    trials: tuple[int, int]
    errors: tuple[float, float]


def clopper_pearson(
    hits: NDArray[np.integer] | Floats | int, trials: NDArray[np.integer] | Floats | int, error: Floats | float
) -> tuple[Floats, Floats]:
    """Exact binomial bounds, each of which is wrong with probability `error` at most.

    References
    ----------
    C. J. Clopper and E. S. Pearson. The use of confidence or fiducial limits illustrated in the case of the binomial.
    Biometrika 26, 1934.
    """
    k, n = np.broadcast_arrays(np.asarray(hits, dtype=np.float64), np.asarray(trials, dtype=np.float64))
    # where k is 0 or n a parameter would be 0: the bound is then known, any legal parameter will do
    low = np.where(k > 0, special.betaincinv(np.maximum(k, 1.0), n - k + 1.0, error), 0.0)
    high = np.where(k < n, special.betaincinv(k + 1.0, np.maximum(n - k, 1.0), 1.0 - error), 1.0)
    return low, high


def lower_bound(at_least: float, at_most: float) -> float:
    """The epsilon that two bounds of a probability prove, not below 0."""
    return max(math.log(at_least / at_most), 0.0) if at_least > 0 else 0.0


def most_telling(counts: NDArray[np.int64], trials: NDArray[np.int64]) -> tuple[int, int, int]:
    """Positions of two objects, and the event, with the largest lower bound on epsilon.

    counts (objects, events) how many of the trials (objects,) of each object satisfy each event.
    """
    low, high = clopper_pearson(counts, trials[:, None], CHOOSING_ERROR)
    with np.errstate(divide="ignore"):
        bound = np.log(low)[:, None] - np.log(high)[None]
    bound[np.arange(len(counts)), np.arange(len(counts))] = -np.inf
    one, other, event = np.unravel_index(int(bound.argmax()), bound.shape)
    return int(one), int(other), int(event)


def clear(hits: NDArray[np.int64], trials: NDArray[np.int64]) -> bool:
    """Whether counts of an event from two objects prove at least half of the epsilon that they suggest."""
    low, high = clopper_pearson(hits, trials, CHOOSING_ERROR)
    rates = (hits + 0.5) / (trials + 1.0)
    return lower_bound(float(low[0]), float(high[1])) >= 0.5 * math.log(rates[0] / rates[1]) > 0


def plan(rates: tuple[float, float], trials: int, error: float) -> Plan:
    """Spend trials and error so that the bound is largest if the event's rates are these."""
    share, part = np.meshgrid(SHARES, SHARES, indexing="ij")
    ones, others = share * trials, (1.0 - share) * trials
    low = clopper_pearson(rates[0] * ones, ones, part * error)[0]
    high = clopper_pearson(rates[1] * others, others, (1.0 - part) * error)[1]
    with np.errstate(divide="ignore"):
        bound = np.log(low) - np.log(high)
    best = np.unravel_index(int(bound.argmax()), bound.shape)
    one = int(ones[best])
    of_one = float(part[best]) * error
    return Plan(trials=(one, trials - one), errors=(of_one, error - of_one))
