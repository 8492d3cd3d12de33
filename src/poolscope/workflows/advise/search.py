"""The largest epsilon that exposes no more users than asked for, by trials with the same users.

The search knows nothing of games: it is given a function that plays a trial at an epsilon.

Three-valued verdicts on a share against a target, and the share to aim at so that held-out users can confirm it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from poolscope.metrics.intervals import TAIL, Estimate, clopper_pearson
from poolscope.metrics.models import Count, Real, Result, result

#: Epsilons this close, as a ratio, need no trial between them; and the first step from where the search begins, which
#: grows by the same power.
CLOSE, STEP = 1.08, 1.5

#: Trials of a mechanism at most.
MAX_TRIALS = 12

#: Parts of a bracket, at either end, in which no trial is played.
EDGE = 0.2

#: Standard deviation, in log epsilon, of the weights of trials by their distance from the border.
NEAR = 0.2


@result
class Trial(Result):
    """What one choice of epsilon does.

    Parameters
    ----------
    epsilon : the choice; users : who played.
    exposed : share of users exposed by the asked number of events.
    cap : the largest number of events that exposes no more users than asked for, up to the horizon of the play.
    error : RMSE of a frequency in closed form; None where there is no closed form.
    design_effect : how many times fewer independent users would say as much, as users share estimates.
    """

    epsilon: Real
    users: Count
    exposed: Estimate
    cap: Estimate
    error: Real | None = None
    design_effect: Real = 1.0

    def side(self, share: float, tail: float) -> int:
        """Say whether significantly fewer users (-1) or more (1) are exposed than a share, or neither (0)."""
        users = self.users / self.design_effect
        low, high = clopper_pearson(self.exposed.value * users, users, tail)
        return int(low > share) - int(high <= share)


@dataclass(frozen=True, kw_only=True)
class Found:
    """The border that a search found.

    Parameters
    ----------
    trials : all of them, by epsilon.
    epsilon_max : the largest epsilon that meets the target. Its value is where the share crosses it, between the
        largest epsilon whose interval lies below the target and the smallest whose interval lies above; an end of the
        range where nothing in the range lies on that side. None where no epsilon of the range meets it.
    monotone : whether no smaller epsilon exposes significantly more users than a larger one.
    """

    trials: tuple[Trial, ...]
    epsilon_max: Estimate | None
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
    while met and missed and missed.epsilon > close * met.epsilon and len(known) < MAX_TRIALS:
        other = tried(between([met, missed], target, met.epsilon, missed.epsilon))
        met, missed = (other, missed) if other.exposed.value <= target else (met, other)
    return found_in(list(known.values()), target, low, high)


def found_in(trials: Sequence[Trial], target: float, low: float, high: float) -> Found:
    """Read the border off the trials of a mechanism."""
    ordered = tuple(sorted(trials, key=lambda trial: trial.epsilon))
    return Found(trials=ordered, epsilon_max=_border(ordered, target, low, high), monotone=_monotone(ordered))


def bracket(trials: Sequence[Trial], share: float, low: float, high: float, tail: float = TAIL) -> tuple[float, float]:
    """Find the largest epsilon that exposes significantly less than a share, and the next that exposes more.

    An end of the range stands for one that no trial shows. `tail` is how often each end of an interval may be wrong.
    """
    sides = [(trial.epsilon, trial.side(share, tail)) for trial in trials]
    below = max((epsilon for epsilon, side in sides if side < 0), default=low)
    return below, min((epsilon for epsilon, side in sides if side > 0 and epsilon > below), default=high)


def between(trials: Sequence[Trial], share: float, below: float, above: float, edge: float = EDGE) -> float:
    """Choose an epsilon to try: where the fit crosses a share, but not at an edge of the bracket."""
    part = math.log(crossing(trials, share, below, above) / below) / math.log(above / below)
    return below * math.exp(math.log(above / below) * float(np.clip(part, edge, 1 - edge)))


def crossing(trials: Sequence[Trial], share: float, below: float, above: float) -> float:
    """Fit where the share is crossed, with log odds linear in log epsilon, and keep it within the bracket.

    Trials weigh by their information on the log odds, and less the further they are from the middle of the bracket.
    """
    middle = math.log(below * above) / 2
    x = np.log([trial.epsilon for trial in trials]) - middle
    odds = np.array([_log_odds(trial.exposed.value, trial.users) for trial in trials])
    part = 1 / (1 + np.exp(-odds))
    weights = np.array([trial.users for trial in trials]) * part * (1 - part) * np.exp(-((x / NEAR) ** 2) / 2) + 1e-9
    x_mean, odds_mean = np.average(x, weights=weights), np.average(odds, weights=weights)
    spread = np.average((x - x_mean) ** 2, weights=weights)
    likelihood_scale = np.average((x - x_mean) * (odds - odds_mean), weights=weights) / spread if spread > 0 else 0.0
    if likelihood_scale <= 0:
        return math.exp(middle)
    found = x_mean + (math.log(share / (1 - share)) - odds_mean) / likelihood_scale
    return float(np.clip(math.exp(middle + np.clip(found, -9, 9)), below, above))


def _border(trials: tuple[Trial, ...], target: float, low: float, high: float) -> Estimate | None:
    """Estimate the largest epsilon that meets the target, with the ends of its bracket."""
    met = [trial for trial in trials if trial.exposed.value <= target]
    if not met:
        return None
    below, above = bracket(trials, target, low, high)
    missed = [trial for trial in trials if trial.exposed.value > target and trial.epsilon > below]
    if not missed:
        return Estimate(met[-1].epsilon, min(below, met[-1].epsilon), above)
    near = (met[-1].epsilon, missed[0].epsilon) if met[-1].epsilon < missed[0].epsilon else (below, above)
    value = min(max(crossing(trials, target, *near), below), above)
    return Estimate(value, below, above)


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
