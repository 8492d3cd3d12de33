"""The attack on devices that keep their answers, by adversaries who know of it and by others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from poolscope.attack.adversary import Adversary
from poolscope.attack.fresh import lengths_of, posterior_of_each
from poolscope.attack.memory.groups import Kept, groups
from poolscope.attack.memory.scores import group_posterior
from poolscope.attack.role import Posteriors
from poolscope.base.arrays import Floats, Integers, Keys, Tick
from poolscope.base.engines import Local
from poolscope.mechanisms.role import Reports, report_count
from poolscope.mechanisms.sending import Sent

#: Users whose posteriors are worked out at once, by each thread: one takes a tenth of a second and more.
CHUNK = 8


@dataclass(frozen=True, eq=False)
class OnKept:
    """Whoever knows of the memory groups reports by their answer; to others every report stands alone."""

    device: Kept

    #: A user takes long: more to a block would be lost with it.
    most_users: ClassVar[int] = 512
    prepared: ClassVar[float] = 0.0

    def posterior(
        self, reports: Reports, adversary: Adversary, lengths: Integers | None, observations: Sequence[int] | None
    ) -> Floats:
        if not adversary.knows_memory:
            return posterior_of_each(self.device.mechanism, reports, adversary, lengths, observations)
        return grouped_posterior(self.device, reports, adversary, lengths, observations)

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
            def some(rows: slice) -> Floats:
                mine = sent[rows]
                reports, n = mine.reports(self.device, keys[rows]), mine.objects.shape[1]
                after_each = range(n + 1)
                return posterior_of_each(
                    self.device.mechanism, reports, adversary, mine.lengths, after_each, sent.window
                )

            return Posteriors(some, CHUNK, sent.window)

        def grouped(adversary: Adversary) -> Posteriors:
            def some(rows: slice) -> Floats:
                mine = sent[rows]
                reports, (users, n) = mine.reports(self.device, keys[rows]), mine.objects.shape
                out = np.empty((users, n + 1, adversary.k))
                out[:] = adversary.belief.pool_prior(adversary.k)
                starts, counts = np.cumsum(mine.lengths) - mine.lengths, mine.counts(observations)
                for user, (start, size) in enumerate(zip(starts, mine.lengths, strict=True)):
                    own = {name: np.asarray(column)[start : start + size] for name, column in reports.items()}
                    found = grouped_posterior(self.device, own, adversary, None, counts[user].tolist())
                    for row, count in enumerate(counts[user]):
                        out[user, count:] = found[0, row]
                return out

            return Posteriors(some, CHUNK)

        return [(grouped if adversary.knows_memory else each)(adversary) for adversary in adversaries]


def grouped_posterior(
    device: Kept, reports: Reports, adversary: Adversary, lengths: Integers | None, observations: Sequence[int] | None
) -> Floats:
    """Posteriors (users, rows, k) from the groups of each user's reports, see `devices.posterior`.

    Given the groups (`groups`) they are exact for users with up to `EXACT_GROUPS` of them, and by occupancy for others
    (`scores`).
    """
    sizes = lengths_of(lengths, report_count(reports))
    counts = np.arange(sizes.max(initial=0) + 1) if observations is None else np.asarray(observations, dtype=np.int64)
    out = np.empty((len(sizes), len(counts), adversary.k))
    for user, (start, size) in enumerate(zip(np.cumsum(sizes) - sizes, sizes, strict=True)):
        used = np.minimum(counts, size)
        for count in np.unique(used):
            first = {name: np.asarray(column)[start : start + count] for name, column in reports.items()}
            out[user, used == count] = group_posterior(*groups(device, first, adversary), adversary)
    return out
