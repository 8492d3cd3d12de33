r"""Are two windows of reports one device's? What its kept answers say, as a log likelihood ratio.

Let :math:`x_r` be the chance of a report r at a device: a random number, for it hangs on the answers that the device
keeps. A report r of one window and a report u of the other are likelier from one device than from two by

.. math:: \kappa(r, u) = \frac{E[x_r x_u]}{E[x_r] E[x_u]} = 1 + \frac{\sum_s w_s^2 (\Pr[r, u | s] - \Pr[r | s] \Pr[u |
          s])}{\Pr[r] \Pr[u]} ,

:math:`\Pr[r, u | s]` being that of two reports of one answer to slot s, and w_s how often an object of the slot is
picked by anybody. The score of two windows is the sum of :math:`\log \kappa` over all pairs, one report of each. For
windows of one report that is the log likelihood ratio itself; for longer ones it is the pairwise composite of it, which
counts twice what two pairs have in common. Its size is no probability, and it ranks pairs of windows less well: in
small cases its ROC area is below that of the likelihood ratio by 0.01 for windows of two reports, and by 0.14 for eight
reports of three objects (`tests/inference/test_linkage.py` enumerates them).

What else a device keeps, a cohort, a seed or positions, must be the same in both windows, and adds the logarithm of
how many values it may have. Habits are left out: everybody is taken to pick objects as a user does on average, so that
devices that draw every report anew have a score of 0 whatever they send.

References
----------
M. Naor, N. Vexler. Can two walk together: privacy enhancing methods and preventing tracking of users. FORC 2020.
C. Varin, N. Reid, D. Firth. An overview of composite likelihood methods. Statistica Sinica 21, 2011.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, xlogy

from poolscope.core.arrays import Floats, Integers, positions
from poolscope.devices.protocols import IdenticalReports, MemoizingDevice, NoisyBits, NoisyValues
from poolscope.inference.adversary import Adversary
from poolscope.mechanisms.protocols import Reports, distinct
from poolscope.population.popularity import within_pools
from poolscope.population.priors import Density

#: Bits of reports at slots that are looked at at once, one number each: 16 MB, and some more to work with.
CELLS = 1 << 21

#: Bits of a slot up to which matrices are multiplied for each of their patterns.
FEW_REPORTS = 4

#: The chance of a bit that nothing sets.
NEVER = 1e-30


def link_scores(
    device: MemoizingDevice, first: Reports, second: Reports, adversary: Adversary, sizes: tuple[Integers, Integers]
) -> Floats:
    """(windows, windows) how much likelier each of the first windows and each of the second are one device's than not.

    Parameters
    ----------
    first, second : the reports of windows, window after window.
    sizes : (windows,) of the first and (windows,) of the second, how many reports each has, none of them 0.
    """
    out = np.full((len(sizes[0]), len(sizes[1])), -np.inf)
    popularity = mean_popularity(adversary)
    (one, two), choices = _owners(device, first, second, sizes), math.prod(device.per_device_columns.values())
    starts = [np.cumsum(size) - size for size in sizes]
    for owner in np.intersect1d(one, two):
        mine = [np.flatnonzero(owners == owner) for owners in (one, two)]
        rows = [positions(starts[side][mine[side]], sizes[side][mine[side]]) for side in (0, 1)]
        both = {name: np.concatenate([first[name][rows[0]], second[name][rows[1]]]) for name in first}
        evidence = device.likelihood(both)
        weight: Floats = np.bincount(evidence.slots, weights=popularity).astype(np.float64)
        found = log_ratios(evidence.distribution, weight, len(rows[0]))
        for side in (0, 1):
            ends = np.cumsum(sizes[side][mine[side]])
            found = np.add.reduceat(found, ends - sizes[side][mine[side]], axis=side)
        out[np.ix_(*mine)] = found + math.log(choices)
    return out


def mean_popularity(adversary: Adversary) -> Floats:
    """(universe,) how often anybody picks each object: popularity and behavior as the adversary believes them."""
    k, belief, universe = adversary.k, adversary.belief, adversary.universe
    gamma = _mean(belief.interest) if universe.neutral_size else 1.0
    delta = 1.0 / k + (1.0 - 1.0 / k) * _mean(belief.polarization)
    prior = belief.pool_prior(k)
    pools = gamma * (prior * delta + (1.0 - prior) * (1.0 - delta) / (k - 1))
    share: Floats = np.concatenate([[1.0 - gamma], pools])[universe.pool_of + 1]
    return share * within_pools(universe, adversary.popularity, empty="uniform")


def _mean(density: Density) -> float:
    x, _, weight = density.rule(8)
    return float(x @ weight / weight.sum())


def _owners(
    device: MemoizingDevice, first: Reports, second: Reports, sizes: tuple[Integers, Integers]
) -> tuple[Integers, Integers]:
    """What each window's device keeps beside its answers, as a number: the same for the same, 0 where it is nothing."""
    heads = [np.cumsum(size) - size for size in sizes]
    if not device.per_device_columns:
        return np.zeros(len(heads[0]), dtype=np.int64), np.zeros(len(heads[1]), dtype=np.int64)
    kept = {name: np.concatenate([first[name][heads[0]], second[name][heads[1]]]) for name in device.per_device_columns}
    which = distinct(kept)[1]
    return which[: len(heads[0])], which[len(heads[0]) :]


