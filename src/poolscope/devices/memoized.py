"""Devices of mechanisms of two steps, and of dBitFlip: what each keeps, and what it sends of it.

A device keeps one answer for each *slot*: the object, or what the object is hashed or sorted into.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arrays import Integers, Keys, Objects
from poolscope.devices.dbitflip import DBitFlip
from poolscope.devices.l_mechanisms import LGRR
from poolscope.devices.loloha import LOLOHA
from poolscope.devices.longitudinal import TwoFlips, TwoResponses
from poolscope.devices.protocols import (
    Bits,
    Device,
    Evidence,
    Identical,
    Values,
    answer_keys,
    fresh_keys,
    keeping,
    own_keys,
)
from poolscope.kernels import hadamard, unary
from poolscope.mechanisms.checking import check_permanent
from poolscope.mechanisms.protocols import Reports, check_objects, distinct
from poolscope.mechanisms.unary import as_bytes, threshold, words_of


@dataclass(frozen=True, eq=False)
class KeptResponse:
    """L-GRR: an answer among the objects for each object; sent is randomized response on it.

    Examples
    --------
    >>> device = ps.mechanisms.device_of(ps.mechanisms.LGRR(universe=30, epsilon_perm=2.0, epsilon_1=1.0))
    >>> type(device).__name__
    'KeptResponse'
    >>> keys = np.array([1], dtype=np.uint64)
    >>> sorted(ps.mechanisms.reports_of(device, np.array([[7, 7, 7]]), keys))
    ['value']
    """

    mechanism: LGRR

    memoizes: ClassVar[bool] = True
    own: ClassVar[Mapping[str, int]] = {}

    def __post_init__(self) -> None:
        check_permanent(self.mechanism, LGRR)

    def sent(self, objects: Objects, users: Keys, places: Objects) -> Reports:
        check_objects(objects, self.mechanism.universe)
        return {"value": _responded(self.mechanism, objects, users, places)}

    def evidence(self, reports: Reports) -> Evidence:
        objects = np.arange(self.mechanism.universe)
        return Evidence(objects, _values(self.mechanism, reports, objects))


@dataclass(frozen=True, eq=False)
class KeptHash:
    """LOLOHA: a seed for the user, an answer for each value of its function; sent is randomized response on it.

    Examples
    --------
    >>> device = ps.mechanisms.device_of(ps.mechanisms.LOLOHA(universe=30, epsilon_perm=2.0, epsilon_1=1.0))
    >>> type(device).__name__
    'KeptHash'
    >>> keys = np.array([1], dtype=np.uint64)
    >>> sorted(ps.mechanisms.reports_of(device, np.array([[7, 7, 7]]), keys))
    ['seed', 'value']
    """

    mechanism: LOLOHA

    memoizes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_permanent(self.mechanism, LOLOHA)

    @property
    def own(self) -> Mapping[str, int]:
        return {"seed": 1 << self.mechanism.seed_bits}

    def seeds(self, users: Keys) -> NDArray[np.int64]:
        """(users,) everybody's seed."""
        out = np.empty(len(users), dtype=np.int64)
        hadamard.seeds(own_keys(users), np.uint64(64 - self.mechanism.seed_bits), out)
        return out

    def sent(self, objects: Objects, users: Keys, places: Objects) -> Reports:
        check_objects(objects, self.mechanism.universe)
        seed = self.seeds(users)
        hashed = self.mechanism.functions.values(seed, objects)
        return {"seed": seed, "value": _responded(self.mechanism, hashed, users, places).astype(np.int32)}

    def evidence(self, reports: Reports) -> Evidence:
        objects = np.arange(self.mechanism.universe)
        seed = np.full(len(objects), np.asarray(reports["seed"])[0] if len(reports["seed"]) else 0, dtype=np.int64)
        own, slots = np.unique(self.mechanism.functions.values(seed, objects), return_inverse=True)
        return Evidence(slots, _values(self.mechanism, reports, own))


