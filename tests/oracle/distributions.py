"""The distributions of all mechanisms, written from their definitions alone.

As `reference`, in mpmath and with no regard to speed. A report is a dictionary of its columns.
"""

from functools import lru_cache
from itertools import combinations, product
from math import comb

import numpy as np
import xxhash
from mpmath import inf, mp, mpf
from oracle import reference

TINY, LARGE = 4, 130
HASH_TABLE = np.array([[0, 1, 2, 1], [2, 2, 0, 1]])
SEED_BITS, VALUES, SUBSET, YES, THRESHOLD = 3, 3, 2, 0.2, 0.7
#: Of a field; of dBitFlip.
PRIME, BUCKETS, FLIPS = 5, 3, 2
#: Two functions to a cohort; two objects have one bit only.
BLOOM_TABLE = np.array([[0, 1, 2, 3], [1, 1, 3, 0], [2, 0, 1, 1], [3, 2, 1, 0]])
#: In twentieths; one of the reports is impossible for some objects.
TWENTIETHS = np.array([[10, 5, 5, 0], [4, 12, 4, 0], [5, 5, 5, 5], [1, 2, 10, 7]])
#: Twice the own pair, or not seen at all.
SAMPLES = np.array([[0, 0], [0, 0], [1, 1], [1, 1], [2, 2], [2, 2], [3, 0], [3, 1]])
#: Ten reports, one of which is three times as likely.
LARGE_MATRIX = np.where(np.arange(LARGE)[:, None] % 10 == np.arange(10), 3, 1) / 12
LARGE_SAMPLES = np.array([(z, y) for z in range(LARGE) for y in range(10) for _ in range(3 if z % 10 == y else 1)])


# All reports


def packed(vectors):
    return np.packbits(np.array(vectors, dtype=np.uint8), axis=1, bitorder="little")


def every_cms(m, hashes):
    bits, j = zip(*reference.enumerate_cms_reports(m, hashes), strict=True)
    return {"hash": np.array(j), "bits": packed(bits)}


def every_hcms(m, hashes):
    columns = np.array(list(reference.enumerate_hcms_reports(m, hashes))).T
    return dict(zip(("hash", "coordinate", "bit"), columns, strict=True))


def every_vector():
    return {"bits": packed(list(product((0, 1), repeat=TINY)))}


def every_subset():
    return {"bits": packed([[z in subset for z in range(TINY)] for subset in combinations(range(TINY), SUBSET)])}


def every_hashed(values):
    seed, value = np.array(list(product(range(1 << SEED_BITS), range(values)))).T
    return {"seed": seed, "value": value}


def some_histograms():
    """Below 0, between 0 and 1, on 1 and above it, in all ways."""
    return {"reals": np.array(list(product((-3.0, 0.25, 1.0, 2.5), repeat=TINY)))}


def every_rappor():
    cohort, bits = zip(*product(range(2), product((0, 1), repeat=TINY)), strict=True)
    return {"cohort": np.array(cohort), "bits": packed(bits)}


def every_line():
    a, b = np.array(list(product(range(PRIME), repeat=2))).T
    return {"a": a, "b": b}


def every_flip():
    """D buckets of all, and a bit at each of them."""
    positions, bits = [], []
    for asked in combinations(range(BUCKETS), FLIPS):
        for values in product((0, 1), repeat=FLIPS):
            positions.append([i in asked for i in range(BUCKETS)])
            bits.append([i in asked and values[asked.index(i)] for i in range(BUCKETS)])
    return {"positions": packed(positions), "bits": packed(bits)}


# Their probabilities


def unpacked(report, m):
    return [int(b) for b in np.unpackbits(report["bits"], bitorder="little", count=m)]


def cms_probability(table):
    def probability(report, z, epsilon):
        return reference.cms_probability(unpacked(report, int(table.max()) + 1), int(report["hash"]), z, table, epsilon)

    return probability


def channel_probability(report, z, _):
    return mpf(int(TWENTIETHS[z, int(report["report"])])) / 20


def empirical_probability(report, z, _):
    """One half is added to every pair."""
    seen = [sum(pair == [z, y] for pair in SAMPLES.tolist()) for y in range(3)]
    return (seen[int(report["report"])] + mpf(1) / 2) / (sum(seen) + mpf(3) / 2)


def hcms_probability(report, z, epsilon):
    j, l, b = (int(report[c]) for c in ("hash", "coordinate", "bit"))
    return reference.hcms_probability(j, l, b, z, HASH_TABLE, 4, epsilon)


