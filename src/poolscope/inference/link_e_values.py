r"""E-values that two windows of reports come from one device, and the links between windows that follow.

A score that ranks pairs of windows (`link_scores`) does not bound the number of wrong links. An *e-value* does: its
mean over windows of two devices is at most one, so that it reaches t with probability at most 1/t. It is valid for any
dependence between what users pick.

**Identical reports.** Let A be the responses of one window. In the other window, each of the at most n slots that were
picked has a response in A by coincidence only, independently of the others. A bet of :math:`\beta` on each response in
A, at odds :math:`\rho_y = \max_s \Pr[y | s]`, gives the e-value

.. math:: e = \prod_{y \in A \cap B} \Big(1 + \frac{\beta}{\rho_y}\Big) \Big/ \prod_{s} (1 + \beta R_s) , \qquad
          R_s = \sum_{y \in A} \Pr[y | s] / \rho_y ,

with the last product over the n slots with the largest R. The mean over several :math:`\beta` is an e-value too. It
needs no popularity.

**Noisy reports.** The e-value is the mean of kappa (`link_scores`) over all pairs of one report of each window. Each
kappa has mean one over pairs of two devices, whatever the dependence within a window, under the adversary's popularity
and priors.

Per-device values multiply the e-value by the number of their values, and make it 0 where they differ.

**Links.** The e-BH procedure of Wang and Ramdas selects links with a false discovery rate below a target, for any
number of pairs and any dependence. Linked windows form devices. Windows of one device follow each other in time: a
device with overlapping windows has a wrong link, and is rejected.

References
----------
V. Vovk, R. Wang. E-values: calibration, combination and applications. Annals of Statistics 49, 2021.
R. Wang, A. Ramdas. False discovery rate control with e-values. JRSS B 84, 2022.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import logsumexp

from poolscope.core.arrays import Floats, Integers, positions
from poolscope.core.errors import InputError
from poolscope.devices.protocols import IdenticalReports, MemoizingDevice
from poolscope.inference.adversary import Adversary
from poolscope.inference.link_scores import log_ratios, mean_popularity
from poolscope.mechanisms.protocols import Reports, distinct, report_count

#: Largest number of pairs of windows with a common response, and of noisy reports that are compared.
MAX_PAIRS, MAX_REPORTS = 1 << 24, 1 << 13

#: Largest number of reports times objects in memory.
MAX_CELLS = 1 << 25

#: Reports whose ratios with all others are computed at a time.
CHUNK = 1 << 9

#: Log bets on each response.
LOG_BETS = -math.log(4.0) * np.arange(5)

REMEDY = "take some of the users"


class WindowPairs(NamedTuple):
    """Pairs of windows, the first with the smaller index, and their log e-values."""

    first: Integers
    second: Integers
    log_e_value: Floats

    def some(self, which: NDArray[Any]) -> WindowPairs:
        """Return some of the pairs."""
        return WindowPairs(self.first[which], self.second[which], self.log_e_value[which])


def pairs_above_e_value(
    device: MemoizingDevice, reports: Reports, sizes: Integers, adversary: Adversary, minimum: float
) -> WindowPairs:
    """Return the pairs of windows with a log e-value of at least `minimum`, ordered by windows.

    Parameters
    ----------
    reports : window after window.
    sizes : (windows,) reports of each, none of them 0.
    """
    starts, bonus, found = np.cumsum(sizes) - sizes, math.log(math.prod(device.per_device_columns.values())), []
    for mine in _by_device_columns(device, reports, starts):
        rows = positions(starts[mine], sizes[mine])
        own = {name: np.asarray(column)[rows] for name, column in reports.items()}
        distribution = device.likelihood({name: column[:1] for name, column in own.items()}).distribution
        if isinstance(distribution, IdenticalReports):
            pairs = _by_responses(device, own, sizes[mine])
        else:
            pairs = _by_ratios(device, own, sizes[mine], adversary)
        enough = pairs.some(pairs.log_e_value + bonus >= minimum)
        found.append(WindowPairs(mine[enough.first], mine[enough.second], enough.log_e_value + bonus))
    pairs = _concatenated(found)
    return pairs.some(np.lexsort((pairs.second, pairs.first)))


def _by_device_columns(device: MemoizingDevice, reports: Reports, starts: Integers) -> Iterator[Integers]:
    """Yield groups of two or more windows with equal per-device values."""
    owner = np.zeros(len(starts), dtype=np.int64)
    if device.per_device_columns:
        owner = distinct({name: np.asarray(reports[name])[starts] for name in device.per_device_columns})[1]
    order = np.argsort(owner, kind="stable")
    for mine in np.split(order, np.flatnonzero(np.diff(owner[order])) + 1):
        if len(mine) > 1:
            yield mine


def _concatenated(found: Sequence[WindowPairs]) -> WindowPairs:
    """Concatenate pairs."""
    none = np.zeros(0, dtype=np.int64)
    first, second, log_e_value = zip(WindowPairs(none, none, np.zeros(0)), *found, strict=True)
    return WindowPairs(np.concatenate(first), np.concatenate(second), np.concatenate(log_e_value))


def _by_responses(device: MemoizingDevice, reports: Reports, sizes: Integers) -> WindowPairs:
    """Return the pairs that have a response in common; others have no evidence."""
    window, (first, response) = np.repeat(np.arange(len(sizes)), sizes), distinct(reports)
    has = sparse.coo_array((np.ones(len(response)), (window, response)), shape=(len(sizes), len(first))).tocsr()
    has.data[:] = 1.0
    windows_of = np.bincount(has.indices, minlength=len(first))
    common = int(np.sum(windows_of * (windows_of - 1) // 2))
    if common > MAX_PAIRS:
        rule = f"must have at most {MAX_PAIRS:,} responses that two pseudonyms have in common"
        raise InputError(rule, value=common, remedy=REMEDY)
    pairs = sparse.triu(has @ has.T, k=1, format="csr")
    found = []
    for one in np.flatnonzero(np.diff(pairs.indptr)):
        others = pairs.indices[pairs.indptr[one] : pairs.indptr[one + 1]].astype(np.int64)
        own = has.indices[has.indptr[one] : has.indptr[one + 1]]
        won, spent = log_bet_factors(device, {name: column[first[own]] for name, column in reports.items()})
        known = np.zeros((len(first), len(LOG_BETS)))
        known[own] = won
        worth = has[others] @ known - spent[np.minimum(sizes[others], len(spent)) - 1]
        found.append(WindowPairs(np.full(len(others), one), others, logsumexp(worth, axis=1) - math.log(len(LOG_BETS))))
    return _concatenated(found)


def log_bet_factors(device: MemoizingDevice, responses: Reports) -> tuple[Floats, Floats]:
    """Return the log factors of bets on these responses, all distinct.

    Returns
    -------
    won : (responses, bets) log factor if a response occurs again.
    spent : (slots, bets) log of the normalization for 1, 2, ... slots.
    """
    distribution = device.likelihood(responses).distribution
    assert isinstance(distribution, IdenticalReports)
    known = distribution.log_response_prob[distribution.response]
    largest = known.max(axis=1, keepdims=True)
    # no bet on an impossible response
    possible = np.isfinite(largest)
    relative = np.where(possible, np.exp(known - np.where(possible, largest, 0.0)), 0.0)
    supported = np.sort(relative.sum(axis=0))[::-1]
    won: Floats = np.where(possible, np.logaddexp(0.0, LOG_BETS - np.where(possible, largest, 0.0)), 0.0)
    spent: Floats = np.cumsum(np.log1p(np.exp(LOG_BETS) * supported[:, None]), axis=0)
    return won, spent


def _by_ratios(device: MemoizingDevice, reports: Reports, sizes: Integers, adversary: Adversary) -> WindowPairs:
    """Return all pairs, by the mean over all pairs of their reports."""
    popularity = mean_popularity(adversary)
    count, limit = report_count(reports), min(MAX_REPORTS, MAX_CELLS // len(popularity))
    if count > limit:
        rule = f"must have at most {limit:,} noisy reports of memoized responses, of one group of devices"
        raise InputError(rule, value=count, remedy=REMEDY)
    starts, found = np.cumsum(sizes) - sizes, []
    for share in np.unique(starts // CHUNK):
        mine = np.flatnonzero(starts // CHUNK == share)
        rows = positions(starts[mine], sizes[mine])
        evidence = device.likelihood({name: np.concatenate([column[rows], column]) for name, column in reports.items()})
        weight = np.bincount(evidence.slots, weights=popularity).astype(np.float64)
        sums = log_ratios(evidence.distribution, weight, len(rows))
        for side, own in enumerate((sizes[mine], sizes)):
            sums = np.logaddexp.reduceat(sums, np.cumsum(own) - own, axis=side)
        sums -= np.log(sizes[mine])[:, None] + np.log(sizes)
        one, other = np.nonzero(mine[:, None] < np.arange(len(sizes)))
        found.append(WindowPairs(mine[one], other, sums[one, other]))
    return _concatenated(found)


class LinkedDevices(NamedTuple):
    """Windows joined to devices.

    device : (windows,) the smallest index of a window of the same device.
    links : the pairs of windows of one device.
    refused : (windows,) those that would be joined, but windows of their device would overlap in time.
    """

    device: Integers
    links: WindowPairs
    refused: NDArray[np.bool_]


def select_links(pairs: WindowPairs, windows: int, fdr: float) -> WindowPairs:
    """Return the pairs selected at a false discovery rate of `fdr` (e-BH), among all pairs of windows."""
    order = np.argsort(-pairs.log_e_value, kind="stable")
    needed = math.log(windows * (windows - 1) / 2.0 / fdr) - np.log(np.arange(1, len(order) + 1))
    enough = np.flatnonzero(pairs.log_e_value[order] >= needed)
    return pairs.some(np.sort(order[: enough[-1] + 1]) if len(enough) else order[:0])


def join_windows(links: WindowPairs, first: Integers, last: Integers) -> LinkedDevices:
    """Join windows by their links; reject devices that would have two pseudonyms at a time.

    Parameters
    ----------
    first, last : (windows,) index of each window's first and last report among all reports.
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
    return LinkedDevices(np.where(refused, alone, smallest[component]), links.some(~refused[links.first]), refused)
