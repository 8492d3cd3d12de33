"""Does an attack know its odds: a p-value."""

import numpy as np
import polars as pl

from poolscope.metrics.calibration import ERROR_BINS, gather

#: Crowds that a p-value is counted in: levels of a thousandth and more are known to a fifth.
CROWDS = 40_000


def calibration_p(truth, found, seed):
    """How often a calibrated attack with these confidences shows an expected calibration error as large as was seen.

    Under the hypothesis the successes of a bin are binomial (a little wider than they are, see `metrics.calibration`),
    so the null distribution of the error is drawn, not approximated. truth (users,), found (users, k).
    """
    names = np.array([f"pool {i}" for i in range(found.shape[1])])
    guesses = {"pool": names[truth], "guess": names[found.argmax(axis=1)], "confidence": found.max(axis=1)}
    bins = gather(pl.DataFrame(guesses), ERROR_BINS)
    hits = np.random.default_rng(seed).binomial(bins.users, bins.confidence, size=(CROWDS, len(bins.users)))
    return (1 + (bins.error(hits / bins.users) >= bins.error(bins.success)).sum()) / (1 + CROWDS)
