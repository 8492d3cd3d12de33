"""What one adversary concludes from tuple reports: about the attribute, each pool, and the sampled collection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from poolscope.core.arrays import Floats, Integers
from poolscope.core.executors import Local
from poolscope.inference.adversary import Adversary, posterior_block, stacked_pool_weights
from poolscope.inference.joint import joint_pool_posteriors, joint_scores, linked, normalized
from poolscope.inference.tuples import TupleAttack, believed_pools, pool_posteriors, subset_evidence
from poolscope.mechanisms.fake_data import SampledWithFakes
from poolscope.mechanisms.multidimensional import SAMPLED, SMP, Multidimensional
from poolscope.mechanisms.protocols import Reports
from poolscope.scenario.collections import assumed_link, attribute_prior
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.attack.tuple_table import TupleTable

CHUNK_USERS = 16
"""Users whose posteriors a thread computes at a time."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TupleBeliefs:
    """What an adversary concludes about users, after some numbers of reports.

    attribute : (users, observations, values) posteriors; pools : for each collection (users, observations, pools).
    sampled : (users, observations, collections) where reports hide the sampled collection, the expected share of the
        reports that sampled each, every report on its own; NaN without reports.
    """

    attribute: Floats
    pools: list[Floats]
    sampled: Floats | None


@dataclass(frozen=True, kw_only=True, eq=False)
class TupleReader:
    """One adversary on tuple reports: what it assumes about each collection, the links and the attribute."""

    mechanism: Multidimensional
    adversaries: Sequence[Adversary]
    links: Sequence[Floats]
    prior: Floats

    @classmethod
    def of(
        cls, scenario: Scenario, index: int, mechanism: Multidimensional, adversaries: Sequence[Adversary]
    ) -> TupleReader:
        """Return an adversary of a scenario, by its place there."""
        assert scenario.attribute is not None
        return cls(
            mechanism=mechanism,
            adversaries=adversaries,
            links=[assumed_link(scenario, c, index) for c in range(mechanism.d)],
            prior=attribute_prior(scenario.adversaries[index].prior, scenario.attribute.values),
        )

    @cached_property
    def hidden(self) -> TupleAttack | None:
        """The attack on reports that hide the sampled collection; None for SPL and SMP."""
        if not isinstance(self.mechanism, SampledWithFakes):
            return None
        return TupleAttack(self.mechanism, self.adversaries)

    def sampled(self, reports: Reports) -> Floats:
        """Return (reports, collections) the probability that each was sampled, from one report at a time."""
        assert self.hidden is not None
        return self.hidden.sampled_posterior(self.hidden.terms(reports), believed_pools(self.links, self.prior))

    def beliefs(self, table: TupleTable, counts: Integers, engine: Local) -> TupleBeliefs:
        """Return what follows after (users, observations) numbers of reports."""
        size, hidden = len(table.users), self.hidden
        found = TupleBeliefs(
            attribute=np.empty((*counts.shape, len(self.prior))),
            pools=[np.empty((*counts.shape, link.shape[1])) for link in self.links],
            sampled=None if hidden is None else np.empty((*counts.shape, self.mechanism.d)),
        )

        def some(start: int) -> None:
            users = range(start, min(start + CHUNK_USERS, size))
            reports, rows = table.some(users), slice(start, users.stop)
            if hidden is None:
                self._by_collection(found, rows, reports, table.lengths[rows], counts[rows])
            else:
                self._hidden(found, hidden, rows, reports, table.lengths[rows], counts[rows])

        for _ in engine.map(some, range(0, size, CHUNK_USERS)):
            pass
        return found

    def _hidden(
        self,
        out: TupleBeliefs,
        attack: TupleAttack,
        rows: slice,
        reports: Reports,
        lengths: Integers,
        counts: Integers,
    ) -> None:
        """Write what follows from reports that hide the sampled collection."""
        assert out.sampled is not None
        believed, every = believed_pools(self.links, self.prior), np.ones(self.mechanism.d, dtype=bool)
        terms, first = attack.terms(reports), 0
        shares = attack.sampled_posterior(terms, believed)
        for user, length, at in zip(range(rows.start, rows.stop), lengths.tolist(), counts, strict=True):
            # later reports do not count
            last = first + int(at.max())
            evidence = attack.evidence([own[first:last] for own in terms])[at]
            with np.errstate(divide="ignore", invalid="ignore"):
                scores = np.log(subset_evidence(evidence, self.links, believed, every)) + np.log(self.prior)
                summed = np.concatenate([np.zeros((1, len(every))), np.cumsum(shares[first:last], axis=0)])
                out.sampled[user] = summed[at] / at[:, None]
            out.attribute[user] = normalized(scores, self.prior)
            for own, pools in zip(out.pools, pool_posteriors(evidence, self.links, self.prior), strict=True):
                own[user] = pools
            first += length

    def _by_collection(
        self, out: TupleBeliefs, rows: slice, reports: Reports, lengths: Integers, counts: Integers
    ) -> None:
        """Write what follows from reports of single collections, SPL and SMP: posteriors multiply."""
        user = np.repeat(np.arange(len(lengths)), lengths)
        number = np.arange(len(user)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        posteriors = []
        for c, (part, adversary) in enumerate(zip(self.mechanism.parts, self.adversaries, strict=True)):
            own = np.ones(len(user), dtype=bool) if not isinstance(self.mechanism, SMP) else reports[SAMPLED] == c
            sent = sent_by(user[own], number[own], lengths)
            sizes = sent[:, -1]
            weights, _ = stacked_pool_weights([adversary])
            mass = np.zeros((len(lengths), max(1, int(sizes.max())), weights.width))
            mass[user[own], sent[user[own], number[own]]] = part.randomizer.mass(
                part.own({part.name: reports[part.name][own]}), weights
            )
            posterior = posterior_block(part.randomizer, adversary, mass, sizes)
            after = np.take_along_axis(sent, counts, axis=1)
            posteriors.append(np.take_along_axis(posterior, after[:, :, None], axis=1))
        evidence = np.stack([linked(*one) for one in zip(posteriors, self.links, strict=True)], axis=-2)
        out.attribute[rows] = normalized(joint_scores(evidence, self.prior), self.prior)
        pools = joint_pool_posteriors(posteriors, self.links, self.prior)
        for into, one in zip(out.pools, pools, strict=True):
            into[rows] = one


def sent_by(user: Integers, number: Integers, lengths: Integers) -> Integers:
    """Return (users, n + 1) how many of some reports are among the first t of a user, from their users and numbers."""
    sent = np.zeros((len(lengths), int(lengths.max()) + 1), dtype=np.int64)
    np.add.at(sent, (user, number + 1), 1)
    found: Integers = np.cumsum(sent, axis=1)
    return found


def sampled_counts(table: TupleTable, counts: Integers, collections: int) -> list[Integers]:
    """Return for each collection (users, observations) how many of the first reports of SMP sampled it."""
    user = np.repeat(np.arange(len(table.lengths)), table.lengths)
    number = np.arange(len(user)) - np.repeat(np.cumsum(table.lengths) - table.lengths, table.lengths)
    which = table.reports[SAMPLED]
    return [
        np.take_along_axis(sent_by(user[which == c], number[which == c], table.lengths), counts, axis=1)
        for c in range(collections)
    ]
