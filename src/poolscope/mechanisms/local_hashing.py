"""Local hashing: randomized response on the object's hash; a report names its hash function by a seed."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arrays import Floats, Integers, Keys, Objects
from poolscope.core.errors import InputError, did_you_mean
from poolscope.kernels import hashing, local_hashing
from poolscope.mechanisms.grr import randomized_response
from poolscope.mechanisms.protocols import (
    MAX_EPSILON,
    PoolWeights,
    ReportColumn,
    Reports,
    check_epsilon,
    check_objects,
    derived_field,
    set_frozen,
)
from poolscope.mechanisms.pure import BasicPureMechanism, uniform_base_measure
from poolscope.mechanisms.sketch import packed_layout

Seeds = NDArray[np.int64]
Values = NDArray[np.integer]


@dataclass(frozen=True)
class SeededHash(ABC):
    """Seeded hash functions; a report (seed, value) supports the objects whose hash under the seed is the value."""

    universe: int
    g: int

    #: Kernels of the values of objects, the supports, and the support counts.
    kernels: ClassVar[tuple[Callable[..., None], ...]]

    @property
    @abstractmethod
    def parameters(self) -> tuple[Any, ...]:
        """Arguments of every kernel that describe the functions."""

    def values(self, seed: Seeds, objects: Objects) -> Integers:
        """Return (reports,) the hash of objects[i] under seed[i]."""
        out = np.empty(len(seed), dtype=np.int64)
        self.kernels[0](seed, objects, *self.parameters, out)
        return out

    def support(self, seed: Seeds, value: Values) -> NDArray[np.bool_]:
        """Return (reports, universe) whether each seed hashes each object to the report's value."""
        out = np.empty((len(seed), self.universe), dtype=np.bool_)
        self.kernels[1](seed, value, *self.parameters, out)
        return out

    def counts(self, seed: Seeds, value: Values) -> NDArray[np.int64]:
        """Return (universe,) the support counts."""
        out = np.zeros(self.universe, dtype=np.int64)
        self.kernels[2](seed, value, *self.parameters, out)
        return out

    @abstractmethod
    def mass(self, seed: Seeds, value: Values, pool_weights: PoolWeights) -> Floats:
        """Return (reports, width) the weights of the supported objects, summed in each column."""


class MultiplyShift(SeededHash):
    r"""Strongly universal functions of 63 bits of seed.

    With a and b the words 0 and 1 that SplitMix64 makes of the seed, and h the upper 32 bits of (a z + b) modulo 2^64,

    .. math:: h_s(z) = \lfloor g h / 2^{32} \rfloor

    For uniform a and b, and objects below 2^32, the hashes h of any two objects are independent and uniform (strong
    universality), and p*, q* and the variance rest on pairs alone.

    References
    ----------
    M. Dietzfelbinger. Universal hashing and k-wise independent random variables via integer arithmetic without primes.
    STACS 1996.
    """

    kernels = local_hashing.hashed_values, local_hashing.hashed_support, local_hashing.hashed_counts

    @property
    def parameters(self) -> tuple[Any, ...]:
        return (self.g,)

    def mass(self, seed: Seeds, value: Values, pool_weights: PoolWeights) -> Floats:
        out = np.empty((len(seed), pool_weights.width))
        local_hashing.hashed_mass(seed, value, self.g, self.universe, packed_layout(pool_weights).rows(), out)
        return out


@dataclass(frozen=True)
class XXHash32(SeededHash):
    r"""The functions of pure-ldp and multi-freq-ldpy, and of the authors of local hashing before them.

    .. math:: h_s(z) = \mathrm{XXH32}(\text{z in decimals}, s \bmod 2^{32}) \bmod g

    with objects numbered from 0. Both libraries draw seeds below 2^63, of which XXH32 uses the lower 32 bits. That the
    hashes of two objects are independent over the seeds has no proof, but the tests find no deviation. The kernels
    reproduce the values of the library xxhash without a call per report and object.
    """

    texts: NDArray[np.uint8] = field(init=False, repr=False, compare=False)
    lengths: NDArray[np.int64] = field(init=False, repr=False, compare=False)

    kernels = hashing.values, hashing.support, hashing.counts

    def __post_init__(self) -> None:
        written = np.arange(self.universe).astype(f"S{len(str(self.universe))}")
        texts = written.view(np.uint8).reshape(self.universe, -1)
        set_frozen(self, texts=texts, lengths=np.count_nonzero(texts, axis=1).astype(np.int64))

    @property
    def parameters(self) -> tuple[Any, ...]:
        return self.texts, self.lengths, self.g

    def mass(self, seed: Seeds, value: Values, pool_weights: PoolWeights) -> Floats:
        out = np.empty((len(seed), pool_weights.width))
        hashing.mass(seed, value, *self.parameters, packed_layout(pool_weights).rows(), out)
        return out


#: Name in a scenario -> constructor from the size of the universe and the number of hash values.
HASHES: dict[str, Callable[[int, int], SeededHash]] = {"multiply-shift": MultiplyShift, "xxhash32": XXHash32}


