"""The files that a mechanism's parameters name: arrays and tables, checked, never unpickled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from poolscope.base.errors import InputError, located, reading
from poolscope.base.tables import Batch, open_table
from poolscope.mechanisms.channel import MOST_CELLS, check_cells
from poolscope.mechanisms.role import ReportColumn
from poolscope.reports.columns import KINDS, read_objects
from poolscope.world.universe import Universe

#: Bytes that reading a table holds of it at once.
BATCH_BYTES = 64 << 20


def read_array(path: Path, universe: Universe) -> NDArray:
    """An array from a .npy file."""
    with reading(path):
        try:
            return np.load(path, allow_pickle=False, mmap_mode="r")
        except OSError:
            raise
        except Exception:
            # a header is text that is parsed: whatever goes wrong with it is the file's fault
            raise InputError("must be a NumPy array file (.npy) without pickled objects") from None


def read_matrix(path: Path, universe: Universe) -> NDArray:
    """Pr[report | object], (objects, reports): a .npy file, or a table ``object``, ``report``, ``probability``.

    Reports are numbered from 0; a pair that the table lacks has probability zero. Parquet or CSV.
    """
    if path.suffix.lower() == ".npy":
        return read_array(path, universe)
    with located(file=path):
        found = [(*_pairs(batch, universe), _probabilities(batch)) for batch in _batches(path, "probability")]
        objects, reports, probability = (np.concatenate(parts) for parts in zip(*found, strict=True))
        size = int(reports.max()) + 1
        check_cells(universe.size, size)
        cells = objects * size + reports
        kept, first = np.unique(cells, return_index=True)
        if len(kept) < len(cells):
            row = int(np.setdiff1d(np.arange(len(cells)), first)[0])
            raise InputError("a pair must be listed once", value=f"{objects[row]}, {reports[row]}")
        matrix = np.zeros(universe.size * size)
        matrix[cells] = probability
        return matrix.reshape(universe.size, size)


def read_samples(path: Path, universe: Universe) -> NDArray[np.int64]:
    """(samples, 2) from a table ``object``, ``report``, Parquet or CSV; reports are numbered from 0."""
    found = [np.stack(_pairs(batch, universe), axis=1) for batch in _batches(path)]
    return np.concatenate(found).astype(np.int64)


#: Parameter of a mechanism that names a file -> how the file is read.
FILES: dict[str, Callable[[Path, Universe], NDArray]] = {
    "hash_table": read_array,
    "matrix": read_matrix,
    "samples": read_samples,
}


def _batches(path: Path, *more: str) -> list[Batch]:
    return list(open_table(path).batches(("object", "report", *more), memory=BATCH_BYTES, row_bytes=64))


def _pairs(batch: Batch, universe: Universe) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    numbered = ReportColumn("integer", MOST_CELLS)
    reports = KINDS["integer"].read(batch, "report", numbered, universe)
    return read_objects(batch, "object", universe), np.asarray(reports, dtype=np.int64)


def _probabilities(batch: Batch) -> NDArray[np.float64]:
    column = batch.frame["probability"]
    if not (batch.text or column.dtype.is_numeric()):
        raise batch.mistyped("probability", "numbers")
    values = column.cast(pl.Float64, strict=False)
    holds = values.is_between(0.0, 1.0).fill_null(False)
    if not holds.all():
        row = int(holds.arg_min() or 0)
        raise batch.wrong("probability must be a number from 0 to 1", row, column[row])
    return values.to_numpy()
