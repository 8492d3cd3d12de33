"""Summaries over all users of a file, and guesses compared with the ground truth where it is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from poolscope.core.arrays import Integers
from poolscope.core.errors import InputError, did_you_mean
from poolscope.core.tables import read_table
from poolscope.game.columns import CORRECT
from poolscope.inference.levels import with_threshold
from poolscope.metrics.calibration import ece, ece_null_p95
from poolscope.metrics.intervals import Estimate
from poolscope.metrics.precision import precision
from poolscope.workflows.attack.scoring import Scored, Scorer

#: What confidences are summed up in: whole numbers, whose sum depends on no order.
GRAIN = 2.0**-40


class Counts(NamedTuple):
    """Some users summed up: how many they are, reports used (observations,), confidence (adversaries, observations) in
    units of `GRAIN`, how many it is sure of (levels, adversaries, observations), guesses (adversaries, observations,
    pools + 1), the standard errors of confidences as these are, and the largest of them (adversaries, observations)."""

    users: int
    used: Integers
    confidence: Integers
    confident_at_threshold: Integers
    guesses: Integers
    error: Integers
    largest: Integers

    def __add__(self, other: Counts) -> Counts:  # type: ignore[override]
        """Of both groups of users."""
        sums = {name: getattr(self, name) + getattr(other, name) for name in self._fields}
        return Counts(**sums | {"largest": np.maximum(self.largest, other.largest)})


def count(scorer: Scorer, scored: Scored) -> Counts:
    """Some users summed up."""
    guessed, pools = scorer.guessed(scored), len(scorer.pool_names)
    error = np.rint(scored.error / GRAIN).astype(np.int64)
    return Counts(
        users=len(scored.used),
        used=scored.used.sum(axis=0),
        confidence=np.rint(scored.confidence / GRAIN).astype(np.int64).sum(axis=0),
        confident_at_threshold=np.stack(
            [(scored.confidence >= level).sum(axis=0) for level in with_threshold(scorer.threshold)]
        ),
        guesses=np.stack([(guessed == pool).sum(axis=0) for pool in range(pools + 1)], axis=-1),
        error=error.sum(axis=0),
        largest=error.max(axis=0),
    )


@dataclass(frozen=True, kw_only=True)
class Guessed:
    """How confident one adversary is after n reports of each user, and how its guesses spread.

    Parameters
    ----------
    n : None is all reports; reports : how many were used of all users together.
    confidence : the mean over users; baseline : 1/k, what a random guess has.
    confident_at_threshold : of how many users it is sure at n, by the confidence that this takes.
    guesses : for how many users each of its pools is guessed; no_guess : for how many none, as with a threshold.
    confidence_mcse, confidence_mcse_max : where its posteriors are sampled, the standard error that this leaves a
        confidence with, in the mean and at most.
    """

    adversary: str
    n: int | None
    reports: int
    confidence: float
    confident_at_threshold: Mapping[float, int]
    guesses: Mapping[str, int]
    no_guess: int
    baseline: float
    confidence_mcse: float | None = None
    confidence_mcse_max: float | None = None


def surest(frame: pl.DataFrame, count: int) -> pl.DataFrame:
    """Of each adversary the users that it is surest of after all their reports, so many of them, the surest first."""
    if not count:
        return frame.clear()
    last = frame.filter(pl.col("n") == pl.col("n").max().over("user", "adversary"))
    # users of the same confidence in the order of their names: partitions may come in any
    rows = last.sort(pl.col("confidence"), pl.col("user").cast(pl.String), descending=[True, False])
    order = {name: place for place, name in enumerate(frame["adversary"].unique(maintain_order=True))}
    parts = [part.head(count) for part in rows.partition_by("adversary", maintain_order=True)]
    return pl.concat(sorted(parts, key=lambda part: order[part["adversary"][0]]))


class Tally:
    """How confident the adversaries are and how their guesses spread, summed up over partitions, and the first rows."""

    def __init__(self, scorer: Scorer, head: int, top: int) -> None:
        self._scorer, self._most, self._surest = scorer, head, top
        self._sums: Counts | None = None
        self._head: list[tuple[int, dict[str, Any]]] = []
        self._top: pl.DataFrame | None = None

    def add(self, number: int, counts: Counts, head: list[dict[str, Any]], top: pl.DataFrame) -> None:
        """Add a partition, whichever is done first."""
        self._top = top if self._top is None else surest(pl.concat([self._top, top]), self._surest)
        # Python's integers: many users' confidences are more than 64 bits hold
        more = Counts._make(np.asarray(count, dtype=object) for count in counts)
        self._sums = more if self._sums is None else self._sums + more
        self._head = sorted([*self._head, *((number, row) for row in head)], key=lambda row: row[0])[: self._most]

    @property
    def users(self) -> int:
        return 0 if self._sums is None else int(self._sums.users)

    @property
    def head(self) -> list[dict[str, Any]]:
        """The first rows of the table."""
        return [row for _, row in self._head]

    @property
    def top(self) -> list[dict[str, Any]]:
        """The surest rows, see `surest`."""
        return [] if self._top is None else self._top.rows(named=True)

    def results(self) -> list[Guessed]:
        """One record for each adversary and observation count."""
        scorer, sums = self._scorer, self._sums
        assert sums is not None
        asked = [None] if scorer.observations is None else list(scorer.observations)
        return [
            Guessed(
                adversary=adversary.name,
                n=n,
                reports=int(sums.used[o]),
                confidence=sums.confidence[a, o] / self.users * GRAIN,
                confident_at_threshold={
                    level: int(sums.confident_at_threshold[i, a, o])
                    for i, level in enumerate(with_threshold(scorer.threshold))
                },
                guesses={
                    name: int(sums.guesses[a, o, i])
                    for i, name in enumerate(scorer.pool_names)
                    if name in adversary.hypotheses
                },
                no_guess=int(sums.guesses[a, o, -1]),
                baseline=1.0 / len(adversary.hypotheses),
                confidence_mcse=sums.error[a, o] / self.users * GRAIN if a in scorer.grouping else None,
                confidence_mcse_max=sums.largest[a, o] * GRAIN if a in scorer.grouping else None,
            )
            for a, adversary in enumerate(scorer.adversaries)
            for o, n in enumerate(asked)
        ]


#: How often a calibrated adversary may be called otherwise, for all adversaries together.
ERROR = 0.001


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """How right one adversary is about the users whose pool is known, after all their reports.

    Parameters
    ----------
    users : how many these are; guessed : about how many of them there is a guess.
    precision : share of right guesses among these.
    ece : mean gap of confidence and success; ece_null_p95 : what chance explains in 95 of 100
        cases.
    calibrated : whether chance explains the gap, in all but `ERROR` of the cases.
    """

    adversary: str
    users: int
    guessed: int
    precision: Estimate | None
    ece: Estimate | None
    ece_null_p95: float | None
    calibrated: bool | None

    @property
    def violation(self) -> str:
        """What is wrong with one that is not calibrated."""
        assert self.ece is not None
        gap = f"confidence and success differ by {self.ece.value:.3f}"
        return (
            f"adversary {self.adversary} is not calibrated: {gap}, where chance explains "
            f"{self.ece_null_p95:.3f}; its assumptions do not hold for these users"
        )


def read_truth(path: str | PathLike[str]) -> pl.DataFrame:
    """A table ``user``, ``pool``, each user once."""
    table = read_table(path, ("user", "pool"))
    users = table.names("user").cast(pl.String)
    if (twice := users.is_duplicated()).any():
        row = int(twice.arg_true()[-1])
        raise table.wrong("a user must be listed once", row, users[row])
    return pl.DataFrame({"user": users, "pool": table.names("pool").cast(pl.String)})


def check_pools(truth: pl.DataFrame, pools: Sequence[str], file: str | PathLike[str]) -> None:
    """Refuse a pool that no adversary has: nobody could guess it."""
    unknown = (~truth["pool"].is_in(pools)).arg_true()
    if len(unknown):
        row = int(unknown[0])
        name, rule = truth["pool"][row], "pool must be one of the scenario's, or of `pools`"
        raise InputError(rule, value=name, place=f"row {row + 1}", file=file, remedy=did_you_mean(name, pools))


def judged(posteriors: pl.LazyFrame, truth: pl.DataFrame, seed: int) -> list[Evaluation]:
    """Each adversary of a table of posteriors, beside the truth."""
    rows = posteriors.select("user", "adversary", "n", "guess", "confidence")
    last = rows.filter(pl.col("n") == pl.col("n").max().over("user", "adversary"))
    found = last.join(truth.lazy(), on="user", how="inner").collect().sort("user")
    if not found.height:
        raise InputError("must have users of the reports", place="ground_truth")
    names = rows.select("adversary").unique(maintain_order=True).collect()["adversary"]
    level = 1.0 - ERROR / len(names)
    return [_judged(name, found.filter(pl.col("adversary") == name), seed, level) for name in names]


def _judged(adversary: str, rows: pl.DataFrame, seed: int, level: float) -> Evaluation:
    guessed = rows.drop_nulls("guess").with_columns((pl.col("guess") == pl.col("pool")).alias(CORRECT))
    some = guessed.height > 0
    gap = ece(guessed, seed) if some else None
    return Evaluation(
        adversary=adversary,
        users=rows.height,
        guessed=guessed.height,
        precision=precision(guessed, seed) if some else None,
        ece=gap,
        ece_null_p95=ece_null_p95(guessed, seed) if some else None,
        calibrated=None if gap is None else gap.value <= ece_null_p95(guessed, seed, level=level),
    )
