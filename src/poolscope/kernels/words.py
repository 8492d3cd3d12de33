"""Bits in words of 64: bit i is bit i mod 64, least significant first, of word i div 64."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from poolscope.kernels.random import trailing_zeros

#: Positions that are written at a time.
AT_ONCE = 10

_ONE, _ZERO = np.uint64(1), np.uint64(0)
_S6, _LOW6 = np.uint64(6), np.uint64(63)


def positions_room(bits: int) -> NDArray[np.uint64]:
    """Room for `set_positions` of so many bits: it writes beyond the last."""
    return np.empty(-(-bits // 64) * 64 + AT_ONCE, dtype=np.uint64)


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
def population(word):
    """Number of set bits of a word: in pairs, fours and bytes, which one product sums."""
    word -= (word >> _ONE) & np.uint64(0x5555555555555555)
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (word * np.uint64(0x0101010101010101)) >> np.uint64(56)


@njit(inline="always")
def set_positions(words, positions):
    """Write the positions of the set bits to their room (`positions_room`); return how many.

    Unsigned: a signed index would be checked for its sign.

    A word's positions are written several at a time, whether there are so many or not: a loop that ends after each
    word's own number of bits is mispredicted at every word.
    """
    count = _ZERO
    for w in range(words.shape[0]):
        rest, here = words[w], count
        first = np.uint64(64 * w)
        count += population(rest)
        while here < count:
            for i in range(AT_ONCE):
                positions[here + np.uint64(i)] = first + trailing_zeros(rest)
                rest &= rest - _ONE
            here += np.uint64(AT_ONCE)
    return np.int64(count)
