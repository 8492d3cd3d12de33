"""What a comparison says: frozen records, and the file that holds them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from poolscope import __version__
from poolscope.core.errors import InputError, located
from poolscope.core.files import ANOTHER, check_new, claimed, plain, read_json, told
from poolscope.core.tables.atomic import write_text
from poolscope.metrics.bounds import EpsilonInTime
from poolscope.metrics.intervals import Estimate
from poolscope.metrics.reading import record_from
from poolscope.metrics.records import Record
from poolscope.metrics.tables import Records
from poolscope.scenario.scenario import Scenario, as_kept

FILE = "comparison.json"


@dataclass(frozen=True, kw_only=True)
class Leak(Record):
    """What one adversary learns: an audit's record, and what only a comparison tells.

    Parameters
    ----------
    reports_to_exposure : how many expose half of the users at confidence `exposed_at`; infinite where they never do.
    evidence : what the reports added to the log odds of the true pool, of the user at the 99 % quantile.
    """

    reports_to_exposure: Estimate
    evidence: Estimate


@dataclass(frozen=True, kw_only=True)
class Choice(Leak):
    """What one adversary learns under one choice of mechanism and epsilon, and how well that choice serves.

    Parameters
    ----------
    mechanism, epsilon : the choice; composition_bound : n epsilon, which no evidence exceeds;
        with a cap or a window it is of the reports that can be linked. Where devices keep answers, the epsilon of an
        answer times the answers that n reports can come from, as the papers count.
    mse, rmse, mae : errors of the curator's frequencies as measured, rmse the root of mse; mse_expected, rmse_expected,
        mae_expected : in closed form. None where the mechanism has no estimate.
    frontier : whether no other choice does as well on both error and AUC, and better on one.
    """

    mechanism: str
    epsilon: float
    composition_bound: float
    mse: float | None
    mae: float | None
    mse_expected: float | None
    mae_expected: float | None
    frontier: bool = False

    @property
    def rmse(self) -> float:
        """Root of the mean squared error, which is a share as a frequency is; NaN without an estimate."""
        return math.nan if self.mse is None else math.sqrt(self.mse)

    @property
    def rmse_expected(self) -> float:
        """The same in closed form."""
        return math.nan if self.mse_expected is None else math.sqrt(self.mse_expected)

    def as_json(self) -> dict[str, Any]:
        """The record as one flat object, see ``Record``; the roots stand beside their squares."""
        return super().as_json() | {name: plain(getattr(self, name)) for name in ("rmse", "rmse_expected")}


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What each choice of mechanism and epsilon gives away, and how well it serves.

    Parameters
    ----------
    scenario : the one that the choices vary; seed, users : who played.
    reports : how many the frequency estimates are made of; n : how many of each user the adversaries saw.
    mechanisms : as they were asked for.
    results : a record for each choice and adversary, choices in the order asked for.
    non_private : the record of the same users without a mechanism, or None.
    epsilons : of the choices, with their time, each once; devices : the same, the users and what devices do, in words.
    adversaries : what each knows, in words.
    seconds : how long it took; version : of poolscope that made it.
    """

    scenario: Scenario
    seed: int
    users: int
    reports: int
    n: int
    mechanisms: tuple[str, ...]
    results: Records[Choice]
    non_private: Leak | None
    epsilons: tuple[EpsilonInTime, ...]
    devices: tuple[str, ...]
    adversaries: Mapping[str, str]
    seconds: float
    version: str = __version__

    def as_json(self) -> dict[str, Any]:
        """The content of ``comparison.json``."""
        return {
            "scenario": self.scenario.about(),
            "seed": self.seed,
            "users": self.users,
            "reports": self.reports,
            "n": self.n,
            "mechanisms": list(self.mechanisms),
            "version": self.version,
            "reports_per_day": self.scenario.devices.reports_per_day,
            "epsilons": plain([asdict(epsilon) for epsilon in self.epsilons]),
            "devices": list(self.devices),
            "adversaries": dict(self.adversaries),
            "non_private": self.non_private and self.non_private.as_json(),
            "results": [record.as_json() for record in self.results],
            "seconds": round(self.seconds, 3),
        }

    def _repr_html_(self) -> str:
        return self.results.to_html()

    def write(self, out: Path) -> None:
        """Put ``comparison.json`` into a folder of its own."""
        text = json.dumps(self.as_json(), indent=1, allow_nan=False, ensure_ascii=False)
        with told(out, ANOTHER), claimed(out):
            check_new(out)
            write_text(out / FILE, text + "\n")


def read_comparison(folder: Path) -> Comparison:
    """The comparison that lies in a folder; an ``InputError`` says what is missing or malformed."""
    path = folder / FILE
    found = read_json(path)
    with located(file=path):
        comparison = record_from(Comparison, found, readers={Scenario: as_kept})
        if not comparison.results:
            raise InputError("must not be empty", place="results")
    return comparison


def mark_frontier(results: Sequence[Choice]) -> Iterator[Choice]:
    """The records, each told whether it is on the ``frontier``.

    Each adversary has a frontier of its own; a choice without an estimate is on none.
    """
    for record in results:
        rivals = [rival for rival in results if rival.adversary == record.adversary]
        yield replace(record, frontier=record.mse is not None and not any(_beats(rival, record) for rival in rivals))


def _beats(one: Choice, other: Choice) -> bool:
    if one.mse is None or other.mse is None:
        return False
    pairs = (one.mse, other.mse), (one.auc.value, other.auc.value)
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)
