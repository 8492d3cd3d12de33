"""Pseudonyms that change: what the adversary knows of a user starts anew with each window of reports.

Windows of reports joined to devices: links of which few are wrong, and what they add up to.

Evidence for a pair of windows (`link_evidence`) is an e-value: one or less in the mean, if they are two devices'. Of
such ones the procedure of Wang and Ramdas takes links of which no more than a given share is wrong in the mean, in
however many pairs and however these hang together. Links add up to devices. Windows of one device follow each other, so
that a device whose windows would overlap has a wrong link somewhere, and is none.

References
----------
R. Wang, A. Ramdas. False discovery rate control with e-values. JRSS B 84, 2022.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from poolscope.core.arrays import Floats, Integers
from poolscope.inference.link_evidence import Pairs


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


class Devices(NamedTuple):
    """Windows joined to devices.

    device : (windows,) the smallest number of a window of the same device.
    links : the pairs that are one device's.
    refused : (windows,) those that would be joined but for the time: two windows of one device would overlap.
    """

    device: Integers
    links: Pairs
    refused: NDArray[np.bool_]


def linked(pairs: Pairs, windows: int, rate: float) -> Pairs:
    """The pairs that are one device's, of which no more than `rate` are wrong in the mean, of all pairs of windows."""
    order = np.argsort(-pairs.log_e_value, kind="stable")
    needed = math.log(windows * (windows - 1) / 2.0 / rate) - np.log(np.arange(1, len(order) + 1))
    enough = np.flatnonzero(pairs.log_e_value[order] >= needed)
    return pairs.some(np.sort(order[: enough[-1] + 1]) if len(enough) else order[:0])


def joined(links: Pairs, first: Integers, last: Integers) -> Devices:
    """Windows joined by their links; a device that would have two names at a time is none.

    Parameters
    ----------
    first, last : (windows,) the place of each window's first report among all reports, and of its last.
    """
    windows = len(first)
    graph = sparse.coo_array((np.ones(len(links.first)), (links.first, links.second)), shape=(windows, windows))
    _, component = sparse.csgraph.connected_components(graph, directed=False)
    order = np.lexsort((first, component))
    overlap = (component[order][1:] == component[order][:-1]) & (last[order][:-1] > first[order][1:])
    refused = np.isin(component, component[order][1:][overlap])
    alone = np.arange(windows)
    smallest = np.full(windows, windows)
    np.minimum.at(smallest, component, alone)
    return Devices(np.where(refused, alone, smallest[component]), links.some(~refused[links.first]), refused)
