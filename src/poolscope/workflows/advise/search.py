"""Search for ε: the largest that meets the exposure target, and the smallest that meets the error target.

Exposure is estimated by trials with the same users at every ε; the search is given a function that runs a trial,
and knows nothing of games. The error has a closed form. Verdicts on a share against a target have three values, as its
confidence interval may contain the target. The share to aim at is chosen so that held-out users can confirm it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from poolscope.core.arrays import Floats
from poolscope.mechanisms.protocols import Mechanism
from poolscope.metrics.intervals import TAIL, Estimate, clopper_pearson
from poolscope.metrics.models import Count, Real, Result, result
from poolscope.reports.frequencies import closed_estimator
from poolscope.reports.utility import expected_errors_of_estimator

#: Ratio of epsilons that need no trial between them; and the first step of the search, which grows by the same power.
CLOSE_RATIO, STEP = 1.08, 1.5

#: Trials of a mechanism at most.
MAX_TRIALS = 12

#: Part of a bracket, at either end, in which no trial is made.
EDGE = 0.2

#: Standard deviation, in log epsilon, of the weights of trials by their distance from the crossing.
FIT_WIDTH = 0.2


@result
class Trial(Result):
    """What one choice of ε does.

    Parameters
    ----------
    epsilon : of a report; users : how many played.
    exposed : share of users exposed by the horizon.
    cap : the largest number of events that meets the exposure target, up to the horizon of the trial.
    error : analytical RMSE of a frequency; None where there is no closed form.
    design_effect : of users who share an estimate of the popularity (as of cluster samples).
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
class SearchResult:
    """The largest ε that meets the exposure target, and the trials behind it.

    Parameters
    ----------
    trials : all of them, by ε.
    epsilon_max : the largest ε that meets the target. Its value is where the share crosses it, between the
        largest ε whose interval lies below the target and the smallest whose interval lies above; an end of the
        range where nothing in the range lies on that side. None where no ε of the range meets it.
    monotone : whether no smaller ε exposes significantly more users than a larger one.
    """

    trials: tuple[Trial, ...]
    epsilon_max: Estimate | None
    monotone: bool


def largest_epsilon(
    trial: Callable[[float], Trial],
    target: float,
    start: float,
    low: float,
    high: float,
    close: float = CLOSE_RATIO,
    *,
    step: float = STEP,
    near: float | None = None,
) -> SearchResult:
    """Step from `start` until two trials bracket the target, then close in on it, to the ratio `close`.

    Exposure is assumed to increase with ε; where it does not, some crossing is found, and `monotone` is false.
    A trial that exposes at most the target, and at least the part 1 - `near` of it, ends the search.
    """
    known: dict[float, Trial] = {}

    def is_near(trial: Trial) -> bool:
        return near is not None and (1 - near) * target <= trial.exposed.value <= target

    def run(epsilon: float) -> Trial:
        epsilon = min(max(epsilon, low), high)
        if epsilon not in known:
            known[epsilon] = trial(epsilon)
        return known[epsilon]

    one = run(start)
    if one.exposed.value <= target:
        met, missed = one, None
        while missed is None and met.epsilon < high and not is_near(met):
            other, step = run(met.epsilon * step), step**STEP
            met, missed = (other, None) if other.exposed.value <= target else (met, other)
    else:
        met, missed = None, one
        while met is None and missed.epsilon > low:
            other, step = run(missed.epsilon / step), step**STEP
            met, missed = (other, missed) if other.exposed.value <= target else (None, other)
    while met and missed and missed.epsilon > close * met.epsilon and len(known) < MAX_TRIALS and not is_near(met):
        other = run(next_epsilon([met, missed], target, met.epsilon, missed.epsilon))
        met, missed = (other, missed) if other.exposed.value <= target else (met, other)
    return result_of(list(known.values()), target, low, high)


def result_of(trials: Sequence[Trial], target: float, low: float, high: float) -> SearchResult:
    """Return the search result of the trials of a mechanism."""
    ordered = tuple(sorted(trials, key=lambda trial: trial.epsilon))
    return SearchResult(
        trials=ordered, epsilon_max=_epsilon_max(ordered, target, low, high), monotone=_monotone(ordered)
    )


