"""Local mechanisms, devices and their protocols.

``MECHANISMS`` maps the names in scenarios to classes; ``Reports`` is the type of reports: columns by name.

Examples
--------
>>> sorted(ps.mechanisms.MECHANISMS)[:4]
['blh', 'channel', 'cms', 'cms-no-hash']
>>> reports: ps.mechanisms.Reports = mechanism.obfuscate(np.array([3, 4, 5]), rng)
>>> {name: len(column) for name, column in reports.items()}
{'value': 3}
"""

from typing import TYPE_CHECKING

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
    "RSFD",
    "RSRFD",
    "SHE",
    "SMP",
    "SPL",
    "SUE",
    "THE",
    "Adapted",
    "AttributeLikelihood",
    "Channel",
    "DBitFlip",
    "Device",
    "Empirical",
    "FrequencyOracle",
    "Fresh",
    "HadamardResponse",
    "IdenticalReports",
    "Identity",
    "Likelihood",
    "Mechanism",
    "Memoized",
    "MemoizedFlips",
    "MemoizedHash",
    "MemoizedPositions",
    "MemoizedRappor",
    "MemoizedResponse",
    "MemoizingDevice",
    "Multidimensional",
    "NoHashCMS",
    "NoisyBits",
    "NoisyValues",
    "PIRappor",
    "PoolWeights",
    "Pure",
    "Rappor",
    "ReportColumn",
    "ReportLikelihood",
    "ReportedEvents",
    "ReportingPolicy",
    "Reports",
    "SequentialDevice",
    "SpotMe",
    "SubsetSelection",
    "SupportProbabilities",
    "adapt",
    "attribute_frequencies",
    "attribute_posterior",
    "attribute_variance",
    "device_of",
    "make",
    "reports_from_tuples",
    "reports_of",
    "sampled_attribute_posterior",
    "with_instantaneous_round",
]

if TYPE_CHECKING:
    from poolscope.devices.dbitflip import DBitFlip
    from poolscope.devices.loloha import LOLOHA
    from poolscope.devices.longitudinal import LGRR, LOSUE, LOUE, LSOUE, LSUE
    from poolscope.devices.memoized import (
        Memoized,
        MemoizedFlips,
        MemoizedHash,
        MemoizedPositions,
        MemoizedRappor,
        MemoizedResponse,
        device_of,
    )
    from poolscope.devices.policy import ReportedEvents, ReportingPolicy
    from poolscope.devices.protocols import (
        Device,
        Fresh,
        IdenticalReports,
        MemoizingDevice,
        NoisyBits,
        NoisyValues,
        ReportLikelihood,
        SequentialDevice,
        reports_of,
    )
    from poolscope.devices.registry import MECHANISMS, make, with_instantaneous_round
    from poolscope.inference.multidimensional import attribute_posterior, sampled_attribute_posterior
    from poolscope.mechanisms.channel import Channel, Empirical
    from poolscope.mechanisms.cms import CMS, HCMS, NoHashCMS
    from poolscope.mechanisms.custom import Adapted, adapt
    from poolscope.mechanisms.fake_data import RSFD, RSRFD
    from poolscope.mechanisms.grr import GRR, Identity
    from poolscope.mechanisms.hadamard_response import HadamardResponse
    from poolscope.mechanisms.histogram import SHE
    from poolscope.mechanisms.local_hashing import BLH, OLH
    from poolscope.mechanisms.multidimensional import SMP, SPL, AttributeLikelihood, Multidimensional
    from poolscope.mechanisms.pi_rappor import PIRappor
    from poolscope.mechanisms.protocols import (
        FrequencyOracle,
        Mechanism,
        PoolWeights,
        ReportColumn,
        Reports,
        SupportProbabilities,
    )
    from poolscope.mechanisms.pure import Likelihood, Pure
    from poolscope.mechanisms.rappor import Rappor
    from poolscope.mechanisms.subset import SubsetSelection
    from poolscope.mechanisms.unary import OUE, SUE, THE, SpotMe
    from poolscope.reports.multidimensional import attribute_frequencies, attribute_variance, reports_from_tuples
else:
    from importlib import import_module

    #: Module of each name. Devices are a higher layer than mechanisms, so that names are imported lazily.
    _MODULES = {
        "RSFD": "mechanisms.fake_data",
        "RSRFD": "mechanisms.fake_data",
        "SMP": "mechanisms.multidimensional",
        "SPL": "mechanisms.multidimensional",
        "AttributeLikelihood": "mechanisms.multidimensional",
        "Multidimensional": "mechanisms.multidimensional",
        "attribute_frequencies": "reports.multidimensional",
        "attribute_variance": "reports.multidimensional",
        "reports_from_tuples": "reports.multidimensional",
        "attribute_posterior": "inference.multidimensional",
        "sampled_attribute_posterior": "inference.multidimensional",
        "Adapted": "mechanisms.custom",
        "BLH": "mechanisms.local_hashing",
        "NoisyBits": "devices.protocols",
        "CMS": "mechanisms.cms",
        "Channel": "mechanisms.channel",
        "FrequencyOracle": "mechanisms.protocols",
        "DBitFlip": "devices.dbitflip",
        "Device": "devices.protocols",
        "Empirical": "mechanisms.channel",
        "ReportLikelihood": "devices.protocols",
        "Fresh": "devices.protocols",
        "GRR": "mechanisms.grr",
        "HCMS": "mechanisms.cms",
        "HadamardResponse": "mechanisms.hadamard_response",
        "IdenticalReports": "devices.protocols",
        "Identity": "mechanisms.grr",
        "MemoizingDevice": "devices.protocols",
        "SequentialDevice": "devices.protocols",
        "MemoizedFlips": "devices.memoized",
        "MemoizedHash": "devices.memoized",
        "MemoizedPositions": "devices.memoized",
        "MemoizedResponse": "devices.memoized",
        "LGRR": "devices.longitudinal",
        "LOLOHA": "devices.loloha",
        "LOSUE": "devices.longitudinal",
        "LOUE": "devices.longitudinal",
        "LSOUE": "devices.longitudinal",
        "LSUE": "devices.longitudinal",
        "Likelihood": "mechanisms.pure",
        "MECHANISMS": "devices.registry",
        "Mechanism": "mechanisms.protocols",
        "Memoized": "devices.memoized",
        "NoHashCMS": "mechanisms.cms",
        "OLH": "mechanisms.local_hashing",
        "OUE": "mechanisms.unary",
        "PIRappor": "mechanisms.pi_rappor",
        "Pure": "mechanisms.pure",
        "Rappor": "mechanisms.rappor",
        "MemoizedRappor": "devices.memoized",
        "SupportProbabilities": "mechanisms.protocols",
        "ReportColumn": "mechanisms.protocols",
        "Reports": "mechanisms.protocols",
        "SHE": "mechanisms.histogram",
        "SUE": "mechanisms.unary",
        "ReportingPolicy": "devices.policy",
        "ReportedEvents": "devices.policy",
        "SpotMe": "mechanisms.unary",
        "SubsetSelection": "mechanisms.subset",
        "THE": "mechanisms.unary",
        "NoisyValues": "devices.protocols",
        "PoolWeights": "mechanisms.protocols",
        "adapt": "mechanisms.custom",
        "with_instantaneous_round": "devices.registry",
        "device_of": "devices.memoized",
        "make": "devices.registry",
        "reports_of": "devices.protocols",
    }

    def __getattr__(name):
        if name in _MODULES:
            return getattr(import_module(f"poolscope.{_MODULES[name]}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        return __all__
