"""Base classes of mechanisms: generic methods derived from a support, or from a likelihood.

The protocols (`protocols.Mechanism`, `protocols.FrequencyOracle`) define the interface; these classes implement most of
it. A *pure* mechanism has Pr[report | z] = c(report) * (1 + (e^epsilon - 1) [z in support(report)]): a report either
supports an object or it does not. A subclass of `Pure` defines its support, p* and q*. Attack, frequency estimate and
audit follow. A mechanism that is not pure defines its log-likelihood instead (`Likelihood`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arguments import as_integers
from poolscope.core.arrays import Floats, Integers, Keys, Map, Objects
from poolscope.core.errors import InputError
from poolscope.core.randomness import children, fresh_keys, generator
from poolscope.mechanisms.protocols import (
    FrequencyOracle,
    HasLikelihood,
    Mechanism,
    PoolWeights,
    ReportColumn,
    Reports,
    SupportProbabilities,
    check_epsilon,
    check_parameters,
    report_count,
    with_epsilon,
)
from poolscope.population.behavior import draw_objects

#: Cells of the matrix (reports, universe) that a generic method holds in memory.
CELLS_AT_ONCE = 1 << 24

#: Reports that are simulated and counted in one chunk.
REPORTS_AT_ONCE = 1 << 16

Counted = TypeVar("Counted")


class MechanismDefaults:
    """Generic methods derived from `report` and `mass`; reports have no shared column unless a subclass names one."""

    universe: int
    shared_column: str | None = None

    def __new__(cls, *args: Any, **parameters: Any) -> Self:
        """Check the types of parameters before `__post_init__` computes with them."""
        check_parameters(cls, parameters)
        return super().__new__(cls)

    def shared_by(self, keys: Keys) -> NDArray[np.integer] | None:
        return None

    def obfuscate(self: Mechanism, objects: Objects, rng: np.random.Generator) -> Reports:
        objects = as_integers("objects", objects)
        if objects.ndim != 1:
            raise InputError("objects must be one-dimensional", value=objects.shape)
        if not isinstance(rng, np.random.Generator):
            raise InputError("rng must be a generator", value=rng, remedy="numpy.random.default_rng(seed)")
        return self.report(objects, fresh_keys(rng, len(objects)))

    def sent_masses(
        self: Mechanism, objects: Objects, keys: Keys, pool_weights: PoolWeights, rows: Integers, out: Floats
    ) -> None:
        out[rows] = self.mass(self.report(objects, keys), pool_weights)


class ScoreOracle(ABC):
    """Frequency estimation from `scores`: their sums over given reports, and over simulated ones."""

    @property
    def binary_scores(self) -> bool:
        return False

    @property
    def rates(self: FrequencyOracle) -> SupportProbabilities:
        return SupportProbabilities(self.own_mean, self.other_mean, 0.0)

    @abstractmethod
    def scores(self, reports: Reports) -> NDArray[Any]:
        """Return (reports, universe) the score of each object by each report."""

    def score_sums(self: FrequencyOracle, reports: Reports) -> NDArray[Any]:
        return sum_over_reports(self.scores, reports, self.universe)

    def tally(self: FrequencyOracle, reports: Reports) -> NDArray[Any]:
        return self.score_sums(reports)[None]

    def simulate_counts(
        self: FrequencyOracle, popularity: Floats, count: int, key: np.uint64, threads: Map = map
    ) -> NDArray[Any]:
        return simulate_reports(self, self.score_sums, sum_arrays, popularity, count, key, threads)

    def simulate_tally(
        self: FrequencyOracle, popularity: Floats, count: int, key: np.uint64, threads: Map = map
    ) -> NDArray[Any]:
        return self.simulate_counts(popularity, count, key, threads)[None]

    def simulate_at(
        self: FrequencyOracle,
        epsilons: Sequence[float],
        popularity: Floats,
        count: int,
        key: np.uint64,
        threads: Map = map,
    ) -> NDArray[Any]:
        return np.array(
            [with_epsilon(self, epsilon).simulate_counts(popularity, count, key, threads) for epsilon in epsilons]
        )


class SupportOracle(ScoreOracle):
    """Frequency estimation from `support`, p* and q*: a report scores 1 for each object that it supports."""

    universe: int

    @property
    @abstractmethod
    def p_star(self) -> float:
        """Probability that a report supports the object it was made from."""

    @property
    @abstractmethod
    def q_star(self) -> float:
        """Probability that a report supports another object, also over the mechanism's public randomness."""

    @abstractmethod
    def support(self, reports: Reports) -> NDArray[np.bool_]:
        """Return (reports, universe) whether each report supports each object."""

    def support_counts(self, reports: Reports) -> NDArray[np.int64]:
        """Return (universe,) the number of reports that support each object."""
        return sum_over_reports(self.support, reports, self.universe)

    @property
    def own_mean(self) -> float:
        return self.p_star

    @property
    def other_mean(self) -> float:
        return self.q_star

    @property
    def binary_scores(self) -> bool:
        return True

    def score_sum_variance(self: FrequencyOracle, counts: Floats, reports: float) -> Floats:
        """Return the binomial variance of the support counts, at the rates of each object."""
        return binomial_noise(counts, reports, self.rates.p_star, self.rates.q_star)

    def scores(self, reports: Reports) -> NDArray[np.bool_]:
        return self.support(reports)

    def score_sums(self, reports: Reports) -> NDArray[np.int64]:
        return self.support_counts(reports)


