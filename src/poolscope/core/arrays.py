"""The types that travel between rooms, and the rows of stretches that lie one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: Objects as indices into the universe.
Objects = NDArray[np.int64]

#: Names of streams of random words, see `base.randomness`.
Keys = NDArray[np.uint64]

#: Anything that maps a function over items, in any order: the built-in, or an engine's.
Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]

#: Is told users as they are played.
Tick = Callable[[float], None]


def positions(starts: Integers, lengths: Integers) -> Integers:
    """``starts[i], starts[i] + 1, ...``, as many as `lengths` says, of one after another."""
    ends = np.cumsum(lengths)
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(lengths.sum())
