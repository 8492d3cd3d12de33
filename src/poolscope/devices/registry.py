"""Mechanisms by their names in scenarios, and the composition of a permanent and an instantaneous round."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from poolscope.core.errors import InputError, did_you_mean
from poolscope.devices.dbitflip import DBitFlip
from poolscope.devices.loloha import LOLOHA
from poolscope.devices.longitudinal import LGRR, LOSUE, LOUE, LSOUE, LSUE
from poolscope.mechanisms.channel import Channel, Empirical
from poolscope.mechanisms.cms import CMS, HCMS, NoHashCMS
from poolscope.mechanisms.grr import GRR, Identity
from poolscope.mechanisms.hadamard_response import HadamardResponse
from poolscope.mechanisms.histogram import SHE
from poolscope.mechanisms.local_hashing import BLH, OLH
from poolscope.mechanisms.pi_rappor import PIRappor
from poolscope.mechanisms.protocols import Mechanism, check_parameters
from poolscope.mechanisms.rappor import Rappor
from poolscope.mechanisms.subset import SubsetSelection
from poolscope.mechanisms.unary import OUE, SUE, THE, SpotMe

#: Name in a scenario -> the mechanism, constructed from the size of the universe and the other keys.
MECHANISMS: dict[str, Callable[..., Mechanism]] = {
    "cms": CMS,
    "cms-no-hash": NoHashCMS,
    "hcms": HCMS,
    "identity": Identity,
    "grr": GRR,
    "sue": SUE,
    "oue": OUE,
    "she": SHE,
    "the": THE,
    "spotme": SpotMe,
    "blh": BLH,
    "olh": OLH,
    "ss": SubsetSelection,
    "hr": HadamardResponse,
    "rappor": Rappor,
    "pi-rappor": PIRappor,
    "l-grr": LGRR,
    "l-sue": LSUE,
    "l-osue": LOSUE,
    "l-oue": LOUE,
    "l-soue": LSOUE,
    "loloha": LOLOHA,
    "dbitflip": DBitFlip,
    "channel": Channel,
    "empirical": Empirical,
}


def make(kind: str, universe: int, parameters: Mapping[str, Any]) -> Mechanism:
    """Return the mechanism of this name; unknown names and parameters are errors that list the known ones.

    Examples
    --------
    >>> ps.mechanisms.make("grr", 30, {"epsilon": 2.0})
    GRR(universe=30, epsilon=2.0)
    >>> ps.mechanisms.make("gr", 30, {"epsilon": 2.0})
    Traceback (most recent call last):
        ...
    poolscope.core.errors.InputError: kind: must be a known mechanism, got 'gr'; did you mean 'grr'?
    """
    if kind not in MECHANISMS:
        remedy = did_you_mean(str(kind), MECHANISMS)
        raise InputError("must be a known mechanism", value=kind, place="kind", remedy=remedy)
    if not isinstance(parameters, Mapping):
        raise InputError("parameters must be a mapping of names to values", value=parameters)
    maker = MECHANISMS[kind]
    known = inspect.signature(maker).parameters
    for name in parameters:
        if name not in known or name == "universe":
            raise InputError(
                f"unknown key for the mechanism {kind}",
                place=name,
                remedy=did_you_mean(name, [n for n in known if n != "universe"]),
            )
    for name, parameter in known.items():
        if parameter.default is inspect.Parameter.empty and name not in ("universe", *parameters):
            raise InputError(f"is missing; the mechanism {kind} needs it", place=name)
    check_parameters(maker, parameters)
    return maker(universe=universe, **parameters)


#: Class of the permanent round, name of the instantaneous one -> two-round mechanism, and parameters that it copies.
TWO_ROUND: dict[tuple[type, str], tuple[Callable[..., Mechanism], tuple[str, ...]]] = {
    (GRR, "grr"): (LGRR, ()),
    (SUE, "sue"): (LSUE, ()),
    (OUE, "sue"): (LOSUE, ()),
    (OUE, "oue"): (LOUE, ()),
    (SUE, "oue"): (LSOUE, ()),
    (BLH, "grr"): (LOLOHA, ("g", "seed_bits", "hash")),
    (OLH, "grr"): (LOLOHA, ("g", "seed_bits", "hash")),
}


def with_instantaneous_round(
    mechanism: Mechanism, kind: str, *, epsilon: float | None = None, epsilon_1: float | None = None
) -> Mechanism:
    """Return the two-round mechanism that memoizes responses of this one and adds instantaneous noise to each report.

    Parameters
    ----------
    kind : "grr" on `grr` and local hashing, "sue" or "oue" on `sue` and `oue`.
    epsilon : of the instantaneous round alone; or
    epsilon_1 : of one report as the papers compute it, from which the instantaneous round is solved for.

    Examples
    --------
    >>> twice = ps.mechanisms.with_instantaneous_round(mechanism, "grr", epsilon_1=2.0)
    >>> type(twice).__name__, round(twice.epsilon, 3)
    ('LGRR', 1.48)
    """
    if (type(mechanism), kind) not in TWO_ROUND:
        known = dict.fromkeys(name for first, name in TWO_ROUND if first is type(mechanism))
        remedy = (
            f"one of {', '.join(known)}" if known else "only grr, sue, oue, blh and olh have an instantaneous round"
        )
        rule = f"must be an instantaneous round for memoized responses of {type(mechanism).__name__}"
        raise InputError(rule, value=kind, place="kind", remedy=remedy)
    maker, taken = TWO_ROUND[type(mechanism), kind]
    return maker(
        universe=mechanism.universe,
        epsilon_perm=mechanism.epsilon,
        epsilon_inst=epsilon,
        epsilon_1=epsilon_1,
        **{name: getattr(mechanism, name) for name in taken},
    )
