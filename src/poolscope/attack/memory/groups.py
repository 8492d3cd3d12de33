"""The attack on devices with memory: reports that come from one object are taken together.

Without further noise they are identical, and different objects hardly ever send the same report. With RAPPOR's
instantaneous step they only agree more often than others: they are grouped by likelihood, greedily.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from poolscope.attack.adversary import Adversary
from poolscope.base.arrays import Floats, Integers
from poolscope.base.errors import InputError
from poolscope.mechanisms.defaults import tabulated
from poolscope.mechanisms.devices import Device, Memoised, RapporMemory
from poolscope.mechanisms.role import Reports, distinct, report_count, stated
from poolscope.world.popularity import within_pools

#: Devices whose reports fall into groups.
Kept = Memoised | RapporMemory

#: Times that every report may choose its group again.
SWEEPS = 8


@singledispatch
def groups(device: Device, reports: Reports, adversary: Adversary) -> tuple[Floats, Integers]:
    """The reports of one user by the answer that they come from.

    Returns
    -------
    (groups, universe) log-likelihood of each group, up to a constant of it, and (groups,) its number of reports.
    """
    raise InputError("must be a device with memory", value=type(device).__name__, remedy="device_of(.., memory=True)")


@groups.register
def _(device: Memoised, reports: Reports, adversary: Adversary) -> tuple[Floats, Integers]:
    """Identical reports, in order of arrival: right, as long as no two objects of a user have the same answer."""
    law, (first, which) = stated(device.mechanism), distinct(reports)
    arrived = np.argsort(first)
    different = {name: column[first[arrived]] for name, column in reports.items()}
    return tabulated(law.log_likelihood, different, law.universe), np.bincount(which)[arrived]


@groups.register
def _(device: RapporMemory, reports: Reports, adversary: Adversary) -> tuple[Floats, Integers]:
    """By agreement: the best groups that were found, not all there can be; where reports are noisy, too sure of them.

    The likelihood of a group is exact.
    """
    if not report_count(reports):
        return np.empty((0, device.mechanism.universe)), np.zeros(0, dtype=np.int64)
    cohort, bits = int(reports["cohort"][0]), device.bits(reports)
    ones, counts = gathered(bits, group_by_agreement(device, bits, cohort, adversary))
    return device.group_log_likelihood(ones, counts, cohort), counts


def group_by_agreement(device: RapporMemory, bits: NDArray[np.uint8], cohort: int, adversary: Adversary) -> Integers:
    """The group of each report of one user, (n,): a partition that no change of a single report makes more likely.

    The likelihood of a partition is the occupancy's (`scores`) at the mean behaviour. Reports choose their group
    one after the other, and then again until none wants to change.
    """
    mean, n = mean_behaviour(adversary), len(bits)
    with np.errstate(divide="ignore"):
        log_mean = np.log(mean)

    def evidence(ones: Integers, counts: Integers) -> Floats:
        fits = device.group_log_likelihood(ones, counts, cohort)
        scores: Floats = logsumexp(fits + counts[:, None] * log_mean - n * mean, axis=1)
        return scores

    label = np.full(n, -1, dtype=np.int64)
    held = _Groups(np.empty((0, bits.shape[1]), dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0))
    for _ in range(SWEEPS):
        before = same_group(label)
        for t, own in enumerate(bits.astype(np.int64)):
            if label[t] >= 0:
                held, label = _without(held, label, t, own, evidence)
            with_it = evidence(np.vstack([held.ones + own, own]), np.append(held.counts + 1, 1))
            g = label[t] = int(np.argmax(with_it - np.append(held.evidence, 0.0)))
            if g == len(held.counts):
                held = _Groups(np.vstack([held.ones, own]), np.append(held.counts, 1), np.append(held.evidence, 0.0))
            else:
                held.ones[g] += own
                held.counts[g] += 1
            held.evidence[g] = with_it[g]
        if np.array_equal(before, same_group(label)):
            break
    return label


class _Groups(NamedTuple):
    """Groups of reports: ones at each bit (groups, m), reports (groups,), and the log evidence of each (groups,)."""

    ones: Integers
    counts: Integers
    evidence: Floats


def _without(
    held: _Groups, label: Integers, t: int, own: Integers, evidence: Callable[[Integers, Integers], Floats]
) -> tuple[_Groups, Integers]:
    """The groups without report t; one that was alone takes its group along."""
    g = label[t]
    if held.counts[g] == 1:
        rest = np.arange(len(held.counts)) != g
        left = _Groups(held.ones[rest], held.counts[rest], held.evidence[rest])
        return left, np.where(label > g, label - 1, label)
    held.ones[g] -= own
    held.counts[g] -= 1
    held.evidence[g] = evidence(held.ones[g : g + 1], held.counts[g : g + 1])[0]
    return held, label


def gathered(bits: NDArray[np.uint8], label: Integers) -> tuple[Integers, Integers]:
    """(groups, m) ones at each bit and (groups,) reports of the groups in order of their labels; -1 is in none."""
    groups = np.unique(label[label >= 0])
    member = label == groups[:, None]
    return member.astype(np.int64) @ bits.astype(np.int64), member.sum(axis=1)


def same_group(label: Integers) -> NDArray[np.bool_]:
    """(n, n) whether two reports are in one group."""
    same: NDArray[np.bool_] = (label[:, None] == label) & (label[:, None] >= 0)
    return same


def mean_behaviour(adversary: Adversary) -> Floats:
    """(universe,) the mean of eq. (phi_representation) over the adversary's belief."""
    k, belief = adversary.k, adversary.belief
    g, not_g, weight = belief.interest.rule(8)
    gamma, neutral = float(g @ weight), float(not_g @ weight)
    u, _, weight = belief.polarization.rule(8)
    delta = 1.0 / k + (1.0 - 1.0 / k) * float(u @ weight)
    prior = belief.pool_prior(k)
    pools = gamma * (prior * delta + (1.0 - prior) * (1.0 - delta) / (k - 1))
    share = np.concatenate([[neutral], pools])[adversary.universe.pool_of + 1]
    chances: Floats = share * within_pools(adversary.universe, adversary.popularity, empty="uniform")
    return chances
