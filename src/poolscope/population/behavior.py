"""Behavior of users: relevant interest, polarization and preferred pool, and the traces drawn from them.

`Behavior` describes both the true distribution of synthetic users and the prior of an adversary. The two are separate
objects even where they are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arguments import as_floats, check_integer, is_number
from poolscope.core.arrays import Floats, Integers, Keys, Map, Objects
from poolscope.core.errors import InputError
from poolscope.core.randomness import KeyStream, children
from poolscope.kernels import traces as kernels
from poolscope.kernels.random import uniforms
from poolscope.population.popularity import within_pools
from poolscope.population.priors import UNIFORM, Density
from poolscope.population.universe import Universe


@dataclass(frozen=True, kw_only=True)
class Behavior:
    """A distribution of (relevant interest gamma, polarization delta, preferred pool iota).

    Parameters
    ----------
    interest : density of gamma on (0, 1].
    polarization : density of the rescaled polarization u = (k delta - 1) / (k - 1) on (0, 1], so that the uniform
        density is delta uniform on (1/k, 1].
    pools : weights of the preferred pools, (k,), or None for uniform.
    none : probability that a user prefers no pool; the relevant interest is then 0. In a prior, a positive value adds
        the hypothesis "none"; `pools` is conditional on preferring a pool.

    Examples
    --------
    >>> ps.Behavior(interest=ps.priors.Beta(a=2.0, b=5.0), pools=(0.5, 0.25, 0.25)).pool_prior(3)
    array([0.5 , 0.25, 0.25])
    """

    interest: Density = UNIFORM
    polarization: Density = UNIFORM
    pools: tuple[float, ...] | None = None
    none: float = 0.0

    def __post_init__(self) -> None:
        if not (is_number(self.none) and 0 <= self.none < 1):
            raise InputError("none must be a probability below 1", value=self.none)
        _check_density("interest", self.interest)
        _check_density("polarization", self.polarization)
        if self.pools is not None:
            weights = as_floats("pool weights", self.pools)
            if weights.ndim != 1 or not np.all(np.isfinite(weights)) or np.any(weights < 0):
                raise InputError("pool weights must be finite and non-negative", value=self.pools)
            if weights.sum() <= 0:
                raise InputError("pool weights must not all be zero", value=self.pools)

    def pool_prior(self, k: int) -> Floats:
        """Return (k,) the prior probability that each pool is the preferred one."""
        if self.pools is None:
            return np.full(k, 1.0 / k)
        if len(self.pools) != k:
            raise InputError(f"pool weights must be one for each of {k} pools", value=len(self.pools))
        weights = np.asarray(self.pools, dtype=np.float64)
        prior: Floats = weights / weights.sum()
        return prior

    def hypothesis_prior(self, k: int) -> Floats:
        """Return the prior of each hypothesis: (k,), or (k + 1,) with "none" last where users may prefer no pool."""
        prior = self.pool_prior(k)
        return np.append((1.0 - self.none) * prior, self.none) if self.none else prior


#: The hypothesis that a user prefers no pool.
NONE = "none"


def _check_density(name: str, density: object) -> None:
    """Check that the attack can integrate against a density, and can cache its quadrature rules (hashable)."""
    if not all(hasattr(density, part) for part in ("rule", "sharpness", "quantile")):
        remedy = "for example poolscope.priors.Beta(a=2.0, b=5.0)"
        raise InputError(f"{name} must be a density", value=density, remedy=remedy)
    try:
        hash(density)
    except TypeError:
        raise InputError(f"{name} must be a density that can be hashed", value=type(density).__name__) from None


@dataclass(frozen=True, kw_only=True)
class Change:
    """A change of preferred pools.

    Parameters
    ----------
    after : number of events before the change.
    share : probability that a user prefers another pool from then on, each of the others with equal probability.

    Examples
    --------
    >>> ps.Change(after=90, share=0.3).share
    0.3
    """

    after: int
    share: float

    def __post_init__(self) -> None:
        check_integer("after", self.after, 1)
        if not (is_number(self.share) and 0 <= self.share <= 1):
            raise InputError("share must be a probability", value=self.share)


class Preferences(NamedTuple):
    """Preferred pool, relevant interest and polarization of each user, (users,), for a given set of pools.

    They are (users, observations) where preferences change.

    A user who prefers none of the k pools has iota = k, gamma = 0 and delta = NaN.
    """

    iota: Integers
    gamma: Floats
    delta: Floats


#: The true preferences of some users with respect to the pools of a universe.
Truth = Callable[[Universe], Preferences]


#: Users whose traces are drawn in one chunk.
USERS_PER_CHUNK = 256


@dataclass(frozen=True, kw_only=True)
class Users:
    """Key, relevant interest, polarization and preferred pool of synthetic users (see `Preferences`)."""

    keys: Keys
    gamma: Floats
    delta: Floats
    iota: NDArray[np.int64]


def draw_users(universe: Universe, behavior: Behavior, keys: Keys) -> Users:
    """Draw the users of the given keys. Without a neutral pool, the relevant interest is 1."""
    stream = children(keys, KeyStream.BEHAVIOR)
    draws = np.empty((3, len(keys)))
    for i in range(3):
        uniforms(stream, i, draws[i])
    k = universe.k
    # 1 - u, as gamma and delta lie in intervals that are open on the left
    gamma = behavior.interest.quantile(1.0 - draws[0])
    delta = 1.0 / k + (1.0 - 1.0 / k) * behavior.polarization.quantile(1.0 - draws[1])
    cumulative = np.cumsum(behavior.pool_prior(k))
    iota = np.searchsorted(cumulative, draws[2] * cumulative[-1], side="right")
    if universe.neutral_size == 0:
        gamma = np.ones_like(gamma)
    iota = np.minimum(iota, k - 1).astype(np.int64)
    if behavior.none:
        if universe.neutral_size == 0:
            raise InputError("users who prefer no pool require a neutral pool", value=behavior.none)
        uniforms(stream, 3, draws[0])
        none = draws[0] < behavior.none
        gamma, delta, iota = np.where(none, 0.0, gamma), np.where(none, np.nan, delta), np.where(none, k, iota)
    return Users(keys=keys, gamma=gamma, delta=delta, iota=iota)


def later_pools(universe: Universe, change: Change, users: Users) -> NDArray[np.int64]:
    """Return (users,) the preferred pools after a change; users who prefer no pool never change."""
    stream, k = children(users.keys, KeyStream.BEHAVIOR), universe.k
    draws = np.empty((2, len(users.keys)))
    for i in range(2):
        uniforms(stream, 4 + i, draws[i])
    other = np.minimum((draws[1] * (k - 1)).astype(np.int64), k - 2)
    new = other + (other >= users.iota)
    return np.where((draws[0] < change.share) & (users.iota < k), new, users.iota)


def preferences(universe: Universe, popularity: Floats, users: Users, pools: Universe) -> Preferences:
    """Return the preferences of users with respect to other pools of the same objects, such as an adversary's.

    For the pools that the users were drawn with, these are the drawn values. For others, they follow from Phi_U (the
    paper's definition of P_U, gamma_U and delta_U).
    """
    if pools is universe:
        return Preferences(users.iota, users.gamma, users.delta)
    k = universe.k
    iota, delta = _drawable(users, k)
    sections = np.empty((len(iota), k + 1))
    sections[:, 0] = 1.0 - users.gamma
    sections[:, 1:] = (users.gamma * (1.0 - delta) / (k - 1))[:, None]
    sections[np.arange(len(sections)), iota + 1] = users.gamma * delta
    overlap = np.zeros((k + 1, pools.k + 1))
    np.add.at(overlap, (universe.pool_of + 1, pools.pool_of + 1), within_pools(universe, popularity))
    masses = (sections @ overlap)[:, 1:]
    gamma = masses.sum(axis=1)
    polarization = np.divide(masses.max(axis=1), gamma, out=np.full_like(gamma, np.nan), where=gamma > 0)
    return Preferences(np.where(gamma > 0, masses.argmax(axis=1), pools.k).astype(np.int64), gamma, polarization)


def _drawable(users: Users, k: int) -> tuple[NDArray[np.int64], Floats]:
    """Return preferred pool and polarization, with arbitrary valid values where the relevant interest is 0."""
    return np.minimum(users.iota, k - 1), np.nan_to_num(users.delta, nan=1.0)


def draw_traces(
    universe: Universe,
    popularity: Floats,
    users: Users,
    length: int,
    *,
    sigma: float = 0.0,
    habits: float | None = None,
    change: Change | None = None,
    threads: Map = map,
) -> Objects:
    """Draw (users, length) objects by eq. (user_behavior).

    With sigma > 0 each user has a perturbed popularity. With `habits`, a user's own popularity is drawn from
    Dirichlet(habits * popularity). With `change`, some users prefer another pool from an event on.
    """
    if change is not None and habits is None:
        first, second = (
            draw_traces(universe, popularity, some, length, sigma=sigma, threads=threads)
            for some in (users, replace(users, iota=later_pools(universe, change, users)))
        )
        first[:, change.after :] = second[:, change.after :]
        return first
    order, starts = _by_section(universe)
    keys, perturbation_keys = children(users.keys, KeyStream.TRACE), children(users.keys, KeyStream.TASTE)
    within = within_pools(universe, popularity)
    cumulative = np.concatenate([np.cumsum(within[order[a:b]]) for a, b in pairwise(starts)])
    out = np.empty((len(keys), length), dtype=np.int64)
    iota, delta = _drawable(users, universe.k)
    later = iota if change is None else np.minimum(later_pools(universe, change, users), universe.k - 1)
    mass = np.bincount(universe.pool_of + 1, weights=popularity / np.sum(popularity), minlength=universe.k + 1)

    def draw_chunk(start: int) -> None:
        chunk = slice(start, start + USERS_PER_CHUNK)
        who = users.gamma[chunk], delta[chunk], iota[chunk], universe.k, order, starts
        if habits is not None:
            after = length if change is None else change.after
            scratch = np.zeros(universe.k + 1, dtype=np.int64), np.zeros((universe.k + 1, length), dtype=np.int64)
            kernels.draw_habitual_traces(
                keys[chunk],
                *who[:3],
                later[chunk],
                after,
                *who[3:],
                cumulative,
                habits * mass,
                *scratch,
                out[chunk],
            )
        elif sigma > 0:
            perturbed = np.empty(universe.size), np.empty(universe.size)
            kernels.draw_own_traces(
                keys[chunk], perturbation_keys[chunk], *who, popularity, sigma, *perturbed, out[chunk]
            )
        else:
            kernels.draw_traces(keys[chunk], *who, cumulative, out[chunk])

    for _ in threads(draw_chunk, range(0, len(keys), USERS_PER_CHUNK)):
        pass
    return out


def own_popularity(popularity: Floats, sigma: float, key: np.uint64) -> Floats:
    """Return the perturbed popularity of one user (the paper's appendix on robustness)."""
    if sigma == 0:
        return popularity
    out = np.empty(len(popularity))
    kernels.perturb(np.uint64(children(key, KeyStream.TASTE)), popularity, sigma, out)
    return np.maximum(out, 0.0)


def draw_objects(popularity: Floats, keys: Keys) -> Objects:
    """Draw one object for each key from the popularity."""
    out = np.empty(len(keys), dtype=np.int64)
    kernels.draw_objects(np.cumsum(popularity), keys, out)
    return out


def _by_section(universe: Universe) -> tuple[Objects, NDArray[np.int64]]:
    """Return the objects ordered by section (neutral, then the pools), and the start of each section."""
    order = np.argsort(universe.pool_of, kind="stable").astype(np.int64)
    sizes = np.bincount(universe.pool_of + 1, minlength=universe.k + 1)
    return order, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