@mp.workdps(reference.DIGITS)
def response(hit, size, epsilon):
    """Randomized response among so many values: the truth, or one of the others."""
    other = mp.exp(-mpf(epsilon)) / (1 + (size - 1) * mp.exp(-mpf(epsilon)))
    return 1 - (size - 1) * other if hit else other


@mp.workdps(reference.DIGITS)
def vector_probability(bits, ones, p, q):
    """Independent bits: one with probability p at the given positions and q elsewhere."""
    chance = [p if i in ones else q for i in range(len(bits))]
    return mp.fprod(c if bit else 1 - c for bit, c in zip(bits, chance, strict=True))


def unary(noise):
    """Unary encoding with (p, q) = noise(epsilon)."""

    def probability(report, z, epsilon):
        return vector_probability(unpacked(report, TINY), {z}, *noise(epsilon))

    return probability


@mp.workdps(reference.DIGITS)
def sue_noise(epsilon):
    q = 1 / (1 + mp.exp(mpf(epsilon) / 2))
    return 1 - q, q


@mp.workdps(reference.DIGITS)
def oue_noise(epsilon):
    return mpf(1) / 2, 1 / (1 + mp.exp(mpf(epsilon)))


@mp.workdps(reference.DIGITS)
def the_noise(epsilon, threshold=THRESHOLD):
    """A Laplace variable of scale 2/epsilon around 1 and around 0 exceeds the threshold."""

    def exceeds(x):
        tail = mp.exp(-abs(x) * mpf(epsilon) / 2) / 2
        return tail if x > 0 else 1 - tail

    return exceeds(mpf(threshold) - 1), exceeds(mpf(threshold))


@mp.workdps(reference.DIGITS)
def she_probability(report, z, epsilon):
    """Entry by entry two-sided geometric noise, on the grid of 2^-20 times what is larger, 1 or the scale."""
    scale = 2 / mpf(epsilon)
    step = mpf(2) ** (mp.floor(mp.log(max(scale, 1), 2)) - 20)
    rate = step / scale
    ks = [abs(mpf(float(y)) - (i == z)) / step for i, y in enumerate(report["reals"])]
    assert all(k == int(k) for k in ks)
    return mp.fprod(mp.tanh(rate / 2) * mp.exp(-rate * k) for k in ks)


@lru_cache
@mp.workdps(reference.DIGITS)
def spotme_noise(epsilon, yes=YES):
    """The truth, or with probability lambda a coin; lambda by bisection from the odds."""
    if epsilon == inf:
        return mpf(1), mpf(0)

    def noise(coin):
        return 1 - coin + coin * mpf(yes), coin * mpf(yes)

    low, high = mpf(0), mpf(1)
    for _ in range(180):
        p, q = noise((low + high) / 2)
        low, high = (
            ((low + high) / 2, high) if p * (1 - q) / (q * (1 - p)) > mp.exp(mpf(epsilon)) else (low, (low + high) / 2)
        )
    return noise(low)


@mp.workdps(reference.DIGITS)
def ss_probability(report, z, epsilon):
    """e^epsilon times as likely with the object as without, over all subsets."""
    within, without = comb(TINY - 1, SUBSET - 1), comb(TINY - 1, SUBSET)
    far = mp.exp(-mpf(epsilon))
    return (1 if unpacked(report, TINY)[z] else far) / (within + without * far)


def splitmix(seed, index):
    """Word `index` of the stream of SplitMix64 with that seed."""
    mask = (1 << 64) - 1
    z = (seed + (index + 1) * 0x9E3779B97F4A7C15) & mask
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & mask
    return z ^ z >> 31


def multiply_shift(seed, z, g):
    return (((splitmix(seed, 0) * z + splitmix(seed, 1)) % 2**64 >> 32) * g) >> 32


def xxhash32(seed, z, g):
    """As other libraries hash an object."""
    return xxhash.xxh32(str(z).encode(), seed=seed % 2**32).intdigest() % g


def hashed(g, function=multiply_shift):
    def probability(report, z, epsilon):
        hit = function(int(report["seed"]), z, g) == int(report["value"])
        return response(hit, g, epsilon) / (1 << SEED_BITS)

    return probability


