"""Counter-based random words: SplitMix64 evaluated at any index of any stream.

A *key* is 64 bits that name a stream; ``word(key, i)`` is its i-th word. Nothing is carried from one draw
to the next, so what a user draws depends neither on threads, nor on blocks, nor on how many reports follow.

References
----------
G. L. Steele, D. Lea, C. H. Flood. Fast splittable pseudorandom number generators. OOPSLA 2014.
"""

import numpy as np
from numba import njit
from numba.cpython.unsafe.numbers import trailing_zeros

__all__ = [
    "bernoulli_words",
    "child",
    "child_keys",
    "trailing_zeros",
    "uniform",
    "uniforms",
    "word",
]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
BRANCH = np.uint64(0xD1B54A32D192ED03)
_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11, _S63 = (np.uint64(s) for s in (30, 27, 31, 11, 63))
_ONE, _ZERO, _ALL = np.uint64(1), np.uint64(0), np.uint64(0xFFFFFFFFFFFFFFFF)


@njit(inline="always")
def _mix(z):
    z = (z ^ (z >> _S30)) * _M1
    z = (z ^ (z >> _S27)) * _M2
    return z ^ (z >> _S31)


@njit(inline="always")
def word(key, index):
    """The `index`-th 64-bit word of the stream `key`."""
    return _mix(key + (np.uint64(index) + _ONE) * GOLDEN)


@njit(inline="always")
def child(key, index):
    """The key of the `index`-th stream below `key`.

    Mixed twice with a constant of its own, so that a child's words are not its parent's words.
    """
    return _mix(_mix(key ^ BRANCH) + (np.uint64(index) + _ONE) * BRANCH)


@njit(inline="always")
def uniform(key, index):
    """A multiple of 2^-53 in [0, 1)."""
    return np.float64(word(key, index) >> _S11) * 1.1102230246251565e-16


@njit(inline="always")
def bernoulli_words(key, index, threshold, undecided, out):
    """Words of independent coins, each one with probability threshold / 2^64; returns the next free index.

    Every lane compares a uniform binary fraction with the threshold, bit after bit from the most significant; a lane
    is decided at the first difference, and below the last set bit of the threshold nothing can become one any more.
    All words go through a bit together, which vectorises: 1,024 coins are decided after about eleven bits.
    undecided (as many words) is scratch.
    """
    count = out.shape[0]
    for w in range(count):
        out[w] = _ZERO
        undecided[w] = _ALL
    rest = threshold
    left = _ALL
    # `word(key, index + w)`, by an addition where that has a multiplication, which vectors do not have
    state = key + np.uint64(index) * GOLDEN
    while left != _ZERO and rest != _ZERO:
        # all ones where this bit of the threshold is set, without a branch
        one = _ZERO - (rest >> _S63)
        rest <<= _ONE
        left = _ZERO
        for w in range(count):
            state += GOLDEN
            x = _mix(state)
            open_ = undecided[w]
            out[w] |= open_ & ~x & one
            open_ &= ~(x ^ one)
            undecided[w] = open_
            left |= open_
        index += count
    return index


@njit(nogil=True, cache=True)
def child_keys(parents, indices, out):
    """out[i] = child(parents[i], indices[i])."""
    for i in range(out.shape[0]):
        out[i] = child(parents[i], indices[i])


@njit(nogil=True, cache=True)
def uniforms(keys, index, out):
    """out[i] = uniform(keys[i], index)."""
    for i in range(out.shape[0]):
        out[i] = uniform(keys[i], index)
