"""Reproduce the paper: its experiments as data, and the runner."""
