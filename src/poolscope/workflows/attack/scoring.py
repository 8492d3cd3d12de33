"""Compute the posteriors of the scenario's adversaries for the users of a file of reports.

Most adversaries reduce a report to the popularity masses of its support. Those who know that devices memoize group the
reports of a user by response, as in the game.

The ground truth is unknown here: a posterior says how confident the adversary is, not whether it is correct.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from poolscope.core.arrays import Floats, Integers, Tick
from poolscope.core.errors import InputError
from poolscope.core.executors import Engine
from poolscope.core.randomness import user_keys
from poolscope.devices.protocols import Device, memoizes
from poolscope.game.columns import CONFIDENCE_MCSE, exposed_columns
from poolscope.inference.adversary import Adversary, posterior_block, stacked_pool_weights
from poolscope.inference.custom import custom_posteriors
from poolscope.inference.independent import CHUNK, Decision, decide
from poolscope.inference.memoized.attack import memoized_posterior_by_user
from poolscope.inference.multiplicity import corrected_confidence, log_set_bayes_factor
from poolscope.mechanisms.protocols import Mechanism, PoolWeights, Reports
from poolscope.reports.files import masses, workspace_for
from poolscope.workflows.attack.partitioning import Gathered

#: Cells (users, reports, columns) of a batch that a thread fills.
MAX_CELLS = 1 << 21

#: The feature column of popularity masses; no report column has a blank in its name.
MASS = "popularity mass"

#: Columns of the Monte Carlo standard errors of posteriors, before the name of the pool.
POOL_MCSE = "posterior_mcse."

#: The column of confidences that account for several sets of pools.
CORRECTED = "confidence_corrected"


@dataclass(frozen=True, kw_only=True, eq=False)
class Scored:
    """The posteriors of some users.

    posterior : for each adversary (users, observations, k); guess, confidence, error : (users, adversaries,
    observations), where error is the Monte Carlo standard error of a sampled confidence, else 0;
    used : (users, observations) reports; exposed : by column, (users, adversaries) the report that exposed them, or -1;
    corrected : the confidence after the choice among `Scorer.pool_sets`, equal to it for a single set;
    pool_error : (users, observations, k) the errors of all pools, of adversaries whose posteriors are sampled.
    """

    used: Integers
    exposed: Mapping[str, NDArray[np.int32]]
    posterior: list[Floats]
    guess: Integers
    confidence: Floats
    corrected: Floats
    error: Floats
    pool_error: Mapping[int, Floats]


@dataclass(frozen=True, kw_only=True, eq=False)
class Scorer:
    """The adversaries, and the observation counts.

    Parameters
    ----------
    device : what sent the reports.
    observations : increasing; None is all reports.
    threshold : confidence below which no guess is made.
    seed : breaks ties between pools, with the hash of the user's name.
    pool_sets : how many sets of pools were tried on these reports, see `inference.multiplicity`.
    pool_errors : whether the table has the Monte Carlo errors of all pools.
    """

    device: Device
    adversaries: Sequence[Adversary]
    observations: Sequence[int] | None
    threshold: float | None = None
    seed: int = 0
    pool_sets: int = 1
    pool_errors: bool = False

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism of a single report."""
        return self.device.mechanism

    @cached_property
    def memoization_aware(self) -> list[int]:
        """Indices of the adversaries who group reports by memoized response."""
        memoized = memoizes(self.device)
        return [i for i, a in enumerate(self.adversaries) if memoized and a.knows_memoization and a.attack is None]

    @cached_property
    def custom(self) -> list[int]:
        """Indices of the adversaries with an attack of their own."""
        return [index for index, adversary in enumerate(self.adversaries) if adversary.attack is not None]

    @property
    def reads_reports(self) -> bool:
        """Whether an adversary needs the reports themselves."""
        return bool(self.memoization_aware or self.custom)

    @cached_property
    def memoization_unaware(self) -> list[int]:
        """Indices of the adversaries who take reports as independent."""
        others = {*self.memoization_aware, *self.custom}
        return [index for index in range(len(self.adversaries)) if index not in others]

    @cached_property
    def view(self) -> tuple[PoolWeights, list[slice]]:
        """The pool weights of these adversaries, and the columns of each."""
        return stacked_pool_weights([self.adversaries[index] for index in self.memoization_unaware])

    def features(self, reports: Reports, engine: Engine) -> Reports:
        """Return the features of each report: its masses, and the report itself where reports are grouped."""
        out = dict(reports) if self.reads_reports else {}
        if self.memoization_unaware:
            out[MASS] = masses(self.mechanism, reports, self.view[0], engine)
        return out

    @cached_property
    def columns(self) -> Reports:
        """The columns of the features, without rows."""
        out = workspace_for(self.mechanism.report_columns, 0) if self.reads_reports else {}
        return out | ({MASS: np.empty((0, self.view[0].width))} if self.memoization_unaware else {})

    @property
    def feature_bytes(self) -> int:
        """Bytes of the features of a report."""
        return sum(column.itemsize * math.prod(column.shape[1:]) for column in self.columns.values())

    def check(self, users: pl.Series, lengths: Integers, features: Reports) -> None:
        """Refuse users whose reports differ in a column that their device fixes, where an adversary relies on it."""
        first, ends = np.repeat(np.cumsum(lengths) - lengths, lengths), np.cumsum(lengths)
        for name in self.device.per_device_columns if self.memoization_aware and memoizes(self.device) else ():
            column = features[name].reshape(len(first), -1)
            other = (column != column[first]).any(axis=1)
            if other.any():
                user = users[int(np.searchsorted(ends, other.argmax(), side="right"))]
                rule = f"must have one {name} in all reports, as devices memoize it"
                raise InputError(rule, place=f"user {user}", remedy="or set knows_memoization = false")

    @property
    def pool_names(self) -> list[str]:
        """The hypotheses of all adversaries, mostly the same pools."""
        return list(dict.fromkeys(name for a in self.adversaries for name in a.hypotheses))

    @property
    def horizon(self) -> int:
        """Reports of a user that are used at most."""
        return np.iinfo(np.int64).max if self.observations is None else max(self.observations)

    def score(self, gathered: Gathered, engine: Engine, tick: Tick) -> Scored:
        """Compute posteriors and guesses of some users; `tick` receives their reports."""
        lengths, features, keys = gathered.lengths, gathered.features, user_keys(self.seed, gathered.hashes)
        used = lengths[:, None] if self.observations is None else np.minimum(lengths[:, None], self.observations)
        levels = exposed_columns(self.threshold)
        thresholds = np.unique(list(levels.values()))
        posterior = [np.empty((*used.shape, len(a.hypotheses))) for a in self.adversaries]
        first = np.empty((len(lengths), len(self.adversaries), len(thresholds)), dtype=np.int32)
        guess = np.empty((len(lengths), len(self.adversaries), used.shape[1]), dtype=np.int64)
        confidence, corrected, error = np.empty(guess.shape), np.empty(guess.shape), np.zeros(guess.shape)
        pool_error = {a: np.zeros(posterior[a].shape) for a in self.memoization_aware}
        starts = np.cumsum(lengths) - lengths
        share = 1.0 / sum(map(bool, (self.memoization_unaware, self.memoization_aware, self.custom)))

        def store(users: Integers, a: int, found: Decision) -> None:
            posterior[a][users], first[users, a] = found.posterior, found.exposed[0]
            guess[users, a], confidence[users, a] = found.guess, found.confidence
            if found.mcse is not None:
                error[users, a] = found.mcse

        def score_independent(users: Integers) -> None:
            table, rows = _padded(features[MASS], starts[users], lengths[users]), used[users]
            for a, own in zip(self.memoization_unaware, self.view[1], strict=True):
                found = posterior_block(self.mechanism, self.adversaries[a], table[:, :, own], lengths[users])
                decision = decide(self.adversaries[a], found, None, rows, rows, keys[users], thresholds)
                store(users, a, decision)
                if self.pool_sets > 1:
                    own_mass = np.ascontiguousarray(table[:, :, own])
                    corrected[users, a] = self._corrected(a, decision, own_mass, lengths[users], rows)
            tick(share * int(lengths[users].sum()))

        def score_custom(user: int) -> None:
            # users are attacked alone, so that the table does not depend on partitions
            users, counts, reports = np.array([user]), np.unique(used[user]), reports_of_user(user)
            for a in self.custom:
                own = self.adversaries[a]
                found = custom_posteriors(own, self.device, reports, lengths[users], counts.tolist(), keys[users])
                asked = np.searchsorted(counts, used[users])
                decision = decide(own, found, None, asked, used[users], keys[users], thresholds)
                dates = np.where(decision.exposed < 0, -1, counts[decision.exposed])
                store(users, a, decision._replace(exposed=dates))
            tick(share * int(lengths[user]))

        def reports_of_user(user: int) -> Reports:
            rows = slice(starts[user], starts[user] + lengths[user])
            return {name: features[name][rows] for name in self.mechanism.report_columns}

        def score_memoized(user: int) -> None:
            assert memoizes(self.device)
            reports = reports_of_user(user)
            users, counts = np.array([user]), np.append(0, used[user])
            asked = np.arange(1, len(counts))[None]
            for a in self.memoization_aware:
                found = memoized_posterior_by_user(self.device, reports, self.adversaries[a], None, counts.tolist())
                decision = decide(self.adversaries[a], *found, asked, used[users], keys[users], thresholds)
                pool_error[a][users] = found.error[:, 1:]
                # exposure is known at the counts only
                dates = np.where(decision.exposed < 0, -1, counts[decision.exposed])
                store(users, a, decision._replace(exposed=dates))
            tick(share * int(lengths[user]))

        if self.memoization_unaware:
            for _ in engine.map(score_independent, self._batches(lengths)):
                pass
        if self.memoization_aware:
            # the longest first, for load balance
            for _ in engine.map(score_memoized, np.argsort(-lengths, kind="stable").tolist()):
                pass
        if self.custom:
            for _ in engine.map(score_custom, range(len(lengths))):
                pass
        exposed = {name: first[:, :, np.searchsorted(thresholds, level)] for name, level in levels.items()}
        return Scored(
            used=used,
            exposed=exposed,
            posterior=posterior,
            guess=guess,
            confidence=confidence,
            corrected=corrected if self.pool_sets > 1 else confidence,
            error=error,
            pool_error=pool_error,
        )

    def _corrected(self, a: int, found: Decision, mass: Floats, lengths: Integers, rows: Integers) -> Floats:
        """Return (users, observations) the confidence after the choice among several sets of pools."""
        adversary = self.adversaries[a]
        factors = log_set_bayes_factor(self.mechanism, adversary, mass, lengths)
        own = np.take_along_axis(factors, rows, axis=1)
        return corrected_confidence(found.posterior, found.guess, adversary.k, own, self.pool_sets)

    def _batches(self, lengths: Integers) -> Iterator[Integers]:
        """Yield users of similar lengths: a batch is padded to its longest user."""
        order = np.argsort(lengths, kind="stable")
        begin = 0
        while begin < len(order):
            end = min(begin + CHUNK, len(order))
            while end > begin + 1 and (end - begin) * lengths[order[end - 1]] * self.view[0].width > MAX_CELLS:
                end = begin + (end - begin) // 2
            yield order[begin:end]
            begin = end

    def frame(self, scored: Scored, users: pl.Series) -> pl.DataFrame:
        """Return the rows of the table: by user, then adversary, then observation count.

        A count beyond a user's reports repeats the one before and has no row.
        """
        who, adversary, _ = np.indices(scored.guess.shape)
        names = pl.Series([*self.pool_names, None], dtype=pl.String)
        frame = pl.DataFrame(
            {
                "user": users.gather(who.ravel()),
                "adversary": pl.Series([a.name for a in self.adversaries]).gather(adversary.ravel()),
                "n": np.broadcast_to(scored.used[:, None, :], who.shape).ravel().astype(np.int32),
                "guess": names.gather(self.guesses(scored).ravel()),
                "confidence": scored.confidence.ravel(),
            }
        )
        many = scored.used.shape[1]
        exposed = [
            pl.Series(name, np.repeat(first.ravel(), many)).replace(-1, None) for name, first in scored.exposed.items()
        ]
        new = np.diff(scored.used, axis=1, prepend=-1) > 0
        memoized = pl.Series(np.broadcast_to(new[:, None, :], who.shape).ravel())
        frame = frame.with_columns(exposed).with_columns(self._pool_columns(scored))
        if self.pool_sets > 1:
            frame = frame.with_columns(pl.Series(CORRECTED, scored.corrected.ravel()))
        if self.memoization_aware:
            frame = frame.with_columns(pl.Series(CONFIDENCE_MCSE, scored.error.ravel()))
        if self.memoization_aware and self.pool_errors:
            frame = frame.with_columns(self._by_pool(POOL_MCSE, scored, scored.pool_error))
        return frame.filter(memoized)

    def guesses(self, scored: Scored) -> Integers:
        """Return the guesses as indices into `pool_names`; its length where the confidence is below the threshold."""
        names = self.pool_names
        out = np.empty_like(scored.guess)
        for a, adversary in enumerate(self.adversaries):
            index = np.array([names.index(name) for name in adversary.hypotheses])
            out[:, a] = index[scored.guess[:, a]]
        return out if self.threshold is None else np.where(scored.corrected >= self.threshold, out, len(names))

    def _pool_columns(self, scored: Scored) -> list[pl.Series]:
        """Return ``posterior.<pool>`` of each pool; null for an adversary without the pool."""
        return self._by_pool("posterior.", scored, dict(enumerate(scored.posterior)))

    def _by_pool(self, prefix: str, scored: Scored, found: Mapping[int, Floats]) -> list[pl.Series]:
        """Return a column for each pool from the values (users, observations, k) of some adversaries; else null."""
        columns = []
        for name in self.pool_names:
            values = np.full(scored.guess.shape, np.nan)
            for a, own in found.items():
                if name in self.adversaries[a].hypotheses:
                    values[:, a] = own[:, :, self.adversaries[a].hypotheses.index(name)]
            columns.append(pl.Series(f"{prefix}{name}", values.ravel(), nan_to_null=True))
        return columns


def _padded(support_mass: Floats, starts: Integers, lengths: Integers) -> Floats:
    """Gather the rows of some users, padded with zeros, (users, longest, width)."""
    positions = np.arange(lengths.max())
    there = positions < lengths[:, None]
    table = np.zeros((*there.shape, support_mass.shape[1]))
    table[there] = support_mass[(starts[:, None] + positions)[there]]
    return table
