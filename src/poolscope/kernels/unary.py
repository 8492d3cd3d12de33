"""Reports with a bit for each object: noise, subsets, the mass of the set bits, and their counts.

PI-RAPPOR's subsets are lines over a finite field: the line (a, b) holds z if a z + b mod p is below k.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from poolscope.kernels.grouping import clear_bit, is_set, population, set_bit, sum_positions, sum_set_bits
from poolscope.kernels.hadamard import TILE
from poolscope.kernels.random import bernoulli_words, uniform, word

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
def flip_bits_again(answers, keys, m, raised, dropped, lost, out):
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
def support_mass(words, rows, positions, out):
    """out[places[r], c] = sum of the table's rows at the set bits of report r."""
    for r in range(words.shape[0]):
        sum_set_bits(words[r], rows, out[positions[r]])


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


@njit(nogil=True, cache=True)
def draw(objects, keys, prime, had, kept, a, b):
    """A uniform line that has the object, with probability `kept`; else a uniform one that has not."""
    for r in range(objects.shape[0]):
        likelihood_scale = np.int64(uniform(keys[r], 0) * prime)
        if uniform(keys[r], 1) < kept:
            value = np.int64(uniform(keys[r], 2) * had)
        else:
            value = had + np.int64(uniform(keys[r], 2) * (prime - had))
        a[r] = likelihood_scale
        b[r] = (value - likelihood_scale * objects[r] % prime + prime) % prime


@njit(nogil=True, cache=True)
def support(a, b, prime, had, out):
    """out[r, z] = whether line r has z."""
    for r in range(out.shape[0]):
        value = b[r]
        for z in range(out.shape[1]):
            out[r, z] = value < had
            value += a[r]
            if value >= prime:
                value -= prime


@njit(nogil=True, cache=True)
def counts(a, b, prime, had, out):
    """out[z] += number of lines that have z."""
    for first in range(0, out.shape[0], TILE):
        part = out[first : first + TILE]
        for r in range(a.shape[0]):
            step, value = a[r], (a[r] * first + b[r]) % prime
            for z in range(part.shape[0]):
                part[z] += value < had
                value += step
                value -= prime if value >= prime else 0


@njit(nogil=True, cache=True)
def mass(a, b, prime, had, universe, rows, out):
    """out[r, c] = sum of the table's rows at the objects that line r has."""
    for r in range(out.shape[0]):
        step, value, count = a[r], b[r], 0
        for z in range(universe):
            # written always, kept if it counts: there is no branch to mispredict
            rows.positions[np.uint64(count)] = np.uint64(z)
            count += value < had
            value += step
            value -= prime if value >= prime else 0
        sum_positions(rows, count, out[r])
