r"""The experiment on recorded behavior (appendix "Details of the experiments on Twitter data"), on any traces.

1. Users with at least 10 objects play, with their first 180 objects.
2. A random 80 % of them may be attacked, the other 20 % are the external population.
3. Whoever has fewer than 180 objects repeats them in order until there are 180.
4. Attacked are those with at least one object in a pool of interest.
5. The external users' objects, not repeated but all duplicated as often as it takes to reach N, tell the popularity.
6. Preferred pool, relevant interest and polarization are measured on all 180 objects, the attack sees the first n.

Plain functions of arrays; :func:`prepare` is the whole recipe.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arrays import Floats, Integers, Keys
from poolscope.core.errors import InputError
from poolscope.population.universe import Universe

Flags = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The numbers of the recipe.

    Parameters
    ----------
    at_least
        Objects that a user must have.
    length
        Objects that every trace gets.
    share
        The share of the users who may be attacked; the others are external.
    """

    at_least: int = 10
    length: int = 180
    share: float = 0.8

    def __post_init__(self) -> None:
        for name, value in (("at_least", self.at_least), ("length", self.length)):
            if value < 1:
                raise InputError("must be at least 1", value=value, place=name)
        if not 0 < self.share < 1:
            raise InputError("must be between 0 and 1, both excluded", value=self.share, place="share")


@dataclass(frozen=True, kw_only=True, eq=False)
class UserTraces:
    """Some users and their traces, all of one length.

    Parameters
    ----------
    user : (users,) int64
        Who they are, as indices into the names of all users.
    objects : (users, length) int64
        What they picked, repeated from the beginning where it was less.
    lengths : (users,) int64
        How many objects of each trace are no repetition.
    """

    user: Integers
    objects: Integers
    lengths: Integers

    def __getitem__(self, which: Flags) -> UserTraces:
        return UserTraces(user=self.user[which], objects=self.objects[which], lengths=self.lengths[which])

    def __len__(self) -> int:
        return len(self.user)

    @property
    def own_objects(self) -> Integers:
        """All objects that are no repetition, user after user, (sum of lengths,)."""
        return self.objects[np.arange(self.objects.shape[1]) < self.lengths[:, None]]


@dataclass(frozen=True, kw_only=True, eq=False)
class MeasuredBehavior:
    """How users behaved.

    Parameters
    ----------
    iota : (users,) int64
        The preferred pool; -1 for a user without an object in any pool.
    gamma : (users,) float64
        The relevant interest.
    delta : (users,) float64
        The polarization; NaN for a user without an object in any pool.
    """

    iota: Integers
    gamma: Floats
    delta: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedTraces:
    """Who is attacked, and who is external.

    Parameters
    ----------
    attacked
        Users of the 80 % with an object in a pool.
    external
        The users of the 20 %.
    """

    attacked: UserTraces
    external: UserTraces


def prepare(
    names: Sequence[str],
    user: Integers,
    objects: Integers,
    universe: Universe,
    *,
    seed: int,
    recipe: Recipe | None = None,
) -> PreparedTraces:
    """The whole recipe.

    Parameters
    ----------
    names
        All users' names.
    user, objects : (rows,) int64
        Who picked what, in order, as indices into the names and the universe.
    universe
        The pools.
    seed
        Decides the split, together with the users' names.
    recipe
        Other numbers than the paper's.
    """
    recipe = recipe or Recipe()
    everyone = first_objects(user, objects, at_least=recipe.at_least, length=recipe.length)
    if len(everyone) < 2:
        rule = f"must have at least two users with {recipe.at_least} or more objects, to attack one and learn from one"
        raise InputError(rule, value=len(everyone))
    chosen = split(name_keys([names[i] for i in everyone.user], seed), recipe.share)
    candidates, external = everyone[chosen], everyone[~chosen]
    playing = measure(candidates.objects, universe).iota >= 0
    if not playing.any():
        raise InputError("must have a user with an object in a pool among those to attack", value=0)
    return PreparedTraces(attacked=candidates[playing], external=external)


def first_objects(user: Integers, objects: Integers, *, at_least: int, length: int) -> UserTraces:
    """The first objects of each user who has enough, repeated cyclically up to the length.

    Parameters
    ----------
    user, objects : (rows,) int64
        In order of time; users' rows may be interleaved.
    at_least
        Users with fewer objects are left out.
    length
        Objects to a trace.
    """
    counts = np.bincount(user)
    starts = np.cumsum(counts) - counts
    by_user = objects[np.argsort(user, kind="stable")]
    kept = np.flatnonzero(counts >= max(at_least, 1))
    lengths = np.minimum(counts[kept], length)
    rows = starts[kept, None] + np.arange(length) % lengths[:, None]
    return UserTraces(user=kept, objects=by_user[rows], lengths=lengths)


def name_keys(names: Sequence[str], seed: int) -> Keys:
    """A 64-bit key for each name, (names,): whoever else is there, and in whatever order, a name keeps its key."""
    key = (seed & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "little")
    digests = b"".join(hashlib.blake2b(name.encode(), digest_size=8, key=key).digest() for name in names)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


def split(keys: Keys, share: float) -> Flags:
    """Choose a share of the users, rounded to whole users, at least one and not all: those with the smallest keys."""
    count = int(np.clip(np.rint(share * len(keys)), 1, len(keys) - 1))
    chosen = np.zeros(len(keys), dtype=np.bool_)
    chosen[np.argsort(keys, kind="stable")[:count]] = True
    return chosen


def measure(traces: Integers, universe: Universe) -> MeasuredBehavior:
    r"""Preferred pool, relevant interest and polarization of each trace.

    .. math:: P_U = \arg\max_i |x \cap P_i|, \quad \gamma_U = |x \cap \bigcup_i P_i| / n, \quad
              \delta_U = |x \cap P_U| / |x \cap \bigcup_i P_i|

    The paper takes the preferred pool to be unique. Where pools tie, it is the one that the user picked first: this
    depends on the user alone, not on the order of the pools, which would favor the first of them in every tie.

    Parameters
    ----------
    traces : (users, n) int64
    universe
        The pools.
    """
    users, n = traces.shape
    pool = universe.pool_of[traces]
    counts = np.empty((users, universe.k), dtype=np.int64)
    first = np.empty((users, universe.k), dtype=np.int64)
    for i in range(universe.k):
        there = pool == i
        counts[:, i] = there.sum(axis=1)
        first[:, i] = np.where(there.any(axis=1), there.argmax(axis=1), n)
    most, total = counts.max(axis=1), counts.sum(axis=1)
    iota = np.where(counts == most[:, None], first, n + 1).argmin(axis=1)
    some = total > 0
    delta = np.divide(most, total, out=np.full(users, np.nan), where=some)
    return MeasuredBehavior(iota=np.where(some, iota, -1).astype(np.int64), gamma=total / n, delta=delta)


def duplicated(objects: Integers, at_least: int) -> Integers:
    """As many whole copies of the objects as it takes to have ``at_least``; more than that are kept as they are.

    Whole copies, as the paper has two of 540,000 for 10^6: a part of one would weigh the first users more.
    """
    if len(objects) == 0:
        raise InputError("must have at least one object to duplicate", value=0)
    return np.tile(objects, max(1, -(-at_least // len(objects))))
