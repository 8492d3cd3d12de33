"""Reports with a bit for each object: noise, subsets, the mass of the set bits, and their counts.

PI-RAPPOR's subsets are lines over a finite field: the line (a, b) contains z if a z + b mod p is below k.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from poolscope.kernels.grouping import clear_bit, is_set, population, set_bit, sum_positions, sum_set_bits
from poolscope.kernels.hadamard import TILE
from poolscope.kernels.random import bernoulli_words, random_uint64, uniform

_BYTE, _ALL = np.uint64(0xFF), np.uint64(0xFFFFFFFFFFFFFFFF)

#: Byte -> a word with one of its bits in each byte.
SPREAD = np.array([sum((b >> i & 1) << 8 * i for i in range(8)) for b in range(256)], dtype=np.uint64)


@njit(nogil=True, cache=True)
def flip_bits(objects, keys, m, raised, dropped, out):
    """Draw noisy one-hot vectors: zeros become one with probability raised / 2^64, the one zero with dropped / 2^64."""
    spare = np.uint64(64 * out.shape[1] - m)
    for r in range(objects.shape[0]):
        words, own = out[r], np.uint64(objects[r])
        bernoulli_words(keys[r], 1, raised, words)
        words[words.shape[0] - 1] &= _ALL >> spare
        clear_bit(words, own)
        if random_uint64(keys[r], 0) >= dropped:
            set_bit(words, own)


@njit(nogil=True, cache=True)
def flip_bits_again(vectors, keys, m, raised, dropped, lost, out):
    """Add noise to bit vectors: zeros become one with probability raised / 2^64, ones become zero with dropped / 2^64.

    lost (as many words) is scratch.
    """
    spare = np.uint64(64 * out.shape[1] - m)
    for r in range(vectors.shape[0]):
        words = out[r]
        free = bernoulli_words(keys[r], 0, raised, words)
        bernoulli_words(keys[r], free, dropped, lost)
        for w in range(words.shape[0]):
            words[w] = (vectors[r, w] & ~lost[w]) | (words[w] & ~vectors[r, w])
        words[words.shape[0] - 1] &= _ALL >> spare


@njit(nogil=True, cache=True)
def choose_subsets(objects, keys, m, size, included, raised, out):
    """Draw uniform subsets of `size` of m objects, which include the true one with the given probability.

    Each of the others is included with probability raised / 2^64; then others are added or removed at random until the
    size is right. By symmetry the result is uniform for any such probability; a good one leaves few corrections.
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


@njit(nogil=True, cache=True)
def draw(objects, keys, prime, size, p, a, b):
    """Draw a uniform line that contains the object with probability p, else a uniform one that does not."""
    for r in range(objects.shape[0]):
        slope = np.int64(uniform(keys[r], 0) * prime)
        if uniform(keys[r], 1) < p:
            value = np.int64(uniform(keys[r], 2) * size)
        else:
            value = size + np.int64(uniform(keys[r], 2) * (prime - size))
        a[r] = slope
        b[r] = (value - slope * objects[r] % prime + prime) % prime


@njit(nogil=True, cache=True)
def support(a, b, prime, size, out):
    """Compute out[r, z]: whether line r contains z."""
    for r in range(out.shape[0]):
        value = b[r]
        for z in range(out.shape[1]):
            out[r, z] = value < size
            value += a[r]
            if value >= prime:
                value -= prime


@njit(nogil=True, cache=True)
def counts(a, b, prime, size, out):
    """Add the number of lines that contain z to out[z]."""
    for first in range(0, out.shape[0], TILE):
        part = out[first : first + TILE]
        for r in range(a.shape[0]):
            step, value = a[r], (a[r] * first + b[r]) % prime
            for z in range(part.shape[0]):
                part[z] += value < size
                value += step
                value -= prime if value >= prime else 0


@njit(nogil=True, cache=True)
def mass(a, b, prime, size, universe, rows, out):
    """Compute out[r, c], the sum of the table's rows at the objects on line r."""
    for r in range(out.shape[0]):
        step, value, count = a[r], b[r], 0
        for z in range(universe):
            # written unconditionally and overwritten unless it counts: no branch to mispredict
            rows.positions[np.uint64(count)] = np.uint64(z)
            count += value < size
            value += step
            value -= prime if value >= prime else 0
        sum_positions(rows, count, out[r])
