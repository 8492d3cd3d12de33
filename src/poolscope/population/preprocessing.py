r"""The preparation of recorded traces, as in the paper's appendix "Details of the experiments on Twitter data".

1. Users with at least 10 objects take part, with their first 180 objects.
2. A random 80% of them may be attacked; the other 20% are the external population.
3. Traces of fewer than 180 objects are repeated in order up to 180.
4. The attacked users are those with at least one object in a pool of interest.
5. The popularity is estimated from the external users' objects, without repetitions, all duplicated to reach N.
6. Preferred pool, relevant interest and polarization are measured on all 180 objects; the attack sees the first n.

Plain functions of arrays; :func:`prepare` runs all steps.
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
class TracePreprocessing:
    """Parameters of the preparation; the defaults are the paper's.

    Parameters
    ----------
    min_objects
        Minimum number of objects of a user.
    trace_length
        Length of every trace.
    attacked_share
        Share of the users who may be attacked; the others are external.
    """

    min_objects: int = 10
    trace_length: int = 180
    attacked_share: float = 0.8

    def __post_init__(self) -> None:
        for name, value in (("min_objects", self.min_objects), ("trace_length", self.trace_length)):
            if value < 1:
                raise InputError("must be at least 1", value=value, place=name)
        if not 0 < self.attacked_share < 1:
            raise InputError(
                "must be between 0 and 1, both excluded", value=self.attacked_share, place="attacked_share"
            )


@dataclass(frozen=True, kw_only=True, eq=False)
class UserTraces:
    """Users and their traces, all of the same length.

    Parameters
    ----------
    user : (users,) int64
        Indices into the names of all users.
    objects : (users, length) int64
        The traces, repeated from the beginning where they are shorter.
    lengths : (users,) int64
        Number of objects of each trace before repetition.
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
        """Return (sum of lengths,) all objects without repetitions, user by user."""
        return self.objects[np.arange(self.objects.shape[1]) < self.lengths[:, None]]


@dataclass(frozen=True, kw_only=True, eq=False)
class MeasuredBehavior:
    """Behavior measured on traces.

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
    """The users to attack, and the external users.

    Parameters
    ----------
    attacked
        Users of the 80% with an object in a pool.
    external
        The users of the 20%.
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
    preprocessing: TracePreprocessing | None = None,
) -> PreparedTraces:
    """Prepare recorded traces: filter, split and repeat them.

    Parameters
    ----------
    names
        Names of all users.
    user, objects : (rows,) int64
        User and object of each row, in order of time, as indices into the names and the universe.
    universe
        The pools.
    seed
        Determines the split, together with the users' names.
    preprocessing
        Parameters; default: the paper's.
    """
    preprocessing = preprocessing or TracePreprocessing()
    everyone = fixed_length_traces(
        user, objects, min_objects=preprocessing.min_objects, length=preprocessing.trace_length
    )
    if len(everyone) < 2:
        wanted = preprocessing.min_objects
        rule = f"must have at least two users with {wanted} or more objects: one to attack, one external"
        raise InputError(rule, value=len(everyone))
    chosen = split(name_keys([names[i] for i in everyone.user], seed), preprocessing.attacked_share)
    candidates, external = everyone[chosen], everyone[~chosen]
    has_pool = measure(candidates.objects, universe).iota >= 0
    if not has_pool.any():
        raise InputError("must have a user with an object in a pool among those to attack", value=0)
    return PreparedTraces(attacked=candidates[has_pool], external=external)


def fixed_length_traces(user: Integers, objects: Integers, *, min_objects: int, length: int) -> UserTraces:
    """Return the first objects of each user with at least `min_objects`, repeated cyclically up to `length`.

    Parameters
    ----------
    user, objects : (rows,) int64
        In order of time; users' rows may be interleaved.
    min_objects
        Users with fewer objects are dropped.
    length
        Length of a trace.
    """
    counts = np.bincount(user)
    starts = np.cumsum(counts) - counts
    by_user = objects[np.argsort(user, kind="stable")]
    kept = np.flatnonzero(counts >= max(min_objects, 1))
    lengths = np.minimum(counts[kept], length)
    rows = starts[kept, None] + np.arange(length) % lengths[:, None]
    return UserTraces(user=kept, objects=by_user[rows], lengths=lengths)


def name_keys(names: Sequence[str], seed: int) -> Keys:
    """Return (names,) a 64-bit key for each name, independent of the other names and their order."""
    key = (seed & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "little")
    digests = b"".join(hashlib.blake2b(name.encode(), digest_size=8, key=key).digest() for name in names)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


def split(keys: Keys, share: float) -> Flags:
    """Choose a share of the users, at least one and not all: those with the smallest keys."""
    count = int(np.clip(np.rint(share * len(keys)), 1, len(keys) - 1))
    chosen = np.zeros(len(keys), dtype=np.bool_)
    chosen[np.argsort(keys, kind="stable")[:count]] = True
    return chosen


def measure(traces: Integers, universe: Universe) -> MeasuredBehavior:
    r"""Measure preferred pool, relevant interest and polarization of each trace.

    .. math:: P_U = \arg\max_i |x \cap P_i|, \quad \gamma_U = |x \cap \bigcup_i P_i| / n, \quad
              \delta_U = |x \cap P_U| / |x \cap \bigcup_i P_i|

    The paper assumes that the preferred pool is unique. Ties go to the pool that the user picked first. This rule
    depends on the user alone, whereas ties by pool order would favor the first pool.

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
        in_pool = pool == i
        counts[:, i] = in_pool.sum(axis=1)
        first[:, i] = np.where(in_pool.any(axis=1), in_pool.argmax(axis=1), n)
    largest, total = counts.max(axis=1), counts.sum(axis=1)
    iota = np.where(counts == largest[:, None], first, n + 1).argmin(axis=1)
    has_pool = total > 0
    delta = np.divide(largest, total, out=np.full(users, np.nan), where=has_pool)
    return MeasuredBehavior(iota=np.where(has_pool, iota, -1).astype(np.int64), gamma=total / n, delta=delta)


def tile_objects(objects: Integers, min_objects: int) -> Integers:
    """Repeat all objects until there are at least ``min_objects``.

    Whole copies, as in the paper (two of 540,000 for 10^6): a partial copy would overweight the first users.
    """
    if len(objects) == 0:
        raise InputError("must have at least one object to duplicate", value=0)
    return np.tile(objects, max(1, -(-min_objects // len(objects))))
