"""Array types that all layers share, and the concatenation of index ranges."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: Objects as indices into the universe.
Objects = NDArray[np.int64]

#: Keys of random streams, see `core.randomness`.
Keys = NDArray[np.uint64]

#: Maps a function over items, in any order: the built-in `map`, or that of an engine.
Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]

#: Callback that receives the amount of work done, in users or reports.
Tick = Callable[[float], None]


def positions(starts: Integers, lengths: Integers) -> Integers:
    """Return the concatenation of the ranges ``starts[i] .. starts[i] + lengths[i] - 1``."""
    ends = np.cumsum(lengths)
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(lengths.sum())
