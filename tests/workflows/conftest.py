"""What every test here would simulate again, and always alike, is simulated once."""

import pickle

import pytest

from poolscope.reports import repeats


@pytest.fixture(scope="session", autouse=True)
def _simulated_once():
    """Keep the simulated reports of a mechanism, which the mechanism and seed 0 decide."""
    kept, samples = {}, repeats._samples

    def simulated(mechanism, count):
        try:
            key = pickle.dumps((mechanism, count))
        except (pickle.PicklingError, AttributeError, TypeError):
            return samples(mechanism, count)
        if key not in kept:
            kept[key] = samples(mechanism, count)
        return kept[key]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(repeats, "_samples", simulated)
        yield
