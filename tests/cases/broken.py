"""Mechanisms with one defect each, beside the correct ones that they are made from: what a check must tell apart.

Every mechanism is built from uniform numbers, and a defect is mostly another source of these: the marginal distribution
of a report stays right, and only reports together show what is wrong.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from poolscope.mechanisms import CMS

Source = Callable[[np.ndarray, np.random.Generator, int], np.ndarray]

GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0


def fresh(objects, rng, width):
    """(reports, width) independent uniform numbers."""
    return rng.random((len(objects), width))


def few_seeds(count):
    """Each call seeds a generator of its own with one of a few values."""
    return lambda objects, rng, width: np.random.default_rng(int(rng.integers(count))).random((len(objects), width))


def few_vectors(count):
    """Each report has one of a few noise vectors."""

    def source(objects, rng, width):
        which = rng.integers(count, size=len(objects)).astype(np.uint64)
        return hashed(which[:, None] * np.uint64(1 << 20) + np.arange(width, dtype=np.uint64))

    return source


def antithetic(layout):
    """The noise of one report is the mirror image of another's: its neighbor's, or that of the other half's."""

    def source(objects, rng, width):
        uniform = rng.random((len(objects), width))
        half = len(objects) // 2
        if layout == "pairs":
            uniform[1 : 2 * half : 2] = 1.0 - uniform[0 : 2 * half : 2]
        else:
            uniform[half : 2 * half] = 1.0 - uniform[:half]
        return uniform

    return source


def scheduled(period=None):
    """The first number, which decides about the truth, follows a schedule of each object's own.

    Without a period the numbers of an object are spread as evenly as possible; else so many are drawn once and repeat.
    """
    sent: dict[int, int] = {}

    def source(objects, rng, width):
        uniform = rng.random((len(objects), width))
        for z in np.unique(objects):
            (rows,) = np.nonzero(objects == z)
            number = sent.get(int(z), 0) + np.arange(len(rows))
            sent[int(z)] = int(number[-1]) + 1
            if period is None:
                uniform[rows, 0] = (z * 0.37 + number * GOLDEN) % 1.0
            else:
                uniform[rows, 0] = np.random.default_rng(int(z)).random(period)[number % period]
        return uniform

    return source


def own_first(uniform, event_index):
    """The numbers with the first one at each report's own place: it then decides about the truth."""
    rows, swapped = np.arange(len(uniform)), uniform.copy()
    swapped[:, 0] = uniform[rows, event_index]
    swapped[rows, event_index] = uniform[:, 0]
    return swapped


