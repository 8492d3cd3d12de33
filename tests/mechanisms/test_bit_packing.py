"""Positions of set bits in words, and the size of their workspace."""

import numpy as np
import pytest
from numba import njit

from poolscope.kernels.grouping import positions_buffer, set_positions


@njit
def positions(words, out):
    return set_positions(words, out)


@pytest.mark.parametrize("bits", [1, 63, 64, 65, 1024])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.9, 1.0])
def test_positions_are_those_of_the_bits_and_stay_in_their_room(bits, share):
    chosen = np.random.default_rng(bits).random(bits) < share
    words = np.packbits(
        np.resize(chosen, -(-bits // 64) * 64) & (np.arange(-(-bits // 64) * 64) < bits), bitorder="little"
    )
    workspace = positions_buffer(bits)
    guarded = np.full(len(workspace) + 64, 77, dtype=np.uint64)
    count = positions(words.view(np.uint64), guarded)
    np.testing.assert_array_equal(guarded[:count], np.flatnonzero(chosen))
    np.testing.assert_array_equal(guarded[len(workspace) :], 77)
