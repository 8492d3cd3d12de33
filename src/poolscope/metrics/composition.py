r"""The bound for any adversary on reports of several values of ε, which compose exactly.

Of two candidates, the worst case is one randomized response for each report. With n_c reports of epsilon_c, of which
J_c ~ Binomial(n_c, 1 / (1 + e^epsilon_c)) are lies, the privacy loss is

.. math:: L = \sum_c (n_c - 2 J_c) \, \epsilon_c .

Its atoms are enumerated: a pair of masses (p, q) with :math:`p = e^L q`. Where there would be too many, each is split
between two points of a lattice of losses such that both masses stay. That is a dilation: no test loses by it, so that
the result is still a bound.

References
----------
P. Kairouz, S. Oh, P. Viswanath. The composition theorem for differential privacy. ICML 2015.

V. Doroshenko, B. Ghazi, P. Kamath, R. Kumar, P. Manurangsi. Connect the dots: tighter discrete approximations of
privacy loss distributions. PoPETs 2022.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np
from scipy import special

from poolscope.core.arrays import Floats, Integers
from poolscope.core.errors import InputError
from poolscope.mechanisms.protocols import MAX_EPSILON
from poolscope.metrics.bounds import NEVER, check_reports, success_bound

MAX_ATOMS = 1 << 17
"""Atoms of a privacy loss; more are split between this many points."""

MAX_COMBINATIONS = 64
"""Combinations of numbers of reports whose bounds are averaged."""


def composed_success_bound(epsilons: Sequence[float], counts: Sequence[int], prior_success: float) -> float:
    r"""Return the largest probability with which anyone guesses right, from reports of several values of ε.

    For two candidates (b = 1/2) it is exact: randomized responses attain it. For more, it is the smaller of two bounds:
    that of pairs of candidates, :math:`\Pr[\text{wrong}] \ge (1 - \delta(s)) / (1 + e^s b / (1 - b))` for every s, and
    `success_bound` of as many reports of the largest ε.

    Parameters
    ----------
    epsilons, counts : of the reports of each collection: ε of one report, infinity included, and their number.
    prior_success : b, how often the best guess without reports is right.

    Examples
    --------
    >>> round(ps.metrics.composed_success_bound([1.0, 2.0], [1, 1], 0.5), 3)
    0.881
    >>> round(ps.metrics.composed_success_bound([1.0, 1.0], [1, 1], 1 / 6), 3)
    0.425
    """
    if len(epsilons) != len(counts):
        raise InputError("there must be a number of reports for each epsilon", value=len(counts))
    for epsilon, count in zip(epsilons, counts, strict=True):
        check_reports(epsilon, count)
    used: dict[float, int] = {}
    for epsilon, count in zip(epsilons, counts, strict=True):
        if count:
            used[min(epsilon, MAX_EPSILON)] = used.get(min(epsilon, MAX_EPSILON), 0) + count
    equal = success_bound(max(used, default=0.0), sum(used.values()), prior_success)
    if len(used) < 2:
        return equal
    loss, p = privacy_loss(list(used), list(used.values()))
    b = prior_success
    if b >= 0.5:
        # p e^-L is the other mass of an atom
        wrong = float((p * np.minimum(b, (1 - b) * np.exp(np.clip(-loss, -700.0, 700.0)))).sum())
    else:
        wrong = float((_one_minus_delta(loss, p) * special.expit(-loss - special.logit(b))).max())
    return float(np.clip(min(1 - wrong, equal), b, 1))


def mean_composed_bound(
    epsilons: Sequence[float], distributions: Sequence[tuple[Integers, Floats]], prior_success: float
) -> float:
    """Return the mean bound over the numbers of reports of each collection, given with their probabilities.

    Where there are many numbers, those of a group count as their largest. For those that hardly ever occur the bound
    is 1.
    """
    most = max(1, int(MAX_COMBINATIONS ** (1 / max(1, sum(len(counts) > 1 for counts, _ in distributions)))))
    grouped = []
    for counts, chances in distributions:
        likely = np.flatnonzero(chances > NEVER)
        parts = np.array_split(likely, min(len(likely), most))
        grouped.append([(int(counts[some].max()), float(chances[some].sum())) for some in parts])
    right, covered = 0.0, 0.0
    for combination in product(*grouped):
        chance = math.prod(part for _, part in combination)
        right += chance * composed_success_bound(epsilons, [count for count, _ in combination], prior_success)
        covered += chance
    return min(right + 1.0 - covered, 1.0)


def privacy_loss(epsilons: Sequence[float], counts: Sequence[int]) -> tuple[Floats, Floats]:
    """Return the atoms of the privacy loss of composed randomized responses: losses in increasing order, and masses.

    The masses are those under the first candidate; under the second they are smaller by e^loss.
    """
    loss, mass = np.zeros(1), np.ones(1)
    for epsilon, count in sorted(zip(epsilons, counts, strict=True)):
        j = np.arange(count + 1)
        ways = special.gammaln(count + 1) - special.gammaln(j + 1) - special.gammaln(count - j + 1)
        own = np.exp(ways - j * epsilon - count * np.log1p(np.exp(-epsilon)))
        own /= own.sum()
        loss = (loss[:, None] + ((count - 2 * j) * epsilon)[None]).ravel()
        mass = (mass[:, None] * own).ravel()
        there = mass > 0
        loss, mass = loss[there], mass[there]
        if len(loss) > MAX_ATOMS:
            loss, mass = _on_lattice(loss, mass)
    order = np.argsort(loss, kind="stable")
    return loss[order], mass[order]


def _on_lattice(loss: Floats, mass: Floats) -> tuple[Floats, Floats]:
    """Split every atom between its neighbors on a lattice such that both of its masses stay."""
    points = np.linspace(loss.min(), loss.max(), MAX_ATOMS // 8)
    step = points[1] - points[0]
    below = np.minimum(((loss - points[0]) / step).astype(np.int64), len(points) - 2)
    # p = p1 + p2 and p e^-l = p1 e^-l1 + p2 e^-l2 with l2 = l1 + step
    upper = np.clip(-np.expm1(-(loss - points[below])) / -np.expm1(-step), 0.0, 1.0)
    out = np.bincount(below, mass * (1 - upper), len(points)) + np.bincount(below + 1, mass * upper, len(points))
    return points, out.astype(np.float64)


def _one_minus_delta(loss: Floats, p: Floats) -> Floats:
    """Return 1 - delta(s) = E[min(1, e^(s - L))] at each loss s, for losses in increasing order."""
    below, beyond, after = np.cumsum(p), np.zeros(len(p)), 0.0
    fade = np.exp(-np.diff(loss))
    for i in range(len(p) - 2, -1, -1):
        after = (after + p[i + 1]) * fade[i]
        beyond[i] = after
    found: Floats = below + beyond
    return found
