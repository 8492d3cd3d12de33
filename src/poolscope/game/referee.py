"""The referee: knows the truth, and lays it beside what an adversary guesses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from poolscope.attack.adversary import Adversary
from poolscope.attack.decide import believed, guesses
from poolscope.attack.levels import LEVELS
from poolscope.attack.role import Posteriors
from poolscope.base.arrays import Keys, Map, Tick
from poolscope.game.outcomes import Attacked
from poolscope.kernels import referee as kernels
from poolscope.world.behaviour import Truth


@dataclass(frozen=True, kw_only=True, eq=False)
class Referee:
    """Judges the attacks on a block of users.

    Parameters
    ----------
    keys : (users,) theirs.
    truth : what they prefer, towards any pools.
    observations : report counts at which guesses are asked for.
    threads : works on some users after others; tick : is told users as they are judged.
    """

    keys: Keys
    truth: Truth
    observations: Sequence[int]
    threads: Map
    tick: Tick

    def judge(self, adversary: Adversary, posteriors: Posteriors, share: float) -> Attacked:
        """What the adversary's guesses are worth; `share` is how much of a user's game this was."""
        shape, thresholds = (len(self.keys), len(self.observations)), np.array(LEVELS)
        truth, gamma, delta = self.truth(adversary.universe)
        guess = np.empty(shape, dtype=np.int64)
        confidence, of_truth = np.empty((2, *shape))
        exposed = np.empty((len(self.keys), len(thresholds)), dtype=np.int32)

        def some(start: int) -> None:
            rows = slice(start, min(start + posteriors.at_once, len(self.keys)))
            posterior = posteriors.of(rows)
            asked = np.minimum(self.observations, posterior.shape[1] - 1)
            belief = believed(posterior[:, asked], adversary)
            guess[rows], confidence[rows] = guesses(belief, self.keys[rows])
            of_truth[rows] = np.take_along_axis(belief, truth[rows, None, None], axis=2)[:, :, 0]
            kernels.first_sure(posterior, thresholds, exposed[rows])
            self.tick(share * (rows.stop - rows.start))

        for _ in self.threads(some, range(0, len(self.keys), posteriors.at_once)):
            pass
        return Attacked(
            adversary=adversary.name,
            pool_names=adversary.universe.pool_names,
            gamma=gamma,
            delta=delta,
            truth=truth,
            guess=guess,
            confidence=confidence,
            posterior_true=of_truth,
            exposed=exposed,
        )
