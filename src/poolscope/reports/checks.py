"""All checks of whether reports are what a scenario says they are, fed block by block with the first rows of a file."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from poolscope.core.arrays import Integers, Keys
from poolscope.mechanisms.devices import Device, Keeping
from poolscope.mechanisms.protocols import Reports, report_count
from poolscope.population.popularity import within_pools
from poolscope.reports.misfit import ERROR, MOST, Firsts, Misfit
from poolscope.reports.repeats import Repeats, least_same
from poolscope.reports.stated_popularity import PopularityCheck, StatedPopularity


class Checks:
    """Looks at the first reports of a file, and lists what contradicts the scenario.

    Parameters
    ----------
    device : what is assumed to have sent the reports.
    stated : the popularities that adversaries assume.
    error : probability of a false alarm of each of the checks.
    """

    def __init__(self, device: Device, stated: Sequence[StatedPopularity] = (), error: float = ERROR) -> None:
        self._memoized = isinstance(device, Keeping)
        self._misfit, self._firsts = Misfit(device.mechanism, error), Firsts()
        least = max((_least(each) for each in stated), default=0.0)
        self._repeats = Repeats(device, least, error)
        self._popularities = [PopularityCheck(device.mechanism, each, error, MOST) for each in stated]
        self._users: list[Keys] = []
        self._rows = 0

    @property
    def enough(self) -> bool:
        """Whether more reports would be left out."""
        return self._misfit.enough and self._rows >= MOST

    def add(self, users: pl.Series, reports: Reports) -> None:
        """Look at a block: who sent each report, and the reports."""
        # the reports of a user who memoizes depend on each other, the first ones of users do not
        marks = users.hash().to_numpy()  # names may be long
        self._misfit.add(self._firsts.of(marks, reports) if self._memoized else reports)
        some = {name: column[: MOST - self._rows] for name, column in reports.items()}
        if not report_count(some):
            return
        self._users.append(marks[: report_count(some)])
        self._rows += report_count(some)
        self._repeats.add(some)
        for popularity in self._popularities:
            popularity.add(some)

    def found(self) -> list[str]:
        """What contradicts the scenario, each in one line; nothing where all is as it says."""
        if not self._rows:
            return []
        users = self._numbered()
        repeats = self._repeats.found(users)
        # the misfit of fresh reports is that of independent ones
        misfit = None if repeats and not self._memoized else self._misfit.found()
        found = [repeats, misfit, *(check.found(users) for check in self._popularities)]
        return [line for line in found if line]

    def _numbered(self) -> Integers:
        """(reports,) the user of each, from 0."""
        numbers: Integers = np.unique(np.concatenate(self._users), return_inverse=True)[1]
        return numbers


def _least(stated: StatedPopularity) -> float:
    within = within_pools(stated.universe, stated.popularity, empty="uniform")
    return least_same(within, stated.universe.pool_of + 1)
