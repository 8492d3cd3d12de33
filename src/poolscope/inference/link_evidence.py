r"""How much two windows of reports prove that they are one device's.

A score that ranks pairs of windows (`linking`) does not say how many links would be wrong. *Evidence* does: it is an
e-value, a number that is one or less in the mean over windows of two devices, so that it reaches t with a probability
of at most 1/t. What users pick may hang together in any way: habits are no proof.

**A report is its answer.** Let A be the answers of one window. In the other, each slot that was picked, of the n at
most, has an answer in A only by chance, and by itself. Whoever bets a part :math:`\beta` on each of A at odds of
:math:`\rho_y = \max_s \Pr[y | s]` has in the mean no more than

.. math:: e = \prod_{y \in A \cap B} \Big(1 + \frac{\beta}{\rho_y}\Big) \Big/ \prod_{s} (1 + \beta R_s) , \qquad
          R_s = \sum_{y \in A} \Pr[y | s] / \rho_y ,

the last product over the n slots with the largest R. The mean over several :math:`\beta` is evidence too. It needs no
popularity.

**Noise on each report.** Evidence is the mean of kappa (`linking`) over all pairs of one report of each window. That is
one in the mean over pairs of two devices, however the reports of each hang together, as each kappa is; with the
popularity and behavior that the adversary believes in.

What a device keeps beside its answers multiplies it by how many values that may have, and makes it 0 where it differs.

References
----------
V. Vovk, R. Wang. E-values: calibration, combination and applications. Annals of Statistics 49, 2021.
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
from poolscope.inference.linkage import log_ratios, mean_popularity
from poolscope.mechanisms.protocols import Reports, distinct, report_count

#: Pairs of windows that have an answer in common, and reports with noise that are held beside each other, at most.
PAIRS, REPORTS = 1 << 24, 1 << 13

#: Reports times objects at most, of those that are looked at together.
CELLS = 1 << 25

#: Reports of which the ratios with all others are worked out at once.
AT_ONCE = 1 << 9

#: Logarithms of what is bet on each answer.
LOG_BETS = -math.log(4.0) * np.arange(5)

REMEDY = "take some of the users"


class Pairs(NamedTuple):
    """Pairs of windows, the first with the smaller number, and the logarithm of the evidence of each."""

    first: Integers
    second: Integers
    log_e_value: Floats

    def some(self, which: NDArray[Any]) -> Pairs:
        return Pairs(self.first[which], self.second[which], self.log_e_value[which])


def evident(device: MemoizingDevice, reports: Reports, sizes: Integers, adversary: Adversary, least: float) -> Pairs:
    """Pairs of windows whose evidence has a logarithm of at least `least`, by windows.

    Parameters
    ----------
    reports : window after window; sizes : (windows,) how many each has, none of them 0.
    """
    starts, bonus, found = np.cumsum(sizes) - sizes, math.log(math.prod(device.per_device_columns.values())), []
    for mine in _of_one_owner(device, reports, starts):
        rows = positions(starts[mine], sizes[mine])
        own = {name: np.asarray(column)[rows] for name, column in reports.items()}
        distribution = device.likelihood({name: column[:1] for name, column in own.items()}).distribution
        if isinstance(distribution, IdenticalReports):
            pairs = _by_answers(device, own, sizes[mine])
        else:
            pairs = _by_ratios(device, own, sizes[mine], adversary)
        enough = pairs.some(pairs.log_e_value + bonus >= least)
        found.append(Pairs(mine[enough.first], mine[enough.second], enough.log_e_value + bonus))
    pairs = _all(found)
    return pairs.some(np.lexsort((pairs.second, pairs.first)))


def _of_one_owner(device: MemoizingDevice, reports: Reports, starts: Integers) -> Iterator[Integers]:
    """Windows that have in common what a device keeps beside its answers, if there are two of them."""
    owner = np.zeros(len(starts), dtype=np.int64)
    if device.per_device_columns:
        owner = distinct({name: np.asarray(reports[name])[starts] for name in device.per_device_columns})[1]
    order = np.argsort(owner, kind="stable")
    for mine in np.split(order, np.flatnonzero(np.diff(owner[order])) + 1):
        if len(mine) > 1:
            yield mine


def _all(found: Sequence[Pairs]) -> Pairs:
    none = np.zeros(0, dtype=np.int64)
    first, second, log_e_value = zip(Pairs(none, none, np.zeros(0)), *found, strict=True)
    return Pairs(np.concatenate(first), np.concatenate(second), np.concatenate(log_e_value))


def _by_answers(device: MemoizingDevice, reports: Reports, sizes: Integers) -> Pairs:
    """Pairs that have an answer in common; others prove nothing."""
    window, (first, answer) = np.repeat(np.arange(len(sizes)), sizes), distinct(reports)
    has = sparse.coo_array((np.ones(len(answer)), (window, answer)), shape=(len(sizes), len(first))).tocsr()
    has.data[:] = 1.0
    windows_of = np.bincount(has.indices, minlength=len(first))
    common = int(np.sum(windows_of * (windows_of - 1) // 2))
    if common > PAIRS:
        rule = f"must have at most {PAIRS:,} answers that two pseudonyms have in common"
        raise InputError(rule, value=common, remedy=REMEDY)
    pairs = sparse.triu(has @ has.T, k=1, format="csr")
    found = []
    for one in np.flatnonzero(np.diff(pairs.indptr)):
        others = pairs.indices[pairs.indptr[one] : pairs.indptr[one + 1]].astype(np.int64)
        own = has.indices[has.indptr[one] : has.indptr[one + 1]]
        won, spent = bets(device, {name: column[first[own]] for name, column in reports.items()})
        known = np.zeros((len(first), len(LOG_BETS)))
        known[own] = won
        worth = has[others] @ known - spent[np.minimum(sizes[others], len(spent)) - 1]
        found.append(Pairs(np.full(len(others), one), others, logsumexp(worth, axis=1) - math.log(len(LOG_BETS))))
    return _all(found)


def bets(device: MemoizingDevice, answers: Reports) -> tuple[Floats, Floats]:
    """What bets on these answers, all different, are worth.

    Returns
    -------
    won : (answers, bets) the logarithm of what it brings that an answer comes again.
    spent : (slots, bets) the logarithm of what they cost, if so many slots are asked, less 1.
    """
    distribution = device.likelihood(answers).distribution
    assert isinstance(distribution, IdenticalReports)
    known = distribution.log_response_prob[distribution.response]
    largest = known.max(axis=1, keepdims=True)
    # nothing is bet on an answer that cannot be
    possible = np.isfinite(largest)
    relative = np.where(possible, np.exp(known - np.where(possible, largest, 0.0)), 0.0)
    supported = np.sort(relative.sum(axis=0))[::-1]
    won: Floats = np.where(possible, np.logaddexp(0.0, LOG_BETS - np.where(possible, largest, 0.0)), 0.0)
    spent: Floats = np.cumsum(np.log1p(np.exp(LOG_BETS) * supported[:, None]), axis=0)
    return won, spent


def _by_ratios(device: MemoizingDevice, reports: Reports, sizes: Integers, adversary: Adversary) -> Pairs:
    """All pairs, and the sum over all pairs of their reports."""
    popularity = mean_popularity(adversary)
    count, most = report_count(reports), min(REPORTS, CELLS // len(popularity))
    if count > most:
        rule = f"must have at most {most:,} reports whose answers are sent with noise, of one group of devices"
        raise InputError(rule, value=count, remedy=REMEDY)
    starts, found = np.cumsum(sizes) - sizes, []
    for share in np.unique(starts // AT_ONCE):
        mine = np.flatnonzero(starts // AT_ONCE == share)
        rows = positions(starts[mine], sizes[mine])
        evidence = device.likelihood({name: np.concatenate([column[rows], column]) for name, column in reports.items()})
        weight = np.bincount(evidence.slots, weights=popularity).astype(np.float64)
        sums = log_ratios(evidence.distribution, weight, len(rows))
        for side, own in enumerate((sizes[mine], sizes)):
            sums = np.logaddexp.reduceat(sums, np.cumsum(own) - own, axis=side)
        sums -= np.log(sizes[mine])[:, None] + np.log(sizes)
        one, other = np.nonzero(mine[:, None] < np.arange(len(sizes)))
        found.append(Pairs(mine[one], other, sums[one, other]))
    return _all(found)
