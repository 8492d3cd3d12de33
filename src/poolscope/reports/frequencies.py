"""What a curator learns, and the role of an estimator that learns it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from poolscope.core.arrays import Floats, Integers, Map
from poolscope.core.errors import InputError
from poolscope.mechanisms.channel import Channel
from poolscope.mechanisms.protocols import Countable, Reports
from poolscope.mechanisms.pure import added
from poolscope.population.popularity import project_to_simplex

#: The ways to estimate, by the names that scenarios and commands use.
LINEAR, REGRESSION, RIDGE, IBU = METHODS = ("linear", "regression", "ridge", "ibu")


@dataclass(frozen=True, kw_only=True)
class Frequencies:
    """Estimated number of reports made from each object, its standard error, and the popularity that follows.

    counts and errors (universe,); reports is their number; method, which estimator made it. Linear estimates and
    regressions are unbiased, so that counts may be negative; the popularity is their Euclidean projection onto the
    simplex. The errors are those of the counts of these reports, not of the frequencies that their objects were drawn
    with: these are uncertain by sqrt(N f (1 - f)) more. None: the estimate has no standard errors (`ridge`).
    """

    reports: int
    counts: Floats
    errors: Floats | None
    method: str = LINEAR

    @property
    def popularity(self) -> Floats:
        return project_to_simplex(self.counts / self.reports)


class Estimator(Protocol):
    """From reports to frequencies. What is counted in parts of the reports can be joined, in any order."""

    def count(self, reports: Reports) -> Any:
        """What the estimate needs to know of some reports."""
        ...

    def join(self, counted: Iterable[Any]) -> Any:
        """The same of all of them together."""
        ...

    def simulate(self, popularity: Floats, count: int, key: np.uint64, threads: Map = map) -> Any:
        """The same of so many reports on objects drawn from the popularity."""
        ...

    def estimate(self, counted: Any, reports: int) -> Frequencies:
        """What is learnt from so many reports."""
        ...

    def expected(self, counts: Floats) -> Floats | None:
        """Variance of the estimate if these are the true counts; None where it has no closed form."""
        ...


Mechanism = TypeVar("Mechanism", Channel, Countable)


@dataclass(frozen=True, eq=False)
class Tallied(Generic[Mechanism]):
    """What estimators share that need a mechanism's tally of the reports, and no more of them."""

    mechanism: Mechanism

    def count(self, reports: Reports) -> Integers:
        return self.mechanism.tally(reports)

    def join(self, counted: Iterable[Integers]) -> Integers:
        return added(counted)

    def simulate(self, popularity: Floats, count: int, key: np.uint64, threads: Map = map) -> Integers:
        return self.mechanism.simulate_tally(popularity, count, key, threads)


def check_reports(count: int) -> None:
    """There is something to estimate from."""
    if count == 0:
        raise InputError("an estimate needs at least one report", value=0)
