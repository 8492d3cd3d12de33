"""Kernels that only kernels call, as functions that a test can call."""

from functools import cache

from numba import njit


@cache
def entry(kernel):
    """Return a kernel that has no entry for Python with one; a direct call would crash."""

    @njit
    def call(*arguments):
        return kernel(*arguments)

    return call
