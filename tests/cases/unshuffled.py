"""Advice without its bounds for a shuffler, which take longer than the rest and have tests of their own."""

from contextlib import contextmanager
from unittest import mock


def stand_in(epsilon, devices, delta, rounds=1):
    """What advice has in place of the bound: a number that depends on all that the bound depends on."""
    return rounds * epsilon * devices * delta


def _of_mechanism(mechanism, devices, delta, *, rounds=1):
    return stand_in(mechanism.epsilon, devices, delta, rounds)


@contextmanager
def unshuffled():
    with mock.patch("poolscope.workflows.advise.advise.shuffle_epsilon_of_mechanism", _of_mechanism):
        yield
