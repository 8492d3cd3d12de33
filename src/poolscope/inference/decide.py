"""What an adversary says after its posterior: a guess, and how sure it is of it. Nothing here knows the truth."""

from __future__ import annotations

import numpy as np

from poolscope.core.arrays import Floats, Integers, Keys
from poolscope.core.randomness import Stream, children
from poolscope.inference.adversary import Adversary
from poolscope.kernels import decision as kernels


def believed(posterior: Floats, adversary: Adversary) -> Floats:
    """The posterior (..., hypotheses); where it is NaN, as the adversary's model excludes the reports, its prior."""
    return np.where(np.isnan(posterior), adversary.prior, posterior)


def guesses(posterior: Floats, users: Keys, counts: Integers) -> tuple[Integers, Floats]:
    """Pool of the largest posterior and its confidence, (users, observations), of posteriors (users, observations, k).

    Ties are broken at random, by the users' keys and the reports that each posterior is of: `counts` (users,
    observations). So a guess does not hang on what else is asked for.
    """
    guess = np.empty(posterior.shape[:2], dtype=np.int64)
    confidence = np.empty(guess.shape)
    kernels.guesses(posterior, children(users, Stream.GUESS), counts, guess, confidence)
    return guess, confidence
