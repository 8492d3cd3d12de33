"""The files between the two rounds: of every piece its users in the order of their hashes, with what is told of their
reports in that order, so that those of a crowd are read where they are, not the file."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from poolscope.core.arrays import Integers, Keys
from poolscope.mechanisms.protocols import Reports
from poolscope.reports.files import USER

#: Rows of a group of the file of names: what is read for one of them.
GROUP_ROWS = 1 << 13


#: Rows of a column that are brought into order at once: as many as stay in the cache.
SORTED = 1 << 12


def store(
    folder: Path, piece: int, names: pl.Series, hashes: Keys, lengths: Integers, told: Reports, rows: Integers
) -> None:
    """Write a piece.

    Parameters
    ----------
    names, hashes, lengths : (users,) in the order of the hashes, and how many rows each has.
    told : columns (rows, ...) in any order.
    rows : (rows,) the users' rows of these, one user after another.
    """
    frame = names.alias(USER).to_frame()
    names_file = _file(folder, piece, "names")
    frame.write_parquet(names_file, compression="uncompressed", statistics=False, row_group_size=GROUP_ROWS)
    hashes.tofile(_file(folder, piece, "hashes"))
    np.cumsum(lengths).tofile(_file(folder, piece, "ends"))
    for number, column in enumerate(told.values()):
        with open(_file(folder, piece, f"told{number}"), "wb") as stream:
            for start in range(0, len(rows), SORTED):
                stream.write(column[rows[start : start + SORTED]].data)


def _file(folder: Path, piece: int, what: str) -> str:
    """As text: a `Path` keeps the parts of its name, and there are as many as pieces times crowds."""
    return os.path.join(folder, f"{piece}.{what}")


class Section(NamedTuple):
    """Neighbouring users of a piece: their names, hashes and how many rows each has; the first of these is `row`."""

    folder: Path
    piece: int
    names: pl.Series
    hashes: Keys
    lengths: Integers
    row: int

    def told(self, columns: Reports) -> Reports:
        """(rows, ...) what is told of their reports, from the files, as columns of these names, types and widths."""
        count, out = int(self.lengths.sum()), {}
        for number, (name, like) in enumerate(columns.items()):
            file, shape = _file(self.folder, self.piece, f"told{number}"), (count, *like.shape[1:])
            start = self.row * math.prod(like.shape[1:]) * like.itemsize
            out[name] = np.fromfile(file, like.dtype, math.prod(shape), offset=start).reshape(shape)
        return out


def sections(folder: Path, pieces: int, low: int, high: int) -> Iterator[Section]:
    """The users whose hashes are from `low` to below `high`, of every piece that has some, in the order of pieces."""
    for piece in range(pieces):
        hashes = np.memmap(_file(folder, piece, "hashes"), dtype=np.uint64, mode="r")
        begin = int(np.searchsorted(hashes, np.uint64(low)))
        end = int(np.searchsorted(hashes, np.uint64(high - 1), side="right"))
        if begin == end:
            continue
        ends = np.memmap(_file(folder, piece, "ends"), dtype=np.int64, mode="r")
        row = int(ends[begin - 1]) if begin else 0
        scan = pl.scan_parquet(_file(folder, piece, "names"), glob=False, hive_partitioning=False)
        names = scan.slice(begin, end - begin).collect()[USER]
        yield Section(folder, piece, names, np.array(hashes[begin:end]), np.diff(ends[begin:end], prepend=row), row)
