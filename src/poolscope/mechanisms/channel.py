"""Mechanisms with a small output space: the matrix of their probabilities, known or estimated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import InitVar, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poolscope.core.arguments import as_floats
from poolscope.core.arrays import Floats, Integers, Keys, Map, Objects
from poolscope.core.errors import InputError
from poolscope.core.randomness import generator
from poolscope.kernels.random import uniforms
from poolscope.mechanisms.hashing import check_range
from poolscope.mechanisms.protocols import (
    HasLikelihood,
    PoolWeights,
    ReportColumn,
    Reports,
    check_objects,
    derived_field,
    distinct,
    report_count,
    set_frozen,
)
from poolscope.mechanisms.pure import TOLERANCE, Likelihood, all_probabilities

#: Largest number of cells of a matrix: 1 GiB of probabilities.
MAX_CELLS = 1 << 27


@dataclass(frozen=True, kw_only=True, eq=False)
class Channel(Likelihood):
    r"""A mechanism given by its matrix: the report of z is y with probability ``matrix[z, y]``.

    .. math:: \epsilon = \max_y \log \frac{\max_z \Pr[y | z]}{\min_z \Pr[y | z]}

    over the reports that some object can send; it is infinite where one object can send what another cannot.

    Parameters
    ----------
    matrix : (objects, reports) probabilities; rows sum to 1. Stored as a read-only copy.

    Examples
    --------
    >>> channel = ps.mechanisms.Channel(universe=2, matrix=np.array([[0.75, 0.25], [0.25, 0.75]]))
    >>> round(channel.epsilon, 3)
    1.099
    """

    universe: int
    matrix: Floats = field(repr=False)
    epsilon: float = field(init=False)

    def __post_init__(self) -> None:
        shape = as_floats("matrix", self.matrix).shape
        if len(shape) != 2 or shape[0] != self.universe:
            raise InputError(f"must have a row for each of {self.universe} objects", value=shape, place="matrix")
        matrix = _checked(self.matrix)
        matrix /= matrix.sum(axis=1, keepdims=True)
        matrix.flags.writeable = False
        set_frozen(self, matrix=matrix, epsilon=exact_epsilon(matrix))

    @property
    def report_columns(self) -> dict[str, ReportColumn]:
        return {"report": ReportColumn("integer", self.matrix.shape[1])}

    def report(self, objects: Objects, keys: Keys) -> Reports:
        check_objects(objects, self.universe)
        draws = np.empty(len(objects))
        uniforms(keys, 0, draws)
        out = np.empty(len(objects), dtype=np.int64)
        order = np.argsort(objects, kind="stable")
        distinct, counts = np.unique(objects, return_counts=True)
        for z, end, count in zip(distinct, np.cumsum(counts), counts, strict=True):
            rows = order[end - count : end]
            cumulative = np.cumsum(self.matrix[z])
            # normalized, so that the last report with a positive probability ends at exactly 1
            out[rows] = np.searchsorted(cumulative / cumulative[-1], draws[rows], side="right")
        return {"report": out}

    def tally(self, reports: Reports) -> Integers:
        """Return (possible reports,) the histogram of the reports."""
        values = np.asarray(reports["report"])
        check_range("report", values, self.matrix.shape[1])
        return np.bincount(values, minlength=self.matrix.shape[1]).astype(np.int64)

    def simulate_tally(self, popularity: Floats, count: int, key: np.uint64, threads: Map = map) -> Integers:
        """Draw the histogram, which is multinomial."""
        probability = np.asarray(popularity, dtype=np.float64) @ self.matrix
        return generator(key).multinomial(count, probability / probability.sum()).astype(np.int64)

    def log_base_measure(self, reports: Reports) -> Floats:
        """Return (reports,) zeros: `log_likelihood` omits nothing."""
        return np.zeros(len(reports["report"]))

    def log_likelihood(self, reports: Reports) -> Floats:
        """Return (reports, universe) the exact log-probabilities."""
        with np.errstate(divide="ignore"):
            return np.log(self.matrix[:, np.asarray(reports["report"])].T)

    def mass(self, reports: Reports, pool_weights: PoolWeights) -> Floats:
        """Compute the masses by one matrix product over the distinct reports."""
        seen, which = np.unique(np.asarray(reports["report"]), return_inverse=True)
        columns = self.matrix[:, seen]
        largest = columns.max(axis=0, initial=0.0)
        return ((columns / np.where(largest > 0, largest, 1.0)).T @ pool_weights.matrix())[which]


@dataclass(frozen=True, kw_only=True, eq=False)
class Empirical(Channel):
    r"""A channel estimated from samples of (object, report) pairs.

    With c(z, y) samples of a pair and a Dirichlet prior of `smoothing` per cell, the rows of the matrix have the
    posterior Dirichlet(c(z, .) + smoothing); `matrix` is its mean and `errors` its standard deviation.

    .. math:: \hat p(y | z) = \frac{c(z, y) + a}{c(z, \cdot) + a R}, \qquad
              \sigma^2 = \frac{\hat p (1 - \hat p)}{c(z, \cdot) + a R + 1}

    for R reports. The default a = 1/2 is Jeffreys' prior. With far more possible reports than samples of an object, use
    1/R, which adds the weight of one sample in total. Without smoothing, a report that was never seen from an object is
    impossible, and ε is infinite.

    Parameters
    ----------
    samples : (samples, 2) object and report of each sample, both from 0; stored as `counts`, (objects, reports).
    smoothing : a, added to the count of every pair.
    reports : R; default: the largest report seen, plus 1.

    Examples
    --------
    >>> pairs = np.array([[0, 0]] * 75 + [[0, 1]] * 25 + [[1, 1]] * 100)
    >>> ps.mechanisms.Empirical(universe=2, samples=pairs).matrix.round(2)
    array([[0.75, 0.25],
           [0.  , 1.  ]])
    """

    matrix: Floats = field(init=False, repr=False)
    samples: InitVar[NDArray[np.integer]]
    smoothing: float = 0.5
    reports: int = derived_field()
    counts: NDArray[np.int64] = field(init=False, repr=False)

    def __post_init__(self, samples: NDArray[np.integer]) -> None:
        if not (0.0 <= self.smoothing < np.inf):
            raise InputError("must be a finite number, at least 0", value=self.smoothing, place="smoothing")
        counts = count_pairs(samples, self.universe, self.reports)
        unseen = np.flatnonzero(counts.sum(axis=1) == 0)
        if self.smoothing == 0 and len(unseen):
            rule = f"must have a sample of every object, object {unseen[0]} has none"
            raise InputError(rule, place="samples", remedy="or set a smoothing above 0")
        matrix = counts + self.smoothing
        set_frozen(self, counts=counts, reports=counts.shape[1], matrix=matrix / matrix.sum(axis=1, keepdims=True))
        super().__post_init__()

    @property
    def errors(self) -> Floats:
        """Standard error of each entry of `matrix`, (objects, reports)."""
        weight = self.counts.sum(axis=1, keepdims=True) + self.smoothing * self.counts.shape[1]
        errors: Floats = np.sqrt(self.matrix * (1.0 - self.matrix) / (weight + 1.0))
        return errors

    def replicas(self, count: int, rng: np.random.Generator) -> Iterator[Channel]:
        """Draw channels from the posterior given the samples: the Bayesian bootstrap, smoothed.

        References
        ----------
        D. B. Rubin. The Bayesian bootstrap. Annals of Statistics 9, 1981.
        """
        for _ in range(count):
            draws = rng.standard_gamma(self.counts + self.smoothing)
            # with tiny shape parameters a whole row can underflow: then one report gets all of its probability
            lost = np.flatnonzero(draws.sum(axis=1) == 0.0)
            for z in lost:
                draws[z, rng.choice(len(draws[z]), p=self.matrix[z])] = 1.0
            yield Channel(universe=self.universe, matrix=draws / draws.sum(axis=1, keepdims=True))

    def bootstrap(self, of: Callable[[Channel], ArrayLike], count: int, rng: np.random.Generator) -> Floats:
        """Return (count, ...) the values of a function of the channel on `count` replicas.

        ``channel.bootstrap(lambda c: ps.posterior(c, reports, adversary), 200, rng)`` shows the uncertainty of a user's
        posterior due to the estimated channel; ``channel.bootstrap(lambda c: c.epsilon, 200, rng)`` that of ε.
        """
        return np.stack([np.asarray(of(replica), dtype=np.float64) for replica in self.replicas(count, rng)])


def count_pairs(samples: NDArray[np.integer], universe: int, reports: int | None) -> NDArray[np.int64]:
    """Return (objects, reports) the number of samples of each pair."""
    pairs = np.asarray(samples)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not len(pairs) or pairs.dtype.kind not in "iu" or pairs.min() < 0:
        raise InputError("must be pairs of an object and a report, numbered from 0", value=pairs.shape, place="samples")
    check_objects(pairs[:, 0], universe)
    largest = int(pairs[:, 1].max()) + 1
    size = largest if reports is None else reports
    if size < largest:
        raise InputError(f"must be at least the {largest} that were seen", value=size, place="reports")
    check_cells(universe, size)
    return np.bincount(pairs[:, 0] * size + pairs[:, 1], minlength=universe * size).reshape(universe, size)


def exact_epsilon(matrix: Floats) -> float:
    """Return the largest log-ratio of two entries of one column; infinite where only one of them is 0."""
    high, low = matrix.max(axis=0), matrix.min(axis=0)
    possible = high != 0
    if np.any(low[possible] == 0):
        return float(np.inf)
    return float(np.max(np.log(high[possible]) - np.log(low[possible]), initial=0.0))


def check_cells(objects: int, reports: int) -> None:
    """Check that a matrix of this shape fits into memory."""
    if objects * reports > MAX_CELLS:
        rule = f"a channel must have at most {MAX_CELLS} cells (objects times reports)"
        raise InputError(rule, value=objects * reports)


def _checked(matrix: NDArray[Any]) -> Floats:
    """Return a checked copy in double precision."""
    if np.ndim(matrix) != 2 or 0 in np.shape(matrix) or np.asarray(matrix).dtype.kind not in "fiu":
        raise InputError("must be numbers (objects, reports)", value=np.shape(matrix), place="matrix")
    check_cells(*matrix.shape)
    copy = np.array(matrix, dtype=np.float64)
    wrong = ~((copy >= 0) & (copy < np.inf))
    if wrong.any():
        z, y = np.argwhere(wrong)[0]
        rule = f"probabilities must be finite and not negative, object {z} and report {y}"
        raise InputError(rule, value=copy[z, y], place="matrix")
    sums = copy.sum(axis=1)
    off = np.flatnonzero(np.abs(sums - 1.0) > TOLERANCE)
    if len(off):
        raise InputError(f"rows must sum to one, object {off[0]}", value=sums[off[0]], place="matrix")
    return copy


@dataclass(frozen=True, kw_only=True, eq=False)
class ListedChannel(Channel):
    """A channel over the enumerated reports of another mechanism; a report's number is its position in `listed`."""

    listed: Reports = field(repr=False)

    def tally(self, reports: Reports) -> Integers:
        return super().tally({"report": self.numbers(reports)})

    def numbers(self, reports: Reports) -> Integers:
        """Return (reports,) the position of each report in `listed`."""
        known = report_count(self.listed)
        together = {
            name: np.concatenate([column, np.asarray(reports[name], dtype=column.dtype)])
            for name, column in self.listed.items()
        }
        first, which = distinct(together)
        numbers: Integers = first[which[known:]]
        if np.any(numbers >= known):
            raise InputError("must be among all reports that the mechanism lists", place="reports")
        return numbers


def as_channel(mechanism: HasLikelihood) -> ListedChannel | None:
    """Return the mechanism as a channel if its output space is small and its probabilities are known; else None."""
    listed = all_probabilities(mechanism)
    return None if listed is None else ListedChannel(universe=mechanism.universe, matrix=listed[1].T, listed=listed[0])
