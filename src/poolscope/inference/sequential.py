"""The attack on devices whose next report depends on their earlier reports.

Such a device states Pr[report | earlier reports, object]. Given the reports, objects are still independent between
events. So the likelihood of a pool is a sum over its objects, report by report, and the paper's integral applies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from poolscope.core.arrays import Floats, Integers, Keys, Tick
from poolscope.core.errors import InputError
from poolscope.core.executors import Local
from poolscope.devices.policy import ReportedEvents
from poolscope.devices.protocols import SequentialDevice
from poolscope.inference.adversary import Adversary, posterior_of_masses
from poolscope.inference.independent import (
    BlockPosteriors,
    lengths_of,
    posterior_by_pseudonym,
    users_per_chunk,
)
from poolscope.mechanisms.protocols import Reports, report_count
from poolscope.population.popularity import within_pools


@dataclass(frozen=True, eq=False)
class SequentialReportsAttack:
    """Multiply the likelihoods of all reports, each given the reports before it."""

    device: SequentialDevice

    max_users: ClassVar[int] = 2048
    precomputed_share: ClassVar[float] = 0.0

    def posterior(
        self, reports: Reports, adversary: Adversary, lengths: Integers | None, observations: Sequence[int] | None
    ) -> Floats:
        counts = lengths_of(lengths, report_count(reports))
        out = self._by_pseudonym(reports, counts, adversary, int(counts.max(initial=0)), None)
        return out if observations is None else out[:, np.minimum(observations, out.shape[1] - 1)]

    def posteriors(
        self,
        sent: ReportedEvents,
        keys: Keys,
        adversaries: Sequence[Adversary],
        observations: Sequence[int],
        engine: Local,
        tick: Tick,
    ) -> list[BlockPosteriors]:
        n = sent.objects.shape[1]

        def each(adversary: Adversary) -> BlockPosteriors:
            def compute(rows: slice) -> tuple[Floats, None]:
                mine = sent[rows]
                reports = mine.reports(self.device, keys[rows])
                if report_count(reports) != mine.lengths.sum():
                    rule = f"a device must send a report for each of {mine.lengths.sum()} objects"
                    raise InputError(rule, value=report_count(reports))
                return self._by_pseudonym(reports, mine.lengths, adversary, n, sent.rotate_after), None

            return BlockPosteriors(compute, users_per_chunk(n, len(adversary.hypotheses)), sent.rotate_after)

        return [each(adversary) for adversary in adversaries]

    def _by_pseudonym(
        self, reports: Reports, lengths: Integers, adversary: Adversary, n: int, window: int | None
    ) -> Floats:
        """Return posteriors (users, n + 1, hypotheses); reports of a pseudonym are a sequence of their own."""
        table = np.zeros((len(lengths), n, adversary.k + 1))
        for user, (stop, length) in enumerate(zip(np.cumsum(lengths), lengths, strict=True)):
            size = max(1, int(length) if window is None else window)
            for start in range(0, int(length), size):
                end = min(start + size, int(length))
                rows = slice(stop - length + start, stop - length + end)
                own = {name: np.asarray(column)[rows] for name, column in reports.items()}
                table[user, start:end] = self._masses(own, end - start, adversary)

        def attack(some: Floats, sizes: Integers) -> Floats:
            return posterior_of_masses(adversary, some, sizes, 0.0, 1.0)

        return posterior_by_pseudonym(attack, table, lengths, window)

    def _masses(self, reports: Reports, count: int, adversary: Adversary) -> Floats:
        """Return (reports, 1 + k) likelihoods of the sections; of each report, the largest of an object is 1."""
        universe = adversary.universe
        logs = np.asarray(self.device.log_likelihood(reports, np.arange(universe.size)), dtype=np.float64)
        if logs.shape != (count, universe.size):
            rule = f"log_likelihood of a device must be (reports, objects) = {(count, universe.size)}"
            raise InputError(rule, value=logs.shape)
        if np.isnan(logs).any() or np.any(logs == np.inf):
            raise InputError("log_likelihood of a device must be numbers below infinity", value=logs.max())
        top = logs.max(axis=1, keepdims=True)
        likelihood = np.exp(logs - np.where(np.isfinite(top), top, 0.0))
        within = within_pools(universe, adversary.popularity, empty="uniform")
        weights = np.zeros((universe.size, universe.k + 1))
        weights[np.arange(universe.size), universe.pool_of + 1] = within
        out: Floats = likelihood @ weights
        return out
