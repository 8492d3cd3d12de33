"""Random streams: the tree of keys below a run's seed.

A key identifies a stream of random words (`kernels.random`). A user draws from the user's key, a report from the
report's key. Draws therefore depend neither on threads, nor on blocks, nor on the number of users or reports.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from poolscope.core.arrays import Keys
from poolscope.kernels.random import child_keys


class KeyStream(IntEnum):
    """Indices of the child keys below a run's seed and below a user."""

    USERS = 0
    CURATOR = 1
    BEHAVIOR = 2
    TRACE = 3
    REPORTS = 4
    TASTE = 5
    GUESS = 6
    SAMPLE = 7
    ATTACK = 8
    POPULATION = 9
    ATTRIBUTE = 16
    COLLECTION = 17
    LINK = 18


def children(parents: Keys | np.uint64 | int, indices: NDArray[np.integer] | int) -> Keys:
    """Return the keys of the given children; parents and indices are broadcast."""
    parent, index = np.broadcast_arrays(np.asarray(parents, dtype=np.uint64), np.asarray(indices))
    out = np.empty(parent.size, dtype=np.uint64)
    child_keys(parent.ravel(), index.ravel().astype(np.uint64), out)
    return out.reshape(parent.shape)


def seed_key(seed: int) -> np.uint64:
    """Return the root key of a run: an integer seed, reduced to 64 bits."""
    return np.uint64(int(seed) & 0xFFFFFFFFFFFFFFFF)


def user_keys(seed: int, users: NDArray[np.integer]) -> Keys:
    """Return the key of each user of a run."""
    return children(children(seed_key(seed), KeyStream.USERS), users)


def curator_key(seed: int, index: int) -> np.uint64:
    """Return the key of the simulated reports behind the estimate of adversary `index`."""
    return np.uint64(children(children(seed_key(seed), KeyStream.CURATOR), index))


def collection_keys(users: Keys, index: int) -> Keys:
    """Return the keys of users within a collection: those of other collections do not depend on it."""
    return children(children(users, KeyStream.COLLECTION), index)


def collection_seed(seed: int, index: int) -> int:
    """Return the seed of a collection, for the reports behind its popularity estimates."""
    return int(children(children(seed_key(seed), KeyStream.COLLECTION), index))


def redraw_keys(key: np.uint64, count: int) -> Keys:
    """Return keys for further draws of an estimate, disjoint from those of its reports and hash functions."""
    return children(key, (1 << 40) + np.arange(count))


def report_keys(users: Keys, first: int, count: int) -> Keys:
    """Return (users, count) the keys of each user's reports first, first + 1, ..."""
    return children(children(users, KeyStream.REPORTS)[:, None], np.arange(first, first + count))


def generator(key: np.uint64) -> np.random.Generator:
    """Return a NumPy generator seeded by a key, for draws of whole arrays."""
    return np.random.default_rng(np.random.SeedSequence(int(key)))


def fresh_keys(rng: np.random.Generator, count: int) -> Keys:
    """Return keys for reports outside of a run."""
    return children(rng.integers(2**64, dtype=np.uint64), np.arange(count))
