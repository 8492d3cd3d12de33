"""Advice without its bounds for a shuffler, which take longer than the rest and have tests of their own."""

from contextlib import contextmanager
from unittest import mock

#: What one report has in place of the bound.
SHUFFLED = 0.125


def _shuffled(mechanism, devices, delta, *, rounds=1):
    return SHUFFLED * rounds


@contextmanager
def unshuffled():
    with mock.patch("poolscope.workflows.advise.advise.shuffle_epsilon_of_mechanism", _shuffled):
        yield
