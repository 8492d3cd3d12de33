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

GROUPS = 2000
"""Into how many groups the numbers of clones are put at most."""

HALVINGS = 50
"""Bisections of [0, epsilon]."""

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


def shuffled_epsilon(epsilon: float, devices: int, delta: float) -> float:
    r"""Central epsilon of one epsilon-LDP report from each device, shuffled: the clones bound, numerically.

    Each other device's report is, with probability e^-epsilon, a *clone*: as likely to come from the one object of the
    device in question as from its other. With C ~ Binomial(devices - 1, e^-epsilon) clones, A ~ Binomial(C, 1/2) and D
    = 1 with probability :math:`\alpha = e^\epsilon / (1 + e^\epsilon)`, the shuffled reports are as close as (A + D, C
    - A + 1 - D) and (A + 1 - D, C - A + D). Of these two delta is a sum over C of binomial tails, and the epsilon that
    is returned is the least that has the given delta, rounded up.

    Parameters
    ----------
    epsilon : of one report.
    devices : how many send a report.
    delta : how often more may be revealed.

    References
    ----------
    V. Feldman, A. McMillan, K. Talwar. Hiding among the clones: a simple and nearly optimal analysis of privacy
    amplification by shuffling. FOCS 2021, theorem 3.2.

    Examples
    --------
    >>> round(ps.metrics.shuffled_epsilon(1.0, devices=10_000, delta=1e-6), 3)
    0.053
    """
    _check_shuffle(epsilon, devices, delta)
    if epsilon > LARGEST_EPSILON:
        return epsilon
    clones, weights = _clones(devices - 1, epsilon, delta)

    def kept(central: float) -> bool:
        return bool(weights @ _told_apart(clones, epsilon, central) <= delta)

    if kept(0.0):
        return 0.0
    low, high = 0.0, epsilon
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if kept(middle) else (middle, high)
    return high


def _clones(others: int, epsilon: float, delta: float) -> tuple[Floats, Floats]:
    """Numbers of clones, and how likely each is.

    More clones hide better, so that a group of numbers may count as its smallest. Those far below the mean, which
    are there with a probability far below delta, are one group, and there are `GROUPS` of the others.
    """
    share, doubt = math.exp(-epsilon), math.log(1e6 / delta)
    mean, spread = others * share, math.sqrt(2 * others * share * doubt) + doubt
    low, high = max(0, math.floor(mean - spread)), min(others, math.ceil(mean + spread))
    clones = np.unique(np.floor([0, *np.linspace(low, high, min(GROUPS, high - low + 1))]))
    # from below, as the fewest clones count most: no digit of their probabilities is lost
    fewer = _at_least(others - clones + 1, others, -math.expm1(-epsilon))
    return clones, np.diff(fewer, append=1.0)


def _told_apart(clones: Floats, epsilon: float, central: float) -> Floats:
    """delta of the two laws at a central epsilon, for each number of clones.

    Their ratio grows with the first count x, and is above e^central from `first` on.
    """
    gap, lie, more = math.tanh(epsilon / 2), float(special.expit(-epsilon)), math.expm1(central)
    if gap == 0:
        return np.zeros_like(clones)
    gain, loss = gap - more * lie, gap + more * (1 - lie)
    first = np.floor((clones + 1) * loss / (gap * (2 + more))) + 1
    found = gain * _at_least(first - 1, clones, 0.5) - loss * _at_least(first, clones, 0.5)
    return np.maximum(found, 0.0)


def _at_least(x: Floats, trials: Floats | float, share: float) -> Floats:
    """Pr[Binomial(trials, share) >= x] for whole x."""
    inside = (x > 0) & (x <= trials)
    a = np.where(inside, x, 1.0)
    tail = special.betainc(a, np.where(inside, trials - a + 1, 1.0), share)
    out: Floats = np.where(inside, tail, np.where(x <= 0, 1.0, 0.0))
    return out


def shuffled_epsilon_in_closed_form(epsilon: float, devices: int, delta: float) -> float:
    r"""The clones bound in closed form: simpler than ``shuffled_epsilon``, and some three times as large.

    .. math:: \log\left(1 + \frac{1 - e^{-\epsilon}}{1 + e^{-\epsilon} / (1 + t)} \, t\right) , \quad
              t = 8 \sqrt{\frac{e^\epsilon \log(4 / \delta)}{N}} + \frac{8 e^\epsilon}{N} ,

    for N devices and epsilon up to :math:`\log(N / (16 \log(4 / \delta)))`; beyond, epsilon itself.

    References
    ----------
    Feldman, McMillan, Talwar, as for ``shuffled_epsilon``; in the form of the authors' own computation, which is
    slightly larger than theorem 3.1.

    Examples
    --------
    >>> round(ps.metrics.shuffled_epsilon_in_closed_form(1.0, devices=10_000, delta=1e-6), 3)
    0.233
    """
    _check_shuffle(epsilon, devices, delta)
    doubt = math.log(4 / delta)
    if epsilon > math.log(devices / (16 * doubt)):
        return epsilon
    t = 8 * math.sqrt(math.exp(epsilon) * doubt / devices) + 8 * math.exp(epsilon) / devices
    return min(epsilon, math.log1p(-math.expm1(-epsilon) / (1 + math.exp(-epsilon) / (1 + t)) * t))


def _check_epsilon(epsilon: float) -> None:
    if not epsilon >= 0:
        raise InputError("epsilon must be at least 0", value=epsilon)


def _check_shuffle(epsilon: float, devices: int, delta: float) -> None:
    _check_epsilon(epsilon)
    if devices < 1:
        raise InputError("devices must be at least 1", value=devices)
    if not 0 < delta < 1:
        raise InputError("delta must be above 0 and below 1", value=delta)
