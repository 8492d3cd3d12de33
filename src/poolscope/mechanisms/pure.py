"""What every mechanism of ours has without stating it: it follows from what the mechanism does state.

A protocol (`protocols.Mechanism`, `protocols.FrequencyOracle`) says what there must be; these classes fill in the rest.
A *pure* mechanism has Pr[report | z] = c(report) * (1 + (e^epsilon - 1) [z in support(report)]): a report either
supports an object or it does not. It states its support and its two probabilities; attack, frequency estimate and
audit follow from here for all of them. Mechanisms that are not pure state the likelihood of a report itself.
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
    Rates,
    ReportColumn,
    Reports,
    check_epsilon,
    check_parameters,
    report_count,
    with_epsilon,
)
from poolscope.population.behavior import draw_objects

#: CellMoments of the matrix (reports, universe) that a general method holds at once.
CELLS_AT_ONCE = 1 << 24

#: Reports that are made and counted together.
REPORTS_AT_ONCE = 1 << 16

Counted = TypeVar("Counted")


class MechanismDefaults:
    """All that follows from `report` and `mass`; reports stand alone unless the mechanism says what they share."""

    universe: int
    shared_column: str | None = None

    def __new__(cls, *args: Any, **parameters: Any) -> Self:
        """Check the types of parameters first: `__post_init__` of any mechanism computes with them."""
        check_parameters(cls, parameters)
        return super().__new__(cls)

    def shared_by(self, keys: Keys) -> NDArray[np.integer] | None:
        return None

    def obfuscate(self: Mechanism, objects: Objects, rng: np.random.Generator) -> Reports:
        objects = as_integers("objects", objects)
        if objects.ndim != 1:
            raise InputError("objects must be a list", value=objects.shape)
        if not isinstance(rng, np.random.Generator):
            raise InputError("rng must be a generator", value=rng, remedy="numpy.random.default_rng(seed)")
        return self.report(objects, fresh_keys(rng, len(objects)))

    def sent_masses(
        self: Mechanism, objects: Objects, keys: Keys, views: PoolWeights, positions: Integers, out: Floats
    ) -> None:
        out[positions] = self.mass(self.report(objects, keys), views)


class ScoreOracle(ABC):
    """All that follows from `scores`: their sums, over given reports and over simulated ones."""

    @property
    def binary_scores(self) -> bool:
        return False

    @property
    def rates(self: FrequencyOracle) -> Rates:
        return Rates(self.own_mean, self.other_mean, 0.0)

    @abstractmethod
    def scores(self, reports: Reports) -> NDArray[Any]:
        """(reports, universe) the score of each object by each report."""

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
    """All that follows from `support`, p* and q*: reports score one for what they support."""

    universe: int

    @property
    @abstractmethod
    def p_star(self) -> float:
        """Probability that a report supports the object it was made from."""

    @property
    @abstractmethod
    def q_star(self) -> float:
        """Probability that a report supports another object, over the mechanism's public randomness as well."""

    @abstractmethod
    def support(self, reports: Reports) -> NDArray[np.bool_]:
        """(reports, universe) whether each report supports each object."""

    def support_counts(self, reports: Reports) -> NDArray[np.int64]:
        """(universe,) how many reports support each object."""
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

    def noise(self: FrequencyOracle, counts: Floats, reports: float) -> Floats:
        """That of a binomial number, at the rates of each object where these differ."""
        return binomial_noise(counts, reports, self.rates.own, self.rates.other)

    def scores(self, reports: Reports) -> NDArray[np.bool_]:
        return self.support(reports)

    def score_sums(self, reports: Reports) -> NDArray[np.int64]:
        return self.support_counts(reports)


def binomial_noise(counts: Floats, reports: float, own: float | Floats, other: float | Floats) -> Floats:
    """c p*(1-p*) + (N-c) q*(1-q*) for c of N reports: the variance of how many of them support an object."""
    noise: Floats = counts * own * (1.0 - own) + (reports - counts) * other * (1.0 - other)
    return noise


def sum_arrays(counted: Iterable[NDArray[Any]]) -> NDArray[Any]:
    """What was counted in parts of the reports, taken together."""
    return reduce(np.add, counted)