def binomial_noise(counts: Floats, reports: float, own: float | Floats, other: float | Floats) -> Floats:
    """Return c p*(1-p*) + (N-c) q*(1-q*), the variance of the support count of an object with c of N reports."""
    noise: Floats = counts * own * (1.0 - own) + (reports - counts) * other * (1.0 - other)
    return noise


def sum_arrays(counted: Iterable[NDArray[Any]]) -> NDArray[Any]:
    """Sum the tallies of chunks of reports."""
    return reduce(np.add, counted)


def draw_object_counts(popularity: Floats, count: int, key: np.uint64) -> tuple[np.random.Generator, Integers]:
    """Draw (universe,) the number of reports of each object; return it with the generator for further draws."""
    rng = generator(key)
    return rng, rng.multinomial(count, np.asarray(popularity) / np.sum(popularity))


def simulate_reports(
    mechanism: Mechanism,
    count_reports: Callable[[Reports], Counted],
    join: Callable[[Iterable[Counted]], Counted],
    popularity: Floats,
    count: int,
    key: np.uint64,
    threads: Map = map,
) -> Counted:
    """Draw `count` objects from the popularity, obfuscate each, and count the reports in chunks."""

    def chunk(numbers: Integers) -> Counted:
        keys = children(key, numbers)
        return count_reports(mechanism.report(draw_objects(popularity, keys), children(keys, 1)))

    return join(threads(chunk, report_chunks(count)))


def report_chunks(count: int) -> Iterator[Integers]:
    """Yield the report indices 0 to `count` - 1 in chunks; one empty chunk where `count` is 0."""
    for start in range(0, max(1, count), REPORTS_AT_ONCE):
        yield np.arange(start, min(start + REPORTS_AT_ONCE, count))


def sum_over_reports(of: Callable[[Reports], NDArray[Any]], reports: Reports, universe: int) -> NDArray[Any]:
    """Return (universe,) the sum of `of`, (reports, universe), over the reports; computed in chunks."""
    chunks = in_chunks(reports, universe)
    return sum((of(chunk).sum(axis=0) for chunk in chunks), np.zeros(universe, dtype=np.int64))


def tabulate_over_reports(of: Callable[[Reports], Floats], reports: Reports, universe: int) -> Floats:
    """Return `of`, (reports, universe), for all reports; temporary arrays have the size of a chunk."""
    out, begin = np.empty((report_count(reports), universe)), 0
    for chunk in in_chunks(reports, universe):
        end = begin + report_count(chunk)
        out[begin:end] = of(chunk)
        begin = end
    return out


