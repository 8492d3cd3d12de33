"""Outcome tables with a known law, for the tests of the metrics, figures and page.

Users have gamma uniform on (0, 1] and delta uniform on (1/k, 1]. Each report adds to k scores a
standard normal vector, shifted for the preferred pool by a strength that grows with gamma and
delta; the softmax of strength times score is then the exact posterior, so the attack is
calibrated by construction. A ``sharpness`` other than 1 makes it claim too much or too little.
"""

from __future__ import annotations

import os

import numpy as np
import polars as pl

SEED = int(os.environ.get("POOLSCOPE_TEST_SEED", "20220810"))
"""Set the variable to roll every statistical test again."""

POOLS = ("default", "light", "medium-light", "medium", "medium-dark", "dark")
STRENGTHS = {"weak": 0.12, "strong": 0.6, "non-private": 3.0}


def attack(
    users: int,
    seed: int = SEED,
    *,
    adversary: str = "strong",
    strength: float = 0.6,
    observations: tuple[int, ...] = (7, 30, 90),
    sharpness: float = 1.0,
) -> pl.DataFrame:
    """Outcomes of one adversary on ``users`` users."""
    rng = np.random.default_rng([seed, len(adversary)])
    k = len(POOLS)
    gamma = 1 - rng.random(users)
    delta = 1 - rng.random(users) * (1 - 1 / k)
    pool = rng.integers(k, size=users)
    signal = strength * gamma * (delta - 1 / k)
    score = np.zeros((users, k))
    first = {name: np.full(users, -1) for name in (50, 90, 95)}
    names = np.array(POOLS)
    parts = []
    for n in range(1, max(observations) + 1):
        score += rng.standard_normal((users, k))
        score[np.arange(users), pool] += signal
        weight = sharpness * signal[:, None] * score
        posterior = np.exp(weight - weight.max(axis=1, keepdims=True))
        posterior /= posterior.sum(axis=1, keepdims=True)
        confidence = posterior.max(axis=1)
        for level, when in first.items():
            when[(when < 0) & (confidence >= level / 100)] = n
        if n in observations:
            parts.append(
                pl.DataFrame(
                    {
                        "user": np.arange(users),
                        "adversary": [adversary] * users,
                        "n": np.full(users, n, dtype=np.int32),
                        "pool": names[pool],
                        "gamma": gamma,
                        "delta": delta,
                        "guess": names[posterior.argmax(axis=1)],
                        "confidence": confidence,
                        "posterior_true": posterior[np.arange(users), pool],
                    }
                )
            )
    exposed = [
        pl.when(pl.Series(when) >= 0).then(pl.Series(when, dtype=pl.Int32)).alias(f"exposed_at_{level}")
        for level, when in first.items()
    ]
    return pl.concat([part.with_columns(exposed) for part in parts])


def game(users: int, seed: int = SEED, observations: tuple[int, ...] = (7, 30, 90)) -> pl.DataFrame:
    """Outcomes of the weak, the strong and the non-private adversary."""
    return pl.concat(
        attack(users, seed, adversary=name, strength=strength, observations=observations)
        for name, strength in STRENGTHS.items()
    )


def bare(confidence: np.ndarray, correct: np.ndarray) -> pl.DataFrame:
    """One row per user with given confidences and successes, everything else plain."""
    users = len(confidence)
    return pl.DataFrame(
        {
            "user": np.arange(users),
            "adversary": ["strong"] * users,
            "n": np.full(users, 7, dtype=np.int32),
            "pool": ["a"] * users,
            "gamma": np.full(users, 0.5),
            "delta": np.full(users, 0.5),
            "guess": np.where(correct, "a", "b"),
            "confidence": np.asarray(confidence, dtype=np.float64),
        }
    )
