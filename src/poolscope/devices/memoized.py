"""Devices that memoize: what each keeps, and what it sends of it.

A device keeps one answer for each *slot*: the object, or what the object is hashed or sorted into. It memoizes whole
reports, or the permanent step of a mechanism of two steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arrays import Floats, Integers, Keys, Objects
from poolscope.core.errors import InputError
from poolscope.devices.dbitflip import DBitFlip
from poolscope.devices.loloha import LOLOHA
from poolscope.devices.longitudinal import LGRR, TwoFlips
from poolscope.devices.protocols import (
    Bits,
    Device,
    Evidence,
    Fresh,
    Memoizing,
    Values,
    answer_keys,
    fresh_keys,
    identical,
    own_keys,
)
from poolscope.kernels import hadamard, unary
from poolscope.kernels.random import uniforms
from poolscope.mechanisms.checking import check_mechanism
from poolscope.mechanisms.protocols import Mechanism, Reports, check_objects, require_likelihood
from poolscope.mechanisms.pure import tabulate_over_reports
from poolscope.mechanisms.rappor import Rappor
from poolscope.mechanisms.unary import as_bytes, threshold, words_of


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

    memoizes = True
    own: ClassVar[Mapping[str, int]] = {}

    def __post_init__(self) -> None:
        check_mechanism(self.mechanism)

    def sent(self, objects: Objects, users: Keys, event_index: Objects) -> Reports:
        distinct, first, which = np.unique(answer_keys(objects, users), return_index=True, return_inverse=True)
        made = self.mechanism.report(objects[first], distinct)
        return {name: column[which] for name, column in made.items()}

    def evidence(self, reports: Reports) -> Evidence:
        return Evidence(np.arange(self.mechanism.universe), identical(reports, self.log_response_prob))

    def log_response_prob(self, reports: Reports) -> Floats:
        """(reports, universe) log Pr[report | z] itself."""
        distribution = require_likelihood(self.mechanism)
        found = tabulate_over_reports(distribution.log_likelihood, reports, distribution.universe)
        found += distribution.log_base_measure(reports)[:, None]
        return found


class MemoizedRappor(Memoizing):
    r"""RAPPOR as its authors run it: the user's cohort and the permanent answers stay, the instantaneous step is new.

    The permanent answer b' to an object is drawn once from its Bloom filter b, a bit being one with probability 1 - f/2
    where b is one and f/2 where it is zero. Every report of the object draws each bit anew: one with probability q
    where b' is one and p where it is zero. What c reports with s_j ones at bit j say of an object is

    .. math:: \prod_j \sum_{x \in \{0,1\}} \Pr[b'_j = x | b_j] \, \Pr[1 | x]^{s_j} (1 - \Pr[1 | x])^{c - s_j} ,

    exactly, if they come from one permanent answer. A single report has the law of the mechanism without memory.

    Examples
    --------
    >>> rappor = ps.mechanisms.Rappor(universe=100, m=128, hashes=2, cohorts=8, f=0.5, p=0.5, q=0.75)
    >>> device = ps.mechanisms.MemoizedRappor(rappor)
    >>> keys = np.array([1], dtype=np.uint64)
    >>> reports = ps.mechanisms.reports_of(device, np.array([[7, 7, 7]]), keys)
    >>> len(set(reports["cohort"].tolist()))
    1
    """

    mechanism: Rappor

    kind = Rappor

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

    def sent(self, objects: Objects, users: Keys, event_index: Objects) -> Reports:
        answers = self.permanent(objects, users)
        fresh = _coins(fresh_keys(users, event_index), self.mechanism.m)
        bits = fresh < np.where(answers, self.mechanism.q, self.mechanism.p)
        return {"cohort": self.cohorts(users).astype(np.int32), "bits": np.packbits(bits, axis=1, bitorder="little")}

    def bits(self, reports: Reports) -> NDArray[np.uint8]:
        """(reports, m) zeros and ones."""
        return np.unpackbits(np.asarray(reports["bits"]), axis=1, bitorder="little", count=self.mechanism.m)

    def evidence(self, reports: Reports) -> Evidence:
        cohort = int(reports["cohort"][0])
        permanent = 1.0 - self.mechanism.f / 2.0, self.mechanism.f / 2.0
        distribution = Bits(self.bits(reports), self.positions(cohort), permanent, (self.mechanism.q, self.mechanism.p))
        return Evidence(np.arange(self.mechanism.universe), distribution)


class MemoizedResponse(Memoizing):
    """L-GRR: an answer among the objects for each object; sent is randomized response on it.

    Examples
    --------
    >>> device = ps.mechanisms.device_of(ps.mechanisms.LGRR(universe=30, epsilon_perm=2.0, epsilon_1=1.0))
    >>> type(device).__name__
    'MemoizedResponse'
    >>> keys = np.array([1], dtype=np.uint64)
    >>> sorted(ps.mechanisms.reports_of(device, np.array([[7, 7, 7]]), keys))
    ['value']
    """

    mechanism: LGRR | LOLOHA

    kind: ClassVar[type] = LGRR

    def sent(self, objects: Objects, users: Keys, event_index: Objects) -> Reports:
        check_objects(objects, self.mechanism.universe)
        return {"value": self.responses(objects, users, event_index)}

    def evidence(self, reports: Reports) -> Evidence:
        objects = np.arange(self.mechanism.universe)
        return Evidence(objects, self.distribution(reports, objects))

    def responses(self, slots: Integers, users: Keys, event_index: Objects) -> NDArray[np.int64]:
        """(reports,) randomized response on the kept answers to these slots, each of the user of that key."""
        made, kept, out = self.mechanism, np.empty(len(slots), dtype=np.int64), np.empty(len(slots), dtype=np.int64)
        hadamard.respond(slots, answer_keys(slots, users), made.values, made.permanent[0], kept)
        hadamard.respond(kept, fresh_keys(users, event_index), made.values, made.instantaneous[0], out)
        return out

    def distribution(self, reports: Reports, own: Integers) -> Values:
        """The law of reports, given the value of each slot."""
        value = np.asarray(reports["value"], dtype=np.int64)
        return Values(value, own, self.mechanism.values, self.mechanism.permanent, self.mechanism.instantaneous)


class MemoizedHash(MemoizedResponse):
    """LOLOHA: a seed for the user, an answer for each value of its function; sent is randomized response on it.

    Examples
    --------
    >>> device = ps.mechanisms.device_of(ps.mechanisms.LOLOHA(universe=30, epsilon_perm=2.0, epsilon_1=1.0))
    >>> type(device).__name__
    'MemoizedHash'
    >>> keys = np.array([1], dtype=np.uint64)
    >>> sorted(ps.mechanisms.reports_of(device, np.array([[7, 7, 7]]), keys))
    ['seed', 'value']
    """

    mechanism: LOLOHA

    kind = LOLOHA

    @property
    def own(self) -> Mapping[str, int]:
        return {"seed": 1 << self.mechanism.seed_bits}

    def seeds(self, users: Keys) -> NDArray[np.int64]:
        """(users,) everybody's seed."""
        out = np.empty(len(users), dtype=np.int64)
        hadamard.seeds(own_keys(users), np.uint64(64 - self.mechanism.seed_bits), out)
        return out

    def sent(self, objects: Objects, users: Keys, event_index: Objects) -> Reports:
        check_objects(objects, self.mechanism.universe)
        seed = self.seeds(users)
        hashed = self.mechanism.functions.values(seed, objects)
        return {"seed": seed, "value": self.responses(hashed, users, event_index).astype(np.int32)}

    def evidence(self, reports: Reports) -> Evidence:
        objects = np.arange(self.mechanism.universe)
        seed = np.full(len(objects), np.asarray(reports["seed"])[0] if len(reports["seed"]) else 0, dtype=np.int64)
        own, slots = np.unique(self.mechanism.functions.values(seed, objects), return_inverse=True)
        return Evidence(slots, self.distribution(reports, own))


class MemoizedFlips(Memoizing):
    """L-SUE, L-OSUE, L-OUE, L-SOUE: bits with noise for each object; sent are these with noise again.

    Examples
    --------
    >>> device = ps.mechanisms.device_of(ps.mechanisms.LSUE(universe=30, epsilon_perm=2.0, epsilon_1=1.0))
    >>> type(device).__name__
    'MemoizedFlips'
    >>> keys = np.array([1], dtype=np.uint64)
    >>> sorted(ps.mechanisms.reports_of(device, np.array([[7, 7, 7]]), keys))
    ['bits']
    """

    mechanism: TwoFlips

    kind = TwoFlips

    def answers(self, objects: Objects, users: Keys) -> NDArray[np.uint64]:
        """(reports, words) the kept bits for objects (reports,), each of the user of that key."""
        m, (p, q) = self.mechanism.universe, self.mechanism.permanent
        out = np.empty((len(objects), words_of(m)), dtype=np.uint64)
        unary.flip_bits(objects, answer_keys(objects, users), m, threshold(q), threshold(1.0 - p), out)
        return out

    def sent(self, objects: Objects, users: Keys, event_index: Objects) -> Reports:
        m, (p, q) = self.mechanism.universe, self.mechanism.instantaneous
        check_objects(objects, m)
        kept = self.answers(objects, users)
        out, lost = np.empty_like(kept), np.empty(kept.shape[1], dtype=np.uint64)
        unary.flip_again(kept, fresh_keys(users, event_index), m, threshold(q), threshold(1.0 - p), lost, out)
        return {"bits": as_bytes(out, m)}

    def evidence(self, reports: Reports) -> Evidence:
        m, objects = self.mechanism.universe, np.arange(self.mechanism.universe)
        ones = np.unpackbits(np.asarray(reports["bits"]), axis=1, bitorder="little", count=m)
        return Evidence(objects, Bits(ones, objects[None], self.mechanism.permanent, self.mechanism.instantaneous))


class MemoizedPositions(Memoizing):
    """dBitFlipPM: positions for the user, and bits at them for each bucket, sent as they are.

    Examples
    --------
    >>> device = ps.mechanisms.device_of(ps.mechanisms.DBitFlip(universe=30, epsilon=1.0, buckets=10, d=4))
    >>> type(device).__name__
    'MemoizedPositions'
    >>> keys = np.array([1], dtype=np.uint64)
    >>> sorted(ps.mechanisms.reports_of(device, np.array([[7, 7, 7]]), keys))
    ['bits', 'positions']
    """

    mechanism: DBitFlip

    kind = DBitFlip

    @property
    def own(self) -> Mapping[str, int]:
        return {"positions": math.comb(self.mechanism.buckets, self.mechanism.d)}

    def sent(self, objects: Objects, users: Keys, event_index: Objects) -> Reports:
        check_objects(objects, self.mechanism.universe)
        buckets = self.mechanism.bucket_of[objects]
        answers = self.mechanism.answers(buckets, answer_keys(buckets, users))
        return self.mechanism.sent(self.mechanism.positions(own_keys(users)), answers)

    def evidence(self, reports: Reports) -> Evidence:
        return Evidence(self.mechanism.bucket_of, identical(reports, self.mechanism.log_response_prob))


#: Kind of mechanism -> the device that memoizes its permanent responses; of others whole reports are memoized.
DEVICES: dict[type, Callable[[Any], Device]] = {
    Rappor: MemoizedRappor,
    LGRR: MemoizedResponse,
    LOLOHA: MemoizedHash,
    TwoFlips: MemoizedFlips,
    DBitFlip: MemoizedPositions,
}


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
    if not is_memoized(mechanism, memoize):
        return Fresh(mechanism)
    found = (DEVICES[kind] for kind in type(mechanism).__mro__ if kind in DEVICES)
    return next(found, Memoized)(mechanism)


def is_memoized(mechanism: object, memoize: bool | None) -> bool:
    """Whether devices of a mechanism, or of a kind of mechanisms, keep answers: as they are told, or else as it is."""
    return bool(getattr(mechanism, "kept", False)) if memoize is None else memoize


def _coins(keys: Keys, count: int) -> Floats:
    """(keys, count) uniform numbers, the first words of each key's stream."""
    out = np.empty((count, len(keys)))
    for i in range(count):
        uniforms(keys, i, out[i])
    return out.T