def log_ratios(distribution: IdenticalReports | NoisyBits | NoisyValues, weight: Floats, cut: int) -> Floats:
    """(cut, rest) log kappa of each of the first reports and each of the others; slots are picked with that weight."""
    match distribution:
        case IdenticalReports():
            return _identical_ratios(distribution, weight, cut)
        case NoisyValues():
            return _value_ratios(distribution, weight, cut)
        case NoisyBits():
            return _bit_ratios(distribution, weight, cut)


def _identical_ratios(distribution: IdenticalReports, weight: Floats, cut: int) -> Floats:
    """Pr[r, u | s] is Pr[r | s] if both are one answer, else 0."""
    with np.errstate(divide="ignore"):
        logs = distribution.log_response_prob + np.log(weight)
        total = logsumexp(logs, axis=1, keepdims=True)
        # an answer that no slot with weight can have says nothing of slots
        total[np.isneginf(total)] = 0.0
        slot = np.exp(logs - total)
        again = np.log(slot @ weight) - total[:, 0]
        one, two = distribution.response[:cut], distribution.response[cut:]
        apart = np.log1p(-np.minimum(slot[one] @ slot[two].T, 1.0))
    same = one[:, None] == two
    ratios: Floats = np.where(same, np.logaddexp(apart, again[one][:, None]), apart)
    return ratios


def _value_ratios(distribution: NoisyValues, weight: Floats, cut: int) -> Floats:
    """The chance of a value is q + (p - q) m, with m the weight of the slots whose answer it is."""
    (p, q), (sent, other) = distribution.permanent, distribution.instantaneous
    one, two = distribution.value[:cut], distribution.value[cut:]
    held, squared = (
        np.bincount(distribution.slot_value, weights=mass, minlength=distribution.n_values)
        for mass in (weight, weight**2)
    )
    chance = other + (sent - other) * (q * weight.sum() + (p - q) * held)
    alone, rest = squared, float(np.sum(weight**2))
    spread = p * (1.0 - p) * alone + q * (1.0 - q) * (rest - alone)
    pair = alone[one][:, None] + alone[two]
    together = np.where(one[:, None] == two, spread[one][:, None], -(q * q * (rest - pair) + p * q * pair))
    ratio = 1.0 + (sent - other) ** 2 * together / (chance[one][:, None] * chance[two])
    with np.errstate(divide="ignore"):
        ratios: Floats = np.log(np.maximum(ratio, 0.0))
    return ratios


