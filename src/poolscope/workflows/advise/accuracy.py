"""How well the curator learns under a choice, in closed form, and the smallest epsilon that serves."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from poolscope.core.arrays import Floats
from poolscope.mechanisms.protocols import Mechanism
from poolscope.metrics.models import Real, Result, result
from poolscope.reports.frequencies import closed_estimator
from poolscope.reports.utility import expected_of

#: Ratio of neighboring epsilons that are looked at first, and halvings after that: to 2e-4 of epsilon.
STEP, HALVINGS = 1.15, 10

#: Significant digits of an epsilon: the first number of them with which the error still holds.
DIGITS = (3, 4, 5, 6)


@result
class Errors(Result):
    """Root mean squared and mean absolute error of a frequency, over objects."""

    rmse: Real
    mae: Real


def errors_of(mechanism: Mechanism, popularity: Floats, reports: float) -> Errors | None:
    """In closed form, from so many reports; None where a mechanism has none."""
    learning = closed_estimator(mechanism)
    if learning is None:
        return None
    frequency = np.asarray(popularity, dtype=np.float64) / np.sum(popularity)
    squared, absolute = expected_of(learning, mechanism, frequency, max(1, round(reports)))
    if squared is None or absolute is None:
        return None
    return Errors(rmse=math.sqrt(float(squared.mean())), mae=float(absolute.mean()))


def rmse_min(popularity: Floats, reports: float) -> float:
    """The error without any mechanism, which is that of so many draws from the popularity."""
    frequency = np.asarray(popularity, dtype=np.float64) / np.sum(popularity)
    return math.sqrt(float(np.mean(frequency * (1 - frequency))) / reports)


def smallest_serving(error: Callable[[float], float], target: float, low: float, high: float) -> float | None:
    """Find the smallest epsilon between both whose error meets the target, in three digits; None if none does.

    An error need not fall everywhere, as with integer parameters; then this is the first such epsilon. It has more
    digits where rounding up would miss the target.
    """
    grid = _grid(low, high)
    met = next((i for i, epsilon in enumerate(grid) if error(epsilon) <= target), None)
    if met is None or met == 0:
        return None if met is None else low
    epsilon = _bisected(lambda epsilon: error(epsilon) <= target, grid[met], grid[met - 1])
    rounded = (rounded_up(epsilon, digits) for digits in DIGITS)
    return next((one for one in rounded if one <= high and error(one) <= target), epsilon)


def end_of_serving(error: Callable[[float], float], target: float, start: float, high: float) -> float:
    """Find the largest epsilon up to which the error meets the target without a gap, from a start that meets it."""
    if start >= high:
        return start
    grid = _grid(start, high)
    missed = next((i for i, epsilon in enumerate(grid) if i and error(epsilon) > target), None)
    if missed is None:
        return high
    epsilon = _bisected(lambda epsilon: error(epsilon) <= target, grid[missed - 1], grid[missed])
    return max(start, rounded_down(epsilon))


def min_in_range(error: Callable[[float], float], low: float, high: float) -> float:
    """Find the smallest error on a grid over the range of epsilon."""
    return min(error(epsilon) for epsilon in _grid(low, high))


def _grid(low: float, high: float) -> list[float]:
    """Space epsilons from one to the other, both included, by a ratio of at most `STEP`."""
    count = max(2, 1 + math.ceil(math.log(high / low) / math.log(STEP)))
    return [low, *np.geomspace(low, high, count)[1:-1].tolist(), high]


def _bisected(holds: Callable[[float], bool], met: float, missed: float) -> float:
    """Bisect between a value for which `holds` is true and one for which it is not; return one for which it is."""
    for _ in range(HALVINGS):
        middle = math.sqrt(met * missed)
        met, missed = (middle, missed) if holds(middle) else (met, middle)
    return met


def devices_needed(error: Callable[[float], float], target: float, devices: float) -> float:
    """How many devices would have the target error, of a number that has not."""
    high = devices
    while error(high) > target and high < 1e15:
        high *= 2
    return _bisected(lambda count: error(count) <= target, high, max(devices, high / 2)) if high > devices else high


def rounded_up(epsilon: float, digits: int = 3) -> float:
    """Round up to significant digits: an error that falls with epsilon stays met."""
    unit = 10.0 ** (math.floor(math.log10(epsilon)) + 1 - digits)
    return float(f"{math.ceil(epsilon / unit - 1e-9) * unit:.12g}")


def rounded_down(epsilon: float, digits: int = 3) -> float:
    """Round down to significant digits: exposure that grows with epsilon stays met."""
    unit = 10.0 ** (math.floor(math.log10(epsilon)) + 1 - digits)
    return float(f"{math.floor(epsilon / unit + 1e-9) * unit:.12g}")
