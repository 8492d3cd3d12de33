"""Play the game of several collections for a block of people: posteriors of the attribute, and their outcomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from poolscope.core.arrays import Floats, Integers, Tick
from poolscope.core.executors import Local
from poolscope.game.collections import JointGame, Persons, draw_persons
from poolscope.game.columns import COLLECTION, LOG_ODDS, MINUS_MCSE, NON_PRIVATE, PLUS_MCSE, exposed_columns
from poolscope.game.game import popularity_draw_of
from poolscope.game.outcomes import AttackResult, table
from poolscope.inference.attack import attack_for
from poolscope.inference.independent import BlockPosteriors, guesses, reports_at_longest_pseudonym
from poolscope.inference.joint import joint_mcse, joint_scores, linked, log_odds, normalized
from poolscope.inference.non_private import non_private_posteriors
from poolscope.kernels.decision import first_confident
from poolscope.kernels.joint import first_confident_jointly, link_evidence


class _Results:
    """The results of a block of people, filled in by groups and chunks: for each subset and adversary."""

    def __init__(self, game: JointGame, persons: Persons, sampled: Mapping[str, bool]) -> None:
        self.levels = exposed_columns(game.threshold)
        self.thresholds = np.unique(list(self.levels.values()))
        shape = len(persons.keys), len(game.observations)
        self.arrays: dict[tuple[str, str], dict[str, Any]] = {}
        for subset in game.subsets:
            for adversary in game.pool_counts:
                ends = 3 if sampled[adversary] else 1
                self.arrays[subset, adversary] = {
                    "guess": np.empty(shape, dtype=np.int64),
                    "confidence": np.empty(shape),
                    "posterior_true": np.empty(shape),
                    LOG_ODDS: np.empty(shape),
                    "mcse": np.zeros(shape) if sampled[adversary] else None,
                    "exposed": np.empty((ends, shape[0], len(self.thresholds)), dtype=np.int32),
                }

    def exposed(self, key: tuple[str, str]) -> dict[str, NDArray[np.int32]]:
        """Return the columns of the first confident day."""
        days = self.arrays[key]["exposed"]
        ends = ("", PLUS_MCSE, MINUS_MCSE)[: len(days)]
        places = {name: np.searchsorted(self.thresholds, level) for name, level in self.levels.items()}
        return {name + end: first[:, at] for name, at in places.items() for end, first in zip(ends, days, strict=True)}


@dataclass(frozen=True, kw_only=True, eq=False)
class _Evaluator:
    """Evaluate one adversary on some of the people of a block, `rows`, from its posteriors in each collection."""

    game: JointGame
    persons: Persons
    results: _Results
    rows: Integers
    adversary: str
    posteriors: Sequence[BlockPosteriors]
    days: list[Integers]

    def run(self, engine: Local, tick: Tick, share: float) -> None:
        """Evaluate chunk by chunk, on the engine's threads."""
        size = min(one.chunk_users for one in self.posteriors)

        def some(start: int) -> None:
            chunk = slice(start, min(start + size, len(self.rows)))
            self._chunk(chunk)
            tick(share * (chunk.stop - chunk.start))

        for _ in engine.map(some, range(0, len(self.rows), size)):
            pass

    def _chunk(self, chunk: slice) -> None:
        game, rows, links = self.game, self.rows[chunk], self.game.links(self.adversary)
        found = [one.compute(chunk) for one in self.posteriors]
        dated = [days[rows] for days in self.days]
        shape = len(rows), game.horizon + 1, len(links), len(game.values)
        evidence, observed = np.empty(shape), []
        for c, ((posterior, _), one) in enumerate(zip(found, self.posteriors, strict=True)):
            link_evidence(posterior, dated[c], links[c], evidence[:, :, c])
            # a guess is about the longest pseudonym, exposure about the current one
            at = reports_at_longest_pseudonym(dated[c][:, game.observations], one.rotate_after)
            observed.append(np.take_along_axis(posterior, at[:, :, None], axis=1))
        seen = np.stack([linked(own, link) for own, link in zip(observed, links, strict=True)], axis=-2)
        daily = [
            (np.take_along_axis(posterior, at[:, :, None], axis=1), np.take_along_axis(mcse, at[:, :, None], axis=1))
            if mcse is not None
            else None
            for (posterior, mcse), at in zip(found, dated, strict=True)
        ]
        done: dict[bytes, str] = {}
        for subset, used in game.subsets.items():
            # of two collections, all but one is the other alone
            same = done.setdefault(used.tobytes(), subset)
            own, known = (self.results.arrays[name, self.adversary] for name in (subset, same))
            if same == subset:
                guess = self._decide(own, rows, used, evidence, seen)
                if any(daily[c] is not None for c in np.flatnonzero(used)):
                    self._errors(own, rows, used, evidence, daily, guess)
                continue
            for name, values in own.items():
                if values is not None:
                    place = (slice(None), rows) if name == "exposed" else rows
                    values[place] = known[name][place]

    def _decide(
        self, own: dict[str, Any], rows: Integers, used: NDArray[np.bool_], evidence: Floats, seen: Floats
    ) -> Integers:
        """Store guesses and exposure by some collections; return the guesses."""
        game, prior = self.game, self.game.belief(self.adversary)
        truth, days = self.persons.attribute[rows], np.asarray(game.observations, dtype=np.int64)
        scores = joint_scores(seen[:, :, used], prior)
        posterior = normalized(scores, prior)
        counts = np.ascontiguousarray(np.broadcast_to(days, posterior.shape[:2]))
        guess, confidence = guesses(posterior, self.persons.keys[rows], counts)
        own["guess"][rows], own["confidence"][rows] = guess, confidence
        own["posterior_true"][rows] = np.take_along_axis(posterior, truth[:, None, None], axis=2)[:, :, 0]
        own[LOG_ODDS][rows] = log_odds(scores, truth)
        first = np.empty((len(rows), len(self.results.thresholds)), dtype=np.int32)
        first_confident_jointly(evidence, used, prior, self.results.thresholds, first)
        own["exposed"][:, rows] = first
        return guess

    def _errors(
        self,
        own: dict[str, Any],
        rows: Integers,
        used: NDArray[np.bool_],
        evidence: Floats,
        daily: list[tuple[Floats, Floats] | None],
        guess: Integers,
    ) -> None:
        """Store the Monte Carlo errors of confidences, and exposure with posteriors more and less by them."""
        prior, links = self.game.belief(self.adversary), self.game.links(self.adversary)
        posterior = normalized(joint_scores(evidence[:, :, used], prior), prior)
        sampled = [(part, links[c]) for c, part in enumerate(daily) if used[c] and part is not None]
        error = joint_mcse(posterior, [part for part, _ in sampled], [link for _, link in sampled])
        first = np.empty((len(rows), len(self.results.thresholds)), dtype=np.int32)
        for end, shifted in ((1, posterior + error), (2, posterior - error)):
            first_confident(shifted, self.results.thresholds, first)
            own["exposed"][end, rows] = first
        at = error[:, list(self.game.observations)]
        own["mcse"][rows] = np.take_along_axis(at, guess[:, :, None], axis=2)[:, :, 0]


