"""Reports to check a mechanism with, in parts that fit into memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arrays import Keys, Objects
from poolscope.core.randomness import fresh_keys
from poolscope.mechanisms.custom import Adapted, as_columns
from poolscope.mechanisms.protocols import Mechanism, Reports, report_count
from poolscope.mechanisms.pure import Reporting, summed
from poolscope.workflows.check.events import Seen
from poolscope.workflows.check.law import Share, stated, support_shares

#: Bytes of reports, and reports, that are held at once.
BYTES_AT_ONCE, REPORTS_AT_ONCE = 1 << 25, 1 << 13
#: Reports times objects for which supports are counted.
CELLS_COUNTED = 1 << 28

#: The method that makes the reports: `obfuscate` draws from a generator, `report` from a key of each report.
Method = Literal["obfuscate", "report"]


class Stage(IntEnum):
    """What reports are made for; every stage draws its own."""

    LOOK = 0
    CHOOSE = 1
    TEST = 2
    LOOK_AGAIN = 3
    REPEAT = 4
    SPREAD = 5
    WIDE = 6


def spread(count: int, parts: int) -> list[int]:
    """A count in so many nearly equal parts."""
    edges = np.linspace(0, count, parts + 1).astype(int)
    return [int(b - a) for a, b in pairwise(edges)]


@dataclass(frozen=True, kw_only=True)
class Sampler:
    """Makes reports of the tried objects, by one of the mechanism's methods."""

    mechanism: Mechanism
    objects: tuple[int, ...]
    seed: int
    method: Method = "obfuscate"

    def draw(self, stage: Stage, position: int, count: int, turn: int = 0) -> Iterator[Seen]:
        """So many reports of one object, in parts that fit into memory; every turn of a stage draws others."""
        rng = self.generator(stage, position + turn * len(self.objects))
        left, at_once = count, 64
        while left:
            size = min(left, at_once)
            reports = self.make(np.full(size, self.objects[position], dtype=np.int64), rng)
            yield Seen(mechanism=self.mechanism, reports=reports)
            left -= size
            at_once = int(np.clip(BYTES_AT_ONCE // max(1, bytes_of(reports)), 64, REPORTS_AT_ONCE))

    def generator(self, stage: Stage, number: int) -> np.random.Generator:
        """One of a stage's generators."""
        key = (int(stage), number) if self.method == "obfuscate" else (int(stage), number, 1)
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=key))

    def make(self, objects: Objects, rng: np.random.Generator) -> Reports:
        """A report of each object, by one call of the mechanism."""
        if self.method == "report":
            return self.keyed(objects, fresh_keys(rng, len(objects)))
        return as_columns(self.mechanism.obfuscate(objects, rng), len(objects))[0]

    def keyed(self, objects: Objects, keys: Keys) -> Reports:
        """A report of each object, drawn from its key."""
        return as_columns(self.mechanism.report(objects, keys), len(objects))[0]

    def look(self, stage: Stage, position: int, count: int) -> Seen:
        """Reports that are held all at once, hence no more than fit."""
        parts: list[Seen] = []
        held = 0
        for part in self.draw(stage, position, count):
            parts.append(part)
            held += bytes_of(part.reports) * report_count(part.reports)
            if held > BYTES_AT_ONCE:
                break
        return Seen(mechanism=self.mechanism, reports=joined([part.reports for part in parts]))


def obfuscates_by_report(mechanism: Any) -> bool:
    """Whether `obfuscate` is our own: it draws a key for each report, and leaves the rest to `report`."""
    return getattr(type(mechanism), "obfuscate", None) is Reporting.obfuscate


def has_own_report(mechanism: Any) -> bool:
    """Whether `report` is other code than `obfuscate`: where it is not, testing the one tests the other."""
    return callable(getattr(mechanism, "report", None)) and not obfuscates_by_report(mechanism)


def reads_keys(mechanism: Any) -> bool:
    """Whether `report` is the mechanism's own, and draws from keys; an adapted mechanism may leave that to us."""
    own = mechanism.mechanism if isinstance(mechanism, Adapted) else mechanism
    return callable(getattr(own, "report", None))


def joined(parts: Sequence[Reports]) -> Reports:
    """Some reports, and then others."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def bytes_of(reports: Reports) -> int:
    """Bytes of one report."""
    return sum(column.nbytes for column in reports.values()) // max(1, report_count(reports))


class Supports:
    """Counts which objects the reports of each tried object support, of as many reports as is affordable."""

    def __init__(self, sampler: Sampler) -> None:
        self.mechanism: Any = sampler.mechanism
        self.objects = sampler.objects
        self.known = all(stated(self.mechanism, name) is not None for name in ("p_star", "q_star"))
        self.most = CELLS_COUNTED // (self.mechanism.universe * len(self.objects))
        self.counts = np.zeros((len(self.objects), self.mechanism.universe if self.known else 0), dtype=np.int64)
        self.trials = np.zeros(len(self.objects), dtype=np.int64)

    def add(self, position: int, reports: Reports) -> None:
        some = min(report_count(reports), max(0, self.most - int(self.trials[position])))
        if self.known and some:
            part = {name: column[:some] for name, column in reports.items()}
            self.counts[position] += self._counted(part)
            self.trials[position] += some

    def _counted(self, reports: Reports) -> NDArray[np.int64]:
        """(universe,) how many of the reports support each object; a mechanism of one's own may have supports only."""
        if hasattr(self.mechanism, "support_counts"):
            counts: NDArray[np.int64] = self.mechanism.support_counts(reports)
            return counts
        return summed(self.mechanism.support, reports, self.mechanism.universe)

    def shares(self) -> tuple[Share, ...]:
        return support_shares(self.mechanism, self.objects, self.trials.tolist(), self.counts) if self.known else ()
