"""The posterior of users with given reports, at the asked observation counts, as a table and summed up.

Nothing here knows the truth: a posterior says how sure the adversary is, not whether it is right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from poolscope.attack.adversary import Adversary, posterior_block, views
from poolscope.attack.decide import believed, guesses
from poolscope.attack.fresh import CHUNK
from poolscope.attack.levels import LEVELS
from poolscope.base.arrays import Floats, Integers, Keys, Tick
from poolscope.base.engines import Engine
from poolscope.base.randomness import user_keys
from poolscope.game.columns import exposed_columns
from poolscope.kernels import referee as kernels
from poolscope.mechanisms.role import Mechanism
from poolscope.mechanisms.views import Views

#: Cells of the table (users, reports, columns) that a thread fills at once.
CELLS = 1 << 21

#: What confidences are summed up in: whole numbers, whose sum depends on no order.
GRAIN = 2.0**-40


@dataclass(frozen=True, kw_only=True, eq=False)
class Gathered:
    """Some users with all their reports.

    Parameters
    ----------
    hashes : (users,) who they are.
    lengths : (users,) reports of each.
    mass : (reports, width) user after user, each in order of time.
    """

    hashes: Keys
    lengths: Integers
    mass: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Scored:
    """What the adversaries make of some users.

    posterior : for each adversary (users, observations, k); guess, confidence : (users, adversaries, observations);
    used : (users, observations) reports; exposed : by column, (users, adversaries) the report that exposed them, or -1.
    """

    used: Integers
    exposed: Mapping[str, NDArray[np.int32]]
    posterior: list[Floats]
    guess: Integers
    confidence: Floats


class Counts(NamedTuple):
    """Some users summed up: how many they are, reports used (observations,), confidence (adversaries, observations) in
    units of `GRAIN`, how many it is sure of (levels, adversaries, observations) and guesses (adversaries, observations,
    pools + 1)."""

    users: int
    used: Integers
    confidence: Integers
    sure: Integers
    guesses: Integers


@dataclass(frozen=True, kw_only=True, eq=False)
class Scorer:
    """Who attacks, and after how many reports.

    Parameters
    ----------
    observations : increasing; None is all reports.
    threshold : confidence below which no guess is made.
    seed : breaks ties between pools, with the hash of the user's name.
    """

    mechanism: Mechanism
    adversaries: Sequence[Adversary]
    observations: Sequence[int] | None
    threshold: float | None = None
    seed: int = 0
    view: Views = field(init=False)
    columns: list[slice] = field(init=False)

    def __post_init__(self) -> None:
        view, columns = views(self.adversaries)
        object.__setattr__(self, "view", view)
        object.__setattr__(self, "columns", columns)

    @property
    def pool_names(self) -> list[str]:
        """The pools of all adversaries, which mostly are the same."""
        return list(dict.fromkeys(name for a in self.adversaries for name in a.universe.pool_names))

    @property
    def horizon(self) -> int:
        """Reports of a user that are looked at."""
        return np.iinfo(np.int64).max if self.observations is None else max(self.observations)

    def score(self, gathered: Gathered, engine: Engine, tick: Tick) -> Scored:
        """Posteriors and guesses of some users; `tick` is told their reports."""
        lengths = gathered.lengths
        used = lengths[:, None] if self.observations is None else np.minimum(lengths[:, None], self.observations)
        posterior = [np.empty((len(lengths), used.shape[1], a.k)) for a in self.adversaries]
        levels = exposed_columns(self.threshold)
        thresholds = np.unique(list(levels.values()))
        first = np.empty((len(lengths), len(self.adversaries), len(thresholds)), dtype=np.int32)
        starts = np.cumsum(lengths) - lengths

        def part(users: Integers) -> None:
            table = self._table(gathered.mass, starts[users], lengths[users])
            late = np.arange(table.shape[1] + 1) > lengths[users][:, None]
            for a, (adversary, columns, out) in enumerate(zip(self.adversaries, self.columns, posterior, strict=True)):
                found = posterior_block(self.mechanism, adversary, table[:, :, columns], lengths[users])
                found[late] = np.nan
                exposing = np.empty((len(users), len(thresholds)), dtype=np.int32)
                kernels.first_sure(found, thresholds, exposing)
                first[users, a] = exposing
                asked = np.take_along_axis(found, used[users][:, :, None], axis=1)
                out[users] = believed(asked, adversary)
            tick(int(lengths[users].sum()))

        for _ in engine.map(part, self._shares(lengths)):
            pass
        guess, confidence = self._decide(gathered.hashes, posterior)
        exposed = {name: first[:, :, np.searchsorted(thresholds, level)] for name, level in levels.items()}
        return Scored(used=used, exposed=exposed, posterior=posterior, guess=guess, confidence=confidence)

    def _shares(self, lengths: Integers) -> Iterator[Integers]:
        """Users of about the same length together: a table is as long as the longest of them."""
        order = np.argsort(lengths, kind="stable")
        begin = 0
        while begin < len(order):
            end = min(begin + CHUNK, len(order))
            while end > begin + 1 and (end - begin) * lengths[order[end - 1]] * self.view.width > CELLS:
                end = begin + (end - begin) // 2
            yield order[begin:end]
            begin = end

    def _table(self, mass: Floats, starts: Integers, lengths: Integers) -> Floats:
        """(users, longest, width) the rows of some users side by side."""
        places = np.arange(lengths.max())
        there = places < lengths[:, None]
        table = np.zeros((*there.shape, self.view.width))
        table[there] = mass[(starts[:, None] + places)[there]]
        return table

    def _decide(self, hashes: Keys, posterior: list[Floats]) -> tuple[Integers, Floats]:
        """Guess and confidence (users, adversaries, observations)."""
        keys = user_keys(self.seed, hashes)
        guess, confidence = zip(*(guesses(rows, keys) for rows in posterior), strict=True)
        return np.stack(guess, axis=1), np.stack(confidence, axis=1)

    def frame(self, scored: Scored, users: pl.Series) -> pl.DataFrame:
        """The rows of the table: user by user, of each the adversaries, of each the observation counts.

        A count that a user has not as many reports for is the same as the one before: it has no row of its own.
        """
        who, adversary, _ = np.indices(scored.guess.shape)
        names = pl.Series([*self.pool_names, None], dtype=pl.String)
        frame = pl.DataFrame(
            {
                "user": users.gather(who.ravel()),
                "adversary": pl.Series([a.name for a in self.adversaries]).gather(adversary.ravel()),
                "n": np.broadcast_to(scored.used[:, None, :], who.shape).ravel().astype(np.int32),
                "guess": names.gather(self.guessed(scored).ravel()),
                "confidence": scored.confidence.ravel(),
            }
        )
        many = scored.used.shape[1]
        exposed = [
            pl.Series(name, np.repeat(first.ravel(), many)).replace(-1, None) for name, first in scored.exposed.items()
        ]
        new = np.diff(scored.used, axis=1, prepend=-1) > 0
        kept = pl.Series(np.broadcast_to(new[:, None, :], who.shape).ravel())
        return frame.with_columns(exposed).with_columns(self._pool_columns(scored)).filter(kept)

    def guessed(self, scored: Scored) -> Integers:
        """The guesses as indices into `pool_names`, one behind its end where the adversary is not sure enough."""
        names = self.pool_names
        out = np.empty_like(scored.guess)
        for a, adversary in enumerate(self.adversaries):
            index = np.array([names.index(name) for name in adversary.universe.pool_names])
            out[:, a] = index[scored.guess[:, a]]
        return out if self.threshold is None else np.where(scored.confidence >= self.threshold, out, len(names))

    def count(self, scored: Scored) -> Counts:
        """The users summed up."""
        guessed = self.guessed(scored)
        return Counts(
            users=len(scored.used),
            used=scored.used.sum(axis=0),
            confidence=np.rint(scored.confidence / GRAIN).astype(np.int64).sum(axis=0),
            sure=np.stack([(scored.confidence >= level).sum(axis=0) for level in LEVELS]),
            guesses=np.stack([(guessed == pool).sum(axis=0) for pool in range(len(self.pool_names) + 1)], axis=-1),
        )

    def _pool_columns(self, scored: Scored) -> list[pl.Series]:
        """``posterior.<pool>`` of each pool; null for an adversary who does not know the pool."""
        columns = []
        for name in self.pool_names:
            values = np.full(scored.guess.shape, np.nan)
            for a, adversary in enumerate(self.adversaries):
                if name in adversary.universe.pool_names:
                    values[:, a] = scored.posterior[a][:, :, adversary.universe.pool_names.index(name)]
            columns.append(pl.Series(f"posterior.{name}", values.ravel(), nan_to_null=True))
        return columns


@dataclass(frozen=True, kw_only=True)
class Guessed:
    """How confident one adversary is after n reports of each user, and how its guesses spread.

    Parameters
    ----------
    n : None is all reports; reports : how many were used of all users together.
    confidence : the mean over users; baseline : 1/k, what a random guess has.
    sure : of how many users it is sure at n, by the confidence that this takes.
    guesses : for how many users each of its pools is guessed; no_guess : for how many none, as with a threshold.
    """

    adversary: str
    n: int | None
    reports: int
    confidence: float
    sure: Mapping[float, int]
    guesses: Mapping[str, int]
    no_guess: int
    baseline: float


def surest(frame: pl.DataFrame, count: int) -> pl.DataFrame:
    """Of each adversary the users that it is surest of after all their reports, so many of them, the surest first."""
    if not count:
        return frame.clear()
    last = frame.filter(pl.col("n") == pl.col("n").max().over("user", "adversary"))
    # users of the same confidence in the order of their names: crowds may come in any
    rows = last.sort(pl.col("confidence"), pl.col("user").cast(pl.String), descending=[True, False])
    order = {name: place for place, name in enumerate(frame["adversary"].unique(maintain_order=True))}
    parts = [part.head(count) for part in rows.partition_by("adversary", maintain_order=True)]
    return pl.concat(sorted(parts, key=lambda part: order[part["adversary"][0]]))


class Tally:
    """How confident the adversaries are and how their guesses spread, summed up over crowds, and the first rows."""

    def __init__(self, scorer: Scorer, head: int, top: int) -> None:
        self._scorer, self._most, self._surest = scorer, head, top
        self._sums: list[Any] = []
        self._head: list[tuple[int, dict[str, Any]]] = []
        self._top: pl.DataFrame | None = None

    def add(self, number: int, counts: Counts, head: list[dict[str, Any]], top: pl.DataFrame) -> None:
        """Add a crowd, whichever is done first."""
        self._top = top if self._top is None else surest(pl.concat([self._top, top]), self._surest)
        # Python's integers: many users' confidences are more than 64 bits hold
        more = [np.asarray(count, dtype=object) for count in counts]
        self._sums = [a + b for a, b in zip(self._sums, more, strict=True)] if self._sums else more
        self._head = sorted([*self._head, *((number, row) for row in head)], key=lambda row: row[0])[: self._most]

    @property
    def users(self) -> int:
        return int(self._sums[0])

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
        scorer = self._scorer
        _, used, confidence, sure, guesses = self._sums
        asked = [None] if scorer.observations is None else list(scorer.observations)
        return [
            Guessed(
                adversary=adversary.name,
                n=n,
                reports=int(used[o]),
                confidence=confidence[a, o] / self.users * GRAIN,
                sure={level: int(sure[i, a, o]) for i, level in enumerate(LEVELS)},
                guesses={
                    name: int(guesses[a, o, i])
                    for i, name in enumerate(scorer.pool_names)
                    if name in adversary.universe.pool_names
                },
                no_guess=int(guesses[a, o, -1]),
                baseline=1.0 / adversary.k,
            )
            for a, adversary in enumerate(scorer.adversaries)
            for o, n in enumerate(asked)
        ]
