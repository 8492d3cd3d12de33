"""Outcomes: the true preferences beside the guesses, one row for each user, adversary and observation count.

The evaluator knows the truth and compares it with an adversary's guesses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from poolscope.core.arguments import as_floats, check_integers, checked
from poolscope.core.arrays import Floats, Integers, Keys, Map, Tick
from poolscope.core.errors import InputError
from poolscope.core.randomness import user_keys
from poolscope.devices.policy import ReportedEvents
from poolscope.game.columns import CONFIDENCE_MCSE, ESTIMATE, MINUS_MCSE, PLUS_MCSE, exposed_columns
from poolscope.game.users import SimulatedTruth, observed_pools
from poolscope.inference.adversary import Adversary
from poolscope.inference.custom import SUM_TOLERANCE
from poolscope.inference.independent import BlockPosteriors, decide, guesses, reports_at_longest_pseudonym
from poolscope.kernels.decision import first_confident
from poolscope.population.behavior import NONE, Truth


@dataclass(frozen=True, kw_only=True)
class AttackResult:
    """The result of one adversary on some users: arrays (users, observations); exposed: columns (users,), -1 for never.

    gamma, delta, truth : (users,), or (users, observations) where preferences change.
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
                        "pool": name_of.gather(_at(a.truth, o)),
                        "gamma": _at(a.gamma, o),
                        "delta": _at(a.delta, o),
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


def _at(values: NDArray[Any], observation: int) -> NDArray[Any]:
    """Return the values at an observation count; those that never change have one column."""
    return values if values.ndim == 1 else np.ascontiguousarray(values[:, observation])


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
        preferred = np.broadcast_to(truth.reshape(len(truth), -1), shape)
        guess = np.empty(shape, dtype=np.int64)
        confidence, of_truth = np.empty((2, *shape))
        error = np.zeros(shape) if posteriors.sampled else None
        # with the posteriors and, where they are sampled, with these plus and minus their error
        ends = ("", PLUS_MCSE, MINUS_MCSE) if posteriors.sampled else ("",)
        exposed = np.empty((len(ends), len(self.keys), len(thresholds)), dtype=np.int32)
        counts = reports_at_longest_pseudonym(self.sent.counts(self.observations), posteriors.rotate_after)

        def some(rows: slice) -> None:
            found = decide(
                adversary, *posteriors.compute(rows), counts[rows], counts[rows], self.keys[rows], thresholds
            )
            guess[rows], confidence[rows], exposed[:, rows] = found.guess, found.confidence, found.exposed
            # users who prefer no pool have no posterior where that is no hypothesis
            held = preferred[rows] < found.posterior.shape[2]
            own = np.take_along_axis(found.posterior, np.where(held, preferred[rows], 0)[:, :, None], axis=2)[:, :, 0]
            of_truth[rows] = np.where(held, own, 0.0)
            if error is not None:
                error[rows] = found.mcse
            self.tick(share * (rows.stop - rows.start))

        for _ in self.threads(some, posteriors.chunks(len(self.keys))):
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


@checked
def outcomes_of(
    name: str,
    posterior: ArrayLike,
    truth: SimulatedTruth | Sequence[int] | Integers,
    observations: Sequence[int],
    *,
    pools: Sequence[str] | None = None,
) -> pl.DataFrame:
    """Return the outcome table of given posteriors, which every metric takes.

    Parameters
    ----------
    name : of the attack.
    posterior : (users, observations, pools) after each of these numbers of reports.
    truth : what `simulate` returns; or the number of each user's preferred pool, (users,) or (users, observations).
    pools : names of the pools, by default those of `simulate`, else their numbers.

    Users count as exposed at the first of the observation counts at which a posterior reaches the threshold. Ties are
    broken at random, by the keys of `simulate`, else by the user's position.

    Examples
    --------
    >>> outcomes = ps.outcomes_of("mine", [[[0.9, 0.1]], [[0.4, 0.6]]], [0, 1], [30])
    >>> outcomes["guess"].to_list(), ps.metrics.precision(outcomes, seed=1).value
    (['0', '1'], 1.0)
    """
    check_integers("observations", observations, 1)
    found = as_floats("posterior", posterior)
    if found.ndim != 3 or found.shape[1] != len(observations) or not found.size:
        raise InputError(f"posterior must be (users, {len(observations)}, pools)", value=found.shape)
    if not np.all(np.isfinite(found) & (found >= 0)) or np.any(np.abs(found.sum(axis=2) - 1) > SUM_TOLERANCE):
        raise InputError("each row of a posterior must be finite, at least 0 and sum to 1")
    users, counts, k = found.shape
    preferred = observed_pools(truth, users, counts)
    known = truth if isinstance(truth, SimulatedTruth) else None
    names = tuple(pools or (known.pool_names if known else map(str, range(max(k, int(preferred.max()) + 1)))))
    if len(names) < k or preferred.min() < 0 or preferred.max() >= len(names):
        raise InputError(f"there must be a pool for each of {k} columns and of the truth", value=len(names))
    levels = exposed_columns(None)
    thresholds = np.unique(list(levels.values()))
    keys = known.keys if known else user_keys(0, np.arange(users))
    numbers = np.broadcast_to(np.asarray(observations), (users, counts))
    guess, confidence = guesses(found, keys, numbers.astype(np.int64))
    first = np.empty((users, len(thresholds)), dtype=np.int32)
    first_confident(np.ascontiguousarray(found), thresholds, first)
    dates = np.where(first < 0, -1, np.append(np.asarray(observations, dtype=np.int32), -1)[first]).astype(np.int32)
    inside = preferred < k
    own = np.take_along_axis(found, np.where(inside, preferred, 0)[:, :, None], axis=2)[:, :, 0]
    unknown = np.full(users, np.nan)
    result = AttackResult(
        adversary=name,
        pool_names=names,
        gamma=known.gamma if known else unknown,
        delta=known.delta if known else unknown,
        truth=preferred,
        guess=guess,
        confidence=confidence,
        posterior_true=np.where(inside, own, 0.0),
        exposed={column: dates[:, np.searchsorted(thresholds, level)] for column, level in levels.items()},
    )
    return table(pl.Series(np.arange(users, dtype=np.int64)), observations, [result])
