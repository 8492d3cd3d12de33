"""Answer settings of several collections of one person: all jointly, and each alone.

The people of a seed are the same in every sample, so the answer from N people equals an audit of N people.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from poolscope.core.executors import Local
from poolscope.explore.answers import PlayedUsers, curator_error
from poolscope.game.collections import JOINT, WITHOUT, JointGame
from poolscope.game.columns import COLLECTION, EXPOSED, EXPOSED_AT_THRESHOLD, NON_PRIVATE
from poolscope.inference.thresholds import DEFAULT_THRESHOLD
from poolscope.metrics.bounds import CumulativeEpsilon
from poolscope.metrics.collections import (
    CollectionsSummary,
    Contribution,
    JointExposure,
    collection_record,
    collections_text,
    contributions_of,
    overconfidence_of,
    success_bound_of,
    total_epsilon,
)
from poolscope.metrics.exposure import exposure
from poolscope.metrics.precision import by_user
from poolscope.metrics.records import AttackCounts, Record, record_of
from poolscope.metrics.text import strongest_attack, summary_text
from poolscope.workflows.audit.collections import collections_in_words, total_in_words

Rows = dict[tuple[str, str, int], pl.DataFrame]
"""Outcomes by subset of the collections, adversary and day."""


@dataclass(frozen=True, kw_only=True)
class CollectionAnswer:
    """The results of one collection.

    Parameters
    ----------
    record : the attack on its reports alone, by the adversary of the strongest joint attack.
    epsilon : of its reports over time; rmse, reports_each, n_above : as `Answer` has them, by the end of day n.
    """

    name: str
    record: Record
    epsilon: CumulativeEpsilon
    rmse: float | None
    reports_each: float
    n_above: int | None


@dataclass(frozen=True, kw_only=True)
class JointAnswer:
    """The results of a setting of several collections.

    Parameters
    ----------
    users : how many played; n : after how many days the adversaries guess.
    results : a record of each subset of the collections and each adversary at n, as in an audit.
    strongest_attack : the best joint attack; about : what the collections are, and what each adds by n.
    exposure : by every day, from all collections and from each alone; n, share, low, high, adversary, collection.
    days : records of the strongest attack's adversary on every observed day; contributions : on these days.
    alone : the results of each collection.
    words : the summary; devices : what is sent.
    waiting : adversaries who still estimate a popularity and are not in it.
    """

    users: int
    n: int
    results: tuple[Record, ...]
    strongest_attack: Record
    about: CollectionsSummary
    exposure: pl.DataFrame
    days: tuple[Record, ...]
    contributions: tuple[Contribution, ...]
    alone: tuple[CollectionAnswer, ...]
    words: str
    devices: tuple[str, ...]
    waiting: tuple[str, ...]

    @property
    def rmse(self) -> float | None:
        """The largest error of a frequency among the collections; None where one has no closed form."""
        errors = [one.rmse for one in self.alone]
        return None if any(error is None for error in errors) else max(error for error in errors if error is not None)

    @property
    def exposed_jointly(self) -> JointExposure:
        """Whom the strongest attack exposes, jointly and by single collections."""
        return next(one for one in self.about.exposures if one.adversary == self.strongest_attack.adversary)


class JointSample(PlayedUsers):
    """The people of a game of several collections simulated so far; `kinds` are the names of the mechanisms."""

    def __init__(self, game: JointGame, n: int, seed: int, engine: Local, kinds: Sequence[str]) -> None:
        super().__init__(game, n, seed, engine, any(one.game.device.memoizes for one in game.collections))
        self._game, self._kinds = game, kinds
        self._view = game.view()

    @property
    def _exposed_at(self) -> tuple[float, str]:
        """The threshold of exposure, and the column of the first day with it."""
        level = self._game.threshold
        return (DEFAULT_THRESHOLD, EXPOSED[DEFAULT_THRESHOLD]) if level is None else (level, EXPOSED_AT_THRESHOLD)

    def _rows(self) -> Rows:
        parts = self._outcomes.with_columns(pl.col(COLLECTION, "adversary").cast(pl.String))
        found = parts.partition_by(COLLECTION, "adversary", "n", as_dict=True)
        return {(str(subset), str(name), int(n)): by_user(some) for (subset, name, n), some in found.items()}

    def _record(self, rows: Rows, subset: str, adversary: str, n: int) -> Record:
        own, game = rows[subset, adversary, n], self._game
        found = record_of(own, AttackCounts.of(own, n), adversary, n, self._view, self._seed, game.threshold)
        bound = success_bound_of(game, game.subsets[subset], adversary, n)
        return replace(found, collection=subset, success_bound=bound)

    def _contributions(self, rows: Rows, adversary: str, n: int) -> tuple[list[Contribution], JointExposure]:
        level, column = self._exposed_at
        return contributions_of(
            {one: rows[one, adversary, n] for one in self._game.subsets}, adversary, n, column, level
        )

    def _exposure(self, rows: Rows, subset: str, adversary: str) -> pl.DataFrame:
        game, level = self._game, self._exposed_at[0]
        shares = exposure(rows[subset, adversary, self._n], game.horizon, game.threshold)
        return shares.filter(pl.col("threshold") == level).select(
            pl.lit(adversary).alias("adversary"), pl.lit(subset).alias(COLLECTION), pl.all()
        )

    def answer(self, waiting: Sequence[str] = ()) -> JointAnswer:
        """Return the results of these people."""
        game, n, rows = self._game, self._n, self._rows()
        first = {
            (subset, name): self._record(rows, subset, name, n)
            for subset in set(game.same_subsets.values())
            for name in game.pool_counts
        }
        results = [
            replace(first[same, name], collection=subset)
            for subset, same in game.same_subsets.items()
            for name in game.pool_counts
        ]
        joint = [record for record in results if record.collection == JOINT]
        best = strongest_attack(joint)
        shown = [subset for subset in game.subsets if not subset.startswith(WITHOUT)]
        private = [name for name in game.pool_counts if name != NON_PRIVATE] or list(game.pool_counts)
        about = self._about(rows, joint)
        # the same adversary in all sentences: an overconfident one exposes more
        exposures = tuple(one for one in about.exposures if one.adversary == best.adversary)
        strongest = replace(about, exposures=exposures)
        known = {(record.collection, record.n): record for record in results if record.adversary == best.adversary}
        phrases = {adversary.name: adversary.phrase for adversary in game.adversaries}
        return JointAnswer(
            users=self.users,
            n=n,
            results=tuple(results),
            strongest_attack=best,
            about=about,
            exposure=pl.concat(self._exposure(rows, subset, name) for name in private for subset in shown),
            days=tuple(
                known.get((subset, day)) or self._record(rows, subset, best.adversary, day)
                for subset in shown
                for day in game.observations
            ),
            contributions=tuple(
                one for day in game.observations for one in self._contributions(rows, best.adversary, day)[0]
            ),
            alone=tuple(self._alone(known)),
            words=f"{summary_text(joint, phrases, unit='day')} {collections_text(strongest)}",
            devices=(*collections_in_words(self._kinds, game), total_in_words(about)),
            waiting=tuple(waiting),
        )

    def _about(self, rows: Rows, joint: Sequence[Record]) -> CollectionsSummary:
        """Return the collections, and what each adds by n."""
        game = self._game
        records = [collection_record(*one) for one in zip(game.collections, self._kinds, strict=True)]
        added = [self._contributions(rows, name, self._n) for name in game.pool_counts]
        return CollectionsSummary(
            attribute=game.attribute,
            collections=tuple(records),
            epsilon_day=total_epsilon(records, "day"),
            epsilon_year=total_epsilon(records, "year"),
            contributions=tuple(one for found, _ in added for one in found),
            exposures=tuple(one for _, one in added),
            cautions=tuple(
                text
                for record in joint
                for text in overconfidence_of(
                    game, record, float(rows[JOINT, record.adversary, self._n]["confidence"].to_numpy().mean())
                )
            ),
        )

    def _alone(self, known: dict[tuple[str | None, int], Record]) -> list[CollectionAnswer]:
        """Return the results of each collection alone."""
        found = []
        for own, kind in zip(self._game.collections, self._kinds, strict=True):
            events = int(own.events(np.array([self._n]))[0])
            none: dict[str, Any] = {"rmse": None, "reports_each": 0.0, "n_above": None}
            error = curator_error(own.game, events) if events else none
            found.append(
                CollectionAnswer(
                    name=own.name,
                    record=known[own.name, self._n],
                    epsilon=collection_record(own, kind).epsilon,
                    **{key: error[key] for key in ("rmse", "reports_each", "n_above")},
                )
            )
        return found
