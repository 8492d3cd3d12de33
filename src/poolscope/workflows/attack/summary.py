"""Summarize the posteriors of all users of a file, and evaluate guesses where the ground truth is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from poolscope.core.arrays import Integers
from poolscope.core.counting import counted
from poolscope.core.errors import InputError, did_you_mean
from poolscope.core.tables import read_table
from poolscope.game.columns import CORRECT
from poolscope.inference.multiplicity import log_odds
from poolscope.inference.thresholds import in_percent, with_threshold
from poolscope.metrics.calibration import ece, ece_null_p95
from poolscope.metrics.intervals import Estimate
from poolscope.metrics.models import Real, Result, Whole, result
from poolscope.metrics.precision import precision
from poolscope.workflows.attack.scoring import Scored, Scorer

#: Unit of summed confidences: sums of integers do not depend on the order.
UNIT = 2.0**-40

#: The confidence from which on guesses are counted as nearly certain, beside the thresholds.
CERTAIN = 0.99


def expected_levels(threshold: float | None) -> tuple[float, ...]:
    """Return the confidences at which the expected number of correct guesses is stated, in increasing order."""
    return tuple(sorted({*with_threshold(threshold), CERTAIN}))


class UserCounts(NamedTuple):
    """Sums over some users.

    users : how many; used : (observations,) reports; confidence : (adversaries, observations) in units of `UNIT`.
    confident_at_threshold : (levels, adversaries, observations) users at each level.
    guesses : (adversaries, observations, pools + 1) users by guess, the last without one.
    expected : (levels with `CERTAIN`, adversaries, observations, 2) users at each level, and their confidences.
    error, largest : (adversaries, observations) sum and maximum of the standard errors of confidences, in `UNIT`.
    """

    users: int
    used: Integers
    confidence: Integers
    confident_at_threshold: Integers
    guesses: Integers
    expected: Integers
    error: Integers
    largest: Integers

    def __add__(self, other: UserCounts) -> UserCounts:  # type: ignore[override]
        """Add two groups of users."""
        sums = {name: getattr(self, name) + getattr(other, name) for name in self._fields}
        return UserCounts(**sums | {"largest": np.maximum(self.largest, other.largest)})


def count(scorer: Scorer, scored: Scored) -> UserCounts:
    """Sum over some users."""
    guessed, pools = scorer.guesses(scored), len(scorer.pool_names)
    error = np.rint(scored.error / UNIT).astype(np.int64)
    confidence = np.rint(scored.corrected / UNIT).astype(np.int64)
    above = [scored.corrected >= level for level in expected_levels(scorer.threshold)]
    return UserCounts(
        users=len(scored.used),
        used=scored.used.sum(axis=0),
        confidence=confidence.sum(axis=0),
        confident_at_threshold=np.stack(
            [(scored.corrected >= level).sum(axis=0) for level in with_threshold(scorer.threshold)]
        ),
        guesses=np.stack([(guessed == pool).sum(axis=0) for pool in range(pools + 1)], axis=-1),
        expected=np.stack(
            [np.stack([one.sum(axis=0), np.where(one, confidence, 0).sum(axis=0)], axis=-1) for one in above]
        ),
        error=error.sum(axis=0),
        largest=error.max(axis=0),
    )


@result
class ExpectedCorrect(Result):
    """Users whose confidence reaches a level, and how many of their guesses are correct on average: the sum of the
    confidences, if the adversary's assumptions hold.
    """

    level: Real
    users: Whole
    correct: Real

    @property
    def sentence(self) -> str:
        """The expectation, as "Of 19 users at 99% or more, expect 18.9 correct"."""
        who = f"Of {counted(self.users, 'user')} at {in_percent(self.level)} or more"
        return f"{who}, expect {self.correct:,.1f} correct"


@dataclass(frozen=True, kw_only=True)
class GuessSummary:
    """How confident one adversary is after n reports of each user, and the distribution of its guesses.

    Parameters
    ----------
    n : None is all reports; reports : how many were used of all users together.
    confidence : the mean over users; baseline : 1/k, that of a random guess.
    confident_at_threshold : number of users at n with at least each confidence.
    guesses : for how many users each of its pools is guessed; no_guess : for how many none, below the threshold.
    expected : the expected number of correct guesses among the users at each level and above.
    confidence_mcse, confidence_mcse_max : Monte Carlo standard error of a confidence where posteriors are sampled: mean
        and maximum.
    """

    adversary: str
    n: int | None
    reports: int
    confidence: float
    confident_at_threshold: Mapping[float, int]
    guesses: Mapping[str, int]
    no_guess: int
    baseline: float
    expected: Sequence[ExpectedCorrect] = ()
    confidence_mcse: float | None = None
    confidence_mcse_max: float | None = None


#: The log-odds of the likeliest hypothesis, in the rows of the top users.
LOG_ODDS = "log_odds"


def top_users(frame: pl.DataFrame, count: int) -> pl.DataFrame:
    """Return the users that each adversary is most confident about after all their reports, in that order.

    The order is that of the log-odds, which differ where confidences are all 1.0.
    """
    if LOG_ODDS not in frame.columns:
        frame = frame.with_columns(pl.lit(0.0).alias(LOG_ODDS))
    if not count:
        return frame.clear()
    last = frame.filter(pl.col("n") == pl.col("n").max().over("user", "adversary"))
    pools = last.select(pl.col("^posterior\\..*$").fill_null(0.0)).to_numpy()
    last = last.with_columns(pl.Series(LOG_ODDS, log_odds(pools)))
    # ties in the order of the users' names: partitions come in any order
    keys = (pl.col(LOG_ODDS), pl.col("confidence"), pl.col("user").cast(pl.String))
    rows = last.sort(*keys, descending=[True, True, False])
    order = {name: place for place, name in enumerate(frame["adversary"].unique(maintain_order=True))}
    parts = [part.head(count) for part in rows.partition_by("adversary", maintain_order=True)]
    return pl.concat(sorted(parts, key=lambda part: order[part["adversary"][0]]))


#: Strongest reports of all users for each adversary, and the column of their log Bayes factors.
STRONGEST, BAYES_FACTOR = 10, "log_bayes_factor"


def first_strongest(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the strongest of some reports for each adversary, in the order of their Bayes factors."""
    ordered = rows.sort(BAYES_FACTOR, "user", "n", descending=[True, False, False])
    parts = ordered.partition_by("adversary", maintain_order=True)
    return pl.concat([part.head(STRONGEST) for part in sorted(parts, key=lambda part: str(part["adversary"][0]))])


