"""Sum up guesses of a person's attribute, some users at a time: by adversary and day."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from poolscope.core.arrays import Floats, Integers
from poolscope.inference.thresholds import with_threshold
from poolscope.metrics.intervals import share_of
from poolscope.workflows.attack.summary import UNIT, ExpectedCorrect, GuessSummary, expected_levels


class DayGuesses(NamedTuple):
    """The guesses of one adversary about some users on one day: (users,) each; `chosen` are at the threshold."""

    reports: Integers
    guess: Integers
    confidence: Floats
    chosen: NDArray[np.bool_]
    error: Floats | None = None


class AttributeTally:
    """Accumulates what a summary has. `users` counts those added; days are None where all reports count."""

    def __init__(
        self, adversaries: Sequence[str], values: Sequence[str], days: Sequence[int] | None, threshold: float | None
    ) -> None:
        self._adversaries, self._values = adversaries, values
        self._days: list[int | None] = [None] if days is None else list(days)
        self._levels, shape = with_threshold(threshold), (len(adversaries), len(self._days))
        self._expected = expected_levels(threshold)
        self.users = 0
        self._used, self._confidence, self._none = (np.zeros(shape, dtype=np.int64) for _ in range(3))
        self._confident, self._exposed = (np.zeros((*shape, len(self._levels)), dtype=np.int64) for _ in range(2))
        self._reached, self._correct = (np.zeros((*shape, len(self._expected)), dtype=np.int64) for _ in range(2))
        self._guesses = np.zeros((*shape, len(values)), dtype=np.int64)
        self._error, self._largest = np.zeros(shape), np.zeros(shape)
        self._sampled = [False] * len(adversaries)

    def add(self, a: int, o: int, found: DayGuesses, surest: Floats) -> None:
        """Add the guesses of adversary a on day o; `surest` is the largest confidence of each user so far."""
        units = np.rint(found.confidence / UNIT).astype(np.int64)
        self._used[a, o] += int(found.reports.sum())
        self._confidence[a, o] += int(units.sum())
        self._none[a, o] += int((~found.chosen).sum())
        self._guesses[a, o] += np.bincount(found.guess[found.chosen], minlength=len(self._values))
        for i, level in enumerate(self._levels):
            self._confident[a, o, i] += int((found.confidence >= level).sum())
            self._exposed[a, o, i] += int((surest >= level).sum())
        for i, level in enumerate(self._expected):
            above = found.confidence >= level
            self._reached[a, o, i] += int(above.sum())
            self._correct[a, o, i] += int(units[above].sum())
        if found.error is not None:
            self._sampled[a] = True
            self._error[a, o] += float(found.error.sum())
            self._largest[a, o] = max(self._largest[a, o], float(found.error.max()))

    def results(self) -> list[GuessSummary]:
        """Return one record for each adversary and day."""
        return [
            GuessSummary(
                adversary=name,
                n=day,
                reports=int(self._used[a, o]),
                confidence=float(self._confidence[a, o]) / self.users * UNIT,
                confident_at_threshold=dict(zip(self._levels, self._confident[a, o].tolist(), strict=True)),
                guesses=dict(zip(self._values, self._guesses[a, o].tolist(), strict=True)),
                no_guess=int(self._none[a, o]),
                baseline=1 / len(self._values),
                expected=[
                    ExpectedCorrect(
                        level=level, users=int(self._reached[a, o, i]), correct=float(self._correct[a, o, i]) * UNIT
                    )
                    for i, level in enumerate(self._expected)
                ],
                confidence_mcse=float(self._error[a, o]) / self.users if self._sampled[a] else None,
                confidence_mcse_max=float(self._largest[a, o]) if self._sampled[a] else None,
            )
            for a, name in enumerate(self._adversaries)
            for o, day in enumerate(self._days)
        ]

    def exposure(self) -> pl.DataFrame | None:
        """Return the share of users exposed by each day, as figures take it: on one of the days of guesses until then.

        None where guesses are after all reports only.
        """
        known = [day for day in self._days if day is not None]
        if not known:
            return None
        days = np.array(known)
        rows = []
        for a, name in enumerate(self._adversaries):
            for i, level in enumerate(self._levels):
                # before the first day of guesses nobody is exposed
                counts = np.concatenate([[0], self._exposed[a, :, i]])
                for day in range(int(days[-1]) + 1):
                    count = int(counts[np.searchsorted(days, day, side="right")])
                    found = share_of(count, self.users)
                    rows.append((name, day, level, found.value, found.low, found.high, self.users))
        names = ["adversary", "n", "threshold", "share", "low", "high", "users"]
        return pl.DataFrame(rows, schema=names, orient="row")
