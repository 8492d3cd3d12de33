"""The attack on devices that keep their answers, by adversaries who know of it and by others."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from poolscope.attack.adversary import Adversary
from poolscope.attack.fresh import lengths_of, posterior_of_each
from poolscope.attack.memory.groupings import MANY
from poolscope.attack.memory.occupancy import normalised
from poolscope.attack.memory.sampler import Found, kept_posterior
from poolscope.attack.memory.scores import exact_scores, occupancy_scores
from poolscope.attack.memory.tables import table_sum, tables_of
from poolscope.attack.memory.units import of_one_slot
from poolscope.attack.posterior import not_a_number
from poolscope.attack.role import Posteriors
from poolscope.base.arrays import Floats, Integers, Keys, Tick
from poolscope.base.engines import Local
from poolscope.base.errors import InputError
from poolscope.mechanisms.devices import Keeping
from poolscope.mechanisms.kept import Evidence, Identical, Values
from poolscope.mechanisms.role import Reports, report_count
from poolscope.mechanisms.sending import Sent

#: Users whose posteriors are worked out at once, by each thread: one takes a tenth of a second and more.
CHUNK = 8

#: Groups of identical reports up to which all that they can be is summed, 3^8 terms for each pool and some
#: milliseconds; above MANY chains are no better than occupancy, and soon worse: see docs/memory.md.
EXACT = 8


@dataclass(frozen=True, eq=False)
class OnKept:
    """Whoever knows of the memory groups reports by their answer; to others every report stands alone."""

    device: Keeping

    #: A user takes long: more to a block would be lost with it.
    most_users: ClassVar[int] = 512
    prepared: ClassVar[float] = 0.0

    def posterior(
        self, reports: Reports, adversary: Adversary, lengths: Integers | None, observations: Sequence[int] | None
    ) -> Floats:
        if not adversary.knows_memory:
            return posterior_of_each(self.device.mechanism, reports, adversary, lengths, observations)
        return grouped_posterior(self.device, reports, adversary, lengths, observations).posterior

    def posteriors(
        self,
        sent: Sent,
        keys: Keys,
        adversaries: Sequence[Adversary],
        observations: Sequence[int],
        engine: Local,
        tick: Tick,
    ) -> list[Posteriors]:
        """Reports are made for the users asked for, and again for the next adversary: that costs little beside the
        attack. Whoever knows of the memory attacks at the observation counts, and thinks of it until the next; it
        takes the reports of all pseudonyms together, as the answers that are kept link them."""

        def each(adversary: Adversary) -> Posteriors:
            def some(rows: slice) -> tuple[Floats, None]:
                mine = sent[rows]
                reports, after_each = mine.reports(self.device, keys[rows]), range(mine.objects.shape[1] + 1)
                mechanism = self.device.mechanism
                return posterior_of_each(mechanism, reports, adversary, mine.lengths, after_each, sent.window), None

            return Posteriors(some, CHUNK, sent.window)

        def grouped(adversary: Adversary) -> Posteriors:
            def some(rows: slice) -> Found:
                mine = sent[rows]
                reports, (users, n) = mine.reports(self.device, keys[rows]), mine.objects.shape
                posterior, error = np.zeros((2, users, n + 1, adversary.k))
                posterior[:] = adversary.belief.pool_prior(adversary.k)
                starts, counts = np.cumsum(mine.lengths) - mine.lengths, mine.counts(observations)
                for user, (start, size) in enumerate(zip(starts, mine.lengths, strict=True)):
                    own = {name: np.asarray(column)[start : start + size] for name, column in reports.items()}
                    found = grouped_posterior(self.device, own, adversary, None, counts[user].tolist())
                    for row, count in enumerate(counts[user]):
                        posterior[user, count:] = found.posterior[0, row]
                        error[user, count:] = found.error[0, row]
                return Found(posterior, error)

            return Posteriors(some, CHUNK, sampled=True)

        return [(grouped if adversary.knows_memory else each)(adversary) for adversary in adversaries]


def grouped_posterior(
    device: Keeping,
    reports: Reports,
    adversary: Adversary,
    lengths: Integers | None,
    observations: Sequence[int] | None,
) -> Found:
    """Posteriors (users, rows, k) from the answers that each user's reports come from, see `devices.posterior`."""
    if adversary.belief.none:
        remedy = "give the adversary no prior.none, or knows_memory = false"
        raise InputError("memoized reports must be attacked without the hypothesis none", remedy=remedy)
    sizes = lengths_of(lengths, report_count(reports))
    counts = np.arange(sizes.max(initial=0) + 1) if observations is None else np.asarray(observations, dtype=np.int64)
    posterior, error = np.empty((2, len(sizes), len(counts), adversary.k))
    for user, (start, size) in enumerate(zip(np.cumsum(sizes) - sizes, sizes, strict=True)):
        used = np.minimum(counts, size)
        # chains begin anew for each count, but what reports say of objects is the same
        most = int(used.max(initial=0))
        own = {name: np.asarray(column)[start : start + most] for name, column in reports.items()}
        evidence = device.evidence(own) if most > 0 else None
        for count in np.unique(used):
            found = _without_chance(adversary.belief.pool_prior(adversary.k))
            if evidence is not None and count > 0:
                first = {name: column[:count] for name, column in own.items()}
                found = _found(evidence.first(int(count)), adversary, _key(first))
                if np.isnan(found.posterior).any():
                    raise not_a_number(f"the posterior of a user after {count} reports of memoized responses")
            posterior[user, used == count], error[user, used == count] = found
    return Found(posterior, error)


def found_by(device: Keeping, reports: Reports, adversary: Adversary) -> Found:
    """What the reports of one user say.

    Chance hangs from the reports, so that it is the same wherever they are.
    """
    return Found(*(x[0, 0] for x in grouped_posterior(device, reports, adversary, None, [report_count(reports)])))


def _found(evidence: Evidence, adversary: Adversary, key: np.uint64) -> Found:
    """By the sum over tables where there are few, by chains or, where groups are objects, by the better score."""
    law = evidence.law
    if isinstance(law, Values) or (isinstance(law, Identical) and law.shared):
        tables = tables_of(evidence, adversary)
        if not tables.possible:
            return _without_chance(adversary.belief.pool_prior(adversary.k))
        scores = table_sum(tables, adversary)
        if scores is not None:
            return _without_chance(scores / scores.sum())
    if isinstance(law, Identical) and _are_objects(law, evidence.slots):
        groups, counts = len(law.log_law), np.bincount(law.answer)
        if groups <= EXACT or groups > MANY:
            of = exact_scores if groups <= EXACT else occupancy_scores
            return _without_chance(normalised(of(law.log_law, counts, adversary), adversary))
    return kept_posterior(evidence, adversary, key)


def _are_objects(law: Identical, slots: Integers) -> bool:
    """Whether a group of identical reports is one object: no other may well have its answer, or shares its slot."""
    return bool(of_one_slot(law).all()) and law.log_law.shape[1] == len(slots)


def _without_chance(posterior: Floats) -> Found:
    return Found(posterior, np.zeros(len(posterior)))


def _key(reports: Reports) -> np.uint64:
    digest = hashlib.blake2b(digest_size=8)
    for name in sorted(reports):
        column = np.asarray(reports[name])
        digest.update(np.ascontiguousarray(column.astype(np.int64) if column.ndim == 1 else column).tobytes())
    return np.uint64(int.from_bytes(digest.digest(), "little"))
