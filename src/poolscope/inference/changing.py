r"""An attack on users whose preferred pool may change.

The preferred pool is a Markov chain over the pools: between two reports it changes with probability `rate`, to each
other pool with equal probability. Relevant interest and polarization stay the same. Given these, the forward recursion
sums over all paths of pools exactly. The double integral is that of eq. (score_estimate):

.. math:: \int\int \sum_{i_1, \dots, i_n} \Pr[i_1, \dots, i_n] \prod_t (\gamma\delta L_{t,i_t}
          + \gamma(1-\delta) \overline{L_{t,j \ne i_t}} + (1-\gamma) L_{t,0}) \, p(\gamma)\, p(\delta)\,
          d\delta\, d\gamma .

It is a sum of products of non-negative bilinear factors, so that the bounds of `quadrature` hold for every term, and
its rules apply. With a single change, pools change at most once: the posterior of a change point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from poolscope.core.arguments import as_floats, is_number
from poolscope.core.arrays import Floats, Integers
from poolscope.core.errors import InputError
from poolscope.inference.custom import AttackContext
from poolscope.inference.quadrature import fixed_rule
from poolscope.kernels import changing as kernels
from poolscope.mechanisms.protocols import Reports
from poolscope.population.behavior import Behavior

#: Probability of a change between two reports: three in ten users change within 180 reports.
RATE = 0.002


def _check_rate(rate: float) -> None:
    if not (is_number(rate) and 0 <= rate < 1):
        raise InputError("rate must be a probability below 1", value=rate)


def _grid(belief: Behavior, k: int, n: int, neutral: bool) -> tuple[Floats, Floats, Floats]:
    """Return nodes (gamma, delta) and their weights, flat, for any n reports."""
    g, w_g = (fixed_rule(belief.interest, n)[[0, 2]]) if neutral else np.ones((2, 1))
    u, w_u = fixed_rule(belief.polarization, n)[[0, 2]]
    gamma, delta = np.meshgrid(g, 1.0 / k + (1.0 - 1.0 / k) * u, indexing="ij")
    weight = np.outer(w_g, w_u).ravel()
    some = weight > 0
    return gamma.ravel()[some], delta.ravel()[some], weight[some] / weight.sum()


@dataclass(frozen=True, kw_only=True)
class ChangingPreference:
    """The attack that allows the preferred pool to change; its posterior is of the current pool.

    Parameters
    ----------
    rate : probability of a change between two reports.
    returns : whether the pool may change more than once; otherwise it changes at most once.

    Examples
    --------
    >>> ps.attacks.ChangingPreference(rate=0.01).name
    'changing'
    """

    rate: float = RATE
    returns: bool = True
    name: str = "changing"

    def __post_init__(self) -> None:
        _check_rate(self.rate)

    def posteriors(
        self, reports: Reports, lengths: Integers, observations: Sequence[int], context: AttackContext
    ) -> Floats:
        """Return the posteriors of the pool that each user prefers at each count."""
        likelihood, ends = context.likelihoods(reports), np.cumsum(lengths)
        belief, k = context.belief, context.universe.k
        out = np.empty((len(lengths), len(observations), len(context.hypotheses)))
        for user, (stop, length) in enumerate(zip(ends, lengths, strict=True)):
            n = int(min(length, max(observations)))
            own = likelihood[stop - length : stop - length + n]
            found, _, log_evidence = _filtered(
                own, belief, self.rate, self.returns, neutral=bool(context.universe.neutral_size)
            )
            if belief.none:
                with np.errstate(divide="ignore"):
                    of_none = np.append(0.0, np.cumsum(np.log(own[:, 0]))) - log_evidence
                odds = special.logit(belief.none) + np.where(np.isnan(of_none), 0.0, of_none)
                none = special.expit(odds)[:, None]
                found = np.hstack([(1.0 - none) * np.where(np.isnan(found), 1.0 / k, found), none])
            rows = found[np.minimum(observations, n)]
            out[user] = np.where(np.isnan(rows), context.adversary.prior, rows)
        return out


def _filtered(
    likelihood: Floats, belief: Behavior, rate: float, returns: bool, *, neutral: bool
) -> tuple[Floats, Floats, Floats]:
    """Return posteriors of the current pool (n + 1, k), of a change (n + 1,), and log evidence, for one user."""
    n, columns = likelihood.shape
    k = columns - 1
    out, changed, log_evidence = np.empty((n + 1, k)), np.empty(n + 1), np.empty(n + 1)
    grid = _grid(belief, k, n, neutral)
    kernels.filtered(
        np.ascontiguousarray(likelihood), belief.pool_prior(k), *grid, rate, returns, out, changed, log_evidence
    )
    return out, changed, log_evidence


@dataclass(frozen=True, kw_only=True, eq=False)
class PreferenceHistory:
    """What the reports of one user say about the preferred pool over time.

    Parameters
    ----------
    current : (n + 1, k) posterior of the pool at each report, given the reports up to it; row 0 is the prior.
    smoothed : (n, k) posterior of the pool at each report, given all reports.
    changed : (n + 1,) probability that the preference has changed, given the reports up to each.
    first_change : (n,) probability, given all reports, that the preference first changed before report t; entry 0 is 0.

    Examples
    --------
    >>> likelihood = np.array([[1.0, 9.0, 1.0]] * 30 + [[1.0, 1.0, 9.0]] * 30)
    >>> history = ps.attacks.preference_history(likelihood, rate=0.01)
    >>> bool(history.changed[-1] > 0.99), int(history.first_change.argmax())
    (True, 30)
    """

    current: Floats
    smoothed: Floats
    changed: Floats
    first_change: Floats


def preference_history(
    likelihood: ArrayLike, *, belief: Behavior | None = None, rate: float = RATE, returns: bool = True
) -> PreferenceHistory:
    """Return the posterior of the preferred pool at every report, and whether and when it has changed.

    Parameters
    ----------
    likelihood : (n, 1 + k) Pr[report | pool], the neutral pool first, up to a factor of each report;
        `AttackContext.likelihoods` returns it.
    belief : the priors; uniform where absent.
    rate, returns : as of `ChangingPreference`.

    Examples
    --------
    >>> history = ps.attacks.preference_history(np.array([[1.0, 3.0, 1.0], [1.0, 1.0, 3.0]]), rate=0.1)
    >>> history.current.shape, history.smoothed.shape
    ((3, 2), (2, 2))
    """
    table, belief = as_floats("likelihood", likelihood), belief or Behavior()
    _check_rate(rate)
    if table.ndim != 2 or table.shape[1] < 3 or not len(table):
        raise InputError("likelihood must be (n, 1 + pools) with two pools or more", value=table.shape)
    if not np.all(np.isfinite(table) & (table >= 0)) or not np.all(table.max(axis=1) > 0):
        raise InputError("likelihoods must be finite and not negative, and not all zero in a row")
    n, k = len(table), table.shape[1] - 1
    current, changed, _ = _filtered(table, belief, rate, returns, neutral=True)
    gamma, delta, weight = _grid(belief, k, n, neutral=True)
    other = gamma * (1 - delta) / (k - 1)
    leave, again = rate / (k - 1), rate / (k - 1) if returns else 0.0

    def factors(t: int) -> Floats:
        base = other * table[t, 1:].sum() + (1 - gamma) * table[t, 0]
        out: Floats = (base[:, None] + (gamma * delta - other)[:, None] * table[t, 1:]) / table[t].max()
        return out

    # forward: weights of paths that have never changed, and of those that have
    first, later = np.empty((n, len(weight), k)), np.empty((n, len(weight), k))
    x, y = weight[:, None] * belief.pool_prior(k), np.zeros((len(weight), k))
    for t in range(n):
        if t:
            y = y * (1 - again * (k - 1)) + again * (y.sum(axis=1, keepdims=True) - y)
            y += leave * (x.sum(axis=1, keepdims=True) - x)
            x = x * (1 - rate)
        x, y = x * factors(t), y * factors(t)
        total = x.sum() + y.sum()
        first[t], later[t] = x / total, y / total
        x, y = first[t], later[t]
    # backward: probabilities of later reports, and of a first change before each
    smoothed, first_change = np.empty((n, k)), np.zeros(n)
    after_first, after_later = np.ones((2, len(weight), k))
    for t in reversed(range(n)):
        joint = first[t] * after_first + later[t] * after_later
        smoothed[t] = joint.sum(axis=0) / joint.sum()
        if t:
            seen_first, seen_later = factors(t) * after_first, factors(t) * after_later
            moved = leave * (seen_later.sum(axis=1, keepdims=True) - seen_later)
            after_first = (1 - rate) * seen_first + moved
            after_later = seen_later * (1 - again * (k - 1))
            after_later += again * (seen_later.sum(axis=1, keepdims=True) - seen_later)
            total = (first[t - 1] * after_first + later[t - 1] * after_later).sum()
            first_change[t] = (first[t - 1] * moved).sum() / total
            after_first, after_later = after_first / total, after_later / total
    return PreferenceHistory(current=current, smoothed=smoothed, changed=changed, first_change=first_change)
