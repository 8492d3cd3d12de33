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

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from poolscope.devices.dbitflip import DBitFlip
    from poolscope.devices.loloha import LOLOHA
    from poolscope.devices.longitudinal import LGRR, LOSUE, LOUE, LSOUE, LSUE
    from poolscope.devices.memoized import (
        KeptFlips,
        KeptHash,
        KeptPositions,
        KeptResponse,
        Memoized,
        RapporMemory,
        device_of,
    )
    from poolscope.devices.policy import ReportingPolicy
    from poolscope.devices.protocols import Device, Fresh, reports_of
    from poolscope.devices.registry import MECHANISMS, composed, make
    from poolscope.mechanisms.channel import Channel, Empirical
    from poolscope.mechanisms.cms import CMS, HCMS, NoHashCMS
    from poolscope.mechanisms.custom import Adapted, adapt
    from poolscope.mechanisms.grr import GRR, Identity
    from poolscope.mechanisms.hadamard_response import HadamardResponse
    from poolscope.mechanisms.histogram import SHE
    from poolscope.mechanisms.local_hashing import BLH, OLH
    from poolscope.mechanisms.pi_rappor import PIRappor
    from poolscope.mechanisms.protocols import Countable, Mechanism, ReportColumn, Reports, Views
    from poolscope.mechanisms.pure import Likelihood, Pure
    from poolscope.mechanisms.rappor import Rappor
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
    "Memoized",
    "NoHashCMS",
    "PIRappor",
    "Pure",
    "Rappor",
    "RapporMemory",
    "ReportColumn",
    "ReportingPolicy",
    "Reports",
    "SpotMe",
    "SubsetSelection",
    "Views",
    "adapt",
    "composed",
    "device_of",
    "make",
    "reports_of",
]

#: Public name -> its module. Devices lie above mechanisms, so that nothing is imported before it is asked for.
_HOME = {
    name: module
    for module, names in {
        "devices.dbitflip": "DBitFlip",
        "devices.loloha": "LOLOHA",
        "devices.longitudinal": "LGRR LOSUE LOUE LSOUE LSUE",
        "devices.memoized": "KeptFlips KeptHash KeptPositions KeptResponse Memoized RapporMemory device_of",
        "devices.policy": "ReportingPolicy",
        "devices.protocols": "Device Fresh reports_of",
        "devices.registry": "MECHANISMS composed make",
        "mechanisms.channel": "Channel Empirical",
        "mechanisms.cms": "CMS HCMS NoHashCMS",
        "mechanisms.custom": "Adapted adapt",
        "mechanisms.grr": "GRR Identity",
        "mechanisms.hadamard_response": "HadamardResponse",
        "mechanisms.histogram": "SHE",
        "mechanisms.local_hashing": "BLH OLH",
        "mechanisms.pi_rappor": "PIRappor",
        "mechanisms.protocols": "Countable Mechanism ReportColumn Reports Views",
        "mechanisms.pure": "Likelihood Pure",
        "mechanisms.rappor": "Rappor",
        "mechanisms.subset": "SubsetSelection",
        "mechanisms.unary": "OUE SUE SpotMe THE",
    }.items()
    for name in names.split()
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"poolscope.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
