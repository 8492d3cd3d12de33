"""Which parameters of a test run by default."""

import pytest


def mostly(mark, values, *default):
    """Return the values as parameters, all of them with the mark but the default ones, which must be among them."""
    values = list(values)
    assert default
    assert set(default) <= set(values)
    return [value if value in default else _marked(value, mark) for value in values]


def _marked(value, mark):
    return pytest.param(*value, marks=mark) if isinstance(value, tuple) else pytest.param(value, marks=mark)


slow, statistical = pytest.mark.slow, pytest.mark.statistical
