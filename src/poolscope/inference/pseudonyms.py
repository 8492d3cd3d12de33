"""Pseudonyms that change: what the adversary knows of a user starts anew with each window of reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arrays import Floats, Integers


def in_windows(
    attack: Callable[[NDArray[Any], Integers], Floats], table: NDArray[Any], lengths: Integers, window: int | None
) -> Floats:
    """Posteriors (users, n + 1, k), after every report, of the pseudonym that has sent it.

    Parameters
    ----------
    attack : from a table (any, reports, ...) and how many reports each row has to posteriors (any, reports + 1, k).
    table : (users, n, ...) what the attack is told of each report.
    lengths : (users,) reports of each user; rows beyond repeat the last one.
    window : reports of a pseudonym; None: there is one for all.
    """
    users, n, *rest = table.shape
    if window is None or window >= n:
        return repeat_last(attack(table, lengths), lengths)
    pseudonyms = -(-n // window)
    cut = np.zeros((users, pseudonyms * window, *rest), dtype=table.dtype)
    cut[:, :n] = table
    sizes = np.clip(lengths[:, None] - window * np.arange(pseudonyms), 0, window)
    found = attack(cut.reshape(users * pseudonyms, window, *rest), sizes.ravel())
    k = found.shape[2]
    after_each = found.reshape(users, pseudonyms, window + 1, k)[:, :, 1:].reshape(users, pseudonyms * window, k)
    # the first row is the prior of the first pseudonym; those of the others are never the last word about anyone
    return repeat_last(np.concatenate([found[::pseudonyms, :1], after_each[:, :n]], axis=1), lengths)


def repeat_last(posterior: Floats, lengths: Integers) -> Floats:
    """The posteriors, with what is known after each user's last report in all rows beyond."""
    for user in np.flatnonzero(lengths < posterior.shape[1] - 1):
        posterior[user, lengths[user] + 1 :] = posterior[user, lengths[user]]
    return posterior


def longest(reports: Integers, window: int | None) -> Integers:
    """After how many of so many reports the longest pseudonym was as long as it is: the newest, where several are.

    That is the last one that is full, and before any is full the only one there is.
    """
    return reports if window is None else np.where(reports < window, reports, reports // window * window)
