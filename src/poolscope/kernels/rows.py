"""Sums of a table's rows, at positions or at the set bits of a report."""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from poolscope.kernels.vector import LANES, aligned, sum_rows
from poolscope.kernels.words import AT_ONCE, set_positions


class Rows(NamedTuple):
    """A table, its rows padded to whole vectors, and room for one sum of rows."""

    table: NDArray[np.float64]  # (rows, wide)
    positions: NDArray[np.uint64]  # (rows rounded up to words + AT_ONCE,)
    sums: NDArray[np.float64]  # (wide,)


def empty_rows(rows: int, width: int) -> Rows:
    """A table to be filled."""
    wide = -(-width // LANES) * LANES
    positions = np.empty(-(-rows // 64) * 64 + AT_ONCE, dtype=np.uint64)
    return Rows(aligned(rows, wide), positions, aligned(wide))


def rows_of(matrix: NDArray[np.float64]) -> Rows:
    """The rows of a matrix."""
    rows = empty_rows(*matrix.shape)
    rows.table[:] = 0.0
    rows.table[:, : matrix.shape[1]] = matrix
    return rows


@njit(inline="always")
def sum_positions(rows, count, out):
    """out[c] = sum of the table's rows at the first `count` positions."""
    sum_rows(rows.table, rows.positions, np.int64(count), rows.sums)
    for c in range(out.shape[0]):
        out[c] = rows.sums[c]


@njit(inline="always")
def sum_set_bits(words, rows, out):
    """out[c] = sum of the table's rows at the set bits."""
    sum_positions(rows, set_positions(words, rows.positions), out)
