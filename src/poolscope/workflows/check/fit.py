"""Do the samples fit the likelihoods that a mechanism states?

Likelihoods are stated up to a factor of the report, so they tell no frequencies; they tell of each report how likely
each object is to have made it. Objects are drawn at random, all equally likely: then, of the reports that the stated
law gives to an object with probability w, a share w must be that object's. Given the reports, whose they are is decided
independently for each, so the number in any set of them is a sum of independent trials with a known mean, whose tails
are no heavier than the binomial's.

References
----------
W. Hoeffding. On the distribution of the number of successes in independent trials. Ann. Math. Statist. 27, 1956.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poolscope.core.arrays import Floats
from poolscope.mechanisms.pure import scaled_likelihood
from poolscope.metrics.intervals import clopper_pearson
from poolscope.workflows.check.distribution import LAW_ERROR, states_law
from poolscope.workflows.check.events import Seen

#: Reports are put together by the probability that they give to an object: none, up to each of these, and more.
EDGES = np.array([0.0, 0.001, 0.01, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97, 0.99, 0.999])
#: Rounding of a probability.
ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class Fit:
    """Stated likelihoods beside samples, where they are furthest apart.

    object : whose reports; reports : how many are told to be this object's with a probability of `stated` on average.
    low, high : bounds of the share that really is. kept : whether all such shares are as stated.
    """

    object: int
    reports: int
    stated: float
    low: float
    high: float
    passed: bool


class Fitting:
    """Counts, of reports of objects drawn at random, how many of each object there are and should be."""

    def __init__(self, mechanism: object, objects: tuple[int, ...]) -> None:
        self.objects = objects
        self.known = states_law(mechanism) and len(objects) > 1  # type: ignore[arg-type]
        shape = len(objects), len(EDGES) + 1
        self.reports = np.zeros(shape, dtype=np.int64)
        self.hits = np.zeros(shape, dtype=np.int64)
        self.expected = np.zeros(shape)

    def add(self, position: int, seen: Seen) -> None:
        """Reports of the object at a position."""
        if not self.known:
            return
        share = posterior(seen.log_likelihood(self.objects))
        at = np.searchsorted(EDGES, share)
        for p in range(len(self.objects)):
            bins = self.reports.shape[1]
            counts = np.bincount(at[:, p], minlength=bins)
            self.reports[p] += counts
            self.expected[p] += np.bincount(at[:, p], weights=share[:, p], minlength=bins)
            if p == position:
                self.hits[p] += counts

    def fit(self) -> Fit | None:
        """What is furthest from as stated; None where no law is."""
        if not self.known:
            return None
        some = np.maximum(self.reports, 1)
        stated = self.expected / some
        low, high = clopper_pearson(self.hits, some, LAW_ERROR / self.hits.size)
        # in standard deviations of the trials; an impossible report counts as one that nearly is
        apart = np.abs(self.hits - self.expected) / np.sqrt(np.maximum(self.expected * (1.0 - stated), ROUNDING))
        wrong = (self.reports > 0) & ((stated < low - ROUNDING) | (stated > high + ROUNDING))
        worst = np.unravel_index(int(np.where(wrong.any() & ~wrong, -1.0, apart).argmax()), apart.shape)
        return Fit(
            object=self.objects[worst[0]],
            reports=int(self.reports[worst]),
            stated=float(stated[worst]),
            low=float(low[worst]),
            high=float(high[worst]),
            passed=not wrong.any(),
        )


def posterior(log_likelihood: Floats) -> Floats:
    """(reports, objects) probability of each object if all are equally likely; zeros where none can send the report."""
    likelihood = scaled_likelihood(log_likelihood)
    distribution: Floats = likelihood / np.maximum(likelihood.sum(axis=1, keepdims=True), 1.0)
    return distribution
