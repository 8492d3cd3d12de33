"""Bit vectors of reports: as bytes they are kept and written, as words they are drawn and read."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlog1py, xlogy

from poolscope.core.arrays import Floats
from poolscope.core.errors import InputError


def words_of(m: int) -> int:
    """Words that hold m bits."""
    return -(-m // 64)


def threshold(probability: float) -> np.uint64:
    """A probability below one as a 64-bit fraction."""
    return np.uint64(int(probability * 2.0**64))


def as_bytes(words: NDArray[np.uint64], m: int) -> NDArray[np.uint8]:
    """(reports, ceil(m / 8)): bit i is bit i mod 8, least significant first, of byte i div 8."""
    # reports are many: without a copy wherever the words are the bytes already
    return np.ascontiguousarray(words.astype("<u8", copy=False).view(np.uint8)[:, : -(-m // 8)])


def check_bits(bits: NDArray[np.uint8], m: int) -> None:
    """(reports, ceil(m / 8)) bytes."""
    size = -(-m // 8)
    if bits.ndim != 2 or bits.shape[1] != size:
        raise InputError(f"bits must be {size} bytes (m = {m})", value=bits.shape[1:])
    if m % 8 and np.any(bits[:, -1] >> (m % 8)):
        raise InputError(f"no bit beyond m = {m} may be set")


def log_bit_measure(bits: NDArray[np.uint8], m: int, own: float, other: float) -> Floats:
    """(reports,) log Pr[bits | an object whose bit is set]: its own is one with probability `own`, others with `other`.

    A report without any bit supports nothing. An object outside the support is less likely by the odds of the two
    bits, from which its probability follows for any number of bits.
    """
    check_bits(bits, m)
    ones = np.bitwise_count(bits).sum(axis=1, dtype=np.int64)
    if not other:
        return np.where(ones == 1, math.log(own), -np.inf)
    found: Floats = math.log(own) + xlogy(ones - 1, other) + xlog1py(m - ones, -other)
    return found


def as_words(bits: NDArray[np.uint8], m: int) -> NDArray[np.uint64]:
    """(reports, words) from bytes, whose number is checked."""
    check_bits(bits, m)
    size = bits.shape[1]
    if size % 8 == 0:
        return np.ascontiguousarray(bits).view("<u8").astype(np.uint64, copy=False)
    padded = np.zeros((len(bits), 8 * words_of(m)), dtype=np.uint8)
    padded[:, :size] = bits
    return padded.view("<u8").astype(np.uint64, copy=False)
