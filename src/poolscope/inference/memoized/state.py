"""What the chains sample over: slots as an adversary sees them, by class, and a user's reports as units."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from poolscope.core.arrays import Floats, Integers
from poolscope.core.randomness import children
from poolscope.devices.protocols import Bits
from poolscope.inference.adversary import Adversary
from poolscope.kernels.memoized_state import NEVER, Sets, Units, tabulate_units
from poolscope.population.popularity import within_pools


class Slots(NamedTuple):
    """The slots of a *class* have fixed shares of its weight, whatever the behavior.

    Where every slot lies in one section, the sections are the classes; else every slot is a class of its own.

    order : (slots,) the slots as they stand by class, and of each
    class_of, log_share : its class and the logarithm of its share.
    first : (classes + 1,) where a class begins.
    blend : (classes, k + 1) what the weight of a section adds to the weight of a class.
    only : (classes,) the section of a class that has but one, or -1.
    class_at : (k + 1,) the class that is a section, or -1.
    """

    order: Integers
    class_of: Integers
    log_share: Floats
    first: Integers
    blend: Floats
    only: Integers
    class_at: Integers


def slots_of(slots: Integers, adversary: Adversary) -> Slots:
    """From the slot of each object, (universe,)."""
    within = within_pools(adversary.universe, adversary.popularity, empty="uniform")
    sections, count = adversary.k + 1, int(slots.max()) + 1
    cell = slots * sections + adversary.universe.pool_of + 1
    mass = np.bincount(cell, weights=within, minlength=count * sections).reshape(count, sections)
    there: NDArray[np.bool_] = np.bincount(cell, minlength=count * sections).reshape(count, sections) > 0
    class_at = np.full(sections, -1)
    if (there.sum(axis=1) <= 1).all():
        present, own = np.unique(there.argmax(axis=1), return_inverse=True)
        share, blend = mass.max(axis=1), np.eye(sections)[present]
        class_at[present] = np.arange(len(present))
    else:
        own, share, blend = np.arange(count), np.ones(count), mass
    order = np.argsort(own, kind="stable")
    with np.errstate(divide="ignore"):
        log_share = np.maximum(np.log(share[order]), NEVER)
    held = blend > 0
    return Slots(
        order=order,
        class_of=own[order].astype(np.int64),
        log_share=log_share,
        first=np.searchsorted(own[order], np.arange(len(blend) + 1)).astype(np.int64),
        blend=blend,
        only=np.where(held.sum(axis=1) == 1, held.argmax(axis=1), -1).astype(np.int64),
        class_at=class_at,
    )


def units_of(distribution: Bits, slots: Slots) -> Units:
    """The units of one user, their tables included: every report is one."""
    n, width = distribution.ones.shape
    features_of = distribution.ones.sum(axis=1, dtype=np.int64)
    plain, marked = _bit_laws(n, distribution.permanent, distribution.instantaneous)
    rows = n + (n + 3 if n > 1 else 1)
    units = Units(
        joins=n > 1,
        width=width,
        count=np.ones(n, dtype=np.int64),
        mark=children(np.uint64(0), np.arange(n)),
        features=np.argsort(distribution.ones ^ 1, axis=1, kind="stable")[
            :, : max(1, features_of.max(initial=0))
        ].copy(),
        features_of=features_of,
        positions=np.ascontiguousarray(distribution.positions[:, slots.order], dtype=np.int64),
        plain=plain,
        marked=marked,
        class_of=slots.class_of,
        first=slots.first,
        log_share=slots.log_share,
        # a class is never without slots
        top_share=np.maximum.reduceat(slots.log_share, slots.first[:-1]),
        power=np.empty((n + 1, len(slots.order))),
        powered=np.zeros(n + 1, dtype=bool),
        table=np.arange(n),
        tables=n,
        chain=np.zeros(1, dtype=np.uint64),
        cumulative=np.empty((rows, len(slots.order))),
        log_total=np.empty((rows, len(slots.blend))),
    )
    tabulate_units(units, empty_sets(units))
    return units


@lru_cache(maxsize=16)
def _bit_laws(n: int, permanent: tuple[float, float], instantaneous: tuple[float, float]) -> tuple[Floats, Floats]:
    """`plain` and `marked` of a device and so many reports, see `Units`: the same for all of its users."""
    set_, unset = (_log_ones(n + 1, one, *instantaneous) for one in permanent)
    zero, one = (np.diff(distribution[:, :-1], axis=0) for distribution in (unset, set_))
    more, marked_more = (np.diff(distribution[1:], axis=1) for distribution in (unset, set_))
    over = (set_ - unset)[:-1, :-1]
    plain = np.stack([unset[:-1, :-1], zero, over, more], axis=2)
    return plain, np.stack([one, marked_more], axis=2)


def _log_ones(most: int, one: float, q: float, p: float) -> Floats:
    """(most + 1, most + 1) log Pr[o ones of c reports] at a bit whose answer is one with that probability."""
    c, o = np.arange(most + 1)[:, None], np.arange(most + 1)[None]
    zeros = np.maximum(c - o, 0)
    with np.errstate(divide="ignore"):
        of_one = np.log(one) + special.xlogy(o, q) + special.xlog1py(zeros, -q)
        of_zero = np.log1p(-one) + special.xlogy(o, p) + special.xlog1py(zeros, -p)
        distributions: Floats = np.maximum(np.logaddexp(of_one, of_zero), NEVER)
    return distributions


def empty_sets(units: Units) -> Sets:
    """Room for the sets of a chain."""
    n, width, sets = len(units.count), units.width, len(units.count) + 3

    def whole(*shape: int) -> Any:
        return np.zeros(shape, dtype=np.int64)

    return Sets(
        slot=whole(sets),
        size=whole(sets),
        names=whole(sets),
        total=whole(sets),
        ones=whole(sets, width),
        level=np.zeros(sets),
        part=np.zeros((sets, width + 1)),
        base=np.zeros(sets),
        gain=np.zeros((width, sets)),
        flat=np.zeros(sets),
        mark=np.zeros(sets, dtype=np.uint64),
        made=np.zeros(sets, dtype=np.uint64),
        set_of=whole(n),
        holder=whole(len(units.class_of)),
        spare=whole(n + 1),
        top=whole(1),
        factor=np.empty(width + 1),
    )
