"""What an adversary says after its posterior: a guess, and how sure it is of it. Nothing here knows the truth."""

from __future__ import annotations

import numpy as np

from poolscope.attack.adversary import Adversary
from poolscope.base.arrays import Floats, Integers, Keys
from poolscope.base.randomness import Stream, children
from poolscope.kernels import decide as kernels


def believed(posterior: Floats, adversary: Adversary) -> Floats:
    """The posterior (..., k); reports that the adversary's model excludes, where it is NaN, leave it with its prior."""
    return np.where(np.isnan(posterior), adversary.belief.pool_prior(adversary.k), posterior)


def guesses(posterior: Floats, users: Keys) -> tuple[Integers, Floats]:
    """The pool of the largest posterior and its confidence, (users, observations), ties at random by the users' keys.

    posterior (users, observations, k).
    """
    guess = np.empty(posterior.shape[:2], dtype=np.int64)
    confidence = np.empty(guess.shape)
    kernels.guesses(posterior, children(users, Stream.GUESS), guess, confidence)
    return guess, confidence
