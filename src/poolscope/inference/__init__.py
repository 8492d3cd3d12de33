"""Belief to posterior to guess."""
