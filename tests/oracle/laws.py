"""The laws of all mechanisms, written from their definitions alone: what the conformance suite has to know of each.

As `reference`, in mpmath and with no regard to speed. A report is a dictionary of its columns.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations, product
from math import comb
from typing import Any

import numpy as np
import xxhash
from cases.plain import Plain
from mpmath import inf, mp, mpf
from oracle import reference

from poolscope.mechanisms import adapt, make

TINY, LARGE = 4, 130
HASH_TABLE = np.array([[0, 1, 2, 1], [2, 2, 0, 1]])
SEED_BITS, VALUES, SUBSET, YES, THRESHOLD = 3, 3, 2, 0.2, 0.7
#: Two functions to a cohort; two objects have one bit only.
BLOOM_TABLE = np.array([[0, 1, 2, 3], [1, 1, 3, 0], [2, 0, 1, 1], [3, 2, 1, 0]])


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What the suite has to know of a mechanism.

    tiny, large : parameters but for epsilon, for universes of TINY and LARGE objects.
    of : its name in MECHANISMS, where that is not the case's own.
    maker : what makes it from the size of the universe and the parameters, where it has no name in MECHANISMS.
    every : all reports of the tiny mechanism, as columns.
    listed : whether these are all; where there is no end of them they are some.
    probability : Pr[report | z] by the oracle, from a report's columns, z and epsilon.
    noisy : whether it takes an epsilon.
    limit : whether it has a limit without noise.
    tight : whether some ratio of likelihoods is e^epsilon.
    counted : whether there is a frequency estimate.
    bad : parameters that are refused, and words of the message.
    """

    every: Callable[[], Mapping[str, np.ndarray]]
    probability: Callable[..., Any]
    tiny: Mapping[str, Any] = field(default_factory=dict)
    large: Mapping[str, Any] = field(default_factory=dict)
    listed: bool = True
    of: str | None = None
    maker: Callable[..., Any] | None = None
    noisy: bool = True
    limit: bool = True
    tight: bool = True
    counted: bool = True
    bad: tuple[tuple[Mapping[str, Any], str], ...] = ()


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


