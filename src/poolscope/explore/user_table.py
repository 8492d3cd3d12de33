"""List the users of a finished run or a file of posteriors by confidence, with the history of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from poolscope.core.errors import InputError, PoolscopeError
from poolscope.core.tables.reading import HELD, open_table
from poolscope.game.collections import JOINT
from poolscope.game.columns import EXPOSED, EXPOSED_AT_THRESHOLD, NON_PRIVATE
from poolscope.game.outcome_files import OutcomeFiles
from poolscope.scenario.scenario import Scenario, load_scenario, parse
from poolscope.workflows.audit.run_folder import Run, read_run

MAX_LISTED_USERS = 500
"""Most confident users of each adversary that are listed."""

NEEDED = ("user", "adversary", "n", "guess", "confidence")
"""Columns of posteriors that are read."""

RUN = (*NEEDED, "pool", "gamma", "delta")

EXPOSED_BY = "exposed"
"""The column of the report that exposed a user of a run, with the confidence that was asked for."""


@dataclass(frozen=True, kw_only=True, eq=False)
class UserTable:
    """Who is listed.

    Parameters
    ----------
    name : of the folder or file; users : how many there are in all.
    rows : the confident of each adversary after their last report, with the columns that there are.
    outcomes : every row of every user who is listed, at every n; a run's are read where they are asked for.
    exposed_at : the confidence of `EXPOSED_BY`, which only a run has.
    scenario, seed : how a run was played, so that one user can be simulated again; None for a file of posteriors.
    """

    name: str
    users: int
    rows: pl.DataFrame
    outcomes: pl.DataFrame | OutcomeFiles
    exposed_at: float | None = None
    scenario: Scenario | None = None
    seed: int = 0

    def growth(self, user: str) -> list[dict[str, Any]]:
        """Guess and confidence of a user at every n that was looked at, by adversary."""
        same = pl.col("user").cast(pl.String) == user
        if isinstance(self.outcomes, OutcomeFiles):
            attacks = self.outcomes.attacks()
            parts = [part.filter(same) for attack in attacks for part in self.outcomes.parts(attack, list(NEEDED))]
            found = pl.concat([_plain(part) for part in parts])
        else:
            found = self.outcomes.filter(same)
        if found.is_empty():
            raise InputError("there is no such user", value=user, place="user")
        return found.select("adversary", "n", "guess", "confidence").sort("n", maintain_order=True).to_dicts()


def users_of_run(folder: Path) -> UserTable:
    """The users of a run's folder."""
    run = read_run(folder)
    # of several collections, what all reveal together
    outcomes = run.outcomes if run.summary.collections is None else replace(run.outcomes, collection=JOINT)
    last = max(n for _, n in outcomes.attacks())
    names = list(dict.fromkeys(adversary for adversary, _ in outcomes.attacks()))
    # whom the objects themselves give away is no news
    names = [name for name in names if name != NON_PRIVATE] or names
    first = run.summary.results[0]
    exposed = pl.col(EXPOSED_AT_THRESHOLD if first.exposed else EXPOSED[first.exposed_at]).alias(EXPOSED_BY)
    confident = [_by_confidence(outcomes.parts((name, last), [*RUN, exposed])) for name in names]
    return UserTable(
        name=folder.resolve().name,
        users=run.summary.users,
        rows=pl.concat(confident),
        outcomes=outcomes,
        exposed_at=first.exposed_at,
        scenario=_scenario(run),
        seed=run.summary.seed,
    )


def users_of_posteriors(path: Path) -> UserTable:
    """The users of a file of posteriors, which must fit into memory."""
    parts = []
    for batch in open_table(path).batches(NEEDED, bytes_held_per_row=HELD):
        n = batch.integers("n")
        batch.check("n", n >= 0, "must be a whole number, at least 0")
        parts.append(
            pl.DataFrame(
                {
                    "user": batch.names("user").cast(pl.String),
                    "adversary": batch.names("adversary").cast(pl.String),
                    "n": n,
                    "guess": batch.names_or_none("guess").cast(pl.String),
                    "confidence": batch.numbers("confidence", 1.0),
                }
            )
        )
    table = pl.concat(parts)
    last = table.group_by("user", "adversary", maintain_order=True).agg(pl.all().sort_by("n").last())
    rows = pl.concat([_by_confidence(iter([some])) for some in last.partition_by("adversary", maintain_order=True)])
    return UserTable(name=path.name, users=table["user"].n_unique(), rows=rows, outcomes=table)


def _by_confidence(parts: Iterator[pl.DataFrame]) -> pl.DataFrame:
    """Return the users with the highest confidence, part by part, so that few are in memory."""
    kept: pl.DataFrame | None = None
    for part in parts:
        both = _plain(part) if kept is None else pl.concat([kept, _plain(part)])
        kept = both.sort("confidence", descending=True, maintain_order=True).head(MAX_LISTED_USERS)
    assert kept is not None
    return kept


def _plain(part: pl.DataFrame) -> pl.DataFrame:
    """Return the part with names as texts, which two files have in common."""
    texts = [name for name in ("user", "adversary", "guess", "pool") if name in part.columns]
    return part.with_columns(pl.col(texts).cast(pl.String), pl.col("n").cast(pl.Int64))


def _scenario(run: Run) -> Scenario | None:
    """Return the scenario of a run; trust its file references only if the file is unchanged."""
    kept = run.summary.scenario
    try:
        there = load_scenario(kept.file)
        if there.text == kept.text:
            return there
    except PoolscopeError:
        pass
    try:
        return parse(kept.text, name=Path(kept.file).stem)
    except PoolscopeError:
        return None
