"""Noisy Bloom filters: reports by cohort, and the likelihood masses of reports.

`positions` (hashes, universe) of a cohort are the bits of every object, each once: where two hash functions agree, the
second is m, a position that no report has. A *code* combines, for a report and an object, the number of the object's
bits and how many of them are set: (hashes + 1) * bits + set.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from poolscope.kernels.compilation import inner
from poolscope.kernels.grouping import clear_bit, is_set, positions_buffer, set_bit, set_positions
from poolscope.kernels.random import bernoulli_words, random_uint64

_ONE = np.uint64(1)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@njit(nogil=True, cache=True)
def obfuscate(starts, order, positions, objects, keys, m, threshold_0_to_1, threshold_1_to_0, out):
    """Set zeros of the filter with probability threshold_0_to_1 / 2^64, and clear ones with threshold_1_to_0 / 2^64."""
    spare = np.uint64(64 * out.shape[1] - m)
    for f in range(positions.shape[0]):
        for i in range(starts[f], starts[f + 1]):
            r = order[i]
            words = out[r]
            free = bernoulli_words(keys[r], 1, threshold_0_to_1, words)
            words[words.shape[0] - 1] &= _ALL >> spare
            for h in range(positions.shape[1]):
                at = np.uint64(positions[f, h, objects[r]])
                if at < np.uint64(m):
                    clear_bit(words, at)
                    if random_uint64(keys[r], free + h) >= threshold_1_to_0:
                        set_bit(words, at)


@njit(inline="always")
def _bit_codes(words, m, hashes, out):
    """Compute out[b], what bit b adds to the code of an object that has it, with out[m] = 0; return the number of set
    bits.
    """
    total = 0
    for b in range(m):
        bit = np.int64(is_set(words, np.uint64(b)))
        total += bit
        out[b] = hashes + 1 + bit
    out[m] = 0
    return total


@njit(inline="always")
def _codes(positions, bit_codes, out):
    """Compute out[z], the code of object z."""
    first = positions[0]
    for z in range(out.shape[0]):
        out[z] = bit_codes[first[z]]
    for h in range(1, positions.shape[0]):
        further = positions[h]
        for z in range(out.shape[0]):
            out[z] += bit_codes[further[z]]


@njit(nogil=True, cache=True)
def likelihood_mass(starts, order, positions, words, m, logs, table, bit_codes, codes, weights, sums, out):
    """Compute out[r, c] = sum over objects of likelihood * table[z, c], over the likelihood of the report's best
    object.

    logs[t, code] is the log likelihood of a report with t set bits; table (universe, wide) holds the popularities.
    Scratch: weights (codes,), sums (wide,), codes (universe,), bit_codes (m + 1,).
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


class CohortMasses(NamedTuple):
    """The objects of one cohort by their bits, and scratch for one report.

    The weight of an object is its likelihood under a report that has none of its bits.
    """

    weight: NDArray[np.float64]  # (universe,)
    table: NDArray[np.float64]  # (universe, wide) weight times popularity of each object
    sums: NDArray[np.float64]  # (m, wide) sums over the objects that have a bit
    best: NDArray[np.float64]  # (m,) their largest weight
    whole: NDArray[np.float64]  # (wide,) sums over all objects
    first: NDArray[np.int64]  # (m + 1,) first entry of each bit in `objects`
    objects: NDArray[np.int64]  # (hashes * universe,) objects ordered by bit
    positions: NDArray[np.uint64]  # `positions_buffer` of a report
    held: NDArray[np.uint8]  # (universe,) set bits of each object; zero between reports
    several: NDArray[np.int64]  # (universe + 1,) objects with two or more set bits


def cohort_masses(universe: int, hashes: int, m: int, wide: int) -> CohortMasses:
    """Allocate the masses of a cohort."""
    return CohortMasses(
        weight=np.empty(universe),
        table=np.empty((universe, wide)),
        sums=np.empty((m, wide)),
        best=np.empty(m),
        whole=np.empty(wide),
        first=np.empty(m + 1, dtype=np.int64),
        objects=np.empty(hashes * universe, dtype=np.int64),
        positions=positions_buffer(m),
        held=np.zeros(universe, dtype=np.uint8),
        several=np.empty(universe + 1, dtype=np.int64),
    )


