"""The epsilon that counts of an event prove, and how trials are spent so that they prove most.

An event that has probability p from one object and p' from another proves epsilon >= log(p / p'). There are two exact
ways to a lower bound. *Apart*: p is bounded from below and p' from above, and the error that is allowed is shared by
the two. *Together*: each trial is of the one object with probability s, else of the other; of the trials in which the
event happens, a share t = s p / (s p + (1 - s) p') is of the one, independently of each other, so a lower bound of t
is one of p / p'. The first is better where p is near one, the second where both are rare. The way, s and how the error
is shared are decided before any of the trials is made.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from poolscope.core.arrays import Floats
from poolscope.metrics.intervals import clopper_pearson

#: Counts of trials, or expected ones; shares of them.
Counts = NDArray[Any] | float

#: Error of the bounds by which events are chosen: small, or a rare event that was lucky once is taken for the best.
CHOOSING_ERROR = 1e-3
#: Shares of the trials, and of the error, that may go to the one object.
SHARES = np.linspace(0.02, 0.98, 49)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How a test is made.

    trials : of both objects together; share : probability that a trial is of the one.
    error : how often the bound may be wrong.
    part : of the error, for the one's own bound where they are bounded apart; None where together.
    """

    trials: int
    share: float
    error: float
    part: float | None

    def bound(self, hits: tuple[int, int], trials: tuple[int, int]) -> float:
        """Lower bound on epsilon from what the trials of the one and of the other show, not below 0."""
        return max(self.unclipped(hits, trials), 0.0)

    def unclipped(self, hits: tuple[float, float], trials: tuple[float, float]) -> float:
        """The same, negative as well; counts need not be whole."""
        if self.part is None:
            return float(_together(hits[0], hits[1], self.share, self.error))
        return float(_apart(hits[0], hits[1], trials[0], trials[1], self.error, self.part))


def lower_bound(at_least: float, at_most: float) -> float:
    """The epsilon that two bounds of a probability prove, not below 0."""
    return max(math.log(at_least / at_most), 0.0) if at_least > 0 else 0.0


def most_telling(
    counts: NDArray[np.int64], trials: NDArray[np.int64], about: NDArray[np.int64] | None = None
) -> tuple[int, int, int]:
    """Positions of two objects, and the event, with the largest lower bound on epsilon.

    Parameters
    ----------
    counts : (objects, events) how many of the trials of each object satisfy each event.
    trials : (objects,)
    about : (events, 2) positions of the two objects that each event is about, the likelier first; negative where it
        may be any object.
    """
    low, high = clopper_pearson(counts, trials[:, None], CHOOSING_ERROR)
    with np.errstate(divide="ignore"):
        bound = np.log(low)[:, None] - np.log(high)[None]
    bound[np.arange(len(counts)), np.arange(len(counts))] = -np.inf
    if about is not None:
        positions = np.arange(len(counts))[:, None]
        first, second = ((about[:, side] < 0) | (about[:, side] == positions) for side in (0, 1))
        bound = np.where(first[:, None] & second[None], bound, -np.inf)
    one, other, event = np.unravel_index(int(bound.argmax()), bound.shape)
    return int(one), int(other), int(event)


def clear(hits: NDArray[np.int64], trials: NDArray[np.int64]) -> bool:
    """Whether counts of an event from two objects prove at least half of the epsilon that they suggest."""
    low, high = clopper_pearson(hits, trials, CHOOSING_ERROR)
    rates = (hits + 0.5) / (trials + 1.0)
    return lower_bound(float(low[0]), float(high[1])) >= 0.5 * math.log(rates[0] / rates[1]) > 0


def plan(rates: tuple[float, float], trials: int, error: float) -> Plan:
    """Spend trials and error so that the bound is largest if the event's rates are these."""
    ones, others = SHARES * trials, (1.0 - SHARES) * trials
    hits = rates[0] * ones, rates[1] * others
    # (shares, parts), and a last column for the bound of both together
    parts = _apart(hits[0][:, None], hits[1][:, None], ones[:, None], others[:, None], error, SHARES)
    bounds = np.column_stack([parts, _together(*hits, SHARES, error)])
    row, column = np.unravel_index(int(bounds.argmax()), bounds.shape)
    part = float(SHARES[column]) if column < len(SHARES) else None
    return Plan(trials=trials, share=float(SHARES[row]), error=error, part=part)


def _apart(
    hits: Counts, other_hits: Counts, trials: Counts, other_trials: Counts, error: float, part: Counts
) -> Floats:
    low = clopper_pearson(hits, trials, part * error)[0]
    high = clopper_pearson(other_hits, other_trials, (1.0 - part) * error)[1]
    with np.errstate(divide="ignore"):
        return np.log(low) - np.log(high)


def _together(hits: Counts, other_hits: Counts, share: Counts, error: float) -> Floats:
    low = clopper_pearson(hits, hits + other_hits, error)[0]
    loss: Floats = special.logit(low) - special.logit(share)
    return loss
