"""Words of Bernoulli bits, against one bit after another in Python."""

import numpy as np
import pytest
from numba import njit

from poolscope.kernels import random
from poolscope.kernels.compilation import fma
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


def simulate_reports(key: int, index: int, threshold: int, count: int) -> tuple[list[int], int]:
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
    assert (out.tolist(), free) == simulate_reports(12345, 3, threshold, count)


THRESHOLDS = [1 << 63, 1 << 61, int(0.119 * WORD), WORD - 1, 1]


def called(toss):
    @njit
    def call(state, stride, threshold, out):
        return toss(state, stride, threshold, out, 2)

    def words(threshold, lanes):
        out = np.zeros(lanes + 2, dtype=np.uint64)
        return call(np.uint64(99), np.uint64(7 * lanes + 1), np.uint64(threshold), out), out.tolist()

    return words


@pytest.mark.default_cases("16")
@pytest.mark.parametrize("lanes", [1, TOGETHER])
def test_the_intrinsic_and_its_plain_twin_have_the_same_bits(lanes, monkeypatch):
    """As an intrinsic, as a plain function, and as the intrinsic where LLVM refuses it."""
    assert random.vectors_compile(lanes)
    fast, twin = called(random.bernoulli_lanes(lanes)), called(njit(random.bernoulli_lanes_reference(lanes)))
    expected = [fast(threshold, lanes) for threshold in THRESHOLDS]
    monkeypatch.setattr(random, "vectors_compile", lambda _: False)
    fallen_back = called(random.bernoulli_lanes(lanes))
    assert [twin(threshold, lanes) for threshold in THRESHOLDS] == expected
    assert [fallen_back(threshold, lanes) for threshold in THRESHOLDS] == expected


def test_instructions_that_llvm_refuses_are_noticed(monkeypatch):
    def broken(builder, *_):
        builder.branch(builder.append_basic_block("never ended"))
        return random.ir.IntType(64)(0)

    random.vectors_compile.cache_clear()
    monkeypatch.setattr(random, "_emit_bernoulli_lanes", broken)
    assert not random.vectors_compile(1)
    random.vectors_compile.cache_clear()


def test_trailing_zeros_are_those_of_the_twin(monkeypatch):
    words = np.array([0, WORD - 1, *(1 << i for i in range(64)), *(5 << i for i in range(61))], dtype=np.uint64)
    expected = [64] + [(int(word) & -int(word)).bit_length() - 1 for word in words[1:]]

    def found():
        zeros = njit(lambda word: random.trailing_zeros(word))
        return [int(zeros(word)) for word in words]

    assert found() == expected
    monkeypatch.delattr(random.ir.IRBuilder, "cttz")
    assert found() == expected


def test_a_multiply_add_without_the_instruction_is_off_by_a_rounding(monkeypatch):
    a, b, c = 1.0 + 2.0**-30, 1.0 - 2.0**-30, -1.0

    def found():
        return njit(lambda a, b, c: fma(a, b, c))(a, b, c)

    assert found() == -(2.0**-60)
    monkeypatch.delattr(random.ir.IRBuilder, "fma")
    assert found() == 0.0
