"""Recorded users: traces from a file, in the place of what synthetic users draw.

Columns ``user`` and ``object``, Parquet or CSV by the file's ending. Users' rows may be interleaved; those of a user
are in order of time. Objects are identified by name, or by number where the universe has no names.
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
from poolscope.core.tables import open_file
from poolscope.core.tables.reading import HELD
from poolscope.core.tables.text import escaped
from poolscope.population.behavior import Behavior, Preferences
from poolscope.population.priors import MAX_PARAMETER, Beta, Density
from poolscope.population.recipe import PreparedTraces, duplicated, measure
from poolscope.population.universe import Universe


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordedUsers:
    """Attacked users with their traces, and what the other users teach.

    Parameters
    ----------
    names : (users,) who they are.
    traces : (users, length) int64.
    external : (objects,) int64, what the external users picked.
    fitted : the external users' behavior, as a prior.
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


def population(prepared: PreparedTraces, names: tuple[str, ...], universe: Universe) -> RecordedUsers:
    """The prepared users, to be played."""
    return RecordedUsers(
        names=pl.Series([names[i] for i in prepared.attacked.user], dtype=pl.String),
        traces=prepared.attacked.objects,
        external=prepared.external.own_objects,
        fitted=fitted_behavior(prepared.external.objects, universe),
    )


def fitted_behavior(traces: NDArray[np.int64], universe: Universe) -> Behavior:
    """Priors learned from traces: Beta laws by their moments, and the share of users who prefer each pool.

    Users without an object in a pool teach nothing. One user more is added to every pool, so that none is impossible.
    """
    measured = measure(traces, universe)
    some = measured.iota >= 0
    k = universe.k
    rescaled = (k * measured.delta[some] - 1.0) / (k - 1.0)
    counts = np.bincount(measured.iota[some], minlength=k) + 1.0
    return Behavior(
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


COLUMNS = ("user", "object")

MAX_ROWS = 1 << 31
"""Rows of traces at most; they are held in memory."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Traces:
    """What users picked, in order.

    Parameters
    ----------
    users
        The users' names in order of their first rows.
    user : (rows,) int64
        For each row the index of its user in ``users``.
    object : (rows,) int64
        For each row the index of its object in the universe.
    """

    users: tuple[str, ...]
    user: Integers
    object: Integers


def read_traces(path: str | PathLike[str], universe: Universe) -> Traces:
    """Read and check traces, CSV or Parquet; rows whose object is not in the universe are left out."""
    users, objects, first = list[pl.Series](), list[pl.Series](), None
    for batch in open_file(path).batches(COLUMNS, most=MAX_ROWS, held=HELD):
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
    """Write rows in the format of an ending, whatever the path's own; texts of CSV are escaped unless `raw`."""
    columns = dict(zip(COLUMNS, (users, objects), strict=True))
    table = pl.DataFrame(columns, schema=dict.fromkeys(COLUMNS, pl.String))
    if ending == ".csv":
        (table if raw else escaped(table)).write_csv(path)
    else:
        table.write_parquet(path)


def _encoded(text: pl.Series) -> tuple[tuple[str, ...], Integers]:
    """The different texts in order of first appearance, and for each row the index of its own."""
    names = text.unique(maintain_order=True)
    codes = text.cast(pl.Enum(names)).to_physical().to_numpy().astype(np.int64)
    return tuple(names), codes
