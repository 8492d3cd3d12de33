"""Bits in words of 64: bit i is bit i mod 64, least significant first, of word i div 64."""

import numpy as np
from numba import njit

from poolscope.kernels.random import trailing_zeros

_ONE, _ZERO = np.uint64(1), np.uint64(0)
_S6, _LOW6 = np.uint64(6), np.uint64(63)


@njit(inline="always")
def is_set(words, position):
    return (words[position >> _S6] >> (position & _LOW6)) & _ONE


@njit(inline="always")
def set_bit(words, position):
    words[position >> _S6] |= _ONE << (position & _LOW6)


@njit(inline="always")
def clear_bit(words, position):
    words[position >> _S6] &= ~(_ONE << (position & _LOW6))


@njit(inline="always")
def set_positions(words, positions):
    """Write the positions of the set bits; return how many. Unsigned: a signed index would be checked for its sign."""
    count = 0
    for w in range(words.shape[0]):
        rest = words[w]
        first = np.uint64(64 * w)
        while rest != _ZERO:
            positions[count] = first + trailing_zeros(rest)
            count += 1
            rest &= rest - _ONE
    return count