def seeded_hash(name: str, universe: int, g: int) -> SeededHash:
    """Return the hash functions of this name."""
    if name not in HASHES:
        raise InputError("must be a known hash", value=name, place="hash", remedy=did_you_mean(name, HASHES))
    return HASHES[name](universe, g)


#: Maximum number of hash values: 2^32 hashes are then uniform to one part in 256. Only epsilon > 16.6 needs more.
MAX_VALUES = 1 << 24

#: Bits of a seed: the non-negative values of a signed 64-bit column.
SEED_BITS = 63


@dataclass(frozen=True, kw_only=True)
class LocalHashing(BasicPureMechanism):
    r"""Binary and optimized local hashing.

    A report of z is (s, y): the seed s of a hash function to 0..g-1, uniform over the seeds, and y, randomized response
    on h_s(z): the hash itself with probability p*, each other value with probability 1 / (e^epsilon + g - 1). It
    supports the objects with h_s(z) = y, with the likelihood ratio e^epsilon. Two objects have the same hash under 1/g
    of the functions, so that another object is supported with probability p*/g + (1 - 1/g) (1-p*)/(g-1) = 1/g:

    .. math:: p^* = \frac{e^\epsilon}{e^\epsilon + g - 1}, \qquad q^* = \frac1g, \qquad
              \mathrm{Var}_0 = N \frac{(e^\epsilon - 1 + g)^2}{(e^\epsilon - 1)^2 (g - 1)}

    with Var_0 the variance of the estimated count of an object that nobody has. Binary local hashing has g = 2. The
    variance is minimal for g = e^epsilon + 1, which optimized local hashing rounds. It then equals that of optimized
    unary encoding, with reports of a few bytes for universes of any size.

    The hash functions belong to the deployment: `MultiplyShift` is our own family, `XXHash32` that of other libraries.
    Reports read with the wrong family carry no information. A small `seed_bits` is fast local hashing: the curator
    hashes each object once per seed, and objects that collide under all seeds cannot be distinguished.

    Parameters
    ----------
    hash : the functions, by name (`HASHES`).
    seed_bits : seeds are 0..2^seed_bits - 1.

    References
    ----------
    T. Wang, J. Blocki, N. Li, S. Jha. Locally differentially private protocols for frequency estimation. USENIX
    Security 2017.
    R. Bassily, A. Smith. Local, private, efficient protocols for succinct histograms. STOC 2015.
    """

    g: int
    seed_bits: int = SEED_BITS
    hash: str = "multiply-shift"
    functions: SeededHash = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 2 <= self.g <= MAX_VALUES:
            raise InputError(f"must be 2 to {MAX_VALUES}", value=self.g, place="g")
        if not 1 <= self.seed_bits <= SEED_BITS:
            raise InputError(f"must be 1 to {SEED_BITS}", value=self.seed_bits, place="seed_bits")
        set_frozen(self, functions=seeded_hash(self.hash, self.universe, self.g))

    @property
    def report_columns(self) -> dict[str, ReportColumn]:
        return {"seed": ReportColumn("integer", 1 << self.seed_bits), "value": ReportColumn("integer", self.g)}

    @property
    def p_star(self) -> float:
        return randomized_response(self.epsilon, self.g)[0]

    @property
    def q_star(self) -> float:
        return 1.0 / self.g

    def report(self, objects: Objects, keys: Keys) -> Reports:
        check_objects(objects, self.universe)
        seed, value = np.empty(len(objects), dtype=np.int64), np.empty(len(objects), dtype=np.int32)
        local_hashing.seeds(keys, np.uint64(64 - self.seed_bits), seed)
        local_hashing.randomized_response(self.functions.values(seed, objects), keys, self.g, self.p_star, value)
        return {"seed": seed, "value": value}

    def log_base_measure(self, reports: Reports) -> Floats:
        return uniform_base_measure(reports, self.p_star, 2**self.seed_bits)

    def support(self, reports: Reports) -> NDArray[np.bool_]:
        return self.functions.support(reports["seed"], reports["value"])

    def mass(self, reports: Reports, pool_weights: PoolWeights) -> Floats:
        return self.functions.mass(reports["seed"], reports["value"], pool_weights)

    def support_counts(self, reports: Reports) -> NDArray[np.int64]:
        return self.functions.counts(reports["seed"], reports["value"])


@dataclass(frozen=True, kw_only=True)
class BLH(LocalHashing):
    """Binary local hashing: one bit and its seed.

    Examples
    --------
    >>> blh = ps.mechanisms.BLH(universe=30, epsilon=1.0)
    >>> sorted(blh.obfuscate(np.array([3, 4]), rng))
    ['seed', 'value']
    """

    g: int = field(init=False, default=2)


@dataclass(frozen=True, kw_only=True)
class OLH(LocalHashing):
    """Optimized local hashing: g = round(e^ε) + 1 hash values by default.

    Examples
    --------
    >>> ps.mechanisms.OLH(universe=30, epsilon=2.0).g
    8
    """

    g: int = derived_field()

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        if self.g is None:
            set_frozen(self, g=min(round(math.exp(min(self.epsilon, MAX_EPSILON))) + 1, MAX_VALUES))
        super().__post_init__()
