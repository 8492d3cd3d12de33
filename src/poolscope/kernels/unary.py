"""Reports that are a bit for each object: noise, subsets, the mass of the set bits, and their counts."""

import numpy as np
from numba import njit

from poolscope.kernels.coins import bernoulli_words
from poolscope.kernels.random import uniform, word
from poolscope.kernels.rows import sum_set_bits
from poolscope.kernels.words import clear_bit, is_set, population, set_bit

_BYTE, _ALL = np.uint64(0xFF), np.uint64(0xFFFFFFFFFFFFFFFF)

#: Byte -> its bits, one to a byte of the word.
SPREAD = np.array([sum((b >> i & 1) << 8 * i for i in range(8)) for b in range(256)], dtype=np.uint64)


@njit(nogil=True, cache=True)
def flip_bits(objects, keys, m, raised, dropped, out):
    """One-hot vectors with noise: zeros become one with probability raised / 2^64, the one zero with dropped / 2^64."""
    spare = np.uint64(64 * out.shape[1] - m)
    for r in range(objects.shape[0]):
        words, own = out[r], np.uint64(objects[r])
        bernoulli_words(keys[r], 1, raised, words)
        words[words.shape[0] - 1] &= _ALL >> spare
        clear_bit(words, own)
        if word(keys[r], 0) >= dropped:
            set_bit(words, own)


@njit(nogil=True, cache=True)
def flip_again(answers, keys, m, raised, dropped, lost, out):
    """Bit vectors with noise: zeros become one with probability raised / 2^64, ones become zero with dropped / 2^64.

    lost (as many words) is scratch.
    """
    spare = np.uint64(64 * out.shape[1] - m)
    for r in range(answers.shape[0]):
        words = out[r]
        free = bernoulli_words(keys[r], 0, raised, words)
        bernoulli_words(keys[r], free, dropped, lost)
        for w in range(words.shape[0]):
            words[w] = (answers[r, w] & ~lost[w]) | (words[w] & ~answers[r, w])
        words[words.shape[0] - 1] &= _ALL >> spare


@njit(nogil=True, cache=True)
def choose_subsets(objects, keys, m, size, included, raised, out):
    """Uniform subsets of so many of m objects, which include the own one with the given probability.

    Each of the others is taken with probability raised / 2^64, then others are added or removed at random until their
    number is right. By symmetry the result is uniform, whatever the probability; a good one leaves little to do.
    """
    spare = np.uint64(64 * out.shape[1] - m)
    for r in range(objects.shape[0]):
        words, own = out[r], np.uint64(objects[r])
        free = bernoulli_words(keys[r], 1, raised, words)
        words[words.shape[0] - 1] &= _ALL >> spare
        clear_bit(words, own)
        missing = size - 1 if uniform(keys[r], 0) < included else size
        with_own = missing < size
        for w in range(words.shape[0]):
            missing -= np.int64(population(words[w]))
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
def support_mass(words, rows, places, out):
    """out[places[r], c] = sum of the table's rows at the set bits of report r."""
    for r in range(words.shape[0]):
        sum_set_bits(words[r], rows, out[places[r]])


@njit(nogil=True, cache=True)
def count_bits(bits, spread, tally, out):
    """out[i] += number of reports whose bit i is set; bits (reports, bytes), tally (bytes,) scratch.

    A byte's eight bits are counted at once, in the eight bytes of a word, which are emptied before they overflow.
    """
    reports, size = bits.shape
    for start in range(0, reports, 255):
        tally[:] = np.uint64(0)
        for r in range(start, min(start + 255, reports)):
            for b in range(size):
                tally[b] += spread[bits[r, b]]
        for i in range(out.shape[0]):
            out[i] += np.int64((tally[i >> 3] >> np.uint64(8 * (i & 7))) & _BYTE)
