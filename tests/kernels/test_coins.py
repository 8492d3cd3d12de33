"""Words of coins, against one coin after another in Python."""

import numpy as np
import pytest
from numba import njit

from poolscope.kernels.random import TOGETHER, bernoulli_words

WORD = 2**64


@njit
def tossed(key, index, threshold, out):
    return bernoulli_words(key, index, threshold, out)


def stream(key: int, index: int) -> int:
    """SplitMix64, as it is published."""
    z = (key + (index + 1) * 0x9E3779B97F4A7C15) % WORD
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % WORD
    return z ^ (z >> 31)


def one_by_one(key: int, index: int, threshold: int, count: int) -> tuple[list[int], int]:
    """The coins, and the next free index."""
    words, steps = [0] * count, 0
    for w in range(count):
        for coin in range(64):
            for b in range(64):
                if threshold << b & (WORD - 1) == 0:
                    break
                steps = max(steps, b + 1)
                bit, limit = stream(key, index + b * count + w) >> coin & 1, threshold >> (63 - b) & 1
                if bit != limit:
                    words[w] |= limit << coin
                    break
    return words, index + steps * count


@pytest.mark.parametrize("count", [1, 2, TOGETHER - 1, TOGETHER, TOGETHER + 1, 2 * TOGETHER + 9])
@pytest.mark.parametrize("threshold", [0, 1 << 63, 1 << 61, int(0.119 * WORD), WORD - 1, 1])
def test_coins_are_those_of_the_stream(count, threshold):
    out = np.full(count, 7, dtype=np.uint64)
    free = tossed(np.uint64(12345), 3, np.uint64(threshold), out)
    assert (out.tolist(), free) == one_by_one(12345, 3, threshold, count)
