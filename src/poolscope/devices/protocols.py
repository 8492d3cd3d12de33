"""Devices: which reports are sent over time, and the likelihood of a user's reports of memoized responses.

A mechanism states what one report reveals about one object. Where a device memoizes its responses, a user's reports are
not independent, so that memoization is a property of the device. Objects in one *slot* share one memoized response; for
most devices every object is a slot of its own. Reports of one response are a *cluster*. A device states the likelihood
of a cluster given its slot.
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
from poolscope.mechanisms.custom import is_builtin_class, owner
from poolscope.mechanisms.protocols import Mechanism, Reports, distinct


class IdenticalReports(NamedTuple):
    """A report is its memoized response: all reports of a cluster are identical.

    Parameters
    ----------
    response : (reports,) which of the user's distinct responses each report is, numbered in order of arrival.
    log_response_prob : (responses, slots) log Pr[response | slot], normalized, as two slots may happen to share a
        response; -inf is impossible.

    Examples
    --------
    >>> distribution = ps.mechanisms.Memoized(mechanism).likelihood({"value": np.array([3, 5, 3])}).distribution
    >>> distribution.response.tolist(), distribution.log_response_prob.shape
    ([0, 1, 0], (2, 30))
    """

    response: Integers
    log_response_prob: Floats

    def first(self, count: int) -> IdenticalReports:
        """Return the likelihood of the first reports."""
        response = self.response[:count]
        return IdenticalReports(response, self.log_response_prob[: response.max(initial=-1) + 1])


class NoisyBits(NamedTuple):
    """Responses and reports are vectors of m independent bits.

    Parameters
    ----------
    ones : (reports, m) zeros and ones.
    positions : (any, slots) the bits that a slot sets, each once; m stands for none.
    permanent : Pr[a bit of the response is one], where the slot sets it and where it does not.
    instantaneous : Pr[a bit of the report is one], where that of the response is one and where it is zero.

    Examples
    --------
    >>> device = ps.mechanisms.device_of(ps.mechanisms.LSUE(universe=30, epsilon_perm=2.0, epsilon_1=1.0))
    >>> reports = ps.mechanisms.reports_of(device, np.array([[7, 7]]), np.array([1], dtype=np.uint64))
    >>> device.likelihood(reports).distribution.ones.shape
    (2, 30)
    """

    ones: NDArray[np.uint8]
    positions: NDArray[np.integer]
    permanent: tuple[float, float]
    instantaneous: tuple[float, float]

    def first(self, count: int) -> NoisyBits:
        """Return the likelihood of the first reports."""
        return self._replace(ones=self.ones[:count])


class NoisyValues(NamedTuple):
    """Responses and reports are among g values, each by randomized response.

    Parameters
    ----------
    value : (reports,) what was sent, 0..g-1.
    slot_value : (slots,) the value of each slot.
    n_values : g.
    permanent : Pr[response], of the slot's value and of each other.
    instantaneous : Pr[report], of the response and of each other.

    Examples
    --------
    >>> device = ps.mechanisms.device_of(ps.mechanisms.LGRR(universe=30, epsilon_perm=2.0, epsilon_1=1.0))
    >>> device.likelihood({"value": np.array([3, 5, 3])}).distribution.n_values
    30
    """

    value: Integers
    slot_value: Integers
    n_values: int
    permanent: tuple[float, float]
    instantaneous: tuple[float, float]

    def first(self, count: int) -> NoisyValues:
        """Return the likelihood of the first reports."""
        return self._replace(value=self.value[:count])


class ReportLikelihood(NamedTuple):
    """The likelihood of the reports of one user.

    Parameters
    ----------
    slots : (universe,) the slot of each object, 0, 1, ...
    distribution : of clusters of these reports, given their slot.

    Examples
    --------
    >>> likelihood = ps.mechanisms.Memoized(mechanism).likelihood({"value": np.array([3, 5, 3])})
    >>> likelihood.slots.shape, type(likelihood.distribution).__name__
    ((30,), 'IdenticalReports')
    """

    slots: Integers
    distribution: IdenticalReports | NoisyBits | NoisyValues

    def first(self, count: int) -> ReportLikelihood:
        """Return the likelihood of the first reports."""
        return ReportLikelihood(self.slots, self.distribution.first(count))


#: Branches of a user's key that no report's index reaches: memoized responses, and per-device values.
RESPONSES, DEVICE = -1, -2


@runtime_checkable
class Device(Protocol):
    """A user's device: what it sends. `poolscope.inference.attack` chooses the attack on its reports.

    A custom device has all three members. Where it does not memoize, the attack takes its reports as independent,
    unless it states how a report depends on earlier ones (`SequentialDevice`). One that memoizes must also state the
    joint likelihood of its reports, as `Memoized` does: `per_device_columns` and `likelihood`.

    Examples
    --------
    >>> isinstance(ps.mechanisms.Fresh(mechanism), ps.mechanisms.Device)
    True
    """

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism of a single report: all that the curator needs to know."""
        ...

    @property
    def memoizes(self) -> bool:
        """Whether reports of one user share responses, so that they are not independent given the objects."""
        ...

    def send(self, objects: Objects, users: Keys, event_index: Objects) -> Reports:
        """Return one report for each object, from the key of its user and its index in the user's trace: all
        (reports,).
        """
        ...


