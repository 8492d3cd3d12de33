"""Sums of a table's rows over the set bits of reports.

A report's even and odd rows are summed apart and added at the end, so that additions overlap; which row is added to
what is the same however the reports are handed over.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from poolscope.kernels.vector import LANES, add_rows, aligned
from poolscope.kernels.words import AT_ONCE, set_positions

#: Bytes of a table that the first cache holds beside all else: many reports are summed over them at a time.
TILE = 1 << 14
TOGETHER = 32


class Rows(NamedTuple):
    """A table, its rows padded to whole vectors, and room for the sums of some reports."""

    table: NDArray[np.float64]  # (rows, wide)
    positions: NDArray[np.uint64]  # (rows rounded up to words + AT_ONCE,)
    sums: NDArray[np.float64]  # (TOGETHER, 2, wide) even and odd ones
    odd: NDArray[np.int64]  # (TOGETHER,) whether the next row is an odd one


def empty_rows(rows: int, width: int) -> Rows:
    """A table to be filled."""
    wide = -(-width // LANES) * LANES
    return Rows(
        table=aligned(rows, wide),
        positions=np.empty(-(-rows // 64) * 64 + AT_ONCE, dtype=np.uint64),
        sums=aligned(TOGETHER, 2, wide),
        odd=np.empty(TOGETHER, dtype=np.int64),
    )


def rows_of(matrix: NDArray[np.float64]) -> Rows:
    """The rows of a matrix."""
    rows = empty_rows(*matrix.shape)
    rows.table[:] = 0.0
    rows.table[:, : matrix.shape[1]] = matrix
    return rows


@njit(inline="always")
def sum_positions(rows, count, out):
    """out[c] = sum of the table's rows at the first `count` positions."""
    rows.sums[0] = 0.0
    add_rows(rows.table, rows.positions, np.int64(count), rows.sums[0, 0], rows.sums[0, 1])
    write_sum(rows, 0, out)


@njit(inline="always")
def sum_set_bits(words, rows):
    """The sums of the table's rows at the set bits of up to TOGETHER reports, words (reports, words)."""
    reports, wide = words.shape[0], rows.sums.shape[2]
    rows.sums[:reports] = 0.0
    rows.odd[:reports] = 0
    step = max(1, TILE // (8 * 64 * wide))
    for begin in range(0, words.shape[1], step):
        tile = rows.table[64 * begin :]
        for i in range(reports):
            count = set_positions(words[i, begin : begin + step], rows.positions)
            odd = rows.odd[i]
            add_rows(tile, rows.positions, count, rows.sums[i, odd], rows.sums[i, 1 - odd])
            rows.odd[i] = odd ^ (count & 1)


@njit(inline="always")
def write_sum(rows, i, out):
    """out[c] = the sum of report i."""
    for c in range(out.shape[0]):
        out[c] = rows.sums[i, 0, c] + rows.sums[i, 1, c]
