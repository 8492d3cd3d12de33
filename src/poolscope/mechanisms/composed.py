"""A kept answer and noise again on it: which mechanism of two steps that makes."""

from __future__ import annotations

from collections.abc import Callable

from poolscope.core.errors import InputError
from poolscope.mechanisms.grr import GRR
from poolscope.mechanisms.l_grr import LGRR
from poolscope.mechanisms.l_unary import LOSUE, LOUE, LSOUE, LSUE
from poolscope.mechanisms.local_hashing import BLH, OLH
from poolscope.mechanisms.loloha import LOLOHA
from poolscope.mechanisms.oue import OUE
from poolscope.mechanisms.role import Mechanism
from poolscope.mechanisms.sue import SUE

#: Kind of the permanent step, name of the instantaneous one -> both together, and what it takes over of the first.
TOGETHER: dict[tuple[type, str], tuple[Callable[..., Mechanism], tuple[str, ...]]] = {
    (GRR, "grr"): (LGRR, ()),
    (SUE, "sue"): (LSUE, ()),
    (OUE, "sue"): (LOSUE, ()),
    (OUE, "oue"): (LOUE, ()),
    (SUE, "oue"): (LSOUE, ()),
    (BLH, "grr"): (LOLOHA, ("g", "seed_bits", "hash")),
    (OLH, "grr"): (LOLOHA, ("g", "seed_bits", "hash")),
}


def composed(
    mechanism: Mechanism, kind: str, *, epsilon: float | None = None, epsilon_first: float | None = None
) -> Mechanism:
    """The mechanism of two steps that keeps the answers of this one, and adds noise of this kind to what is sent.

    Parameters
    ----------
    kind : "grr" on `grr` and local hashing, "sue" or "oue" on `sue` and `oue`.
    epsilon : of the noise by itself; or
    epsilon_first : of one report, as the papers reckon it, from which the noise is solved for.

    Examples
    --------
    >>> twice = ps.mechanisms.composed(mechanism, "grr", epsilon_first=2.0)
    >>> type(twice).__name__, round(twice.epsilon, 3)
    ('LGRR', 1.48)
    """
    if (type(mechanism), kind) not in TOGETHER:
        known = dict.fromkeys(name for first, name in TOGETHER if first is type(mechanism))
        remedy = f"one of {', '.join(known)}" if known else "only grr, sue, oue, blh and olh have noise again"
        rule = f"must be noise that goes on kept answers of {type(mechanism).__name__}"
        raise InputError(rule, value=kind, place="kind", remedy=remedy)
    maker, taken = TOGETHER[type(mechanism), kind]
    return maker(
        universe=mechanism.universe,
        epsilon_infinity=mechanism.epsilon,
        epsilon_again=epsilon,
        epsilon_first=epsilon_first,
        **{name: getattr(mechanism, name) for name in taken},
    )
