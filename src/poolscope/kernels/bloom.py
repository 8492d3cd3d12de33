"""Bloom filters with noise: reports by cohort, how many of an object's bits are set, and what that weighs.

A cohort's `positions` (hashes, universe) are the bits of every object, each once: where two functions agree the second
is m, a position that no report has. A *code* says of a report and an object, in one number, how many bits the object
has and how many of them are set: (hashes + 1) * bits + set.
"""

import numpy as np
from numba import njit

from poolscope.kernels.coins import bernoulli_words
from poolscope.kernels.random import word
from poolscope.kernels.words import clear_bit, is_set, set_bit

_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@njit(nogil=True, cache=True)
def obfuscate(starts, order, positions, objects, keys, m, raised, dropped, out):
    """Zeros of the filter become one with probability raised / 2^64, ones become zero with dropped / 2^64."""
    spare = np.uint64(64 * out.shape[1] - m)
    for f in range(positions.shape[0]):
        for i in range(starts[f], starts[f + 1]):
            r = order[i]
            words = out[r]
            free = bernoulli_words(keys[r], 1, raised, words)
            words[words.shape[0] - 1] &= _ALL >> spare
            for h in range(positions.shape[1]):
                at = np.uint64(positions[f, h, objects[r]])
                if at < np.uint64(m):
                    clear_bit(words, at)
                    if word(keys[r], free + h) >= dropped:
                        set_bit(words, at)


@njit(inline="always")
def _bit_codes(words, m, hashes, out):
    """out[b] = what bit b adds to the code of an object that has it, out[m] = 0; return how many bits are set."""
    total = 0
    for b in range(m):
        bit = np.int64(is_set(words, np.uint64(b)))
        total += bit
        out[b] = hashes + 1 + bit
    out[m] = 0
    return total


@njit(inline="always")
def _codes(positions, bit_codes, out):
    """out[z] = code of object z."""
    first = positions[0]
    for z in range(out.shape[0]):
        out[z] = bit_codes[first[z]]
    for h in range(1, positions.shape[0]):
        further = positions[h]
        for z in range(out.shape[0]):
            out[z] += bit_codes[further[z]]


@njit(nogil=True, cache=True)
def likelihood_mass(starts, order, positions, words, m, logs, table, bit_codes, codes, weights, sums, out):
    """out[r, c] = sum over objects of likelihood times table[z, c], over the likelihood of the report's best object.

    logs[t, code] is the log-likelihood of a report with t set bits; table (universe, wide), weights (codes,), sums
    (wide,) and codes (universe,) are scratch but for the table.
    """
    hashes, wide = positions.shape[1], sums.shape[0]
    for f in range(positions.shape[0]):
        for i in range(starts[f], starts[f + 1]):
            r = order[i]
            total = _bit_codes(words[r], m, hashes, bit_codes)
            _codes(positions[f], bit_codes, codes)
            weights[:] = 0.0
            for z in range(codes.shape[0]):
                weights[codes[z]] = 1.0
            best = -np.inf
            for c in range(weights.shape[0]):
                if weights[c] > 0.0:
                    best = max(best, logs[total, c])
            for c in range(weights.shape[0]):
                weights[c] = np.exp(logs[total, c] - best) if logs[total, c] > -np.inf else 0.0
            sums[:] = 0.0
            for z in range(codes.shape[0]):
                weight = weights[codes[z]]
                for c in range(wide):
                    sums[c] += weight * table[z, c]
            for c in range(out.shape[1]):
                out[r, c] = sums[c]


@njit(nogil=True, cache=True)
def full_counts(starts, order, positions, words, m, bit_codes, codes, out):
    """out[z] += number of reports with all bits of object z set."""
    hashes = positions.shape[1]
    for f in range(positions.shape[0]):
        for i in range(starts[f], starts[f + 1]):
            _bit_codes(words[order[i]], m, hashes, bit_codes)
            _codes(positions[f], bit_codes, codes)
            for z in range(codes.shape[0]):
                # bits and set bits alike: a multiple of hashes + 2
                out[z] += codes[z] % (hashes + 2) == 0
