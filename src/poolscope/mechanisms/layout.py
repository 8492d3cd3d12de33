"""How the rows of a table hold what objects add for each view: masses, and counts in the bits of one word."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arrays import Floats
from poolscope.kernels.grouping import Places, Rows, empty_rows
from poolscope.mechanisms.views import Views

#: Bits of a word for the counts of all columns, each of which can hold its column's size.
WORD = 64


@dataclass(frozen=True, eq=False)
class Layout:
    """Where rows hold the columns of `views`.

    places: of each column, for the kernels. columns: masses to a row, beginning with the neutral pools of the views
    that have masses. weights (universe, such views): those of an object side by side. words (universe,): what an object
    adds to the counts; None where nothing is counted. column_of (such views, universe): its columns.
    """

    places: Places
    columns: int
    weights: Floats
    column_of: NDArray[np.int64]
    words: NDArray[np.uint64] | None

    @cached_property
    def runs(self) -> NDArray[np.int64]:
        """(runs, 6) begin and end of neighbouring objects that add to the same columns; the first view and its column,
        and how many views: two where all objects add to the next column of the next view; and the word that they add.
        """
        found: list[NDArray[np.int64]] = []
        view, count = 0, len(self.column_of)
        word = np.zeros(len(self.weights), np.int64) if self.words is None else self.words.view(np.int64)
        while view < count or not found:
            column = self.column_of[view] if count else np.zeros_like(word)
            beside = self.column_of[view + 1 : view + 2]
            together = min(count, 1 + (len(beside) and not word.any() and np.array_equal(column + 1, beside[0])))
            changes = (np.diff(column) != 0) | (np.diff(word) != 0)
            begin = np.concatenate([[0], np.flatnonzero(changes) + 1])
            own = np.full_like(begin, view), column[begin], np.full_like(begin, together), word[begin]
            found.append(np.stack([begin, np.append(begin[1:], len(word)), *own], axis=1))
            view, word = view + max(1, together), np.zeros_like(word)
        return np.concatenate(found)

    def empty(self, rows: int) -> Rows:
        """So many rows to be filled."""
        return empty_rows(rows, self.columns + (self.words is not None), self.places)

    def rows(self) -> Rows:
        """A row for each object."""
        rows = self.empty(len(self.weights))
        table, objects = rows.table, np.arange(len(self.weights))
        table.masses[:] = 0.0
        for columns, weights in zip(self.column_of, self.weights.T, strict=True):
            table.masses[objects, columns] += weights
        if self.words is not None:
            table.words[:, -1] = self.words
        return rows


def packed(views: Views) -> Layout:
    """The views to which all objects of a column weigh the same are counted, as far as a word holds them."""
    sizes = _sizes(views)
    counted, left = np.zeros(len(sizes), dtype=bool), WORD
    for view, size in enumerate(sizes):
        alone = not np.any((size > 0) & (np.delete(sizes, view, axis=0) > 0))
        bits = sum(int(count).bit_length() for count in size)
        if alone and bits <= left and _level(views, view):
            counted[view], left = True, left - bits
    return _layout(views, counted)


def plain(views: Views) -> Layout:
    """Every view has masses."""
    return _layout(views, np.zeros(len(views.columns), dtype=bool))


def _sizes(views: Views) -> NDArray[np.int64]:
    """(views, width) the objects of each column."""
    return np.stack([np.bincount(columns, minlength=views.width) for columns in views.columns])


def _level(views: Views, view: int) -> bool:
    """Whether all objects of a column weigh the same."""
    columns, weights = views.columns[view], views.weights[view]
    first = np.zeros(views.width)
    first[columns] = weights
    return bool(np.all(weights == first[columns]))


def _layout(views: Views, counted: NDArray[np.bool_]) -> Layout:
    size = _sizes(views)[counted].sum(axis=0)
    bits = np.array([int(count).bit_length() for count in size])
    shift = (np.cumsum(bits) - bits).astype(np.uint64)
    weight = np.zeros(views.width)
    for columns, weights in zip(views.columns[counted], views.weights[counted], strict=True):
        weight[columns] = weights
    held = np.concatenate([np.flatnonzero(~counted), np.arange(len(counted), views.width)[size[len(counted) :] == 0]])
    column = np.full(views.width, -1)
    column[held] = np.arange(len(held))
    words = None
    if counted.any():
        words = np.bitwise_or.reduce(np.uint64(1) << shift[views.columns[counted]], axis=0)
    mask = (np.uint64(1) << bits.astype(np.uint64)) - np.uint64(1)
    return Layout(
        places=Places(column, weight, shift, mask),
        columns=len(held),
        weights=np.ascontiguousarray(views.weights[~counted].T),
        column_of=column[views.columns[~counted]],
        words=words,
    )
