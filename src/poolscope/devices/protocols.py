"""Devices: which reports are sent over time, and what the reports of one user say about memoized responses.

A mechanism says what one report reveals about one object. Where a device memoizes its responses, a user's reports are
not independent, so that memoization is not a property of a mechanism of single objects. Objects in one *slot* share one
memoized response; for most devices every object is a slot of its own. Reports that come from one response are a *set*,
and its law says how likely a set is, given the slot.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, TypeGuard, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arguments import as_integers
from poolscope.core.arrays import Floats, Integers, Keys, Objects
from poolscope.core.errors import InputError
from poolscope.core.randomness import KeyStream, children
from poolscope.mechanisms.checking import check_mechanism
from poolscope.mechanisms.custom import is_ours, owner
from poolscope.mechanisms.protocols import Mechanism, Reports, distinct


class Identical(NamedTuple):
    """A report is its answer: all reports of a set are the same.

    Parameters
    ----------
    answer : (reports,) which of the user's different answers each is, the first to come being 0.
    log_response_prob : (answers, slots) log Pr[answer | slot], the probability itself, as two slots may turn out to
        have one answer; -inf is impossible.

    Examples
    --------
    >>> distribution = ps.mechanisms.Memoized(mechanism).evidence({"value": np.array([3, 5, 3])}).distribution
    >>> distribution.answer.tolist(), distribution.log_response_prob.shape
    ([0, 1, 0], (2, 30))
    """

    answer: Integers
    log_response_prob: Floats

    def first(self, count: int) -> Identical:
        """Of the first reports; answers are numbered as they come."""
        answer = self.answer[:count]
        return Identical(answer, self.log_response_prob[: answer.max(initial=-1) + 1])


class Bits(NamedTuple):
    """Answers and reports are vectors of m independent bits.

    Parameters
    ----------
    ones : (reports, m) zeros and ones.
    positions : (any, slots) the bits that a slot sets, each once; m stands for none.
    permanent : Pr[a bit of the answer is one], where the slot sets it and where it does not.
    instantaneous : Pr[a bit of the report is one], where that of the answer is one and where it is zero.

    Examples
    --------
    >>> device = ps.mechanisms.device_of(ps.mechanisms.LSUE(universe=30, epsilon_perm=2.0, epsilon_1=1.0))
    >>> reports = ps.mechanisms.reports_of(device, np.array([[7, 7]]), np.array([1], dtype=np.uint64))
    >>> device.evidence(reports).distribution.ones.shape
    (2, 30)
    """

    ones: NDArray[np.uint8]
    positions: NDArray[np.integer]
    permanent: tuple[float, float]
    instantaneous: tuple[float, float]

    def first(self, count: int) -> Bits:
        """Of the first reports."""
        return self._replace(ones=self.ones[:count])


class Values(NamedTuple):
    """Answers and reports are among g values, each by randomized response.

    Parameters
    ----------
    value : (reports,) what was sent, 0..g-1.
    own : (slots,) the value of each slot.
    values : g.
    permanent : Pr[answer], of the slot's value and of each other.
    instantaneous : Pr[report], of the answer and of each other.

    Examples
    --------
    >>> device = ps.mechanisms.device_of(ps.mechanisms.LGRR(universe=30, epsilon_perm=2.0, epsilon_1=1.0))
    >>> device.evidence({"value": np.array([3, 5, 3])}).distribution.values
    30
    """

    value: Integers
    own: Integers
    values: int
    permanent: tuple[float, float]
    instantaneous: tuple[float, float]

    def first(self, count: int) -> Values:
        """Of the first reports."""
        return self._replace(value=self.value[:count])


class Evidence(NamedTuple):
    """The reports of one user.

    Parameters
    ----------
    slots : (universe,) the slot of each object, 0, 1, ...
    distribution : of sets of these reports.

    Examples
    --------
    >>> evidence = ps.mechanisms.Memoized(mechanism).evidence({"value": np.array([3, 5, 3])})
    >>> evidence.slots.shape, type(evidence.distribution).__name__
    ((30,), 'Identical')
    """

    slots: Integers
    distribution: Identical | Bits | Values

    def first(self, count: int) -> Evidence:
        """Of the first reports."""
        return Evidence(self.slots, self.distribution.first(count))


#: Branches below a user's reports that no report's number reaches: kept answers, and what else the user keeps.
ANSWERS, OWN = -1, -2


@runtime_checkable
class Device(Protocol):
    """What a user's device sends. How its reports are attacked is `poolscope.inference.attack`.

    A device of your own has all three: where it does not memoize, every report counts by itself in the attack. One that
    memoizes must also state what its reports say together, as `Memoized` does: `own` and `evidence`.

    Examples
    --------
    >>> isinstance(ps.mechanisms.Fresh(mechanism), ps.mechanisms.Device)
    True
    """

    @property
    def mechanism(self) -> Mechanism:
        """What a report by itself comes from: all that the curator needs to know."""
        ...

    @property
    def memoizes(self) -> bool:
        """Whether reports of one user share responses, so that they are not independent given the objects."""
        ...

    def sent(self, objects: Objects, users: Keys, event_index: Objects) -> Reports:
        """One report for each object, from the key of its user and its place in the user's trace: all (reports,)."""
        ...


