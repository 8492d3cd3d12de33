"""Random numbers from keys, for mechanisms, devices and populations of one's own: the namespace `poolscope.random`.

A key names a stream. The number at an index depends on the key and the index alone, not on how many are drawn.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from poolscope.core.arguments import check_integer
from poolscope.core.arrays import Floats, Integers, Keys
from poolscope.core.randomness import KeyStream, children
from poolscope.kernels import random as kernels

__all__ = ["child_keys", "integers", "normals", "report_keys", "uniforms"]


def __dir__() -> list[str]:
    return __all__


def uniforms(keys: ArrayLike, index: ArrayLike = 0) -> Floats:
    """Return uniform numbers in [0, 1): (keys,) at an index, or (keys, indices) at several.

    Examples
    --------
    >>> keys = np.array([1, 2], dtype=np.uint64)
    >>> ps.random.uniforms(keys, range(3)).shape
    (2, 3)
    """
    streams, indices = np.asarray(keys, dtype=np.uint64), np.asarray(index, dtype=np.int64)
    out = np.empty((*indices.shape, *streams.shape))
    rows, flat = out.reshape(indices.size, streams.size), np.ascontiguousarray(streams.ravel())
    for row, number in zip(rows, indices.ravel(), strict=True):
        kernels.uniforms(flat, int(number), row)
    return np.moveaxis(out, range(indices.ndim), range(-indices.ndim, 0)) if indices.ndim else out


def integers(keys: ArrayLike, index: ArrayLike, high: int) -> Integers:
    """Return integers from 0 to high - 1, uniform up to 2^-53; shapes as of `uniforms`.

    Examples
    --------
    >>> ps.random.integers(np.array([1, 2], dtype=np.uint64), 0, 10).shape
    (2,)
    """
    check_integer("high", high, 1, 1 << 53)
    return (uniforms(keys, index) * high).astype(np.int64)


def normals(keys: ArrayLike, index: ArrayLike = 0) -> Floats:
    """Return standard normal numbers by inversion; shapes as of `uniforms`.

    Examples
    --------
    >>> ps.random.normals(np.array([1, 2], dtype=np.uint64), 0).shape
    (2,)
    """
    # zero would be minus infinity
    out: Floats = special.ndtri(np.maximum(uniforms(keys, index), 2.0**-54))
    return out


def report_keys(users: ArrayLike, event_index: ArrayLike) -> Keys:
    """Return the key of each report of a device, from the key of its user and the number of its event.

    A device draws from these keys or from keys below them. Other keys below a user's are in use: for objects, say.

    Examples
    --------
    >>> ps.random.report_keys(np.array([1, 1], dtype=np.uint64), np.array([0, 1])).shape
    (2,)
    """
    return children(children(np.asarray(users, dtype=np.uint64), KeyStream.REPORTS), np.asarray(event_index))


def child_keys(keys: ArrayLike, index: ArrayLike) -> Keys:
    """Return keys below other keys, whose streams are separate; keys and indices are broadcast.

    Examples
    --------
    >>> ps.random.child_keys(np.array([1, 2], dtype=np.uint64), 7).dtype
    dtype('uint64')
    """
    return children(np.asarray(keys, dtype=np.uint64), np.asarray(index))
