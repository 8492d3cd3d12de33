"""Attacks on multidimensional reports: the pool of each attribute, and which attribute was sampled."""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

from poolscope.core.arrays import Floats, Integers
from poolscope.core.errors import InputError
from poolscope.inference.adversary import Adversary, check_adversary, posterior_block, stacked_pool_weights
from poolscope.inference.independent import lengths_of
from poolscope.mechanisms.checking import checked_reports
from poolscope.mechanisms.multidimensional import Beliefs, Multidimensional, Sampled
from poolscope.mechanisms.protocols import Reports
from poolscope.reports.multidimensional import check_multidimensional


def attribute_posterior(
    mechanism: Multidimensional,
    reports: Reports,
    adversary: Adversary,
    *,
    attribute: str,
    beliefs: Beliefs | None = None,
    lengths: Integers | None = None,
) -> Floats:
    """Return the posterior of the preferred pool of one attribute, after every report.

    The values of the other attributes are averaged over what the adversary believes, report by report. The posterior is
    exact for people whose other values are drawn independently for each report from `beliefs`.

    Parameters
    ----------
    reports : of one user, or of several in sequence.
    adversary : pools, popularity and priors of the attribute; its universe has the attribute's values.
    attribute : its name.
    beliefs : other attribute -> (values,) believed probability of each value; uniform where absent.
    lengths : (users,) reports of each user; one user by default.

    Returns
    -------
    (n + 1, k) for one user, (users, n + 1, k) for several, as `posterior_of_likelihood` returns them.

    Examples
    --------
    >>> rsfd = ps.mechanisms.RSFD({"emoji": 30, "word": 3}, epsilon=5.0)
    >>> reports = rsfd.obfuscate([[0, 1], [0, 2], [1, 1]], rng)
    >>> ps.mechanisms.attribute_posterior(rsfd, reports, strong, attribute="emoji").shape
    (4, 3)
    """
    check_multidimensional(mechanism)
    check_adversary(adversary)
    part, columns = mechanism.part(attribute), checked_reports(mechanism, reports)
    if adversary.universe.size != part.randomizer.universe:
        rule = f"the adversary's universe must have the {part.randomizer.universe} values of {attribute!r}"
        raise InputError(rule, value=adversary.universe.size)
    offset, slope = mechanism.attribute_likelihood(columns, attribute, beliefs)
    pool_weights, _ = stacked_pool_weights([adversary])
    mass = part.randomizer.mass(part.own(columns), pool_weights)
    counts = lengths_of(lengths, len(mass))
    longest = int(counts.max(initial=0))
    table = np.zeros((len(counts), longest, pool_weights.width))
    table[np.arange(longest) < counts[:, None]] = offset[:, None] + slope[:, None] * mass
    # a mechanism for tuples has the offset 0 and the scale 1, so that the table holds the likelihoods themselves
    out = posterior_block(mechanism, adversary, table, counts)
    return out[0] if lengths is None else out


def sampled_attribute_posterior(mechanism: Sampled, reports: Reports, *, beliefs: Beliefs | None = None) -> Floats:
    """Return (reports, d) the probability that each attribute is the sampled one, in the order of the attributes.

    It is exact for any dependence between attributes, as only the sampled value has a part in a report. Of SMP, whose
    reports say which attribute it is, one probability is 1.

    Parameters
    ----------
    beliefs : attribute -> (values,) believed probability of each value; uniform where absent.

    Examples
    --------
    >>> rsfd = ps.mechanisms.RSFD({"emoji": 4, "word": 3}, epsilon=4.0, randomizer="oue")
    >>> reports = ps.mechanisms.reports_from_tuples(rsfd, [[[1, 0, 0, 0], [0, 0, 0]]])
    >>> ps.mechanisms.sampled_attribute_posterior(rsfd, reports).round(3)
    array([[0.935, 0.065]])
    """
    check_multidimensional(mechanism)
    if not isinstance(mechanism, Sampled):
        raise InputError("must sample an attribute: SPL sends all of them", value=type(mechanism).__name__)
    logs = mechanism.log_sampled(checked_reports(mechanism, reports), beliefs)
    # a report that no tuple can cause has no posterior
    with np.errstate(invalid="ignore"):
        found: Floats = softmax(logs, axis=1)
    return found
