"""How a user behaves, and what an adversary believes of it: relevant interest, polarization, preferred pool.

The same words serve as truth (what synthetic users draw from) and as belief (the priors of the attack); they are
separate objects even when they are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from poolscope.core.arguments import as_floats
from poolscope.core.arrays import Floats, Integers
from poolscope.core.errors import InputError
from poolscope.population.densities import UNIFORM, Density
from poolscope.population.universe import Universe


@dataclass(frozen=True, kw_only=True)
class Behaviour:
    """A law of (relevant interest gamma, polarization delta, preferred pool iota).

    Parameters
    ----------
    interest : Density of gamma on (0, 1].
    polarization : Density of the rescaled polarization u = (k delta - 1) / (k - 1) on (0, 1], so that the uniform
        density is delta uniform on (1/k, 1].
    pools : weights of the preferred pools, (k,), or None for uniform.
    none : probability that a user prefers no pool: the relevant interest is then zero. As a belief, "none" is one more
        hypothesis if this is positive; `pools` are given that a pool is preferred.

    Examples
    --------
    >>> ps.Behaviour(interest=ps.densities.Beta(a=2.0, b=5.0), pools=(0.5, 0.25, 0.25)).pool_prior(3)
    array([0.5 , 0.25, 0.25])
    """

    interest: Density = UNIFORM
    polarization: Density = UNIFORM
    pools: tuple[float, ...] | None = None
    none: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.none < 1:
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
        """Probability of each pool being the preferred one, (k,)."""
        if self.pools is None:
            return np.full(k, 1.0 / k)
        if len(self.pools) != k:
            raise InputError(f"pool weights must be one for each of {k} pools", value=len(self.pools))
        weights = np.asarray(self.pools, dtype=np.float64)
        prior: Floats = weights / weights.sum()
        return prior

    def hypothesis_prior(self, k: int) -> Floats:
        """Probability of each hypothesis, (k,) or, where users may prefer no pool, (k + 1,) with that last."""
        prior = self.pool_prior(k)
        return np.append((1.0 - self.none) * prior, self.none) if self.none else prior


#: The hypothesis that a user prefers no pool.
NONE = "none"


def _check_density(name: str, density: object) -> None:
    """Refuse what the attack cannot integrate against, or cannot look up among the rules that it has made."""
    if not all(hasattr(density, part) for part in ("rule", "sharpness", "quantile")):
        remedy = "for example poolscope.densities.Beta(a=2.0, b=5.0)"
        raise InputError(f"{name} must be a density", value=density, remedy=remedy)
    try:
        hash(density)
    except TypeError:
        raise InputError(f"{name} must be a density that can be hashed", value=type(density).__name__) from None


class Preferences(NamedTuple):
    """Preferred pool, relevant interest and polarization of each user, (users,), with respect to some pools.

    Of k pools, `iota` is k for a user who prefers none: gamma is 0 and delta NaN.
    """

    iota: Integers
    gamma: Floats
    delta: Floats


#: The truth about some users, towards the pools of a universe.
Truth = Callable[[Universe], Preferences]
