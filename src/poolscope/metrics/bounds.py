"""Bounds for any adversary, trade-off curves, and the cumulative ε behind them.

They follow from ε alone, and hold for reports with fresh noise. A memoized response shows which reports are of
the same object, which no ε of single reports bounds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
from scipy import special

from poolscope.core.arrays import Floats, Integers
from poolscope.core.errors import InputError
from poolscope.devices.policy import ReportingPolicy
from poolscope.devices.protocols import Device
from poolscope.mechanisms.protocols import MAX_EPSILON, flip_probability
from poolscope.metrics.models import Real, Result, result

if TYPE_CHECKING:
    from poolscope.game.game import Game


DAYS = 365
"""Days of a year."""


@result
class CumulativeEpsilon(Result):
    """The ε of a report, and the sums over a day, a year and all time by sequential composition.

    Where a share of events is reported, sums are of the mean number of reports. None is unknown: `day` and `year`
    without a rate of reports, `total` without a cap.

    Memoized reports are not independent, and their values of ε do not add up. `response` is the ε of a memoized
    response, which bounds all reports of it together. `total` is then the longitudinal ε of the papers: that of a
    response times the number of responses. It says nothing about which reports share a response.

    Examples
    --------
    >>> ps.metrics.CumulativeEpsilon(report=4.0, day=4.0, year=1460.0).year
    1460.0
    """

    report: Real
    day: Real | None = None
    year: Real | None = None
    total: Real | None = None
    response: Real | None = None


class MemoizedResponses(NamedTuple):
    """The memoized responses of a device: the ε of each, and the largest number of them.

    Examples
    --------
    >>> ps.metrics.MemoizedResponses(epsilon=2.0, n_responses=30).spent(reports=10)
    20.0
    """

    epsilon: float
    n_responses: int

    def spent(self, reports: float) -> float:
        """Return the total ε of this many reports, each of a new response as long as there is one."""
        return self.epsilon * min(self.n_responses, reports)


def memoized_by(device: Device) -> MemoizedResponses | None:
    """Return the permanent responses of a device, as its mechanism states them; None where it has none.

    Examples
    --------
    >>> ps.metrics.memoized_by(ps.mechanisms.Memoized(mechanism))
    MemoizedResponses(epsilon=3.0, n_responses=30)
    """
    if not device.memoizes:
        return None
    mechanism: Any = device.mechanism
    epsilon = getattr(mechanism, "permanent_epsilon", mechanism.epsilon)
    return MemoizedResponses(float(epsilon), int(getattr(mechanism, "max_memoized_responses", mechanism.universe)))


def cumulative_epsilon(
    epsilon: float, policy: ReportingPolicy, *, memoized: MemoizedResponses | None = None
) -> CumulativeEpsilon:
    """Return the ε of a report with its sums over time; ``memoized`` are the memoized responses, if any.

    Examples
    --------
    >>> ps.metrics.cumulative_epsilon(4.0, ps.mechanisms.ReportingPolicy(reports_per_day=1.0))
    CumulativeEpsilon(report=4.0, day=4.0, year=1460.0, total=None, response=None)
    """
    if memoized is not None:
        most = math.inf if policy.cap is None else policy.cap
        return CumulativeEpsilon(report=epsilon, response=memoized.epsilon, total=memoized.spent(most))
    total = None if policy.cap is None else policy.cap * epsilon
    if policy.reports_per_day is None:
        return CumulativeEpsilon(report=epsilon, total=total)
    day, year = (epsilon * policy.mean_reports(days * policy.reports_per_day) for days in (1, DAYS))
    return CumulativeEpsilon(report=epsilon, day=day, year=year, total=total)


def epsilon_of(game: Game) -> CumulativeEpsilon:
    """Return the ε of a game with its time."""
    return cumulative_epsilon(float(game.mechanism.epsilon), game.policy, memoized=memoized_by(game.device))


def composition_bound(game: Game) -> float:
    """Return the total ε of a user's linked reports, or of the memoized responses that they can come from."""
    reports, memoized = int(game.policy.linkable_count_distribution(game.horizon)[0].max()), memoized_by(game.device)
    return reports * float(game.mechanism.epsilon) if memoized is None else memoized.spent(reports)


def describe_epsilon(epsilons: Sequence[CumulativeEpsilon], policy: ReportingPolicy) -> str:
    """Return one ε or several, as "ε = 4 per report, 1 report per day: 1,460 per year"."""
    words = f"ε = {_listed([epsilon.report for epsilon in epsilons])} per report"
    if policy.reports_per_day is not None:
        rate = policy.sampling_rate * policy.reports_per_day
        words += f", {_figure(rate)} report{'s' * (rate != 1)} per day"
        words += " on average" if policy.sampling_rate < 1 else ""
    sums = {
        "per memoized response": [epsilon.response for epsilon in epsilons],
        "per year": [epsilon.year for epsilon in epsilons],
        "in total": [epsilon.total for epsilon in epsilons],
    }
    if sums["per year"] == sums["in total"]:
        # the cap is reached within a year
        del sums["per year"]
    facts = [f"{_listed(known)} {when}" for when, of in sums.items() if (known := [x for x in of if x is not None])]
    return f"{words}: {', '.join(facts)}" if facts else words


