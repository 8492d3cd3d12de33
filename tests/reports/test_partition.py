"""Reports shared out to threads: what is tabulated for some of them is tabulated by one thread only."""

import numpy as np
import pytest
from oracle.distributions import LARGE
from oracle.kinds import KINDS, large

from poolscope.core.errors import InputError
from poolscope.core.executors import Local
from poolscope.core.randomness import children
from poolscope.inference.adversary import Adversary, stacked_pool_weights
from poolscope.population.popularity import zipf
from poolscope.population.universe import Universe
from poolscope.reports.estimators import METHODS
from poolscope.reports.files import masses, sent_masses
from poolscope.reports.frequencies import FrequencyCounter, frequencies

UNIVERSE = Universe.sized(LARGE, {"a": 30, "b": 40})
VIEW, _ = stacked_pool_weights(
    [Adversary.weak(UNIVERSE), Adversary(name="o", universe=UNIVERSE, popularity=zipf(UNIVERSE, 1.0))]
)
OBJECTS, KEYS = np.arange(600) % LARGE, children(np.uint64(5), np.arange(600))
FEW = {"cms": {"hashes": 20}, "hcms": {"hashes": 20}, "rappor": {"cohorts": 20}}


class Watched:
    """A mechanism, and which functions each call of it met."""

    def __init__(self, mechanism):
        self.mechanism, self.met = mechanism, []

    def __getattr__(self, name):
        return getattr(self.mechanism, name)

    def tally(self, reports):
        self.met.append(set(reports[self.shared_column].tolist()))
        return self.mechanism.tally(reports)

    def mass(self, reports, view):
        self.met.append(set(reports[self.shared_column].tolist()))
        return self.mechanism.mass(reports, view)


@pytest.mark.parametrize("name", FEW)
def test_reports_of_a_function_stay_together(name):
    watched = Watched(large(name, **FEW[name]))
    reports = watched.report(OBJECTS, KEYS)
    found = masses(watched, reports, VIEW, Local(threads=3))
    np.testing.assert_array_equal(found, watched.mechanism.mass(reports, VIEW))
    counting = FrequencyCounter(watched, Local(threads=3))
    counting.add(reports)
    np.testing.assert_array_equal(counting.counted[0], watched.mechanism.support_counts(reports))
    for calls in (watched.met[:3], watched.met[3:]):
        assert len(calls) == 3
        assert sum(map(len, calls)) == len(set.union(*calls)) == 20


@pytest.mark.parametrize("name", KINDS)
def test_threads_change_no_bit(name):
    mechanism = large(name)
    reports = mechanism.report(OBJECTS, KEYS)
    whole, engine, ticks = mechanism.mass(reports, VIEW), Local(threads=3), []
    for some in (engine, Local(threads=1)):
        np.testing.assert_array_equal(masses(mechanism, reports, VIEW, some), whole)
    np.testing.assert_array_equal(sent_masses(mechanism, OBJECTS, KEYS, VIEW, engine.map, 5, ticks.append), whole)
    assert sum(ticks) == len(OBJECTS)
    assert len(ticks) > 1


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["cms", "rappor", "channel"])
def test_blocks_and_threads_change_no_estimate(name, method):
    """All at once, or in blocks by threads: the same estimate, and to the bit what the command and the attack see."""
    mechanism = large(name, **FEW.get(name, {}))
    # ten reports cannot tell 130 objects apart, and of many there is no channel
    if (name == "channel") == (method in ("linear", "regression")) and method != "ibu":
        with pytest.raises(InputError, match="channel"):
            FrequencyCounter(mechanism, Local(threads=1), method)
        return
    reports = mechanism.report(OBJECTS, KEYS)
    counting = FrequencyCounter(mechanism, Local(threads=3), method)
    for begin in range(0, 600, 250):
        counting.add({name: column[begin : begin + 250] for name, column in reports.items()})
    found, whole = counting.estimate(), frequencies(mechanism, reports, method)
    assert found.method == whole.method == method
    np.testing.assert_allclose(found.counts, whole.counts, rtol=1e-12, atol=1e-9)
