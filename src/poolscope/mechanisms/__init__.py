"""Local mechanisms, by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from poolscope.errors import InputError, did_you_mean
from poolscope.mechanisms.base import Mechanism, Pure, Reports, Views
from poolscope.mechanisms.cms import CMS, cms, cms_no_hash
from poolscope.mechanisms.hcms import HCMS, hcms
from poolscope.mechanisms.identity import Identity, identity

__all__ = [
    "CMS",
    "HCMS",
    "MECHANISMS",
    "Identity",
    "Mechanism",
    "Pure",
    "Reports",
    "Views",
    "cms",
    "cms_no_hash",
    "hcms",
    "identity",
    "make",
]

#: Name in a scenario -> the function that makes the mechanism from the universe's size and the other keys.
MECHANISMS: dict[str, Callable[..., Pure]] = {
    "cms": cms,
    "cms-no-hash": cms_no_hash,
    "hcms": hcms,
    "identity": identity,
}


def make(kind: str, universe: int, parameters: Mapping[str, Any]) -> Pure:
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
    return maker(universe=universe, **parameters)
