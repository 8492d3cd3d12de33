r"""The confidence in a guess where several sets of pools were tried on the same reports.

A posterior compares the pools of one set, and assumes that users prefer one of them. An analyst who tries N sets of
pools and reports the most striking one has also chosen the set. Let each set be equally likely a priori to be the one
that describes a user. A user whom another set describes has no preference among the pools of this one: the
polarization is 1/k. With :math:`B` the Bayes factor of this set against that hypothesis, in the user's reports,

.. math:: \Pr[\text{this set}] = \frac{B}{B + N - 1}, \qquad
          B = \frac{\sum_i q_i \iint \prod_t (\gamma\delta L_{t,i} + \gamma(1-\delta) \overline{L_{t,j \ne i}}
              + (1-\gamma) L_{t,0}) \, p(\gamma) p(\delta) \, d\delta \, d\gamma}
              {\int \prod_t (\gamma \overline{L_t} + (1-\gamma) L_{t,0}) \, p(\gamma) \, d\gamma},

and the corrected confidence is the posterior of the guess times this probability. It equals the posterior for N = 1.
Prior odds of 1 to N - 1 are the Bayesian counterpart of Bonferroni's correction (Westfall, Johnson and Utts, Biometrika
1997). The hypothesis of no preferred pool is not corrected.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import expit, logit, logsumexp

from poolscope.core.arrays import Floats, Integers
from poolscope.inference.adversary import Adversary, posterior_block
from poolscope.inference.quadrature import fixed_rule
from poolscope.mechanisms.protocols import Mechanism

#: Users whose integrals over the relevant interest are held at a time.
USERS = 32


def log_odds(posterior: Floats) -> Floats:
    """Return (...,) the log-odds of the likeliest of the hypotheses (..., k) against all others together.

    Small posteriors of the others have all their digits, so that users whose confidence is 1.0 in double precision are
    still ordered; infinity where all others are 0.
    """
    largest = posterior.argmax(axis=-1)[..., None]
    others = posterior.copy()
    np.put_along_axis(others, largest, 0.0, axis=-1)
    with np.errstate(divide="ignore"):
        found: Floats = np.log(posterior.max(axis=-1)) - np.log(others.sum(axis=-1))
    return found


def log_set_bayes_factor(mechanism: Mechanism, adversary: Adversary, mass: Floats, lengths: Integers) -> Floats:
    """Return (users, n + 1) the log Bayes factor of the adversary's pools against no preference among them.

    `mass` (users, n, k + 1) are the popularity masses of the reports, neutral pool first. A factor that is not known,
    as where a report is impossible, is 0: reports then say nothing about the set.
    """
    neutral = adversary.universe.neutral_size > 0
    table, (users, n, _) = mass.copy(), mass.shape
    even = mass[:, :, 1:].mean(axis=2)
    if not neutral:
        # users pick from the pools alone, and the reference may be any: that of no preference
        table[:, :, 0] = even
    asked = replace(adversary, belief=replace(adversary.belief, none=0.5))
    with np.errstate(divide="ignore", invalid="ignore"):
        against_neutral = -logit(posterior_block(mechanism, asked, table, lengths)[:, :, -1])
        if not neutral:
            found = against_neutral
        else:
            offset, scale = mechanism.likelihood_offset, mechanism.likelihood_scale
            rule = fixed_rule(adversary.belief.interest, n)
            found = np.empty((users, n + 1))
            for start in range(0, users, USERS):
                some = slice(start, start + USERS)
                of_neutral, of_pools = offset + scale * mass[some, :, 0], offset + scale * even[some]
                mixed = np.log(rule[0] * of_pools[:, :, None] + rule[1] * of_neutral[:, :, None])
                sums = np.cumsum(mixed - np.log(of_neutral)[:, :, None], axis=1)
                found[some, 0] = 0.0
                found[some, 1:] = -logsumexp(sums, axis=2, b=rule[2] / rule[2].sum())
            found += against_neutral
    # a user who sent nothing says nothing
    found[:, 0] = 0.0
    return np.where(np.isnan(found), 0.0, found)


def corrected_confidence(
    posterior: Floats, guess: Integers, k: int, log_bayes_factor: Floats, pool_sets: int
) -> Floats:
    """Return (...,) the confidence in a guess after the choice among `pool_sets` sets of pools.

    Parameters
    ----------
    posterior : (..., hypotheses) for this set; guess : (...,) the likeliest hypothesis.
    k : pools; a hypothesis beyond them is that of no preferred pool.
    log_bayes_factor : (...,) of this set, see `log_set_bayes_factor`.
    """
    confidence = np.take_along_axis(posterior, guess[..., None], axis=-1)[..., 0]
    if pool_sets == 1:
        return confidence
    corrected: Floats = np.where(guess < k, confidence * expit(log_bayes_factor - np.log(pool_sets - 1)), confidence)
    return corrected
