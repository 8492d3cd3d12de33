"""Numba functions only: arrays in, out filled, no checks, no options. `compilation` says when they compile."""

from poolscope.kernels.compilation import keep_somewhere

keep_somewhere()
