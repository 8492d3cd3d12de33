"""The attack on devices that keep their answers, by adversaries who know of it and by others."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from poolscope.core.arrays import Floats, Integers, Keys, Tick
from poolscope.core.errors import InputError
from poolscope.core.executors import Local
from poolscope.inference.adversary import Adversary
from poolscope.inference.fresh import lengths_of, posterior_of_each
from poolscope.inference.memoized.allocation import allocated_posterior
from poolscope.inference.memoized.occupancy import normalised
from poolscope.inference.memoized.sampler import Found, kept_posterior
from poolscope.inference.memoized.scores import exact_scores, occupancy_scores
from poolscope.inference.memoized.tables import Tables, table_sum, tables_of
from poolscope.inference.memoized.tempering import tempered_posterior
from poolscope.inference.posterior import not_a_number
from poolscope.inference.role import Posteriors
from poolscope.mechanisms.devices import Bits, Evidence, Identical, Keeping
from poolscope.mechanisms.policy import Sent
from poolscope.mechanisms.protocols import Reports, report_count

#: Users whose posteriors are worked out at once, by each thread: one takes a tenth of a second and more.
CHUNK = 8

#: Groups of identical reports up to which all that they can be is summed: 3^10 terms a pool, a tenth of a second.
EXACT = 10

#: Groups times objects above which there is no time to sample what the groups can be.
CELLS = 100_000

#: Where fewer further slots than this are expected to have sent a reported response, none is taken to have. The stated
#: error is that expected number at least, unless it is negligible.
SHARED, NEGLIGIBLE = 0.01, 1e-6


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
    """The law and the sizes of the device choose the method; see docs/memory.md for where each is the best."""
    if isinstance(evidence.law, Bits):
        return kept_posterior(evidence, adversary, key)
    tables = tables_of(evidence, adversary)
    if not tables.possible:
        return _without_chance(adversary.belief.pool_prior(adversary.k))
    scores = table_sum(tables, adversary)
    if scores is not None:
        return _without_chance(scores / scores.sum())
    sharing = tables.sharing
    if sharing > SHARED:
        return tempered_posterior(tables, adversary, key)
    posterior, error = _of_groups(evidence, tables, adversary, key)
    return Found(posterior, np.hypot(error, sharing if sharing > NEGLIGIBLE else 0.0))


def _of_groups(evidence: Evidence, tables: Tables, adversary: Adversary, key: np.uint64) -> Found:
    """Where identical reports are one slot's: the sum over what they can be, samples of it, or the occupancy."""
    law = evidence.law
    assert isinstance(law, Identical)
    groups, slots = law.log_law.shape
    if slots == len(evidence.slots) and (groups <= EXACT or groups * slots > CELLS):
        scores = exact_scores if groups <= EXACT else occupancy_scores
        return _without_chance(normalised(scores(law.log_law, np.bincount(law.answer), adversary), adversary))
    return allocated_posterior(tables, adversary, key)


def _without_chance(posterior: Floats) -> Found:
    return Found(posterior, np.zeros(len(posterior)))


def _key(reports: Reports) -> np.uint64:
    digest = hashlib.blake2b(digest_size=8)
    for name in sorted(reports):
        column = np.asarray(reports[name])
        digest.update(np.ascontiguousarray(column.astype(np.int64) if column.ndim == 1 else column).tobytes())
    return np.uint64(int.from_bytes(digest.digest(), "little"))
