"""A block of reports, worked on by threads; the results do not depend on how many there are."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from poolscope.curator import Estimate, unbiased
from poolscope.engines import Local
from poolscope.mechanisms.base import Floats, Pure, Reports, Views, report_count

Integers = NDArray[np.int64]


def masses(mechanism: Pure, reports: Reports, view: Views, engine: Local) -> Floats:
    """The popularity mass of each report's support, (reports, width)."""
    out = np.empty((report_count(reports), view.width))

    def part(rows: Integers) -> None:
        out[rows] = mechanism.mass(_some(reports, rows), view)

    for _ in engine.map(part, shares(reports, engine.threads)):
        pass
    return out


class Supports:
    """How many reports support each object, block after block."""

    def __init__(self, mechanism: Pure, engine: Local) -> None:
        self._mechanism, self._engine = mechanism, engine
        self._counts = np.zeros(mechanism.universe, dtype=np.int64)
        self.reports = 0

    def add(self, reports: Reports) -> None:
        """Count a block."""
        rows = shares(reports, self._engine.threads)
        for counts in self._engine.map(lambda own: self._mechanism.support_counts(_some(reports, own)), rows):
            self._counts += counts
        self.reports += report_count(reports)

    def estimate(self) -> Estimate:
        """What the curator learns from them."""
        return unbiased(self._mechanism, self._counts, self.reports)


def shares(reports: Reports, threads: int) -> Iterator[Integers]:
    """Rows for each thread.

    What is tabulated for a hash function serves all of its reports, so a function's reports stay together.
    """
    function = reports["hash"] if "hash" in reports else np.arange(report_count(reports))
    edges = np.linspace(0, int(function.max(initial=0)) + 1, threads + 1)
    for low, high in pairwise(edges):
        rows = np.flatnonzero((function >= low) & (function < high))
        if len(rows):
            yield rows


def _some(reports: Reports, rows: Integers) -> Reports:
    if len(rows) == report_count(reports):
        return reports
    return {name: column[rows] for name, column in reports.items()}
