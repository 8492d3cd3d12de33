"""Random bytes as a game draws them, for a battery of statistical tests: user keys, report keys, words.

    python benchmarks/randomness.py | dieharder -g 200 -d 0

Users follow one another, each with `--reports` reports, each with `--words` words of its stream: neighboring keys stand
side by side, so that a battery sees a correlation between them. Ends when the reader does.
"""

import argparse
import contextlib
import sys
from itertools import count

import numpy as np
from numba import njit

from poolscope.core.randomness import report_keys, user_keys
from poolscope.kernels.random import random_uint64

#: Users whose bytes are written at once.
USERS = 16_384


@njit
def fill(keys, out):
    """out[i, w] = random_uint64(keys[i], w)."""
    for i in range(out.shape[0]):
        for w in range(out.shape[1]):
            out[i, w] = random_uint64(keys[i], w)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reports", type=int, default=4, help="reports of each user")
    parser.add_argument("--words", type=int, default=2, help="words of each report's stream")
    options = parser.parse_args()
    out = np.empty((USERS * options.reports, options.words), dtype=np.uint64)
    with contextlib.suppress(BrokenPipeError):
        for block in count():
            users = user_keys(options.seed, np.arange(block * USERS, (block + 1) * USERS))
            fill(report_keys(users, 0, options.reports).ravel(), out)
            sys.stdout.buffer.write(out)


if __name__ == "__main__":
    main()