@runtime_checkable
class MemoizingDevice(Device, Protocol):
    """A device that memoizes responses.

    Examples
    --------
    >>> isinstance(ps.mechanisms.Memoized(mechanism), ps.mechanisms.MemoizingDevice)
    True
    """

    @property
    def per_device_columns(self) -> Mapping[str, int]:
        """Columns that are equal in all reports of a device, and the number of their values, all equally likely."""
        ...

    def likelihood(self, reports: Reports) -> ReportLikelihood:
        """Return the likelihood of reports of one user; values such as the cohort are read from them."""
        ...


@runtime_checkable
class SequentialDevice(Device, Protocol):
    """A device whose next report may depend on the reports before it, but not on earlier objects.

    Examples
    --------
    >>> isinstance(ps.mechanisms.Fresh(mechanism), ps.mechanisms.SequentialDevice)
    False
    """

    def log_likelihood(self, reports: Reports, candidate_objects: Objects) -> Floats:
        """Return (reports, candidates) log Pr[report | earlier reports, object], up to a constant of each report.

        `reports` are all reports of one user, in order of time.
        """
        ...


def memoizes(device: Device) -> TypeGuard[MemoizingDevice]:
    """Return whether reports of a device come from memoized responses, as the device states it (`attack_for` checks
    it).
    """
    return device.memoizes


def reports_of(device: Device, traces: Objects, users: Keys) -> Reports:
    """Return the reports of traces (users, n), user after user, from the users' keys.

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
    return device.send(traces.ravel(), np.repeat(users, n), np.tile(np.arange(n), len(users)))


@dataclass(frozen=True, eq=False)
class Fresh:
    """A device that draws every report independently, with any mechanism: the devices of the paper.

    Examples
    --------
    >>> ps.mechanisms.Fresh(mechanism).mechanism is mechanism
    True
    """

    mechanism: Mechanism

    memoizes = False

    def __post_init__(self) -> None:
        check_mechanism(self.mechanism)

    def send(self, objects: Objects, users: Keys, event_index: Objects) -> Reports:
        return self.mechanism.report(objects, fresh_keys(users, event_index))


def draws_fresh(device: Device) -> bool:
    """Return whether the mechanism itself draws every report, so that its ε and its fast paths apply."""
    return isinstance(device, Fresh) and type(device).send is Fresh.send


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
        if not is_builtin_class(owner(kind, "report")):
            rule = f"{kind.__name__} overrides report, which a device that memoizes does not call"
            raise InputError(rule, remedy="take poolscope.mechanisms.Memoized(mechanism), or Fresh(mechanism)")

    @property
    def per_device_columns(self) -> Mapping[str, int]:
        return {}


def identical_reports(reports: Reports, log_response_prob: Callable[[Reports], Floats]) -> IdenticalReports:
    """Return the likelihood of reports that are memoized responses, distinct ones in order of arrival."""
    first, which = distinct(reports)
    arrived = np.argsort(first)
    different = {name: np.asarray(column)[first[arrived]] for name, column in reports.items()}
    return IdenticalReports(np.argsort(arrived)[which], log_response_prob(different))


def fresh_keys(users: Keys, event_index: Objects) -> Keys:
    """Return the key of each report, by its index among the user's."""
    return children(children(users, KeyStream.REPORTS), event_index)


def device_keys(users: Keys) -> Keys:
    """Return the key of what is equal in all reports of each user: a cohort, a seed, positions."""
    return children(children(users, KeyStream.REPORTS), DEVICE)


def response_keys(slots: Objects, users: Keys) -> Keys:
    """Return the key of each permanent response: equal for equal user and slot."""
    return children(children(children(users, KeyStream.REPORTS), RESPONSES), slots)
