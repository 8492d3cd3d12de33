"""Hash functions that a seed names, one for each report, from objects to values 0..g-1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arrays import Floats, Integers, Objects
from poolscope.core.errors import InputError, did_you_mean
from poolscope.kernels import hadamard, hashing
from poolscope.mechanisms.layout import packed
from poolscope.mechanisms.role import settle
from poolscope.mechanisms.views import Views

Seeds = NDArray[np.int64]
Values = NDArray[np.integer]


class SeededHash(Protocol):
    """Functions of objects 0..universe-1, and which objects the reports (seed, value) support: those of that value."""

    def values(self, seed: Seeds, objects: Objects) -> Integers:
        """(reports,) the value of one object under each seed: seeds and objects side by side."""
        ...

    def support(self, seed: Seeds, value: Values) -> NDArray[np.bool_]:
        """(reports, universe) whether the seed hashes each object to the value."""
        ...

    def counts(self, seed: Seeds, value: Values) -> NDArray[np.int64]:
        """(universe,) how many of the seeds hash each object to their values."""
        ...

    def mass(self, seed: Seeds, value: Values, views: Views) -> Floats:
        """(reports, width) sum of the rows of the matrix (universe, width) at the supported objects."""
        ...


@dataclass(frozen=True)
class MultiplyShift:
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

    universe: int
    g: int

    def values(self, seed: Seeds, objects: Objects) -> Integers:
        out = np.empty(len(seed), dtype=np.int64)
        hadamard.hashed_values(seed, objects, self.g, out)
        return out

    def support(self, seed: Seeds, value: Values) -> NDArray[np.bool_]:
        out = np.empty((len(seed), self.universe), dtype=np.bool_)
        hadamard.hashed_support(seed, value, self.g, out)
        return out

    def counts(self, seed: Seeds, value: Values) -> NDArray[np.int64]:
        out = np.zeros(self.universe, dtype=np.int64)
        hadamard.hashed_counts(seed, value, self.g, out)
        return out

    def mass(self, seed: Seeds, value: Values, views: Views) -> Floats:
        out = np.empty((len(seed), views.width))
        hadamard.hashed_mass(seed, value, self.g, self.universe, packed(views).rows(), out)
        return out


@dataclass(frozen=True)
class XXHash32:
    r"""The functions of pure-ldp and multi-freq-ldpy, and of the authors of local hashing before them.

    .. math:: h_s(z) = \mathrm{XXH32}(\text{z in decimals}, s \bmod 2^{32}) \bmod g

    with objects numbered from 0. Both libraries draw seeds below 2^63, of which XXH32 takes the lower 32 bits. No proof
    says that two objects are independent over the seeds; the tests find them so. Own kernels: the values are those of
    every version of the library xxhash, without a call for each report and object.
    """

    universe: int
    g: int
    texts: NDArray[np.uint8] = field(init=False, repr=False, compare=False)
    lengths: NDArray[np.int64] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        written = np.arange(self.universe).astype(f"S{len(str(self.universe))}")
        texts = written.view(np.uint8).reshape(self.universe, -1)
        settle(self, texts=texts, lengths=np.count_nonzero(texts, axis=1).astype(np.int64))

    def values(self, seed: Seeds, objects: Objects) -> Integers:
        out = np.empty(len(seed), dtype=np.int64)
        hashing.values(seed, objects, self.texts, self.lengths, self.g, out)
        return out

    def support(self, seed: Seeds, value: Values) -> NDArray[np.bool_]:
        out = np.empty((len(seed), self.universe), dtype=np.bool_)
        hashing.support(seed, value, self.texts, self.lengths, self.g, out)
        return out

    def counts(self, seed: Seeds, value: Values) -> NDArray[np.int64]:
        out = np.zeros(self.universe, dtype=np.int64)
        hashing.counts(seed, value, self.texts, self.lengths, self.g, out)
        return out

    def mass(self, seed: Seeds, value: Values, views: Views) -> Floats:
        out = np.empty((len(seed), views.width))
        hashing.mass(seed, value, self.texts, self.lengths, self.g, packed(views).rows(), out)
        return out


#: Name in a scenario -> the functions, made from the size of the universe and the number of values.
HASHES: dict[str, Callable[[int, int], SeededHash]] = {"multiply-shift": MultiplyShift, "xxhash32": XXHash32}


def seeded_hash(name: str, universe: int, g: int) -> SeededHash:
    """The functions of this name."""
    if name not in HASHES:
        raise InputError("must be a known hash", value=name, place="hash", remedy=did_you_mean(name, HASHES))
    return HASHES[name](universe, g)
