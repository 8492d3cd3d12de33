"""A block of reports, worked on by threads; the results do not depend on how many there are."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poolscope.base.arrays import Floats, Integers, Keys, Map
from poolscope.base.engines import Engine
from poolscope.mechanisms.grouping import sort_by_function
from poolscope.mechanisms.role import Mechanism, Reports, report_count
from poolscope.mechanisms.views import Views
from poolscope.reports.curator import estimator
from poolscope.reports.frequencies import Frequencies, check_reports


def played(mechanism: Mechanism, objects: Integers, keys: Keys, view: Views, run: Map, parts: int) -> Floats:
    """`mechanism.play` of all objects, in so many parts."""
    out = np.empty((len(keys), view.width))

    def part(rows: Integers) -> None:
        mechanism.play(objects[rows], keys[rows], view, rows, out)

    for _ in run(part, shares(mechanism, mechanism.shared_by(keys), len(keys), parts)):
        pass
    return out


def masses(mechanism: Mechanism, reports: Reports, view: Views, engine: Engine) -> Floats:
    """The popularity mass of each report's support, (reports, width)."""
    out = np.empty((report_count(reports), view.width))

    def part(rows: Integers) -> None:
        out[rows] = mechanism.mass(_some(reports, rows), view)

    for _ in engine.map(part, shares(mechanism, _shared(mechanism, reports), len(out), engine.threads)):
        pass
    return out


class Counting:
    """What an estimate needs to know of reports, counted block after block."""

    def __init__(self, mechanism: Mechanism, engine: Engine, method: str | None = None) -> None:
        self._mechanism, self._engine = mechanism, engine
        self._estimator = estimator(mechanism, method)
        self.counted: Any = None
        self.reports = 0

    def add(self, reports: Reports) -> None:
        """Count a block."""
        mechanism, estimator = self._mechanism, self._estimator
        rows = shares(mechanism, _shared(mechanism, reports), report_count(reports), self._engine.threads)
        for counted in self._engine.map(lambda own: estimator.count(_some(reports, own)), rows):
            self.join(counted, 0)
        self.reports += report_count(reports)

    def join(self, counted: Any, reports: int) -> None:
        """Add what others have counted in so many reports."""
        if counted is not None:
            self.counted = counted if self.counted is None else self._estimator.join([self.counted, counted])
        self.reports += reports

    def estimate(self) -> Frequencies:
        """What the curator learns from them."""
        check_reports(self.reports)
        return self._estimator.estimate(self.counted, self.reports)


def shares(mechanism: Mechanism, shared_by: NDArray[np.integer] | None, count: int, parts: int) -> Iterator[Integers]:
    """The rows of each part, about as many.

    What is tabulated, for a hash function say, serves all reports that are looked up in it, so they stay together.
    """
    order, cuts = np.arange(count), np.linspace(0, count, parts + 1).astype(np.int64)
    column = mechanism.shared_column
    if column is not None and shared_by is not None:
        starts, order = sort_by_function(shared_by, mechanism.report_columns[column].size, column)
        cuts = starts[np.searchsorted(starts, cuts)]
    for begin, end in pairwise(cuts):
        if end > begin:
            yield order[begin:end]


def _shared(mechanism: Mechanism, reports: Reports) -> NDArray[np.integer] | None:
    """The table that each report is looked up in, as the mechanism says."""
    return None if mechanism.shared_column is None else reports[mechanism.shared_column]


def _some(reports: Reports, rows: Integers) -> Reports:
    if len(rows) == report_count(reports):
        return reports
    return {name: column[rows] for name, column in reports.items()}
