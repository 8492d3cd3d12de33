"""Local mechanisms, by name.

``MECHANISMS`` has the names that scenarios use; ``Reports`` is the type of what a mechanism makes: columns by name.

Examples
--------
>>> sorted(ps.mechanisms.MECHANISMS)[:4]
['blh', 'channel', 'cms', 'cms-no-hash']
>>> reports: ps.mechanisms.Reports = mechanism.obfuscate(np.array([3, 4, 5]), rng)
>>> {name: len(column) for name, column in reports.items()}
{'value': 3}
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from poolscope.core.errors import InputError, did_you_mean
from poolscope.mechanisms.channel import Channel, Empirical
from poolscope.mechanisms.cms import CMS, HCMS, NoHashCMS
from poolscope.mechanisms.custom import Adapted, adapt
from poolscope.mechanisms.dbitflip import DBitFlip
from poolscope.mechanisms.devices import Device, Fresh, Memoised, RapporMemory, device_of, reports_of
from poolscope.mechanisms.grr import GRR, Identity
from poolscope.mechanisms.hadamard_response import HadamardResponse
from poolscope.mechanisms.histogram import SHE
from poolscope.mechanisms.l_mechanisms import LGRR, LOSUE, LOUE, LSOUE, LSUE
from poolscope.mechanisms.local_hashing import BLH, OLH
from poolscope.mechanisms.loloha import LOLOHA
from poolscope.mechanisms.memoized import KeptFlips, KeptHash, KeptPositions, KeptResponse
from poolscope.mechanisms.pi_rappor import PIRappor
from poolscope.mechanisms.policy import Sending
from poolscope.mechanisms.protocols import Countable, Mechanism, ReportColumn, Reports, Views, check_parameters
from poolscope.mechanisms.pure import Likelihood, Pure
from poolscope.mechanisms.rappor import Rappor
from poolscope.mechanisms.registry import composed
from poolscope.mechanisms.subset import SubsetSelection
from poolscope.mechanisms.unary import OUE, SUE, THE, SpotMe

__all__ = [
    "BLH",
    "CMS",
    "GRR",
    "HCMS",
    "LGRR",
    "LOLOHA",
    "LOSUE",
    "LOUE",
    "LSOUE",
    "LSUE",
    "MECHANISMS",
    "OLH",
    "OUE",
    "SHE",
    "SUE",
    "THE",
    "Adapted",
    "Channel",
    "Countable",
    "DBitFlip",
    "Device",
    "Empirical",
    "Fresh",
    "HadamardResponse",
    "Identity",
    "KeptFlips",
    "KeptHash",
    "KeptPositions",
    "KeptResponse",
    "Likelihood",
    "Mechanism",
    "Memoised",
    "NoHashCMS",
    "PIRappor",
    "Pure",
    "Rappor",
    "RapporMemory",
    "ReportColumn",
    "Reports",
    "Sending",
    "SpotMe",
    "SubsetSelection",
    "Views",
    "adapt",
    "composed",
    "device_of",
    "make",
    "reports_of",
]

#: Name in a scenario -> the mechanism, made from the size of the universe and the other keys.
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
    """The mechanism of this name; unknown names and parameters are errors that name the known ones.

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
