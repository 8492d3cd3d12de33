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
    "child",
    "child_keys",
    "trailing_zeros",
    "uniform",
    "uniforms",
    "word",
]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
BRANCH = np.uint64(0xD1B54A32D192ED03)

#: A state becomes a word by two shifts and multiplications and a last shift.
MIXERS, LAST_SHIFT = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)), 31

(_S30, _M1), (_S27, _M2) = ((np.uint64(shift), np.uint64(factor)) for shift, factor in MIXERS)
_S31, _S11, _ONE = np.uint64(LAST_SHIFT), np.uint64(11), np.uint64(1)


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