def draw_object_counts(popularity: Floats, count: int, key: np.uint64) -> tuple[np.random.Generator, Integers]:
    """What a closed law goes on drawing from, and (universe,) how many of so many reports are of each object."""
    rng = generator(key)
    return rng, rng.multinomial(count, np.asarray(popularity) / np.sum(popularity))


def simulate_reports(
    mechanism: Mechanism,
    counted: Callable[[Reports], Counted],
    join: Callable[[Iterable[Counted]], Counted],
    popularity: Floats,
    count: int,
    key: np.uint64,
    threads: Map = map,
) -> Counted:
    """What is counted in so many reports on objects drawn from the popularity: made one by one, joined part by part."""

    def part(numbers: Integers) -> Counted:
        keys = children(key, numbers)
        return counted(mechanism.report(draw_objects(popularity, keys), children(keys, 1)))

    return join(threads(part, report_chunks(count)))


def report_chunks(count: int) -> Iterator[Integers]:
    """The numbers of so many reports, in parts that are made at once; one part without any where there are none."""
    for start in range(0, max(1, count), REPORTS_AT_ONCE):
        yield np.arange(start, min(start + REPORTS_AT_ONCE, count))


def sum_over_reports(of: Callable[[Reports], NDArray[Any]], reports: Reports, universe: int) -> NDArray[Any]:
    """(universe,) the sums over the reports of what there is of each and every object, (reports, universe)."""
    parts = in_chunks(reports, universe)
    return sum((of(part).sum(axis=0) for part in parts), np.zeros(universe, dtype=np.int64))


def tabulate_over_reports(of: Callable[[Reports], Floats], reports: Reports, universe: int) -> Floats:
    """(reports, universe) what there is of every report and object: made in parts, so that this alone is held whole."""
    out, begin = np.empty((report_count(reports), universe)), 0
    for part in in_chunks(reports, universe):
        end = begin + report_count(part)
        out[begin:end] = of(part)
        begin = end
    return out


def in_chunks(reports: Reports, universe: int, cells: int | None = None) -> Iterator[Reports]:
    """The reports, so many at once that a matrix of so many cells, with a column for each object, is held."""
    at_once = max(1, (CELLS_AT_ONCE if cells is None else cells) // universe)
    for start in range(0, report_count(reports), at_once):
        yield {name: column[start : start + at_once] for name, column in reports.items()}


class Pure(MechanismDefaults, SupportOracle):
    """All that follows from `support`, `p_star` and `q_star`; fast paths override the general methods.

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
        """Likelihood of an object outside the support, where one inside has likelihood one: e^-epsilon."""
        return float(np.exp(-self.epsilon))

    @property
    def likelihood_scale(self) -> float:
        return float(-np.expm1(-self.epsilon))

    @property
    def support_prob_no_collision(self) -> float:
        """Probability that a report supports an object that never collides with the reported one.

        Where a mechanism does not say, it is the least there can be: supports are disjoint, or one of them holds.
        """
        return (
            max(self.likelihood_offset * self.p_star, 1.0 - (1.0 - self.p_star) / self.likelihood_offset)
            if self.likelihood_offset
            else 0.0
        )

    def likelihood(self, reports: Reports) -> Floats:
        """(reports, universe) one inside the support of a report, `likelihood_offset` outside."""
        out: Floats = np.multiply(self.support(reports), self.likelihood_scale, dtype=np.float64)
        out += self.likelihood_offset
        return out

    def log_likelihood(self, reports: Reports) -> Floats:
        """(reports, universe) its natural logarithm; -inf outside the support where epsilon is infinite."""
        with np.errstate(divide="ignore"):
            return np.log(self.likelihood(reports))

    def log_base_measure(self, reports: Reports) -> Floats:
        """(reports,) log Pr[report | an object that it supports]; only devices that memoize need it."""
        raise missing_base_measure(self)

    def mass(self, reports: Reports, views: PoolWeights) -> Floats:
        """Popularity mass of each report's support in each column."""
        matrix = views.matrix()
        parts = [self.support(part) @ matrix for part in in_chunks(reports, self.universe)]
        return np.concatenate(parts) if parts else np.empty((0, views.width))


def missing_base_measure(mechanism: object) -> InputError:
    """Without a base measure nobody knows how often two objects have one response by chance."""
    rule = "must have a method `log_base_measure` where devices memoize: what `log_likelihood` leaves out"
    return InputError(rule, value=type(mechanism).__name__, remedy="zeros if it leaves out nothing")


def uniform_base_measure(reports: Reports, inside: float, supporting: int) -> Floats:
    """The base measure where `supporting` reports support an object, all as likely, and one is sent with `inside`."""
    return np.full(report_count(reports), math.log(inside) - math.log(supporting))


@dataclass(frozen=True, kw_only=True)
class Sized(Pure):
    """A pure mechanism that needs to know no more of the universe than its size."""

    universe: int
    epsilon: float

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)


