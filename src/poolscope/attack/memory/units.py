"""A user's reports as the sampler takes them: units that are never parted, with the law of each by itself."""

from __future__ import annotations

from functools import lru_cache, singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from poolscope.attack.memory.slots import Slots
from poolscope.base.arrays import Floats
from poolscope.base.randomness import children
from poolscope.kernels.kept_sets import BITS, IDENTICAL, NEVER, VALUES, Sets, Units
from poolscope.kernels.kept_tables import tabulate_units
from poolscope.mechanisms.kept import Bits, Identical, Values

#: Below this probability of an answer at any slot no two slots of a user are taken to share it.
SHARED = 1e-9


def of_one_slot(law: Identical) -> NDArray[np.bool_]:
    """(answers,) whether all reports of an answer are taken for one slot's."""
    rare: NDArray[np.bool_] = law.log_law.max(axis=1, initial=-np.inf) < np.log(SHARED)
    return rare | (not law.shared)


def units_of(law: Identical | Bits | Values, slots: Slots) -> Units:
    """The units of one user, their tables included."""
    parts = _parts(law, slots)
    count = parts["count"]
    tables = int(parts["table"].max(initial=-1)) + 1
    rows = tables + (len(count) + 3 if parts["joins"] else 1)
    units = Units(
        **_nothing(len(count), len(slots.order)) | parts,
        mark=children(np.uint64(0), np.arange(len(count))),
        class_of=slots.class_of,
        first=slots.first,
        log_share=slots.log_share,
        # a class is never without slots
        top_share=np.maximum.reduceat(slots.log_share, slots.first[:-1]),
        power=np.empty((int(count.sum()) + 1, len(slots.order))),
        powered=np.zeros(int(count.sum()) + 1, dtype=bool),
        tables=tables,
        chain=np.zeros(1, dtype=np.uint64),
        cumulative=np.empty((rows, len(slots.order))),
        log_total=np.empty((rows, len(slots.blend))),
    )
    tabulate_units(units, empty_sets(units))
    return units


@singledispatch
def _parts(law: Any, slots: Slots) -> dict[str, Any]:
    """What units have of their own by the kind of law."""
    raise TypeError(f"no units are known of the law {type(law).__name__}")


@_parts.register
def _(law: Identical, slots: Slots) -> dict[str, Any]:
    """Reports of one answer are one unit, unless other slots may well have that answer too."""
    glued = of_one_slot(law)
    leads = ~glued[law.answer]
    leads[np.unique(law.answer, return_index=True)[1]] = True
    row = law.answer[leads].astype(np.int64)
    return {
        "kind": IDENTICAL,
        "joins": len(row) > len(glued),
        "count": np.where(glued[row], np.bincount(law.answer, minlength=len(glued))[row], 1).astype(np.int64),
        "row": row,
        "table": row,
        "law": np.maximum(law.log_law[:, slots.order], NEVER),
    }


@_parts.register
def _(law: Bits, slots: Slots) -> dict[str, Any]:
    n, width = law.ones.shape
    features_of = law.ones.sum(axis=1, dtype=np.int64)
    plain, marked = _bit_laws(n, law.permanent, law.again)
    return {
        "kind": BITS,
        "joins": n > 1,
        "width": width,
        "count": np.ones(n, dtype=np.int64),
        "features": np.argsort(law.ones ^ 1, axis=1, kind="stable")[:, : max(1, features_of.max(initial=0))].copy(),
        "features_of": features_of,
        "positions": np.ascontiguousarray(law.positions[:, slots.order], dtype=np.int64),
        "plain": plain,
        "marked": marked,
        "table": np.arange(n),
    }


@_parts.register
def _(law: Values, slots: Slots) -> dict[str, Any]:
    n, (p, q) = len(law.value), law.again
    seen, place = np.unique(law.value, return_inverse=True)
    own = law.own[slots.order]
    at = np.minimum(np.searchsorted(seen, own), len(seen) - 1)
    return {
        "kind": VALUES,
        "joins": n > 1,
        "width": len(seen),
        "count": np.ones(n, dtype=np.int64),
        "features": np.ascontiguousarray(place[:, None], dtype=np.int64),
        "features_of": np.ones(n, dtype=np.int64),
        "positions": np.where(seen[at] == own, at, len(seen))[None].astype(np.int64),
        "steps": np.array([*law.permanent, np.log(q), np.log(p / q), law.values]),
        "decay": (q / p) ** np.arange(n + 3),
        "table": place.astype(np.int64),
    }


def _nothing(units: int, slots: int) -> dict[str, Any]:
    """What units have that their kind does not need."""
    none = np.zeros((1, 1))
    return {
        "width": 0,
        "row": np.zeros(units, dtype=np.int64),
        "features": np.zeros((units, 1), dtype=np.int64),
        "features_of": np.zeros(units, dtype=np.int64),
        "law": none,
        "positions": np.zeros((1, slots), dtype=np.int64),
        "plain": none[None],
        "marked": none[None],
        "steps": np.zeros(5),
        "decay": np.ones(1),
    }


@lru_cache(maxsize=16)
def _bit_laws(n: int, permanent: tuple[float, float], again: tuple[float, float]) -> tuple[Floats, Floats]:
    """`plain` and `marked` of a device and so many reports, see `Units`: the same for all of its users."""
    set_, unset = (_log_ones(n + 1, one, *again) for one in permanent)
    zero, one = (np.diff(law[:, :-1], axis=0) for law in (unset, set_))
    more, marked_more = (np.diff(law[1:], axis=1) for law in (unset, set_))
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
        laws: Floats = np.maximum(np.logaddexp(of_one, of_zero), NEVER)
    return laws


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
        answer=whole(sets),
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
