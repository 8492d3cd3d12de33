"""The files that a mechanism's parameters name: arrays and tables, checked, never unpickled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poolscope.core.errors import InputError, located, reading
from poolscope.core.files import check_regular
from poolscope.core.tables import Batch, read_table
from poolscope.mechanisms.channel import MOST_CELLS, check_cells
from poolscope.mechanisms.protocols import ReportColumn
from poolscope.population.universe import Universe, objects_of
from poolscope.reports.columns import KINDS


def read_array(path: Path, universe: Universe) -> NDArray[Any]:
    """An array from a .npy file."""
    check_regular(path)
    with reading(path):
        try:
            array: NDArray[Any] = np.load(path, allow_pickle=False, mmap_mode="r")
            return array
        except OSError:
            raise
        except Exception:
            # a header is text that is parsed: whatever goes wrong with it is the file's fault
            raise InputError("must be a NumPy array file (.npy) without pickled objects") from None


def read_matrix(path: Path, universe: Universe) -> NDArray[Any]:
    """Pr[report | object], (objects, reports): a .npy file, or a table ``object``, ``report``, ``probability``.

    Reports are numbered from 0; a pair that the table lacks has probability zero. Parquet or CSV.
    """
    if path.suffix.lower() == ".npy":
        return read_array(path, universe)
    table = read_table(path, ("object", "report", "probability"))
    objects, reports = _pairs(table, universe)
    probability = table.numbers("probability", most=1.0)
    size = int(reports.max()) + 1
    with located(file=path):
        check_cells(universe.size, size)
    cells = objects * size + reports
    kept, first = np.unique(cells, return_index=True)
    if len(kept) < len(cells):
        row = int(np.setdiff1d(np.arange(len(cells)), first)[0])
        raise table.wrong("a pair must be listed once", row, f"{objects[row]}, {reports[row]}")
    matrix = np.zeros(universe.size * size)
    matrix[cells] = probability
    return matrix.reshape(universe.size, size)


def read_samples(path: Path, universe: Universe) -> NDArray[np.int64]:
    """(samples, 2) from a table ``object``, ``report``, Parquet or CSV; reports are numbered from 0."""
    return np.stack(_pairs(read_table(path, ("object", "report")), universe), axis=1)


#: Parameter of a mechanism that names a file -> how the file is read.
FILES: dict[str, Callable[[Path, Universe], NDArray[Any]]] = {
    "hash_table": read_array,
    "matrix": read_matrix,
    "samples": read_samples,
}


def _pairs(table: Batch, universe: Universe) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    numbered = ReportColumn("integer", MOST_CELLS)
    reports = KINDS["integer"].read(table, "report", numbered, universe)
    return objects_of(table, "object", universe).to_numpy(), np.asarray(reports, dtype=np.int64)
