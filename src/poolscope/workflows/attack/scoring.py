"""The posterior of users with given reports, at the asked observation counts, as a table.

To most adversaries a report is the popularity masses of its support. Whoever knows that devices keep their answers
groups the reports themselves, all of a user's at once, as the game has it.

Nothing here knows the truth: a posterior says how sure the adversary is, not whether it is right.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from poolscope.core.arrays import Floats, Integers, Keys, Tick
from poolscope.core.errors import InputError
from poolscope.core.executors import Engine
from poolscope.core.randomness import user_keys
from poolscope.devices.protocols import Device, memoizes
from poolscope.game.columns import CONFIDENCE_MCSE, exposed_columns
from poolscope.inference.adversary import Adversary, posterior_block, views
from poolscope.inference.independent import CHUNK, believed, guesses
from poolscope.inference.memoized.attack import grouped_posterior
from poolscope.kernels import decision as kernels
from poolscope.mechanisms.protocols import Mechanism, Reports, Views
from poolscope.reports.files import masses, room_for

#: Cells of the table (users, reports, columns) that a thread fills at once.
CELLS = 1 << 21

#: The column of what is told that has the popularity masses; blanks are in no name of a report's column.
MASS = "popularity mass"


@dataclass(frozen=True, kw_only=True, eq=False)
class Gathered:
    """Some users with all their reports.

    Parameters
    ----------
    hashes : (users,) who they are.
    lengths : (users,) reports of each.
    told : what the `Scorer` asks to be told of each report, user after user, each in order of time.
    """

    hashes: Keys
    lengths: Integers
    told: Reports


@dataclass(frozen=True, kw_only=True, eq=False)
class Scored:
    """What the adversaries make of some users.

    posterior : for each adversary (users, observations, k); guess, confidence, error : (users, adversaries,
    observations), error the standard error of the confidence where reports are grouped by chance, and else 0;
    used : (users, observations) reports; exposed : by column, (users, adversaries) the report that exposed them, or -1.
    """

    used: Integers
    exposed: Mapping[str, NDArray[np.int32]]
    posterior: list[Floats]
    guess: Integers
    confidence: Floats
    error: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Scorer:
    """Who attacks, and after how many reports.

    Parameters
    ----------
    device : what has sent the reports.
    observations : increasing; None is all reports.
    threshold : confidence below which no guess is made.
    seed : breaks ties between pools, with the hash of the user's name.
    """

    device: Device
    adversaries: Sequence[Adversary]
    observations: Sequence[int] | None
    threshold: float | None = None
    seed: int = 0

    @property
    def mechanism(self) -> Mechanism:
        """What a report by itself comes from."""
        return self.device.mechanism

    @cached_property
    def grouping(self) -> list[int]:
        """Which adversaries group reports by the answers that devices keep."""
        kept = self.device.memoizes
        return [index for index, adversary in enumerate(self.adversaries) if kept and adversary.knows_memoization]

    @cached_property
    def single(self) -> list[int]:
        """Which adversaries take every report by itself."""
        return [index for index in range(len(self.adversaries)) if index not in self.grouping]

    @cached_property
    def view(self) -> tuple[Views, list[slice]]:
        """What these believe, and the columns of each."""
        return views([self.adversaries[index] for index in self.single])

    def told(self, reports: Reports, engine: Engine) -> Reports:
        """What has to be known of each report: its masses, and itself where reports are grouped."""
        out = dict(reports) if self.grouping else {}
        if self.single:
            out[MASS] = masses(self.mechanism, reports, self.view[0], engine)
        return out

    @cached_property
    def columns(self) -> Reports:
        """The columns that are told, without reports."""
        out = room_for(self.mechanism.report_columns, 0) if self.grouping else {}
        return out | ({MASS: np.empty((0, self.view[0].width))} if self.single else {})

    @property
    def told_bytes(self) -> int:
        """What is told of a report takes so many bytes."""
        return sum(column.itemsize * math.prod(column.shape[1:]) for column in self.columns.values())

    def check(self, users: pl.Series, lengths: Integers, told: Reports) -> None:
        """What a device keeps for its user is the same in all reports of each, if somebody relies on it."""
        first, ends = np.repeat(np.cumsum(lengths) - lengths, lengths), np.cumsum(lengths)
        for name in self.device.own if self.grouping and memoizes(self.device) else ():
            column = told[name].reshape(len(first), -1)
            other = (column != column[first]).any(axis=1)
            if other.any():
                user = users[int(np.searchsorted(ends, other.argmax(), side="right"))]
                rule = f"must have one {name} in all reports, as devices keep it"
                raise InputError(rule, place=f"user {user}", remedy="or have knows_memoization = false")

    @property
    def pool_names(self) -> list[str]:
        """The hypotheses of all adversaries, which mostly are the same pools."""
        return list(dict.fromkeys(name for a in self.adversaries for name in a.hypotheses))

    @property
    def horizon(self) -> int:
        """Reports of a user that are looked at."""
        return np.iinfo(np.int64).max if self.observations is None else max(self.observations)

    def score(self, gathered: Gathered, engine: Engine, tick: Tick) -> Scored:
        """Posteriors and guesses of some users; `tick` is told their reports."""
        lengths, told = gathered.lengths, gathered.told
        used = lengths[:, None] if self.observations is None else np.minimum(lengths[:, None], self.observations)
        posterior = [np.empty((len(lengths), used.shape[1], len(a.hypotheses))) for a in self.adversaries]
        chance = {a: np.empty_like(posterior[a]) for a in self.grouping}
        levels = exposed_columns(self.threshold)
        thresholds = np.unique(list(levels.values()))
        first = np.empty((len(lengths), len(self.adversaries), len(thresholds)), dtype=np.int32)
        starts = np.cumsum(lengths) - lengths
        share = 1.0 / (bool(self.single) + bool(self.grouping))

        def singly(users: Integers) -> None:
            table = _side_by_side(told[MASS], starts[users], lengths[users])
            late = np.arange(table.shape[1] + 1) > lengths[users][:, None]
            for a, own in zip(self.single, self.view[1], strict=True):
                adversary = self.adversaries[a]
                found = posterior_block(self.mechanism, adversary, table[:, :, own], lengths[users])
                found[late] = np.nan
                exposing = np.empty((len(users), len(thresholds)), dtype=np.int32)
                kernels.first_sure(found[:, :, : adversary.k], thresholds, exposing)
                first[users, a] = exposing
                asked = np.take_along_axis(found, used[users][:, :, None], axis=1)
                posterior[a][users] = believed(asked, adversary)
            tick(share * int(lengths[users].sum()))

        def grouped(user: int) -> None:
            assert memoizes(self.device)
            rows = slice(starts[user], starts[user] + lengths[user])
            reports = {name: told[name][rows] for name in self.mechanism.report_columns}
            for a in self.grouping:
                adversary = self.adversaries[a]
                counts = [0, *used[user].tolist()]
                found, error = grouped_posterior(self.device, reports, adversary, None, counts)
                exposing = np.empty((1, len(thresholds)), dtype=np.int32)
                kernels.first_sure(found, thresholds, exposing)
                # nothing is known between the counts
                first[user, a] = np.where(exposing[0] < 0, -1, np.array(counts)[exposing[0]])
                posterior[a][user], chance[a][user] = found[0, 1:], error[0, 1:]
            tick(share * int(lengths[user]))

        if self.single:
            for _ in engine.map(singly, self._shares(lengths)):
                pass
        if self.grouping:
            # the longest first, as they take longest
            for _ in engine.map(grouped, np.argsort(-lengths, kind="stable").tolist()):
                pass
        guess, confidence = self._decide(gathered.hashes, used, posterior)
        error = np.zeros_like(confidence)
        for a, errors in chance.items():
            error[:, a] = np.take_along_axis(errors, guess[:, a, :, None], axis=2)[:, :, 0]
        exposed = {name: first[:, :, np.searchsorted(thresholds, level)] for name, level in levels.items()}
        return Scored(used=used, exposed=exposed, posterior=posterior, guess=guess, confidence=confidence, error=error)

    def _shares(self, lengths: Integers) -> Iterator[Integers]:
        """Users of about the same length together: a table is as long as the longest of them."""
        order = np.argsort(lengths, kind="stable")
        begin = 0
        while begin < len(order):
            end = min(begin + CHUNK, len(order))
            while end > begin + 1 and (end - begin) * lengths[order[end - 1]] * self.view[0].width > CELLS:
                end = begin + (end - begin) // 2
            yield order[begin:end]
            begin = end

    def _decide(self, hashes: Keys, used: Integers, posterior: list[Floats]) -> tuple[Integers, Floats]:
        """Guess and confidence (users, adversaries, observations)."""
        keys = user_keys(self.seed, hashes)
        guess, confidence = zip(*(guesses(rows, keys, used) for rows in posterior), strict=True)
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
        frame = frame.with_columns(exposed).with_columns(self._pool_columns(scored))
        if self.grouping:
            frame = frame.with_columns(pl.Series(CONFIDENCE_MCSE, scored.error.ravel()))
        return frame.filter(kept)

    def guessed(self, scored: Scored) -> Integers:
        """The guesses as indices into `pool_names`, one behind its end where the adversary is not sure enough."""
        names = self.pool_names
        out = np.empty_like(scored.guess)
        for a, adversary in enumerate(self.adversaries):
            index = np.array([names.index(name) for name in adversary.hypotheses])
            out[:, a] = index[scored.guess[:, a]]
        return out if self.threshold is None else np.where(scored.confidence >= self.threshold, out, len(names))

    def _pool_columns(self, scored: Scored) -> list[pl.Series]:
        """``posterior.<pool>`` of each pool; null for an adversary who does not know the pool."""
        columns = []
        for name in self.pool_names:
            values = np.full(scored.guess.shape, np.nan)
            for a, adversary in enumerate(self.adversaries):
                if name in adversary.hypotheses:
                    values[:, a] = scored.posterior[a][:, :, adversary.hypotheses.index(name)]
            columns.append(pl.Series(f"posterior.{name}", values.ravel(), nan_to_null=True))
        return columns


def _side_by_side(mass: Floats, starts: Integers, lengths: Integers) -> Floats:
    """(users, longest, width) the rows of some users."""
    places = np.arange(lengths.max())
    there = places < lengths[:, None]
    table = np.zeros((*there.shape, mass.shape[1]))
    table[there] = mass[(starts[:, None] + places)[there]]
    return table
