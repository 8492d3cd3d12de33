"""Outcomes: the true preferences beside the guesses, one row for each user, adversary and observation count.

The evaluator knows the truth and compares it with an adversary's guesses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from poolscope.core.arrays import Floats, Integers, Keys, Map, Tick
from poolscope.devices.policy import ReportedEvents
from poolscope.game.columns import CONFIDENCE_MCSE, ESTIMATE, MINUS_MCSE, PLUS_MCSE, exposed_columns
from poolscope.inference.adversary import Adversary
from poolscope.inference.independent import BlockPosteriors, decide, reports_at_longest_pseudonym
from poolscope.population.behavior import NONE, Truth


@dataclass(frozen=True, kw_only=True)
class AttackResult:
    """The result of one adversary on some users: arrays (users, observations); exposed: columns (users,), -1 for never.

    mcse : Monte Carlo standard error of the confidence; None where there is none.
    exposed : with an error, also the columns plus and minus it.
    estimate : (users,) index of the estimate that each user played against; None where there is a single popularity.
    """

    adversary: str
    pool_names: tuple[str, ...]
    gamma: Floats
    delta: Floats
    truth: NDArray[np.int64]
    guess: NDArray[np.int64]
    confidence: Floats
    posterior_true: Floats
    exposed: Mapping[str, NDArray[np.int32]]
    mcse: Floats | None = None
    estimate: Integers | None = None


def merge_groups(
    groups: Sequence[tuple[Integers, Sequence[AttackResult]]], estimate: Integers, redrawn: Sequence[bool]
) -> list[AttackResult]:
    """Return the result of each adversary on all users of a block, from groups of them: their rows and results.

    estimate : the one of each user; redrawn : which adversaries have several.
    """

    def joined(parts: Sequence[Any]) -> Any:
        if parts[0] is None:
            return None
        out = np.empty((len(estimate), *parts[0].shape[1:]), dtype=parts[0].dtype)
        for (rows, _), part in zip(groups, parts, strict=True):
            out[rows] = part
        return out

    attacked = []
    for place, has_several in enumerate(redrawn):
        own = [found[place] for _, found in groups]
        arrays = ("gamma", "delta", "truth", "guess", "confidence", "posterior_true", "mcse")
        attacked.append(
            replace(
                own[0],
                **{name: joined([getattr(one, name) for one in own]) for name in arrays},
                exposed={name: joined([one.exposed[name] for one in own]) for name in own[0].exposed},
                estimate=estimate if has_several else None,
            )
        )
    return attacked


def table(
    users: pl.Series, observations: Sequence[int], attacked: Sequence[AttackResult], *, recorded: bool = False
) -> pl.DataFrame:
    """Return the outcome table of a block of users, by adversary, then observation count, then user.

    Where any adversary samples, all have the columns of its error, which are zero for the others.
    """
    names = pl.Enum([a.adversary for a in attacked])
    pools = pl.Enum(list(dict.fromkeys(name for a in attacked for name in a.pool_names)))
    sampled, frames = any(a.mcse is not None for a in attacked), []
    redrawn = any(a.estimate is not None for a in attacked)
    for a in attacked:
        name_of = pl.Series(a.pool_names, dtype=pools)
        firsts = {column: pl.Series(first).replace(-1, None) for column, first in a.exposed.items()}
        if sampled and a.mcse is None:
            firsts = {name + end: first for name, first in firsts.items() for end in ("", PLUS_MCSE, MINUS_MCSE)}
        errors = np.zeros(a.confidence.shape) if a.mcse is None else a.mcse
        none = pl.repeat(None, len(users), dtype=pl.Int16, eager=True)
        estimate = none if a.estimate is None else pl.Series(a.estimate).cast(pl.Int16)
        for o, n in enumerate(observations):
            frames.append(
                pl.DataFrame(
                    {
                        "user": users,
                        "adversary": pl.repeat(a.adversary, len(users), dtype=names, eager=True),
                        "n": pl.repeat(n, len(users), dtype=pl.Int32, eager=True),
                        "pool": name_of.gather(a.truth),
                        "gamma": a.gamma,
                        "delta": a.delta,
                        "guess": name_of.gather(a.guess[:, o]),
                        "confidence": a.confidence[:, o],
                        "posterior_true": a.posterior_true[:, o],
                        **({CONFIDENCE_MCSE: errors[:, o]} if sampled else {}),
                        **({ESTIMATE: estimate} if redrawn else {}),
                        **firsts,
                        "recorded": pl.repeat(recorded, len(users), dtype=pl.Boolean, eager=True),
                    }
                )
            )
    return pl.concat(frames)


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluator:
    """Evaluate the attacks on a block of users.

    After n events the guess is about the user's longest pseudonym, the newest where several are as long. Which one that
    is does not depend on what it has sent, so that confidence stays calibrated. A user is exposed by the first
    pseudonym about which the adversary was confident.

    Parameters
    ----------
    keys : (users,) their keys.
    truth : their preferences, for any pools.
    sent : what their devices send.
    observations : counts of events at which guesses are evaluated.
    threshold : a confidence at which users count as exposed, in addition to the default ones.
    none : whether users may prefer no pool, or an adversary assumes that they may.
    threads : map over chunks of users.
    tick : receives users as they are evaluated.
    """

    keys: Keys
    truth: Truth
    sent: ReportedEvents
    observations: Sequence[int]
    threads: Map
    tick: Tick
    threshold: float | None = None
    none: bool = False

    def evaluate(self, adversary: Adversary, posteriors: BlockPosteriors, share: float) -> AttackResult:
        """Return the result of an adversary; `share` is the share of a user's work that this is."""
        shape, levels = (len(self.keys), len(self.observations)), exposed_columns(self.threshold)
        thresholds = np.unique(list(levels.values()))
        truth, gamma, delta = self.truth(adversary.universe)
        guess = np.empty(shape, dtype=np.int64)
        confidence, of_truth = np.empty((2, *shape))
        error = np.zeros(shape) if posteriors.sampled else None
        # with the posteriors and, where they are sampled, with these plus and minus their error
        ends = ("", PLUS_MCSE, MINUS_MCSE) if posteriors.sampled else ("",)
        exposed = np.empty((len(ends), len(self.keys), len(thresholds)), dtype=np.int32)
        counts = reports_at_longest_pseudonym(self.sent.counts(self.observations), posteriors.rotate_after)

        def some(start: int) -> None:
            rows = slice(start, min(start + posteriors.chunk_users, len(self.keys)))
            found = decide(
                adversary, *posteriors.compute(rows), counts[rows], counts[rows], self.keys[rows], thresholds
            )
            guess[rows], confidence[rows], exposed[:, rows] = found.guess, found.confidence, found.exposed
            # users who prefer no pool have no posterior where that is no hypothesis
            held = truth[rows] < found.posterior.shape[2]
            own = np.take_along_axis(found.posterior, np.where(held, truth[rows], 0)[:, None, None], axis=2)[:, :, 0]
            of_truth[rows] = np.where(held[:, None], own, 0.0)
            if error is not None:
                error[rows] = found.mcse
            self.tick(share * (rows.stop - rows.start))

        for _ in self.threads(some, range(0, len(self.keys), posteriors.chunk_users)):
            pass
        events = [self.sent.events(first.astype(np.int64)).astype(np.int32) for first in exposed]
        return AttackResult(
            adversary=adversary.name,
            pool_names=adversary.universe.pool_names + ((NONE,) if self.none else ()),
            gamma=gamma,
            delta=delta,
            truth=truth,
            guess=guess,
            confidence=confidence,
            posterior_true=of_truth,
            exposed={
                name + end: first[:, np.searchsorted(thresholds, level)]
                for name, level in levels.items()
                for end, first in zip(ends, events, strict=True)
            },
            mcse=error,
        )
