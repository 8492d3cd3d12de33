"""What no adversary can beat, whatever it knows: bounds that follow from epsilon alone.

They hold for reports that are drawn anew. A device that keeps its answers shows which reports are of the same object,
which no epsilon of single reports bounds.
"""

from __future__ import annotations

import math
from itertools import accumulate

import numpy as np
from scipy import special

from poolscope.base.arrays import Floats, Integers
from poolscope.base.errors import InputError
from poolscope.mechanisms.role import LARGEST_EPSILON

NUMBERS, NEVER = 100, 1e-15
"""Into how many groups the possible numbers of reports are put at most, and the chance below which one never occurs."""


def most_right(epsilon: float, n: int, best: float) -> float:
    r"""The most that anyone can be right about a user's pool after n reports that are epsilon-LDP each.

    Two pools are told apart best if every report is a randomized response: with J ~ Binomial(n, 1 / (1 + e^epsilon))
    lies among n, every event has :math:`\Pr[E | i] \le e^s \Pr[E | j] + \delta(s)` (Kairouz, Oh, Viswanath), where

    .. math:: 1 - \delta(s) = E[\min(1, e^{s - (n - 2 J) \epsilon})] .

    Be R the probability of a right guess, of pools the most common of which is preferred with probability b. Taken for
    the events "i is guessed", with each j weighed as it is preferred among the pools other than i, this gives
    :math:`R \le e^s \frac{b}{1 - b} (1 - R) + \delta(s)`, and so for every s

    .. math:: 1 - R \ge \frac{1 - \delta(s)}{1 + e^s b / (1 - b)} :

    all is told with probability delta, else the odds of the best guess grow by e^s. The least bound is at one of
    s = n epsilon, (n - 2) epsilon, ..., -n epsilon. From b = 1/2 on, two pools are the worst case, and its error
    :math:`E[\min(b, (1 - b) e^{-(n - 2 J) \epsilon})]` is known.

    It is met by randomized response: of two pools for every n and b, of k pools that are evenly preferred for n = 1.
    Users may pick objects in any way; the bound is of the guess about everyone, not about those of whom one is sure.

    Parameters
    ----------
    epsilon : of one report, infinity included.
    best : b, how often the best guess without reports is right; 1/k where pools are evenly preferred.

    References
    ----------
    P. Kairouz, S. Oh, P. Viswanath. The composition theorem for differential privacy. ICML 2015.

    Examples
    --------
    >>> round(ps.metrics.most_right(epsilon=1.0, n=1, best=0.5), 3)
    0.731
    >>> round(ps.metrics.most_right(epsilon=1.0, n=30, best=0.5), 3)
    0.996
    """
    _check_epsilon(epsilon)
    if n < 0:
        raise InputError("n must be at least 0", value=n)
    if not 0 < best <= 1:
        raise InputError("best must be a probability above 0", value=best)
    epsilon = min(epsilon, LARGEST_EPSILON)
    p = _lies(epsilon, n)
    if best >= 0.5:
        wrong = np.minimum(best * p, (1 - best) * p[::-1]).sum()
    else:
        s = (n - 2 * np.arange(n + 1)) * epsilon
        wrong = (_hidden(p, epsilon) * special.expit(-s - special.logit(best))).max()
    return float(np.clip(1 - wrong, best, 1))


def most_right_in_mean(epsilon: float, counts: Integers, chances: Floats, best: float) -> float:
    """`most_right` where the number of reports is one of several, (counts,) with their chances, whatever the pool is.

    Where there are many numbers, those of a group count as their largest, and those that hardly ever occur as if they
    told all.
    """
    likely = np.flatnonzero(chances > NEVER)
    right = 1.0 - float(chances[likely].sum())
    for some in np.array_split(likely, min(len(likely), NUMBERS)):
        right += float(chances[some].sum()) * most_right(epsilon, int(counts[some].max()), best)
    return min(right, 1.0)


def _lies(epsilon: float, n: int) -> Floats:
    """(n + 1,) probability of each number of lies among n randomized responses."""
    j = np.arange(n + 1)
    ways = special.gammaln(n + 1) - special.gammaln(j + 1) - special.gammaln(n - j + 1)
    p: Floats = np.exp(ways - j * epsilon - n * np.log1p(np.exp(-epsilon)))
    # logarithms of large factorials are wrong in the last digits, by nearly the same for all
    p /= p.sum()
    return p


def _hidden(p: Floats, epsilon: float) -> Floats:
    r"""(n + 1,) 1 - delta(s) at s = (n - 2 l) epsilon, for l = 0 to n: sums of what is positive, so no digit is lost.

    .. math:: 1 - \delta = \sum_{j \ge l} p_j + \sum_{j < l} p_j e^{-2 \epsilon (l - j)}
    """
    fade = math.exp(-2 * epsilon)
    told = list(accumulate(p.tolist(), lambda before, new: fade * before + new))
    return np.cumsum(p[::-1])[::-1] + fade * np.array([0.0, *told[:-1]])


def _check_epsilon(epsilon: float) -> None:
    if not epsilon >= 0:
        raise InputError("epsilon must be at least 0", value=epsilon)
