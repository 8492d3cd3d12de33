"""What the reports of one user say of the answers that its device keeps: all that an attack needs of such a device.

Objects in one *slot* share one kept answer; for most devices every object is a slot of its own. Reports that come from
one answer are a *set*, and a law says how likely a set is, given the slot.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arrays import Floats, Integers


class Identical(NamedTuple):
    """A report is its answer: all reports of a set are the same.

    answer : (reports,) which of the user's different answers each is, the first to come being 0.
    log_law : (answers, slots) log Pr[answer | slot], the probability itself, as two slots may turn out to have one
        answer; -inf is impossible.
    """

    answer: Integers
    log_law: Floats

    def first(self, count: int) -> Identical:
        """Of the first reports; answers are numbered as they come."""
        answer = self.answer[:count]
        return Identical(answer, self.log_law[: answer.max(initial=-1) + 1])


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

    def first(self, count: int) -> Bits:
        """Of the first reports."""
        return self._replace(ones=self.ones[:count])


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

    def first(self, count: int) -> Values:
        """Of the first reports."""
        return self._replace(value=self.value[:count])


class Evidence(NamedTuple):
    """The reports of one user.

    slots : (universe,) the slot of each object, 0, 1, ...
    law : of sets of these reports.
    """

    slots: Integers
    law: Identical | Bits | Values

    def first(self, count: int) -> Evidence:
        """Of the first reports."""
        return Evidence(self.slots, self.law.first(count))
