"""Devices: which one sends a mechanism's reports, and what it sends; memoized ones are in tests/inference."""

import subprocess
import sys

import numpy as np
import pytest
from cases.memoized import traces_of

from poolscope.core.randomness import report_keys
from poolscope.mechanisms import CMS, GRR, Device, Fresh, Memoized, MemoizedRappor, Rappor, adapt, device_of, reports_of

CMS = CMS(universe=60, epsilon=3.0, m=32, hashes=100)
RAPPOR = Rappor(universe=60, m=32, hashes=2, cohorts=4, f=0.25, p=0.1, q=0.9)


@pytest.mark.parametrize(
    ("mechanism", "memoize", "kind"),
    [(CMS, False, Fresh), (CMS, True, Memoized), (RAPPOR, False, Fresh), (RAPPOR, True, MemoizedRappor)],
)
def test_a_device_for_every_mechanism(mechanism, memoize, kind):
    device = device_of(mechanism, memoize=memoize)
    assert type(device) is kind
    assert isinstance(device, Device)
    assert device.mechanism is mechanism


@pytest.mark.slow
def test_the_device_does_not_depend_on_imports():
    """A process that has asked for nothing else gives mechanisms of two steps their devices."""
    code = "import poolscope as ps; print(type(ps.mechanisms.device_of(ps.mechanisms.LGRR(universe=9, epsilon=1.0))))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "MemoizedResponse" in run.stdout


def test_a_mechanism_is_no_device():
    class Own:
        def obfuscate(self, objects, rng):
            return objects

        def log_likelihood(self, reports):
            return np.log(np.eye(60)[reports] + 1e-9)

    assert not isinstance(CMS, Device)
    assert not isinstance(adapt(Own(), 60), Device), "though it has a mechanism of its own"


@pytest.mark.parametrize("mechanism", [CMS, RAPPOR, GRR(universe=60, epsilon=1.0)])
def test_fresh_reports_have_keys_of_their_own(mechanism):
    keys, _, traces = traces_of(20, 30)
    expected = mechanism.report(traces.ravel(), report_keys(keys, 0, 30).ravel())
    found = reports_of(Fresh(mechanism), traces, keys)
    assert found.keys() == expected.keys()
    for name, column in expected.items():
        np.testing.assert_array_equal(found[name], column)


@pytest.mark.parametrize("memoize", [False, True])
@pytest.mark.parametrize("mechanism", [CMS, RAPPOR], ids=["cms", "rappor"])
def test_a_report_depends_on_its_object_user_and_place_alone(mechanism, memoize):
    device = device_of(mechanism, memoize=memoize)
    keys, _, traces = traces_of(20, 30)
    whole = reports_of(device, traces, keys)
    some = np.random.default_rng(1).permutation(600)[:100]
    part = device.send(traces.ravel()[some], np.repeat(keys, 30)[some], np.tile(np.arange(30), 20)[some])
    for name, column in part.items():
        np.testing.assert_array_equal(column, whole[name][some])
