"""Recorded users: traces from a file instead of synthetic ones.

A table of traces has the columns ``user`` and ``object``, in one or several files. Rows of different users may be
interleaved; the rows of a user are in order of time. Objects are given by name, or by number where the universe has no
names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from poolscope.core.arrays import Floats, Integers
from poolscope.core.errors import InputError
from poolscope.core.tables import opened
from poolscope.core.tables.csv import escaped
from poolscope.core.tables.reading import HELD
from poolscope.population.behavior import Behavior, Preferences
from poolscope.population.preprocessing import PreparedTraces, measure, tile_objects
from poolscope.population.priors import MAX_PARAMETER, Beta, Density
from poolscope.population.universe import Universe


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordedUsers:
    """Attacked users with their traces, and the data of the external users.

    Parameters
    ----------
    names : (users,) names of the attacked users.
    traces : (users, length) int64.
    external : (objects,) int64, all objects of the external users.
    fitted : prior fitted to the behavior of the external users.
    """

    names: pl.Series
    traces: NDArray[np.int64]
    external: NDArray[np.int64]
    fitted: Behavior

    def __len__(self) -> int:
        return len(self.traces)

    def __getitem__(self, users: range) -> RecordedUsers:
        part = slice(users.start, users.stop)
        return RecordedUsers(
            names=self.names[part], traces=self.traces[part], external=self.external, fitted=self.fitted
        )

    def preferences(self, universe: Universe) -> Preferences:
        """Return preferred pool, relevant interest and polarization, measured on the whole traces.

        With pools other than those of the preparation, a user may have no object in any pool. Such a user counts as
        preferring the first pool with relevant interest 0.
        """
        measured = measure(self.traces, universe)
        delta = np.nan_to_num(measured.delta, nan=1.0 / universe.k)
        return Preferences(np.maximum(measured.iota, 0), measured.gamma, delta)

    def external_objects(self, reports: int) -> NDArray[np.int64]:
        """Return the external users' objects, duplicated to at least `reports`."""
        return tile_objects(self.external, reports)


def population(prepared: PreparedTraces, names: tuple[str, ...], universe: Universe) -> RecordedUsers:
    """Return the prepared traces as recorded users."""
    return RecordedUsers(
        names=pl.Series([names[i] for i in prepared.attacked.user], dtype=pl.String),
        traces=prepared.attacked.objects,
        external=prepared.external.own_objects,
        fitted=fitted_behavior(prepared.external.objects, universe),
    )


def fitted_behavior(traces: NDArray[np.int64], universe: Universe) -> Behavior:
    """Fit priors to traces: Beta distributions by the method of moments, and the shares of the preferred pools.

    Users without an object in a pool are ignored. One user is added to every pool, so that no pool has probability 0.
    """
    measured = measure(traces, universe)
    has_pool = measured.iota >= 0
    k = universe.k
    rescaled = (k * measured.delta[has_pool] - 1.0) / (k - 1.0)
    counts = np.bincount(measured.iota[has_pool], minlength=k) + 1.0
    return Behavior(
        interest=_beta(measured.gamma[has_pool]),
        polarization=_beta(rescaled),
        pools=tuple(float(share) for share in counts / counts.sum()),
    )


def _beta(values: Floats) -> Density:
    """Fit a Beta distribution by mean and variance; uniform where there are fewer than two distinct values."""
    if len(values) < 2 or np.var(values) == 0:
        return Beta()
    mean = float(np.clip(np.mean(values), 1e-3, 1 - 1e-3))
    # no Beta distribution has the largest possible variance, mean * (1 - mean)
    variance = min(float(np.var(values)), 0.95 * mean * (1 - mean))
    total = mean * (1 - mean) / variance - 1.0
    a, b = np.clip([mean * total, (1 - mean) * total], 0.05, MAX_PARAMETER)
    return Beta(a=float(a), b=float(b))


COLUMNS = ("user", "object")

MAX_ROWS = 1 << 31
"""Maximum number of rows of traces, which are held in memory."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Traces:
    """The rows of a file of traces, in order.

    Parameters
    ----------
    users
        Names of the users, in order of first appearance.
    user : (rows,) int64
        Index of the user of each row in ``users``.
    object : (rows,) int64
        Index of the object of each row in the universe.
    """

    users: tuple[str, ...]
    user: Integers
    object: Integers


def read_traces(path: str | PathLike[str], universe: Universe) -> Traces:
    """Read and check traces: a file, a pattern or a folder; rows whose object is not in the universe are dropped."""
    users, objects, first = list[pl.Series](), list[pl.Series](), None
    with opened(path, [(column,) for column in COLUMNS]) as source:
        for batch in source.batches(COLUMNS, max_rows=MAX_ROWS, bytes_held_per_row=HELD):
            who, what = (batch.names(column).cast(pl.String) for column in COLUMNS)
            index = universe.find(what)
            inside, first = index.is_not_null(), what[0] if first is None else first
            users.append(who.filter(inside))
            objects.append(index.filter(inside))
    if not any(map(len, users)):
        raise InputError("must have an object of the universe", value=first, place="row 1", file=path)
    names, user = _encoded(pl.concat(users))
    return Traces(users=names, user=user, object=pl.concat(objects).to_numpy())


def write_rows(path: Path, ending: str, users: Sequence[str], objects: Sequence[str], *, raw: bool = False) -> None:
    """Write rows in the format of `ending`, whatever the path's suffix; CSV strings are escaped unless `raw`."""
    columns = dict(zip(COLUMNS, (users, objects), strict=True))
    table = pl.DataFrame(columns, schema=dict.fromkeys(COLUMNS, pl.String))
    if ending == ".csv":
        (table if raw else escaped(table)).write_csv(path)
    else:
        table.write_parquet(path)


def _encoded(text: pl.Series) -> tuple[tuple[str, ...], Integers]:
    """Return the distinct strings in order of first appearance, and the index of each row's string."""
    names = text.unique(maintain_order=True)
    codes = text.cast(pl.Enum(names)).to_physical().to_numpy().astype(np.int64)
    return tuple(names), codes
