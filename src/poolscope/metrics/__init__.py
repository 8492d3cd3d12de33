"""Outcomes to numbers with intervals."""
