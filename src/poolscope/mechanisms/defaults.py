"""What every mechanism of ours has without stating it: it follows from what the mechanism does state.

A role (`role.Mechanism`, `role.Countable`) says what there must be; these classes fill in what the rest determines.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arguments import as_integers
from poolscope.core.arrays import Floats, Integers, Keys, Map, Objects
from poolscope.core.errors import InputError
from poolscope.core.randomness import children, fresh_keys, generator
from poolscope.mechanisms.parameters import check_parameters
from poolscope.mechanisms.role import Countable, Mechanism, Rates, Reports, at, report_count
from poolscope.mechanisms.views import Views
from poolscope.population.synthetic import draw_objects

#: Cells of the matrix (reports, universe) that a general method holds at once.
CELLS_AT_ONCE = 1 << 24

#: Reports that are made and counted together.
REPORTS_AT_ONCE = 1 << 16

Counted = TypeVar("Counted")


class Reporting:
    """All that follows from `report` and `mass`; reports stand alone unless the mechanism says what they share."""

    universe: int
    shared_column: ClassVar[str | None] = None

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

    def sent_masses(self: Mechanism, objects: Objects, keys: Keys, views: Views, places: Integers, out: Floats) -> None:
        out[places] = self.mass(self.report(objects, keys), views)


class Scoring(ABC):
    """All that follows from `scores`: their sums, over given reports and over simulated ones."""

    @property
    def yes_or_no(self) -> bool:
        return False

    @property
    def rates(self: Countable) -> Rates:
        return Rates(self.own_mean, self.other_mean, 0.0)

    @abstractmethod
    def scores(self, reports: Reports) -> NDArray[Any]:
        """(reports, universe) the score of each object by each report."""

    def score_sums(self: Countable, reports: Reports) -> NDArray[Any]:
        return summed(self.scores, reports, self.universe)

    def tally(self: Countable, reports: Reports) -> NDArray[Any]:
        return self.score_sums(reports)[None]

    def simulate_counts(
        self: Countable, popularity: Floats, count: int, key: np.uint64, threads: Map = map
    ) -> NDArray[Any]:
        return one_by_one(self, self.score_sums, added, popularity, count, key, threads)

    def simulate_tally(
        self: Countable, popularity: Floats, count: int, key: np.uint64, threads: Map = map
    ) -> NDArray[Any]:
        return self.simulate_counts(popularity, count, key, threads)[None]

    def simulate_at(
        self: Countable, epsilons: Sequence[float], popularity: Floats, count: int, key: np.uint64, threads: Map = map
    ) -> NDArray[Any]:
        return np.array([at(self, epsilon).simulate_counts(popularity, count, key, threads) for epsilon in epsilons])


class Counting(Scoring):
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
        return summed(self.support, reports, self.universe)

    @property
    def own_mean(self) -> float:
        return self.p_star

    @property
    def other_mean(self) -> float:
        return self.q_star

    @property
    def yes_or_no(self) -> bool:
        return True

    def noise(self: Countable, counts: Floats, reports: float) -> Floats:
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


def added(counted: Iterable[NDArray[Any]]) -> NDArray[Any]:
    """What was counted in parts of the reports, taken together."""
    return reduce(np.add, counted)


def drawn(popularity: Floats, count: int, key: np.uint64) -> tuple[np.random.Generator, Integers]:
    """What a closed law goes on drawing from, and (universe,) how many of so many reports are of each object."""
    rng = generator(key)
    return rng, rng.multinomial(count, np.asarray(popularity) / np.sum(popularity))


def one_by_one(
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

    return join(threads(part, numbered(count)))


def numbered(count: int) -> Iterator[Integers]:
    """The numbers of so many reports, in parts that are made at once; one part without any where there are none."""
    for start in range(0, max(1, count), REPORTS_AT_ONCE):
        yield np.arange(start, min(start + REPORTS_AT_ONCE, count))


def summed(of: Callable[[Reports], NDArray[Any]], reports: Reports, universe: int) -> NDArray[Any]:
    """(universe,) the sums over the reports of what there is of each and every object, (reports, universe)."""
    parts = in_parts(reports, universe)
    return sum((of(part).sum(axis=0) for part in parts), np.zeros(universe, dtype=np.int64))


def tabulated(of: Callable[[Reports], Floats], reports: Reports, universe: int) -> Floats:
    """(reports, universe) what there is of every report and object: made in parts, so that this alone is held whole."""
    out, begin = np.empty((report_count(reports), universe)), 0
    for part in in_parts(reports, universe):
        end = begin + report_count(part)
        out[begin:end] = of(part)
        begin = end
    return out


def in_parts(reports: Reports, universe: int, cells: int | None = None) -> Iterator[Reports]:
    """The reports, so many at once that a matrix of so many cells, with a column for each object, is held."""
    at_once = max(1, (CELLS_AT_ONCE if cells is None else cells) // universe)
    for start in range(0, report_count(reports), at_once):
        yield {name: column[start : start + at_once] for name, column in reports.items()}
