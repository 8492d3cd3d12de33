"""How adversaries see the universe, as a mechanism needs it to say what its reports tell them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from poolscope.base.arrays import Floats


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

    @cached_property
    def runs(self) -> NDArray[np.int64]:
        """(runs, 5) view, begin, end and column of neighbouring objects that count to the same column of a view, and
        how many views: two where all objects count to the next column of the next view.
        """
        found, view = [], 0
        while view < len(self.columns):
            columns = self.columns[view]
            beside = self.columns[view + 1 : view + 2]
            together = 1 + (len(beside) and np.array_equal(columns + 1, beside[0]))
            edges = np.concatenate([[0], np.flatnonzero(np.diff(columns)) + 1, [len(columns)]])
            for begin, end in pairwise(edges):
                found.append((view, begin, end, columns[begin], together))
            view += together
        return np.array(found, dtype=np.int64)

    @cached_property
    def by_object(self) -> Floats:
        """(universe, views) the weights, those of an object side by side."""
        return np.ascontiguousarray(self.weights.T)

    def matrix(self) -> Floats:
        """(universe, width) the same as a dense matrix."""
        out = np.zeros((self.columns.shape[1], self.width))
        for columns, weights in zip(self.columns, self.weights, strict=True):
            out[np.arange(len(columns)), columns] += weights
        return out
