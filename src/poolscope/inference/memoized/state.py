"""The state space of the chains: slots by class, as an adversary weights them, and a user's reports as items."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from poolscope.core.arrays import Floats, Integers
from poolscope.core.randomness import children
from poolscope.devices.protocols import NoisyBits
from poolscope.inference.adversary import Adversary
from poolscope.kernels.memoized_state import LOG_ZERO, Items, ReportClusters, tabulate_items
from poolscope.population.popularity import within_pools


class SlotClasses(NamedTuple):
    """Slots grouped into classes: a slot has a fixed share of its class's weight, whatever the behavior.

    Where every slot lies in one section, the sections are the classes; else every slot is a class of its own.

    order : (slots,) slots ordered by class.
    class_of, log_share : (slots,) class and log share of each slot, in that order.
    first : (classes + 1,) first slot of each class.
    class_mix : (classes, k + 1) weight of a class = class_mix @ weights of the sections.
    only_section : (classes,) the section that all slots of a class lie in, or -1.
    class_of_section : (k + 1,) the class that equals a section, or -1.
    """

    order: Integers
    class_of: Integers
    log_share: Floats
    first: Integers
    class_mix: Floats
    only_section: Integers
    class_of_section: Integers


def slots_of(slots: Integers, adversary: Adversary) -> SlotClasses:
    """Return the classes of slots, from the slot of each object (universe,)."""
    within = within_pools(adversary.universe, adversary.popularity, empty="uniform")
    sections, count = adversary.k + 1, int(slots.max()) + 1
    cell = slots * sections + adversary.universe.pool_of + 1
    mass = np.bincount(cell, weights=within, minlength=count * sections).reshape(count, sections)
    there: NDArray[np.bool_] = np.bincount(cell, minlength=count * sections).reshape(count, sections) > 0
    class_of_section = np.full(sections, -1)
    if (there.sum(axis=1) <= 1).all():
        present, own = np.unique(there.argmax(axis=1), return_inverse=True)
        share, class_mix = mass.max(axis=1), np.eye(sections)[present]
        class_of_section[present] = np.arange(len(present))
    else:
        own, share, class_mix = np.arange(count), np.ones(count), mass
    order = np.argsort(own, kind="stable")
    with np.errstate(divide="ignore"):
        log_share = np.maximum(np.log(share[order]), LOG_ZERO)
    held = class_mix > 0
    return SlotClasses(
        order=order,
        class_of=own[order].astype(np.int64),
        log_share=log_share,
        first=np.searchsorted(own[order], np.arange(len(class_mix) + 1)).astype(np.int64),
        class_mix=class_mix,
        only_section=np.where(held.sum(axis=1) == 1, held.argmax(axis=1), -1).astype(np.int64),
        class_of_section=class_of_section,
    )


def items_of(distribution: NoisyBits, slots: SlotClasses) -> Items:
    """Return the reports of one user as items, with their tables."""
    n, width = distribution.ones.shape
    n_set_bits = distribution.ones.sum(axis=1, dtype=np.int64)
    unset_terms, set_terms = _bit_terms(n, distribution.permanent, distribution.instantaneous)
    rows = n + (n + 3 if n > 1 else 1)
    items = Items(
        can_share=n > 1,
        width=width,
        n_reports=np.ones(n, dtype=np.int64),
        fingerprint=children(np.uint64(0), np.arange(n)),
        set_bits=np.argsort(distribution.ones ^ 1, axis=1, kind="stable")[
            :, : max(1, n_set_bits.max(initial=0))
        ].copy(),
        n_set_bits=n_set_bits,
        positions=np.ascontiguousarray(distribution.positions[:, slots.order], dtype=np.int64),
        unset_terms=unset_terms,
        set_terms=set_terms,
        class_of=slots.class_of,
        first=slots.first,
        log_share=slots.log_share,
        # every class has slots
        max_log_share=np.maximum.reduceat(slots.log_share, slots.first[:-1]),
        power=np.empty((n + 1, len(slots.order))),
        power_ready=np.zeros(n + 1, dtype=bool),
        table=np.arange(n),
        n_tables=n,
        chain=np.zeros(1, dtype=np.uint64),
        cumulative=np.empty((rows, len(slots.order))),
        log_total=np.empty((rows, len(slots.class_mix))),
    )
    tabulate_items(items, empty_clusters(items))
    return items


@lru_cache(maxsize=16)
def _bit_terms(n: int, permanent: tuple[float, float], instantaneous: tuple[float, float]) -> tuple[Floats, Floats]:
    """Return `unset_terms` and `set_terms` of `Items`: the same for all users of a device with n reports."""
    set_, unset = (_log_ones(n + 1, one, *instantaneous) for one in permanent)
    zero, one = (np.diff(distribution[:, :-1], axis=0) for distribution in (unset, set_))
    more, marked_more = (np.diff(distribution[1:], axis=1) for distribution in (unset, set_))
    over = (set_ - unset)[:-1, :-1]
    unset_terms = np.stack([unset[:-1, :-1], zero, over, more], axis=2)
    return unset_terms, np.stack([one, marked_more], axis=2)


def _log_ones(n: int, one: float, q: float, p: float) -> Floats:
    """Return (n + 1, n + 1) log Pr[o ones among c reports] at a bit whose permanent response is one with probability
    `one`.

    q and p are the probabilities of a one in a report where the permanent bit is one and where it is zero.
    """
    c, o = np.arange(n + 1)[:, None], np.arange(n + 1)[None]
    zeros = np.maximum(c - o, 0)
    with np.errstate(divide="ignore"):
        of_one = np.log(one) + special.xlogy(o, q) + special.xlog1py(zeros, -q)
        of_zero = np.log1p(-one) + special.xlogy(o, p) + special.xlog1py(zeros, -p)
        distributions: Floats = np.maximum(np.logaddexp(of_one, of_zero), LOG_ZERO)
    return distributions


def empty_clusters(items: Items) -> ReportClusters:
    """Allocate the clusters of a chain."""
    n, width, clusters = len(items.n_reports), items.width, len(items.n_reports) + 3

    def integers(*shape: int) -> Any:
        return np.zeros(shape, dtype=np.int64)

    return ReportClusters(
        slot=integers(clusters),
        size=integers(clusters),
        index_sum=integers(clusters),
        n_reports=integers(clusters),
        ones=integers(clusters, width),
        log_prob=np.zeros(clusters),
        bit_gain=np.zeros((clusters, width + 1)),
        base=np.zeros(clusters),
        join_bit=np.zeros((width, clusters)),
        join_unset=np.zeros(clusters),
        fingerprint=np.zeros(clusters, dtype=np.uint64),
        tabulated=np.zeros(clusters, dtype=np.uint64),
        cluster_of=integers(n),
        cluster_at=integers(len(items.class_of)),
        free_list=integers(n + 1),
        end=integers(1),
        bit_factor=np.empty(width + 1),
    )
