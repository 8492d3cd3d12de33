"""Numba functions only: arrays in, out filled, no checks, no options."""

from poolscope.kernels.compiling import keep_somewhere

keep_somewhere()
