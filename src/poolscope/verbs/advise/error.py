"""How well the curator learns under a choice, in closed form, and the smallest epsilon that serves."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from poolscope.base.arrays import Floats
from poolscope.mechanisms.role import Mechanism
from poolscope.reports.curator import closed_estimator
from poolscope.reports.utility import expected_of

#: Epsilons that are looked at first, and halvings after that: to 1e-5 of epsilon.
GRID, HALVINGS = 33, 20


@dataclass(frozen=True, kw_only=True)
class Errors:
    """Root mean squared and mean absolute error of a frequency, over objects."""

    rmse: float
    mae: float


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


def least_error(popularity: Floats, reports: float) -> float:
    """The error without any mechanism, which is that of so many draws from the popularity."""
    frequency = np.asarray(popularity, dtype=np.float64) / np.sum(popularity)
    return math.sqrt(float(np.mean(frequency * (1 - frequency))) / reports)


def smallest_serving(error: Callable[[float], float], target: float, low: float, high: float) -> float | None:
    """The smallest epsilon between both at which the error is the target or less; None where there is none.

    Of an error that does not fall everywhere, as with parameters that are whole numbers, the first such epsilon.
    """
    grid = np.geomspace(low, high, GRID)
    served = next((i for i, epsilon in enumerate(grid) if error(float(epsilon)) <= target), None)
    if served is None or served == 0:
        return None if served is None else low
    below, above = math.log(grid[served - 1]), math.log(grid[served])
    for _ in range(HALVINGS):
        middle = (below + above) / 2
        below, above = (below, middle) if error(math.exp(middle)) <= target else (middle, above)
    return math.exp(above)


def devices_needed(error: Callable[[float], float], target: float, devices: float) -> float:
    """How many devices would have the target error, of a number that has not."""
    low, high = devices, devices
    while error(high) > target and high < 1e15:
        low, high = high, 2 * high
    for _ in range(HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if error(middle) <= target else (middle, high)
    return high


def rounded_up(epsilon: float) -> float:
    """Three digits, never less: what serves still serves."""
    unit = 10.0 ** (math.floor(math.log10(epsilon)) - 2)
    return float(f"{math.ceil(epsilon / unit - 1e-9) * unit:.12g}")


def rounded_down(epsilon: float) -> float:
    """Three digits, never more: what exposes few still does."""
    unit = 10.0 ** (math.floor(math.log10(epsilon)) - 2)
    return float(f"{math.floor(epsilon / unit + 1e-9) * unit:.12g}")
