"""Guesses compared with the truth, where it is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike

import polars as pl

from poolscope.core.errors import InputError, did_you_mean
from poolscope.core.tables import read_table
from poolscope.game.outcomes import CORRECT
from poolscope.metrics.calibration import calibration_error, calibration_limit
from poolscope.metrics.intervals import Estimate
from poolscope.metrics.precision import precision

#: How often a calibrated adversary may be called otherwise, for all adversaries together.
ERROR = 0.001


@dataclass(frozen=True, kw_only=True)
class Judged:
    """How right one adversary is about the users whose pool is known, after all their reports.

    Parameters
    ----------
    users : how many these are; guessed : about how many of them there is a guess.
    precision : share of right guesses among these.
    calibration_error : mean gap of confidence and success; calibration_error_limit : what chance explains in 95 of 100
        cases.
    calibrated : whether chance explains the gap, in all but `ERROR` of the cases.
    """

    adversary: str
    users: int
    guessed: int
    precision: Estimate | None
    calibration_error: Estimate | None
    calibration_error_limit: float | None
    calibrated: bool | None

    @property
    def violation(self) -> str:
        """What is wrong with one that is not calibrated."""
        assert self.calibration_error is not None
        gap = f"confidence and success differ by {self.calibration_error.value:.3f}"
        return (
            f"adversary {self.adversary} is not calibrated: {gap}, where chance explains "
            f"{self.calibration_error_limit:.3f}; its assumptions do not hold for these users"
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


def judged(posteriors: pl.LazyFrame, truth: pl.DataFrame, seed: int) -> list[Judged]:
    """Each adversary of a table of posteriors, beside the truth."""
    rows = posteriors.select("user", "adversary", "n", "guess", "confidence")
    last = rows.filter(pl.col("n") == pl.col("n").max().over("user", "adversary"))
    found = last.join(truth.lazy(), on="user", how="inner").collect().sort("user")
    if not found.height:
        raise InputError("must have users of the reports", place="truth")
    names = rows.select("adversary").unique(maintain_order=True).collect()["adversary"]
    level = 1.0 - ERROR / len(names)
    return [_judged(name, found.filter(pl.col("adversary") == name), seed, level) for name in names]


def _judged(adversary: str, rows: pl.DataFrame, seed: int, level: float) -> Judged:
    guessed = rows.drop_nulls("guess").with_columns((pl.col("guess") == pl.col("pool")).alias(CORRECT))
    some = guessed.height > 0
    gap = calibration_error(guessed, seed) if some else None
    return Judged(
        adversary=adversary,
        users=rows.height,
        guessed=guessed.height,
        precision=precision(guessed, seed) if some else None,
        calibration_error=gap,
        calibration_error_limit=calibration_limit(guessed, seed) if some else None,
        calibrated=None if gap is None else gap.value <= calibration_limit(guessed, seed, level=level),
    )
