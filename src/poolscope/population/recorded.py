"""Users who are there already: what they really picked takes the place of what synthetic users draw."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from poolscope.core.arrays import Floats
from poolscope.population.behaviour import Behaviour, Preferences
from poolscope.population.densities import MAX_PARAMETER, Beta, Density
from poolscope.population.recipe import Prepared, duplicated, measure
from poolscope.population.universe import Universe


@dataclass(frozen=True, kw_only=True, eq=False)
class Recorded:
    """Attacked users with their traces, and what the other users teach.

    Parameters
    ----------
    names : (users,) who they are.
    traces : (users, length) int64.
    external : (objects,) int64, what the external users picked.
    fitted : the external users' behaviour, as a prior.
    """

    names: pl.Series
    traces: NDArray[np.int64]
    external: NDArray[np.int64]
    fitted: Behaviour

    def __len__(self) -> int:
        return len(self.traces)

    def __getitem__(self, users: range) -> Recorded:
        part = slice(users.start, users.stop)
        return Recorded(names=self.names[part], traces=self.traces[part], external=self.external, fitted=self.fitted)

    def preferences(self, universe: Universe) -> Preferences:
        """Preferred pool, relevant interest and polarization, measured on the whole traces.

        With other pools than the users were chosen for, a user may have no object in any: such a one counts as
        preferring the first pool with no interest at all.
        """
        measured = measure(self.traces, universe)
        delta = np.nan_to_num(measured.delta, nan=1.0 / universe.k)
        return Preferences(np.maximum(measured.iota, 0), measured.gamma, delta)

    def external_objects(self, reports: int) -> NDArray[np.int64]:
        """The external users' objects, duplicated to reach so many."""
        return duplicated(self.external, reports)


def population(prepared: Prepared, names: tuple[str, ...], universe: Universe) -> Recorded:
    """The prepared users, to be played."""
    return Recorded(
        names=pl.Series([names[i] for i in prepared.attacked.user], dtype=pl.String),
        traces=prepared.attacked.objects,
        external=prepared.external.own_objects,
        fitted=fitted_behaviour(prepared.external.objects, universe),
    )


def fitted_behaviour(traces: NDArray[np.int64], universe: Universe) -> Behaviour:
    """Priors learnt from traces: Beta laws by their moments, and the share of users who prefer each pool.

    Users without an object in a pool teach nothing. One user more is added to every pool, so that none is impossible.
    """
    measured = measure(traces, universe)
    some = measured.iota >= 0
    k = universe.k
    rescaled = (k * measured.delta[some] - 1.0) / (k - 1.0)
    counts = np.bincount(measured.iota[some], minlength=k) + 1.0
    return Behaviour(
        interest=_beta(measured.gamma[some]),
        polarization=_beta(rescaled),
        pools=tuple(float(share) for share in counts / counts.sum()),
    )


def _beta(values: Floats) -> Density:
    """The Beta law with the mean and variance of the values; uniform where they are too few to tell."""
    if len(values) < 2 or np.var(values) == 0:
        return Beta()
    mean = float(np.clip(np.mean(values), 1e-3, 1 - 1e-3))
    # a variance at its largest possible value has no Beta law: keep below it
    variance = min(float(np.var(values)), 0.95 * mean * (1 - mean))
    total = mean * (1 - mean) / variance - 1.0
    a, b = np.clip([mean * total, (1 - mean) * total], 0.05, MAX_PARAMETER)
    return Beta(a=float(a), b=float(b))
