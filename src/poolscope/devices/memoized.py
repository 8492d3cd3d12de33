"""Devices that memoize: what each of them stores, and what it sends.

A device memoizes one response for each *slot*: the object, or the value or bucket that the object is hashed to. The
response is a whole report, or the permanent round of a two-round mechanism.
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
from poolscope.devices.longitudinal import LGRR, TwoRoundUnary
from poolscope.devices.protocols import (
    Device,
    Fresh,
    Memoizing,
    NoisyBits,
    NoisyValues,
    ReportLikelihood,
    device_keys,
    fresh_keys,
    identical_reports,
    response_keys,
)
from poolscope.kernels import local_hashing, unary
from poolscope.kernels.random import uniforms
from poolscope.mechanisms.checking import check_mechanism
from poolscope.mechanisms.protocols import Mechanism, Reports, check_objects, require_likelihood
from poolscope.mechanisms.pure import tabulate_over_reports
from poolscope.mechanisms.rappor import Rappor
from poolscope.mechanisms.unary import as_bytes, as_fixed_point, words_of


@dataclass(frozen=True, eq=False)
class Memoized:
    """Any mechanism with memoization: a device obfuscates an object once and sends the same report from then on.

    RAPPOR does this without its instantaneous round. Reports are those of the mechanism itself; its public randomness,
    such as a hash function, is that of the object's one report.

    Examples
    --------
    >>> device = ps.mechanisms.Memoized(mechanism)
    >>> keys = np.array([1], dtype=np.uint64)
    >>> reports = ps.mechanisms.reports_of(device, np.array([[7, 7, 7]]), keys)["value"]
    >>> len(set(reports.tolist()))
    1
    """

    mechanism: Mechanism

    memoizes = True
    per_device_columns: ClassVar[Mapping[str, int]] = {}

    def __post_init__(self) -> None:
        check_mechanism(self.mechanism)

    def send(self, objects: Objects, users: Keys, event_index: Objects) -> Reports:
        distinct, first, which = np.unique(response_keys(objects, users), return_index=True, return_inverse=True)
        made = self.mechanism.report(objects[first], distinct)
        return {name: column[which] for name, column in made.items()}

    def likelihood(self, reports: Reports) -> ReportLikelihood:
        return ReportLikelihood(np.arange(self.mechanism.universe), identical_reports(reports, self.log_response_prob))

    def log_response_prob(self, reports: Reports) -> Floats:
        """Return (reports, universe) normalized log Pr[report | z]."""
        distribution = require_likelihood(self.mechanism)
        found = tabulate_over_reports(distribution.log_likelihood, reports, distribution.universe)
        found += distribution.log_base_measure(reports)[:, None]
        return found


class MemoizedRappor(Memoizing):
    r"""RAPPOR as deployed: the cohort and the permanent responses stay, every report adds instantaneous noise.

    The permanent response b' to an object is drawn once from its Bloom filter b, a bit being one with probability 1 -
    f/2 where b is one and f/2 where it is zero. Every report of the object draws each bit: one with probability q where
    b' is one and p where it is zero. The likelihood of c reports with s_j ones at bit j is

    .. math:: \prod_j \sum_{x \in \{0,1\}} \Pr[b'_j = x | b_j] \, \Pr[1 | x]^{s_j} (1 - \Pr[1 | x])^{c - s_j} ,

    if they come from one permanent response. A single report has the distribution of the mechanism without memoization.

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
    def per_device_columns(self) -> Mapping[str, int]:
        return {"cohort": self.mechanism.family.size}

    def cohorts(self, users: Keys) -> NDArray[np.int64]:
        """Return (users,) the cohort of each user."""
        draws = np.empty(len(users))
        uniforms(device_keys(users), 0, draws)
        return (draws * self.mechanism.family.size).astype(np.int64)

    def positions(self, cohort: int) -> NDArray[np.uint32]:
        """Return (hashes, universe) the bits of every object in a cohort, each once: m where a hash function repeats
        another.
        """
        buckets: NDArray[np.uint32] = self.mechanism.family.buckets(np.array([cohort]))[0]
        return buckets

    def pattern(self, cohort: int) -> NDArray[np.bool_]:
        """Return (universe, m) the Bloom filter of every object in a cohort."""
        out = np.zeros((self.mechanism.universe, self.mechanism.m + 1), dtype=bool)
        for row in self.positions(cohort):
            out[np.arange(len(out)), row] = True
        return out[:, :-1]

    def permanent(self, objects: Objects, users: Keys) -> NDArray[np.bool_]:
        """Return (reports, m) the permanent responses to objects (reports,), each of the user with that key."""
        check_objects(objects, self.mechanism.universe)
        half, cohorts = self.mechanism.f / 2.0, self.cohorts(users)
        ones = np.empty((len(objects), self.mechanism.m), dtype=bool)
        for cohort in np.unique(cohorts):
            mine = cohorts == cohort
            ones[mine] = self.pattern(int(cohort))[objects[mine]]
        return _uniforms(response_keys(objects, users), self.mechanism.m) < np.where(ones, 1.0 - half, half)

    def send(self, objects: Objects, users: Keys, event_index: Objects) -> Reports:
        permanent = self.permanent(objects, users)
        fresh = _uniforms(fresh_keys(users, event_index), self.mechanism.m)
        bits = fresh < np.where(permanent, self.mechanism.q, self.mechanism.p)
        return {"cohort": self.cohorts(users).astype(np.int32), "bits": np.packbits(bits, axis=1, bitorder="little")}

    def bits(self, reports: Reports) -> NDArray[np.uint8]:
        """Return (reports, m) zeros and ones."""
        return np.unpackbits(np.asarray(reports["bits"]), axis=1, bitorder="little", count=self.mechanism.m)

    def likelihood(self, reports: Reports) -> ReportLikelihood:
        cohort = int(reports["cohort"][0])
        permanent = 1.0 - self.mechanism.f / 2.0, self.mechanism.f / 2.0
        distribution = NoisyBits(
            self.bits(reports), self.positions(cohort), permanent, (self.mechanism.q, self.mechanism.p)
        )
        return ReportLikelihood(np.arange(self.mechanism.universe), distribution)


class MemoizedResponse(Memoizing):
    """L-GRR: memoize randomized response for each object, and send randomized response on it.

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

    def send(self, objects: Objects, users: Keys, event_index: Objects) -> Reports:
        check_objects(objects, self.mechanism.universe)
        return {"value": self.responses(objects, users, event_index)}

    def likelihood(self, reports: Reports) -> ReportLikelihood:
        objects = np.arange(self.mechanism.universe)
        return ReportLikelihood(objects, self.distribution(reports, objects))

    def responses(self, slots: Integers, users: Keys, event_index: Objects) -> NDArray[np.int64]:
        """Return (reports,) randomized response on the memoized responses of these slots, each of the user with that
        key.
        """
        mechanism, (permanent, out) = self.mechanism, np.empty((2, len(slots)), dtype=np.int64)
        local_hashing.randomized_response(
            slots, response_keys(slots, users), mechanism.values, mechanism.permanent[0], permanent
        )
        keys = fresh_keys(users, event_index)
        local_hashing.randomized_response(permanent, keys, mechanism.values, mechanism.instantaneous[0], out)
        return out

    def distribution(self, reports: Reports, slot_value: Integers) -> NoisyValues:
        """Return the likelihood of reports, given the value of each slot."""
        value = np.asarray(reports["value"], dtype=np.int64)
        made = self.mechanism
        return NoisyValues(value, slot_value, made.values, made.permanent, made.instantaneous)


class MemoizedHash(MemoizedResponse):
    """LOLOHA: a seed per user and a memoized response per hash value; send randomized response on it.

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
    def per_device_columns(self) -> Mapping[str, int]:
        return {"seed": 1 << self.mechanism.seed_bits}

    def seeds(self, users: Keys) -> NDArray[np.int64]:
        """Return (users,) the seed of each user."""
        out = np.empty(len(users), dtype=np.int64)
        local_hashing.seeds(device_keys(users), np.uint64(64 - self.mechanism.seed_bits), out)
        return out

    def send(self, objects: Objects, users: Keys, event_index: Objects) -> Reports:
        check_objects(objects, self.mechanism.universe)
        seed = self.seeds(users)
        hashed = self.mechanism.functions.values(seed, objects)
        return {"seed": seed, "value": self.responses(hashed, users, event_index).astype(np.int32)}

    def likelihood(self, reports: Reports) -> ReportLikelihood:
        objects = np.arange(self.mechanism.universe)
        seed = np.full(len(objects), np.asarray(reports["seed"])[0] if len(reports["seed"]) else 0, dtype=np.int64)
        values, slots = np.unique(self.mechanism.functions.values(seed, objects), return_inverse=True)
        return ReportLikelihood(slots, self.distribution(reports, values))


class MemoizedFlips(Memoizing):
    """L-SUE, L-OSUE, L-OUE, L-SOUE: memoize noisy bits for each object, and send them with noise added again.

    Examples
    --------
    >>> device = ps.mechanisms.device_of(ps.mechanisms.LSUE(universe=30, epsilon_perm=2.0, epsilon_1=1.0))
    >>> type(device).__name__
    'MemoizedFlips'
    >>> keys = np.array([1], dtype=np.uint64)
    >>> sorted(ps.mechanisms.reports_of(device, np.array([[7, 7, 7]]), keys))
    ['bits']
    """

    mechanism: TwoRoundUnary

    kind = TwoRoundUnary

    def permanent_bits(self, objects: Objects, users: Keys) -> NDArray[np.uint64]:
        """Return (reports, words) the memoized bits for objects (reports,), each of the user with that key."""
        m, (p, q) = self.mechanism.universe, self.mechanism.permanent
        out = np.empty((len(objects), words_of(m)), dtype=np.uint64)
        unary.flip_bits(objects, response_keys(objects, users), m, as_fixed_point(q), as_fixed_point(1.0 - p), out)
        return out

    def send(self, objects: Objects, users: Keys, event_index: Objects) -> Reports:
        m, (p, q) = self.mechanism.universe, self.mechanism.instantaneous
        check_objects(objects, m)
        permanent = self.permanent_bits(objects, users)
        out, lost = np.empty_like(permanent), np.empty(permanent.shape[1], dtype=np.uint64)
        unary.flip_bits_again(
            permanent, fresh_keys(users, event_index), m, as_fixed_point(q), as_fixed_point(1.0 - p), lost, out
        )
        return {"bits": as_bytes(out, m)}

    def likelihood(self, reports: Reports) -> ReportLikelihood:
        m, objects = self.mechanism.universe, np.arange(self.mechanism.universe)
        ones = np.unpackbits(np.asarray(reports["bits"]), axis=1, bitorder="little", count=m)
        return ReportLikelihood(
            objects, NoisyBits(ones, objects[None], self.mechanism.permanent, self.mechanism.instantaneous)
        )


class MemoizedPositions(Memoizing):
    """dBitFlipPM: positions per user and memoized bits per bucket, sent unchanged.

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
    def per_device_columns(self) -> Mapping[str, int]:
        return {"positions": math.comb(self.mechanism.buckets, self.mechanism.d)}

    def send(self, objects: Objects, users: Keys, event_index: Objects) -> Reports:
        check_objects(objects, self.mechanism.universe)
        buckets = self.mechanism.bucket_of[objects]
        responses = self.mechanism.responses(buckets, response_keys(buckets, users))
        return self.mechanism.pack_report(self.mechanism.positions(device_keys(users)), responses)

    def likelihood(self, reports: Reports) -> ReportLikelihood:
        return ReportLikelihood(self.mechanism.bucket_of, identical_reports(reports, self.mechanism.log_response_prob))


#: Class of mechanism -> the device that memoizes its permanent responses; for others whole reports are memoized.
DEVICES: dict[type, Callable[[Any], Device]] = {
    Rappor: MemoizedRappor,
    LGRR: MemoizedResponse,
    LOLOHA: MemoizedHash,
    TwoRoundUnary: MemoizedFlips,
    DBitFlip: MemoizedPositions,
}


def device_of(mechanism: Mechanism, *, memoize: bool | None = None) -> Device:
    """Return the device that sends the mechanism's reports.

    With `memoize`, a two-round mechanism memoizes its permanent round, and others memoize whole reports. By default,
    longitudinal mechanisms (L-GRR and the like, dBitFlip) memoize, and others do not.

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
    """Return whether devices of a mechanism, or of a class of mechanisms, memoize: as requested, else its default."""
    return bool(getattr(mechanism, "memoize_by_default", False)) if memoize is None else memoize


def _uniforms(keys: Keys, count: int) -> Floats:
    """Return (keys, count) uniform numbers, the first words of each key's stream."""
    out = np.empty((count, len(keys)))
    for i in range(count):
        uniforms(keys, i, out[i])
    return out.T
