"""Streams of random words, their children, and hashes of names, against plain Python."""

import numpy as np
import pytest

from poolscope.kernels.hashing import hash_names
from poolscope.kernels.random import child_keys, uniforms

GOLDEN, BRANCH = 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03
KEYS = [0, 1, 12345, 2**64 - 1]


def mixed(z):
    """The output function of SplitMix64, as it is published."""
    z %= 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


@pytest.mark.parametrize("index", [0, 1, 1000])
def test_uniform_numbers_are_the_upper_bits_of_the_words(index):
    out = np.empty(len(KEYS))
    uniforms(np.array(KEYS, dtype=np.uint64), index, out)
    assert out.tolist() == [(mixed(key + (index + 1) * GOLDEN) >> 11) / 2**53 for key in KEYS]


@pytest.mark.parametrize("index", [0, 1, 2**40])
def test_children_are_words_of_another_stream(index):
    out = np.empty(len(KEYS), dtype=np.uint64)
    child_keys(np.array(KEYS, dtype=np.uint64), np.full(len(KEYS), index, dtype=np.uint64), out)
    assert out.tolist() == [mixed(mixed(key ^ BRANCH) + (index + 1) * BRANCH) for key in KEYS]


def fnv(data: bytes) -> int:
    """FNV-1a, as RFC 9923 has it."""
    found = 0xCBF29CE484222325
    for byte in data:
        found = (found ^ byte) * 0x100000001B3 % 2**64
    return found


def test_each_name_is_hashed_by_itself():
    names = [b"a", b"", b"foobar", b"a", "\u00fc".encode()]
    assert fnv(b"foobar") == 0x85944171F73967E8
    out = np.empty(len(names), dtype=np.uint64)
    hash_names(np.frombuffer(b"".join(names), dtype=np.uint8), np.cumsum([len(name) for name in names]), out)
    assert out.tolist() == [mixed(fnv(name) + GOLDEN) for name in names]
    assert out[0] == out[3]