@runtime_checkable
class MemoizingDevice(Device, Protocol):
    """A device that keeps its answers.

    Examples
    --------
    >>> isinstance(ps.mechanisms.Memoized(mechanism), ps.mechanisms.MemoizingDevice)
    True
    """

    @property
    def own(self) -> Mapping[str, int]:
        """The columns that are the same in all reports of a user, and how many values each may have, all as likely."""
        ...

    def evidence(self, reports: Reports) -> Evidence:
        """What reports of one user say; what else the user keeps, a cohort for one, is read off them."""
        ...


def memoizes(device: Device) -> TypeGuard[MemoizingDevice]:
    """Whether reports of a device come from memoized responses, as the device states it (`attack_for` checks it)."""
    return device.memoizes


def reports_of(device: Device, traces: Objects, users: Keys) -> Reports:
    """Reports of traces (users, n), user after user, from the users' keys.

    Examples
    --------
    >>> traces, keys = np.array([[3, 4], [5, 6]]), np.array([1, 2], dtype=np.uint64)
    >>> ps.mechanisms.reports_of(ps.mechanisms.Fresh(mechanism), traces, keys)["value"].shape
    (4,)
    """
    if not isinstance(device, Device):
        raise InputError("must be a device", value=type(device).__name__, remedy="for example Fresh(mechanism)")
    traces, keys = as_integers("traces", traces), as_integers("users", users)
    if traces.ndim != 2 or keys.shape != traces.shape[:1]:
        raise InputError("traces must be (users, n), and users a key for each", value=(traces.shape, keys.shape))
    n, users = traces.shape[1], np.asarray(users, dtype=np.uint64)
    return device.sent(traces.ravel(), np.repeat(users, n), np.tile(np.arange(n), len(users)))


@dataclass(frozen=True, eq=False)
class Fresh:
    """Any mechanism, every report drawn anew: the devices of the paper.

    Examples
    --------
    >>> ps.mechanisms.Fresh(mechanism).mechanism is mechanism
    True
    """

    mechanism: Mechanism

    memoizes = False

    def __post_init__(self) -> None:
        check_mechanism(self.mechanism)

    def sent(self, objects: Objects, users: Keys, event_index: Objects) -> Reports:
        return self.mechanism.report(objects, fresh_keys(users, event_index))


def draws_fresh(device: Device) -> bool:
    """Whether every report is drawn by the mechanism itself, so that its epsilon and its fast paths hold."""
    return isinstance(device, Fresh) and type(device).sent is Fresh.sent


@dataclass(frozen=True, eq=False)
class Memoizing(ABC):
    """A device that draws the permanent responses of one kind of mechanism."""

    mechanism: Any

    kind: ClassVar[type]
    memoizes = True

    def __post_init__(self) -> None:
        kind = type(self.mechanism)
        if not isinstance(self.mechanism, self.kind):
            raise InputError(f"must be a mechanism {self.kind.__name__}", value=kind.__name__)
        check_mechanism(self.mechanism)
        if not is_ours(owner(kind, "report")):
            rule = f"{kind.__name__} overrides report, which a device that memoizes does not call"
            raise InputError(rule, remedy="take poolscope.mechanisms.Memoized(mechanism), or Fresh(mechanism)")

    @property
    def own(self) -> Mapping[str, int]:
        return {}


def identical(reports: Reports, log_response_prob: Callable[[Reports], Floats]) -> Identical:
    """Reports that are sent as they are memoized: the different ones in order of arrival, and their law."""
    first, which = distinct(reports)
    arrived = np.argsort(first)
    different = {name: np.asarray(column)[first[arrived]] for name, column in reports.items()}
    return Identical(np.argsort(arrived)[which], log_response_prob(different))


def fresh_keys(users: Keys, event_index: Objects) -> Keys:
    """The key of each report, by its place among the user's."""
    return children(children(users, KeyStream.REPORTS), event_index)


def own_keys(users: Keys) -> Keys:
    """The key of what is the same in all reports of each user: a cohort, a seed, positions."""
    return children(children(users, KeyStream.REPORTS), OWN)


def answer_keys(slots: Objects, users: Keys) -> Keys:
    """The key of each permanent answer: the same for the same user and object, or what the object is kept as."""
    return children(children(children(users, KeyStream.REPORTS), ANSWERS), slots)
