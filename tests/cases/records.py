"""Records in which nothing stands out but what a test names."""

from collections import defaultdict
from dataclasses import MISSING, dataclass, field, fields
from math import inf
from typing import Any

from poolscope.mechanisms import ReportingPolicy
from poolscope.metrics.intervals import Estimate
from poolscope.metrics.models import intervals
from poolscope.metrics.records import Record
from poolscope.workflows.compare import Configuration


class Everyone(defaultdict):
    """Has an entry for every name."""

    def __contains__(self, name: object) -> bool:
        return True


@dataclass(frozen=True)
class Pools:
    """What ``summarize`` asks of a game: as many pools for all, preferred as nobody knows, no epsilon,
    and devices that limit nothing."""

    k: int
    policy: ReportingPolicy = field(default_factory=ReportingPolicy)
    threshold: float | None = None

    @property
    def pool_counts(self) -> dict[str, int]:
        return Everyone(lambda: self.k)

    def prior_success(self, adversary: str) -> None:
        return None

    def epsilon(self, adversary: str) -> float:
        return inf


def record(adversary: str = "strong", n: int = 90, **given: Any) -> Record:
    """An audit's record; an estimate is given as (value, low)."""
    return Record(**_values(Record, adversary, n, given))


def choice(mechanism: str = "grr", *, adversary: str = "strong", n: int = 90, **given: Any) -> Configuration:
    """A comparison's record."""
    mine = {"mechanism": mechanism, "epsilon": 1.0, "mse": 1.0, **given}
    return Configuration(**_values(Configuration, adversary, n, mine))


def _values(kind: type[Record], adversary: str, n: int, given: dict[str, Any]) -> dict[str, Any]:
    plain = {"adversary": adversary, "n": n, "users": 10_000, "baseline": 1 / 6, "majority": 0.17}
    estimates = {interval.name for interval in intervals(kind)}
    needed = [entry.name for entry in fields(kind) if entry.default is MISSING]
    values = {name: Estimate(0.3, 0.29, 0.3) if name in estimates else 0.1 for name in needed}
    pairs = {name: Estimate(*value, value[0]) for name, value in given.items() if isinstance(value, tuple)}
    return {**values, **plain, **given, **pairs}
