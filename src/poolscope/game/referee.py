"""The referee: knows the truth, and lays it beside what an adversary guesses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from poolscope.core.arrays import Keys, Map, Tick
from poolscope.game.columns import EARLY, LATE, exposed_columns
from poolscope.game.outcomes import Attacked
from poolscope.inference.adversary import Adversary
from poolscope.inference.independent import Posteriors, believed, guesses
from poolscope.inference.pseudonyms import longest
from poolscope.kernels import decision as kernels
from poolscope.mechanisms.policy import Sent
from poolscope.population.behavior import NONE, Truth


@dataclass(frozen=True, kw_only=True, eq=False)
class Referee:
    """Judges the attacks on a block of users.

    After n events the guess is about the longest pseudonym of the user, the newest where several are as long: which one
    that is does not hang on what it has sent, so that confidence keeps its meaning. Exposed is a user by the first
    pseudonym of which the adversary has been sure.

    Parameters
    ----------
    keys : (users,) theirs.
    truth : what they prefer, towards any pools.
    sent : what their devices send.
    observations : counts of events at which guesses are asked for.
    threshold : a confidence at which users count as exposed, beside those at which they always do.
    none : whether users may prefer no pool, or an adversary holds that they may.
    threads : works on some users after others; tick : is told users as they are judged.
    """

    keys: Keys
    truth: Truth
    sent: Sent
    observations: Sequence[int]
    threads: Map
    tick: Tick
    threshold: float | None = None
    none: bool = False

    def judge(self, adversary: Adversary, posteriors: Posteriors, share: float) -> Attacked:
        """What the adversary's guesses are worth; `share` is how much of a user's game this was."""
        shape, levels = (len(self.keys), len(self.observations)), exposed_columns(self.threshold)
        thresholds = np.unique(list(levels.values()))
        truth, gamma, delta = self.truth(adversary.universe)
        guess = np.empty(shape, dtype=np.int64)
        confidence, of_truth = np.empty((2, *shape))
        error = np.zeros(shape) if posteriors.sampled else None
        # as it is and, where chance has a part in it, with the posteriors more and less by their error
        signs = {"": 0.0} | ({EARLY: 1.0, LATE: -1.0} if posteriors.sampled else {})
        exposed = {end: np.empty((len(self.keys), len(thresholds)), dtype=np.int32) for end in signs}
        asked = longest(self.sent.counts(self.observations), posteriors.window)

        def some(start: int) -> None:
            rows = slice(start, min(start + posteriors.at_once, len(self.keys)))
            posterior, chance = posteriors.of(rows)
            belief = believed(np.take_along_axis(posterior, asked[rows, :, None], axis=1), adversary)
            guess[rows], confidence[rows] = guesses(belief, self.keys[rows], asked[rows])
            # who prefers no pool has no posterior where that is no hypothesis
            held = truth[rows] < belief.shape[2]
            own = np.take_along_axis(belief, np.where(held, truth[rows], 0)[:, None, None], axis=2)[:, :, 0]
            of_truth[rows] = np.where(held[:, None], own, 0.0)
            if error is not None and chance is not None:
                at = np.take_along_axis(chance, asked[rows, :, None], axis=1)
                error[rows] = np.take_along_axis(at, guess[rows, :, None], axis=2)[:, :, 0]
            for end, sign in signs.items():
                shifted = posterior if chance is None else posterior + sign * chance
                # to be sure that a user prefers no pool exposes nobody
                kernels.first_sure(shifted[:, :, : adversary.k], thresholds, exposed[end][rows])
            self.tick(share * (rows.stop - rows.start))

        for _ in self.threads(some, range(0, len(self.keys), posteriors.at_once)):
            pass
        events = {end: self.sent.events(first.astype(np.int64)).astype(np.int32) for end, first in exposed.items()}
        return Attacked(
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
                for end, first in events.items()
            },
            error=error,
        )