def bracket(trials: Sequence[Trial], share: float, low: float, high: float, tail: float = TAIL) -> tuple[float, float]:
    """Find the largest ε that exposes significantly less than a share, and the next that exposes more.

    An end of the range stands for one that no trial shows. `tail` is the error of each end of an interval.
    """
    sides = [(trial.epsilon, trial.side(share, tail)) for trial in trials]
    below = max((epsilon for epsilon, side in sides if side < 0), default=low)
    return below, min((epsilon for epsilon, side in sides if side > 0 and epsilon > below), default=high)


def next_epsilon(trials: Sequence[Trial], share: float, below: float, above: float, edge: float = EDGE) -> float:
    """Choose an ε to try: where the fit crosses a share, but not at an edge of the bracket."""
    part = math.log(crossing(trials, share, below, above) / below) / math.log(above / below)
    return below * math.exp(math.log(above / below) * float(np.clip(part, edge, 1 - edge)))


def crossing(trials: Sequence[Trial], share: float, below: float, above: float) -> float:
    """Fit where the share is crossed, with log odds linear in log ε, and clip it to the bracket.

    Trials are weighted by their information on the log odds, and less with their distance from the middle.
    """
    middle = math.log(below * above) / 2
    x = np.log([trial.epsilon for trial in trials]) - middle
    odds = np.array([log_odds(trial.exposed.value, trial.users) for trial in trials])
    part = 1 / (1 + np.exp(-odds))
    weights = (
        np.array([trial.users for trial in trials]) * part * (1 - part) * np.exp(-((x / FIT_WIDTH) ** 2) / 2) + 1e-9
    )
    x_mean, odds_mean = np.average(x, weights=weights), np.average(odds, weights=weights)
    spread = np.average((x - x_mean) ** 2, weights=weights)
    slope = np.average((x - x_mean) * (odds - odds_mean), weights=weights) / spread if spread > 0 else 0.0
    if slope <= 0:
        return math.exp(middle)
    found = x_mean + (math.log(share / (1 - share)) - odds_mean) / slope
    return float(np.clip(math.exp(middle + np.clip(found, -9, 9)), below, above))


def _epsilon_max(trials: tuple[Trial, ...], target: float, low: float, high: float) -> Estimate | None:
    """Estimate the largest ε that meets the target, with the ends of its bracket."""
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
    """Return whether no smaller ε exposes significantly more users than a larger one."""
    most = 0.0
    for trial in trials:
        if trial.exposed.high < most:
            return False
        most = max(most, trial.exposed.low)
    return True


def log_odds(share: float, users: int) -> float:
    """Return the log odds of a share of users, finite at 0 and 1."""
    inside = (share * users + 0.5) / (users + 1)
    return math.log(inside / (1 - inside))


#: Whether a target is met: the interval lies below it, above it, or contains it.
YES, NO, UNDECIDED = "yes", "no", "undecided"

#: A recommendation that exposes a smaller part of the target than this has slack, which the advice explains.
MIN_PART = 0.7

#: The smallest part of the target to aim at, however few users there are, and to accept.
MIN_AIM = 0.75

#: Expected exposed users at the target from which another attempt can decide a verdict.
MIN_EXPOSED = 40


def verdict(share: Estimate, target: float) -> str:
    """Say whether a share is at most the target, by its interval."""
    if share.high <= target:
        return YES
    return NO if share.low > target else UNDECIDED


def combine_verdicts(*verdicts: str) -> str:
    """Combine verdicts on targets that must all be met."""
    if NO in verdicts:
        return NO
    return UNDECIDED if UNDECIDED in verdicts else YES


def max_confirmable_share(target: float, users: float) -> float:
    """Find the largest share of this many users whose interval lies below the target; 0 if none does."""
    hits = np.arange(math.ceil(target * users) + 1)
    _, high = clopper_pearson(hits, users)
    return max(0, int((high <= target).sum()) - 1) / users


def decidable(target: float, users: float) -> bool:
    """Say whether this many users can tell a share well below the target from the target."""
    return target * users >= MIN_EXPOSED


def target_with_margin(target: float, searched: float, held_out: float) -> float:
    """Choose the share to aim at, so that held-out users confirm it five times in six.

    A configuration that seems to expose this share of the users who searched exposes it but for their standard error;
    held-out users add their own. One standard error of the difference is left between the aim and what is confirmable.
    """
    error = math.sqrt(target * (1 - target) * (1 / searched + 1 / held_out))
    return max(max_confirmable_share(target, held_out) - error, MIN_AIM * target)


