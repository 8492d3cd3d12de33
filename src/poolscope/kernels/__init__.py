"""Numba functions only: arrays in, out filled, no checks, no options. `compilation` says when they compile."""

from poolscope.kernels.compilation import ensure_cache_dir

ensure_cache_dir()
