"""Users in order of their first rows, and the place of each row among its user's.

What a device draws hangs on both, so whoever makes reports knows all users: about 150 bytes each.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from poolscope.base.arrays import Integers


class Arrivals:
    """Numbers users as they first appear, batch after batch; a dictionary, about 140 bytes a user."""

    def __init__(self) -> None:
        self._numbers: dict[str | int, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, users: pl.Series) -> Integers:
        """The number of each row's user; new users get the next ones."""
        # Rows of a user often stand together, and a run costs what a row does.
        runs = users.rle().struct.unnest()
        different = runs["value"].unique(maintain_order=True)
        numbers = [self._numbers.setdefault(user, len(self._numbers)) for user in different.to_list()]
        of_run = runs["value"].replace_strict(different, numbers, return_dtype=pl.Int64)
        return np.repeat(of_run.to_numpy(), runs["len"].to_numpy())


class Places:
    """Counts each user's rows, batch after batch; 8 bytes a user, 16 while there is room for more."""

    def __init__(self) -> None:
        self._counts = np.zeros(0, dtype=np.int64)

    def of(self, users: Integers) -> Integers:
        """How many rows of its user are before each row."""
        order = np.argsort(users, kind="stable")
        ordered = users[order]
        starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        lengths = np.diff(np.append(starts, len(users)))
        out = np.empty(len(users), dtype=np.int64)
        before = self._before(ordered[starts], lengths)
        out[order] = np.arange(len(users)) - np.repeat(starts - before, lengths)
        return out

    def _before(self, users: Integers, more: Integers) -> Integers:
        """The rows of these users so far, to which there are now some more."""
        missing = int(users.max()) + 1 - len(self._counts)
        if missing > 0:
            self._counts = np.concatenate([self._counts, np.zeros(max(missing, len(self._counts)), dtype=np.int64)])
        before = self._counts[users]
        self._counts[users] += more
        return before
