"""The maximum-likelihood weights of the pools in a mixture of their reports."""

from __future__ import annotations

import numpy as np

from poolscope.core.arrays import Floats

#: Maximum number of Newton steps, the gain in log-likelihood at which they stop, and halvings of a step.
MAX_STEPS, MIN_GAIN, HALVINGS = 50, 1e-4, 30


def pool_weights(likelihood: Floats) -> tuple[Floats, Floats]:
    """Return the maximum-likelihood weights of the pools, and the derivatives of the log-likelihoods by the weights.

    The weights (pools,) sum to 1. They may be negative as long as every report has a positive probability, so that the
    gradient is 0 at the maximum. The derivatives are (reports, pools - 1).
    """
    pools = likelihood.shape[1]
    weights: Floats = np.full(pools, 1.0 / pools)
    apart = likelihood[:, 1:] - likelihood[:, :1]
    if pools == 1:
        return weights, apart
    mixture: Floats = likelihood @ weights
    for _ in range(MAX_STEPS):
        derivatives = apart / mixture[:, None]
        gradient = derivatives.sum(axis=0)
        step = solved(derivatives.T @ derivatives, gradient)
        gain = float(gradient @ step)
        if gain < MIN_GAIN:
            break
        change, value = apart @ step, float(np.sum(np.log(mixture)))
        for halving in range(HALVINGS):
            length = 0.5**halving
            moved = mixture + length * change
            if moved.min() > 0 and np.sum(np.log(moved)) >= value + MIN_GAIN * length * gain:
                weights = weights + length * np.concatenate([[-step.sum()], step])
                break
        else:
            break
        mixture = likelihood @ weights
    return weights, apart / mixture[:, None]


def solved(matrix: Floats, right: Floats) -> Floats:
    """Return the minimum-norm solution, as indistinguishable pools make the matrix singular."""
    return np.asarray(np.linalg.lstsq(matrix, right, rcond=1e-10)[0], dtype=np.float64)
