"""What no adversary can beat, whatever it knows: bounds that follow from epsilon alone.

They hold for reports with fresh noise. A memoized response shows which reports are of the same object, which no
epsilon of single reports bounds.
"""

from __future__ import annotations

import math
from itertools import accumulate

import numpy as np
from scipy import special

from poolscope.core.arrays import Floats, Integers
from poolscope.core.errors import InputError
from poolscope.mechanisms.protocols import LARGEST_EPSILON
from poolscope.metrics.trade_off import check_reports

NUMBERS, NEVER = 100, 1e-15
"""Into how many groups the possible numbers of reports are put at most, and the chance below which one never occurs."""


def most_right(epsilon: float, n: int, best: float) -> float:
    r"""Bound the probability that any adversary guesses a user's pool from n reports that are epsilon-LDP each.

    Without reports, the best guess is right with probability b. The result is the smaller of two bounds. Both hold for
    every prior whose largest probability is b, and however users pick their objects.

    **Tests against one reference.** Each likelihood vector of an epsilon-LDP report, over the pools, is a mixture of
    vectors that take two values only, v for the pools outside a set S and :math:`v e^\epsilon` for those inside. So
    the report of an extremal channel is a set S, with probability :math:`\theta_S` for the pools outside it and
    :math:`\theta_S e^\epsilon` for those inside, and the probabilities of each pool sum to one. Draw S with probability
    proportional to :math:`\theta_S` instead. Under this reference Q, S contains *every* pool with the same probability
    f, and the likelihood ratio of every pool to Q takes the same two values. Hence a guess, which is right with
    probability at most b under Q, is a test of size b between

    .. math:: Q: \ K \sim \mathrm{Binomial}(n, f) \quad \text{and} \quad
              P: \ K \sim \mathrm{Binomial}(n, p) , \quad \frac{p}{1 - p} = e^\epsilon \frac{f}{1 - f} ,

    where K counts the reports whose set contains the pool. Reports may differ in f, but equal ones are the worst case.
    For a given test of K, the size is affine and symmetric in each f, and the power in each p. Change the f of two
    reports and keep the size: the power is a ratio of affine functions of their product, hence monotone in it. So the
    two are best equal, or one of them says nothing (f is 0 or 1; Hoeffding's argument). As a function of a common f,
    the power is quasiconvex between the sizes of nonrandomized tests, so that one of these is the best:

    .. math:: \Pr[\text{right}] \le \max_{1 \le j \le n} \Pr[\mathrm{Binomial}(n, p_j) \ge j] , \quad
              \Pr[\mathrm{Binomial}(n, f_j) \ge j] = b .

    This bound needs users who do not choose objects by the noise of earlier reports: given all that users draw at
    random, reports are independent. One report about k evenly preferred pools attains it. So do n reports about
    :math:`s^n` pools, each about one digit of the pool, as long as j = n is the largest term.

    **Pairs of pools.** With J ~ Binomial(n, 1 / (1 + e^epsilon)) lies among n, every event has :math:`\Pr[E | i] \le
    e^s \Pr[E | j] + \delta(s)` (Kairouz, Oh, Viswanath), where :math:`1 - \delta(s) = E[\min(1, e^{s - (n - 2 J)
    \epsilon})]`. Averaged over the guesses this gives, for s = n epsilon, (n - 2) epsilon, ..., -n epsilon,

    .. math:: \Pr[\text{wrong}] \ge \frac{1 - \delta(s)}{1 + e^s b / (1 - b)} .

    From b = 1/2 on, two pools are the worst case. Their error :math:`E[\min(b, (1 - b) e^{-(n - 2 J) \epsilon})]` is
    exact, and randomized response attains it.

    The bound is on guesses about all users. It is not a bound on the guesses with the largest confidence.

    Parameters
    ----------
    epsilon : of one report, infinity included.
    best : b, how often the best guess without reports is right; 1/k where pools are evenly preferred.

    References
    ----------
    P. Kairouz, S. Oh, P. Viswanath. Extremal mechanisms for local differential privacy. JMLR 17, 2016; theorem 2.

    P. Kairouz, S. Oh, P. Viswanath. The composition theorem for differential privacy. ICML 2015.

    G. Vazquez-Vilar, A. Tauste Campo, A. Guillén i Fàbregas, A. Martinez. Bayesian M-ary hypothesis testing: the
    meta-converse and Verdú-Han bounds are tight. IEEE Transactions on Information Theory 62, 2016.

    W. Hoeffding. On the distribution of the number of successes in independent trials. Annals of Mathematical
    Statistics 27, 1956.

    Examples
    --------
    >>> round(ps.metrics.most_right(epsilon=1.0, n=1, best=0.5), 3)
    0.731
    >>> round(ps.metrics.most_right(epsilon=1.0, n=2, best=1 / 6), 3)
    0.425
    """
    check_reports(epsilon, n)
    if not 0 < best <= 1:
        raise InputError("best must be a probability above 0", value=best)
    epsilon = min(epsilon, LARGEST_EPSILON)
    p = _lies(epsilon, n)
    if best >= 0.5:
        wrong = float(np.minimum(best * p, (1 - best) * p[::-1]).sum())
    else:
        s = (n - 2 * np.arange(n + 1)) * epsilon
        pairs = (_hidden(p, epsilon) * special.expit(-s - special.logit(best))).max()
        wrong = max(float(pairs), _missed(epsilon, n, best))
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


def _missed(epsilon: float, n: int, size: float) -> float:
    """Least error of the second kind of a test of this size against one reference, over all channels."""
    if n == 0:
        return 1 - size
    j = np.arange(1, n + 1)
    f = special.betaincinv(j, n - j + 1, size)
    p = special.expit(special.logit(f) + epsilon)
    return float(special.betaincc(j, n - j + 1, p).min())


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
