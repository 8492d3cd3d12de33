"""Local hashing as other libraries do it: their reports are read with their hash, and not with another.

Reports are made here as pure-ldp 1.2.0 and multi-freq-ldpy 0.2.5 make them: the seed is uniform below 2^63, the number
of the object from 0 is hashed as decimal text by XXH32 with that seed, and the hash modulo g goes through randomized
response.
"""

import random

import numpy as np
import pytest
import xxhash
from cases.synthetic import SEED
from oracle.distributions import xxhash32
from scipy import stats

from poolscope.inference.adversary import Adversary
from poolscope.inference.attack import posterior
from poolscope.mechanisms import make
from poolscope.mechanisms.local_hashing import HASHES, XXHash32
from poolscope.population.universe import Universe
from poolscope.reports.frequencies import frequencies


def peer_reports(objects, epsilon, g):
    """One by one, with the library that the peers call."""
    rng = random.Random(SEED)
    kept = np.exp(epsilon) / (np.exp(epsilon) + g - 1)
    seeds, values = [], []
    for z in objects:
        seed = rng.randrange(2**63)
        true = xxhash.xxh32(str(z).encode(), seed=seed).intdigest() % g
        others = [v for v in range(g) if v != true]
        seeds.append(seed)
        values.append(true if rng.random() < kept else rng.choice(others))
    return {"seed": np.array(seeds), "value": np.array(values)}


@pytest.mark.parametrize("g", [2, 7, 1000])
def test_values_are_those_of_the_library(g):
    """Numbers of one to six digits: with and without a whole word, and with bytes after it."""
    functions, rng = XXHash32(100_003, g), np.random.default_rng(SEED)
    objects = np.concatenate([10 ** np.arange(6), 10 ** np.arange(1, 6) - 1, rng.integers(100_003, size=300), [0]])
    for seeds in (rng.integers(1 << 63, size=len(objects)), rng.integers(1 << 32, size=len(objects))):
        expected = [xxhash32(s, z, g) for s, z in zip(seeds.tolist(), objects.tolist(), strict=True)]
        np.testing.assert_array_equal(functions.values(seeds, objects), expected)


@pytest.mark.parametrize("g", [2, 7, 56])
@pytest.mark.parametrize("other", [1, 12, 77_777])
def test_objects_are_independent_over_the_seeds(g, other):
    """What p*, q* and the variance rest on, and what no proof says of XXH32."""
    seeds = np.random.default_rng(SEED).integers(1 << 63, size=40 * g * g)
    functions = XXHash32(77_778, g)
    pairs = [functions.values(seeds, np.full(len(seeds), z)) for z in (0, other)]
    assert stats.chisquare(np.bincount(pairs[0] * g + pairs[1], minlength=g * g)).pvalue > 1e-4


@pytest.mark.parametrize(("kind", "epsilon"), [("olh", 3.0), ("blh", 3.0)])
def test_their_reports_are_read_with_their_hash_only(kind, epsilon):
    """Estimate and attack are right with XXH32, and know nothing with our own functions."""
    universe = Universe.sized(30, {"a": 10, "b": 10})
    counts = np.zeros(30, dtype=int)
    counts[[0, 3, 12, 25]] = 1500, 900, 400, 200
    objects = np.repeat(np.arange(30), counts)
    right = make(kind, 30, {"epsilon": epsilon, "hash": "xxhash32"})
    wrong = make(kind, 30, {"epsilon": epsilon})
    reports = peer_reports(objects.tolist(), epsilon, right.g)

    found = frequencies(right, reports)
    apart = np.abs(found.counts - counts) / found.errors
    assert apart.max() < 4.5
    blind = frequencies(wrong, reports)
    assert abs(blind.counts[0] - 1500) > 10 * blind.errors[0]
    assert np.abs(blind.counts / blind.errors).max() < 4.5, "every object seems to be one that nobody has"

    def believed(mechanism):
        """In pool a, of ten users who reported object 0 alone, 150 times each."""
        users = [{name: column[i : i + 150] for name, column in reports.items()} for i in range(0, 1500, 150)]
        return np.mean([posterior(mechanism, user, Adversary.weak(universe))[-1][0] for user in users])

    assert believed(right) > 0.9
    assert believed(wrong) < 0.7


def test_every_hash_is_a_family_of_its_own():
    seeds, objects = np.arange(400), np.arange(400) % 50
    values = {name: HASHES[name](50, 1000).values(seeds, objects) for name in HASHES}
    assert len({v.tobytes() for v in values.values()}) == len(HASHES)