def in_chunks(reports: Reports, universe: int, cells: int | None = None) -> Iterator[Reports]:
    """Yield the reports in chunks, so that a matrix (reports, universe) has at most `cells` cells."""
    at_once = max(1, (CELLS_AT_ONCE if cells is None else cells) // universe)
    for start in range(0, report_count(reports), at_once):
        yield {name: column[start : start + at_once] for name, column in reports.items()}


class Pure(MechanismDefaults, SupportOracle):
    """A pure mechanism: generic methods derived from `support`, `p_star` and `q_star`; fast paths override them.

    Examples
    --------
    >>> isinstance(mechanism, ps.mechanisms.Pure)
    True
    >>> mechanism.support({"value": np.array([4])}).nonzero()[1]
    array([4])
    """

    epsilon: float

    @property
    def likelihood_offset(self) -> float:
        """e^-epsilon, the likelihood of an object outside the support relative to one inside."""
        return float(np.exp(-self.epsilon))

    @property
    def likelihood_scale(self) -> float:
        return float(-np.expm1(-self.epsilon))

    @property
    def support_prob_no_collision(self) -> float:
        """Probability that a report supports an object that never collides with the reported one.

        The default is the smallest value that p* and ε allow, with supports as disjoint as possible.
        """
        return (
            max(self.likelihood_offset * self.p_star, 1.0 - (1.0 - self.p_star) / self.likelihood_offset)
            if self.likelihood_offset
            else 0.0
        )

    def likelihood(self, reports: Reports) -> Floats:
        """Return (reports, universe) 1 inside the support of a report and `likelihood_offset` outside."""
        out: Floats = np.multiply(self.support(reports), self.likelihood_scale, dtype=np.float64)
        out += self.likelihood_offset
        return out

    def log_likelihood(self, reports: Reports) -> Floats:
        """Return (reports, universe) the log-likelihood; -inf outside the support where ε is infinite."""
        with np.errstate(divide="ignore"):
            return np.log(self.likelihood(reports))

    def log_base_measure(self, reports: Reports) -> Floats:
        """Return (reports,) log Pr[report | an object that it supports]; only memoizing devices need it."""
        raise missing_base_measure(self)

    def mass(self, reports: Reports, pool_weights: PoolWeights) -> Floats:
        """Return (reports, width) the popularity mass of each report's support in each column."""
        matrix = pool_weights.matrix()
        masses = [self.support(chunk) @ matrix for chunk in in_chunks(reports, self.universe)]
        return np.concatenate(masses) if masses else np.empty((0, pool_weights.width))


def missing_base_measure(mechanism: object) -> InputError:
    """Return the error of a memoized mechanism without `log_base_measure`."""
    rule = "must have a method `log_base_measure` where devices memoize: the constant that `log_likelihood` omits"
    return InputError(rule, value=type(mechanism).__name__, remedy="return zeros if it omits nothing")


def uniform_base_measure(reports: Reports, inside: float, supporting: int) -> Floats:
    """Return the base measure where `supporting` equally likely reports support an object, in total with `inside`."""
    return np.full(report_count(reports), math.log(inside) - math.log(supporting))


@dataclass(frozen=True, kw_only=True)
class BasicPureMechanism(Pure):
    """A pure mechanism whose only parameters are the size of the universe and ε."""

    universe: int
    epsilon: float

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)


#: Tolerance of the sum of a row of probabilities, for matrices stored in single precision; rows are normalized.
TOLERANCE = 1e-5

#: Cells (reports times objects) up to which an output space is enumerated.
CELLS_LISTED = 1 << 22