def describe_epsilons(spent: Mapping[str, Sequence[CumulativeEpsilon]], policy: ReportingPolicy) -> list[str]:
    """Describe the values of ε of several mechanisms: fresh ones in one phrase, memoized ones in a phrase each."""
    memoized = {name: epsilons for name, epsilons in spent.items() if any(one.response is not None for one in epsilons)}
    fresh = [one for name, epsilons in spent.items() if name not in memoized for one in epsilons]
    facts = [f"{name}, {describe_epsilon(epsilons, policy)}" for name, epsilons in memoized.items()]
    return [describe_epsilon(fresh, policy), *facts] if fresh else facts


def devices_in_words(game: Game) -> list[str]:
    """Return what the devices of a game do beyond the mechanism, a phrase each."""
    policy, facts = game.policy, []
    if policy.sampling_rate < 1:
        facts.append(f"n counts events, of which {_figure(100 * policy.sampling_rate)}% are reported")
    if policy.cap is not None:
        facts.append(f"a device sends at most {policy.cap:,} report{'s' * (policy.cap != 1)}")
    if policy.rotate_after is not None:
        many = f"{policy.rotate_after:,} report{'s' * (policy.rotate_after != 1)}"
        facts.append(
            f"the pseudonym rotates after {many}: a guess is about one pseudonym, a user is exposed if one of theirs is"
        )
    if memoized_by(game.device):
        facts.append("a device memoizes its responses: their epsilons compose, one for each new object")
    if memoized_by(game.device) and policy.rotate_after is not None:
        facts.append("an adversary who knows of the memoization links pseudonyms by the responses")
    return facts


def in_days(counts: Sequence[int], reports_per_day: float) -> str:
    """Return how long these numbers of events take, as "7, 30 days"."""
    days = [n / reports_per_day for n in counts]
    return f"{_listed(days)} day{'s' * (days != [1])}"


def _listed(values: Sequence[float]) -> str:
    return ", ".join(dict.fromkeys(map(_figure, values)))


def _figure(value: float) -> str:
    """Return three digits, all of those before the point; infinity as its sign."""
    return f"{value:,.0f}" if 100 <= value < 1e15 else f"{value:.3g}".replace("inf", "∞")


@dataclass(frozen=True, eq=False)
class TradeOff:
    """A trade-off curve: the least false negative rate at each false positive rate.

    The curve joins its corners by straight lines, as a randomized test reaches the points between two corners.

    Parameters
    ----------
    fpr : (corners,) false positive rates, from 0 to 1.
    fnr : (corners,) the least false negative rate at each, from 1 to 0.

    Examples
    --------
    >>> curve = ps.metrics.trade_off(epsilon=1.0, n=2)
    >>> curve.fpr.round(3), curve.fnr.round(3)
    (array([0.   , 0.072, 0.466, 1.   ]), array([1.   , 0.466, 0.072, 0.   ]))
    >>> curve.table().columns
    ['fpr', 'fnr']
    """

    fpr: Floats
    fnr: Floats

    def fnr_at(self, fpr: float | Floats) -> Floats:
        """Return the least false negative rate at these false positive rates.

        Examples
        --------
        >>> float(ps.metrics.trade_off(epsilon=1.0, n=7).fnr_at(0.01).round(3))
        0.441
        """
        rates = np.asarray(fpr, dtype=np.float64)
        if not ((rates >= 0) & (rates <= 1)).all():
            raise InputError("fpr must be between 0 and 1", value=fpr)
        # of corners at the same rate the last is the lowest
        last = np.append(np.diff(self.fpr) > 0, True)
        found: Floats = np.interp(rates, self.fpr[last], self.fnr[last])
        return found

    @property
    def advantage(self) -> float:
        """Largest true positive rate minus false positive rate, which is the total variation distance."""
        return float((1 - self.fpr - self.fnr).max())

    def table(self) -> pl.DataFrame:
        """Return the corners as a table with the columns fpr and fnr."""
        return pl.DataFrame({"fpr": self.fpr, "fnr": self.fnr})


def trade_off(epsilon: float, n: int) -> TradeOff:
    r"""Return the trade-off curve of n ε-LDP reports about which of two candidates a user is.

    A false positive names the second candidate where the first is true, a false negative the first where the second
    is true. No test of n reports, each ε-LDP given those before it, has errors below the curve. Randomized
    response attains it: among n reports J ~ Binomial(n, 1 / (1 + e^epsilon)) are lies, so its corners are

    .. math:: \mathrm{FPR} = \Pr[J \ge j] , \qquad \mathrm{FNR} = \Pr[J \ge n + 1 - j] , \qquad j = n + 1, \dots, 0 .

    Parameters
    ----------
    epsilon : of one report, infinity included.

    References
    ----------
    P. Kairouz, S. Oh, P. Viswanath. The composition theorem for differential privacy. ICML 2015.

    J. Dong, A. Roth, W. Su. Gaussian differential privacy. Journal of the Royal Statistical Society B 84, 2022.

    Examples
    --------
    >>> round(ps.metrics.trade_off(epsilon=1.0, n=7).advantage, 3)
    0.821
    """
    check_reports(epsilon, n)
    j = np.arange(1, n + 1)
    tails = special.betainc(j, n - j + 1, flip_probability(epsilon))
    corners: Floats = np.concatenate([[1.0], tails, [0.0]])
    return TradeOff(fpr=corners[::-1].copy(), fnr=corners)