def play_joint_block(
    game: JointGame, users: range, seed: int, tick: Tick | None = None, engine: Local | None = None
) -> pl.DataFrame:
    """Return the outcomes of some people: by subset of the collections, then adversary, day and user."""
    engine, tick = engine or Local(threads=1), tick or (lambda _: None)
    persons = draw_persons(game, users, seed, engine)
    every = np.arange(game.horizon + 1)
    days = [one.reports_by(sent, every) for one, sent in zip(game.collections, persons.sent, strict=True)]
    numbers = np.arange(users.start, users.stop)
    estimate = popularity_draw_of(numbers, game.estimates)
    memoized = any(one.game.device.memoizes for one in game.collections)
    sampled = {one.name: memoized and one.knows_memoization for one in game.adversaries} | {NON_PRIVATE: False}
    results = _Results(game, persons, sampled)
    parts = len(game.collections)
    for number in np.unique(estimate) if game.adversaries else ():
        rows, found, left = np.flatnonzero(estimate == number), [], 0.0
        for c, collection in enumerate(game.collections):
            attack = attack_for(collection.game.device)
            own = [adversary.with_estimate(int(number)) for adversary in collection.game.adversaries]
            who = persons.sent[c][rows], persons.collection_keys[c][rows]
            done = partial(_scaled, tick, 1 / parts)
            found.append(attack.posteriors(*who, own, collection.game.observations, engine, done))
            left += (1.0 - attack.precomputed_share) / parts
        for index, adversary in enumerate(game.adversaries):
            _Evaluator(
                game=game,
                persons=persons,
                results=results,
                rows=rows,
                adversary=adversary.name,
                posteriors=[one[index] for one in found],
                days=days,
            ).run(engine, tick, left / len(game.adversaries))
    if game.non_private:
        shown = [
            non_private_posteriors(one.game.universe, sent, one.game.reference.belief)
            for one, sent in zip(game.collections, persons.sent, strict=True)
        ]
        _Evaluator(
            game=game,
            persons=persons,
            results=results,
            rows=np.arange(len(numbers)),
            adversary=NON_PRIVATE,
            posteriors=shown,
            days=days,
        ).run(engine, tick, 0.0 if game.adversaries else 1.0)
    return _outcome_table(game, persons, results, numbers, estimate)


