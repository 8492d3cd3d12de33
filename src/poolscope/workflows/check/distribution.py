"""Compare the distribution that a mechanism states with itself and with samples.

Where the output space is small, the stated likelihoods are enumerated: their worst-case ratio is the exact ε of
the statement. Samples are compared with the stated p* and q*, and with the stated likelihoods.

Likelihoods are stated up to a factor of the report, so they fix no frequencies; they fix how likely each object is to
have made each report. Objects are drawn uniformly. Of the reports that the stated likelihoods attribute to an object
with probability w, a share w must then be that object's. Given the reports, objects are independent, so that the count
in any set is a sum of independent trials with a known mean, whose tails are no heavier than the binomial's.

References
----------
W. Hoeffding. On the distribution of the number of successes in independent trials. Ann. Math. Statist. 27, 1956.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from poolscope.core.arrays import Floats
from poolscope.mechanisms.channel import exact_epsilon
from poolscope.mechanisms.protocols import Mechanism, PoolWeights, Reports, report_count
from poolscope.mechanisms.pure import (
    CELLS_LISTED,
    Pure,
    all_reports,
    in_chunks,
    scaled_likelihood,
    sum_over_reports,
)
from poolscope.mechanisms.sketch import Sketch
from poolscope.metrics.intervals import clopper_pearson
from poolscope.metrics.models import Real

#: Reports times objects up to which the linear program is solved.
CELLS_SOLVED = 1 << 19
#: Largest universe of which supports are held as a matrix.
DENSE_UNIVERSE = 1 << 14
#: Fewer objects, or pairs of them, may all lie on one side of a mean by chance of the hash functions.
MIN_OBJECTS, MIN_PAIRS = 10, 40
#: Confidence of all comparisons with the stated distribution and of all tests of independence, together: a correct
#: mechanism fails one of them once in a thousand checks. The two kinds share the error evenly.
DISTRIBUTION_CONFIDENCE = 0.999
#: Both sides of p* (twice), of q* and of the likelihoods, each of `obfuscate` and of `report`.
DISTRIBUTION_PARTS = 16.0
DISTRIBUTION_ERROR = (1.0 - DISTRIBUTION_CONFIDENCE) / 2.0 / DISTRIBUTION_PARTS


@dataclass(frozen=True, kw_only=True)
class ExactEpsilon:
    """The exact ε of the stated distribution, from every possible report.

    epsilon : log of the largest Pr[report | z] / Pr[report | z'].
    reports : how many there are.
    consistent : whether probabilities exist that match the stated likelihoods and p*; None where that was not computed.
    """

    epsilon: Real
    reports: int
    consistent: bool | None


@dataclass(frozen=True, kw_only=True)
class SupportProbabilityCheck:
    """A stated probability beside its sampled bounds; `passed` is None where samples cannot decide."""

    name: str
    stated: float
    low: float
    high: float
    passed: bool | None


def likelihoods(mechanism: Mechanism, reports: Reports, objects: Sequence[int]) -> Floats:
    """Return the stated Pr[report | z] of some objects, (reports, objects), up to a factor of the report.

    Computed from the masses of single objects: a custom mechanism may state these alone.
    """
    return mechanism.likelihood_offset + mechanism.likelihood_scale * _masses(mechanism, reports, objects)


def _masses(mechanism: Mechanism, reports: Reports, objects: Sequence[int]) -> Floats:
    """Return the mass of pools of one object each, (reports, objects)."""
    if isinstance(mechanism, Sketch):
        return mechanism.restricted(objects).support(reports).astype(np.float64)
    if is_pure(mechanism) and mechanism.universe <= DENSE_UNIVERSE:
        # the fast path of a sketch pays off with many reports to a hash function only
        support = mechanism.support  # type: ignore[attr-defined]
        parts = in_chunks(reports, mechanism.universe, CELLS_LISTED)
        return np.concatenate([support(part)[:, list(objects)] for part in parts]).astype(np.float64)
    columns = np.zeros((1, mechanism.universe), dtype=np.uint32)
    weights = np.zeros((1, mechanism.universe))
    columns[0, list(objects)] = np.arange(1, len(objects) + 1)
    weights[0, list(objects)] = 1.0
    return mechanism.mass(reports, PoolWeights(columns, weights, len(objects) + 1))[:, 1:]


def is_pure(mechanism: Any) -> bool:
    """Return whether the support determines the likelihood: one value inside, another outside."""
    if isinstance(mechanism, Pure):
        return True
    # a custom mechanism: supports, and no likelihood that contradicts them
    return hasattr(mechanism, "support") and (
        mechanism.likelihood_offset > 0 if states_distribution(mechanism) else True
    )


def states_distribution(mechanism: Mechanism) -> bool:
    """Return whether the mechanism states likelihoods; one that only samples can be checked as well."""
    return all(hasattr(mechanism, name) for name in ("mass", "likelihood_offset", "likelihood_scale"))


@dataclass(frozen=True, kw_only=True)
class ReportSample:
    """Reports, and the likelihoods that the mechanism states for them."""

    mechanism: Mechanism
    reports: Reports

    def log_likelihood(self, objects: Sequence[int]) -> Floats:
        """Return the stated log likelihood up to a constant of each report, (reports, objects)."""
        with np.errstate(divide="ignore"):
            return np.log(likelihoods(self.mechanism, self.reports, objects))


def exact(mechanism: Mechanism) -> ExactEpsilon | None:
    """Enumerate the stated distribution; None where the output space is too large or nothing is stated."""
    if not states_distribution(mechanism):
        return None
    reports = all_reports(mechanism, CELLS_LISTED // mechanism.universe)
    if reports is None:
        return None
    distribution = likelihoods(mechanism, reports, range(mechanism.universe))
    consistent = None
    if distribution.size <= CELLS_SOLVED:
        support = mechanism.support(reports) if is_pure(mechanism) else None  # type: ignore[attr-defined]
        consistent = normalizes(distribution, support, stated(mechanism, "p_star"))
    return ExactEpsilon(epsilon=exact_epsilon(distribution.T), reports=len(distribution), consistent=consistent)


def normalizes(distribution: Floats, support: NDArray[np.bool_] | None, p_star: float | None) -> bool:
    """Return whether the likelihoods can be probabilities: sum to one for every object, and to p* over its support.

    The likelihood of a report is stated up to a factor, so this is a linear program for factors that are not negative.
    """
    ones = np.ones(distribution.shape[1])
    equations, values = distribution.T, ones
    if support is not None and p_star is not None:
        equations = np.vstack([equations, (distribution * support).T])
        values = np.concatenate([ones, p_star * ones])
    found = optimize.linprog(np.zeros(len(distribution)), A_eq=equations, b_eq=values, bounds=(0, None), method="highs")
    return int(found.status) != 2


def stated(mechanism: Any, name: str) -> float | None:
    """Return a probability of the mechanism, where it states one."""
    value = getattr(mechanism, name, None)
    return None if value is None else float(value)


def support_shares(
    mechanism: Mechanism,
    objects: Sequence[int],
    trials: Sequence[int],
    counts: NDArray[np.int64],
    error: float = DISTRIBUTION_ERROR,
) -> tuple[SupportProbabilityCheck, ...]:
    """Compare p* and q* with the supports of sampled reports.

    Parameters
    ----------
    objects, trials : which objects, and how many reports of each.
    counts : (objects, universe) how many of the reports of each support every object of the universe.
    error : probability that one side of one bound is wrong, at most.

    Notes
    -----
    p* of a pure mechanism holds for each object and for all of them together. Other probabilities are means over the
    mechanism's public randomness (hash functions), around which objects and pairs of objects vary: a mean must lie
    between the lowest and the highest bound. A few objects may all lie on one side by chance; they decide nothing.
    """
    p, q = stated(mechanism, "p_star"), stated(mechanism, "q_star")
    if p is None or q is None:
        return ()
    n = np.asarray(trials, dtype=np.int64)
    own = counts[np.arange(len(objects)), list(objects)]
    pure = is_pure(mechanism)
    if pure:
        shares = [_constant_share("p*", p, own, n, error)]
    else:
        shares = [_mean_share("p*", p, own, own, n, len(own), MIN_OBJECTS, error)]
    if mechanism.universe > 1:
        others = counts.copy()
        others[np.arange(len(objects)), list(objects)] = others[np.arange(len(objects)), np.array(objects) - 1]
        lowest, highest = others.min(axis=1), others.max(axis=1)
        shares.append(_mean_share("q*", q, lowest, highest, n, others.size - len(objects), MIN_PAIRS, error))
    return tuple(shares)


def _constant_share(
    name: str, value: float, hits: NDArray[np.int64], trials: NDArray[np.int64], error: float
) -> SupportProbabilityCheck:
    """Bound a probability that is the same for all objects."""
    each = clopper_pearson(hits, trials, error / len(hits))
    low, high = (float(bound) for bound in clopper_pearson(int(hits.sum()), int(trials.sum()), error))
    passed = bool(low <= value <= high and np.all(each[0] <= value) and np.all(value <= each[1]))
    return SupportProbabilityCheck(name=name, stated=value, low=low, high=high, passed=passed)


def _mean_share(
    name: str,
    value: float,
    lowest: NDArray[np.int64],
    highest: NDArray[np.int64],
    trials: NDArray[np.int64],
    shares: int,
    min_shares: int,
    error: float,
) -> SupportProbabilityCheck:
    """Bound a probability that is a mean of many shares, from the smallest and largest count of each object."""
    low = float(clopper_pearson(lowest, trials, error / shares)[0].min())
    high = float(clopper_pearson(highest, trials, error / shares)[1].max())
    return SupportProbabilityCheck(
        name=name, stated=value, low=low, high=high, passed=low <= value <= high if shares >= min_shares else None
    )


#: Reports times objects for which supports are counted.
CELLS_COUNTED = 1 << 28


class SupportCounter:
    """Counts the objects that the reports of each tested object support, for a limited number of reports."""

    def __init__(self, mechanism: Any, objects: tuple[int, ...], error: float = DISTRIBUTION_ERROR) -> None:
        self.mechanism = mechanism
        self.objects = objects
        self.error = error
        self.known = all(stated(self.mechanism, name) is not None for name in ("p_star", "q_star"))
        self.most = CELLS_COUNTED // (self.mechanism.universe * len(self.objects))
        self.counts = np.zeros((len(self.objects), self.mechanism.universe if self.known else 0), dtype=np.int64)
        self.trials = np.zeros(len(self.objects), dtype=np.int64)

    def add(self, position: int, reports: Reports) -> None:
        """Add reports of the object at a position."""
        taken = min(report_count(reports), max(0, self.most - int(self.trials[position])))
        if self.known and taken:
            part = {name: column[:taken] for name, column in reports.items()}
            self.counts[position] += self._column_counts(part)
            self.trials[position] += taken

    def _column_counts(self, reports: Reports) -> NDArray[np.int64]:
        """Count the reports that support each object, (universe,); a custom mechanism may only have `support`."""
        if hasattr(self.mechanism, "support_counts"):
            counts: NDArray[np.int64] = self.mechanism.support_counts(reports)
            return counts
        return sum_over_reports(self.mechanism.support, reports, self.mechanism.universe)

    def shares(self) -> tuple[SupportProbabilityCheck, ...]:
        """Return p* and q* beside the counts."""
        if not self.known:
            return ()
        return support_shares(self.mechanism, self.objects, self.trials.tolist(), self.counts, self.error)


#: Edges of the bins of posterior probability.
EDGES = np.array([0.0, 0.001, 0.01, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97, 0.99, 0.999])
#: Rounding of a probability.
ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class LikelihoodFit:
    """The largest deviation of the samples from the stated likelihoods.

    object : whose reports; reports : how many have a mean posterior of `stated` for this object.
    low, high : bounds of the share that is this object's. passed : whether all such shares match.
    """

    object: int
    reports: int
    stated: float
    low: float
    high: float
    passed: bool


class FitCounter:
    """Counts, for reports of objects drawn uniformly, how many are of each object and how many are expected."""

    def __init__(self, mechanism: object, objects: tuple[int, ...], error: float = DISTRIBUTION_ERROR) -> None:
        self.objects = objects
        self.error = error
        self.known = states_distribution(mechanism) and len(objects) > 1  # type: ignore[arg-type]
        shape = len(objects), len(EDGES) + 1
        self.reports = np.zeros(shape, dtype=np.int64)
        self.hits = np.zeros(shape, dtype=np.int64)
        self.expected = np.zeros(shape)

    def add(self, position: int, seen: ReportSample) -> None:
        """Add reports of the object at a position."""
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

    def fit(self) -> LikelihoodFit | None:
        """Return the largest deviation; None where no likelihoods are stated."""
        if not self.known:
            return None
        taken = np.maximum(self.reports, 1)
        stated = self.expected / taken
        low, high = clopper_pearson(self.hits, taken, self.error / self.hits.size)
        # in standard deviations of the trials; an impossible report counts as a nearly impossible one
        apart = np.abs(self.hits - self.expected) / np.sqrt(np.maximum(self.expected * (1.0 - stated), ROUNDING))
        wrong = (self.reports > 0) & ((stated < low - ROUNDING) | (stated > high + ROUNDING))
        worst = np.unravel_index(int(np.where(wrong.any() & ~wrong, -1.0, apart).argmax()), apart.shape)
        return LikelihoodFit(
            object=self.objects[worst[0]],
            reports=int(self.reports[worst]),
            stated=float(stated[worst]),
            low=float(low[worst]),
            high=float(high[worst]),
            passed=not wrong.any(),
        )


def posterior(log_likelihood: Floats) -> Floats:
    """Return the posterior under a uniform prior, (reports, objects); zeros where no object can send the report."""
    likelihood = scaled_likelihood(log_likelihood)
    distribution: Floats = likelihood / np.maximum(likelihood.sum(axis=1, keepdims=True), 1.0)
    return distribution
