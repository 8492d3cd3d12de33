r"""The attack on tuple reports that hide which attribute was sampled: RS+FD and RS+RFD.

Attribute c of a person has a preferred pool :math:`i_c`, a relevant interest and a polarization, :math:`\theta_c`.
Given these, values are independent. A report y is a mixture over the sampled attribute (`mechanisms.multidimensional`):

.. math:: \Pr[y \mid \theta] = \sum_c W_c(y) \, m_c(y, \theta_c),

with :math:`m_c` linear in the masses of the pools, as for a single mechanism. A product over reports does not factor
into attributes. Hence the likelihood of all reports is one integral for each combination of pools,

.. math:: E(i_1, \dots, i_d) = \int \prod_t \sum_c W_c(y_t) \, m_c(y_t, \theta_c) \, d\theta .

It is computed by the product of Gauss rules. A rule of N nodes is exact for 2N - 1 reports. For more, rules grow until
the error is small. The difference of two rules is the error of the smaller one, and errors fall about geometrically:
the error of the last of three rules is about its difference from the second, times the ratio of the two differences.

The posterior of the person's attribute a from the links of some attributes S, with what the adversary believes of the
pools of all others, is proportional to

.. math:: \Pr[a] \sum_i E(i) \prod_{c \in S} M_c(a, i_c) \prod_{c \notin S} \Pr[i_c] .

The posterior of the pool of one attribute sums over the values and over the pools of all others: it is proportional to

.. math:: \sum_{i : i_c} E(i) \sum_a \Pr[a] \prod_m M_m(a, i_m) .
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arrays import Floats
from poolscope.core.errors import InputError, PoolscopeError
from poolscope.inference.adversary import Adversary, stacked_pool_weights
from poolscope.inference.quadrature import gauss_rule
from poolscope.kernels.tuples import tuple_evidence
from poolscope.mechanisms.fake_data import SampledWithFakes
from poolscope.mechanisms.protocols import Reports

RUNGS = (2, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48)
"""Nodes of an axis, more and more."""

TOLERANCE = 1e-7
"""Largest estimated error of likelihoods, relative to the largest one; a tenth of what is promised."""

MAX_STATES = 1 << 30
"""Largest number of nodes of a product of rules."""


class _States(NamedTuple):
    """The nodes of one attribute: (nodes,) relevant interest g, rescaled polarization u, and weight."""

    interest: Floats
    polarization: Floats
    weight: Floats


@dataclass(frozen=True, eq=False)
class TupleAttack:
    """An adversary on tuple reports: what it assumes of each attribute.

    Parameters
    ----------
    adversaries : for each attribute, in the order of the mechanism's.
    """

    mechanism: SampledWithFakes
    adversaries: Sequence[Adversary]

    def __post_init__(self) -> None:
        states = math.prod(len(self._states(c, RUNGS[1]).weight) * a.k for c, a in enumerate(self.adversaries))
        if states > MAX_STATES >> 6:
            rule = "pools of all attributes together have too many combinations for the joint posterior"
            raise InputError(rule, value=self.combinations, remedy="use fewer attributes or pools, or smp")

    @property
    def pools(self) -> tuple[int, ...]:
        """Number of pools of each attribute."""
        return tuple(adversary.k for adversary in self.adversaries)

    @property
    def combinations(self) -> int:
        """Number of combinations of pools."""
        return math.prod(self.pools)

    def terms(self, reports: Reports) -> list[Floats]:
        """Return for each attribute (reports, k + 1) its term of the likelihood by pool, the neutral pool first.

        All terms of a report have a common factor, so that the largest likelihood is 1.
        """
        weights = self.mechanism.log_weights(reports)
        largest = weights.max(axis=1, keepdims=True)
        relative = np.exp(weights - np.where(np.isfinite(largest), largest, 0.0))
        found = []
        for c, (part, adversary) in enumerate(zip(self.mechanism.parts, self.adversaries, strict=True)):
            pool_weights, _ = stacked_pool_weights([adversary])
            mass, own = part.randomizer.mass(part.own(reports), pool_weights), part.randomizer
            found.append(relative[:, c, None] * (own.likelihood_offset + own.likelihood_scale * mass))
        top = np.sum([own.max(axis=1) for own in found], axis=0)[:, None]
        return [own / np.where(top > 0, top, 1.0) for own in found]

    def evidence(self, terms: Sequence[Floats]) -> Floats:
        """Return (n + 1, combinations) the likelihoods of the first t reports of one user, the largest of a row 1."""
        reports, coarse, before = len(terms[0]), None, np.inf
        for nodes in RUNGS:
            fine = self._evidence(terms, nodes)
            if reports <= 2 * nodes - 1:
                return fine
            if coarse is not None:
                change = float(np.abs(fine - coarse).max())
                # three rules, and an error that falls
                if np.isfinite(before) and change * min(1.0, change / max(before, 1e-300)) <= TOLERANCE:
                    return fine
                before = change
            coarse = fine
        raise PoolscopeError(f"the posterior of {reports} tuple reports is too concentrated to be integrated")

    def _evidence(self, terms: Sequence[Floats], nodes: int) -> Floats:
        states = [self._states(c, nodes) for c in range(len(terms))]
        if math.prod(k * len(own.weight) for k, own in zip(self.pools, states, strict=True)) > MAX_STATES:
            raise PoolscopeError("pools of all attributes have too many combinations for so concentrated a posterior")
        values = [_by_state(own, at) for own, at in zip(terms, states, strict=True)]
        weights = [np.tile(at.weight, k) for at, k in zip(states, self.pools, strict=True)]
        # the attribute with most states is the innermost one
        inner = int(np.argmax([len(own) for own in weights]))
        outer = [c for c in range(len(terms)) if c != inner]
        sizes = np.array([len(weights[c]) for c in outer], dtype=np.int64)
        out = np.empty((len(terms[0]) + 1, self.combinations))
        tuple_evidence(
            np.ascontiguousarray(np.hstack([values[c] for c in outer])),
            np.cumsum(sizes) - sizes,
            sizes,
            np.array([self.pools[c] for c in outer], dtype=np.int64),
            np.concatenate([weights[c] for c in outer]),
            values[inner],
            self.pools[inner],
            weights[inner],
            out,
        )
        shaped = out.reshape(len(out), *(self.pools[c] for c in (*outer, inner)))
        return np.moveaxis(shaped, -1, 1 + inner).reshape(out.shape)

    def _states(self, attribute: int, nodes: int) -> _States:
        adversary = self.adversaries[attribute]
        u, of_u = gauss_rule(adversary.belief.polarization, nodes)
        # without neutral objects the relevant interest is one, whatever its prior
        certain = np.ones(1), np.ones(1)
        g, of_g = gauss_rule(adversary.belief.interest, nodes) if adversary.universe.neutral_size else certain
        made = _States(np.repeat(g, len(u)), np.tile(u, len(g)), np.outer(of_g, of_u).ravel())
        # a multiple of four, by nodes without weight
        spare = -len(made.weight) % 4
        return _States(*(np.append(part, np.zeros(spare)) for part in made))

    @cached_property
    def _mean_behavior(self) -> list[tuple[float, float]]:
        """For each attribute the believed mean of g and of u."""
        found = []
        for c in range(len(self.adversaries)):
            at = self._states(c, RUNGS[1])
            total = at.weight.sum()
            found.append((float(at.weight @ at.interest / total), float(at.weight @ at.polarization / total)))
        return found

    def sampled_scores(self, terms: Sequence[Floats], pool_prior: Sequence[Floats]) -> Floats:
        """Return (reports, d) numbers proportional to the probability that each attribute is the sampled one.

        pool_prior : for each attribute (pools,) what the adversary believes of the preferred pool.
        """
        found = []
        for own, prior, (g, u) in zip(terms, pool_prior, self._mean_behavior, strict=True):
            shares = g * (u * prior + (1.0 - u) / len(prior))
            found.append((1.0 - g) * own[:, 0] + own[:, 1:] @ shares)
        return np.stack(found, axis=1)

    def sampled_posterior(self, terms: Sequence[Floats], pool_prior: Sequence[Floats]) -> Floats:
        """Return (reports, d) the probability that each attribute is the sampled one, from one report at a time."""
        scores = self.sampled_scores(terms, pool_prior)
        total = scores.sum(axis=1, keepdims=True)
        found: Floats = np.where(total > 0, scores / np.where(total > 0, total, 1.0), 1.0 / scores.shape[1])
        return found


def _by_state(terms: Floats, at: _States) -> Floats:
    """Return (reports, pools * nodes) the terms of one attribute for each pool and node."""
    g, u = at.interest, at.polarization
    neutral, pools = terms[:, :1, None], terms[:, 1:, None]
    mean = pools.mean(axis=1, keepdims=True)
    found = (1.0 - g) * neutral + g * (u * pools + (1.0 - u) * mean)
    return np.ascontiguousarray(found.reshape(len(terms), -1))


def subset_evidence(
    evidence: Floats, links: Sequence[Floats], pool_prior: Sequence[Floats], used: NDArray[np.bool_]
) -> Floats:
    """Return (..., values) the evidence about the person's attribute, from the links of the used attributes.

    evidence : (..., combinations) likelihoods, as of `TupleAttack.evidence`; links : (values, pools) of each attribute;
    pool_prior : (pools,) of each, for those that are not used.
    """
    pools = [link.shape[1] for link in links]
    found = evidence.reshape(-1, 1, *pools)
    values = len(links[0])
    found = np.broadcast_to(found, (len(found), values, *pools))
    for c in reversed(range(len(links))):
        weight = links[c] if used[c] else np.broadcast_to(pool_prior[c], links[c].shape)
        # the last axis is attribute c, as later ones are summed already
        found = np.einsum("ba...i,ai->ba...", found, weight)
    return found.reshape(*evidence.shape[:-1], values)


def believed_pools(links: Sequence[Floats], prior: Floats) -> list[Floats]:
    """Return (pools,) for each attribute the probability of its preferred pool, by the prior of the values."""
    return [prior @ link for link in links]


def pool_posteriors(evidence: Floats, links: Sequence[Floats], prior: Floats) -> list[Floats]:
    """Return (..., pools) for each attribute the posterior of its preferred pool, the pools of all others summed out.

    evidence : (..., combinations) likelihoods, as of `TupleAttack.evidence`; links : (values, pools) of each attribute;
    prior : (values,). Where the model excludes the reports, the posterior is what was believed before.
    """
    pools = [link.shape[1] for link in links]
    weights = prior.reshape(-1, *[1] * len(pools))
    for c, link in enumerate(links):
        weights = weights * link.reshape(len(prior), *(link.shape[1] if m == c else 1 for m in range(len(pools))))
    joint = evidence.reshape(-1, *pools) * weights.sum(axis=0)
    found = []
    for c, believed in enumerate(believed_pools(links, prior)):
        own = joint.sum(axis=tuple(1 + m for m in range(len(pools)) if m != c))
        total = own.sum(axis=1, keepdims=True)
        known = np.where(total > 0, own / np.where(total > 0, total, 1.0), believed)
        found.append(known.reshape(*evidence.shape[:-1], pools[c]))
    return found
