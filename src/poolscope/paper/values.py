"""Compute the values of cells: pure functions of a finished run, or of simulated frequency estimates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from poolscope.core.arrays import Map
from poolscope.core.randomness import curator_key, user_keys
from poolscope.game.columns import CORRECT
from poolscope.game.game import Game
from poolscope.inference.thresholds import at_levels
from poolscope.mechanisms.protocols import FrequencyOracle, require_frequency_oracle, with_epsilon
from poolscope.metrics.intervals import Estimate, clusters_of, known_value, share_of, share_of_users
from poolscope.metrics.precision import successes
from poolscope.metrics.records import TOPS, Record
from poolscope.population.behavior import own_popularity
from poolscope.population.popularity import entropy as pool_entropy
from poolscope.population.popularity import jensen_shannon, zipf
from poolscope.population.universe import Universe
from poolscope.reports.estimators import unbiased
from poolscope.scenario.build import build_game, build_mechanism
from poolscope.scenario.scenario import Scenario, load_scenario
from poolscope.workflows.audit.run_folder import Run

#: Share of the objects, the most popular ones, on which the percentage error is taken.
TOP_OBJECTS = 0.8

#: Fields of a record that have the precision on the most confident share of users.
_PRECISIONS = {1.0: "precision"} | {share: name for name, share in TOPS.items()}


@dataclass(frozen=True, kw_only=True)
class Played:
    """A finished run with its scenario; `threads` builds its game on demand."""

    scenario: Scenario
    run: Run
    threads: Map

    @cached_property
    def game(self) -> Game:
        return build_game(self.scenario, self.run.summary.seed, self.threads)

    def record(self, adversary: str, n: int) -> Record:
        """Return the record of an attack."""
        return next(row for row in self.run.summary.results if (row.adversary, row.n) == (adversary, n))

    def behaviors(self, adversary: str, n: int) -> pl.DataFrame:
        """Return the behavior of the users of an attack, and whether each guess is correct."""
        outcomes = self.run.outcomes
        return outcomes.of((adversary, n), outcomes.with_estimate_column(("gamma", "delta", CORRECT)))


def auc_pn(played: Played, *, adversary: str, n: int) -> Estimate:
    """Area under the precision / null-rate curve."""
    return played.record(adversary, n).auc_pn


def precision(played: Played, *, adversary: str, n: int, top: float = 1.0) -> Estimate:
    """Precision on the most confident users; on everyone by default."""
    found: Estimate = getattr(played.record(adversary, n), _PRECISIONS[top])
    return found


def precision_near(
    played: Played, *, adversary: str, n: int, gamma: Sequence[float], delta: Sequence[float]
) -> Estimate:
    """Precision on everyone whose relevant interest and polarization lie between these."""
    rows = _near(played.behaviors(adversary, n), gamma, delta)
    return share_of_users(successes(rows), clusters_of(rows))


def share_near(played: Played, *, adversary: str, n: int, gamma: Sequence[float], delta: Sequence[float]) -> Estimate:
    """Share of the users whose relevant interest and polarization lie between these."""
    rows = played.behaviors(adversary, n)
    return share_of(_near(rows, gamma, delta).height, rows.height)


def _near(rows: pl.DataFrame, gamma: Sequence[float], delta: Sequence[float]) -> pl.DataFrame:
    return rows.filter(pl.col("gamma").is_between(gamma[0], gamma[1]), pl.col("delta").is_between(delta[0], delta[1]))


def exposed(played: Played, *, adversary: str, n: int, confidence: float) -> Estimate:
    """Share of users exposed by n at this confidence."""
    found: Estimate = getattr(played.record(adversary, n), at_levels("exposed")[confidence])
    return found


def divergence(played: Played, *, adversary: str, sigma: str) -> Estimate:
    """Mean Jensen-Shannon divergence of the users' own popularity from the adversary's (appendix robustness)."""
    (believed,) = (a.popularity for a in played.game.adversaries if a.name == adversary)
    keys = user_keys(played.run.summary.seed, np.arange(played.run.summary.users))
    if float(sigma) == 0:
        keys = keys[:1]
    values = np.array(
        [jensen_shannon(believed, own_popularity(played.game.popularity, float(sigma), key)) for key in keys]
    )
    return _mean(values)


def entropy(*, size: str, exponent: float) -> Estimate:
    """Entropy within a pool of this size under Zipf's law, in bits."""
    universe = Universe.sized(2 * int(size), {"one": int(size), "other": int(size)})
    return known_value(float(pool_entropy(universe, zipf(universe, exponent))[0]))


def utility(
    scenario: str, epsilons: Sequence[str], reports: float, seed: int, threads: Map
) -> dict[str, dict[str, Estimate]]:
    """Errors of the curator's unprojected estimate at each ε: mean absolute, and percentage on the top objects.

    The interval is that of the mean over objects. The objects of the reports are drawn once for all values of ε.
    """
    base = load_scenario(scenario)
    universe = base.universe()
    truth = base.true_popularity(universe)
    mechanism = require_frequency_oracle(build_mechanism(base, universe))
    key = curator_key(seed, int(reports) % (1 << 40))
    values = [float(epsilon) for epsilon in epsilons]
    counts = mechanism.simulate_at(values, truth, int(reports), key, threads)
    return {
        epsilon: _errors(with_epsilon(mechanism, value), truth, support, int(reports))
        for epsilon, value, support in zip(epsilons, values, counts, strict=True)
    }


def _errors(mechanism: FrequencyOracle, truth: np.ndarray, support: np.ndarray, reports: int) -> dict[str, Estimate]:
    error = np.abs(unbiased(mechanism, support, reports).counts / reports - truth)
    top = np.argsort(truth)[len(truth) - round(TOP_OBJECTS * len(truth)) :]
    return {"mae": _mean(error), "mape": _mean(100 * error[top] / truth[top])}


def _mean(values: np.ndarray) -> Estimate:
    """Return a mean with its normal interval."""
    half = 1.96 * values.std() / np.sqrt(len(values))
    return Estimate(float(values.mean()), float(values.mean() - half), float(values.mean() + half))


#: Values of a play, by the name that cells use.
OF_PLAY: Mapping[str, Callable[..., Estimate]] = {
    "auc_pn": auc_pn,
    "precision": precision,
    "precision_near": precision_near,
    "share_near": share_near,
    "exposed": exposed,
    "divergence": divergence,
}

#: Values of the curator's simulation.
OF_UTILITY = ("mae", "mape")


def value_of(cell_value: str, arguments: Mapping[str, Any], played: Played | None) -> Estimate:
    """Return a cell's value that needs no simulated frequency estimate."""
    if played is None:
        return entropy(**arguments)
    rest = {key: value for key, value in arguments.items() if key != "play"}
    return OF_PLAY[cell_value](played, **rest)
