"""Guesses held against the truth, where somebody knows it."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike

import polars as pl

from poolscope.base.errors import InputError
from poolscope.base.tables import read_table
from poolscope.game.columns import CORRECT
from poolscope.metrics.calibration import calibration_error, calibration_limit
from poolscope.metrics.intervals import Estimate
from poolscope.metrics.precision import precision


@dataclass(frozen=True, kw_only=True)
class Judged:
    """How right one adversary is about the users whose pool is known, after all their reports.

    Parameters
    ----------
    users : how many these are; guessed : about how many of them there is a guess.
    precision : share of right guesses among these.
    calibration_error : mean gap of confidence and success; calibration_error_limit : the most that chance explains.
    """

    adversary: str
    users: int
    guessed: int
    precision: Estimate | None
    calibration_error: Estimate | None
    calibration_error_limit: float | None


def read_truth(path: str | PathLike[str]) -> pl.DataFrame:
    """A table ``user``, ``pool``, each user once."""
    table = read_table(path, ("user", "pool"))
    users = table.names("user").cast(pl.String)
    if (twice := users.is_duplicated()).any():
        row = int(twice.arg_true()[-1])
        raise table.wrong("a user must be listed once", row, users[row])
    return pl.DataFrame({"user": users, "pool": table.names("pool").cast(pl.String)})


def judged(posteriors: pl.LazyFrame, truth: pl.DataFrame, seed: int) -> list[Judged]:
    """Each adversary of a table of posteriors, beside the truth."""
    rows = posteriors.select("user", "adversary", "n", "guess", "confidence")
    last = rows.filter(pl.col("n") == pl.col("n").max().over("user", "adversary"))
    found = last.join(truth.lazy(), on="user", how="inner").collect().sort("user")
    if not found.height:
        raise InputError("must have users of the reports", place="truth")
    names = rows.select("adversary").unique(maintain_order=True).collect()["adversary"]
    return [_judged(name, found.filter(pl.col("adversary") == name), seed) for name in names]


def _judged(adversary: str, rows: pl.DataFrame, seed: int) -> Judged:
    guessed = rows.drop_nulls("guess").with_columns((pl.col("guess") == pl.col("pool")).alias(CORRECT))
    some = guessed.height > 0
    return Judged(
        adversary=adversary,
        users=rows.height,
        guessed=guessed.height,
        precision=precision(guessed, seed) if some else None,
        calibration_error=calibration_error(guessed, seed) if some else None,
        calibration_error_limit=calibration_limit(guessed, seed) if some else None,
    )
