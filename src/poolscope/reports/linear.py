r"""The linear estimate: from how many reports support an object, and how many would anyway.

.. math:: \hat c(z) = \frac{\sum_t [z \in \text{support}(t)] - N q^*}{p^* - q^*}

Given the true counts c, a report of y supports z with a probability P(z, y), which is p* for y = z and q* in the mean
over other y. Where hash functions are drawn once and for all, P(z, y) scatters around q* with a variance V, since two
objects meet in a bucket under more or fewer of the functions than they should: for J functions to m buckets the share
of the functions has the variance (1/m)(1 - 1/m) / J. By the law of total variance, over functions and reports,

.. math:: \mathrm{Var}\,\hat c(z) = \frac{c(z)\,p^*(1-p^*) + (N-c(z))\,q^*(1-q^*) + V \sum_{y \ne z} c(y) (c(y) - 1)}
          {(p^*-q^*)^2}

The last sum grows with N^2, the others with N: with few functions, or very many reports, collisions are what matters.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arrays import Floats
from poolscope.mechanisms.protocols import Countable, Rates
from poolscope.reports.frequencies import LINEAR, Frequencies, check_reports


def unbiased(mechanism: Countable, support: NDArray[np.integer], count: int) -> Frequencies:
    """The linear estimate, with the standard errors at the estimated counts, kept within 0..N."""
    check_reports(count)
    rates = mechanism.rates
    other: Floats = np.asarray(rates.other, dtype=np.float64)
    counts: Floats = (support - count * other) / (rates.own - other)
    c = np.clip(counts, 0.0, count)
    noise = _noise(mechanism, rates, c, count)
    variance = noise + _collisions(rates, c, count, _squares(rates, counts, noise, count))
    return Frequencies(reports=count, counts=counts, errors=np.sqrt(variance), method=LINEAR)


def variance_of_linear(mechanism: Countable, counts: Floats) -> tuple[Floats, Floats]:
    """The two parts of the variance at known counts, (universe,) both: noise, and collisions."""
    rates, count = mechanism.rates, float(np.sum(counts))
    return _noise(mechanism, rates, counts, count), _collisions(rates, counts, count, float(np.sum(np.square(counts))))


def _noise(mechanism: Countable, rates: Rates, c: Floats, count: float) -> Floats:
    return mechanism.noise(c, count) / (rates.own - rates.other) ** 2


def _collisions(rates: Rates, c: Floats, count: float, squares: float) -> Floats:
    pairs = np.maximum(squares - c**2 - (count - c), 0.0)
    return rates.variance * pairs / (rates.own - rates.other) ** 2


def _squares(rates: Rates, counts: Floats, noise: Floats, count: int) -> float:
    """The sum of squared counts. What noise and collisions add to the estimated squares is taken off.

    Collisions add their share of the sum itself to every object. It cannot be less than of equal counts, nor more than
    of a single object.
    """
    share = np.sum(np.broadcast_to(rates.variance / (rates.own - rates.other) ** 2, counts.shape))
    found = float(np.sum(counts**2 - noise) / (1.0 + share))
    return float(np.clip(found, count**2 / len(counts), count**2))