BAD_FAMILIES = (
    ({"m": 1}, "m must be at least 2"),
    ({"m": 1 << 32}, "m must be at most 16777216, got 4294967296"),
    ({"hashes": 0}, "hashes must be at least 1"),
    ({"hash_table": HASH_TABLE, "hashes": 2, "cohorts": 1}, "a column for each of 130 objects"),
)
BAD_SKETCHES = (
    *BAD_FAMILIES[:3],
    ({"hashes": None}, "hashes.*is missing"),
    ({"hash_table": HASH_TABLE}, "must be the 2 rows"),
    ({"hash_table": HASH_TABLE, "hashes": None}, "a column for each of 130 objects"),
)
BAD_SEEDS = (({"seed_bits": 0}, "seed_bits.*must be 1 to 63"), ({"seed_bits": 64}, "seed_bits.*must be 1 to 63"))
KINDS = {
    "cms": Kind(
        every=lambda: every_cms(3, 2),
        probability=cms_probability(HASH_TABLE),
        tiny={"m": 3, "hash_table": HASH_TABLE},
        large={"m": 100, "hashes": 1 << 20},
        bad=BAD_SKETCHES,
    ),
    "cms-no-hash": Kind(every=lambda: every_cms(TINY, 1), probability=cms_probability(np.arange(TINY)[None])),
    "hcms": Kind(
        every=lambda: every_hcms(4, 2),
        probability=hcms_probability,
        tiny={"m": 4, "hash_table": HASH_TABLE},
        large={"m": 32, "hashes": 1 << 20},
        bad=(*BAD_SKETCHES, ({"m": 12}, "power of two")),
    ),
    "identity": Kind(
        every=lambda: {"value": np.arange(TINY)},
        probability=lambda report, z, _: reference.identity_probability(int(report["value"]), z),
        noisy=False,
        bad=(({"epsilon": 1.0}, "unknown key"),),
    ),
    "grr": Kind(
        every=lambda: {"value": np.arange(TINY)},
        probability=lambda report, z, epsilon: response(int(report["value"]) == z, TINY, epsilon),
    ),
    "sue": Kind(every=every_vector, probability=unary(sue_noise)),
    "oue": Kind(
        every=every_vector,
        probability=unary(oue_noise),
        limit=False,
        bad=(({"epsilon": np.inf}, "epsilon must be at most 700.*inf"),),
    ),
    "the": Kind(
        every=every_vector,
        probability=unary(the_noise),
        tiny={"threshold": THRESHOLD},
        limit=False,
        tight=False,
        bad=(
            ({"epsilon": 701.0}, "epsilon must be at most 700.*701"),
            ({"threshold": 0.4}, r"threshold.*must be 0\.5 to 1.*0\.4"),
            ({"threshold": np.nan}, r"threshold.*must be 0\.5 to 1"),
        ),
    ),
    "she": Kind(
        every=some_histograms,
        listed=False,
        probability=she_probability,
        limit=False,
        bad=(
            ({"epsilon": np.inf}, "epsilon must be at most 700.*inf"),
            ({"epsilon": 1e-7}, "epsilon must be at least 1e-06.*1e-07"),
        ),
    ),
    "spotme": Kind(
        every=every_vector,
        probability=unary(spotme_noise),
        tiny={"yes": YES},
        bad=(
            ({"yes": 0.0}, "yes.*between 0 and 1"),
            ({"yes": 1.0}, "yes.*between 0 and 1"),
            ({"epsilon": None}, "epsilon.*is missing.*coin"),
            ({"coin": 0.5}, "coin.*cannot be given with epsilon"),
            ({"epsilon": None, "coin": 1.0}, "coin: must be from 0 to below 1"),
            ({"epsilon": None, "coin": 0.5, "yes": 0.0}, "yes: must be above 0, and at most 1"),
        ),
    ),
    "blh": Kind(every=lambda: every_hashed(2), probability=hashed(2), tiny={"seed_bits": SEED_BITS}, bad=BAD_SEEDS),
    "olh": Kind(
        every=lambda: every_hashed(VALUES),
        probability=hashed(VALUES),
        tiny={"seed_bits": SEED_BITS, "g": VALUES},
        bad=(*BAD_SEEDS, ({"g": 1}, "g: must be 2 to 16777216"), ({"g": (1 << 24) + 1}, "g: must be 2 to 16777216")),
    ),
    "olh-xxhash32": Kind(
        of="olh",
        every=lambda: every_hashed(VALUES),
        probability=hashed(VALUES, xxhash32),
        tiny={"seed_bits": SEED_BITS, "g": VALUES, "hash": "xxhash32"},
        large={"hash": "xxhash32"},
        bad=(({"hash": "xxhash64"}, "hash: must be a known hash.*xxhash64.*xxhash32"), ({"hash": 32}, "hash.*a text")),
    ),
    "ss": Kind(
        every=every_subset,
        probability=ss_probability,
        tiny={"k": SUBSET},
        bad=(({"k": 0}, "k: must be 1 to 129"), ({"k": LARGE}, "k: must be 1 to 129 for 130 objects")),
    ),
    "hr": Kind(
        every=lambda: {"value": np.arange(8)},
        probability=hadamard_response(1),
        tiny={"blocks": 1},
        large={"blocks": 1},
    ),
    "hr-blocks": Kind(
        of="hr",
        every=lambda: {"value": np.arange(8)},
        probability=hadamard_response(2),
        tiny={"blocks": 2},
        bad=(({"blocks": 0}, "blocks: must be 1 to 260"), ({"blocks": 261}, "blocks: must be 1 to 260.*261")),
    ),
    "rappor": Kind(
        every=every_rappor,
        probability=rappor_probability,
        tiny={"m": TINY, "hashes": 2, "cohorts": 2, "hash_table": BLOOM_TABLE},
        large={"m": 100, "hashes": 2, "cohorts": 1 << 18},
        bad=(
            *BAD_FAMILIES,
            ({"hash_table": np.zeros((3, LARGE), dtype=int), "m": 4}, "hashes"),
            ({"epsilon": None}, "epsilon.*is missing.*f, p and q"),
            ({"p": 0.1}, "p, q.*cannot be given with epsilon"),
            ({"f": 0.9}, r"f: must be 0 to 0\.8.*0\.9"),
            ({"epsilon": None, "f": 0.5, "p": 0.7, "q": 0.6}, "p < q"),
        ),
    ),
    "channel": Kind(
        every=lambda: {"report": np.arange(4)},
        probability=channel_probability,
        tiny={"matrix": TWENTIETHS / 20},
        large={"matrix": LARGE_MATRIX},
        noisy=False,
        limit=False,
        counted=False,
        bad=(({"epsilon": 1.0}, "unknown key"), ({"matrix": TWENTIETHS / 20}, "a row for each of 130 objects")),
    ),
    "empirical": Kind(
        every=lambda: {"report": np.arange(3)},
        probability=empirical_probability,
        tiny={"samples": SAMPLES},
        large={"samples": LARGE_SAMPLES},
        noisy=False,
        limit=False,
        counted=False,
        bad=(
            ({"smoothing": -1.0}, "smoothing: must be a finite number, at least 0"),
            ({"reports": 9}, "at least the 10"),
        ),
    ),
    "adapted": Kind(
        every=lambda: {"report": np.arange(4)},
        probability=channel_probability,
        tiny={"matrix": TWENTIETHS / 20},
        large={"matrix": LARGE_MATRIX},
        maker=lambda universe, *, matrix: adapt(Plain(matrix), universe),
        noisy=False,
        limit=False,
        counted=False,
    ),
}
EPSILONS = (0.1, 1.0, 4.0)


def tiny(name, epsilon=1.0):
    return made(name, TINY, KINDS[name].tiny, epsilon)


def large(name, epsilon=2.0, **changed):
    return made(name, LARGE, {**KINDS[name].large, **changed}, epsilon)


def made(name, universe, parameters, epsilon):
    kind = KINDS[name]
    noise = {"epsilon": epsilon} if kind.noisy else {}
    return (
        kind.maker(universe, **parameters) if kind.maker else make(kind.of or name, universe, {**parameters, **noise})
    )


def rows(reports):
    """The reports one by one, as dictionaries."""
    count = len(next(iter(reports.values())))
    return [{name: column[i] for name, column in reports.items()} for i in range(count)]


def law(name, epsilon):
    """Pr[report | z] of every report and object by the oracle, (reports, TINY)."""
    probability = KINDS[name].probability
    return np.array(
        [[float(probability(report, z, epsilon)) for z in range(TINY)] for report in rows(KINDS[name].every())]
    )
