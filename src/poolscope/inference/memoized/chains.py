"""Chains over the objects behind a user's reports: where they begin, and the behaviour that they draw."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from poolscope.core.arrays import Floats, Integers
from poolscope.core.randomness import children
from poolscope.inference.adversary import Adversary
from poolscope.inference.memoized.slots import Slots
from poolscope.inference.memoized.units import empty_sets
from poolscope.inference.quadrature import fixed_rule
from poolscope.kernels import memoized_chain as kernels
from poolscope.kernels.memoized_moves import Belief, Place, Room, weigh
from poolscope.kernels.memoized_state import NEVER, Sets, Units
from poolscope.population.densities import Density

#: Splits and merges to a round, and other preferred pools that are tried.
PAIRS, JUMPS = 8, 2

#: By how much, as a logarithm, every other chain favours sets that are there when reports are dealt.
FAVOUR = 10.0


class Chain(NamedTuple):
    """One chain: the sets of reports and their slots, and the behaviour."""

    units: Units
    belief: Belief
    sets: Sets
    place: Place
    room: Room

    def go(self, rounds: int, jumps: int = JUMPS) -> Floats:
        """So many rounds; the sum (k,) over them of the pools' posterior, given how many reports lie in each."""
        out = np.zeros(len(self.belief.log_prior))
        kernels.sweep(*self, rounds, PAIRS, jumps, out)
        return out

    @property
    def groups(self) -> Integers:
        """The numbers of the sets there are."""
        found: Integers = np.flatnonzero(self.sets.size[: len(self.units.count)] > 0)
        return found


def begun(units: Units, belief: Belief, key: np.uint64, count: int) -> list[Chain]:
    """So many chains, which differ at the start by more than they will later: what they then disagree by says how far
    they have come.

    Each deals the reports one after the other, the largest units first, to a set that is there or to one of its own.
    That makes too many sets, as the first reports of an object have none to join; every other chain favours sets that
    are there.
    """
    room, order = _room(units, belief), np.argsort(-units.count, kind="stable")
    chains = []
    for i, own in enumerate(children(key, np.arange(count))):
        chain = Chain(units, belief, empty_sets(units), _place(own, belief), room)
        sets, place, k = chain.sets, chain.place, len(belief.log_prior)
        place.weight[:] = np.array([0.5, *np.full(k, 0.5 / k)])
        weigh(belief, place.weight, place.log_weight)
        room.order[:] = order
        kernels.start(units, sets, place, room, FAVOUR if i % 2 else 0.0)
        kernels.behave(units, sets, belief, place, room)
        chains.append(chain)
    return chains


def between(means: Floats) -> tuple[Floats, Floats]:
    """The mean (k,) over chains (chains, k), and its standard error."""
    return means.mean(axis=0), means.std(axis=0, ddof=1) / np.sqrt(len(means))


def belief_of(adversary: Adversary, slots: Slots, n: int) -> Belief:
    """What the adversary believes of behaviour, on nodes that are exact for n reports."""
    k, belief = adversary.k, adversary.belief
    with np.errstate(divide="ignore"):
        log_prior = np.log(belief.pool_prior(k))
    return Belief(
        log_prior=log_prior,
        interest=_axis(belief.interest, n, 1),
        polarization=_axis(belief.polarization, n, k),
        integral=_integrals(belief.polarization, n, k),
        blend=slots.blend,
        only=slots.only,
        class_at=slots.class_at,
    )


@lru_cache(maxsize=64)
def _axis(density: Density, n: int, k: int) -> Floats:
    """(3, nodes) log x, log y, log weight: of gamma and 1 - gamma (k = 1), or of delta and (1 - delta) / (k - 1)."""
    x, y, weight = fixed_rule(density, n)[:3]
    if k > 1:
        x, y = 1.0 / k + (1.0 - 1.0 / k) * x, (1.0 - 1.0 / k) * y / (k - 1)
    with np.errstate(divide="ignore"):
        logs: Floats = np.maximum(np.log(np.stack([x, y, weight])), NEVER)
    return logs


@lru_cache(maxsize=64)
def _integrals(density: Density, n: int, k: int) -> Floats:
    """(n + 1, n + 1) log of the mean of delta^own ((1 - delta)/(k - 1))^rest, as far as own + rest <= n."""
    log_x, log_y, log_weight = _axis(density, n, k)
    out = np.full((n + 1, n + 1), -np.inf)
    for own in range(n + 1):
        rest = np.arange(n + 1 - own)[:, None]
        out[own, : n + 1 - own] = logsumexp(own * log_x + rest * log_y + log_weight, axis=1)
    return out


def _place(key: np.uint64, belief: Belief) -> Place:
    k, classes = len(belief.log_prior), len(belief.blend)
    return Place(
        key=key,
        at=np.zeros(4, dtype=np.int64),
        weight=np.empty(k + 1),
        log_weight=np.empty(classes),
        counts=np.zeros(k + 1, dtype=np.int64),
        posterior=np.empty(k),
    )


def _room(units: Units, belief: Belief) -> Room:
    n, (classes, sections), slots = len(units.count), belief.blend.shape, len(units.class_of)
    return Room(
        chances=np.empty(n),
        phi=np.empty(n),
        order=np.empty(n, dtype=np.int64),
        side=np.empty(n, dtype=np.int64),
        among=np.empty(3, dtype=np.int64),
        taken=np.zeros(slots, dtype=bool),
        nodes=np.empty(max(belief.interest.shape[1], belief.polarization.shape[1], sections)),
        mix=np.empty(classes),
        weight=np.empty(sections),
        log_weight=np.empty(classes),
    )