def hadamard_response(blocks):
    """Blocks of order 8 / blocks; e^epsilon times as likely where the object's row of its block is one as elsewhere."""
    order = 8 // blocks

    @mp.workdps(reference.DIGITS)
    def probability(report, z, epsilon):
        block, column = divmod(int(report["value"]), order)
        own, row = divmod(z, order - 1)
        agrees = block == own and reference._hadamard(order.bit_length() - 1, row + 1, column) == 1
        far = mp.exp(-mpf(epsilon))
        return (1 if agrees else far) / (mpf(order) / 2 + (8 - mpf(order) / 2) * far)

    return probability


@mp.workdps(reference.DIGITS)
def rappor_probability(report, z, epsilon):
    flip = 1 / (1 + mp.exp(mpf(epsilon) / 4))
    ones = {int(BLOOM_TABLE[2 * int(report["cohort"]) + i, z]) for i in range(2)}
    return vector_probability(unpacked(report, TINY), ones, 1 - flip, flip) / 2


# two rounds: a permanent response with twice the epsilon of a report, and instantaneous noise on it


@lru_cache
@mp.workdps(reference.DIGITS)
def solve_instantaneous(odds, epsilon):
    """The epsilon of the second step, by bisection: log odds(it) of one report, which grow with it, are epsilon."""
    low, high = mpf(0), mpf(1)
    while odds(high) < epsilon:
        if high > 10**6:
            return inf
        high *= 2
    for _ in range(180):
        low, high = ((low + high) / 2, high) if odds((low + high) / 2) < epsilon else (low, (low + high) / 2)
    return low


@mp.workdps(reference.DIGITS)
def response_twice(value, report, size, permanent, instantaneous):
    """All answers between a value and its report."""
    return mp.fsum(
        response(a == value, size, permanent) * response(report == a, size, instantaneous) for a in range(size)
    )


@lru_cache
@mp.workdps(reference.DIGITS)
def second_epsilon(size, epsilon):
    """The epsilon of the second response, with which a report has this epsilon in all."""

    def odds(instantaneous):
        own, other = (response_twice(0, report, size, 2 * mpf(epsilon), instantaneous) for report in (0, 1))
        return mp.log(own / other)

    return solve_instantaneous(odds, mpf(epsilon))


@lru_cache
@mp.workdps(reference.DIGITS)
def twice_at(value, report, size, epsilon):
    if epsilon == inf or epsilon > 1000:
        return mpf(int(value == report))
    return response_twice(value, report, size, 2 * mpf(epsilon), second_epsilon(size, epsilon))


def l_grr_probability(report, z, epsilon):
    return twice_at(z, int(report["value"]), TINY, epsilon)


def loloha_probability(report, z, epsilon):
    value = multiply_shift(int(report["seed"]), z, VALUES)
    return twice_at(value, int(report["value"]), VALUES, epsilon) / (1 << SEED_BITS)


def two_round_unary(permanent, second_round):
    """(p, q) of one report from the noise of both steps."""

    @lru_cache
    @mp.workdps(reference.DIGITS)
    def noise(epsilon):
        if epsilon == inf or epsilon > 1000:
            return mpf(1), mpf(0)
        p1, q1 = permanent(2 * mpf(epsilon))

        def both(instantaneous):
            p2, q2 = second_round(instantaneous)
            return tuple(x * p2 + (1 - x) * q2 for x in (p1, q1))

        def odds(instantaneous):
            p, q = both(instantaneous)
            return mp.log(p * (1 - q) / (q * (1 - p)))

        return both(solve_instantaneous(odds, mpf(epsilon)))

    return unary(noise)


@mp.workdps(reference.DIGITS)
def flip_probability(report, z, epsilon):
    asked, bits = ([int(b) for b in np.unpackbits(report[c], bitorder="little", count=BUCKETS)] for c in report)
    assert list(report) == ["positions", "bits"]
    flip, own = 1 / (1 + mp.exp(mpf(epsilon) / 2)), z * BUCKETS // TINY
    out = 1 / mpf(comb(BUCKETS, FLIPS))
    for i in range(BUCKETS):
        if asked[i]:
            out *= flip if bits[i] != (i == own) else 1 - flip
    return out


@mp.workdps(reference.DIGITS)
def line_probability(report, z, epsilon):
    """k of the values of a line count, the nearest to p / (e^epsilon + 1); e^epsilon times as likely with z."""
    k = max(1, int(mp.nint(PRIME / (1 + mp.exp(mpf(epsilon)))))) if epsilon < inf else 1
    far = mp.exp(-mpf(epsilon))
    has = (int(report["a"]) * z + int(report["b"])) % PRIME < k
    return (1 if has else far) / (PRIME * (k + far * (PRIME - k)))
