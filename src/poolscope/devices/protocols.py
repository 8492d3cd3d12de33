"""Devices: which reports are sent over time, and what the reports of one user say about memoized responses.

A mechanism says what one report reveals about one object. Where a device memoizes its responses, a user's reports are
not independent, so that memoization is not a property of a mechanism of single objects. Objects in one *slot* share one
memoized response; for most devices every object is a slot of its own. Reports that come from one response are a *set*,
and its law says how likely a set is, given the slot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import singledispatch
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arguments import as_integers
from poolscope.core.arrays import Floats, Integers, Keys, Objects
from poolscope.core.errors import InputError
from poolscope.core.randomness import Stream, children
from poolscope.kernels.random import uniforms
from poolscope.mechanisms.checking import check_mechanism, check_permanent
from poolscope.mechanisms.protocols import Mechanism, Reports, check_objects, distinct, stated
from poolscope.mechanisms.pure import tabulated
from poolscope.mechanisms.rappor import Rappor


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
    instantaneous: tuple[float, float]

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
    instantaneous: tuple[float, float]

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

    def sent(self, objects: Objects, users: Keys, places: Objects) -> Reports:
        """One report for each object, from the key of its user and its place in the user's trace: all (reports,)."""
        ...


@runtime_checkable
class Keeping(Device, Protocol):
    """A device that keeps its answers."""

    @property
    def own(self) -> Mapping[str, int]:
        """The columns that are the same in all reports of a user, and how many values each may have, all as likely."""
        ...

    def evidence(self, reports: Reports) -> Evidence:
        """What reports of one user say; what else the user keeps, a cohort for one, is read off them."""
        ...


def device_of(mechanism: Mechanism, *, memoize: bool | None = None) -> Device:
    """The device that sends the mechanism's reports: with memory those of two steps keep the permanent one, others all.

    Without a word, mechanisms that are made for it have memory (L-GRR and the like, dBitFlip), and others have none.

    Examples
    --------
    >>> type(ps.mechanisms.device_of(mechanism, memoize=True)).__name__
    'Memoized'
    """
    if memoize is not None and not isinstance(memoize, bool):
        raise InputError("memoize must be true, false or None", value=memoize)
    from poolscope.devices import memoized  # noqa: F401 (registers the devices of two rounds)

    return keeping(mechanism) if is_kept(mechanism, memoize) else Fresh(mechanism)


def is_kept(mechanism: object, memoize: bool | None) -> bool:
    """Whether devices of a mechanism, or of a kind of mechanisms, keep answers: as they are told, or else as it is."""
    return bool(getattr(mechanism, "kept", False)) if memoize is None else memoize


@singledispatch
def keeping(mechanism: Mechanism) -> Device:
    """The device with memory of a mechanism."""
    return Memoized(mechanism)


@keeping.register
def _(mechanism: Rappor) -> Device:
    return RapporMemory(mechanism)


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

    memoizes: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_mechanism(self.mechanism)

    def sent(self, objects: Objects, users: Keys, places: Objects) -> Reports:
        return self.mechanism.report(objects, fresh_keys(users, places))


def draws_fresh(device: Device) -> bool:
    """Whether every report is drawn by the mechanism itself, so that its epsilon and its fast paths hold."""
    return isinstance(device, Fresh) and type(device).sent is Fresh.sent


@dataclass(frozen=True, eq=False)
class Memoized:
    """Any mechanism, with memory: a user obfuscates an object once and sends the same report ever after.

    RAPPOR does this without its instantaneous step. The reports are those of the mechanism itself, whose public
    randomness (a hash function, say) is that of the object's one report.

    Examples
    --------
    >>> kept = ps.mechanisms.Memoized(mechanism)
    >>> keys = np.array([1], dtype=np.uint64)
    >>> reports = ps.mechanisms.reports_of(kept, np.array([[7, 7, 7]]), keys)["value"]
    >>> len(set(reports.tolist()))
    1
    """

    mechanism: Mechanism

    memoizes: ClassVar[bool] = True
    own: ClassVar[Mapping[str, int]] = {}

    def __post_init__(self) -> None:
        check_mechanism(self.mechanism)

    def sent(self, objects: Objects, users: Keys, places: Objects) -> Reports:
        distinct, first, which = np.unique(answer_keys(objects, users), return_index=True, return_inverse=True)
        made = self.mechanism.report(objects[first], distinct)
        return {name: column[which] for name, column in made.items()}

    def evidence(self, reports: Reports) -> Evidence:
        """Different answers in order of arrival."""
        law, (first, which) = stated(self.mechanism), distinct(reports)
        arrived = np.argsort(first)
        different = {name: column[first[arrived]] for name, column in reports.items()}
        log_law = tabulated(law.log_likelihood, different, law.universe)
        log_law += law.log_base_measure(different)[:, None]
        return Evidence(np.arange(law.universe), Identical(np.argsort(arrived)[which], log_law))


