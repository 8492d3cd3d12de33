"""What a local mechanism is, and all that follows from a pure one.

A *pure* mechanism has Pr[report | z] = c(report) * (1 + (e^epsilon - 1) [z in support(report)]): a report either
supports an object or it does not. It states its support and its two probabilities; attack, frequency estimate and
audit follow from here for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from poolscope.base.arrays import Floats, Keys, Map, Objects
from poolscope.base.errors import InputError
from poolscope.base.randomness import children, fresh_keys
from poolscope.mechanisms.views import Views
from poolscope.world.synthetic import draw_objects

Reports = Mapping[str, NDArray]

#: Cells of the support matrix that a general method holds at once.
CELLS_AT_ONCE = 1 << 24

#: Above it e^-epsilon is no normal number any more.
LARGEST_EPSILON = 700.0


@dataclass(frozen=True)
class ReportColumn:
    """What a column of reports holds, for whoever reads and writes them.

    Parameters
    ----------
    kind : "integer" 0..size-1; "bits", (reports, ceil(size / 8)) bytes of `size` bits, least significant first; "sign",
        1 or -1; "object", an index into the universe.
    size : how many values or bits there are.
    """

    kind: Literal["integer", "bits", "sign", "object"]
    size: int = 2


class Mechanism(Protocol):
    """What the game and the attack need of a mechanism."""

    @property
    def epsilon(self) -> float: ...

    @property
    def universe(self) -> int: ...

    @property
    def floor(self) -> float: ...

    @property
    def slope(self) -> float: ...

    def obfuscate(self, objects: Objects, rng: np.random.Generator) -> Reports:
        """One report for each object."""
        ...

    def report(self, objects: Objects, keys: Keys) -> Reports:
        """One report for each object, drawn from the report's own key."""
        ...

    def mass(self, reports: Reports, views: Views) -> Floats:
        """(reports, width): floor + slope * mass is Pr[report | pool], up to a factor common to the report."""
        ...

    def play(self, objects: Objects, keys: Keys, views: Views) -> Floats:
        """mass(report(objects, keys), views), without keeping the reports."""
        ...

    def shared_by(self, keys: Keys) -> NDArray[np.integer] | None:
        """Number of the table that the report of each key is looked up in; None where each report stands alone."""
        ...


