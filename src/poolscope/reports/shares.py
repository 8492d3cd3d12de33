"""A block of reports, worked on by threads; the results do not depend on how many there are."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arrays import Floats, Integers, Keys, Map, Tick
from poolscope.core.executors import Engine
from poolscope.mechanisms.hashing import sort_by_function
from poolscope.mechanisms.protocols import Mechanism, Reports, Views, report_count


def sent_masses(
    mechanism: Mechanism, objects: Integers, keys: Keys, view: Views, threads: Map, parts: int, tick: Tick | None = None
) -> Floats:
    """`mechanism.sent_masses` of all objects, in so many parts; `tick` is told reports as they are made."""
    out = np.empty((len(keys), view.width))

    def part(rows: Integers) -> int:
        mechanism.sent_masses(objects[rows], keys[rows], view, rows, out)
        return len(rows)

    for count in threads(part, shares(mechanism, mechanism.shared_by(keys), len(keys), parts)):
        if tick:
            tick(count)
    return out


def masses(mechanism: Mechanism, reports: Reports, view: Views, engine: Engine) -> Floats:
    """The popularity mass of each report's support, (reports, width)."""
    out = np.empty((report_count(reports), view.width))

    def part(rows: Integers) -> None:
        out[rows] = mechanism.mass(some(reports, rows), view)

    for _ in engine.map(part, shares_of(mechanism, reports, engine.threads)):
        pass
    return out


def shares(mechanism: Mechanism, shared_by: NDArray[np.integer] | None, count: int, parts: int) -> Iterator[Integers]:
    """The rows of each part, about as many.

    What is tabulated, for a hash function say, serves all reports that are looked up in it, so they stay together,
    unless there are fewer functions than parts.
    """
    order, cuts = np.arange(count), np.linspace(0, count, parts + 1).astype(np.int64)
    column = mechanism.shared_column
    if column is not None and shared_by is not None:
        functions = mechanism.report_columns[column].size
        starts, order = sort_by_function(shared_by, functions, column)
        if functions >= parts:
            cuts = starts[np.searchsorted(starts, cuts)]
    for begin, end in pairwise(cuts):
        if end > begin:
            yield order[begin:end]


def shares_of(mechanism: Mechanism, reports: Reports, parts: int) -> Iterator[Integers]:
    """The rows of each part of these reports, by the table that the mechanism says each is looked up in."""
    column = mechanism.shared_column
    return shares(mechanism, None if column is None else reports[column], report_count(reports), parts)


def some(reports: Reports, rows: Integers) -> Reports:
    """The reports of these rows; all of them in order are not copied."""
    if np.array_equal(rows, np.arange(report_count(reports))):
        return reports
    return {name: column[rows] for name, column in reports.items()}