@dataclass(frozen=True, eq=False)
class RapporMemory:
    r"""RAPPOR as its authors run it: the user's cohort and the permanent answers stay, the instantaneous step is new.

    The permanent answer b' to an object is drawn once from its Bloom filter b, a bit being one with probability 1 - f/2
    where b is one and f/2 where it is zero. Every report of the object draws each bit anew: one with probability q
    where b' is one and p where it is zero. What c reports with s_j ones at bit j say of an object is

    .. math:: \prod_j \sum_{x \in \{0,1\}} \Pr[b'_j = x | b_j] \, \Pr[1 | x]^{s_j} (1 - \Pr[1 | x])^{c - s_j} ,

    exactly, if they come from one permanent answer. A single report has the law of the mechanism without memory.

    Examples
    --------
    >>> rappor = ps.mechanisms.Rappor(universe=100, m=128, hashes=2, cohorts=8, f=0.5, p=0.5, q=0.75)
    >>> device = ps.mechanisms.RapporMemory(rappor)
    >>> keys = np.array([1], dtype=np.uint64)
    >>> reports = ps.mechanisms.reports_of(device, np.array([[7, 7, 7]]), keys)
    >>> len(set(reports["cohort"].tolist()))
    1
    """

    mechanism: Rappor

    memoizes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_permanent(self.mechanism, Rappor)

    @property
    def own(self) -> Mapping[str, int]:
        return {"cohort": self.mechanism.family.size}

    def cohorts(self, users: Keys) -> NDArray[np.int64]:
        """(users,) everybody's cohort."""
        draws = np.empty(len(users))
        uniforms(own_keys(users), 0, draws)
        return (draws * self.mechanism.family.size).astype(np.int64)

    def positions(self, cohort: int) -> NDArray[np.uint32]:
        """(hashes, universe) the bits of every object in a cohort, each once: m where a function repeats another."""
        buckets: NDArray[np.uint32] = self.mechanism.family.buckets(np.array([cohort]))[0]
        return buckets

    def pattern(self, cohort: int) -> NDArray[np.bool_]:
        """(universe, m) the Bloom filter of every object in a cohort."""
        out = np.zeros((self.mechanism.universe, self.mechanism.m + 1), dtype=bool)
        for row in self.positions(cohort):
            out[np.arange(len(out)), row] = True
        return out[:, :-1]

    def permanent(self, objects: Objects, users: Keys) -> NDArray[np.bool_]:
        """(reports, m) the permanent answers to objects (reports,), each of the user of that key."""
        check_objects(objects, self.mechanism.universe)
        half, cohorts = self.mechanism.f / 2.0, self.cohorts(users)
        ones = np.empty((len(objects), self.mechanism.m), dtype=bool)
        for cohort in np.unique(cohorts):
            mine = cohorts == cohort
            ones[mine] = self.pattern(int(cohort))[objects[mine]]
        return _coins(answer_keys(objects, users), self.mechanism.m) < np.where(ones, 1.0 - half, half)

    def sent(self, objects: Objects, users: Keys, places: Objects) -> Reports:
        answers = self.permanent(objects, users)
        fresh = _coins(fresh_keys(users, places), self.mechanism.m)
        bits = fresh < np.where(answers, self.mechanism.q, self.mechanism.p)
        return {"cohort": self.cohorts(users).astype(np.int32), "bits": np.packbits(bits, axis=1, bitorder="little")}

    def bits(self, reports: Reports) -> NDArray[np.uint8]:
        """(reports, m) zeros and ones."""
        return np.unpackbits(np.asarray(reports["bits"]), axis=1, bitorder="little", count=self.mechanism.m)

    def evidence(self, reports: Reports) -> Evidence:
        cohort = int(reports["cohort"][0])
        permanent = 1.0 - self.mechanism.f / 2.0, self.mechanism.f / 2.0
        law = Bits(self.bits(reports), self.positions(cohort), permanent, (self.mechanism.q, self.mechanism.p))
        return Evidence(np.arange(self.mechanism.universe), law)


def fresh_keys(users: Keys, places: Objects) -> Keys:
    """The key of each report, by its place among the user's."""
    return children(children(users, Stream.REPORTS), places)


def own_keys(users: Keys) -> Keys:
    """The key of what is the same in all reports of each user: a cohort, a seed, positions."""
    return children(children(users, Stream.REPORTS), OWN)


def answer_keys(slots: Objects, users: Keys) -> Keys:
    """The key of each permanent answer: the same for the same user and object, or what the object is kept as."""
    return children(children(children(users, Stream.REPORTS), ANSWERS), slots)


def _coins(keys: Keys, count: int) -> Floats:
    """(keys, count) uniform numbers, the first words of each key's stream."""
    out = np.empty((count, len(keys)))
    for i in range(count):
        uniforms(keys, i, out[i])
    return out.T