def check_reports(epsilon: float, n: int) -> None:
    """ε and n are at least 0; infinite ε is legal."""
    if not epsilon >= 0:
        raise InputError("epsilon must be at least 0", value=epsilon)
    if n < 0:
        raise InputError("n must be at least 0", value=n)


NUMBERS, NEVER = 100, 1e-15
"""Into how many groups the possible numbers of reports are put at most, and the chance below which one never occurs."""


def success_bound(epsilon: float, n: int, prior_success: float) -> float:
    r"""Bound the probability that any adversary guesses a user's pool from n reports that are ε-LDP each.

    Without reports, the best guess is right with probability b. The result is the smaller of two bounds. Both hold for
    every prior whose largest probability is b, and however users pick their objects.

    **Tests against one reference.** Each likelihood vector of an ε-LDP report, over the pools, is a mixture of
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
    \epsilon})]`. Averaged over the guesses this gives, for s = n ε, (n - 2) ε, ..., -n ε,

    .. math:: \Pr[\text{wrong}] \ge \frac{1 - \delta(s)}{1 + e^s b / (1 - b)} .

    From b = 1/2 on, two pools are the worst case. Their error :math:`E[\min(b, (1 - b) e^{-(n - 2 J) \epsilon})]` is
    exact, and randomized response attains it.

    The bound is on guesses about all users. It is not a bound on the guesses with the largest confidence.

    Parameters
    ----------
    epsilon : of one report, infinity included.
    prior_success : b, how often the best guess without reports is right; 1/k where pools are evenly preferred.

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
    >>> round(ps.metrics.success_bound(epsilon=1.0, n=1, prior_success=0.5), 3)
    0.731
    >>> round(ps.metrics.success_bound(epsilon=1.0, n=2, prior_success=1 / 6), 3)
    0.425
    """
    check_reports(epsilon, n)
    if not 0 < prior_success <= 1:
        raise InputError("prior_success must be a probability above 0", value=prior_success)
    epsilon = min(epsilon, MAX_EPSILON)
    p = _flip_count_pmf(epsilon, n)
    if prior_success >= 0.5:
        wrong = float(np.minimum(prior_success * p, (1 - prior_success) * p[::-1]).sum())
    else:
        s = (n - 2 * np.arange(n + 1)) * epsilon
        pairs = (_one_minus_delta(p, epsilon) * special.expit(-s - special.logit(prior_success))).max()
        wrong = max(float(pairs), _type_2_error(epsilon, n, prior_success))
    return float(np.clip(1 - wrong, prior_success, 1))


def mean_success_bound(epsilon: float, counts: Integers, chances: Floats, prior_success: float) -> float:
    """Return the mean `success_bound` over the number of reports: (counts,) with their probabilities, for any pool.

    Where there are many numbers, those of a group count as their largest. For those that hardly ever occur the bound
    is 1.
    """
    likely = np.flatnonzero(chances > NEVER)
    right = 1.0 - float(chances[likely].sum())
    for some in np.array_split(likely, min(len(likely), NUMBERS)):
        right += float(chances[some].sum()) * success_bound(epsilon, int(counts[some].max()), prior_success)
    return min(right, 1.0)


def _type_2_error(epsilon: float, n: int, size: float) -> float:
    """Return the least error of the second kind of a test of this size against one reference, over all channels."""
    if n == 0:
        return 1 - size
    j = np.arange(1, n + 1)
    f = special.betaincinv(j, n - j + 1, size)
    p = special.expit(special.logit(f) + epsilon)
    return float(special.betaincc(j, n - j + 1, p).min())


def _flip_count_pmf(epsilon: float, n: int) -> Floats:
    """(n + 1,) probability of each number of lies among n randomized responses."""
    j = np.arange(n + 1)
    ways = special.gammaln(n + 1) - special.gammaln(j + 1) - special.gammaln(n - j + 1)
    p: Floats = np.exp(ways - j * epsilon - n * np.log1p(np.exp(-epsilon)))
    # logarithms of large factorials are wrong in the last digits, by nearly the same for all
    p /= p.sum()
    return p


def _one_minus_delta(p: Floats, epsilon: float) -> Floats:
    r"""(n + 1,) 1 - delta(s) at s = (n - 2 l) ε, for l = 0 to n: sums of what is positive, so no digit is lost.

    .. math:: 1 - \delta = \sum_{j \ge l} p_j + \sum_{j < l} p_j e^{-2 \epsilon (l - j)}
    """
    fade = math.exp(-2 * epsilon)
    facts = list(accumulate(p.tolist(), lambda before, new: fade * before + new))
    return np.cumsum(p[::-1])[::-1] + fade * np.array([0.0, *facts[:-1]])
