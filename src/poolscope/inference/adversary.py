"""An adversary's assumptions, and the posteriors of independent reports under them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arguments import as_floats
from poolscope.core.arrays import Floats
from poolscope.core.errors import InputError
from poolscope.inference.posterior import posteriors
from poolscope.inference.quadrature import axis, point_axis
from poolscope.mechanisms.protocols import Mechanism, PoolWeights
from poolscope.population.behavior import NONE, Behavior
from poolscope.population.popularity import uniform, within_pools
from poolscope.population.universe import Universe

if TYPE_CHECKING:
    from poolscope.inference.custom import Attack, ScoringAttack


@dataclass(frozen=True, kw_only=True, eq=False)
class Adversary:
    """The pools, popularity and priors that an adversary assumes.

    Parameters
    ----------
    name : the name in outcomes.
    universe : the objects and the pools of interest; adversaries on the same reports may have different pools.
    popularity : (universe,) assumed popularity; only its shape within each pool matters (eq. phi_representation).
    belief : priors of relevant interest, polarization and preferred pool.
    phrase : what it assumes of the popularity, for a summary.
    knows_memoization : where devices memoize, whether the adversary groups reports by response or takes them as
        independent.
    redraws : the same adversary with further draws of an estimated popularity. Users play in groups, each against an
        estimate of its own, so that intervals include the variance of the estimate.
    attack : an attack of one's own with these assumptions; None for the built-in attack on the device.

    Examples
    --------
    >>> weak = ps.Adversary.weak(universe)
    >>> weak.name, weak.k
    ('weak', 3)
    """

    name: str
    universe: Universe
    popularity: Floats
    belief: Behavior = field(default_factory=Behavior)
    phrase: str = ""
    knows_memoization: bool = True
    redraws: tuple[Adversary, ...] = ()
    attack: Attack | ScoringAttack | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise InputError("an adversary's name must be a text", value=self.name)
        if not isinstance(self.universe, Universe):
            raise InputError("an adversary's universe must be a Universe", value=self.universe)
        if not isinstance(self.belief, Behavior):
            raise InputError("an adversary's belief must be a Behavior", value=self.belief)
        popularity = as_floats("popularity", self.popularity)
        if popularity.shape != (self.universe.size,):
            raise InputError(
                f"popularity must have one value for each of {self.universe.size} objects",
                value=popularity.shape,
            )
        if np.any(~np.isfinite(popularity)) or np.any(popularity < 0):
            raise InputError("popularity must be finite and not negative")
        methods = (getattr(self.attack, name, None) for name in ("posteriors", "scores"))
        if self.attack is not None and not any(map(callable, methods)):
            rule = "an adversary's attack must have a method posteriors or scores"
            raise InputError(rule, value=type(self.attack).__name__)

    @property
    def k(self) -> int:
        return self.universe.k

    @property
    def hypotheses(self) -> tuple[str, ...]:
        """The hypotheses of a posterior: the pools, and `NONE` where users may prefer no pool."""
        return (*self.universe.pool_names, NONE) if self.belief.none else self.universe.pool_names

    @property
    def prior(self) -> Floats:
        """The prior probability of each hypothesis."""
        return self.belief.hypothesis_prior(self.k)

    def with_estimate(self, number: int) -> Adversary:
        """Return the adversary with one of its estimates, from 0; itself where it has a single popularity."""
        return self.redraws[number - 1] if number and self.redraws else self

    @classmethod
    def weak(cls, universe: Universe, belief: Behavior | None = None) -> Adversary:
        """Return an adversary who knows mechanism and pools, and assumes that all objects of a pool are equally
        popular.
        """
        return cls(
            name="weak",
            universe=universe,
            popularity=uniform(universe),
            belief=belief or Behavior(),
            phrase="popularity assumed uniform",
        )


#: Methods that a subclass cannot override: the device determines the attack, which reads only the adversary's fields.
NEVER_CALLED = ("posterior", "posteriors", "likelihood", "log_likelihood", "guess")


def check_adversary(adversary: object) -> None:
    """Reject anything but an adversary, and one with a method of its own that no attack would call."""
    if not isinstance(adversary, Adversary):
        raise InputError("must be an Adversary", value=adversary)
    for name in NEVER_CALLED:
        if hasattr(adversary, name):
            rule = f"an adversary's own {name} is never called: its assumptions are its fields"
            remedy = "write an attack of your own (poolscope.Attack)"
            raise InputError(rule, value=type(adversary).__name__, remedy=remedy)


def stacked_pool_weights(adversaries: Sequence[Adversary]) -> tuple[PoolWeights, list[slice]]:
    """Return the weights of all adversaries side by side, and the columns of each: neutral pool, then pools.

    The columns of one section are contiguous, so that what an object adds for all adversaries is in one place of
    memory. An adversary with fewer pools than others has empty columns. A pool without any estimated popularity is
    assumed uniform.
    """
    side = len(adversaries)
    column_of = np.stack([side * (a.universe.pool_of + 1) + v for v, a in enumerate(adversaries)])
    weights = np.stack([within_pools(a.universe, a.popularity, empty="uniform") for a in adversaries])
    columns = [slice(v, side * (a.k + 1), side) for v, a in enumerate(adversaries)]
    return PoolWeights(column_of.astype(np.uint32), weights, n_weight_columns(adversaries)), columns


def n_weight_columns(adversaries: Sequence[Adversary]) -> int:
    """Return the number of columns of the `stacked_pool_weights` of these adversaries."""
    return len(adversaries) * (max((a.k for a in adversaries), default=0) + 1)


def report_likelihoods(mechanism: Mechanism, adversary: Adversary, support_mass: Floats) -> tuple[Floats, Floats]:
    """Return (reports, hypotheses) support masses and likelihoods of single reports, from masses (reports, k + 1)."""
    # the neutral pool's column comes first; it is the likelihood of the hypothesis of no preferred pool
    own = support_mass[:, [*range(1, adversary.k + 1), *([0] if adversary.belief.none else [])]]
    return own, mechanism.likelihood_offset + mechanism.likelihood_scale * own


def posterior_block(
    mechanism: Mechanism, adversary: Adversary, support_mass: Floats, lengths: NDArray[np.int64]
) -> Floats:
    """Return posteriors (users, n + 1, hypotheses) from support masses (users, n, k + 1)."""
    offset, scale = mechanism.likelihood_offset, mechanism.likelihood_scale
    return posterior_of_masses(adversary, support_mass, lengths, offset, scale)


def posterior_of_masses(
    adversary: Adversary, mass: Floats, lengths: NDArray[np.int64], likelihood_offset: float, likelihood_scale: float
) -> Floats:
    """Return posteriors (users, n + 1, hypotheses); likelihoods are likelihood_offset + likelihood_scale * mass."""
    _, n, _ = mass.shape
    # without neutral objects the relevant interest is one, whatever its prior
    interest = axis(adversary.belief.interest, n) if adversary.universe.neutral_size else point_axis()
    polarization, prior = axis(adversary.belief.polarization, n), adversary.belief.pool_prior(adversary.k)
    axes = interest, polarization
    return posteriors(
        mass,
        lengths,
        likelihood_offset,
        likelihood_scale,
        *axes,
        prior,
        adversary.belief.none,
    )
