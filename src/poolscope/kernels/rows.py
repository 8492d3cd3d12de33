"""Sums of a table's rows, at positions or at the set bits of a report.

Objects that all weigh the same to an adversary are counted: the counts of several columns stand in the bits of one
word, behind the masses of the other columns, and are summed as integers. A row is half as long then.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from poolscope.kernels.vector import LANES, aligned, sum_rows
from poolscope.kernels.words import positions_room, set_positions


class Table(NamedTuple):
    """Rows in memory, read as masses and as words: each column holds one or the other; and room for two sums a row."""

    masses: NDArray[np.float64]  # (rows, columns)
    words: NDArray[np.uint64]  # (rows, columns)
    pairs: NDArray[np.float64]  # (2 rows,)


class Places(NamedTuple):
    """Where a row holds each column of a view: a mass in a column of its own, a count in some bits of its last word."""

    column: NDArray[np.int64]  # (width,) -1 where there is a count
    weight: NDArray[np.float64]  # (width,) of one that is counted
    shift: NDArray[np.uint64]  # (width,) to the bits of a count
    mask: NDArray[np.uint64]  # (width,) of a count


class Rows(NamedTuple):
    """A table, its rows padded to whole vectors, and room for one sum of rows."""

    table: Table
    places: Places
    positions: NDArray[np.uint64]  # `positions_room` of the rows
    masses: NDArray[np.float64]  # (wide,)
    words: NDArray[np.uint64]  # (wide,)


def empty_table(rows: int, columns: int) -> Table:
    """A table to be filled."""
    masses = aligned(rows, columns)
    return Table(masses, masses.view(np.uint64), aligned(2 * rows))


def empty_rows(rows: int, columns: int, places: Places) -> Rows:
    """Rows to be filled."""
    wide = -(-columns // LANES) * LANES
    return Rows(empty_table(rows, wide), places, positions_room(rows), aligned(wide), aligned(wide).view(np.uint64))


@njit(inline="always")
def sum_positions(rows, count, out):
    """out[c] = sum of the table's rows at the first `count` positions."""
    places = rows.places
    sum_rows(rows.table.masses, rows.positions, np.int64(count), rows.masses, rows.words)
    word = rows.words[rows.words.shape[0] - 1]
    for c in range(out.shape[0]):
        if places.column[c] >= 0:
            out[c] = rows.masses[places.column[c]]
        else:
            out[c] = places.weight[c] * np.int64((word >> places.shift[c]) & places.mask[c])


@njit(inline="always")
def sum_set_bits(words, rows, out):
    """out[c] = sum of the table's rows at the set bits."""
    sum_positions(rows, set_positions(words, rows.positions), out)