@dataclass(frozen=True, eq=False)
class KeptFlips:
    """L-SUE, L-OSUE, L-OUE, L-SOUE: bits with noise for each object; sent are these with noise again.

    Examples
    --------
    >>> device = ps.mechanisms.device_of(ps.mechanisms.LSUE(universe=30, epsilon_perm=2.0, epsilon_1=1.0))
    >>> type(device).__name__
    'KeptFlips'
    >>> keys = np.array([1], dtype=np.uint64)
    >>> sorted(ps.mechanisms.reports_of(device, np.array([[7, 7, 7]]), keys))
    ['bits']
    """

    mechanism: TwoFlips

    memoizes: ClassVar[bool] = True
    own: ClassVar[Mapping[str, int]] = {}

    def __post_init__(self) -> None:
        check_permanent(self.mechanism, TwoFlips)

    def answers(self, objects: Objects, users: Keys) -> NDArray[np.uint64]:
        """(reports, words) the kept bits for objects (reports,), each of the user of that key."""
        m, (p, q) = self.mechanism.universe, self.mechanism.permanent
        out = np.empty((len(objects), words_of(m)), dtype=np.uint64)
        unary.flip_bits(objects, answer_keys(objects, users), m, threshold(q), threshold(1.0 - p), out)
        return out

    def sent(self, objects: Objects, users: Keys, places: Objects) -> Reports:
        m, (p, q) = self.mechanism.universe, self.mechanism.instantaneous
        check_objects(objects, m)
        kept = self.answers(objects, users)
        out, lost = np.empty_like(kept), np.empty(kept.shape[1], dtype=np.uint64)
        unary.flip_again(kept, fresh_keys(users, places), m, threshold(q), threshold(1.0 - p), lost, out)
        return {"bits": as_bytes(out, m)}

    def evidence(self, reports: Reports) -> Evidence:
        m, objects = self.mechanism.universe, np.arange(self.mechanism.universe)
        ones = np.unpackbits(np.asarray(reports["bits"]), axis=1, bitorder="little", count=m)
        return Evidence(objects, Bits(ones, objects[None], self.mechanism.permanent, self.mechanism.instantaneous))


@dataclass(frozen=True, eq=False)
class KeptPositions:
    """dBitFlipPM: positions for the user, and bits at them for each bucket, sent as they are.

    Examples
    --------
    >>> device = ps.mechanisms.device_of(ps.mechanisms.DBitFlip(universe=30, epsilon=1.0, buckets=10, d=4))
    >>> type(device).__name__
    'KeptPositions'
    >>> keys = np.array([1], dtype=np.uint64)
    >>> sorted(ps.mechanisms.reports_of(device, np.array([[7, 7, 7]]), keys))
    ['bits', 'positions']
    """

    mechanism: DBitFlip

    memoizes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_permanent(self.mechanism, DBitFlip)

    @property
    def own(self) -> Mapping[str, int]:
        return {"positions": math.comb(self.mechanism.buckets, self.mechanism.d)}

    def sent(self, objects: Objects, users: Keys, places: Objects) -> Reports:
        check_objects(objects, self.mechanism.universe)
        buckets = self.mechanism.bucket_of[objects]
        answers = self.mechanism.answers(buckets, answer_keys(buckets, users))
        return self.mechanism.sent(self.mechanism.positions(own_keys(users)), answers)

    def evidence(self, reports: Reports) -> Evidence:
        """Different answers in order of arrival."""
        first, which = distinct(reports)
        arrived = np.argsort(first)
        different = {name: np.asarray(column)[first[arrived]] for name, column in reports.items()}
        law = Identical(np.argsort(arrived)[which], self.mechanism.log_law(different))
        return Evidence(self.mechanism.bucket_of, law)


@keeping.register
def _(mechanism: LGRR) -> Device:
    return KeptResponse(mechanism)


@keeping.register
def _(mechanism: LOLOHA) -> Device:
    return KeptHash(mechanism)


@keeping.register
def _(mechanism: TwoFlips) -> Device:
    return KeptFlips(mechanism)


@keeping.register
def _(mechanism: DBitFlip) -> Device:
    return KeptPositions(mechanism)


def _responded(mechanism: TwoResponses, slots: Integers, users: Keys, places: Objects) -> NDArray[np.int64]:
    """(reports,) randomized response on the kept answers to these slots, each of the user of that key."""
    kept, out = np.empty(len(slots), dtype=np.int64), np.empty(len(slots), dtype=np.int64)
    hadamard.respond(slots, answer_keys(slots, users), mechanism.values, mechanism.permanent[0], kept)
    hadamard.respond(kept, fresh_keys(users, places), mechanism.values, mechanism.instantaneous[0], out)
    return out


def _values(mechanism: TwoResponses, reports: Reports, own: Integers) -> Values:
    value = np.asarray(reports["value"], dtype=np.int64)
    return Values(value, own, mechanism.values, mechanism.permanent, mechanism.instantaneous)
