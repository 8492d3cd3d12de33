"""Numba functions only: arrays in, out filled, no checks, no options."""
