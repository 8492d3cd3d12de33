"""Evaluate what adversaries conclude about people from several collections: guesses, log-odds, and first exposure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arrays import Floats, Integers, Tick
from poolscope.core.executors import Local
from poolscope.game.collections import JointGame, Persons
from poolscope.game.columns import LOG_ODDS, MINUS_MCSE, PLUS_MCSE, SAMPLED_CORRECT, exposed_columns
from poolscope.inference.independent import BlockPosteriors, guesses, reports_at_longest_pseudonym
from poolscope.inference.joint import joint_mcse, joint_scores, linked, log_odds, normalized
from poolscope.kernels.decision import first_confident
from poolscope.kernels.joint import first_confident_jointly, link_evidence


class JointResults:
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
                    SAMPLED_CORRECT: np.full(shape, np.nan) if game.hidden else None,
                    "exposed": np.empty((ends, shape[0], len(self.thresholds)), dtype=np.int32),
                }

    def exposed(self, key: tuple[str, str]) -> dict[str, NDArray[np.int32]]:
        """Return the columns of the first confident day."""
        days = self.arrays[key]["exposed"]
        ends = ("", PLUS_MCSE, MINUS_MCSE)[: len(days)]
        places = {name: np.searchsorted(self.thresholds, level) for name, level in self.levels.items()}
        return {name + end: first[:, at] for name, at in places.items() for end, first in zip(ends, days, strict=True)}


@dataclass(frozen=True, kw_only=True, eq=False)
class JointEvaluator:
    """Evaluate one adversary on some of the people of a block, `rows`, from its posteriors in each collection."""

    game: JointGame
    persons: Persons
    results: JointResults
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
        for subset, used in game.subsets.items():
            same = game.same_subsets[subset]
            own, known = (self.results.arrays[name, self.adversary] for name in (subset, same))
            if same == subset:
                guess = self._decide(own, rows, used, evidence, seen)
                if any(daily[c] is not None for c in np.flatnonzero(used)):
                    self._errors(own, rows, used, evidence, daily, guess)
                continue
            self._copy(own, known, rows)

    @staticmethod
    def _copy(own: dict[str, Any], known: dict[str, Any], rows: Integers) -> None:
        """Store the results of a subset that is the same as another one."""
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
