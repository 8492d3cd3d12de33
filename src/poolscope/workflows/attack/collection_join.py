"""Join the posteriors of several collections by user, part of the users by part, and sum up the guesses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from poolscope.core.arrays import Floats, Integers, Keys
from poolscope.core.randomness import user_keys
from poolscope.game.columns import CONFIDENCE_MCSE, LOG_ODDS_ADDED
from poolscope.inference.independent import guesses
from poolscope.inference.joint import joint_mcse, joint_scores, linked, log_odds, normalized
from poolscope.scenario.collections import assumed_link, attribute_prior
from poolscope.scenario.scenario import Scenario
from poolscope.workflows.attack.attribute_tally import AttributeTally, DayGuesses
from poolscope.workflows.attack.partitioning import name_hashes
from poolscope.workflows.attack.scoring import POOL_MCSE
from poolscope.workflows.attack.summary import top_users

BATCH_ROWS = 1 << 17
"""Rows of a collection's table that are read at a time."""


@dataclass(frozen=True, kw_only=True)
class CollectionPart:
    """A collection with reports: its place in the scenario, and how many reports of a user count on each day."""

    name: str
    index: int
    scenario: Scenario
    counts: list[int]

    @property
    def pools(self) -> tuple[str, ...]:
        """The names of its pools."""
        return self.scenario.universe().pool_names


class _HashOrdered:
    """The rows of a table of posteriors, which are in order of the hashes of users' names, read batch by batch."""

    def __init__(self, path: Path) -> None:
        self._table, self._offset = pl.scan_parquet(path, glob=False, hive_partitioning=False), 0
        self._held, self._hashes = pl.DataFrame(), np.empty(0, dtype=np.uint64)
        self.exhausted = False
        self.read()

    def read(self) -> None:
        """Read another batch."""
        batch = self._table.slice(self._offset, BATCH_ROWS).with_columns(pl.col("user").cast(pl.String)).collect()
        self._offset += batch.height
        self.exhausted = batch.height < BATCH_ROWS
        self._held = pl.concat([self._held, batch]) if self._held.width else batch
        self._hashes = np.concatenate([self._hashes, name_hashes(batch["user"])])
        assert (self._hashes[1:] >= self._hashes[:-1]).all(), "a table of posteriors is in order of the hashes"

    @property
    def last(self) -> int:
        """The hash of the last user read, whose rows may go on."""
        return int(self._hashes[-1])

    def before(self, bound: int | None) -> pl.DataFrame:
        """Take the rows of users whose hash is below a bound; all that are left without one."""
        count = len(self._hashes) if bound is None else int(np.searchsorted(self._hashes, np.uint64(bound)))
        rows, self._held, self._hashes = self._held[:count], self._held[count:], self._hashes[count:]
        return rows


def matched(paths: Sequence[Path]) -> Iterator[list[pl.DataFrame]]:
    """Yield the rows of some users from each of several tables, until all users have been yielded once."""
    tables = [_HashOrdered(path) for path in paths]
    while True:
        open_ones = [table for table in tables if not table.exhausted]
        bound = min((table.last for table in open_ones), default=None)
        rows = [table.before(bound) for table in tables]
        if any(one.height for one in rows):
            yield rows
        if bound is None:
            return
        for table in open_ones:
            if table.last == bound:
                table.read()


