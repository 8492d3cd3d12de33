"""Local mechanisms, by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from poolscope.base.errors import InputError, did_you_mean
from poolscope.mechanisms.adapt import Adapted, adapt
from poolscope.mechanisms.channel import Channel, Empirical, channel, empirical
from poolscope.mechanisms.cms import CMS, cms, cms_no_hash
from poolscope.mechanisms.devices import Device, Fresh, Memoised, RapporMemory, device_of, reports_of
from poolscope.mechanisms.grr import GRR, grr
from poolscope.mechanisms.hadamard_response import HadamardResponse, hr
from poolscope.mechanisms.hcms import HCMS, hcms
from poolscope.mechanisms.identity import Identity, identity
from poolscope.mechanisms.likelihood import Likelihood
from poolscope.mechanisms.local_hashing import LocalHashing, blh, olh
from poolscope.mechanisms.oue import OUE, oue
from poolscope.mechanisms.rappor import Rappor, rappor
from poolscope.mechanisms.role import LocalMechanism, Mechanism, Pure, Reports
from poolscope.mechanisms.spotme import SpotMe, spotme
from poolscope.mechanisms.ss import SubsetSelection, ss
from poolscope.mechanisms.sue import SUE, sue
from poolscope.mechanisms.the import THE, the
from poolscope.mechanisms.views import Views

__all__ = [
    "CMS",
    "GRR",
    "HCMS",
    "MECHANISMS",
    "OUE",
    "SUE",
    "THE",
    "Adapted",
    "Channel",
    "Device",
    "Empirical",
    "Fresh",
    "HadamardResponse",
    "Identity",
    "Likelihood",
    "LocalHashing",
    "LocalMechanism",
    "Mechanism",
    "Memoised",
    "Pure",
    "Rappor",
    "RapporMemory",
    "Reports",
    "SpotMe",
    "SubsetSelection",
    "Views",
    "adapt",
    "blh",
    "channel",
    "cms",
    "cms_no_hash",
    "device_of",
    "empirical",
    "grr",
    "hcms",
    "hr",
    "identity",
    "make",
    "olh",
    "oue",
    "rappor",
    "reports_of",
    "spotme",
    "ss",
    "sue",
    "the",
]

#: Numbers that a parameter may have: what is beyond does not fit into the kernels' integers.
LARGEST = 1 << 62

#: Name in a scenario -> the function that makes the mechanism from the universe's size and the other keys.
MECHANISMS: dict[str, Callable[..., LocalMechanism]] = {
    "cms": cms,
    "cms-no-hash": cms_no_hash,
    "hcms": hcms,
    "identity": identity,
    "grr": grr,
    "sue": sue,
    "oue": oue,
    "the": the,
    "spotme": spotme,
    "blh": blh,
    "olh": olh,
    "ss": ss,
    "hr": hr,
    "rappor": rappor,
    "channel": channel,
    "empirical": empirical,
}


def make(kind: str, universe: int, parameters: Mapping[str, Any]) -> LocalMechanism:
    """The mechanism of this name; unknown names and parameters are errors that name the known ones."""
    if kind not in MECHANISMS:
        raise InputError(
            "must be a known mechanism",
            value=kind,
            place="kind",
            remedy=did_you_mean(kind, MECHANISMS),
        )
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
    for name, value in parameters.items():
        _check_type(name, value, str(known[name].annotation))
    return maker(universe=universe, **parameters)


def _check_type(name: str, value: Any, annotation: str) -> None:
    """A file can say anything: what is to be a number must be one before it is reckoned with."""
    wanted, words = {"int": (int, "a whole number"), "float": (int | float, "a number")}.get(
        annotation.partition(" ")[0], (object, "")
    )
    if not isinstance(value, wanted) or (isinstance(value, bool) and words):
        if value is None and "None" in annotation:
            return
        raise InputError(f"must be {words}", value=value, place=name)
    if isinstance(value, int) and abs(value) > LARGEST:
        raise InputError(f"must be at most {LARGEST}", value=value, place=name)