def hashed(numbers):
    """Uniform numbers as a function of integers (SplitMix64)."""
    x = numbers + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((x ^ (x >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53


@dataclass(kw_only=True)
class Plain:
    """A mechanism from uniform numbers.

    source : makes them. clear : None; "first", the first report of a call is sent without noise; or in which share.
    """

    universe: int = 20
    epsilon: float = 1.0
    source: Source = fresh
    clear: str | float | None = None

    def obfuscate(self, objects, rng):
        objects = np.asarray(objects, dtype=np.int64)
        uniform = self.source(objects, rng, self.width)
        clear = np.zeros(len(objects), dtype=bool)
        if self.clear == "first":
            clear[:1] = True
        elif self.clear is not None:
            clear = rng.random(len(objects)) < self.clear
        return self.sent(objects, rng, uniform, clear)


@dataclass(kw_only=True)
class Response(Plain):
    """Randomized response."""

    width = 2

    @property
    def truth(self):
        return np.exp(self.epsilon) / (np.exp(self.epsilon) + self.universe - 1)

    def sent(self, objects, rng, uniform, clear):
        others = (objects + 1 + (uniform[:, 1] * (self.universe - 1)).astype(np.int64)) % self.universe
        return np.where((uniform[:, 0] < self.truth) | clear, objects, others)

    def likelihood(self, reports):
        return self.epsilon * (np.asarray(reports)[:, None] == np.arange(self.universe))


@dataclass(kw_only=True)
class Unary(Plain):
    """Optimized unary encoding: the object's bit is sent with probability p, any other with q.

    p : by default 1/2. unflipped : the one bit that is always sent as it is.
    """

    p: float = 0.5
    packed: bool = False
    unflipped: int | None = None

    @property
    def width(self):
        return self.universe

    @property
    def q(self):
        return 1.0 / (np.exp(self.epsilon) + 1.0)

    def sent(self, objects, rng, uniform, clear):
        own = objects[:, None] == np.arange(self.universe)
        uniform = own_first(uniform, objects)
        bits = np.where(own, uniform < self.p, uniform < self.q)
        if self.unflipped is not None:
            bits[:, self.unflipped] = own[:, self.unflipped]
        bits = np.where(clear[:, None], own, bits)
        return {"bits": np.packbits(bits, axis=1, bitorder="little") if self.packed else bits}

    def likelihood(self, reports):
        bits = np.asarray(reports["bits"])
        if self.packed:
            bits = np.unpackbits(bits, axis=1, bitorder="little", count=self.universe)
        return np.log(self.p * (1 - self.q) / (self.q * (1 - self.p))) * bits


@dataclass(kw_only=True)
class Sketch(Plain):
    """A count mean sketch: a hash function, and the object's bucket among noisy bits."""

    m: int = 256
    hashes: int = 1024
    cms: CMS = field(init=False)

    def __post_init__(self):
        self.cms = CMS(universe=self.universe, epsilon=self.epsilon, m=self.m, hashes=self.hashes)
        self.width = self.m

    def sent(self, objects, rng, uniform, clear):
        function = rng.integers(self.hashes, size=len(objects))
        bucket = self.cms.family.bucket_of(function, objects).astype(np.int64)
        own = bucket[:, None] == np.arange(self.m)
        flipped = (own_first(uniform, bucket) < self.cms.flip) & ~clear[:, None]
        return {"hash": function, "bits": np.packbits(own ^ flipped, axis=1, bitorder="little")}

    def likelihood(self, reports):
        return self.cms.log_likelihood(reports)


@dataclass(kw_only=True)
class Noise(Plain):
    """A number with Laplace noise on a grid of 2^-20."""

    universe: int = 2
    width = 1

    def sent(self, objects, rng, uniform, clear):
        centered = uniform[:, 0] - 0.5
        noise = (
            -np.sign(centered)
            * np.log1p(-2 * np.abs(centered).clip(max=0.5 - 2.0**-53))
            * (self.universe - 1)
            / self.epsilon
        )
        return np.round((objects + np.where(clear, 0.0, noise)) * 2**20) / 2**20

    def likelihood(self, reports):
        return -self.epsilon * np.abs(np.asarray(reports)[:, None] - np.arange(self.universe)) / (self.universe - 1)


class HasLikelihood:
    """A mechanism together with the likelihoods that it states."""

    def __init__(self, plain):
        self.plain, self.universe, self.epsilon = plain, plain.universe, plain.epsilon

    def obfuscate(self, objects, rng):
        return self.plain.obfuscate(objects, rng)

    def log_likelihood(self, reports):
        return self.plain.likelihood(reports)


class ClearReport(HasLikelihood):
    """`report`, which a game plays, sends the object without noise."""

    def report(self, objects, keys):
        return self.plain.sent(objects, None, np.zeros((len(objects), self.plain.width)), np.ones(len(objects), bool))


class KeyedReport(HasLikelihood):
    """`report` draws from each report's key, or from the last bits of it."""

    def __init__(self, plain, bits=64):
        super().__init__(plain)
        self.bits = bits

    def report(self, objects, keys):
        used = np.asarray(keys, dtype=np.uint64) & np.uint64((1 << self.bits) - 1)
        width = np.arange(self.plain.width, dtype=np.uint64) * np.uint64(0xD1342543DE82EF95)
        uniform = hashed(used[:, None] ^ hashed_words(width))
        return self.plain.sent(np.asarray(objects), None, uniform, np.zeros(len(objects), dtype=bool))


def hashed_words(numbers):
    """Integers that look random."""
    return (hashed(numbers) * 2.0**53).astype(np.uint64) << np.uint64(11)


class Silent:
    """A mechanism of which only the epsilon and the reports are known."""

    def __init__(self, plain):
        self.plain, self.universe, self.epsilon = plain, plain.universe, plain.epsilon

    def obfuscate(self, objects, rng):
        return self.plain.obfuscate(objects, rng)


#: Kinds of mechanisms that defects are put into.
KINDS = {
    "response": Response,
    "unary": lambda **options: Unary(universe=128, packed=True, **options),
    "sketch": lambda **options: Sketch(universe=100, **options),
    "number": Noise,
}

#: Defects that leave the distribution of most reports as it is: the name, and the options that make it.
DEFECTS = {
    "one of 256 seeds for each call": lambda: {"source": few_seeds(256)},
    "one of 4,096 seeds for each call": lambda: {"source": few_seeds(4096)},
    "one of 65,536 seeds for each call": lambda: {"source": few_seeds(65536)},
    "one of 65,536 noise vectors for each report": lambda: {"source": few_vectors(65536)},
    "noise of neighbors mirrored": lambda: {"source": antithetic("pairs")},
    "noise of half a call mirrored": lambda: {"source": antithetic("halves")},
    "truths by an even schedule": lambda: {"source": scheduled()},
    "500 truths that repeat": lambda: {"source": scheduled(500)},
    "the first report of a call in the clear": lambda: {"clear": "first"},
    "one report in 5,000 in the clear": lambda: {"clear": 1 / 5000},
}

#: Mechanisms with other defects, each made anew.
OTHERS = {
    "unary, p = 0.6, an entry for each bit, no likelihoods": lambda: Silent(Unary(universe=64, p=0.6)),
    "unary, p = 0.6, packed, no likelihoods": lambda: Silent(Unary(universe=128, p=0.6, packed=True)),
    "one bit of 800 never flipped": lambda: HasLikelihood(Unary(universe=800, unflipped=333, packed=True)),
    "one bit of 800 never flipped, no likelihoods": lambda: Silent(Unary(universe=800, unflipped=333)),
    "response: `report` sends the object": lambda: ClearReport(Response()),
    "unary: `report` sends the object": lambda: ClearReport(Unary(universe=20)),
    "response: `report` draws from 8 bits of its key": lambda: KeyedReport(Response(), 8),
    "response: `report` draws from 16 bits of its key": lambda: KeyedReport(Response(), 16),
}

#: Mechanisms that keep their promise and spend all of epsilon.
CORRECT = {
    **{
        f"{kind}, {of.__name__.lower()}": lambda kind=kind, of=of: of(KINDS[kind]())
        for kind in KINDS
        for of in (HasLikelihood, Silent)
    },
    "response with `report`": lambda: KeyedReport(Response()),
    "unary with `report`": lambda: KeyedReport(Unary(universe=20)),
}