class Tally:
    """Accumulates counts, preview rows, top users and strongest reports over partitions."""

    def __init__(self, scorer: Scorer, head: int, top: int) -> None:
        self._scorer, self._most, self._surest = scorer, head, top
        self._sums: UserCounts | None = None
        self._head: list[tuple[int, dict[str, Any]]] = []
        self._top: pl.DataFrame | None = None
        self._strongest: list[pl.DataFrame] = []

    def add(
        self,
        number: int,
        counts: UserCounts,
        head: list[dict[str, Any]],
        top: pl.DataFrame,
        strongest: pl.DataFrame | None = None,
    ) -> None:
        """Add a partition, in any order."""
        if strongest is not None:
            self._strongest = [first_strongest(pl.concat([*self._strongest, strongest]))]
        self._top = top if self._top is None else top_users(pl.concat([self._top, top]), self._surest)
        # Python's integers: the sum may exceed 64 bits
        more = UserCounts._make(np.asarray(count, dtype=object) for count in counts)
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
        """The rows of the top users, see `top_users`."""
        return [] if self._top is None else self._top.rows(named=True)

    @property
    def strongest(self) -> pl.DataFrame:
        """The strongest reports of all users, see `first_strongest`."""
        return self._strongest[0]

    def results(self) -> list[GuessSummary]:
        """Return one record for each adversary and observation count."""
        scorer, sums = self._scorer, self._sums
        assert sums is not None
        asked = [None] if scorer.observations is None else list(scorer.observations)
        return [
            GuessSummary(
                adversary=adversary.name,
                n=n,
                reports=int(sums.used[o]),
                confidence=sums.confidence[a, o] / self.users * UNIT,
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
                expected=[
                    ExpectedCorrect(
                        level=level,
                        users=int(sums.expected[i, a, o, 0]),
                        correct=sums.expected[i, a, o, 1] * UNIT,
                    )
                    for i, level in enumerate(expected_levels(scorer.threshold))
                ],
                confidence_mcse=sums.error[a, o] / self.users * UNIT if a in scorer.memoization_aware else None,
                confidence_mcse_max=sums.largest[a, o] * UNIT if a in scorer.memoization_aware else None,
            )
            for a, adversary in enumerate(scorer.adversaries)
            for o, n in enumerate(asked)
        ]


#: Probability that a calibrated adversary is called miscalibrated, for all adversaries together.
ERROR = 0.001


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """How often one adversary is correct about the users of the ground truth, after all their reports.

    Parameters
    ----------
    users : how many these are; guessed : how many of them have a guess.
    precision : share of correct guesses among these.
    ece : expected calibration error; ece_null_p95 : its 95th percentile under perfect calibration.
    calibrated : whether the error is consistent with perfect calibration, at an error of `ERROR`.
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
        """The violation of an adversary that is not calibrated."""
        assert self.ece is not None
        gap = f"expected calibration error {self.ece.value:.3f}"
        return (
            f"adversary {self.adversary} is not calibrated: {gap}, 95th percentile under "
            f"calibration {self.ece_null_p95:.3f}; its assumptions do not hold for these users"
        )


def read_truth(path: str | PathLike[str]) -> pl.DataFrame:
    """Read a table ``user``, ``pool``, each user once."""
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


def evaluate(posteriors: pl.LazyFrame, truth: pl.DataFrame, seed: int) -> list[Evaluation]:
    """Evaluate each adversary of a table of posteriors by the ground truth."""
    rows = posteriors.select("user", "adversary", "n", "guess", "confidence")
    last = rows.filter(pl.col("n") == pl.col("n").max().over("user", "adversary"))
    found = last.join(truth.lazy(), on="user", how="inner").collect().sort("user")
    if not found.height:
        raise InputError("must have users of the reports", place="ground_truth")
    names = rows.select("adversary").unique(maintain_order=True).collect()["adversary"]
    level = 1.0 - ERROR / len(names)
    return [_evaluate_adversary(name, found.filter(pl.col("adversary") == name), seed, level) for name in names]


def _evaluate_adversary(adversary: str, rows: pl.DataFrame, seed: int, level: float) -> Evaluation:
    """Evaluate one adversary."""
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