#: Ratio of neighboring epsilons of the grid, and bisections after it: to 2e-4 of epsilon.
GRID_STEP, HALVINGS = 1.15, 10

#: Significant digits of an epsilon: the first of these with which the error still meets the target.
DIGITS = (3, 4, 5, 6)


@result
class Errors(Result):
    """Root mean squared and mean absolute error of a frequency, over objects."""

    rmse: Real
    mae: Real


def analytical_errors(mechanism: Mechanism, popularity: Floats, reports: float) -> Errors | None:
    """Return the analytical errors for a number of reports; None where a mechanism has no closed form."""
    learning = closed_estimator(mechanism)
    if learning is None:
        return None
    frequency = np.asarray(popularity, dtype=np.float64) / np.sum(popularity)
    squared, absolute = expected_errors_of_estimator(learning, mechanism, frequency, max(1, round(reports)))
    if squared is None or absolute is None:
        return None
    return Errors(rmse=math.sqrt(float(squared.mean())), mae=float(absolute.mean()))


def rmse_min(popularity: Floats, reports: float) -> float:
    """Return the error without any mechanism: that of as many draws from the popularity."""
    frequency = np.asarray(popularity, dtype=np.float64) / np.sum(popularity)
    return math.sqrt(float(np.mean(frequency * (1 - frequency))) / reports)


def min_epsilon_for_error(error: Callable[[float], float], target: float, low: float, high: float) -> float | None:
    """Find the smallest ε in the range whose error meets the target, to three digits; None if none does.

    The error need not decrease everywhere, as with integer parameters; then this is the first such ε. It has more
    digits where rounding up would miss the target.
    """
    grid = _grid(low, high)
    met = next((i for i, epsilon in enumerate(grid) if error(epsilon) <= target), None)
    if met is None or met == 0:
        return None if met is None else low
    epsilon = _bisected(lambda epsilon: error(epsilon) <= target, grid[met], grid[met - 1])
    rounded = (rounded_up(epsilon, digits) for digits in DIGITS)
    return next((one for one in rounded if one <= high and error(one) <= target), epsilon)


def max_epsilon_for_error(error: Callable[[float], float], target: float, start: float, high: float) -> float:
    """Find the largest ε up to which the error meets the target without a gap, from a start that meets it."""
    if start >= high:
        return start
    grid = _grid(start, high)
    missed = next((i for i, epsilon in enumerate(grid) if i and error(epsilon) > target), None)
    if missed is None:
        return high
    epsilon = _bisected(lambda epsilon: error(epsilon) <= target, grid[missed - 1], grid[missed])
    return max(start, rounded_down(epsilon))


def min_in_range(error: Callable[[float], float], low: float, high: float) -> float:
    """Find the smallest error on a grid over the range of ε."""
    return min(error(epsilon) for epsilon in _grid(low, high))


def _grid(low: float, high: float) -> list[float]:
    """Space values of ε from one to the other, both included, by a ratio of at most `GRID_STEP`."""
    count = max(2, 1 + math.ceil(math.log(high / low) / math.log(GRID_STEP)))
    return [low, *np.geomspace(low, high, count)[1:-1].tolist(), high]


def _bisected(holds: Callable[[float], bool], met: float, missed: float) -> float:
    """Bisect between a value for which `holds` is true and one for which it is not; return one for which it is."""
    for _ in range(HALVINGS):
        middle = math.sqrt(met * missed)
        met, missed = (middle, missed) if holds(middle) else (met, middle)
    return met


def devices_needed(error: Callable[[float], float], target: float, devices: float) -> float:
    """Return how many devices meet the target error, from a number that does not."""
    high = devices
    while error(high) > target and high < 1e15:
        high *= 2
    return _bisected(lambda count: error(count) <= target, high, max(devices, high / 2)) if high > devices else high


def rounded_up(epsilon: float, digits: int = 3) -> float:
    """Round up to significant digits: an error that falls with ε stays met."""
    unit = 10.0 ** (math.floor(math.log10(epsilon)) + 1 - digits)
    return float(f"{math.ceil(epsilon / unit - 1e-9) * unit:.12g}")


def rounded_down(epsilon: float, digits: int = 3) -> float:
    """Round down to significant digits: exposure that grows with ε stays met."""
    unit = 10.0 ** (math.floor(math.log10(epsilon)) + 1 - digits)
    return float(f"{math.floor(epsilon / unit + 1e-9) * unit:.12g}")
