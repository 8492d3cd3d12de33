"""From reports to the popularity that the curator, or a curious one, learns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poolscope.base.arrays import Floats, Map, Objects
from poolscope.base.errors import InputError
from poolscope.base.randomness import children
from poolscope.mechanisms.role import Countable, Mechanism, Reports, countable, report_count
from poolscope.world.popularity import project_to_simplex

#: Reports that are made and counted together.
AT_ONCE = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Frequencies:
    """Estimated number of reports made from each object, its standard error, and the popularity that follows.

    counts and errors (universe,); reports is their number. Counts are unbiased and may be negative; the popularity is
    their Euclidean projection onto the simplex.
    """

    reports: int
    counts: Floats
    errors: Floats

    @property
    def popularity(self) -> Floats:
        return project_to_simplex(self.counts / self.reports)


def frequencies(mechanism: Mechanism, reports: Reports) -> Frequencies:
    """Frequency estimate from reports."""
    counted = countable(mechanism)
    return unbiased(counted, counted.score_sums(reports), report_count(reports))


def simulate_frequencies(
    mechanism: Mechanism, popularity: Floats, count: int, key: np.uint64, run: Map = map
) -> Frequencies:
    """The estimate from so many reports on objects drawn from the popularity."""
    counted = countable(mechanism)
    return unbiased(counted, counted.simulate_counts(popularity, count, key, run), count)


def frequencies_of_objects(mechanism: Mechanism, objects: Objects, key: np.uint64, run: Map = map) -> Frequencies:
    """The estimate from one report on each of these objects: obfuscated one by one, in parts."""
    counted = countable(mechanism)

    def part(start: int) -> np.ndarray:
        some = objects[start : start + AT_ONCE]
        keys = children(key, np.arange(start, start + len(some)))
        return counted.score_sums(counted.report(some, keys))

    counts = sum(run(part, range(0, len(objects), AT_ONCE)), np.zeros(counted.universe, dtype=np.int64))
    return unbiased(counted, counts, len(objects))


def unbiased(mechanism: Countable, sums: np.ndarray, count: int) -> Frequencies:
    r"""count(z) = (sum of the scores of z - N other) / (own - other), with the standard error at that count.

    own and other are the mean scores of a report for its object and for another one; of reports that support or not
    they are p* and q*, and

    .. math:: \mathrm{Var} = \frac{c\,p^*(1-p^*) + (N-c)\,q^*(1-q^*)}{(p^*-q^*)^2}

    where c is the true count, for which the estimate, kept within 0..N, stands in. Reports that share a hash function
    and a bucket are correlated; over the mechanism's hash functions that vanishes, and the tests measure what is left.
    """
    if count == 0:
        raise InputError("an estimate needs at least one report", value=0)
    own, other = mechanism.own_mean, mechanism.other_mean
    counts = (sums - count * other) / (own - other)
    variance = mechanism.noise(np.clip(counts, 0.0, count), count) / (own - other) ** 2
    return Frequencies(reports=count, counts=counts, errors=np.sqrt(variance))