#: How far from one a row may sum: what single precision leaves of a long row. Rows are rescaled to one.
TOLERANCE = 1e-5

#: Reports times objects that are listed.
CELLS_LISTED = 1 << 22


def all_reports(mechanism: Mechanism, most: int) -> Reports | None:
    """Every report of a mechanism, if they are few: what its `all_reports` offers, else all values of its columns."""
    offered = getattr(mechanism, "all_reports", None)
    if offered is None:
        return enumerate_reports(declared_columns(mechanism), most)
    reports = offered()
    return reports if reports is not None and report_count(reports) <= most else None


def enumerate_reports(columns: Mapping[str, ReportColumn], most: int) -> Reports | None:
    """Every report that columns can hold; None where there are more than so many, or no columns."""
    counts = [column.count for column in columns.values()]
    known = [count for count in counts if count is not None]
    if not known or len(known) < len(counts) or math.prod(known) > most:
        return None
    index = np.unravel_index(np.arange(math.prod(known)), known)
    return {name: column.values(i) for (name, column), i in zip(columns.items(), index, strict=True)}


def declared_columns(mechanism: Any) -> Mapping[str, ReportColumn]:
    """What the mechanism says of its report columns; nothing where it is silent."""
    try:
        return getattr(mechanism, "report_columns", {})
    except InputError:
        return {}


def all_probabilities(mechanism: HasLikelihood) -> tuple[Reports, Floats] | None:
    """All reports, and (reports, universe) their probabilities; None where they are many or not known.

    Likelihoods may lack a factor of each report; those that sum to one for every object lack none.
    """
    listed = all_reports(mechanism, CELLS_LISTED // mechanism.universe)
    if listed is None:
        return None
    with np.errstate(over="ignore"):
        found = np.exp(mechanism.log_likelihood(listed))
    return (listed, found) if np.all(np.abs(found.sum(axis=0) - 1.0) < TOLERANCE) else None


class Likelihood(MechanismDefaults, ABC):
    """All that follows from `log_likelihood`: masses are likelihoods, each report's largest over objects being one.

    The largest is one, so that nothing over- or underflows; what is common to a report cancels in the posterior.
    There is no frequency estimate unless a mechanism states supports, p* and q* as well (`SupportOracle`).

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
        """(reports, universe) natural logarithm of Pr[report | z], up to a constant of the report; -inf: impossible."""

    def log_base_measure(self, reports: Reports) -> Floats:
        """(reports,) that constant, which only devices that memoize need: zeros where probabilities sum to one."""
        if not self.is_normalized:
            raise missing_base_measure(self)
        return np.zeros(report_count(reports))

    @cached_property
    def is_normalized(self) -> bool:
        """Whether `log_likelihood` leaves out nothing: of all reports, where these are few, it sums to one."""
        return all_probabilities(cast(HasLikelihood, self)) is not None

    def likelihood(self, reports: Reports) -> Floats:
        """(reports, universe) Pr[report | z] over the largest of the report; zeros where no object can send it."""
        return scaled_likelihood(self.log_likelihood(reports))

    def mass(self, reports: Reports, views: PoolWeights) -> Floats:
        """Pr[report | pool] in each column, over the largest Pr[report | z]; zeros where no object can send it."""
        matrix = views.matrix()
        parts = [self.likelihood(part) @ matrix for part in in_chunks(reports, self.universe)]
        return np.concatenate(parts) if parts else np.empty((0, views.width))


def scaled_likelihood(log_likelihood: Floats) -> Floats:
    """exp(log_likelihood) with every row's largest entry scaled to one; a row of -inf becomes zeros."""
    largest = log_likelihood.max(axis=1, keepdims=True)
    return np.exp(log_likelihood - np.where(np.isfinite(largest), largest, 0.0))
