"""How likely an answer is at all: what a likelihood leaves out because one user's attack does not need it.

Within the reports of one user a factor of the report cancels. Whether two devices have one answer by chance hangs on
it.
"""

from __future__ import annotations

import math
from functools import singledispatch

import numpy as np
from scipy.special import gammaln, xlogy

from poolscope.base.arrays import Floats
from poolscope.base.errors import InputError
from poolscope.mechanisms.cms import CMS
from poolscope.mechanisms.hadamard_response import HadamardResponse
from poolscope.mechanisms.hcms import HCMS
from poolscope.mechanisms.local_hashing import LocalHashing
from poolscope.mechanisms.pi_rappor import PIRappor
from poolscope.mechanisms.role import Mechanism, Reports, report_count
from poolscope.mechanisms.ss import SubsetSelection
from poolscope.mechanisms.unary import Unary


@singledispatch
def log_rarity(mechanism: Mechanism, reports: Reports) -> Floats:
    """(reports,) what `log_likelihood` leaves out of the logarithm of the probability of each report."""
    stated = getattr(mechanism, "log_factor", None)
    if stated is None:
        rule = "must state `log_factor`, how likely a report is at all"
        raise InputError(rule, value=type(mechanism).__name__)
    found: Floats = stated(reports)
    return found


@log_rarity.register
def _(mechanism: CMS, reports: Reports) -> Floats:
    return _of_bits(reports, mechanism.m, 1.0 - mechanism.flip, mechanism.flip) - math.log(mechanism.family.size)


@log_rarity.register
def _(mechanism: HCMS, reports: Reports) -> Floats:
    return _all(reports, mechanism.p_star, mechanism.family.size * mechanism.m)


@log_rarity.register
def _(mechanism: Unary, reports: Reports) -> Floats:
    return _of_bits(reports, mechanism.universe, mechanism.p_star, mechanism.q_star)


@log_rarity.register
def _(mechanism: SubsetSelection, reports: Reports) -> Floats:
    rest, chosen = mechanism.universe - 1, mechanism.k - 1
    subsets = gammaln(rest + 1) - gammaln(chosen + 1) - gammaln(rest - chosen + 1)
    return _all(reports, mechanism.p_star) - float(subsets)


@log_rarity.register
def _(mechanism: LocalHashing, reports: Reports) -> Floats:
    return _all(reports, mechanism.p_star, 2**mechanism.seed_bits)


@log_rarity.register
def _(mechanism: HadamardResponse, reports: Reports) -> Floats:
    return _all(reports, mechanism.p_star, mechanism.order // 2)


@log_rarity.register
def _(mechanism: PIRappor, reports: Reports) -> Floats:
    return _all(reports, mechanism.p_star, mechanism.prime * mechanism.had)


def _all(reports: Reports, inside: float, supporting: float = 1.0) -> Floats:
    """All reports that support an object are as likely, so many of them, and one of them is sent with `inside`."""
    return np.full(report_count(reports), math.log(inside) - math.log(supporting))


def _of_bits(reports: Reports, m: int, own: float, other: float) -> Floats:
    """Bits that are set by themselves, one with probability `own` and the others with `other`."""
    ones = np.unpackbits(np.asarray(reports["bits"]), axis=1, bitorder="little", count=m).sum(axis=1, dtype=np.int64)
    # a report without any bit supports nothing, and is as likely for all as if it had one more and lost it
    found: Floats = math.log(own) + xlogy(ones - 1, other) + xlogy(m - ones, 1.0 - other)
    return found
