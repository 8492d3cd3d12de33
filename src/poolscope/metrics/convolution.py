"""Sums of many independent copies of a discrete variable, bounded from above, tails included.

A variable has finitely many values and their masses; the remaining mass is at zero. The distribution of the sum is
computed on a lattice by one Fourier transform, after exponential tilting: under the tilted distribution the sum is
centered where the answer is decided, so the answer keeps its relative precision however unlikely it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy
from scipy import special

from poolscope.core.arrays import Floats, Integers

LENGTH = 1 << 17
"""Points of the lattice at most, unless the largest value were less than a step."""

FINEST = 64
"""Steps of the lattice to the largest value at most."""

NEGLIGIBLE = 46.0
"""Of the tilted sums that are not zero, a share of e^-46 = 1e-20 is bounded instead of computed."""

ROUNDING = 1e-9
"""Relative error of floating point, by far: the result is larger by it."""

RARE = 1e-5
"""Expected number of positive copies below which the positive part is bounded by the sum of theirs."""

LARGEST_EXPONENT = 600.0
"""Largest exponent of an exponential tilt, as e^710 is infinite."""


class TiltedRange(NamedTuple):
    """Where nearly all of the tilted sum is.

    tilt : the exponent theta; the tilted distribution has the density e^(theta x - count log_mgf(theta)).
    center : mean of the tilted sum; below, above : how far it goes on each side, but for a negligible tail.
    tail : probability of that tail; decay : rate at which it falls on the upper side.
    """

    tilt: float
    center: float
    below: float
    above: float
    tail: float
    decay: float


def mean_positive_part(values: Floats, masses: Floats, count: int, *, length: int = LENGTH) -> float:
    """Return an upper bound on E[max(X_1 + ... + X_count, 0)].

    Each value is split between its two neighbors on the lattice so that its mean stays. That is a dilation, which no
    convex function of the sum takes for less.
    """
    possible = (masses > 0) & (values != 0)
    values, masses = values[possible], masses[possible]
    positive = values > 0
    if not positive.any():
        return 0.0
    # further down than all the others can ever make up for counts as that far: this cannot lower the sum
    highest = _reach(values[positive], masses[positive], count, 0.0, 2 * _negligible(masses[positive], count))[0]
    values = np.maximum(values, -highest)
    span = _tilted_range(values, masses, count, 0.0)
    if count * float((masses * np.exp(span.tilt * values))[positive].sum()) < RARE:
        # where even the tilted sum is hardly ever positive, there is at most one positive copy
        return count * float((masses * values)[positive].sum())
    top = float(values.max())
    steps_to_top = max(1, min(FINEST, int(length * top / (span.below + span.above))))
    step = top / steps_to_top
    positions = values / step
    lower = np.floor(positions)
    upper = positions - lower
    steps = np.concatenate([lower, lower + 1]).astype(np.int64)
    weights = np.concatenate([masses * (1 - upper), masses * upper])
    return mean_excess(steps, weights, count, step, 0.0, lambda excess: excess)


def mean_excess(
    steps: Integers, weights: Floats, count: int, step: float, limit: float, gain: Callable[[Floats], Floats]
) -> float:
    """Return an upper bound on E[gain(S - limit)] for the sum S of `count` copies of step * (steps with these weights).

    gain(x) is nonnegative, nondecreasing, at most x where x is positive, and not called below.
    """
    possible = (weights > 0) & (steps != 0)
    steps, weights = steps[possible], weights[possible]
    values: Floats = steps.astype(np.float64) * step
    if count * values.max(initial=0.0) <= limit:
        return 0.0
    span = _tilted_range(values, weights, count, limit)
    first = math.floor(max(limit, span.center - span.below) / step) + 1
    last = math.ceil((span.center + span.above) / step)
    length = scipy.fft.next_fast_len(math.ceil((span.below + span.above) / step) + 4, real=True)
    tilted = np.exp(span.tilt * values)
    mass = _power(steps, weights * tilted / (1 + (weights * (tilted - 1)).sum()), count, length)
    positions = np.arange(first, last + 1)
    excess: Floats = positions.astype(np.float64) * step - limit
    found = float((mass[positions % length] * np.exp(-span.tilt * excess) * gain(excess)).sum())
    # two tails: what is below the window, and what is above it and decays
    beyond = max(span.center + span.above - limit, 0.0) + 1 / span.decay
    scale = count * float(_log_mgf(values, weights, span.tilt)) - span.tilt * limit
    return (found + 2 * beyond * span.tail) * math.exp(scale) * (1 + ROUNDING)


def _power(steps: Integers, weights: Floats, count: int, length: int) -> Floats:
    """(length,) distribution of the sum of `count` copies, modulo the length: wrapping around only adds to a place.

    The characteristic function is taken as its distance from one, so that its logarithm is exact where it is near one.
    """
    frequency = np.arange(length // 2 + 1)
    real, imaginary = np.zeros(len(frequency)), np.zeros(len(frequency))
    for place, weight in zip(steps.tolist(), weights.tolist(), strict=True):
        half = np.pi / length * (place * frequency % length)
        sine = np.sin(half)
        real -= 2 * weight * sine * sine
        imaginary -= 2 * weight * sine * np.cos(half)
    near = real > -0.5
    log_size = np.full(len(frequency), -np.inf)
    np.log1p(2 * real + real * real + imaginary * imaginary, out=log_size, where=near)
    size = np.hypot(1 + real, imaginary)
    np.log(size * size, out=log_size, where=~near & (size > 0))
    angle = np.arctan2(imaginary, 1 + real)
    found: Floats = scipy.fft.irfft(np.exp(0.5 * count * log_size) * np.exp(1j * count * angle), length)
    return np.maximum(found, 0.0)


def _tilted_range(values: Floats, masses: Floats, count: int, limit: float) -> TiltedRange:
    """The tilt that centers the sum at the limit, or none where it is centered above, and where the sum then is."""
    mean = limit / count

    def lacks(tilt: float) -> float:
        return float((masses * np.exp(tilt * (values - top)) * (values - mean)).sum() - rest * np.exp(-tilt * top))

    top, rest = float(values.max()), (1 - float(masses.sum())) * mean
    tilt, highest = 0.0, LARGEST_EXPONENT / top
    if lacks(0.0) < 0:
        tilt = highest if lacks(highest) <= 0 else float(scipy.optimize.brentq(lacks, 0.0, highest, rtol=1e-12))
    tilted = masses * np.exp(tilt * values)
    tilted /= 1 + (masses * np.expm1(tilt * values)).sum()
    center = count * float((tilted * values).sum())
    negligible = _negligible(tilted, count)
    above, decay = _reach(values, tilted, count, center, negligible)
    below, _ = _reach(-values, tilted, count, -center, negligible)
    return TiltedRange(tilt, center, below, above, math.exp(-negligible), decay)


def _negligible(masses: Floats, count: int) -> float:
    """Minus the logarithm of a probability that is negligible beside that of a sum other than zero."""
    return NEGLIGIBLE - math.log(min(1.0, count * float(masses.sum())))


def _reach(values: Floats, masses: Floats, count: int, center: float, negligible: float) -> tuple[float, float]:
    """How far above the center a sum can be, but for a tail of e^-negligible, and how fast that tail falls; Chernoff.

    Of all rates of decay one is chosen, and every rate gives a bound.
    """
    size = float(np.abs(values).max())
    deviation = math.sqrt(count * float((masses * values * values).sum()))
    rates = np.geomspace(1e-2 / max(deviation, size), LARGEST_EXPONENT / size, 400)
    reach = (count * _log_mgf(values, masses, rates[:, None]) + negligible) / rates - center
    best = int(reach.argmin())
    return min(float(reach[best]), count * max(float(values.max()), 0.0) - center), float(rates[best])


def _log_mgf(values: Floats, masses: Floats, rate: float | Floats) -> Floats:
    """log E[e^(rate X)], exact where it is near zero, and where nearly all of the mean is lost."""
    change = (masses * np.expm1(rate * values)).sum(axis=-1)
    rest = max(1 - float(masses.sum()), 0.0)
    with np.errstate(divide="ignore"):
        far = np.logaddexp(special.logsumexp(rate * values, b=masses, axis=-1), np.log(rest))
    found: Floats = np.where(change > -0.5, np.log1p(np.maximum(change, -0.5)), far)
    return found