def all_reports(mechanism: Mechanism, max_reports: int) -> Reports | None:
    """Return every report of a mechanism with a small output space: its own `all_reports`, or all column values."""
    offered = getattr(mechanism, "all_reports", None)
    if offered is None:
        return enumerate_reports(declared_columns(mechanism), max_reports)
    reports = offered()
    return reports if reports is not None and report_count(reports) <= max_reports else None


def enumerate_reports(columns: Mapping[str, ReportColumn], max_reports: int) -> Reports | None:
    """Return every combination of column values; None where there are more than `max_reports`, or no columns."""
    counts = [column.count for column in columns.values()]
    known = [count for count in counts if count is not None]
    if not known or len(known) < len(counts) or math.prod(known) > max_reports:
        return None
    index = np.unravel_index(np.arange(math.prod(known)), known)
    return {name: column.values(i) for (name, column), i in zip(columns.items(), index, strict=True)}


def declared_columns(mechanism: Any) -> Mapping[str, ReportColumn]:
    """Return the declared report columns of a mechanism; empty where it declares none."""
    try:
        return getattr(mechanism, "report_columns", {})
    except InputError:
        return {}


def all_probabilities(mechanism: HasLikelihood) -> tuple[Reports, Floats] | None:
    """Return all reports and (reports, universe) their probabilities; None where the output space is large or unknown.

    A likelihood may omit a factor of each report. If it sums to 1 over all reports for every object, it omits none.
    """
    listed = all_reports(mechanism, CELLS_LISTED // mechanism.universe)
    if listed is None:
        return None
    with np.errstate(over="ignore"):
        found = np.exp(mechanism.log_likelihood(listed))
    return (listed, found) if np.all(np.abs(found.sum(axis=0) - 1.0) < TOLERANCE) else None


class Likelihood(MechanismDefaults, ABC):
    """Generic methods derived from `log_likelihood`: masses are likelihoods, scaled to a maximum of 1 over the objects.

    The scaling prevents overflow and underflow, and cancels in the posterior. There is no linear frequency estimate
    unless the mechanism also has supports, p* and q* (`SupportOracle`).

    Examples
    --------
    >>> issubclass(ps.mechanisms.Channel, ps.mechanisms.Likelihood)
    True
    """

    @property
    def likelihood_offset(self) -> float:
        return 0.0

    @property
    def likelihood_scale(self) -> float:
        return 1.0

    @abstractmethod
    def log_likelihood(self, reports: Reports) -> Floats:
        """Return (reports, universe) log Pr[report | z], up to a constant of each report; -inf is impossible."""

    def log_base_measure(self, reports: Reports) -> Floats:
        """Return (reports,) the omitted constant, which only memoizing devices need; zeros where nothing is omitted."""
        if not self.is_normalized:
            raise missing_base_measure(self)
        return np.zeros(report_count(reports))

    @cached_property
    def is_normalized(self) -> bool:
        """Whether `log_likelihood` omits nothing: the output space is small, and its probabilities sum to 1."""
        return all_probabilities(cast(HasLikelihood, self)) is not None

    def likelihood(self, reports: Reports) -> Floats:
        """Return (reports, universe) Pr[report | z] / max_z Pr[report | z]; zeros for an impossible report."""
        return scaled_likelihood(self.log_likelihood(reports))

    def mass(self, reports: Reports, pool_weights: PoolWeights) -> Floats:
        """Return (reports, width) Pr[report | pool] / max_z Pr[report | z]; zeros for an impossible report."""
        matrix = pool_weights.matrix()
        masses = [self.likelihood(chunk) @ matrix for chunk in in_chunks(reports, self.universe)]
        return np.concatenate(masses) if masses else np.empty((0, pool_weights.width))


def scaled_likelihood(log_likelihood: Floats) -> Floats:
    """Return exp(log_likelihood) with the maximum of every row scaled to 1; a row of -inf becomes zeros."""
    largest = log_likelihood.max(axis=1, keepdims=True)
    return np.exp(log_likelihood - np.where(np.isfinite(largest), largest, 0.0))