@inner
def fill_cohort_masses(positions, table, base, workspace):
    """Compute the masses of a cohort; base[d] is the weight of an object with d bits."""
    hashes, universe = positions.shape
    m, wide = workspace.sums.shape
    workspace.sums[:] = 0.0
    workspace.best[:] = 0.0
    workspace.whole[:] = 0.0
    workspace.first[:] = 0
    for z in range(universe):
        bits = 0
        for h in range(hashes):
            bits += positions[h, z] < m
        weight = base[bits]
        workspace.weight[z] = weight
        for c in range(wide):
            workspace.table[z, c] = weight * table[z, c]
            workspace.whole[c] += workspace.table[z, c]
        for h in range(hashes):
            b = positions[h, z]
            if b < m:
                workspace.best[b] = max(workspace.best[b], weight)
                workspace.first[b] += 1
                for c in range(wide):
                    workspace.sums[b, c] += workspace.table[z, c]
    end = 0
    for b in range(m):
        end += workspace.first[b]
        workspace.first[b] = end
    workspace.first[m] = end
    for z in range(universe - 1, -1, -1):
        for h in range(hashes):
            b = positions[h, z]
            if b < m:
                workspace.first[b] -= 1
                workspace.objects[workspace.first[b]] = z


@njit(nogil=True, cache=True)
def mass_by_bits(starts, order, positions, words, table, base, powers, workspace, out):
    r"""Compute `likelihood_mass` where every set bit of an object multiplies its weight by one number rho > 1.

    With k of its bits set,

    .. math:: \rho^k = 1 + (\rho - 1) k + (\rho^k - 1 - (\rho - 1) k) ,

    where all three terms are non-negative. The first sums over all objects, the second over the set bits and their
    objects. Only objects with two or more set bits contribute to the third. powers (hashes + 1,) are those of rho.
    """
    rise = powers[1] - 1.0
    held, several, wide = workspace.held, workspace.several, workspace.whole.shape[0]
    for f in range(positions.shape[0]):
        fill_cohort_masses(positions[f], table, base, workspace)
        highest = 0.0
        for z in range(positions.shape[2]):
            highest = max(highest, workspace.weight[z])
        for i in range(starts[f], starts[f + 1]):
            r = order[i]
            sums = out[r]
            sums[:] = 0.0
            count, best, more = set_positions(words[r], workspace.positions), 0.0, 0
            for p in range(count):
                b = workspace.positions[p]
                best = max(best, workspace.best[b])
                for c in range(wide):
                    sums[c] += workspace.sums[b, c]
                for o in range(workspace.first[b], workspace.first[b + _ONE]):
                    z = np.uint64(workspace.objects[o])
                    held[z] += np.uint8(1)
                    several[more] = z
                    more += held[z] == 2
            best = max(highest, best * powers[1])
            for c in range(wide):
                sums[c] = workspace.whole[c] + rise * sums[c]
            for o in range(more):
                z = several[o]
                power, k = powers[held[z]], held[z]
                best = max(best, workspace.weight[z] * power)
                further = power - 1.0 - rise * k
                for c in range(wide):
                    sums[c] += further * workspace.table[z, c]
            for p in range(count):
                b = workspace.positions[p]
                for o in range(workspace.first[b], workspace.first[b + _ONE]):
                    held[np.uint64(workspace.objects[o])] = 0
            for c in range(wide):
                sums[c] /= best


@njit(nogil=True, cache=True)
def sketch(starts, order, words, positions, out):
    """Add the number of reports of function f whose bit b is set to out[f, b]."""
    for f in range(starts.shape[0] - 1):
        for i in range(starts[f], starts[f + 1]):
            count = set_positions(words[order[i]], positions)
            for p in range(count):
                out[f, positions[p]] += 1


@njit(nogil=True, cache=True)
def full_counts(starts, order, positions, words, m, bit_codes, codes, out):
    """Add the number of reports with all bits of object z set to out[z]."""
    hashes = positions.shape[1]
    for f in range(positions.shape[0]):
        for i in range(starts[f], starts[f + 1]):
            _bit_codes(words[order[i]], m, hashes, bit_codes)
            _codes(positions[f], bit_codes, codes)
            for z in range(codes.shape[0]):
                # as many set bits as bits: the code is a multiple of hashes + 2
                out[z] += codes[z] % (hashes + 2) == 0
