"""Simulate once what every test here would simulate again, and always alike."""

import pickle

import pytest

from poolscope.reports import repeats

_KEPT = {}


@pytest.fixture(scope="module", autouse=True)
def _simulated_once():
    """Keep the simulated reports of a mechanism of the package, which the mechanism and seed 0 decide."""
    samples = repeats._samples

    def simulated(mechanism, count):
        kind = type(mechanism)
        if not kind.__module__.startswith("poolscope."):
            return samples(mechanism, count)
        try:
            # with its function, which a test may have replaced
            key = kind.report, pickle.dumps((mechanism, count))
        except (pickle.PicklingError, AttributeError, TypeError):
            return samples(mechanism, count)
        if key not in _KEPT:
            _KEPT[key] = samples(mechanism, count)
        return _KEPT[key]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(repeats, "_samples", simulated)
        yield
