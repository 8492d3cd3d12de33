"""The slots of a user's device as an adversary sees them: by class, with shares of its weight."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arrays import Floats, Integers
from poolscope.inference.adversary import Adversary
from poolscope.kernels.memoized_state import NEVER
from poolscope.population.popularity import within_pools


class Slots(NamedTuple):
    """The slots of a *class* have fixed shares of its weight, whatever the behaviour.

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