class LocalMechanism:
    """What every mechanism of ours shares: making reports, and the curator's count of the objects that they support.

    A mechanism states `report`, its columns, and either a support (`Pure`) or a likelihood (`Likelihood`). The curator
    counts supports: they are what its estimate is made of, also where they are not all that a report tells.
    """

    epsilon: float
    #: Report columns, in order.
    columns: ClassVar[tuple[str, ...]]

    @property
    def report_columns(self) -> Mapping[str, ReportColumn]:
        """What each of the report columns holds, for readers and writers of reports."""
        raise AttributeError("a mechanism states its report columns")

    @property
    def universe(self) -> int:
        raise AttributeError("a mechanism states the size of its universe")

    @property
    def p_star(self) -> float:
        """Probability that a report supports the object it was made from."""
        raise AttributeError("a mechanism states p*")

    @property
    def q_star(self) -> float:
        """Probability that a report supports another object, over the mechanism's public randomness as well."""
        raise AttributeError("a mechanism states q*")

    @property
    def floor(self) -> float:
        raise AttributeError("a mechanism states what its masses mean")

    @property
    def slope(self) -> float:
        raise AttributeError("a mechanism states what its masses mean")

    def report(self, objects: Objects, keys: Keys) -> Reports:
        raise AttributeError("a mechanism states how it makes a report")

    def support(self, reports: Reports) -> NDArray[np.bool_]:
        """(reports, universe) whether each report supports each object."""
        raise AttributeError("a mechanism states the support of a report")

    def obfuscate(self, objects: Objects, rng: np.random.Generator) -> Reports:
        """One report for each object."""
        objects = np.asarray(objects, dtype=np.int64)
        return self.report(objects, fresh_keys(rng, len(objects)))

    def mass(self, reports: Reports, views: Views) -> Floats:
        """(reports, width): floor + slope * mass is Pr[report | pool], up to a factor common to the report."""
        raise AttributeError("a mechanism states what its reports tell")

    def play(self, objects: Objects, keys: Keys, views: Views) -> Floats:
        return self.mass(self.report(objects, keys), views)

    def shared_by(self, keys: Keys) -> NDArray[np.integer] | None:
        return None

    def support_counts(self, reports: Reports) -> NDArray[np.int64]:
        """(universe,) how many reports support each object."""
        out = np.zeros(self.universe, dtype=np.int64)
        for part in self._parts(reports):
            out += self.support(part).sum(axis=0)
        return out

    def simulate_counts(self, popularity: Floats, count: int, key: np.uint64, run: Map = map) -> NDArray[np.int64]:
        """Support counts of so many reports on objects drawn from the popularity: one by one, in parts."""
        at_once = max(1, min(1 << 16, count))

        def part(start: int) -> NDArray[np.int64]:
            keys = children(key, np.arange(start, min(start + at_once, count)))
            reports = self.report(draw_objects(popularity, keys), children(keys, 1))
            return self.support_counts(reports)

        return sum(run(part, range(0, count, at_once)), np.zeros(self.universe, dtype=np.int64))

    def simulate_at(
        self, epsilons: Sequence[float], popularity: Floats, count: int, key: np.uint64, run: Map = map
    ) -> NDArray[np.int64]:
        """(epsilons, universe) `simulate_counts` of the mechanism at each of these epsilons."""
        return np.array([at(self, epsilon).simulate_counts(popularity, count, key, run) for epsilon in epsilons])

    def _parts(self, reports: Reports) -> Iterator[Reports]:
        count = report_count(reports)
        at_once = max(1, CELLS_AT_ONCE // self.universe)
        for start in range(0, count, at_once):
            yield {name: column[start : start + at_once] for name, column in reports.items()}


class Pure(LocalMechanism):
    """All that follows from `support`, `p_star` and `q_star`; fast paths override the general methods."""

    @property
    def floor(self) -> float:
        """Likelihood of an object outside the support, where one inside has likelihood one: e^-epsilon."""
        return float(np.exp(-self.epsilon))

    @property
    def slope(self) -> float:
        return float(-np.expm1(-self.epsilon))

    def mass(self, reports: Reports, views: Views) -> Floats:
        """Popularity mass of each report's support in each column."""
        matrix = views.matrix()
        parts = [self.support(part) @ matrix for part in self._parts(reports)]
        return np.concatenate(parts) if parts else np.empty((0, views.width))


@dataclass(frozen=True, kw_only=True)
class Sized(Pure):
    """A pure mechanism that needs to know no more of the universe than its size."""

    epsilon: float
    size: int

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)

    @property
    def universe(self) -> int:
        return self.size


def at(mechanism: Any, epsilon: float) -> Any:
    """The mechanism with another epsilon."""
    return replace(mechanism, epsilon=epsilon)


def report_count(reports: Reports) -> int:
    """Rows of a set of report columns."""
    return len(next(iter(reports.values())))


def check_epsilon(epsilon: float) -> None:
    """Positive; infinity is legal and means no noise."""
    if not epsilon > 0:
        raise InputError("epsilon must be positive", value=epsilon, place="epsilon")


def check_finite_epsilon(epsilon: float) -> None:
    """Positive and below what a double can tell from infinity, where a mechanism has no limit without noise."""
    check_epsilon(epsilon)
    if epsilon > LARGEST_EPSILON:
        raise InputError(f"epsilon must be at most {LARGEST_EPSILON:g} here", value=epsilon, place="epsilon")


def lie(epsilon: float) -> float:
    """1 / (1 + e^epsilon): how often a bit must be flipped to have the likelihood ratio e^epsilon."""
    return float(1.0 / (1.0 + np.exp(epsilon)) if epsilon < LARGEST_EPSILON else np.exp(-epsilon))


def check_objects(objects: Objects, universe: int) -> None:
    """Objects are indices into the universe."""
    if len(objects) and (objects.min() < 0 or objects.max() >= universe):
        bad = objects[(objects < 0) | (objects >= universe)][0]
        raise InputError(f"objects must be 0..{universe - 1}", value=int(bad))
