"""Who sent what, without a list of all users: a user is the hash of its name.

The hash is the same wherever and whenever a name is read. It says in which crowd a user is, where in the output, and
how ties between pools are broken. Two names of one hash are two users all the same: names are compared wherever rows
are brought together.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from poolscope.core.arrays import Integers, Keys
from poolscope.core.tables.batch import copied
from poolscope.kernels.hashing import hash_names


def name_hashes(names: pl.Series) -> Keys:
    """64 bits of each name, from its UTF-8 bytes; an integer is called by its decimal digits, as CSV would have it."""
    out, begin = np.empty(len(names), dtype=np.uint64), 0
    for some in copied(names.cast(pl.String)):
        letters = np.frombuffer(some.str.join("").item().encode(), dtype=np.uint8)
        ends = np.cumsum(some.str.len_bytes().to_numpy(), dtype=np.int64)
        hash_names(letters, ends, out[begin : begin + len(some)])
        begin += len(some)
    return out


def together(names: pl.Series, hashes: Keys) -> tuple[Integers, Integers]:
    """The entries in the order of their users (by hash, then name), those of a user in their own order.

    Returns
    -------
    order : (entries,).
    starts : (users,) where in it each user begins.
    """
    order = np.argsort(hashes, kind="stable")
    starts = _changes(names.gather(order))
    if len(starts) > 1 + np.count_nonzero(np.diff(hashes[order])):
        # two names of one hash
        by_name = pl.DataFrame({"hash": hashes, "name": names}).with_row_index()
        order = by_name.sort("hash", "name", maintain_order=True)["index"].to_numpy().astype(np.int64)
        starts = _changes(names.gather(order))
    return order, starts


def _changes(names: pl.Series) -> Integers:
    """Where a name differs from the one before."""
    return np.flatnonzero((names != names.shift()).fill_null(True).to_numpy())
