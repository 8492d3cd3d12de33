"""How adversaries see the universe, as a mechanism needs it to say what its reports tell them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arrays import Floats


@dataclass(frozen=True)
class Views:
    """For each adversary, the column that an object counts to and its weight there.

    columns (views, universe) uint32, weights (views, universe) float64. Column v is the neutral pool of
    view v. Several adversaries, or several sets of pools, are attacked in one pass over the reports.

    Examples
    --------
    >>> columns = universe.pool_of[None].astype(np.uint32) + 1
    >>> views = ps.mechanisms.Views(columns, ps.popularity.within_pools(universe, popularity)[None], 4)
    >>> mechanism.mass({"value": np.array([0, 1])}, views).round(3)
    array([[0.   , 0.491, 0.   , 0.   ],
           [0.   , 0.214, 0.   , 0.   ]])
    """

    columns: NDArray[np.uint32]
    weights: Floats
    width: int

    def matrix(self) -> Floats:
        """(universe, width) the same as a dense matrix."""
        out = np.zeros((self.columns.shape[1], self.width))
        for columns, weights in zip(self.columns, self.weights, strict=True):
            out[np.arange(len(columns)), columns] += weights
        return out
