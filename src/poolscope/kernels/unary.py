"""Reports with a bit for each object: noise, subsets, the mass of the set bits, and their counts."""

from __future__ import annotations

import numpy as np
from numba import njit

from poolscope.kernels.grouping import clear_bit, is_set, popcount, set_bit, sum_set_bits
from poolscope.kernels.random import bernoulli_words, random_uint64, uniform

_BYTE, _ALL = np.uint64(0xFF), np.uint64(0xFFFFFFFFFFFFFFFF)

#: Byte -> a word with one of its bits in each byte.
SPREAD = np.array([sum((b >> i & 1) << 8 * i for i in range(8)) for b in range(256)], dtype=np.uint64)


@njit(nogil=True, cache=True)
def flip_bits(objects, keys, m, threshold_0_to_1, threshold_1_to_0, out):
    """Draw noisy one-hot vectors.

    Zeros become one with probability threshold_0_to_1 / 2^64, the one zero with threshold_1_to_0 / 2^64.
    """
    spare = np.uint64(64 * out.shape[1] - m)
    for r in range(objects.shape[0]):
        words, own = out[r], np.uint64(objects[r])
        bernoulli_words(keys[r], 1, threshold_0_to_1, words)
        words[words.shape[0] - 1] &= _ALL >> spare
        clear_bit(words, own)
        if random_uint64(keys[r], 0) >= threshold_1_to_0:
            set_bit(words, own)


@njit(nogil=True, cache=True)
def flip_bits_again(vectors, keys, m, threshold_0_to_1, threshold_1_to_0, lost, out):
    """Add noise to bit vectors; lost (as many words) is scratch.

    Zeros become one with probability threshold_0_to_1 / 2^64, ones become zero with threshold_1_to_0 / 2^64.
    """
    spare = np.uint64(64 * out.shape[1] - m)
    for r in range(vectors.shape[0]):
        words = out[r]
        free = bernoulli_words(keys[r], 0, threshold_0_to_1, words)
        bernoulli_words(keys[r], free, threshold_1_to_0, lost)
        for w in range(words.shape[0]):
            words[w] = (vectors[r, w] & ~lost[w]) | (words[w] & ~vectors[r, w])
        words[words.shape[0] - 1] &= _ALL >> spare


@njit(nogil=True, cache=True)
def choose_subsets(objects, keys, m, size, included, threshold_0_to_1, out):
    """Draw uniform subsets of `size` of m objects, which include the true one with the given probability.

    Each of the others is included with probability threshold_0_to_1 / 2^64. Then others are added or removed at random
    until the size is right. By symmetry the result is uniform for any such probability; a good one leaves few
    corrections.
    """
    spare = np.uint64(64 * out.shape[1] - m)
    for r in range(objects.shape[0]):
        words, own = out[r], np.uint64(objects[r])
        free = bernoulli_words(keys[r], 1, threshold_0_to_1, words)
        words[words.shape[0] - 1] &= _ALL >> spare
        clear_bit(words, own)
        missing = size - 1 if uniform(keys[r], 0) < included else size
        with_own = missing < size
        for w in range(words.shape[0]):
            missing -= np.int64(popcount(words[w]))
        while missing != 0:
            at = np.uint64(uniform(keys[r], free) * m)
            free += 1
            if at != own:
                there = is_set(words, at)
                if missing > 0 and not there:
                    set_bit(words, at)
                    missing -= 1
                elif missing < 0 and there:
                    clear_bit(words, at)
                    missing += 1
        if with_own:
            set_bit(words, own)


@njit(nogil=True, cache=True)
def support_mass(words, rows, positions, out):
    """Compute out[positions[r], c], the sum of the table's rows at the set bits of report r."""
    for r in range(words.shape[0]):
        sum_set_bits(words[r], rows, out[positions[r]])


@njit(nogil=True, cache=True)
def count_bits(bits, spread, tally, out):
    """Add the number of reports whose bit i is set to out[i]; bits (reports, bytes), tally (bytes,) scratch.

    The eight bits of a byte are counted at once, in the eight bytes of a word, which are flushed before they overflow.
    """
    reports, size = bits.shape
    for start in range(0, reports, 255):
        tally[:] = np.uint64(0)
        for r in range(start, min(start + 255, reports)):
            for b in range(size):
                tally[b] += spread[bits[r, b]]
        for i in range(out.shape[0]):
            out[i] += np.int64((tally[i >> 3] >> np.uint64(8 * (i & 7))) & _BYTE)
