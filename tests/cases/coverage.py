"""How often intervals hold the truth: crowds drawn, with replacement, from users of a game that was played.

Those users are the law: what a metric is of all of them is the truth about a crowd of any size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import NamedTuple

import numpy as np
import polars as pl
from cases.synthetic import SEED

from poolscope import metrics
from poolscope.game.game import Game, play
from poolscope.inference.adversary import Adversary
from poolscope.mechanisms import Fresh, make
from poolscope.metrics.intervals import Estimate, known_value
from poolscope.metrics.leakage import confusion_counts, leakage_of, security_of
from poolscope.metrics.records import AttackCounts, prior_success
from poolscope.population.behavior import Behavior
from poolscope.population.popularity import zipf
from poolscope.population.universe import Universe

Metric = Callable[[pl.DataFrame], Estimate]

POOLS = ("a", "b", "c")
K = len(POOLS)
N = 30

LAWS = {"noisy": (1.5, (1, 1, 1)), "clear": (5.0, (1, 1, 1)), "skewed": (2.0, (6, 2, 1))}
"""Epsilon of randomized response, and how many users prefer each pool."""

PLAYED = 20_000


class Coverage(NamedTuple):
    """How often an interval held the truth, its mean width, and the width that normal values vary by."""

    truth: float
    held: float
    width: float
    spread: float


@cache
def population(distribution: str) -> pl.DataFrame:
    """Users of a small game after `N` reports each."""
    epsilon, preferred = LAWS[distribution]
    universe = Universe.sized(12, {"a": 3, "b": 3, "c": 3})
    game = Game(
        universe=universe,
        popularity=zipf(universe, 1.0),
        behavior=Behavior(pools=preferred),
        device=Fresh(make("grr", 12, {"epsilon": epsilon})),
        adversaries=[Adversary(name="strong", universe=universe, popularity=zipf(universe, 1.0))],
        observations=[N],
        non_private=False,
    )
    return play(game, PLAYED, SEED)


def partitions(distribution: str, users: int, count: int) -> list[pl.DataFrame]:
    """So many crowds of so many users."""
    everyone, rng = population(distribution), np.random.default_rng([SEED, users])
    return [
        everyone[rng.integers(everyone.height, size=users)].with_columns(user=pl.int_range(users)) for _ in range(count)
    ]


def _at_prior(name: str, known: float | None) -> Metric:
    """A leakage at the users' own prior, as a record has it; where it is not known the crowd has to tell."""

    def metric(rows: pl.DataFrame) -> Estimate:
        counted = AttackCounts.of(rows, N)
        prior = prior_success(1 / K, max(counted.pools.values()), rows.height, known)
        return AT_PRIOR[name](metrics.precision(rows, SEED), prior, counted.correlation)

    return metric


AT_PRIOR = {"bayes_risk_ratio": security_of, "min_entropy_leakage": leakage_of}

UNKNOWN = ", prior unknown"
"""Of users whose law nobody wrote down: recorded ones."""


PLAIN: Mapping[str, Metric] = {
    "auc_pn": lambda rows: metrics.auc_pn(rows, SEED),
    "precision": lambda rows: metrics.precision(rows, SEED),
    "precision_top1": lambda rows: metrics.precision(rows, SEED, 0.01),
    "precision_top5": lambda rows: metrics.precision(rows, SEED, 0.05),
    "precision_top10": lambda rows: metrics.precision(rows, SEED, 0.1),
    "precision_top20": lambda rows: metrics.precision(rows, SEED, 0.2),
    "precision_at_threshold": lambda rows: metrics.precision_at_threshold(rows, 0.8),
    "confident_90": lambda rows: metrics.confident(rows, 0.9),
    "exposed_95": lambda rows: metrics.exposed(rows, 0.95, N),
    "reports_to_exposure": lambda rows: metrics.reports_to_exposure(rows, 0.5),
    "bayes_security": lambda rows: metrics.bayes_security(rows, K, SEED),
    "evidence": lambda rows: metrics.log_odds_gain(rows, dict.fromkeys(POOLS, 1 / K)),
    "brier": metrics.brier,
    "ece": lambda rows: metrics.ece(rows, SEED),
}

METRICS = (*PLAIN, *AT_PRIOR, *(f"{name}{UNKNOWN}" for name in AT_PRIOR))
"""Every metric with an interval. Those of tables (curve, exposure, map, calibration) are the same cell by cell."""


def metric_of(name: str, distribution: str) -> Metric:
    """A metric of a crowd; at the users' prior it is that of the law."""
    if name in PLAIN:
        return PLAIN[name]
    weights = LAWS[distribution][1]
    return _at_prior(name.removesuffix(UNKNOWN), None if name.endswith(UNKNOWN) else max(weights) / sum(weights))


@cache
def truth(name: str, distribution: str) -> float:
    """What a metric is of all users; the least Bayes security by its definition, as it is not the estimate of many."""
    everyone = population(distribution)
    if name.endswith(UNKNOWN):
        # the prior of the users who were drawn from, not of the law
        return AT_PRIOR[name.removesuffix(UNKNOWN)](
            metrics.precision(everyone, SEED), known_value(_majority(distribution))
        ).value
    if name != "bayes_security":
        return metric_of(name, distribution)(everyone).value
    counts = confusion_counts(everyone)
    rows = np.array([[counts[pool, guess] for guess in POOLS] for pool in POOLS], dtype=np.float64)
    rows /= rows.sum(axis=1, keepdims=True)
    return 1 - float(np.abs(rows[:, None] - rows).sum(axis=2).max()) / 2


def _majority(distribution: str) -> float:
    """How many of all users prefer the most common pool, or any where the law prefers none."""
    weights = LAWS[distribution][1]
    return (
        1 / K
        if len(set(weights)) == 1
        else float((population(distribution)["pool"].cast(pl.String) == POOLS[0]).mean())
    )


def coverage(name: str, distribution: str, drawn: list[pl.DataFrame], metric: Metric | None = None) -> Coverage:
    """Of a metric's interval over some crowds; of another interval of the same metric where one is given."""
    value, low, high = np.array([(metric or metric_of(name, distribution))(rows) for rows in drawn]).T
    true = truth(name, distribution)
    held = (low <= true) & (true <= high)
    return Coverage(true, float(held.mean()), float(np.mean(high - low)), 2 * 1.96 * float(np.std(value)))
