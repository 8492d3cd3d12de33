"""Play tuples that hide which attribute was sampled: draw their reports, and evaluate the attacks on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from poolscope.core.arrays import Floats, Integers
from poolscope.core.executors import Local
from poolscope.devices.protocols import fresh_keys
from poolscope.game.collections import JointGame, Persons
from poolscope.game.columns import SAMPLED_CORRECT
from poolscope.game.joint_evaluation import JointEvaluator
from poolscope.inference.adversary import Adversary
from poolscope.inference.independent import BlockPosteriors
from poolscope.inference.tuples import TupleAttack, believed_pools, subset_evidence
from poolscope.mechanisms.fake_data import SampledWithFakes
from poolscope.mechanisms.protocols import Reports

CHUNK_USERS = 8
"""Users whose posteriors a thread computes at a time."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TupleReports:
    """The reports of a block of people, one after the other, and which attribute each has sampled."""

    mechanism: SampledWithFakes
    reports: Reports
    sampled: Integers
    lengths: Integers

    def of(self, people: Integers) -> Integers:
        """Return the rows of the reports of some people."""
        starts = np.cumsum(self.lengths) - self.lengths
        ranges = [np.arange(starts[user], starts[user] + self.lengths[user]) for user in people]
        return np.concatenate(ranges) if ranges else np.zeros(0, dtype=np.int64)

    def terms(self, attack: TupleAttack, people: Integers) -> list[Floats]:
        """Return the terms of the reports of some people, of each attribute."""
        rows = self.of(people)
        return attack.terms({name: column[rows] for name, column in self.reports.items()})

    def evidence(self, adversaries: Sequence[Adversary], people: Integers) -> BlockPosteriors:
        """Return likelihoods (users, n + 1, combinations) of all combinations of pools, as posteriors are computed.

        Rows beyond a user's reports repeat the last. adversaries : one adversary's assumptions about each attribute.
        """
        attack, n = TupleAttack(self.mechanism, adversaries), int(self.lengths.max(initial=0))

        def compute(chunk: slice) -> tuple[Floats, None]:
            some = people[chunk]
            terms, sizes = self.terms(attack, some), self.lengths[some]
            out, start = np.empty((len(some), n + 1, attack.combinations)), 0
            for user, size in enumerate(sizes.tolist()):
                found = attack.evidence([own[start : start + size] for own in terms])
                out[user, : size + 1], out[user, size + 1 :] = found, found[-1]
                start += size
            return out, None

        return BlockPosteriors(compute, CHUNK_USERS)

    def correct(
        self, adversaries: Sequence[Adversary], people: Integers, links: Sequence[Floats], prior: Floats
    ) -> Floats:
        """Return (users, n) whether an adversary guesses the sampled attribute of each report; zero beyond."""
        attack = TupleAttack(self.mechanism, adversaries)
        scores = attack.sampled_scores(self.terms(attack, people), believed_pools(links, prior))
        there = np.arange(int(self.lengths.max(initial=0))) < self.lengths[people][:, None]
        out = np.zeros(there.shape)
        out[there] = scores.argmax(axis=1) == self.sampled[self.of(people)]
        return out


def draw_tuple_reports(game: JointGame, persons: Persons, engine: Local) -> TupleReports | None:
    """Draw the reports of people whose tuples hide the sampled attribute; None in any other game."""
    mechanism = game.hidden
    if mechanism is None:
        return None
    # all collections have the same events, as the policy is common
    sent = persons.sent[0]
    keys = fresh_keys(persons.keys[:, None], sent.event_index)[sent.mask]
    values = np.stack([own.objects[own.mask] for own in persons.sent], axis=1)
    return TupleReports(
        mechanism=mechanism,
        reports=mechanism.report(values.astype(np.int64), keys),
        sampled=mechanism.sampled(keys),
        lengths=sent.lengths,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class TupleEvaluator(JointEvaluator):
    """Evaluate one adversary on tuples, from the likelihoods of all combinations of pools.

    A subset of the collections is those whose links count. The pools of all others are averaged over what the adversary
    believes.

    correct : (rows, n) whether the sampled attribute of each report is guessed.
    """

    correct: Floats

    def _chunk(self, chunk: slice) -> None:
        game, rows, links = self.game, self.rows[chunk], self.game.links(self.adversary)
        found, _ = self.posteriors[0].compute(chunk)
        pools, days = believed_pools(links, game.belief(self.adversary)), self.days[0][rows]
        for subset, used in game.subsets.items():
            own = self.results.arrays[subset, self.adversary]
            same = game.same_subsets[subset]
            if same != subset:
                self._copy(own, self.results.arrays[same, self.adversary], rows)
                continue
            evidence = subset_evidence(found, links, pools, used)
            evidence /= np.maximum(evidence.max(axis=-1, keepdims=True), np.finfo(float).tiny)
            daily = np.ascontiguousarray(np.take_along_axis(evidence, days[:, :, None], axis=1))[:, :, None]
            self._decide(own, rows, np.ones(1, dtype=bool), daily, daily[:, list(game.observations)])
        guessed = np.concatenate([np.zeros((len(rows), 1)), np.cumsum(self.correct[chunk], axis=1)], axis=1)
        sent = days[:, list(game.observations)]
        with np.errstate(invalid="ignore"):
            shares = np.take_along_axis(guessed, sent, axis=1) / sent
        self.results.arrays[next(iter(game.subsets)), self.adversary][SAMPLED_CORRECT][rows] = shares