def _bit_ratios(distribution: NoisyBits, weight: Floats, cut: int) -> Floats:
    """A product over bits, by whether the slot sets them."""
    # a bit that nothing sets is taken for a very rare one: else two reports that have it cannot be compared
    set_, unset = distribution.permanent
    pairs, singles = zip(*(_bit_chances(one, *distribution.instantaneous) for one in (set_, unset)), strict=True)
    pairs, singles = (pairs[0], np.maximum(pairs[1], NEVER)), (singles[0], np.maximum(singles[1], NEVER))
    m, ones = distribution.ones.shape[1], distribution.ones.sum(axis=1, dtype=np.int64)
    one, two = distribution.ones[:cut].astype(np.float64), distribution.ones[cut:].astype(np.float64)
    both = np.rint(one @ two.T)
    differ = ones[:cut][:, None] + ones[cut:] - 2 * both
    alike = m - both - differ
    base = xlogy(both, pairs[1][1, 1]) + xlogy(differ, pairs[1][0, 1]) + xlogy(alike, pairs[1][0, 0])
    plain = xlogy(ones, singles[1][1]) + xlogy(m - ones, singles[1][0])
    of_one, of_two = _over(*singles), _over(*pairs)
    total, share, slots = np.zeros(len(ones)), np.zeros(both.shape), np.zeros(both.shape)
    tile = max(1, CELLS // len(ones))
    for start in range(0, len(weight), tile):
        some = slice(start, start + tile)
        digits = _digits(distribution.ones, distribution.positions[:, some])
        picked = weight[some] * _product(of_one, digits)
        total += picked.sum(axis=1)
        share += picked[:cut] @ picked[cut:].T
        slots += _together(digits, cut, of_two, weight[some] ** 2)
    share /= total[:cut][:, None] * total[cut:]
    with np.errstate(divide="ignore"):
        joint = base - plain[:cut][:, None] - plain[cut:] + np.log(slots) - np.log(total[:cut])[:, None]
        ratios: Floats = np.logaddexp(np.log1p(-np.minimum(share, 1.0)), joint - np.log(total[cut:]))
    return ratios


def _bit_chances(one: float, q: float, p: float) -> tuple[Floats, Floats]:
    """(2, 2) of two reports of one answer and (2,) of one, whose bit is one with that probability."""
    of_one, of_zero = np.array([1.0 - q, q]), np.array([1.0 - p, p])
    pair: Floats = one * np.outer(of_one, of_one) + (1.0 - one) * np.outer(of_zero, of_zero)
    single: Floats = one * of_one + (1.0 - one) * of_zero
    return pair, single


def _digits(ones: NDArray[np.uint8], positions: NDArray[np.integer]) -> NDArray[np.uint8]:
    """(any, reports, slots) the bits of a report that a slot sets, 0 or 1; 2 where there is none."""
    bits = np.hstack([ones, np.full((len(ones), 1), 2, dtype=np.uint8)])
    return np.stack([bits[:, row] for row in positions])


def _together(digits: NDArray[np.uint8], cut: int, ratio: Floats, weight: Floats) -> Floats:
    """(cut, rest) the sum over slots of weight times the ratios of two reports at all bits of the slot.

    A slot of few bits has few patterns, and there is a product of matrices for each. With more, reports are taken one
    by one: a table of all pairs of patterns would have 43 million numbers for 8 bits.
    """
    first, second, out = digits[:, :cut], digits[:, cut:], np.zeros((cut, digits.shape[1] - cut))
    if len(digits) <= FEW_REPORTS:
        one, two, every = _codes(first), _codes(second), np.indices([3] * len(digits)).reshape(len(digits), -1)
        for code in np.unique(one):
            out += np.where(one == code, weight, 0.0) @ _product(ratio, every[:, [code]], every)[two].T
        return out
    for r in range(cut):
        out[r] = _product(ratio, first[:, [r]], second) @ weight
    return out


def _codes(digits: NDArray[np.uint8]) -> NDArray[np.int64]:
    """(reports, slots) the number of a pattern."""
    code = np.zeros(digits.shape[1:], dtype=np.int64)
    for digit in digits:
        code = 3 * code + digit
    return code


def _product(ratio: Floats, *digits: NDArray[np.integer]) -> Floats:
    """The product of the ratios at all digits, of one report or of two."""
    out: Floats = np.ones(np.broadcast_shapes(*(of.shape[1:] for of in digits)))
    for each in zip(*digits, strict=True):
        out *= ratio[each]
    return out


def _over(set_: Floats, unset: Floats) -> Floats:
    """How much likelier bits are where a slot sets them, of one report or of two; 1 where there is none."""
    ratio = np.ones([size + 1 for size in unset.shape])
    ratio[tuple(slice(0, size) for size in unset.shape)] = set_ / unset
    return ratio
