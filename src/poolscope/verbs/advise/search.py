"""The largest epsilon that exposes no more users than asked for, by trials with the same users.

The search knows nothing of games: it is told what a trial at an epsilon finds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from poolscope.metrics.intervals import Estimate, share_of

#: Epsilons this close, as a ratio, need no trial between them; and the first step from where the search begins, which
#: grows by the same power.
CLOSE, STEP = 1.08, 1.5

#: Trials of a mechanism at most.
MOST = 12


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What one choice of epsilon does.

    Parameters
    ----------
    epsilon : the choice; users : who played.
    exposed : share of users exposed by the asked number of events.
    cap : the largest number of events that exposes no more users than asked for, up to the horizon of the play.
    error : RMSE of a frequency in closed form; None where there is no closed form.
    """

    epsilon: float
    users: int
    exposed: Estimate
    cap: Estimate
    error: float | None = None


@dataclass(frozen=True, kw_only=True)
class Found:
    """The border that a search found.

    Parameters
    ----------
    trials : all of them, by epsilon.
    largest : the largest epsilon that meets the target. Its value is where the share crosses it, between the largest
        epsilon whose interval lies below the target and the smallest whose interval lies above; an end of the range
        where nothing in the range lies on that side. None where no epsilon of the range meets it.
    monotone : whether no smaller epsilon exposes surely more users than a larger one.
    """

    trials: tuple[Trial, ...]
    largest: Estimate | None
    monotone: bool


def largest_epsilon(
    trial: Callable[[float], Trial], target: float, start: float, low: float, high: float, close: float = CLOSE
) -> Found:
    """Step from `start` until the target lies between two trials, then close in on it, to that ratio.

    Exposure is taken to grow with epsilon; where it does not, some border is found, and `monotone` says so.
    """
    known: dict[float, Trial] = {}

    def tried(epsilon: float) -> Trial:
        epsilon = min(max(epsilon, low), high)
        if epsilon not in known:
            known[epsilon] = trial(epsilon)
        return known[epsilon]

    one, step = tried(start), STEP
    if one.exposed.value <= target:
        met, missed = one, None
        while missed is None and met.epsilon < high:
            other, step = tried(met.epsilon * step), step**STEP
            met, missed = (other, None) if other.exposed.value <= target else (met, other)
    else:
        met, missed = None, one
        while met is None and missed.epsilon > low:
            other, step = tried(missed.epsilon / step), step**STEP
            met, missed = (other, missed) if other.exposed.value <= target else (None, other)
    while met and missed and missed.epsilon > close * met.epsilon and len(known) < MOST:
        other = tried(_between(met, missed, target))
        met, missed = (other, missed) if other.exposed.value <= target else (met, other)
    # the border is known: now what lies surely below it, in steps that grow
    sure, step = met, math.sqrt(CLOSE)
    while sure and sure.exposed.high > target and sure.epsilon > low and len(known) < MOST and provable([sure], target):
        near = max((e for e, one in known.items() if one.exposed.high <= target and e < sure.epsilon), default=low)
        sure, step = tried(max(sure.epsilon / step, near)), step * math.sqrt(CLOSE)
    trials = tuple(known[epsilon] for epsilon in sorted(known))
    return Found(trials=trials, largest=_border(trials, met, missed, target, low, high), monotone=_monotone(trials))


def provable(trials: Sequence[Trial], target: float) -> bool:
    """Whether the users of some trial are enough for an interval below the target, if none of them is exposed."""
    return share_of(0, max(trial.users for trial in trials)).high <= target


def _between(met: Trial, missed: Trial, target: float) -> float:
    """Where the share would be the target, if its log odds were linear in log epsilon; never near an end."""
    at, below = _log_odds(target, met.users), _log_odds(met.exposed.value, met.users)
    above = _log_odds(missed.exposed.value, missed.users)
    part = float(np.clip((at - below) / (above - below), 0.2, 0.8)) if above > below else 0.5
    return math.exp((1 - part) * math.log(met.epsilon) + part * math.log(missed.epsilon))


def _border(
    trials: tuple[Trial, ...], met: Trial | None, missed: Trial | None, target: float, low: float, high: float
) -> Estimate | None:
    if met is None:
        return None
    value = met.epsilon if missed is None else _crossing(met, missed, target)
    surely = [trial.epsilon for trial in trials if trial.exposed.high <= target and trial.epsilon <= value]
    never = [trial.epsilon for trial in trials if trial.exposed.low > target and trial.epsilon >= value]
    return Estimate(value, max(surely, default=low), min(never, default=high))


def _crossing(met: Trial, missed: Trial, target: float) -> float:
    gap = missed.exposed.value - met.exposed.value
    part = (target - met.exposed.value) / gap
    return math.exp((1 - part) * math.log(met.epsilon) + part * math.log(missed.epsilon))


def _monotone(trials: tuple[Trial, ...]) -> bool:
    most = 0.0
    for trial in trials:
        if trial.exposed.high < most:
            return False
        most = max(most, trial.exposed.low)
    return True


def _log_odds(share: float, users: int) -> float:
    """Of a share of users, open at 0 and 1."""
    inside = (share * users + 0.5) / (users + 1)
    return math.log(inside / (1 - inside))
