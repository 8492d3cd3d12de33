r"""The posterior of an attribute from several collections of reports of one person.

The person's attribute is a. The preferred pool of collection c is drawn from the *link* :math:`M_c(a, \cdot)`. Given
the pools, collections are independent, each with its own relevant interest and polarization. With :math:`E_c(i)` the
likelihood of the reports of collection c if pool i is preferred,

.. math:: \Pr[a \mid \text{all reports}] \propto \Pr[a] \prod_c \sum_i M_c(a, i) \, E_c(i) .

A factor that all pools of a collection share cancels. Hence the posterior of each collection under a uniform prior of
the pools is enough, and the product costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from poolscope.core.arguments import as_floats
from poolscope.core.arrays import Floats
from poolscope.core.errors import InputError

MAX_LOG_ODDS = 700.0
"""Largest log-odds, as e^710 is infinite."""

ROW_SUM_TOLERANCE = 1e-6
"""Largest deviation from 1 of a row of a link."""


def as_link(link: ArrayLike) -> Floats:
    """Return a link as an array (values, pools) whose rows sum to 1."""
    found = as_floats("link", link)
    if found.ndim != 2 or not np.all(np.isfinite(found) & (found >= 0)):
        raise InputError("link must be a matrix (values, pools) of finite numbers of at least 0", value=found.shape)
    sums = found.sum(axis=1, keepdims=True)
    if np.any(np.abs(sums - 1) > ROW_SUM_TOLERANCE):
        raise InputError("rows of a link must sum to 1", value=float(sums[np.abs(sums - 1).argmax(), 0]))
    made: Floats = found / sums
    return made


def joint_posterior(
    posteriors: Sequence[ArrayLike], links: Sequence[ArrayLike], prior: ArrayLike | None = None
) -> Floats:
    """Return the posterior (..., values) of an attribute, from the posteriors of several collections of one person.

    Parameters
    ----------
    posteriors : for each collection (..., pools), computed under a uniform prior of its pools. A row of NaN, where the
        model excludes the reports, is no evidence.
    links : for each collection (values, pools) the probability that each pool is preferred, given the value.
    prior : (values,) of the attribute; uniform by default.

    Examples
    --------
    >>> ps.joint_posterior([[0.6, 0.4], [0.7, 0.3]], [np.eye(2), np.eye(2)]).round(3)
    array([0.778, 0.222])
    """
    if len(posteriors) != len(links) or not links:
        raise InputError("there must be a link for each collection", value=len(links))
    tables = [as_link(link) for link in links]
    values = len(tables[0])
    weights = np.full(values, 1.0 / values) if prior is None else as_floats("prior", prior)
    if weights.shape != (values,) or not np.all(np.isfinite(weights) & (weights >= 0)) or weights.sum() <= 0:
        raise InputError(f"prior must be finite numbers of at least 0 for {values} values", value=weights.shape)
    evidence = []
    for posterior, link in zip(posteriors, tables, strict=True):
        own = as_floats("posterior", posterior)
        if link.shape != (values, own.shape[-1]):
            raise InputError(f"a link must be ({values}, {own.shape[-1]}), values by pools", value=link.shape)
        evidence.append(linked(own, link))
    return normalized(joint_scores(np.stack(evidence, axis=-2), weights), weights / weights.sum())


def linked(posterior: Floats, link: Floats) -> Floats:
    """Return the evidence (..., values) of one collection about the attribute; ones where the posterior is NaN."""
    found: Floats = posterior @ link.T
    return np.where(np.isnan(found), 1.0, found)


def joint_scores(evidence: Floats, prior: Floats) -> Floats:
    """Return log scores (..., values) from the evidence (..., collections, values)."""
    with np.errstate(divide="ignore"):
        scores: Floats = np.log(evidence).sum(axis=-2) + np.log(prior)
    return scores


def normalized(scores: Floats, prior: Floats) -> Floats:
    """Return posteriors from log scores; the prior where every value is excluded."""
    top = scores.max(axis=-1, keepdims=True)
    possible = np.isfinite(top)
    weights = np.exp(scores - np.where(possible, top, 0.0))
    total = weights.sum(axis=-1, keepdims=True)
    found: Floats = np.where(possible, weights / np.where(possible, total, 1.0), prior)
    return found


def joint_pool_posteriors(posteriors: Sequence[Floats], links: Sequence[Floats], prior: Floats) -> list[Floats]:
    """Return (..., pools) for each collection the posterior of its preferred pool, from the reports of all of them.

    posteriors : for each collection (..., pools), computed under a uniform prior of its pools; NaN is no evidence.
    """
    evidence = np.stack([linked(own, link) for own, link in zip(posteriors, links, strict=True)], axis=-2)
    found = []
    for c, (own, link) in enumerate(zip(posteriors, links, strict=True)):
        others = joint_scores(np.delete(evidence, c, axis=-2), prior)
        with np.errstate(divide="ignore"):
            pools = np.logaddexp.reduce(others[..., None] + np.log(link), axis=-2)
            scores = pools + np.log(np.where(np.isnan(own), 1.0, own))
        found.append(normalized(scores, prior @ link))
    return found


def log_odds(scores: Floats, truth: np.ndarray) -> Floats:
    """Return the log-odds (users, ...) of the true values (users,) from log scores (users, ..., values).

    They are computed from the scores, as a posterior near one has lost its digits, and are at most `MAX_LOG_ODDS`.
    """
    index = truth.reshape(-1, *([1] * (scores.ndim - 1)))
    own = np.take_along_axis(scores, index, axis=-1)[..., 0]
    others = np.where(np.arange(scores.shape[-1]) == index, -np.inf, scores)
    with np.errstate(invalid="ignore"):
        found = own - np.logaddexp.reduce(others, axis=-1)
    # excluded by one collection and the others by another: nothing is known
    limited: Floats = np.clip(np.nan_to_num(found, nan=0.0, posinf=np.inf, neginf=-np.inf), -MAX_LOG_ODDS, MAX_LOG_ODDS)
    return limited


def joint_mcse(posterior: Floats, sampled: Sequence[tuple[Floats, Floats]], links: Sequence[Floats]) -> Floats:
    """Return the Monte Carlo standard error (..., values) of joint posteriors, by the delta method.

    Errors of collections are independent. Those of the pools of a collection are not: they sum to zero, and each is
    taken in its worst direction.

    posterior : (..., values), joint; sampled : posteriors and standard errors (..., pools) of the collections that have
    any; links : (values, pools) of these.
    """
    variance = np.zeros_like(posterior)
    for (own, error), link in zip(sampled, links, strict=True):
        evidence = linked(own, link)[..., None]
        slope = np.divide(link, evidence, out=np.zeros((*evidence.shape[:-1], link.shape[1])), where=evidence > 0)
        # d posterior(a) / d p(i) = posterior(a) (slope(a, i) - sum_b posterior(b) slope(b, i))
        gradient = posterior[..., None] * (slope - (posterior[..., None] * slope).sum(axis=-2, keepdims=True))
        gradient -= gradient.mean(axis=-1, keepdims=True)
        variance += (np.abs(gradient) * error[..., None, :]).sum(axis=-1) ** 2
    found: Floats = np.sqrt(variance)
    return found
