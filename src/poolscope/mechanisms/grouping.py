"""Reports by hash function: what is tabulated for one function serves all of its reports."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arrays import Integers, Keys
from poolscope.core.errors import InputError
from poolscope.kernels import grouping as kernels
from poolscope.mechanisms.hashing import Buckets, Tabulated

#: Buckets of objects computed at once: functions times objects.
BUCKETS_AT_ONCE = 1 << 20


def choose_functions(family: Tabulated, keys: Keys) -> Integers:
    """The hash function of each report, uniform, from the first word of its key."""
    out = np.empty(len(keys), dtype=np.int64)
    kernels.choose_functions(keys, family.size, out)
    return out


def check_range(column: str, values: NDArray[np.integer], size: int) -> None:
    """Integers that kernels use unchecked lie in 0..size-1."""
    if len(values) and (values.min() < 0 or values.max() >= size):
        bad = values[(values < 0) | (values >= size)][0]
        raise InputError(f"{column} must be 0..{size - 1}", value=int(bad))


def sort_by_function(function: NDArray[np.integer], size: int, column: str) -> tuple[Integers, Integers]:
    """starts (size + 1,) and order (reports,): the reports of function f are order[starts[f]:starts[f + 1]]."""
    check_range(column, function, size)
    starts, order = np.empty(size + 1, dtype=np.int64), np.empty(len(function), dtype=np.int64)
    kernels.group(np.asarray(function, dtype=np.int64), starts, order)
    return starts, order


def by_function(
    family: Tabulated, function: NDArray[np.integer], column: str
) -> Iterator[tuple[Buckets, Integers, Integers]]:
    """Chunks of functions: the buckets of all objects, and where each function's reports lie in the order.

    `function` (reports,) is what the reports have in this column.

    Yields buckets (functions, universe), starts (functions + 1,) and order (reports,): the reports of function f of the
    chunk are order[starts[f]:starts[f + 1]].
    """
    starts, order = sort_by_function(function, family.size, column)
    used = np.flatnonzero(np.diff(starts))
    at_once = max(1, BUCKETS_AT_ONCE // family.universe)
    for begin in range(0, len(used), at_once):
        chunk = used[begin : begin + at_once]
        # the functions in between have no reports, so a chunk's reports are contiguous
        yield family.buckets(chunk), np.append(starts[chunk], starts[chunk[-1] + 1]), order
