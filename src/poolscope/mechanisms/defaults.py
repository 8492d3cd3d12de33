"""What every mechanism of ours has without stating it: it follows from what the mechanism does state.

A role (`role.Mechanism`, `role.Countable`) says what there must be; these classes fill in what the rest determines.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from poolscope.base.arrays import Floats, Integers, Keys, Map, Objects
from poolscope.base.randomness import children, fresh_keys
from poolscope.mechanisms.role import Countable, Mechanism, Reports, at, report_count
from poolscope.mechanisms.views import Views
from poolscope.world.synthetic import draw_objects

#: Cells of the matrix (reports, universe) that a general method holds at once.
CELLS_AT_ONCE = 1 << 24


class Reporting:
    """All that follows from `report` and `mass`; reports stand alone unless the mechanism says what they share."""

    universe: int
    shared_column: ClassVar[str | None] = None

    def shared_by(self, keys: Keys) -> NDArray[np.integer] | None:
        return None

    def obfuscate(self: Mechanism, objects: Objects, rng: np.random.Generator) -> Reports:
        objects = np.asarray(objects, dtype=np.int64)
        return self.report(objects, fresh_keys(rng, len(objects)))

    def play(self: Mechanism, objects: Objects, keys: Keys, views: Views, places: Integers, out: Floats) -> None:
        out[places] = self.mass(self.report(objects, keys), views)


class Counting(ABC):
    """All that follows from `support`: how often objects are supported, in given reports and in simulated ones."""

    @abstractmethod
    def support(self, reports: Reports) -> NDArray[np.bool_]:
        """(reports, universe) whether each report supports each object."""

    def support_counts(self: Countable, reports: Reports) -> NDArray[np.int64]:
        out = np.zeros(self.universe, dtype=np.int64)
        for part in in_parts(reports, self.universe):
            out += self.support(part).sum(axis=0)
        return out

    def simulate_counts(
        self: Countable, popularity: Floats, count: int, key: np.uint64, run: Map = map
    ) -> NDArray[np.int64]:
        """One by one, in parts."""
        at_once = max(1, min(1 << 16, count))

        def part(start: int) -> NDArray[np.int64]:
            keys = children(key, np.arange(start, min(start + at_once, count)))
            reports = self.report(draw_objects(popularity, keys), children(keys, 1))
            return self.support_counts(reports)

        return sum(run(part, range(0, count, at_once)), np.zeros(self.universe, dtype=np.int64))

    def simulate_at(
        self: Countable, epsilons: Sequence[float], popularity: Floats, count: int, key: np.uint64, run: Map = map
    ) -> NDArray[np.int64]:
        return np.array([at(self, epsilon).simulate_counts(popularity, count, key, run) for epsilon in epsilons])


def in_parts(reports: Reports, universe: int) -> Iterator[Reports]:
    """The reports, so many at once that a matrix with a column for each object is held."""
    at_once = max(1, CELLS_AT_ONCE // universe)
    for start in range(0, report_count(reports), at_once):
        yield {name: column[start : start + at_once] for name, column in reports.items()}