def _scaled(tick: Tick, share: float, amount: float) -> None:
    tick(share * amount)


def _outcome_table(
    game: JointGame, persons: Persons, results: _Results, numbers: Integers, estimate: Integers
) -> pl.DataFrame:
    subsets, frames = pl.Enum(list(game.subsets)), []
    redrawn = {
        adversary.name: any(one.game.adversaries[i].redraws for one in game.collections)
        for i, adversary in enumerate(game.adversaries)
    }
    for subset, used in game.subsets.items():
        gamma, delta = _mean_behavior(game, persons, used)
        attacked = []
        for adversary in game.pool_counts:
            own = results.arrays[subset, adversary]
            attacked.append(
                AttackResult(
                    adversary=adversary,
                    pool_names=game.values,
                    gamma=gamma,
                    delta=delta,
                    truth=persons.attribute,
                    guess=own["guess"],
                    confidence=own["confidence"],
                    posterior_true=own["posterior_true"],
                    exposed=results.exposed((subset, adversary)),
                    mcse=own["mcse"],
                    estimate=estimate if redrawn.get(adversary) else None,
                )
            )
        frame = table(pl.Series(numbers), game.observations, attacked)
        odds = np.concatenate([results.arrays[subset, name][LOG_ODDS].T.ravel() for name in game.pool_counts])
        frames.append(
            frame.with_columns(
                pl.Series(LOG_ODDS, odds), pl.repeat(subset, frame.height, dtype=subsets, eager=True).alias(COLLECTION)
            )
        )
    return pl.concat(frames)


def _mean_behavior(game: JointGame, persons: Persons, used: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Return the mean relevant interest of some collections, and the mean polarization on the scale of the values."""
    chosen, count = np.flatnonzero(used).tolist(), len(game.values)
    gamma = np.mean([persons.gamma[c] for c in chosen], axis=0)
    sizes = [game.collections[c].game.universe.k for c in chosen]
    rescaled = [(k * persons.delta[c] - 1) / (k - 1) for k, c in zip(sizes, chosen, strict=True)]
    return gamma, 1 / count + (1 - 1 / count) * np.mean(rescaled, axis=0)
