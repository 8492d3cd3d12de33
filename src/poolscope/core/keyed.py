"""Random draws from keys: what a mechanism's ``report(objects, keys)`` needs.

Draw i of a key is the same in every run, on any number of threads and in any order. A draw depends on nothing but its
key and its index, so that a method with several draws gives each an index of its own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from poolscope.core.arguments import is_integer
from poolscope.core.arrays import Floats, Integers, Keys
from poolscope.core.errors import InputError
from poolscope.core.randomness import children
from poolscope.kernels.random import uniforms as fill_uniforms

__all__ = ["child_keys", "integers", "normals", "uniforms"]


def uniforms(keys: Keys, index: int = 0) -> Floats:
    """Return a number in [0, 1) for each key: draw `index` of its stream.

    Examples
    --------
    >>> keys = np.arange(3, dtype=np.uint64)
    >>> draws = ps.random.uniforms(keys)
    >>> bool(np.all(draws == ps.random.uniforms(keys, 0))), bool(np.any(draws == ps.random.uniforms(keys, 1)))
    (True, False)
    """
    keys = _checked(keys, index)
    out = np.empty(keys.size)
    fill_uniforms(keys.ravel(), index, out)
    return out.reshape(keys.shape)


def integers(keys: Keys, index: int, high: ArrayLike) -> Integers:
    """Return a whole number from 0 to high - 1 for each key; `high`, at most 2^53, is one number or one for each key.

    Examples
    --------
    >>> int(ps.random.integers(np.arange(1000, dtype=np.uint64), 0, 6).max())
    5
    """
    limit = np.asarray(high)
    if not np.issubdtype(limit.dtype, np.integer) or np.any(limit < 1) or np.any(limit > 1 << 53):
        raise InputError("must be whole numbers from 1 to 2^53", value=high, place="high")
    # a uniform number has 53 bits: the product rounds up to `high` for none but the largest
    found: Integers = np.minimum((uniforms(keys, index) * limit).astype(np.int64), limit - 1)
    return found


def normals(keys: Keys, index: int = 0) -> Floats:
    """Return a standard normal number for each key: the normal quantile of draw `index`.

    Examples
    --------
    >>> draws = ps.random.normals(np.arange(10_000, dtype=np.uint64))
    >>> bool(abs(draws.mean()) < 0.04)
    True
    """
    # half a step up, so that a draw of 0 is not minus infinity
    found: Floats = special.ndtri(uniforms(keys, index) + 2.0**-54)
    return found


def child_keys(keys: Keys, index: int) -> Keys:
    """Return a key for each key, with a stream of its own: for a method that calls another one.

    Examples
    --------
    >>> keys = np.arange(3, dtype=np.uint64)
    >>> bool(np.any(ps.random.child_keys(keys, 0) == ps.random.child_keys(keys, 1)))
    False
    """
    return children(_checked(keys, index), index)


def _checked(keys: Keys, index: int) -> Keys:
    found = np.ascontiguousarray(keys)
    if found.dtype != np.uint64:
        raise InputError("keys must be unsigned integers of 64 bits", value=str(found.dtype), place="keys")
    if not is_integer(index) or index < 0:
        raise InputError("must be a whole number of at least 0", value=index, place="index")
    return found


def __dir__() -> list[str]:
    return __all__