class JoinedUsers:
    """Joins users, and accumulates what a summary has: counts, the first rows and the top users."""

    def __init__(
        self,
        scenario: Scenario,
        parts: Sequence[CollectionPart],
        days: list[int] | None,
        threshold: float | None,
        seed: int,
        *,
        head: int,
        top: int,
        why: bool,
    ) -> None:
        assert scenario.attribute is not None
        self._scenario, self._parts = scenario, parts
        self._days: list[int | None] = [None] if days is None else list(days)
        self._values, self._threshold, self._seed = scenario.attribute.values, threshold, seed
        self._why, self._most, self._surest = why, head, top
        self._links = [
            [assumed_link(scenario, part.index, a) for part in parts] for a in range(len(scenario.adversaries))
        ]
        self.tally = AttributeTally([one.name for one in scenario.adversaries], self._values, days, threshold)
        self._head: list[dict[str, Any]] = []
        self._top: pl.DataFrame | None = None

    def add(self, tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """Join some users, a table of posteriors for each collection, and return the rows of the joint table."""
        users = pl.concat([table["user"] for table in tables]).unique().sort()
        hashes = name_hashes(users)
        order = np.argsort(hashes, kind="stable")
        users, keys = users.gather(order), user_keys(self._seed, hashes[order])
        self.tally.users += len(users)
        errors = any(f"{POOL_MCSE}{name}" in table.columns for table, part in self._of(tables) for name in part.pools)
        frames = []
        for a, entry in enumerate(self._scenario.adversaries):
            before = np.full(len(users), -1)
            surest = np.zeros(len(users))
            for o in range(len(self._days)):
                found, columns = self._guessed(tables, a, o, users, keys)
                surest = np.maximum(surest, found.confidence)
                self.tally.add(a, o, found, surest)
                error = {CONFIDENCE_MCSE: np.zeros(len(users)) if found.error is None else found.error}
                rows = pl.DataFrame(
                    {
                        "user": users,
                        "adversary": pl.repeat(entry.name, len(users), eager=True),
                        **columns,
                        **(error if errors else {}),
                        "order": np.arange(len(users)),
                        "place": np.full(len(users), a),
                    }
                )
                # a day without further reports repeats the one before
                frames.append(rows.filter(pl.Series(found.reports > before)))
                before = found.reports
        frame = pl.concat(frames).sort("order", "place", "n").drop("order", "place")
        written = frame.drop([name for name in frame.columns if name.startswith(LOG_ODDS_ADDED)])
        surest_users = top_users(frame, self._surest)
        self._top = surest_users if self._top is None else top_users(pl.concat([self._top, surest_users]), self._surest)
        self._head += written.head(self._most - len(self._head)).rows(named=True)
        return written

    def _of(self, tables: Sequence[pl.DataFrame]) -> Iterator[tuple[pl.DataFrame, CollectionPart]]:
        return zip(tables, self._parts, strict=True)

    def _guessed(
        self, tables: Sequence[pl.DataFrame], a: int, o: int, users: pl.Series, keys: Keys
    ) -> tuple[DayGuesses, dict[str, Any]]:
        """Return what one adversary guesses on one day, and what is written of it."""
        entry, values, links = self._scenario.adversaries[a], self._values, self._links[a]
        prior = attribute_prior(entry.prior, values)
        own = [_last_rows(table, part, entry.name, part.counts[o], users) for table, part in self._of(tables)]
        evidence = np.stack([linked(one.posterior, link) for one, link in zip(own, links, strict=True)], axis=1)
        used = np.stack([one.reports for one in own], axis=1)
        scores = joint_scores(evidence, prior)
        posterior, total = normalized(scores, prior), used.sum(axis=1)
        guessed, certain = guesses(posterior[:, None], keys, total[:, None])
        guess, confidence = guessed[:, 0], certain[:, 0]
        chosen = np.full(len(users), True) if self._threshold is None else confidence >= self._threshold
        error = None
        sampled = [(one, link) for one, link in zip(own, links, strict=True) if one.error is not None]
        if sampled:
            # without reports there is no error; the posterior there does not matter
            known = [(np.nan_to_num(one.posterior, nan=1 / len(link[0])), one.error) for one, link in sampled]
            of_all = joint_mcse(posterior, known, [link for _, link in sampled])  # type: ignore[arg-type]
            error = np.take_along_axis(of_all, guess[:, None], axis=1)[:, 0]
        names = pl.Series([*values, None], dtype=pl.String)
        columns = {
            "n": total.astype(np.int32),
            "guess": names.gather(np.where(chosen, guess, len(values))),
            "confidence": confidence,
            **{f"posterior.{name}": posterior[:, i] for i, name in enumerate(values)},
            **{f"n.{part.name}": used[:, c].astype(np.int32) for c, part in enumerate(self._parts)},
        }
        if self._why:
            every = log_odds(scores, guess)
            for c, part in enumerate(self._parts):
                without = joint_scores(np.delete(evidence, c, axis=1), prior)
                columns[LOG_ODDS_ADDED + part.name] = every - log_odds(without, guess)
        return DayGuesses(total, guess, confidence, chosen, error), columns

    @property
    def head(self) -> list[dict[str, Any]]:
        """The first rows of the table."""
        return self._head

    @property
    def top(self) -> list[dict[str, Any]]:
        """The rows of the top users, see `top_users`."""
        return [] if self._top is None else self._top.rows(named=True)


class _Last(NamedTuple):
    """The last rows of some users: (users, pools) posteriors, NaN without reports; errors; and numbers of reports."""

    posterior: Floats
    error: Floats | None
    reports: Integers


def _last_rows(table: pl.DataFrame, part: CollectionPart, adversary: str, count: int, users: pl.Series) -> _Last:
    """Return what a collection says after at most this many reports of each user."""
    pools = [f"posterior.{name}" for name in part.pools]
    errors = [f"{POOL_MCSE}{name}" for name in part.pools]
    known = [name for name in errors if name in table.columns]
    rows = table.filter((pl.col("adversary") == adversary) & (pl.col("n") <= count))
    last = rows.sort("n").unique("user", keep="last").select("user", "n", *pools, *known)
    own = pl.DataFrame({"user": users}).join(last, on="user", how="left", maintain_order="left")
    posterior = own.select(pl.col(pools).cast(pl.Float64).fill_null(float("nan"))).to_numpy()
    error = own.select(pl.col(known).cast(pl.Float64).fill_null(0.0)).to_numpy() if known else None
    if error is not None and not error.any():
        error = None
    return _Last(posterior, error, own["n"].fill_null(0).to_numpy().astype(np.int64))
