"""Names as 64 bits: FNV-1a over their bytes, then mixed, as the upper bits of FNV alone hardly differ.

References
----------
G. Fowler, L. C. Noll, K.-P. Vo, D. Eastlake. The FNV non-cryptographic hash algorithm. RFC 9923.
"""

import numpy as np
from numba import njit

from poolscope.kernels.random import word

_OFFSET = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)


@njit(nogil=True, cache=True)
def hash_names(letters, ends, out):
    """out[i] = the hash of the bytes letters[ends[i - 1] : ends[i]]."""
    begin = 0
    for i in range(out.shape[0]):
        found = _OFFSET
        for at in range(begin, ends[i]):
            found = (found ^ np.uint64(letters[at])) * _PRIME
        out[i] = word(found, 0)
        begin = ends[i]
