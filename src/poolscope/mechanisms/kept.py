"""What the reports of one user say of the answers that its device keeps: all that an attack needs of such a device.

Objects in one *slot* share one kept answer; for most devices every object is a slot of its own. Reports that come from
one answer are a *set*, and a law says how likely a set is, given the slot.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from poolscope.base.arrays import Floats, Integers
from poolscope.mechanisms.devices import Device
from poolscope.mechanisms.role import Reports


class Identical(NamedTuple):
    """A report is its answer: all reports of a set are the same.

    answer : (reports,) which of the user's different answers each is.
    log_law : (answers, slots) log Pr[answer | slot]; -inf is impossible.
    shared : whether `log_law` is the probability itself, so that two slots may turn out to have one answer; else it is
        known up to a constant of the answer, and the same answer is taken for the same slot.
    """

    answer: Integers
    log_law: Floats
    shared: bool


class Bits(NamedTuple):
    """Answers and reports are vectors of m independent bits.

    ones : (reports, m) zeros and ones.
    positions : (any, slots) the bits that a slot sets, each once; m stands for none.
    permanent : Pr[a bit of the answer is one], where the slot sets it and where it does not.
    again : Pr[a bit of the report is one], where that of the answer is one and where it is zero.
    """

    ones: NDArray[np.uint8]
    positions: NDArray[np.integer]
    permanent: tuple[float, float]
    again: tuple[float, float]


class Values(NamedTuple):
    """Answers and reports are among g values, each by randomized response.

    value : (reports,) what was sent, 0..g-1.
    own : (slots,) the value of each slot.
    values : g.
    permanent : Pr[answer], of the slot's value and of each other.
    again : Pr[report], of the answer and of each other.
    """

    value: Integers
    own: Integers
    values: int
    permanent: tuple[float, float]
    again: tuple[float, float]


class Evidence(NamedTuple):
    """The reports of one user.

    slots : (universe,) the slot of each object, 0, 1, ...
    law : of sets of these reports.
    """

    slots: Integers
    law: Identical | Bits | Values


@runtime_checkable
class KeptDevice(Device, Protocol):
    """A device that keeps its answers."""

    def evidence(self, reports: Reports) -> Evidence:
        """What the reports of one user are, in order; what the user keeps besides (a cohort, say) is read off them."""
        ...
