"""Populations as a role: users with given traces, or drawn by a function."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from poolscope.core.arguments import as_integers
from poolscope.core.arrays import Integers, Keys, Objects
from poolscope.core.errors import InputError, PoolscopeError
from poolscope.core.randomness import KeyStream, children
from poolscope.population.behavior import Preferences
from poolscope.population.preprocessing import measure
from poolscope.population.universe import Universe

#: Draws the users of some keys: objects (users, n), or these and the pools (users,) or (users, n).
Draw = Callable[[Keys, int], Any]


class PopulationUsers(NamedTuple):
    """Some users: names, objects (users, n), events (users,), and pools (users,) or (users, n), or None."""

    names: pl.Series
    traces: Objects
    lengths: Integers
    pools: Any


class Population(ABC):
    """The users of a game: `Game(population=...)`, from traces or from a function.

    Examples
    --------
    >>> population = ps.Population.from_traces([[0, 3, 3], [12, 25]], truth=["a", "b"])
    >>> population.size
    2
    """

    @property
    @abstractmethod
    def size(self) -> int | None:
        """The number of users; None where any number can be drawn."""

    @abstractmethod
    def draw(self, numbers: range, keys: Keys, n: int) -> PopulationUsers:
        """Return the users with these numbers and keys, up to n events of each."""

    @staticmethod
    def from_traces(
        traces: Sequence[ArrayLike] | ArrayLike, truth: ArrayLike | None = None, names: Sequence[str] | None = None
    ) -> Population:
        """Return users with these objects, in order of time.

        Parameters
        ----------
        traces : the objects of each user, as numbers; users may have different numbers of events.
        truth : the preferred pool of each user, by name or number; or (users, events), where it changes. By default
            the pool of most of the user's objects.
        names : of the users; by default their numbers.

        Examples
        --------
        >>> people = ps.Population.from_traces(np.zeros((5, 40), dtype=int), names=["a", "b", "c", "d", "e"])
        >>> people.size
        5
        """
        rows = [as_integers("traces", row) for row in traces]  # type: ignore[union-attr]
        if not rows or any(row.ndim != 1 or not len(row) for row in rows):
            raise InputError("traces must be a list of one or more objects for each user", value=len(rows))
        lengths = np.array([len(row) for row in rows])
        table = np.zeros((len(rows), lengths.max()), dtype=np.int64)
        for out, row in zip(table, rows, strict=True):
            out[: len(row)] = row
        pools = None if truth is None else np.asarray(truth)
        if pools is not None and pools.shape not in ((len(rows),), table.shape):
            raise InputError(f"truth must be a pool for each of {len(rows)} users", value=pools.shape)
        if names is not None and len({*names}) != len(rows):
            raise InputError(f"names must be different, one for each of {len(rows)} users", value=len({*names}))
        named = np.arange(len(rows), dtype=np.int64) if names is None else list(map(str, names))
        return GivenTraces(pl.Series(named), table, lengths, pools)

    @staticmethod
    def from_function(function: Draw) -> Population:
        """Return users that a function draws.

        Parameters
        ----------
        function : maps keys (users,), made for this purpose, and a number of events n to objects (users, n), or to a
            pair of objects and the preferred pools, (users,) or (users, n). Each user's row must depend on that user's
            key alone, so that outcomes do not depend on blocks: draw with `ps.random`. For Dask it must be importable.

        Examples
        --------
        >>> population = ps.Population.from_function(lambda keys, n: ps.random.integers(keys, range(n), 30))
        >>> population.size is None
        True
        """
        if not callable(function):
            raise InputError("must be a function of keys and n", value=function)
        return DrawnTraces(function)


@dataclass(frozen=True, eq=False)
class GivenTraces(Population):
    """Users with given traces."""

    names: pl.Series
    traces: Objects
    lengths: Integers
    pools: Any = None

    @property
    def size(self) -> int:
        return len(self.lengths)

    def draw(self, numbers: range, keys: Keys, n: int) -> PopulationUsers:
        rows = slice(numbers.start, numbers.stop)
        pools = None if self.pools is None else self.pools[rows]
        return PopulationUsers(self.names[rows], self.traces[rows, :n], np.minimum(self.lengths[rows], n), pools)


@dataclass(frozen=True, eq=False)
class DrawnTraces(Population):
    """Users that a function draws."""

    function: Draw

    @property
    def size(self) -> None:
        return None

    def draw(self, numbers: range, keys: Keys, n: int) -> PopulationUsers:
        # keys of their own, so that no draw of the function is one of a device
        keys = children(keys, KeyStream.POPULATION)
        traces, pools = self._drawn(keys, n)
        if len(keys) > 1:
            alone = self._drawn(keys[-1:], n)
            if not np.array_equal(traces[-1:], alone[0]) or (pools is not None and np.any(pools[-1:] != alone[1])):
                rule = "the function of a population must draw each user from that user's key alone"
                raise InputError(rule, value=f"user {numbers[-1]}", remedy="draw with poolscope.random")
        names = pl.Series(np.arange(numbers.start, numbers.stop, dtype=np.int64))
        return PopulationUsers(names, traces, np.full(len(keys), n), pools)

    def _drawn(self, keys: Keys, n: int) -> tuple[Objects, Any]:
        try:
            found = self.function(keys, n)
        except PoolscopeError:
            raise
        except Exception as error:
            text = " ".join(str(error).split())
            message = f"the function of a population failed: {type(error).__name__}: {text}"
            raise PoolscopeError(message) from error
        objects, pools = found if isinstance(found, tuple) else (found, None)
        traces = as_integers("the objects of a population", objects)
        if traces.shape != (len(keys), n):
            rule = f"the function of a population must return (users, n) = {(len(keys), n)} objects"
            raise InputError(rule, value=traces.shape)
        if pools is not None and np.shape(pools) not in ((len(keys),), traces.shape):
            raise InputError("the pools of a population must be (users,) or (users, n)", value=np.shape(pools))
        return traces, None if pools is None else np.asarray(pools)


def checked_objects(users: PopulationUsers, universe: Universe) -> None:
    """Refuse objects that are not in the universe."""
    outside = (users.traces < 0) | (users.traces >= universe.size)
    if outside.any():
        rule = f"objects of a population must be from 0 to {universe.size - 1}"
        raise InputError(rule, value=int(users.traces[outside][0]))


def preferences_of(
    users: PopulationUsers, own: Universe, universe: Universe, observations: Sequence[int]
) -> Preferences:
    """Return the preferences with respect to a universe's pools.

    Relevant interest and polarization are measured on the traces. So is the preferred pool where it is not given, and
    for pools other than the game's `own`. A user without an object in any pool counts as preferring the first.
    """
    iota, gamma, delta = np.zeros(len(users.lengths), dtype=np.int64), *np.zeros((2, len(users.lengths)))
    for length in np.unique(users.lengths):
        rows = users.lengths == length
        measured = measure(users.traces[rows, :length], universe)
        iota[rows], gamma[rows], delta[rows] = measured.iota, measured.gamma, measured.delta
    iota, delta = np.maximum(iota, 0), np.nan_to_num(delta, nan=1.0 / universe.k)
    if users.pools is None or universe is not own:
        return Preferences(iota, gamma, delta)
    pools = _pool_numbers(users.pools, universe)
    if pools.ndim == 1:
        return Preferences(pools, gamma, delta)
    last = np.minimum(np.asarray(observations)[None] - 1, pools.shape[1] - 1)
    at = np.take_along_axis(pools, np.broadcast_to(last, (len(pools), len(observations))), axis=1)
    return Preferences(at, *(np.repeat(x[:, None], len(observations), axis=1) for x in (gamma, delta)))


def _pool_numbers(pools: Any, universe: Universe) -> Integers:
    """Return pools as numbers from 0 to k - 1, from names or numbers."""
    if pools.dtype.kind in "iu":
        bad = (pools < 0) | (pools >= universe.k)
        found = pools.astype(np.int64)
    else:
        index = {name: number for number, name in enumerate(universe.pool_names)}
        found = np.vectorize(lambda name: index.get(str(name), -1), otypes=[np.int64])(pools)
        bad = found < 0
    if np.any(bad):
        rule = f"the pools of a population must be among {', '.join(universe.pool_names)}, or their numbers"
        raise InputError(rule, value=pools[bad].flat[0])
    return np.asarray(found, dtype=np.int64)
